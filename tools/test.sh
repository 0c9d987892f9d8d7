#!/usr/bin/env bash
# Every test: installs what is missing, builds, runs ctest. Arguments go to ctest (tools/test.sh -R attention).
configure=-DRVIT_TESTS=ON
. "$(dirname "$0")/setup.sh" g++ libcmocka-dev dpkg-dev file vulkan-validationlayers vulkan-tools python3-numpy
ctest --test-dir "$build" --output-on-failure --parallel "$(nproc)" "$@"
