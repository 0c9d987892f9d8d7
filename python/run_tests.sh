#!/usr/bin/env bash
# Runs the package's tests on a library. Exits 77, with the reason, where they cannot run.
#
#   python/run_tests.sh LIBRARY [ARGUMENTS OF UNITTEST]             with the first of $RVIT_PYTHON, python3, /usr/bin/python3 that has numpy
#   python/run_tests.sh --torch [LIBRARY] [ARGUMENTS OF UNITTEST]   with PyTorch, timm, transformers and mypy: by $RVIT_TEST_PYTHON, or in
#                                                                   the venv build/python-torch, made if it is not there (PyPI, 2.5 GB)
#   python/run_tests.sh --if-torch LIBRARY [ARGUMENTS OF UNITTEST]  the same, but nothing is installed
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
venv=$here/../build/python-torch
skip() { echo "skipped: $1"; exit 77; }
has() { "$1" -c "import sys, $2; assert sys.version_info >= (3, 10)" 2>/dev/null; }

pythons=${RVIT_PYTHON:-python3 /usr/bin/python3} modules=numpy
lacks="no Python 3.10 with numpy here (Debian: python3-numpy)"
case ${1:-} in
--torch | --if-torch)
    pythons=${RVIT_TEST_PYTHON:-$venv/bin/python} modules="numpy, torch"
    lacks="$pythons has no PyTorch (python/run_tests.sh --torch makes one that has; RVIT_TEST_PYTHON names another)"
    if [ "$1" = --torch ] && [ -z "${RVIT_TEST_PYTHON:-}" ] && [ ! -e "$venv/complete" ]; then
        "${RVIT_PYTHON:-python3}" -m venv "$venv"
        "$venv/bin/pip" install --quiet --disable-pip-version-check numpy torch timm 'transformers>=5.23,<5.24' mypy scikit-build-core
        touch "$venv/complete"
    fi
    shift
    [ $# -gt 0 ] || set -- "$here/../build/release/libraggedvit.so"
    ;;
'') sed -n '2,7s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
library=$(realpath "$1")
shift

if grep -qaE '__(asan|tsan)_init' "$library"; then
    skip "the library has a sanitizer in it, which an interpreter without one cannot load"
fi
[ -e "$(dirname "$library")/_core.abi3.so" ] || ls "$here"/raggedvit/_core.*.so >/dev/null 2>&1 ||
    skip "the compiled core (target raggedvit_python_core) is neither beside the library nor in the package"
for python in $pythons ''; do
    [ -n "$python" ] || skip "$lacks"
    ! has "$python" "$modules" || break
done
cd "$here/tests"
RAGGEDVIT_LIBRARY=$library PYTHONDONTWRITEBYTECODE=1 exec "$python" -m unittest "${@:--v}"
