#!/usr/bin/env bash
# usage: windows.sh [build] [test] [zip]     without arguments: all three
# build: cross-compiles the library, the tool and the examples for Windows x64 into build/windows/prefix, on Debian 12, and installs what it
#        needs for that. RVIT_WINDOWS_OPTIONS: further options for cmake, such as -DRVIT_CUDA=ON (compiles the kernels, for minutes).
# test:  checks the files, and runs tests/windows.sh under wine. RVIT_LINUX_TOOLS: a build of tools/ for this machine to compare with; by
#        default build/release/tools, which it builds if it is missing.
# zip:   makes build/windows/raggedvit-VERSION-windows-x86_64.zip.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
work=$PWD/build/windows
prefix=$work/prefix
fail() { echo "windows.sh: $*" >&2; exit 1; }
steps=${*:-build test zip}

build() {
    install_packages clang-19 lld-19 llvm-19 gcc-mingw-w64-x86-64-win32 mingw-w64-x86-64-dev mingw-w64-common libz-mingw-w64-dev nasm \
        dpkg-dev cmake ninja-build pkg-config libvulkan-dev libvulkan-volk-dev glslang-tools python3
    tools/windows_libraries.sh "$work/libraries"
    local log=$work/build.log
    # shellcheck disable=SC2086
    PKG_CONFIG_LIBDIR=$work/libraries/lib/pkgconfig cmake -S . -B "$work/release" -G Ninja -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/windows-x86_64.cmake" -DRVIT_WINDOWS_LIBRARIES="$work/libraries" \
        -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR:STRING=lib -DRVIT_WERROR=ON -DRVIT_VULKAN=ON -DRVIT_CUDA=OFF \
        -DRVIT_TESTS=OFF -DRVIT_BENCH=OFF -DRVIT_PYTHON=OFF -DRVIT_TRITON=OFF ${RVIT_WINDOWS_OPTIONS:-} >"$log" 2>&1 ||
        { tail -20 "$log" >&2; fail "cmake fails (the whole log: $log)"; }
    grep -E '^-- (raggedvit|CUDA)' "$log"
    ninja -C "$work/release" ${JOBS:+-j "$JOBS"} >"$log" 2>&1 ||
        { grep -A20 FAILED "$log" | head -40 >&2; fail "it does not build (the whole log: $log)"; }
    rm -rf "$prefix"
    cmake --install "$work/release" >"$log"
    # Of the archive every other compiler would need MinGW's libraries: the DLL is for all.
    rm "$prefix"/lib/libraggedvit.a "$prefix"/lib/cmake/raggedvit/raggedvit-static-targets*.cmake
    cp "$prefix/lib/libraggedvit.dll.a" "$prefix/lib/raggedvit.lib" # the same format; link.exe looks for this name
    mkdir -p "$prefix/share/doc/raggedvit/licences"
    cp "$work"/libraries/licences/* "$prefix/share/doc/raggedvit/licences"
    llvm-strip-19 "$prefix"/bin/raggedvit.{dll,exe}
}

# What the files need and offer.
check_files() {
    local found wanted='KERNEL32.dll msvcrt.dll SHELL32.dll raggedvit.dll'
    for found in $(llvm-objdump-19 -p "$prefix"/bin/raggedvit.{dll,exe} | sed -n 's/.*DLL Name: //p'); do
        [[ " $wanted " == *" $found "* ]] || fail "$found is needed, which is not a DLL of every Windows"
    done
    tools/abi.sh exports "$prefix/bin/raggedvit.dll"
    # As compilers with Microsoft's ABI see it; they have no headers here but clang's own, so that only those of C can be included.
    local flags="--target=x86_64-pc-windows-msvc -ffreestanding -nostdlibinc"
    mkdir -p "$work/msvc"
    for compiler in clang clang++; do
        printf '#!/bin/sh\nexec %s-19 %s "$@"\n' $compiler "$flags" >"$work/msvc/$compiler"
        chmod +x "$work/msvc/$compiler"
    done
    sh tests/check_headers.sh "$work/msvc/clang" "$work/msvc/clang++" "$prefix/include"
    printf '#include <raggedvit/raggedvit.h>\nint start(void) { return rvit_version()[0] == 0; }\n' >"$work/msvc/version.c"
    "$work/msvc/clang" -I"$prefix/include" -c "$work/msvc/version.c" -o "$work/msvc/version.obj"
    lld-link-19 /nologo /nodefaultlib /subsystem:console /entry:start /out:"$prefix/bin/msvc_version.exe" "$work/msvc/version.obj" \
        "$prefix/lib/raggedvit.lib"
}

run_tests() {
    install_packages wine64 xvfb mesa-vulkan-drivers libvulkan1 python3 llvm-19 clang-19 lld-19
    [ -e "$prefix/bin/raggedvit.exe" ] || fail "nothing is built: windows.sh build"
    local tools=${RVIT_LINUX_TOOLS:-$PWD/build/release/tools}
    if [ ! -x "$tools/raggedvit" ]; then
        (configure="-DRVIT_CUDA=OFF" targets="raggedvit_cli json_get raw_pixels" && . tools/setup.sh libcmocka-dev)
    fi
    check_files
    bash tests/windows.sh "$prefix" "$work/release/examples" "$tools" "$work"
    rm "$prefix/bin/msvc_version.exe"
}

make_zip() {
    install_packages zip
    local version name
    version=$(sed -nE 's/^project\(raggedvit VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
    name=raggedvit-$version-windows-x86_64
    rm -rf "$work/$name" "$work/$name.zip"
    cp -r "$prefix" "$work/$name"
    (cd "$work" && zip -q -X -r "$name.zip" "$name")
    rm -r "${work:?}/$name"
    echo "$work/$name.zip: $(du -k "$work/$name.zip" | cut -f1) KiB"
}

for step in $steps; do
    start=$SECONDS
    case $step in
    build) build ;;
    test) run_tests ;;
    zip) make_zip ;;
    *) fail "unknown step '$step': build, test or zip" ;;
    esac
    echo "windows.sh $step: $((SECONDS - start)) s"
done
