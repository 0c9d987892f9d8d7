#!/bin/sh
# usage: server_test.sh SOURCE_DIR BUILD_DIR SERVER_DIR
# Tests the backend in a real Triton server, over HTTP on the loopback interface. Skips with the reason if something is missing, or fails
# if RVIT_NEED_TRITON_SERVER=1.
set -eu
source=$1 build=$2 server=$3
skip() {
    echo "skipped: $1"
    [ "${RVIT_NEED_TRITON_SERVER:-}" = 1 ] && exit 1
    exit 77
}
library=$build/serving/backends/raggedvit/libtriton_raggedvit.so
[ -x "$server/pytriton/tritonserver/bin/tritonserver" ] ||
    skip "no server; 'tools/triton_server.sh fetch $server' unpacks one (it needs pip's index)"
! grep -qaE '__(asan|tsan)_init' "$library" ||
    skip "the backend has a sanitizer in it, which a server without one cannot load (tests/serving/faults.py runs it so)"
for python in ${RVIT_PYTHON:-python3 /usr/bin/python3} ''; do
    [ -n "$python" ] || skip "no Python 3.10 with numpy here (Debian: python3-numpy)"
    ! "$python" -c "import sys, numpy; assert sys.version_info >= (3, 10)" 2>/dev/null || break
done
PYTHONDONTWRITEBYTECODE=1 exec "$python" "$source/tests/serving/server_test.py" --source "$source" --build "$build" --server "$server"
