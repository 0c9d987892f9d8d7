#!/usr/bin/env bash
# Builds the library for a wheel and packs it: python/build_wheel.sh [FOLDER] (dist). Further options for cmake come from $configure. Needs
# what a build needs (tools/setup.sh installs it); the result is tried before it is named.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "${1:-$root/dist}")
build=$root/build/wheel
cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF -DRVIT_BENCH=OFF \
    -DCMAKE_BUILD_WITH_INSTALL_RPATH=ON '-DCMAKE_INSTALL_RPATH=$ORIGIN' ${configure:-} >/dev/null
cmake --build "$build" --target raggedvit | sed '/^\[[0-9]*\/[0-9]*\] /d' >&2
strip "$build/libraggedvit.so.0"
wheel=$(python3 -B "$root/python/pack_wheel.py" "$build/libraggedvit.so.0" "$folder")

trial=$(mktemp -d)
trap 'rm -rf "$trial"' EXIT
python3 -m zipfile -e "$wheel" "$trial"
sh "$root/tests/check_runpath.sh" "$trial" >&2
elsewhere=$(ldd "$trial/raggedvit/libraggedvit.so.0" | grep -vE "linux-vdso|ld-linux|lib(c|m|dl|pthread|rt|gcc_s)\.so|=> $trial/" || true)
[ -z "$elsewhere" ] || { echo "The library in the wheel takes these from the system: $elsewhere" >&2; exit 1; }
echo "$wheel"
