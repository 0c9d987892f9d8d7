#!/usr/bin/env bash
# Unpacks Triton Inference Server into a folder, for the tests and benchmarks of the backend (serving/triton). The server comes from the
# wheel of the Python package nvidia-pytriton; nothing is installed. Needs x86-64, the glibc of Debian 12 or later, and python3 with pip or
# venv, but no root, GPU or container.
#   triton_server.sh fetch DIR            fill DIR: downloads 55 MB from PyPI, 145 MB unpacked
#   triton_server.sh run DIR ARGS...      run the server, on 127.0.0.1 unless ARGS set other addresses
set -euo pipefail

usage() { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
fail() { echo "triton_server.sh: $1" >&2; exit 1; }
[ $# -ge 2 ] || usage
action=$1 dir=$2
shift 2
package=nvidia-pytriton version=0.7.0 release="2.51.0 (24.10)"
sha256=21f063ff93bb426d0c06b7a55e7eb9efcfe62c0dddd9a908e9877e18710128df
server=$dir/pytriton/tritonserver/bin/tritonserver

fetch() {
    [ "$(uname -sm)" = "Linux x86_64" ] || fail "the packaged server is for Linux on x86-64; this is $(uname -sm)"
    command -v python3 >/dev/null || fail "python3 is not installed (Debian: python3-venv)"
    [ ! -e "$dir" ] || [ -e "$dir/pytriton" ] || fail "$dir exists and is not a server, so it is not replaced"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    local pip=(python3 -m pip)
    if ! "${pip[@]}" --version >/dev/null 2>&1; then
        python3 -m venv "$work/venv" >"$work/log" 2>&1 ||
            fail "neither pip nor venv works with $(command -v python3) (Debian: python3-venv)"
        pip=("$work/venv/bin/python" -m pip)
    fi
    # pip rejects files with another checksum.
    echo "$package==$version --hash=sha256:$sha256" >"$work/requirements.txt"
    "${pip[@]}" --disable-pip-version-check download --quiet --no-deps --only-binary :all: --require-hashes --retries 1 --timeout 20 \
        --dest "$work" --requirement "$work/requirements.txt" || fail "pip cannot download $package $version (see above)"
    mkdir "$work/server"
    python3 -m zipfile -e "$work"/*.whl "$work/server" # does not set permissions
    chmod +x "$work/server/pytriton/tritonserver/bin/tritonserver"
    # After printing its help, it exits with 1.
    "$work/server/pytriton/tritonserver/bin/tritonserver" --help >"$work/log" 2>&1 || grep -q '^Usage: tritonserver' "$work/log" ||
        fail "the server of $package $version does not start here: $(head -n 1 "$work/log")"
    rm -rf "$dir"
    mkdir -p "$(dirname "$dir")"
    mv "$work/server" "$dir"
    echo "$package $version, sha256 $sha256: tritonserver $release unpacked into $dir"
}

case $action in
    fetch) fetch ;;
    run)
        [ -x "$server" ] || fail "no server at $server: 'tools/triton_server.sh fetch $dir' unpacks one"
        exec "$server" --http-address=127.0.0.1 --grpc-address=127.0.0.1 "$@" ;;
    *) usage ;;
esac
