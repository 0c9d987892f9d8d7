#!/usr/bin/env bash
# Fuzzes each target for a number of seconds and prints how many inputs ran. Failing inputs go to build/fuzz/findings. Inputs that reach new
# code stay in build/fuzz/corpus for the next run; tests/fuzz/fuzz_corpus.py adds some of them to the committed corpus.
#
# usage: tools/fuzz.sh [SECONDS [TARGET...]]      60 seconds; safetensors, index, config, image, ops, session, sequence, cache
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- safetensors index config image ops session sequence cache
build=${RVIT_FUZZ_BUILD:-build/fuzz}
clang=$(command -v clang-14 || command -v clang || true)
[ -n "$clang" ] || { echo "fuzz: clang is not installed (Debian: clang-14 libclang-rt-14-dev)" >&2; exit 2; }
# fuzzer-no-link instruments the library; tests/fuzz links libFuzzer's main.
flags='-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer'
cmake -S . -B "$build" -G Ninja -DCMAKE_C_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG="-O1 -g" \
    -DCMAKE_C_FLAGS="$flags" -DRVIT_FUZZ=ON -DRVIT_TESTS=ON -DRVIT_VULKAN=ON -DRVIT_CUDA=OFF -DRVIT_BENCH=OFF >/dev/null
programs=()
for target in "$@"; do programs+=("fuzz_$target"); done
cmake --build "$build" --target "${programs[@]}" | tail -1

export ASAN_OPTIONS=allocator_may_return_null=1
mkdir -p "$build/findings"
bad=0
for target in "$@"; do
    mkdir -p "$build/corpus/$target"
    committed=("tests/fuzz/corpus/$target")
    if [ -f "tests/fuzz/corpus/$target/found.pack" ]; then
        tests/fuzz/fuzz_corpus.py unpack "tests/fuzz/corpus/$target/found.pack" "$build/unpacked/$target"
        committed+=("$build/unpacked/$target")
    fi
    log=$build/fuzz_$target.log
    status=ok
    nice -n 10 "$build/tests/fuzz/fuzz_$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=3000 -max_len=8192 \
        -print_final_stats=1 -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "${committed[@]}" \
        >"$log" 2>&1 || { status=FOUND; bad=1; }
    awk -v target="$target" -v status="$status" -v log_file="$log" '
        /^stat::number_of_executed_units/ { n = $2 }
        / cov: / { for (i = 1; i < NF; i++) if ($i == "cov:") covered = $(i + 1) }
        END {
            printf "%-12s %12d executions, %6d edges, %s%s\n", target, n, covered, status, status == "ok" ? "" : " (" log_file ")"
        }' "$log"
done
exit $bad
