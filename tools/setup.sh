# Sourced by demo.sh and test.sh: installs missing packages (Debian 12 and 13, Ubuntu 24.04), configures the preset `release` and builds it
# in build/release. Arguments are names of further packages. $configure has further options for cmake, $targets the targets (default:
# all), and $arch_without_gpu the architecture of CUDA kernels on machines without an NVIDIA GPU (default: no CUDA).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

. tools/packages.sh
if command -v apt-get >/dev/null; then
    install_packages gcc cmake ninja-build pkg-config libjansson-dev libjpeg-dev libpng-dev libwebp-dev libvulkan-dev libvulkan-volk-dev \
        python3-dev glslang-tools mesa-vulkan-drivers "$@"
else
    echo "apt-get is not installed: install the dependencies by hand (docs/using.md, \"Build by hand\")"
fi

# CUDA options of cmake: kernels for the GPUs of this machine, or for $arch_without_gpu if it has none.
cuda_options() {
    if [ -n "${arch_without_gpu:-}" ] && ! nvidia-smi -L 2>/dev/null | grep "^GPU" >/dev/null &&
        PATH="$PATH:${CUDA_PATH:-}/bin:${CUDA_HOME:-}/bin:/usr/local/cuda/bin" command -v nvcc >/dev/null; then
        echo "No NVIDIA GPU: CUDA kernels run on the CPU" >&2
        echo "-DRVIT_CUDA=AUTO -DRVIT_CUDA_ARCHS=$arch_without_gpu"
    else
        echo "-DRVIT_CUDA=AUTO -DRVIT_CUDA_ARCHS=native"
    fi
}

preset=${RVIT_PRESET:-release}
build=build/$preset
cuda=""
[ "$preset" != release ] || cuda=$(cuda_options) # other presets set it themselves
cmake --preset "$preset" $cuda ${configure:-} | sed -n 's/^-- \(CUDA .*\)/\1/p'
echo "Building in $build"
# Hide Ninja's progress lines, but not compiler messages.
cmake --build --preset "$preset" ${targets:+--target $targets} | sed '/^\[[0-9]*\/[0-9]*\] /d'
