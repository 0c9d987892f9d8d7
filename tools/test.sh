#!/usr/bin/env bash
# The tests: installs what is missing, builds, runs ctest. Slow devices (Vulkan in software, CUDA emulated) run a choice of each test's
# cases that reaches every CUDA kernel; --full runs all cases, and compiles the CUDA kernels for every architecture.
#
# usage: tools/test.sh [--full] [ARGUMENTS OF CTEST]      tools/test.sh -R attention
configure=-DRVIT_TESTS=ON
arch_without_gpu=89
if [ "${1:-}" = --full ]; then
    shift
    export RVIT_TEST_FULL=1
    configure="$configure -DRVIT_CUDA_ARCHS=all"
fi
. "$(dirname "$0")/setup.sh" g++ libcmocka-dev dpkg-dev file vulkan-validationlayers vulkan-tools python3-dev python3-numpy python3-pil
ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" "$@"
