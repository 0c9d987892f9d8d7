#!/usr/bin/env bash
# Installs what is missing, builds and runs the quick tests, which reach every kernel and every shader once and take minutes
# (tests/quick.cmake). Without an NVIDIA GPU, CUDA kernels run on the CPU.
#
# usage: tools/test.sh [--full | --exhaustive] [ARGUMENTS OF CTEST]
#   --full         run all tests; on slow devices (software Vulkan, emulated CUDA) with a selection of cases
#   --exhaustive   run all tests with all cases, and the CUDA kernels of every architecture: hours without a GPU
#   -R attention   run the tests with that name
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
