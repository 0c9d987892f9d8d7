#!/usr/bin/env bash
# Tests a wheel in systems that have only Python; needs root. usage: tools/test_wheel_userlands.sh WHEEL [USERLAND...]
# A USERLAND is a Debian suite (default: bookworm and trixie), which debootstrap sets up with python3-venv, or the path of a Python
# interpreter of this machine. Each gets a venv with the wheel and numpy and runs the package's tests without the source.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2,4s/^# //p' "$0"; exit 2; }
# Run in a new mount namespace, so that all mounts end with this script.
[ -n "${RVIT_UNSHARED:-}" ] || RVIT_UNSHARED=1 exec unshare --mount --propagation private bash "$0" "$@"

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/userland.sh"
wheel=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- bookworm trixie
work=$(mktemp -d)
trap 'umount -R "$work"/*/proc 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
summary=()
bad=0

# give FOLDER VERSION: copies the wheel, numpy for this Python version, the tests and their data
give() {
    local folder=$1 version=$2 platform
    mkdir -p "$folder"/{wheels,python,examples}
    cp "$wheel" "$folder/wheels/"
    cp -r "$root/python/tests" "$folder/python/"
    cp -r "$root/examples/data" "$folder/examples/"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --implementation cp \
        --python-version "$version" --abi "cp${version/./}" --dest "$folder/wheels" \
        $(for platform in 2_28 2_27 2_17 2014; do echo "--platform manylinux${platform/#2_/_2_}_x86_64"; done) numpy
}

# The commands that run in the folder.
inside='set -eu; cd "$1"; "$2" -m venv venv; venv/bin/pip install --quiet --no-index --find-links wheels raggedvit
    venv/bin/python -c "import platform, sys, numpy, raggedvit
print(sys.version.split()[0], *platform.libc_ver(), \"numpy\", numpy.__version__, \"raggedvit\", raggedvit.__version__)
print([(d.backend, d.index, d.name or d.note) for d in raggedvit.devices()])"
    cd python/tests; PYTHONDONTWRITEBYTECODE=1 "$1/venv/bin/python" -m unittest 2>&1'

for userland; do
    echo "== $userland"
    name=${userland//\//_}
    log=$work/$name.log
    code=0
    if [ -x "$userland" ]; then
        give "$work/$name" "$("$userland" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
        env -u RAGGEDVIT_LIBRARY -u PYTHONPATH sh -c "$inside" sh "$work/$name" "$userland" >"$log" 2>&1 || code=$?
    else
        make_userland "$userland" "$work/$name" python3-venv >"$log" 2>&1 || code=$?
        if [ $code = 0 ]; then
            give "$work/$name/given" "$(chroot "$work/$name" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
            in_userland "$work/$name" sh -c "$inside" sh /given python3 >"$log" 2>&1 || code=$?
        fi
    fi
    [ $code = 0 ] || bad=1
    tail -n "$([ $code = 0 ] && echo 12 || echo 60)" "$log"
    summary+=("$([ $code = 0 ] && echo passed || echo FAILED)  $userland: $(grep -E '^(Ran|OK|FAILED)' "$log" | paste -sd ' ')")
done
echo
printf '%s\n' "${summary[@]}"
exit $bad
