#!/usr/bin/env bash
# Runs all measurements on the backends that this machine has: under 8 minutes with a GPU, under 5 on two CPU cores.
#
#   bench/run.sh [OUT]                   installs what is missing, builds, measures, draws; OUT defaults to build/bench
#   bench/run.sh pack BUILD FOLDER       for a machine that cannot build: copies the programs and libraries of a run into FOLDER
#                                        (build with -DRVIT_CUDA_ARCHS=90 to keep it small: every program holds the kernels)
#   bench/run.sh from FOLDER OUT         on that machine: measures with the contents of FOLDER
#
# Writes OUT/run.json, OUT/summary.txt if PyTorch sees a GPU, and plots if gnuplot is installed. bench/README.md explains how each
# number is measured and how to add a machine's results.
#
# RVIT_BENCH_SECONDS (460; without a GPU 270): the time for measuring; measurements that do not fit are skipped and reported.
# RVIT_BENCH_TESTS=1 runs the test programs on the GPU first, while PyTorch compiles. RVIT_BENCH_PYTHON (python3) has PyTorch;
# RVIT_BENCH_SECTIONS names the sections of baselines.py to run; RVIT_BENCH_WORK (/tmp/raggedvit-bench) holds checkpoints and compiled
# code.
# RVIT_BENCH_DRY=1 runs everything at tiny sizes; its figures mean nothing. Exits 1 if a measurement failed.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
data=$root/examples/data
model=$data/deit_tiny_cifar10.safetensors
sheet=$data/cifar10_test_1000.png
benchmarks="attention backward prune stages forward"
tests="test_ops test_properties test_model test_api test_cuda test_dumps test_policies test_demo"
dry=${RVIT_BENCH_DRY:-}

# The policies and settings of tools/accuracy/policies.py, so that accuracy and speed can be compared.
policies='none;l2 keep=0.9;l2 keep=0.75;l2 keep=0.5;l2 keep=0.3;l2 keep=0.2;l2-threshold threshold=38;l2-threshold threshold=42'
policies+=';evit keep=0.9;evit keep=0.7;evit keep=0.5;evit-fused keep=0.9;evit-fused keep=0.7;evit-fused keep=0.5'
policies+=';evit-paper keep=0.75;evit-paper keep=0.5;evit-paper keep=0.2;dynamicvit keep=0.9;dynamicvit keep=0.7;dynamicvit keep=0.5'
policies+=';dynamicvit-gate threshold=0.5;ats samples=196;ats samples=98;ats samples=49;ats-paper mass=0.9;ats-paper mass=0.7'
policies+=';ats-paper keep=0.5;ats-paper keep=0.2;tome merge=4;tome merge=8;tome merge=13;random keep=0.75;random keep=0.5;random keep=0.2'
policies+=';received keep=0.75;received keep=0.5;received keep=0.2'
ratios='none'
for keep in 0.9 0.8 0.7 0.6 0.5 0.4 0.3 0.2 0.1; do ratios+=";l2 keep=$keep"; done

pack() {
    local build=$1 folder=$2 name file
    set -e
    mkdir -p "$folder/lib"
    cp "$build/tools/raggedvit" $(printf "$build/bench/bench_%s " $benchmarks) "$folder/"
    for name in $tests; do
        for file in "$build/tests/$name" "$build/tests/cuda/$name"; do [ ! -x "$file" ] || cp "$file" "$folder/"; done
    done
    cp -L "$build/libraggedvit.so" "$folder/lib/"
    for file in registers.txt kernels.fatbin; do [ ! -e "$build/backend_cuda/$file" ] || cp "$build/backend_cuda/$file" "$folder/"; done
    # Libraries that another system may lack. The C library is not copied: the build machine's must not be newer.
    ldd "$folder"/raggedvit "$folder"/*_* | awk '$2 == "=>" && $1 ~ /jansson|cmocka|png|jpeg|webp/ {print $3}' | sort -u |
        while read -r file; do cp -L "$file" "$folder/lib/"; done
    strip "$folder"/raggedvit "$folder"/*_[a-z]* "$folder"/lib/libraggedvit.so
    git -C "$root" describe --always --dirty >"$folder/commit" 2>/dev/null || echo unknown >"$folder/commit"
    du -sh "$folder"
}

left() { echo $((limit - SECONDS)); }

# Starts a program in the background with a time limit; its exit code lands in OUT/codes/NAME.
start() {
    local name=$1 seconds=$2
    shift 2
    (
        begin=$SECONDS
        timeout "$seconds" "$@" >"$out/logs/$name.log" 2>&1
        code=$?
        echo $code >"$out/codes/$name"
        echo "$name: exit $code after $((SECONDS - begin)) s"
    ) &
    pids+=($!)
}

# Makes one report: part NAME SECONDS PROGRAM ARGUMENT... It is skipped unless SECONDS are left, which also is its time limit.
part() {
    local name=$1 seconds=$2 program=$3 begin=$SECONDS code
    shift 3
    if [ "$(left)" -lt "$seconds" ]; then
        echo "$name: skipped, $(left) s are left"
        return
    fi
    timeout "$seconds" "$program" "$@" --json "$out/parts/$name.json" >"$out/logs/$name.log" 2>&1
    code=$?
    if [ $code != 0 ]; then
        echo "$name: exit $code: $(tail -1 "$out/logs/$name.log")"
        rm -f "$out/parts/$name.json"
        failed=1
        return
    fi
    echo "$name: $((SECONDS - begin)) s"
}

# The same for raggedvit bench, which prints its JSON.
tool() {
    local name=$1 seconds=$2
    shift 2
    [ "$(left)" -ge "$seconds" ] || { echo "$name: skipped, $(left) s are left"; return; }
    timeout "$seconds" "$raggedvit" bench "$@" --json >"$out/parts/$name.json" 2>"$out/logs/$name.log" ||
        { echo "$name: $(tail -1 "$out/logs/$name.log")"; rm -f "$out/parts/$name.json"; failed=1; }
}

measure_cuda() {
    local name batches=1,4,16,64,256 most=60 device=(--backend cuda --dtype f16)
    local forward=("${device[@]}" --inputs device)
    part attention_cuda $most "$bench"_attention "${device[@]}"
    for name in deit_base_patch16_224 deit_tiny_patch16_224; do
        [ ! -e "$work/models/$name.safetensors" ] ||
            part forward_cuda_$name $most "$bench"_forward "$work/models/$name.safetensors" "${forward[@]}" --seconds 0.4 --batch $batches
    done
    for name in deit_base_patch16_224 deit_small_patch16_224 deit_tiny_patch16_224 deit_base_patch16_384; do
        [ ! -e "$work/models/$name.safetensors" ] ||
            part ratios_cuda_$name $most "$bench"_forward "$work/models/$name.safetensors" "${forward[@]}" --seconds 0.2 --batch 64 \
                --prune "$ratios"
    done
    part policies_cuda $most "$bench"_forward "$model" "${forward[@]}" --seconds 0.1 --batch 64 --sheet "$sheet" --prune "$policies"
    part stages_cuda_base $most "$bench"_stages "${device[@]}" --model base --batch 8,64
    part stages_cuda_tiny $most "$bench"_stages "${device[@]}" --model tiny --batch 8,64
    part backward_cuda $most "$bench"_backward "${device[@]}"
    part prune_cuda $most "$bench"_prune "${device[@]}"
    tool tool_cuda $most --backend cuda --dtype f16 --shape base
}

# The device's own tier. If that is the matrix tier, the subgroup tier as well, which devices without cooperative matrices use.
measure_vulkan() {
    local tier base=$work/models/deit_base_patch16_224.safetensors
    for tier in $vulkan_tier $([ "$vulkan_tier" != matrix ] || echo subgroup); do
        local device=(--backend vulkan --dtype f16 --tier "$tier")
        part attention_vulkan_$tier 30 "$bench"_attention "${device[@]}" --batch 1,16,64,256 --calls 10 --repeats 10
        [ ! -e "$base" ] || part forward_vulkan_${tier}_deit_base_patch16_224 30 "$bench"_forward "$base" "${device[@]}" --inputs device \
            --seconds 0.2 --batch 1,16,64
    done
    device=(--backend vulkan --dtype f16)
    part forward_vulkan_demo 20 "$bench"_forward "$model" "${device[@]}" --inputs device --seconds 0.2 --batch 1,16,64
    part prune_vulkan 20 "$bench"_prune "${device[@]}" --batch 1,64 --calls 10 --repeats 10
}

# Mesa's software driver, to show that it works.
measure_software_vulkan() {
    part forward_software_demo 60 "$bench"_forward "$model" --backend vulkan --seconds 1 --batch 1,8
    part attention_software 30 "$bench"_attention --backend vulkan --dtype f32 --batch 1,4 --calls 2 --repeats 3
}

measure_cpu() {
    local device=(--backend cpu --dtype f32)
    part forward_cpu_demo 30 "$bench"_forward "$model" "${device[@]}" --seconds 2 --batch 1,8,32
    [ $((has_cuda + has_vulkan)) = 0 ] || return # with a GPU, the rest is of little interest
    part ratios_cpu_demo 60 "$bench"_forward "$model" "${device[@]}" --seconds 1.5 --batch 8 --prune "$ratios"
    part policies_cpu 90 "$bench"_forward "$model" "${device[@]}" --seconds 0.3 --batch 8 --sheet "$sheet" --prune "$policies"
    part attention_cpu 30 "$bench"_attention "${device[@]}" --batch 1,4,16 --calls 2 --repeats 5
    part stages_cpu_tiny 30 "$bench"_stages "${device[@]}" --model tiny --batch 1,8
    part prune_cpu 20 "$bench"_prune "${device[@]}" --batch 1,8 --calls 2 --repeats 10
    tool tool_cpu 60 --backend cpu
}

# The classes that README.md states for its photo.
photo() {
    local classify=("$raggedvit" classify deit_tiny_cifar10.safetensors chelsea.png --backend cpu --top 1 --json)
    (cd "$data" && printf '{"benchmark": "photo", "dense": %s, "pruned": %s}\n' "$("${classify[@]}")" \
        "$("${classify[@]}" --prune l2 --keep 0.5)") >"$out/parts/photo.json"
}

measure_tiny() {
    local backend=$1
    part attention_$backend 60 "$bench"_attention --backend "$backend" --batch 1 --len 5 --heads 1 --calls 2 --repeats 3
    part backward_$backend 60 "$bench"_backward --backend "$backend" --images 1 --tokens 5 --heads 1 --calls 2 --repeats 3
    part prune_$backend 60 "$bench"_prune --backend "$backend" --batch 1 --len 5 --heads 1 --calls 2 --repeats 3
    part stages_$backend 120 "$bench"_stages --backend "$backend" --model tiny --size 32 --batch 1
    part forward_$backend 60 "$bench"_forward "$model" --backend "$backend" --batch 1 --seconds 0 --prune 'none; l2 keep=0.5 blocks=3'
}

# Runs the test programs, and at the same time the compilations that must precede all timing.
prepare() {
    local name seconds=280 share
    pids=()
    if [ -n "${RVIT_BENCH_TESTS:-}" ]; then
        for name in test_ops test_properties test_model test_api test_cuda; do
            start $name $seconds "$(program $name)" --backend cuda
        done
        start test_dumps $seconds "$(program test_dumps)" --data "$root/tests/model/dumps.jsonl" --backend cuda
        start test_policies $seconds "$(program test_policies)" --data "$data" "$root/tests/model/policies_8.txt" --backend cuda
        start test_demo $seconds "$(program test_demo)" cuda "$data" all
        start python $seconds env RVIT_PYTHON="$python" bash "$root/python/run_tests.sh" "$library"
    fi
    if [ ${#baselines[@]} -gt 0 ]; then
        for share in models extension kernels flex; do start prepare_$share $seconds "${baselines[@]}" --prepare $share; done
        for share in 0 1 2 3; do
            [ -n "$dry" ] || start compile_$share $seconds "${baselines[@]}" --warm-compile $share/4
        done
    fi
    [ ${#pids[@]} = 0 ] || wait "${pids[@]}"
    [ -n "${RVIT_BENCH_TESTS:-}" ] || return
    {
        local comma=
        echo "{"
        for name in $tests python; do
            [ -e "$out/codes/$name" ] || continue
            printf '%s "%s": %s' "$comma" "$name" "$(cat "$out/codes/$name")"
            comma=$',\n'
        done
        printf '\n}\n'
    } >"$out/tests.json"
    for name in $tests python; do
        [ -e "$out/logs/$name.log" ] && { echo "== $name, exit $(cat "$out/codes/$name")"; cat "$out/logs/$name.log"; }
    done >"$out/tests.log"
    grep -hE '^\[  (FAILED|ERROR)' "$out/tests.log" | sort -u | head -40
    echo "tests done after $SECONDS s"
}

# The path of a program, in a packed folder or in a build folder.
program() {
    local path
    for path in "$programs/$1" "$programs/tools/$1" "$programs/tests/$1" "$programs/tests/cuda/$1"; do
        [ ! -f "$path" ] || { echo "$path"; return; }
    done
    echo "$programs/$1"
}

run() {
    programs=$(cd "$1" && pwd)
    out=$2
    rm -rf "$out/parts" "$out/logs" "$out/codes"
    mkdir -p "$out/parts" "$out/logs" "$out/codes"
    out=$(cd "$out" && pwd)
    python=${RVIT_BENCH_PYTHON:-python3}
    work=${RVIT_BENCH_WORK:-/tmp/raggedvit-bench}
    mkdir -p "$work"
    SECONDS=0
    failed=0
    RVIT_BENCH_COMMIT=$(cat "$programs/commit" 2>/dev/null || git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)
    export RVIT_BENCH_COMMIT PYTHONUNBUFFERED=1 TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
    # The library opens cuBLASLt at run time, which may be installed only with PyTorch.
    local lt
    lt=$("$python" -c 'import pathlib, torch
found = sorted((pathlib.Path(torch.__file__).parents[1] / "nvidia").glob("*/lib/libcublasLt.so.1[23]"))
print(found[-1] if found else "")' 2>/dev/null)
    [ -n "$lt" ] || lt=$(find /usr/local/cuda*/lib64/ -name 'libcublasLt.so.1[23]' 2>/dev/null | head -1)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$programs/lib${lt:+:$(dirname "$lt")}
    raggedvit=$(program raggedvit)
    bench=$(program bench/bench_attention)
    [ -f "$bench" ] || bench=$(program bench_attention)
    bench=${bench%_attention}
    library=$programs/lib/libraggedvit.so
    [ -f "$library" ] || library=$programs/libraggedvit.so
    "$raggedvit" devices
    local devices has_cuda has_vulkan has_software vulkan_tier has_torch=0
    devices=$("$raggedvit" devices --json)
    has() { # BACKEND SOFTWARE: the number of devices
        python3 -c 'import json, sys
print(sum(d["usable"] and [d["backend"], d["software"]] == [sys.argv[1], sys.argv[2] == "1"] for d in json.load(sys.stdin)["devices"]))' \
            "$1" "$2" <<<"$devices"
    }
    has_cuda=$(has cuda 0) has_vulkan=$(has vulkan 0) has_software=$(has vulkan 1)
    vulkan_tier=$(python3 -c 'import json, sys
print(next((d["tier"] for d in json.load(sys.stdin)["devices"] if d["usable"] and d["backend"] == "vulkan"), ""))' <<<"$devices")
    limit=${RVIT_BENCH_SECONDS:-$([ $((has_cuda + has_vulkan)) -gt 0 ] && echo 460 || echo 270)}
    "$python" -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null && has_torch=1
    if [ "$has_cuda" -gt 0 ]; then
        echo "cuBLASLt: ${lt:-not found}"
        [ -n "$dry" ] || nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu,power.draw --format=csv,noheader
    fi
    baselines=()
    if [ -n "$dry" ] && "$python" -c 'import torch' 2>/dev/null; then
        baselines=("$python" "$here/baselines.py" --library "$library" --out "$out" --work "$work" --dry-run
            --backend "$([ "$has_cuda" -gt 0 ] && echo cuda || echo cpu)")
    elif [ -z "$dry" ] && [ "$has_cuda" -gt 0 ] && [ $has_torch = 1 ]; then
        baselines=("$python" "$here/baselines.py" --library "$library" --out "$out" --work "$work")
    elif [ "$has_cuda" -gt 0 ]; then
        echo "$python has no PyTorch that sees the GPU: baselines are skipped, and so are models other than the demo's"
    fi
    prepare

    if [ -n "$dry" ]; then
        measure_tiny "$([ "$has_cuda" -gt 0 ] && echo cuda || echo cpu)"
        [ ${#baselines[@]} = 0 ] || "${baselines[@]}"
    else
        [ "$has_cuda" = 0 ] || measure_cuda
        # Keep a seventh of the time for the measurements after the baselines.
        [ ${#baselines[@]} = 0 ] || timeout $(($(left) - limit / 8)) "${baselines[@]}" --deadline $(($(left) - limit / 7)) \
            ${RVIT_BENCH_SECTIONS:+--sections "$RVIT_BENCH_SECTIONS"} 2>&1
        [ "$has_vulkan" = 0 ] || measure_vulkan
        measure_cpu
        photo
        [ "$has_software" = 0 ] || measure_software_vulkan
    fi
    [ ! -e "$out/baselines.json" ] || mv "$out/baselines.json" "$out/parts/"
    [ ! -e "$out/tests.json" ] || mv "$out/tests.json" "$out/parts/"
    python3 "$here/collect.py" "$out" "$RVIT_BENCH_COMMIT" $SECONDS
    [ ${#baselines[@]} = 0 ] || python3 "$here/baselines/summary.py" "$out/parts" 2>&1 | tee "$out/summary.txt"
    if command -v gnuplot >/dev/null; then
        [ -n "$dry" ] || "$here/plots.sh" "$out/plots" "$out/run.json" "$here/results/accuracy_demo.json"
    else
        echo "no gnuplot here: bench/plots.sh draws run.json elsewhere"
    fi
    rm -rf "$out/codes"
    echo "done after $SECONDS s"
    return $failed
}

case ${1:-} in
pack) pack "${2:?BUILD}" "${3:?FOLDER}" ;;
from) run "${2:?FOLDER}" "${3:?OUT}" ;;
-*)
    sed -n '2,16p' "${BASH_SOURCE[0]}" | cut -c3-
    exit 2
    ;;
*)
    out=$(realpath -m "${1:-$root/build/bench}")
    . "$root/tools/setup.sh" python3 gnuplot-nox
    set +e
    run "$root/$build" "$out"
    ;;
esac
