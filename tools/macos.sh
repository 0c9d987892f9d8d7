#!/usr/bin/env bash
# Cross-compiles and links the library (CPU and Vulkan), the examples and the core of the Python package for macOS on Apple silicon, and
# checks what they export and load. Nothing runs: there is no emulator for macOS. Installs what it needs on Debian; the headers of the
# system come from PyPI's ziglang.
#   tools/macos.sh [FOLDER]       FOLDER: build/macos
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(realpath -m "${1:-$root/build/macos}")
fail() { echo "macos.sh: $*" >&2; exit 1; }
. "$root/tools/packages.sh"
install_packages clang-19 lld-19 llvm-19 libvulkan-dev libvulkan-volk-dev glslang-tools cmake ninja-build python3-dev python3-venv >&2

sdk=$work/sdk
if [ ! -f "$sdk/complete" ]; then
    rm -rf "$work"
    mkdir -p "$sdk/usr/lib" "$work/vulkan"
    python3 -m venv "$work/venv" || fail "no venv can be made (Debian: python3-venv)"
    "$work/venv/bin/pip" -q --disable-pip-version-check install ziglang==0.17.1
    libc=$("$work/venv/bin/python" -c 'import os, ziglang; print(os.path.dirname(ziglang.__file__) + "/lib/libc")')
    cp -r "$libc/include/any-darwin-any" "$sdk/usr/include"
    # lld 19 wants the name of the plain architecture and does not know the newest one.
    for library in System m pthread dl; do
        sed 's/arm64e\.x1-/arm64-/g' "$libc/darwin/libSystem.tbd" > "$sdk/usr/lib/lib$library.tbd"
    done
    rm -rf "$work/venv"
    for file in vulkan vk_video volk.h volk.c; do
        ln -s /usr/include/$file "$work/vulkan/"
    done
    touch "$sdk/complete"
fi

python=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
export SDKROOT=$sdk
cmake -S "$root" -B "$work/build" -G Ninja --toolchain "$root/cmake/toolchains/macos-arm64.cmake" \
    -DCMAKE_BUILD_TYPE=Release -DRVIT_WERROR=ON -DRVIT_VULKAN=ON -DRVIT_CUDA=OFF -DRVIT_TOOLS=OFF -DRVIT_BENCH=OFF -DRVIT_TESTS=OFF \
    -DRVIT_TRITON=OFF -DRVIT_PYTHON=ON -DPython_INCLUDE_DIR="$python" -DPython_EXECUTABLE="$(command -v python3)" \
    -DRVIT_VULKAN_INCLUDE="$work/vulkan" -DRVIT_VOLK_INCLUDE="$work/vulkan" > "$work/log" || { tail -20 "$work/log" >&2; exit 1; }
ninja -C "$work/build" ${JOBS:+-j "$JOBS"} > "$work/log" || { tail -40 "$work/log" >&2; exit 1; }

cd "$work/build"
library=$(echo libraggedvit.*.*.*.dylib)
"$root/tools/abi.sh" exports "$work/build/$library" >&2
llvm-objdump-19 --macho --dylib-id "$library" | grep -q '^@rpath/libraggedvit\.[0-9]*\.[0-9]*\.dylib' ||
    fail "$library has no @rpath in its name"
loads=$(llvm-objdump-19 --macho --dylibs-used "$library" examples/devices _core.abi3.so |
    grep -E '^\s' | grep -vE '/usr/lib/libSystem|@rpath/libraggedvit' || true)
[ -z "$loads" ] || fail "libraries are loaded that a Mac lacks: $loads"
[ "$(llvm-nm-19 -gU _core.abi3.so | grep -v ' ___dso_handle\| __mh_')" = "$(llvm-nm-19 -gU _core.abi3.so | grep ' _PyInit__core$')" ] ||
    fail "_core.abi3.so exports other names than PyInit__core"
echo "macOS: $work/build/$library is linked, in $SECONDS seconds; it was not run"
