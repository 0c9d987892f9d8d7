#!/usr/bin/env bash
# Everything that is shown on a GPU, in one call: first correctness, then measurements, then the table of what must hold.
#
#   bench/gpu.sh pack BUILD FOLDER    on the machine that built: copies what the run needs into FOLDER (built with -DRVIT_CUDA_ARCHS=90,
#                                     or it grows large: every program holds the kernels)
#   bench/gpu.sh run FOLDER OUT       on the machine with the GPU: writes OUT/*.json, OUT/tests.log and OUT/summary.txt
#
# RVIT_BENCH_SECONDS (570) is when the run must be over: what does not fit is left out and said so. RVIT_BENCH_PYTHON (python3) has PyTorch.
# RVIT_BENCH_SECTIONS names the sections of peers.py to run; RVIT_BENCH_WORK (/tmp/raggedvit-bench) is for checkpoints and compiled code.
# RVIT_BENCH_DRY=cpu or =cuda tries the whole script at tiny sizes without a GPU; cuda expects an emulated libcuda.so.1 on LD_LIBRARY_PATH.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
programs="test_ops test_laws test_model test_api test_cuda test_dumps test_policies test_demo python"

pack() {
    local build=$1 folder=$2 file
    set -e
    mkdir -p "$folder/lib"
    for file in bench/bench_attention bench/bench_forward tests/cuda/test_cuda \
        $(printf 'tests/%s ' test_ops test_laws test_model test_api test_dumps test_policies test_demo); do
        cp "$build/$file" "$folder/"
    done
    cp -L "$build/libraggedvit.so.0" "$folder/lib/"
    cp "$build/backend_cuda/registers.txt" "$build/backend_cuda/kernels.fatbin" "$folder/"
    # What another system may lack; the C library itself must be the older of the two.
    ldd "$folder"/test_* "$folder"/bench_* | awk '$2 == "=>" && $1 ~ /jansson|cmocka|png|jpeg/ {print $3}' | sort -u |
        while read -r file; do cp -L "$file" "$folder/lib/"; done
    strip "$folder"/test_* "$folder"/bench_* "$folder"/lib/libraggedvit.so.0
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

run() {
    pack=$(cd "$1" && pwd)
    mkdir -p "$2/logs" "$2/codes"
    out=$(cd "$2" && pwd)
    limit=${RVIT_BENCH_SECONDS:-570}
    python=${RVIT_BENCH_PYTHON:-python3}
    dry=${RVIT_BENCH_DRY:-}
    backend=${dry:-cuda}
    work=${RVIT_BENCH_WORK:-/tmp/raggedvit-bench}
    data=$root/examples/data
    mkdir -p "$work"
    RVIT_BENCH_COMMIT=$(cat "$pack/commit" 2>/dev/null || echo unknown)
    export RVIT_BENCH_COMMIT PYTHONUNBUFFERED=1 TORCHINDUCTOR_CACHE_DIR=$work/inductor TRITON_CACHE_DIR=$work/triton
    # cuBLASLt, which the library opens at run time, may lie only among PyTorch's packages.
    local lt
    lt=$("$python" -c 'import pathlib, torch
found = sorted((pathlib.Path(torch.__file__).parents[1] / "nvidia").glob("*/lib/libcublasLt.so.1[23]"))
print(found[-1] if found else "")' 2>/dev/null)
    [ -n "$lt" ] || lt=$(find /usr/local/cuda*/lib64/ -name 'libcublasLt.so.1[23]' 2>/dev/null | head -1)
    export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$pack/lib${lt:+:$(dirname "$lt")}
    echo "cuBLASLt: ${lt:-not found}"
    [ -n "$dry" ] || nvidia-smi --query-gpu=name,driver_version,clocks.sm,temperature.gpu,power.draw --format=csv,noheader
    library=$pack/lib/libraggedvit.so.0
    peers=("$python" "$here/peers.py" --library "$library" --out "$out" --work "$work" ${dry:+--dry-run --backend "$dry"})

    # Correctness; beside it, what must be compiled before anything is timed.
    pids=()
    if [ -z "$dry" ]; then
        for name in test_ops test_laws test_model test_api test_cuda; do
            start $name 240 "$pack/$name" --backend cuda
        done
        start test_dumps 240 "$pack/test_dumps" --data "$root/tests/model/data" --backend cuda
        start test_policies 240 "$pack/test_policies" --data "$data" "$root/tests/model/data/policies_8.txt" --backend cuda
        start test_demo 240 "$pack/test_demo" cuda "$data" all
        start python 240 env RVIT_PYTHON="$python" bash "$root/python/run_tests.sh" "$library"
        for share in 0 1 2 3; do
            start compile_$share 280 "${peers[@]}" --warm-compile $share/4
        done
    else
        start test_api 240 "$pack/test_api" --backend "$backend"
    fi
    start prepare 240 "${peers[@]}" --prepare
    wait "${pids[@]}"
    {
        echo "{"
        local comma=
        for name in $programs; do
            [ -e "$out/codes/$name" ] || continue
            printf '%s "%s": %s' "$comma" "$name" "$(cat "$out/codes/$name")"
            comma=$',\n'
        done
        printf '\n}\n'
    } >"$out/tests.json"
    for name in $programs; do
        [ -e "$out/logs/$name.log" ] && { echo "== $name, exit $(cat "$out/codes/$name")"; cat "$out/logs/$name.log"; }
    done >"$out/tests.log"
    grep -hE '^\[  (FAILED|ERROR)' "$out/tests.log" | sort -u | head -40
    echo "correctness done after $SECONDS s"

    # Measurements, one at a time.
    local sizes=() batches=1,4,16,64,256
    if [ -n "$dry" ]; then
        sizes=(--batch 1 --len 5 --heads 1 --calls 2 --repeats 3)
    fi
    timeout 60 "$pack/bench_attention" --backend "$backend" --json "$out/attention.json" "${sizes[@]}" >"$out/logs/attention.log" 2>&1 ||
        echo "bench_attention: exit $?: $(tail -1 "$out/logs/attention.log")"
    if [ -z "$dry" ]; then
        for model in deit_base_patch16_224 deit_tiny_patch16_224; do
            [ -e "$work/models/$model.safetensors" ] || continue
            timeout 60 "$pack/bench_forward" "$work/models/$model.safetensors" --backend cuda --dtype f16 --inputs device --seconds 0.4 \
                --batch $batches --json "$out/forward_$model.json" >"$out/logs/forward_$model.log" 2>&1 ||
                echo "bench_forward $model: exit $?: $(tail -1 "$out/logs/forward_$model.log")"
            cat "$out/logs/forward_$model.log"
        done
    else
        timeout 120 "$pack/bench_forward" "$work/tiny/tiny.safetensors" --backend "$backend" --dtype f16 --inputs device --seconds 0.1 \
            --batch 1 --json "$out/forward_tiny.json" >"$out/logs/forward_tiny.log" 2>&1 ||
            echo "bench_forward: exit $?: $(tail -1 "$out/logs/forward_tiny.log")"
    fi
    echo "C benchmarks done after $SECONDS s"
    timeout $(($(left) - 6)) "${peers[@]}" --deadline $(($(left) - 25)) ${RVIT_BENCH_SECTIONS:+--sections "$RVIT_BENCH_SECTIONS"} 2>&1
    echo "measurements done after $SECONDS s"
    for name in "$out"/logs/{attention,forward_*,compile_*,prepare}.log; do
        [ -e "$name" ] && { echo "== $(basename "$name")"; tail -40 "$name"; } >>"$out/tests.log"
    done
    rm -rf "$out/logs" "$out/codes"
    "$python" "$here/peers/summary.py" "$out" 2>&1 | tee "$out/summary.txt"
}

case ${1:-} in
pack) pack "$2" "$3" ;;
run) run "$2" "$3" ;;
*)
    sed -n '2,12p' "$0" | cut -c3-
    exit 2
    ;;
esac
