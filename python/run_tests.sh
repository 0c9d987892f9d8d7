#!/usr/bin/env bash
# Runs the package's tests on a library: python/run_tests.sh LIBRARY [unittest arguments]. Exits 77, with the reason, where they cannot run.
# RVIT_PYTHON names the interpreter; else the first of python3 and /usr/bin/python3 that has numpy.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
library=$(realpath "$1")
shift
skip() { echo "skipped: $1"; exit 77; }

if grep -qaE '__(asan|tsan)_init' "$library"; then
    skip "the library has a sanitizer in it, which an interpreter without one cannot load"
fi
[ -e "$(dirname "$library")/_core.abi3.so" ] || ls "$here"/raggedvit/_core.*.so >/dev/null 2>&1 ||
    skip "the compiled core (target raggedvit_python_core) is neither beside the library nor in the package"
for python in ${RVIT_PYTHON:-python3 /usr/bin/python3} ''; do
    [ -n "$python" ] || skip "no Python with numpy here (Debian: python3-numpy)"
    ! "$python" -c 'import sys, numpy; assert sys.version_info >= (3, 10)' 2>/dev/null || break
done
cd "$here/tests"
RAGGEDVIT_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 exec "$python" -m unittest "${@:--v}"
