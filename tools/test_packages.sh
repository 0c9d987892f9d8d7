#!/usr/bin/env bash
# Tests the packages in bare Debian systems; needs root, debootstrap and some minutes. usage: tools/test_packages.sh [FOLDER [SUITE...]]
# FOLDER (dist) has what tools/release.sh makes; the suites are by default bookworm and trixie. Each way to install ends with a
# classification of examples/data/chelsea.png: the Debian packages, also linked by a program; the wheel; the sdist; conan create. What is
# not in FOLDER fails. RVIT_CHANNELS names those to try (default: deb wheel sdist conan).
set -euo pipefail
[ -n "${RVIT_UNSHARED:-}" ] || RVIT_UNSHARED=1 exec unshare --mount --propagation private bash "$0" "$@"
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/tools/userland.sh"
folder=$(realpath "${1:-$root/dist}")
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- bookworm trixie
work=$(mktemp -d)
trap 'umount -R "$work"/*/proc 2>/dev/null || true; rm -rf --one-file-system "$work"' EXIT
summary=()
bad=0

python_check='import sys, raggedvit
model = raggedvit.Model("/given/data/deit_tiny_cifar10.safetensors", "cpu")
logits = model.classify(["/given/data/chelsea.png"], raggedvit.Policy("l2", keep=0.5)).logits
assert logits[0].argmax() == 3, logits  # cat
print(raggedvit.__version__, "of", raggedvit.__file__, "on Python", sys.version.split()[0], "says cat")'

# The commands of each channel, run in the system.
apt='set -eu; apt-get -qq update; get() { apt-get -qq install -y --no-install-recommends "$@" >/dev/null; }; cd /given'
deb='get ./libraggedvit0.4_*.deb ./raggedvit_*.deb ./python3-raggedvit_*.deb python3-pil
    raggedvit classify data/deit_tiny_cifar10.safetensors data/chelsea.png --backend cpu --top 1 --prune l2 --keep 0.5 | tee log
    grep -qw cat log
    cd /; python3 -c "$CHECK"; cd /given
    get ./libraggedvit-dev_*.deb gcc libc6-dev libpng-dev pkgconf
    gcc classify.c -o classify $(pkg-config --cflags --libs raggedvit libpng) -lm
    ./classify data/deit_tiny_cifar10.safetensors data/chelsea.png 3'
wheel='get python3-venv; python3 -m venv wheel; wheel/bin/pip install -q pillow ./raggedvit-*-manylinux_2_28_x86_64.whl
    wheel/bin/python -c "$CHECK"'
# With the headers of libraries that other parts of the source use.
sdist='get python3-venv python3-dev gcc cmake ninja-build pkg-config libjpeg-dev libpng-dev libjansson-dev
    get libvulkan-dev libvulkan-volk-dev glslang-tools
    python3 -m venv sdist; sdist/bin/pip install -q pillow ./raggedvit-[0-9.]*[0-9].tar.gz; sdist/bin/python -c "$CHECK"'
conan='get python3-venv gcc g++ cmake make pkg-config libpng-dev libvulkan-dev libvulkan-volk-dev glslang-tools
    python3 -m venv conan; conan/bin/pip install -q conan; conan/bin/conan profile detect
    tar -xzf raggedvit-*-source.tar.gz; conan/bin/conan create raggedvit-*/packaging/conan -o "&:shared=True" -o "&:vulkan=True"'

for suite; do
    system=$work/$suite
    echo "== $suite"
    make_userland "$suite" "$system" >"$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
    mkdir -p "$system/given"
    cp -r "$root/examples/data" "$root/examples/classify.c" "$system/given/"
    cp "$folder"/*.deb "$folder"/*.whl "$folder"/raggedvit-*.tar.gz "$system/given/" 2>/dev/null || true
    for channel in ${RVIT_CHANNELS:-deb wheel sdist conan}; do
        began=$SECONDS verdict=passed
        in_userland "$system" env CHECK="$python_check" sh -c "$apt; ${!channel}" >"$work/log" 2>&1 || verdict=FAILED bad=1
        [ $verdict = passed ] || tail -30 "$work/log"
        summary+=("$verdict  $suite $channel ($((SECONDS - began)) s): $(grep -E 'says cat|tokens: class 3' "$work/log" | tail -1 || true)")
        echo "${summary[-1]}"
    done
done
echo
printf '%s\n' "${summary[@]}"
exit $bad
