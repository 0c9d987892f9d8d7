#!/usr/bin/env bash
# The reference from the headers into FOLDER/html (tools/docs.sh FOLDER); any warning of Doxygen's is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1"
out=$(cd "$1" && pwd)
version=$(sed -n 's/^project(raggedvit VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
sed -e "s|@PROJECT_VERSION@|$version|" -e "s|@RVIT_DOCS_SOURCE@|$PWD|" -e "s|@RVIT_DOCS_OUTPUT@|$out|" docs/Doxyfile.in >"$out/Doxyfile"
doxygen "$out/Doxyfile"
