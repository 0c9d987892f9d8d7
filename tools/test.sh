#!/usr/bin/env bash
# The tests: installs what is missing, builds what they need, runs ctest. A choice that reaches every kernel and every shader once takes
# minutes (tests/quick.cmake). CUDA kernels run on the processor where there is no NVIDIA GPU.
#
# usage: tools/test.sh [--full | --exhaustive] [ARGUMENTS OF CTEST]
#   --full         all tests; on slow devices (Vulkan in software, CUDA emulated) with a choice of each one's cases
#   --exhaustive   all tests with all cases, and the CUDA kernels of every architecture: hours without a GPU
#   -R attention   the tests of that name, among all
configure=-DRVIT_TESTS=ON
arch_without_gpu=89
targets=quick_tests
arguments=(-L '^quick$')
case ${1:-} in
'') ;;
--full) shift ;;&
--exhaustive)
    shift
    export RVIT_TEST_CASES=all
    configure="$configure -DRVIT_CUDA_ARCHS=all"
    ;;&
*)
    targets=""
    arguments=("$@")
    ;;
esac
. "$(dirname "$0")/setup.sh" g++ libcmocka-dev dpkg-dev file vulkan-validationlayers vulkan-tools python3-dev python3-numpy python3-pil
ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" "${arguments[@]}"
