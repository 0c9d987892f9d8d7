#!/usr/bin/env bash
# Debugs and profiles on the machine with the GPU, in ten minutes: runs the op tests, property tests and model tests under memcheck and
# racecheck of compute-sanitizer, and reports Nsight Compute's counters of attention and of each kernel of a forward, and the registers of
# every kernel.
#
#   bench/gpu_check.sh FOLDER OUT     FOLDER from bench/run.sh pack; writes OUT/sanitizer.log, OUT/attention.csv, OUT/forward.csv,
#                                     OUT/registers.txt and OUT/check.txt
#
# RVIT_BENCH_SECONDS (570) limits the time. RVIT_BENCH_MODEL: a checkpoint to profile (default: the demo's).
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
pack=$(cd "${1:?usage: bench/gpu_check.sh FOLDER OUT}" && pwd)
mkdir -p "${2:?usage: bench/gpu_check.sh FOLDER OUT}/logs"
out=$(cd "$2" && pwd)
limit=${RVIT_BENCH_SECONDS:-570}
model=${RVIT_BENCH_MODEL:-$root/examples/data/deit_tiny_cifar10.safetensors}
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$pack/lib
for folder in /usr/local/cuda/bin /usr/local/cuda/compute-sanitizer /opt/nvidia/nsight-compute/*; do
    [ -d "$folder" ] && PATH=$PATH:$folder
done
left() { echo $((limit - SECONDS)); }

# The checks are bound by the CPU, so as many run at the same time as it has cores, less two. The last line of each log is the verdict.
# Empty files hide cuBLASLt, because instrumenting its kernels would take most of the time.
hidden=$(mktemp -d)
touch "$hidden/libcublasLt.so.12" "$hidden/libcublasLt.so.13"
slots=$(($(nproc) > 3 ? $(nproc) - 2 : 1))
check() {
    local tool=$1 program=$2 filter=${3:-} seconds name
    while [ "$(jobs -rp | wc -l)" -ge $slots ]; do wait -n; done
    seconds=$(($(left) - 150 > 10 ? $(left) - 150 : 10))
    local arguments=(--backend cuda ${filter:+--filter "$filter"})
    [ "$program" != test_policies ] || arguments=(--data "$root/examples/data" "$root/tests/model/policies_8.txt" "${arguments[@]}")
    name=$tool.$program.${filter//[^a-z0-9]/}
    (
        # compute-sanitizer exits with 97 for its findings, unlike for failed tests. The tests make calls that the driver must refuse.
        LD_LIBRARY_PATH=$hidden:$LD_LIBRARY_PATH timeout "$seconds" compute-sanitizer --tool "$tool" --error-exitcode 97 \
            --report-api-errors no --print-limit 20 "$pack/$program" "${arguments[@]}" >"$out/logs/$name" 2>&1
        code=$?
        tests=$(grep -c '^\[       OK' "$out/logs/$name")
        case $code in
        0) verdict="clean, $tests tests" ;;
        97) verdict=FINDINGS ;;
        124) verdict="out of time after $seconds s, nothing found in $tests tests" ;;
        *) verdict="exit $code after $tests tests" ;;
        esac
        [ "$code" = 0 ] && [ "$tests" = 0 ] && verdict="NO TESTS"
        [ $code = 124 ] && grep -q '^========= .*\(Invalid\|hazard\|Race\)' "$out/logs/$name" && verdict=FINDINGS
        echo "$tool $program ${filter:-all}: $verdict" | tee -a "$out/logs/$name"
    ) &
}

if command -v compute-sanitizer >/dev/null; then
    # Op by op, so that a slow op does not block the others; then whole programs, as far as time allows.
    for op in select attention linear match score mass sampl head pack fuse merge layernorm mean patchify; do
        check racecheck test_ops "*$op*"
        check memcheck test_ops "*$op*"
    done
    for program in test_cuda test_properties test_model test_api test_policies; do
        check memcheck $program
    done
    check racecheck test_cuda
    check racecheck test_model
    wait
else
    echo "compute-sanitizer: not found"
fi
for name in "$out"/logs/*; do
    [ -e "$name" ] || continue
    echo "== $(basename "$name")"
    grep -E '^=========|FAILED|: (clean|FINDINGS|NO TESTS|out of time|exit)' "$name" | head -120
done >"$out/sanitizer.log"
echo "sanitizers done after $SECONDS s"

# Profiles one launch of each kernel at each point, to find its bottleneck. Clocks are not locked.
metrics=gpu__time_duration.sum,launch__registers_per_thread,launch__occupancy_limit_registers,launch__occupancy_limit_shared_mem
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active,dram__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,lts__throughput.avg.pct_of_peak_sustained_elapsed,sm__inst_executed_pipe_tensor.sum,smsp__inst_executed.sum
metrics+=,sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active,smsp__issue_active.avg.pct_of_peak_sustained_active
metrics+=,l1tex__data_bank_conflicts_pipe_lsu.sum,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio
metrics+=,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio
metrics+=,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio
profile() {
    local csv=$1 seconds=$2
    shift 2
    timeout "$seconds" ncu --clock-control none --cache-control none --csv --page raw "$@" >>"$csv" 2>>"$out/logs/ncu" ||
        echo "ncu: exit $? ($*)"
}
if command -v ncu >/dev/null; then
    # Request only counters that this GPU has, because an unknown one would fail the whole call.
    known=$(timeout 60 ncu --query-metrics-mode all --query-metrics 2>/dev/null | awk '{print $1}')
    wanted=
    for metric in ${metrics//,/ }; do
        case $metric in
        launch__*) wanted+=,$metric ;;
        *) grep -qxF -e "${metric%%.*}" -e "$metric" <<<"$known" && wanted+=,$metric ;;
        esac
    done
    [ -n "$known" ] || wanted=,gpu__time_duration.sum,launch__registers_per_thread
    for point in "1 197" "16 197" "64 197" "64 41" "256 197" "256 21"; do
        [ "$(left)" -gt 60 ] || break
        profile "$out/attention.csv" 60 --metrics "${wanted#,}" --kernel-name regex:attention --launch-count 1 "$pack/bench_attention" \
            --backend cuda --batch "${point% *}" --len "${point#* }" --calls 1 --repeats 1
    done
    for batch in 1 16 64; do
        [ "$(left)" -gt 60 ] || break
        # A forward has about 90 kernels.
        profile "$out/forward.csv" 90 --metrics "${wanted#,}" --launch-count 110 "$pack/bench_forward" "$model" --backend cuda \
            --dtype f16 --inputs device --batch $batch --prune 'l2 keep=0.5' --seconds 0.01
    done
else
    echo "ncu: not found"
fi
echo "profiles done after $SECONDS s"

cp "$pack/registers.txt" "$out/registers.txt"
command -v cuobjdump >/dev/null && cuobjdump -res-usage "$pack/kernels.fatbin" 2>/dev/null | grep -E 'Function|REG' >>"$out/registers.txt"
{
    grep -hE ': (clean|FINDINGS|NO TESTS|out of time|exit)' "$out/sanitizer.log"
    bash "$root/tools/check_cuda_registers.sh" "$pack/registers.txt"
    tail -5 "$out/logs/ncu" 2>/dev/null
    python3 "$root/bench/baselines/counters.py" "$out"/attention.csv "$out"/forward.csv
} 2>&1 | tee "$out/check.txt"
rm -rf "$out/logs" "$hidden"
