# Sourced by demo.sh and test.sh: installs what is missing (Debian 12 and 13, Ubuntu 24.04), configures and builds the preset `release`
# into build/release. Package names given as arguments are wanted on top of those for a build; $configure holds further options for
# cmake, $targets what is built (empty: all), $arch_without_gpu the architecture of CUDA kernels where there is no NVIDIA GPU (empty: no
# CUDA code).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

want="gcc cmake ninja-build pkg-config libjansson-dev libjpeg-dev libpng-dev libwebp-dev libvulkan-dev libvulkan-volk-dev
      python3-dev glslang-tools mesa-vulkan-drivers $*"
if ! command -v apt-get >/dev/null; then
    echo "No apt-get here: what a build needs (docs/using.md, \"Build by hand\") must be installed"
    want=""
fi
missing=""
for package in $want; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
if [ -n "$missing" ]; then
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || { echo "These packages are missing, and there is no sudo to install them:$missing" >&2; exit 1; }
        as_root=sudo
    fi
    echo "Installing:$missing"
    export DEBIAN_FRONTEND=noninteractive
    $as_root apt-get -qq update
    $as_root apt-get -qq install -y --no-install-recommends $missing >/dev/null
fi

# cmake's options for CUDA: kernels for this machine's GPUs, or without one for $arch_without_gpu.
cuda_options() {
    if [ -n "${arch_without_gpu:-}" ] && ! nvidia-smi -L 2>/dev/null | grep "^GPU" >/dev/null &&
        PATH="$PATH:${CUDA_PATH:-}/bin:${CUDA_HOME:-}/bin:/usr/local/cuda/bin" command -v nvcc >/dev/null; then
        echo "No NVIDIA GPU here: CUDA kernels run on the processor" >&2
        echo "-DRVIT_CUDA=AUTO -DRVIT_CUDA_ARCHS=$arch_without_gpu"
    else
        echo "-DRVIT_CUDA=AUTO -DRVIT_CUDA_ARCHS=native"
    fi
}

preset=${RVIT_PRESET:-release}
build=build/$preset
cuda=""
[ "$preset" != release ] || cuda=$(cuda_options) # the others say themselves
cmake --preset "$preset" $cuda ${configure:-} | sed -n 's/^-- \(CUDA .*\)/\1/p'
echo "Building in $build"
# All but Ninja's count of steps: what compilers complain of.
cmake --build --preset "$preset" ${targets:+--target $targets} | sed '/^\[[0-9]*\/[0-9]*\] /d'
