#!/usr/bin/env bash
# Draws figures as SVG. Needs python3 and gnuplot (Debian: gnuplot-nox).
#
# usage: bench/plots.sh                        redraws the figures in bench/results from the reports there
#        bench/plots.sh FOLDER REPORT.json...  draws every figure that the reports have the data for into FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/results}"
folder=$(cd "${1:-$here/results}" && pwd)
shift || true
scripts=$(mktemp -d)
trap 'rm -rf "$scripts"' EXIT
python3 -B "$here/plots.py" "$scripts" "$@"
cd "$folder"
n=0
for script in "$scripts"/*.gp; do
    [ -e "$script" ] || { echo "plots: no report has the data for a figure" >&2; exit 1; }
    gnuplot "$script"
    n=$((n + 1))
done
echo "plots: $n figures in $folder"
