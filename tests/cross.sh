#!/usr/bin/env bash
# Builds for other processors and C libraries, and runs what it built in emulation (qemu-user) on this machine.
#   tests/cross.sh aarch64   the library, the tool and tests for Arm: kernels of every table, ops, files, a classification that equals this
#                            machine's, the machine code of the tiles, the Python package
#   tests/cross.sh s390x     big-endian: a forward has the bits of aarch64, whose job must have run
#   tests/cross.sh musl      static programs: tests, and a forward with the bits of this machine's glibc. i686 with x87 is refused
# Several names run one after the other; without one, all. RVIT_NATIVE names a build folder of this machine's own (default: the first of
# build/ci and build/release that exists, else build/cross/native is made). Needs Debian on x86-64; installs the compilers and qemu as root.
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/packages.sh
root=$PWD cross=$PWD/build/cross
model=examples/data/deit_tiny_cifar10.safetensors
image=examples/data/chelsea.png
mkdir -p "$cross"

fail() { echo "cross.sh: $*" >&2; exit 1; }

# sysroot DEBIAN_ARCHITECTURE PACKAGE...: unpacks the packages and all they depend on, for another architecture, without installing them.
# The machine's own dpkg never learns of the architecture: packages of both would have to have equal versions.
sysroot() {
    local architecture=$1 folder=$cross/$1-sysroot apt=$cross/$1-apt
    shift
    [ "$(cat "$folder/complete" 2>/dev/null)" != "$*" ] || return 0
    rm -rf "$folder" "$apt"
    mkdir -p "$folder" "$apt"/{lists,cache/archives,state}/partial
    : >"$apt/status"
    cat >"$apt/apt.conf" <<APT
APT::Architecture "$architecture";
APT::Architectures { "$architecture"; };
APT::Install-Recommends "false";
APT::Sandbox::User "root";
Acquire::Languages "none";
Debug::NoLocking "true";
Dir::State "$apt/state";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
APT
    APT_CONFIG=$apt/apt.conf apt-get -qq update
    APT_CONFIG=$apt/apt.conf apt-get -qq install -y --download-only "$@" >/dev/null
    for package in "$apt"/cache/archives/*.deb; do
        dpkg -x "$package" "$folder"
    done
    # Links to absolute paths would leave the sysroot.
    find "$folder" -type l -lname '/*' | while read -r link; do
        ln -sfn "$folder$(readlink "$link")" "$link"
    done
    rm -rf "$apt"
    echo "$*" >"$folder/complete"
}

# build NAME "TARGET..." CMAKE_OPTION...: builds targets for another machine in build/cross/NAME.
build() {
    local name=$1 targets=$2
    shift 2
    cmake -S . -B "$cross/$name" -G Ninja -DCMAKE_BUILD_TYPE=Release -DRVIT_WERROR=ON -DRVIT_CUDA=OFF -DRVIT_VULKAN=OFF -DRVIT_CBLAS=OFF \
        -DRVIT_BENCH=OFF -DRVIT_EXAMPLES=OFF -DRVIT_PYTHON=OFF -DRVIT_TRITON=OFF -DRVIT_INSTALL=OFF "$@" >"$cross/$name.log"
    cmake --build "$cross/$name" --target $targets | sed '/^\[[0-9]*\/[0-9]*\] /d'
}

# forward NAME BUILD RUNNER COMPILER...: writes build/cross/NAME.forward, what cross_forward.c prints with the library of a build folder.
forward() {
    local name=$1 folder=$2 runner=$3
    shift 3
    "$@" -std=gnu11 -O1 -Iinclude tests/cross_forward.c "$folder/libraggedvit.a" -lm -lpthread -ldl -o "$cross/$name.program"
    $runner "$cross/$name.program" $model >"$cross/$name.forward"
    [ "$(grep -c '^kept' "$cross/$name.forward")" = 3 ] || fail "$name: cross_forward printed $(cat "$cross/$name.forward")"
}

# The folder of this machine's own build.
native() {
    local folder
    for folder in ${RVIT_NATIVE:-build/ci build/release build/cross/native}; do
        [ -x "$folder/tools/raggedvit" ] && [ -f "$folder/libraggedvit.a" ] && echo "$folder" && return
    done
    build native "raggedvit_cli raggedvit_static" -DRVIT_TESTS=OFF >&2
    echo build/cross/native
}

job_aarch64() {
    install_packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user ninja-build cmake pkg-config
    sysroot arm64 libc6-dev libjansson-dev libjpeg62-turbo-dev libpng-dev libcmocka-dev python3-numpy
    local sysroot=$cross/arm64-sysroot b=$cross/aarch64 tests
    local file_tests="test_safetensors test_checkpoint test_shards test_config test_config_parts test_families test_family_parts
        test_quantized_tensors test_pos_embed"
    tests="$file_tests test_system test_image_axes test_cpu_tables test_cpu_kernels"
    export PKG_CONFIG_SYSROOT_DIR=$sysroot PKG_CONFIG_LIBDIR=$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig
    build aarch64 "raggedvit_static raggedvit raggedvit_cli test_ops test_model $tests" -DRVIT_TESTS=ON \
        -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc \
        -DCMAKE_SYSROOT="$sysroot" -DCMAKE_LIBRARY_ARCHITECTURE=aarch64-linux-gnu \
        -DCMAKE_FIND_ROOT_PATH_MODE_PROGRAM=NEVER -DCMAKE_FIND_ROOT_PATH_MODE_LIBRARY=ONLY -DCMAKE_FIND_ROOT_PATH_MODE_INCLUDE=ONLY \
        -DCMAKE_FIND_ROOT_PATH_MODE_PACKAGE=ONLY
    unset PKG_CONFIG_SYSROOT_DIR PKG_CONFIG_LIBDIR
    echo "aarch64: built after $SECONDS s"

    # The machine code of the tiles.
    python3 -B tests/arm_counts.py "$b" >"$cross/aarch64.counts" || { cat "$cross/aarch64.counts"; fail "aarch64: arm_counts.py failed"; }
    grep -E 'product_6_4|_6 |_6_lines|checked' "$cross/aarch64.counts"

    local qemu="qemu-aarch64 -L $sysroot" max="qemu-aarch64 -cpu max -L $sysroot" ops=$b/tests/test_ops
    # Two programs at a time; all must succeed. A line is a name, which its log gets too, and a command.
    local on_cpu="$ops --backend cpu"
    {
        for test in $tests; do
            echo "$test $max $b/tests/$test"
        done
        echo "test_cpu_tables_of_cortex_a72 $qemu -cpu cortex-a72 $b/tests/test_cpu_tables"
        echo "float_environment $max $b/tests/test_model --backend cpu --choice environment_suite"
        echo "exact_ops $max $on_cpu --choice score_suite,select_suite,layernorm_suite,quantize_suite"
        for kernels in neon_dotprod neon_i8mm neon_bf16; do
            echo "int8_$kernels $max $on_cpu --kernels $kernels --choice linear_int8_exact,linear_bytes"
        done
        echo "bf16_linear $max $on_cpu --kernels neon_bf16 --choice linear_variants,linear_position"
        echo "bf16_attention $max $on_cpu --kernels neon_bf16 --choice attention_options,attention_head_dims,attention_not_a_number"
    } >"$cross/aarch64.commands"
    mkdir -p "$cross/aarch64-logs"
    RVIT_TEST_CASES=few LOGS=$cross/aarch64-logs xargs -d '\n' -P 2 -I COMMAND bash -c '
        set -- $1; name=$1; shift
        if timeout 900 "$@" >"$LOGS/$name" 2>&1; then
            times >"$LOGS/$name.times"
            echo "aarch64: $name passed ($(tail -n 1 "$LOGS/$name.times" | cut -d" " -f1) of processor time)"
        else echo "aarch64: $name FAILED:"; tail -n 20 "$LOGS/$name"; exit 1; fi' sh COMMAND <"$cross/aarch64.commands" ||
        fail "aarch64: tests failed (above)"

    # The demo: the class and the kept tokens of this machine, and its logits.
    $qemu -cpu max "$b/tools/raggedvit" devices
    local options="--backend cpu --kernels portable --prune l2 --keep 0.5 --json"
    $qemu "$b/tools/raggedvit" classify $model $image $options >"$cross/aarch64.json"
    "$(native)/tools/raggedvit" classify $model $image $options >"$cross/native.json"
    python3 -B - "$cross/aarch64.json" "$cross/native.json" <<'PYTHON'
import json
import sys

here, there = (json.load(open(path))["images"][0] for path in sys.argv[1:])
most = max(abs(a - b) for a, b in zip(here["logits"], there["logits"], strict=True))
print(f"aarch64: classify says {here['top'][0]['label']}, {here['tokens_kept']} tokens; logits differ by at most {most:.2g}")
assert here["top"][0]["class"] == there["top"][0]["class"], "the class differs"
assert here["kept"] == there["kept"], "the kept tokens differ"
assert most <= 1e-5, "the logits differ"
PYTHON
    # Bad input: a name of another architecture.
    if $qemu "$b/tools/raggedvit" classify $model $image --backend cpu --kernels avx2 >/dev/null 2>"$cross/aarch64.refused" ||
        ! grep -q "avx2.*neon_bf16" "$cross/aarch64.refused"; then
        fail "aarch64: --kernels avx2 was not refused by name: $(cat "$cross/aarch64.refused")"
    fi
    forward aarch64 "$b" "$qemu" aarch64-linux-gnu-gcc --sysroot="$sysroot"

    # The Python package, whose pure-Python part needs no compiled core to load the library.
    local lib=/usr/lib/aarch64-linux-gnu # whose BLAS is an alternative, which no package links
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$root/python RAGGEDVIT_LIBRARY=$b/libraggedvit.so \
        $max -E LD_LIBRARY_PATH=$lib/blas:$lib/lapack "$sysroot/usr/bin/python3" -c '
import raggedvit
print("aarch64: Python lists", [device.driver for device in raggedvit.devices()])'
}

job_s390x() {
    install_packages gcc-s390x-linux-gnu libc6-dev-s390x-cross qemu-user ninja-build cmake
    build s390x raggedvit_static -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=s390x -DCMAKE_C_COMPILER=s390x-linux-gnu-gcc \
        -DRVIT_TESTS=OFF -DRVIT_TOOLS=OFF
    forward s390x "$cross/s390x" "qemu-s390x -L /usr/s390x-linux-gnu" s390x-linux-gnu-gcc
    [ -f "$cross/aarch64.forward" ] || fail "the job aarch64 has not run"
    cmp "$cross/s390x.forward" "$cross/aarch64.forward" || fail "s390x: the forward differs from that of aarch64"
    echo "s390x: the forward has the bits of aarch64"
}

# musl_library PACKAGE CMAKE_OPTION...: builds a static library for musl, from Debian's source.
musl_library() {
    local package=$1 source
    [ ! -e "$cross/musl-prefix/$package" ] || return 0
    [ -e "$cross/apt/apt.conf" ] || debian_sources "$cross/apt"
    source=$(debian_source "$cross/apt" "$package" "$cross/source-$package") || exit 1
    cmake -S "$source" -B "$cross/musl-$package" -G Ninja -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_INSTALL_PREFIX="$cross/musl-prefix" \
        -DCMAKE_INSTALL_LIBDIR:STRING=lib "${@:2}" >"$cross/musl-$package.log" 2>&1 &&
        cmake --build "$cross/musl-$package" --target install >>"$cross/musl-$package.log" 2>&1 ||
        { tail "$cross/musl-$package.log"; fail "musl: $package does not build"; }
    touch "$cross/musl-prefix/$package"
}

job_musl() {
    install_packages musl-tools dpkg-dev ninja-build cmake pkg-config
    musl_library jansson -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
    musl_library cmocka -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF
    local lib=$cross/musl-prefix/lib test
    local tests="test_safetensors test_checkpoint test_shards test_config test_families test_system"
    [ -e "$lib/libcmocka.a" ] || { rm "$lib"/libcmocka.so* && mv "$lib/libcmocka-static.a" "$lib/libcmocka.a"; }
    # The name of another processor leaves out all kernels but the portable ones.
    export PKG_CONFIG_LIBDIR=$lib/pkgconfig
    build musl "raggedvit_static test_ops test_api $tests" -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=portable \
        -DCMAKE_C_COMPILER=musl-gcc -DCMAKE_EXE_LINKER_FLAGS=-static -DRVIT_TESTS=ON -DRVIT_TOOLS=OFF
    unset PKG_CONFIG_LIBDIR
    for test in $tests "test_api --backend cpu" \
        "test_ops --backend cpu --choice attention_suite,layernorm_suite,select_suite,score_suite,linear_int8_suite"; do
        # shellcheck disable=SC2086
        RVIT_TEST_CASES=few "$cross/musl/tests/"$test >"$cross/musl.log" 2>&1 || { tail "$cross/musl.log"; fail "musl: $test failed"; }
    done
    echo "musl: the tests of files, ops and the API pass"
    forward musl "$cross/musl" "" musl-gcc -static
    forward glibc "$(native)" "" gcc
    cmp "$cross/musl.forward" "$cross/glibc.forward" || fail "musl: the forward differs from that of glibc"
    echo "musl: the forward of a static program has the bits of glibc"
    if gcc -m32 -I. -fsyntax-only -x c core/base/entry.h 2>"$cross/i686.refused" || ! grep -q mfpmath "$cross/i686.refused"; then
        fail "i686 with x87 arithmetic was not refused: $(cat "$cross/i686.refused")"
    fi
    echo "i686: x87 arithmetic is refused"
}

[ $# -gt 0 ] || set -- aarch64 s390x musl
for job in "$@"; do
    declare -F "job_$job" >/dev/null || fail "unknown job '$job': aarch64, s390x or musl"
    SECONDS=0
    "job_$job"
    times >"$cross/times"
    user=$(tail -n 1 "$cross/times" | cut -d' ' -f1)
    echo "$job: passed in $((SECONDS / 60)) min $((SECONDS % 60)) s (processor time of all jobs so far: $user)"
done
