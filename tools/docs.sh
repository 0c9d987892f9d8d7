#!/usr/bin/env bash
# Writes the API reference into FOLDER/html with Doxygen, whose warnings are errors. usage: tools/docs.sh FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=$(sed -n 's/^project(raggedvit VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
sed -e "s|@PROJECT_VERSION@|$version|" -e "s|@RVIT_DOCS_SOURCE@|$PWD|" -e "s|@RVIT_DOCS_OUTPUT@|$out|" docs/Doxyfile.in >"$out/Doxyfile"
doxygen "$out/Doxyfile"
