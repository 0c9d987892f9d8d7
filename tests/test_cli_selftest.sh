#!/bin/bash
# Tests 'raggedvit selftest': on the CPU, or with broken drivers of Vulkan (through the test layer) or CUDA (emulated).
# usage: test_cli_selftest.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER [vulkan | cuda EMULATED_DRIVER]
. "$(dirname "$0")/cli_checks.sh"
report=$folder/report.json
export HOME=/home/jane USER=jane LOGNAME=jane HOSTNAME=janes-desk

# in_report PATH PATTERN: checks that the value at the path of the report matches.
in_report() {
    cp "$report" "$folder/out" || return
    json "$1" "$2"
}
nothing_personal() {
    local found patterns="jane|$folder|/(home|tmp|srv|usr|etc)\b|[0-9a-f]{8}-[0-9a-f]{4}|[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\."
    found=$(grep -inE "$patterns|\"(uuid|pci_address)\"" "$report" "$folder/printed") && fail "personal: $found ($what)"
    ! grep -qw "$(uname -n)" "$report" "$folder/printed" || fail "the name of the host ($what)"
}
selftest() { # CODE ARGUMENT...
    rm -f "$report"
    expect "$1" selftest --report "$report" "${@:2}"
    cp "$folder/out" "$folder/printed"
    nothing_personal
}
results() { # RESULT: their number on the first device
    [ "$("$json_get" "devices.0.$1" <"$report")" -ge "$2" ] || fail "fewer than $2 checks $1 ($what)"
}

if [ "${4:-}" = vulkan ]; then
    if ! "$tool" devices | grep -qE '^. vulkan +[0-9]'; then
        echo "no Vulkan driver"
        exit 77
    fi
    # a driver whose library does not exist, in a folder with a name and a space
    mkdir -p "$folder/Jane Doe"
    echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "'"$folder"'/Jane Doe/none.so", "api_version": "1.3.0"}}' \
        >"$folder/Jane Doe/icd.json"
    export VK_DRIVER_FILES="$folder/Jane Doe/icd.json" VK_ICD_FILENAMES="$folder/Jane Doe/icd.json"
    selftest 3 --backend vulkan
    out '^  FAILED +the device opens '
    in_report complete true
    in_report failures 1
    in_report devices.0.usable false
    unset VK_DRIVER_FILES VK_ICD_FILENAMES
    # wrong results in the library's own test of the device
    RVIT_TEST_LAYER=wrong selftest 3 --backend vulkan
    out '^ +vulkan: .* fails the self-test of its tier'
    # memory, and a device that is lost once the checks begin
    for fault in no_memory "late lost"; do
        RVIT_TEST_LAYER=$fault selftest 1 --backend vulkan
        out '^  FAILED +f32 +the model loads '
        in_report complete true
        in_report failures.0.check 'vulkan 0, f32, the model loads'
        results failed 4
        no_err
    done
    # names that the report must not have
    RVIT_TEST_LAYER="personal no_memory" selftest 1 --backend vulkan
    in_report devices.0.name 'GTX 1650/PCIe/SSE2 of <removed>'
    in_report devices.0.driver ".* of '<path>' at <removed>"
    # a driver that crashes: the report has what came before
    RVIT_TEST_LAYER="late crash" selftest 1 --backend vulkan
    err '^raggedvit: crashed \(signal 11\) while it ran: vulkan 0, f32, the model loads$'
    in_report complete false
    in_report running 'vulkan 0, f32, the model loads'
    in_report devices.0.checks.0.result passed
    finish
fi

if [ "${4:-}" = cuda ]; then
    libraries=${LD_LIBRARY_PATH:-}
    # a GPU that cannot be opened
    export RVIT_EMU_FAIL_ALLOC=1 LD_LIBRARY_PATH=$5:$libraries
    selftest 1 --backend cuda
    out '^  FAILED +the device opens '
    in_report devices.0.name 'CUDA emulation on the CPU'
    in_report failures.0.detail 'cuDevicePrimaryCtxRetain failed: .*'
    in_report complete true
    unset RVIT_EMU_FAIL_ALLOC
    # a driver's message with a path, in a folder with a name
    mkdir -p "$folder/Jane van Doe/lib"
    echo broken >"$folder/Jane van Doe/lib/libcuda.so.1"
    export LD_LIBRARY_PATH="$folder/Jane van Doe/lib:$libraries"
    selftest 3 --backend cuda
    in_report failures.0.detail 'CUDA: <path>: .*'
    finish
fi

selftest 0 --backend cpu
no_err
! grep -qE '^  (FAILED|skipped)' "$folder/printed" || fail "a check failed"
for dtype in f32 f16 bf16; do
    out "^  passed +$dtype +attention of 0 to 577 rows: as float64 sums +[0-9.]+ s$"
done
for dtype in f32 f16 bf16 int8 fp8; do
    out "^  passed +$dtype +forward of each policy: logits and kept tokens as on the CPU +[0-9.]+ s$"
done
[ "$(grep -cE '^  timing +f32 .* [0-9.]+ ms$' "$folder/out")" -eq 5 ] || fail "expected five timings"
out '^The report has what is printed above, as JSON: no name of a person or a host, no file path, UUID, PCI address or serial number\.$'
results passed 38
in_report benchmark selftest
in_report schema 1
in_report complete true
in_report running null
in_report failures 0
in_report devices 1
in_report devices.0.backend cpu
in_report devices.0.failed 0
in_report devices.0.timings 5
in_report devices.0.timings.4.name 'DeiT-T, batch 32, l2 keep 0\.5'
in_report devices.0.timings.4.dtype f32
in_report devices.0.timings.4.ms.median '[0-9.]+'
in_report build.compiler '.+ [0-9.]+'
in_report machine.cpu '.+'

# what is refused
limit=60
expect 2 selftest --device 1
err '^raggedvit: --device needs --backend$'
expect 2 selftest some
expect 5 selftest --report "$folder" --backend cpu
err "^raggedvit: $folder: is a folder, not a file$"
selftest 3 --backend cpu --device 99
in_report failures.0.check 'cpu 99, the device opens'
in_report devices.0.usable false
expect 2 selftest --backend cpu --kernels no_such --json
json failures.0.detail '.*no_such.*'
finish
