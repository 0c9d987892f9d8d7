#!/usr/bin/env bash
# Unpacks a CUDA 12.4 compiler into a folder, whose code drivers from 525 on load (CUDA 13's needs 580): nvcc of Debian 13's non-free
# section, headers from PyPI. Nothing is installed. Needs Debian with apt and python3-venv, but not root.
#   cuda12.sh DIR        fill DIR (210 MB) and print the path of its nvcc, for -DRVIT_NVCC= or -DRVIT_CUDA_OLDER_NVCC=
set -euo pipefail

[ $# = 1 ] || { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
fail() { echo "cuda12.sh: $*" >&2; exit 1; }
command -v apt-get >/dev/null || fail "apt-get is not installed"
[ "$(dpkg --print-architecture)" = amd64 ] || fail "supports only amd64"
[ ! -x "$1/bin/nvcc" ] || { realpath "$1/bin/nvcc"; exit; }
rm -rf "$1"
mkdir -p "$1/apt/lists/partial" "$1/apt/archives/partial" "$1/bin" "$1/nvvm/bin" "$1/include"
dir=$(cd "$1" && pwd)
trap '[ $? = 0 ] || rm -rf "$dir"' EXIT # no partial result
# Use the mirror of the system.
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
    grep -oE 'https?://[^ ]+/debian/?( |$)' | head -1 | tr -d ' ') || true
[ -n "$mirror" ] || fail "the apt sources have no Debian mirror"
echo "deb $mirror trixie non-free" > "$dir/apt/sources.list"
touch "$dir/apt/status"
cat > "$dir/apt/conf" <<END
Dir::Etc::SourceList "$dir/apt/sources.list";
Dir::Etc::SourceParts "-";
Dir::State::Lists "$dir/apt/lists";
Dir::State::Status "$dir/apt/status";
Dir::Cache::PkgCache "";
Dir::Cache::SrcPkgCache "";
Debug::NoLocking "1";
APT::Sandbox::User "";
Acquire::Languages "none";
END
export APT_CONFIG=$dir/apt/conf
apt-get -qq update >&2
# download, not install: the dependencies are 3 GB of libraries.
(cd "$dir/apt" && apt-get -qq download nvidia-cuda-toolkit >&2 && dpkg-deb -x nvidia-cuda-toolkit_12.4.*.deb toolkit)
toolkit=$dir/apt/toolkit/usr
cp "$toolkit"/bin/{cudafe++,ptxas,fatbinary,nvlink} "$toolkit/lib/nvidia-cuda-toolkit/bin/nvcc" "$dir/bin/"
cp "$toolkit/lib/nvidia-cuda-toolkit/bin/cicc" "$dir/nvvm/bin/"
cp -r "$toolkit/lib/nvidia-cuda-toolkit/libdevice" "$dir/nvvm/"
cat > "$dir/bin/nvcc.profile" <<'END'
TOP = $(_HERE_)/..
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice
PATH += $(TOP)/nvvm/bin:$(_HERE_):
INCLUDES += "-I$(TOP)/include" $(_SPACE_)
END
python3 -m venv "$dir/apt/venv"
"$dir/apt/venv/bin/python" -m pip -q --disable-pip-version-check download --no-deps -d "$dir/apt/wheels" \
    nvidia-cuda-runtime-cu12==12.4.127 nvidia-cuda-nvcc-cu12==12.4.131 >&2
for wheel in "$dir"/apt/wheels/*.whl; do
    "$dir/apt/venv/bin/python" -m zipfile -e "$wheel" "$dir/apt/headers"
done
cp -r "$dir"/apt/headers/nvidia/*/include/. "$dir/include/"
rm -rf "$dir/apt"
"$dir/bin/nvcc" --version | grep -q 'release 12\.4' || fail "nvcc does not run"
echo "$dir/bin/nvcc"
