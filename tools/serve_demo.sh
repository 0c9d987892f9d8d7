#!/usr/bin/env bash
# Installs what is missing, builds, fetches Triton Inference Server, starts it on loopback with the demo checkpoint, sends the photo and the
# 1,000 test tiles by HTTP and gRPC, and stops it. Fails unless every answer equals that of `raggedvit classify`.
targets="raggedvit raggedvit_cli triton_raggedvit"
. "$(dirname "$0")/setup.sh" python3-venv curl
raggedvit=$PWD/$build/tools/raggedvit
data=$PWD/examples/data
model=$data/deit_tiny_cifar10.safetensors
demo=build/serve-demo
server=build/triton-server
limit=${RVIT_DEMO_TILES:-1000}

tools/triton_server.sh fetch $server
[ -e $demo/venv/complete ] || { python3 -m venv $demo/venv && $demo/venv/bin/pip install --quiet 'tritonclient[http,grpc]' numpy pillow &&
    touch $demo/venv/complete; }

# A repository with two entries. The one for the photo is minimal; its other settings come from the checkpoint. The one for tiles squashes
# them to the model's input size. In both, requests may choose a second policy.
rm -rf $demo/models
for entry in photo tiles; do
    mkdir -p $demo/models/$entry/1
    ln -s "$model" $demo/models/$entry/1/model.safetensors
done
cat >$demo/models/photo/config.pbtxt <<'END'
backend: "raggedvit"
parameters [{ key: "settings" value { string_value: "l2 keep=0.5" } }]
END
cat >$demo/models/tiles/config.pbtxt <<'END'
backend: "raggedvit"
max_batch_size: 32
parameters [
  { key: "settings" value { string_value: "l2 keep=0.5" } },
  { key: "fit" value { string_value: "squash" } },
  { key: "crop" value { string_value: "1" } }
]
END

port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
http=$(port) grpc=$(port) metrics=$(port)
tools/triton_server.sh run $server --model-repository="$PWD/$demo/models" --backend-directory="$PWD/$build/serving/backends" \
    --http-port="$http" --grpc-port="$grpc" --metrics-port="$metrics" >$demo/server.log 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || true' EXIT
for ((i = 0; ; i++)); do
    curl -sf "127.0.0.1:$http/v2/health/ready" && break
    if [ $i -ge 600 ] || ! kill -0 $pid 2>/dev/null; then
        grep '^E' $demo/server.log >&2
        echo "The server did not start: see $demo/server.log" >&2
        exit 1
    fi
    sleep 0.1
done

echo
echo "The photo, as a client sends it (examples/triton_client.py):"
$demo/venv/bin/python examples/triton_client.py "127.0.0.1:$http" photo examples/data/chelsea.png
for policy in "none" "l2 --keep 0.5"; do
    # shellcheck disable=SC2086
    "$raggedvit" classify "$model" "$data/cifar10_test_1000.png" --tiles 32 --expect "$data/cifar10_test_1000.txt" --limit "$limit" \
        --backend cpu --json --prune $policy >"$demo/${policy%% *}.json"
done
echo
echo "Tiles of 32 x 32, one per request, from 16 clients, compared with 'raggedvit classify':"
$demo/venv/bin/python tools/serve_demo.py --http "127.0.0.1:$http" --grpc "127.0.0.1:$grpc" --model tiles \
    --tiles "$data/cifar10_test_1000.png" $demo/none.json $demo/l2.json
echo
echo "Metrics of the server (more at 127.0.0.1:PORT/metrics while it runs):"
curl -sf "127.0.0.1:$metrics/metrics" >$demo/metrics.txt
grep -E '^(raggedvit_.*_total|nv_inference_(request_success|request_failure|exec_count)).*"tiles"' $demo/metrics.txt |
    awk '{sub(/\{.*/, "", $1); if (!($1 in sum)) name[n++] = $1; sum[$1] += $NF}
         END {for (i = 0; i < n; i++) printf "  %-32s %.0f\n", name[i], sum[name[i]]}'

kill -TERM $pid
status=0
wait $pid || status=$?
trap - EXIT
[ $status = 0 ] || { grep '^E' $demo/server.log; echo "The server ended with status $status: $demo/server.log"; exit 1; } >&2
echo "The server has stopped. Its entries are in $demo/models; docs/serving.md explains how to write your own."
