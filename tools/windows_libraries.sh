#!/usr/bin/env bash
# usage: windows_libraries.sh FOLDER
# Makes FOLDER/include and FOLDER/lib for cmake/toolchains/windows-x86_64.cmake: static libraries for Windows, built from Debian's sources,
# their licences in FOLDER/licences, and headers of Vulkan, volk and CUDA, which are the same for each system. What is there stays.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
mkdir -p "$1"
folder=$(realpath "$1")
mkdir -p "$folder"/{include,lib/pkgconfig,licences,source}

# library NAME SOURCE_PACKAGE CMAKE_OPTION...
library() {
    local name=$1 package=$2 start=$SECONDS
    [ ! -e "$folder/licences/$name" ] || return 0
    local source
    source=$(debian_source "$folder/apt" "$package" "$folder/source/$name") || exit 1
    local build=$folder/build/$name log=$folder/build-$name.log
    cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$folder" -DCMAKE_INSTALL_LIBDIR:STRING=lib \
        -DCMAKE_TOOLCHAIN_FILE="$PWD/cmake/toolchains/windows-x86_64.cmake" -DRVIT_WINDOWS_LIBRARIES="$folder" "${@:3}" >"$log" 2>&1 &&
        cmake --build "$build" --target install >>"$log" 2>&1 ||
        { tail -20 "$log" >&2; echo "windows_libraries: $name does not build (the whole log: $log)" >&2; exit 1; }
    cp "$source/debian/copyright" "$folder/licences/$name"
    echo "$name, from $(basename "$source"): $((SECONDS - start)) s"
}

mingw=/usr/x86_64-w64-mingw32
cp $mingw/include/{zlib,zconf}.h "$folder/include"
cp $mingw/lib/libz.a "$folder/lib"
cp /usr/share/doc/libz-mingw-w64-dev/copyright "$folder/licences/zlib"
cp /usr/share/doc/mingw-w64-common/copyright "$folder/licences/mingw-w64"
for name in jansson libjpeg-turbo libpng libwebp; do
    [ -e "$folder/licences/$name" ] || { debian_sources "$folder/apt"; break; }
done
builds=""
library jansson jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF &
builds="$builds $!"
library libjpeg-turbo libjpeg-turbo -DENABLE_SHARED=OFF -DWITH_TURBOJPEG=OFF -DWITH_JAVA=OFF -DREQUIRE_SIMD=ON &
builds="$builds $!"
library libpng libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF -DPNG_EXECUTABLES=OFF \
    "-DCMAKE_C_FLAGS=--target=x86_64-w64-windows-gnu --sysroot=$mingw" &
builds="$builds $!"
library libwebp libwebp -DWEBP_BUILD_{ANIM_UTILS,CWEBP,DWEBP,GIF2WEBP,IMG2WEBP,VWEBP,WEBPINFO,WEBPMUX,EXTRAS}=OFF &
builds="$builds $!"
for build in $builds; do
    wait "$build"
done

# Only these: other headers of /usr/include are of Linux.
for headers in vulkan vk_video volk.h volk.c; do
    [ ! -e /usr/include/$headers ] || cp -r /usr/include/$headers "$folder/include"
done
cuda=${CUDA_PATH:-${CUDA_HOME:-/usr/local/cuda}}
[ ! -e "$cuda/include/cuda.h" ] || cp "$cuda/include/cuda.h" "$folder/include"
