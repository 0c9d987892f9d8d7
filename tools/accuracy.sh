#!/usr/bin/env bash
# Top-1 of the demo checkpoint on its sheet of test tiles, dense and under every policy at several rates, on each backend named.
# Prints a Markdown table; --json FILE also writes the figures there. Exits 1 if two backends differ by more than 0.3 points.
#
# usage: tools/accuracy.sh [--tiles N] [--dtype f32|f16|bf16] [--only PATTERN] [--json FILE] BACKEND...
# PATTERN picks rows, as 'tome|evit keep=0.7'. RAGGEDVIT names the tool (build/release/tools/raggedvit).
set -euo pipefail
cd "$(dirname "$0")/.."
raggedvit=${RAGGEDVIT:-build/release/tools/raggedvit}
data=examples/data
tiles=1000
dtype=f32
only=.
json=""
backends=()
while [ $# -gt 0 ]; do
    case $1 in
    --tiles) tiles=$2; shift ;;
    --dtype) dtype=$2; shift ;;
    --only) only=$2; shift ;;
    --json) json=$2; shift ;;
    cpu | vulkan | cuda) backends+=("$1") ;;
    *) sed -n '5,6s/^# //p' "$0" >&2; exit 2 ;;
    esac
    shift
done
[ ${#backends[@]} -gt 0 ] || { echo "accuracy: no backend is named" >&2; exit 2; }

# A policy and its settings; behind the bar the top-1 of the same settings on all 10,000 test images, where it is known.
rows='
none                            | 85.61
l2 keep=0.9
l2 keep=0.75                    | 85.31
l2 keep=0.5                     | 84.60
l2 keep=0.3                     | 83.55
l2 keep=0.2                     | 82.24
l2-threshold threshold=38
l2-threshold threshold=42
evit keep=0.9
evit keep=0.7
evit keep=0.5
evit-fused keep=0.9
evit-fused keep=0.7
evit-fused keep=0.5
evit-paper keep=0.75            | 84.66
evit-paper keep=0.5             | 83.59
evit-paper keep=0.2             | 81.78
dynamicvit keep=0.9             | 85.45
dynamicvit keep=0.8             | 85.17
dynamicvit keep=0.7             | 84.40
dynamicvit keep=0.6             | 83.80
dynamicvit keep=0.5             | 82.73
dynamicvit-gate threshold=0.5
ats samples=196
ats samples=98
ats samples=49
ats-paper mass=0.9
ats-paper mass=0.7
ats-paper keep=0.5
ats-paper keep=0.2
tome merge=4
tome merge=8
tome merge=13
random keep=0.75                | 84.95
random keep=0.5                 | 84.14
random keep=0.2                 | 81.73
received keep=0.75
received keep=0.5
received keep=0.2
'

# Runs one row on one backend; prints "RIGHT|TOKENS", the tokens left after each stage.
measure() {
    local backend=$1 policy=$2 setting
    shift 2
    local options=()
    for setting in "$@"; do
        options+=("--${setting%%=*}" "${setting#*=}")
    done
    "$raggedvit" classify $data/deit_tiny_cifar10.safetensors $data/cifar10_test_1000.png --tiles 32 --expect $data/cifar10_test_1000.txt \
        --limit "$tiles" --quiet --backend "$backend" --dtype "$dtype" --prune "$policy" "${options[@]}" |
        awk '$1 == "top-1" {gsub(/[(]/, "", $4); right = $4}
             $1 == "tokens" && $3 != "all" {tokens = tokens (tokens == "" ? "" : ", ") $3}
             END {if (right == "") exit 1; print right "|" tokens}'
}

# Of the tiles: as a fraction, in percent.
fraction() { awk -v n="$1" -v of="$tiles" 'BEGIN {printf "%.4f", n / of}'; }
percent() { awk -v n="$1" -v of="$tiles" 'BEGIN {printf "%.1f", 100 * n / of}'; }

# Of many stages the first and the last.
shorten() { awk -F', ' '{print (NF > 4 ? $1 " .. " $NF : $0)}' <<<"$1"; }

device_of() { "$raggedvit" classify $data/deit_tiny_cifar10.safetensors $data/chelsea.png --backend "$1" | sed -n 's/^device *//p'; }

results=""
add_result() {
    local separator=""
    [ -z "$results" ] || separator=$',\n'
    results+="$separator  {\"backend\": \"$1\", \"prune\": \"$2\", \"settings\": \"$3\", \"right\": $4, \"top1\": $(fraction "$4"),"
    results+=" \"mean_tokens\": [$5]}"
}

far=0
printf '| policy | settings | tokens left | %s | 10,000 images |\n|---|---|---|' "$(printf '%s | ' "${backends[@]}" | sed 's/ | $//')"
printf -- '---|%.0s' "${backends[@]}"
printf -- '---|\n'
while IFS='|' read -r row known; do
    read -r policy settings <<<"$row"
    [ -n "$policy" ] || continue
    cells=""
    lowest=""
    highest=""
    for backend in "${backends[@]}"; do
        # shellcheck disable=SC2086
        found=$(measure "$backend" "$policy" $settings)
        right=${found%%|*}
        tokens=${found#*|}
        add_result "$backend" "$policy" "$settings" "$right" "$tokens"
        cells+=" $(percent "$right") |"
        [ -n "$lowest" ] && [ "$lowest" -le "$right" ] || lowest=$right
        [ -n "$highest" ] && [ "$highest" -ge "$right" ] || highest=$right
    done
    printf '| %s | %s | %s |%s %s |\n' "$policy" "${settings//=/ }" "$(shorten "${tokens:-all}")" "$cells" "$(tr -d ' ' <<<"$known")"
    if [ $(((highest - lowest) * 1000)) -gt $((3 * tiles)) ]; then
        echo "accuracy: the backends differ by $((highest - lowest)) images of $tiles" >&2
        far=1
    fi
done < <(grep -E -- "$only" <<<"$rows")

if [ -n "$json" ]; then
    devices=""
    for backend in "${backends[@]}"; do
        [ -z "$devices" ] || devices+=", "
        devices+="\"$backend\": \"$(device_of "$backend" | sed 's/["\\]/ /g')\""
    done
    {
        printf '{\n "benchmark": "accuracy",\n "date": "%s",\n' "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
        printf ' "version": "%s",\n' "$("$raggedvit" --version | awk '{print $2}')"
        printf ' "model": "deit_tiny_cifar10.safetensors",\n "data": "cifar10_test_1000.png",\n'
        printf ' "tiles": %s,\n "dtype": "%s",\n' "$tiles" "$dtype"
        printf ' "devices": {%s},\n "results": [\n%s\n ]\n}\n' "$devices" "$results"
    } >"$json"
fi
exit $far
