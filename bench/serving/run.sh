#!/usr/bin/env bash
# Measures Triton Inference Server with raggedvit, and compares it with direct sessions and with a backend that computes nothing.
#   bench/serving/run.sh BUILD SERVER OUT [cpu|cuda] [SECONDS]     SECONDS (60) per point; writes OUT/serving.json, prints a table
#   bench/serving/run.sh BUILD SERVER OUT two [SECONDS]            two GPUs against one of them, 200,000 images each
# BUILD: a build folder with RVIT_TRITON and RVIT_BENCH. SERVER: a folder of tools/triton_server.sh. Each part is written to OUT/parts when
# it is complete. RVIT_SERVING_PORT (18400): the first of three ports on 127.0.0.1. RVIT_SERVING_CLIENTS (1,8,64,256): numbers of clients.
# RVIT_SERVING_TRANSPORT (grpc-shared) and RVIT_SERVING_INSTANCES (1_1 2_1 1_2 2_2: GPUs and instances on each) are for `two`.
# RVIT_SERVING_EDGE: all images are N x N. RVIT_SERVING_COMMIT: written to the report. RVIT_SERVER_ARGS: further arguments of the server.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
[ $# -ge 3 ] || { sed -n '2,8p' "${BASH_SOURCE[0]}" | cut -c3-; exit 2; }
build=$(cd "$1" && pwd) server=$2 mode=${4:-cpu} seconds=${5:-60}
mkdir -p "$3/parts" "$3/logs"
out=$(cd "$3" && pwd)
port=${RVIT_SERVING_PORT:-18400}
programs=$build/bench/serving
work=$(mktemp -d)
pid=""
failed=0
trap '[ -z "$pid" ] || kill "$pid" 2>/dev/null; rm -rf "$work"' EXIT
export LC_ALL=C
export RVIT_SERVING_COMMIT=${RVIT_SERVING_COMMIT:-$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)}

# The library opens cuBLASLt at run time, which may be installed only with PyTorch.
lt=$(find /usr/local/cuda*/lib64/ -name 'libcublasLt.so.1[23]' 2>/dev/null | sort -V | tail -1)
[ -n "$lt" ] || lt=$(python3 -c 'import importlib.util, pathlib
spec = importlib.util.find_spec("torch")
found = sorted((pathlib.Path(spec.origin).parents[1] / "nvidia").glob("*/lib/libcublasLt.so.1[23]")) if spec and spec.origin else []
print(found[-1] if found else "")')
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/lib${lt:+:$(dirname "$lt")}
[ "$mode" = cpu ] || echo "cuBLASLt: ${lt:-not found}"

case $mode in
cpu) batch=8 kind=KIND_CPU classes=10 model=$root/examples/data/deit_tiny_cifar10.safetensors
    direct=(--backend cpu --dtype f32) gpus=('') more="" ;;
cuda) batch=64 kind=KIND_GPU classes=1000 direct=(--backend cuda --dtype f16) gpus=('gpus: [ 0 ]') more="3 4" ;;
two) batch=64 kind=KIND_GPU classes=1000 direct=(--backend cuda --dtype f16) gpus=('gpus: [ 0 ]' 'gpus: [ 0, 1 ]') ;;
*) echo "run.sh: '$mode' is not cpu, cuda or two" >&2; exit 2 ;;
esac
if [ "$mode" != cpu ]; then
    model=$work/deit_base.safetensors
    "$programs/serve_model" 12 "$model" || exit 1
fi
direct+=(--prune 'l2 keep=0.5' ${RVIT_SERVING_EDGE:+--edge "$RVIT_SERVING_EDGE"})

# repository NAME GPUS INSTANCES [SMALL_BATCH]: makes a repository with one model
repository() {
    local small=""
    [ -z "${4:-}" ] || small="parameters [{ key: \"small_batch\" value { string_value: \"$4\" } }]"
    mkdir -p "$work/$1/$1/1"
    if [ "$1" = noop ]; then
        cat >"$work/noop/noop/config.pbtxt" <<END
backend: "noop"
max_batch_size: $batch
input [{ name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] allow_ragged_batch: true }]
output [{ name: "LOGITS" data_type: TYPE_FP32 dims: [ $classes ] }]
instance_group [{ count: 2 kind: KIND_CPU }]
dynamic_batching { }
END
    else
        ln -sf "$(realpath "$model")" "$work/$1/$1/1/model.safetensors"
        cat >"$work/$1/$1/config.pbtxt" <<END
backend: "raggedvit"
max_batch_size: $batch
instance_group [{ count: $3 kind: $kind $2 }]
dynamic_batching { }
parameters [{ key: "policy" value { string_value: "l2" } }, { key: "keep" value { string_value: "0.5" } }]
$small
END
    fi
}

# serve NAME: starts a server on that repository
serve() {
    "$root/tools/triton_server.sh" run "$server" --model-repository="$work/$1" --backend-directory="$build/serving/backends" \
        --http-port=$port --grpc-port=$((port + 1)) --metrics-port=$((port + 2)) --allow-gpu-metrics=false ${RVIT_SERVER_ARGS:-} \
        >"$out/logs/server_$1.log" 2>&1 &
    pid=$!
}

stop() {
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    echo "server: exit $?"
    pid=""
}

# load PART MODEL ARGS...
load() {
    local part=$1 name=$2
    shift 2
    if ! kill -0 "$pid" 2>/dev/null; then
        echo "$part: the server has ended: $(tail -1 "$out/logs/server_$name.log")"
        failed=1
        return 1
    fi
    timeout "${limit:-3600}" "$programs/serve_load" "$name" --http-port $port --grpc-port $((port + 1)) --metrics-port $((port + 2)) \
        --server-pid "$pid" --wait 60 --max-images "${max_images:-$batch}" --json "$out/parts/$part.json" "$@" 2>&1 |
        tee "$out/logs/$part.log"
    [ "${PIPESTATUS[0]}" = 0 ] || { echo "$part: not all answers were right (logs/$part.log)"; failed=1; return 1; }
}

measure_direct() {
    timeout 600 "$programs/serve_direct" "$model" "${direct[@]}" --seconds "$seconds" --json "$out/parts/$1.json" "${@:2}" 2>&1 |
        tee "$out/logs/$1.log"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=1
}

checked=(--checkpoint "$model" "${direct[@]}")
if [ "$mode" = two ]; then
    measure_direct direct_1 --batch $batch --devices 0
    measure_direct direct_2 --batch $batch --devices 0,1
    for of in ${RVIT_SERVING_INSTANCES:-1_1 2_1 1_2 2_2}; do
        repository "gpus_$of" "${gpus[${of%_*} - 1]}" "${of#*_}"
        serve "gpus_$of"
        load "gpus_$of" "gpus_$of" --transport "${RVIT_SERVING_TRANSPORT:-grpc-shared}" --clients 512 --requests 200000 "${checked[@]}"
        stop
    done
else
    clients=${RVIT_SERVING_CLIENTS:-1,8,64,256}
    transports="http-shared grpc-shared grpc http"
    idle_seconds=$(python3 -c "print(min($seconds, max(3, $seconds / 4)))")
    measure_direct direct --batch $batch,1
    repository noop
    serve noop
    for transport in $transports; do
        load "noop_$transport" noop --transport $transport --clients $clients --seconds "$idle_seconds" --expect zeros
    done
    stop
    repository raggedvit "${gpus[0]}" 2
    serve raggedvit
    # Check the answers before anything is timed.
    load right raggedvit --transport grpc --clients 16 --requests 64 "${checked[@]}" --warm-up 0.1
    for transport in $transports; do
        load "closed_$transport" raggedvit --transport $transport --clients $clients --seconds "$seconds" "${checked[@]}"
        [ -e "$out/parts/closed_$transport.json" ] || continue
        rates=$(python3 "$root/bench/serving/collect.py" --rates "$out/parts/closed_$transport.json")
        [ $transport = grpc-shared ] ||
            load "open_$transport" raggedvit --transport $transport --clients 256 --rates "$rates" --seconds "$seconds" "${checked[@]}"
    done
    for transport in http-shared grpc; do
        load "encoded_$transport" raggedvit --transport $transport --input encoded --clients 64 --seconds "$seconds" "${checked[@]}"
    done
    stop
    # One image in a session for one image, like the direct call.
    repository small "${gpus[0]}" 2 1
    serve small
    for transport in $transports; do
        max_images=1 load "small_$transport" small --transport $transport --clients 1 --seconds "$seconds" "${checked[@]}"
    done
    stop
    # With more sessions, direct or in the server, the device is idle less often.
    for n in $more; do
        measure_direct "direct_$n" --batch $batch --threads "$n"
        repository "instances_$n" "${gpus[0]}" "$n"
        serve "instances_$n"
        for transport in http-shared grpc; do
            load "instances_${n}_$transport" "instances_$n" --transport $transport --clients 64,256 --seconds "$seconds" "${checked[@]}"
        done
        stop
    done
fi
python3 "$root/bench/serving/collect.py" "$out" || failed=1
exit $failed
