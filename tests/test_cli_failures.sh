#!/bin/bash
# Tests batches in which one image has NaN scores: the other images must get their results. Runs the command line tool on the CPU.
# usage: test_cli_failures.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"
line() { sed -n "$1p" "$folder/out"; }
line_has() { line "$1" | grep -qE -- "$2" || fail "line $1 has no $2 ($what)"; }

# A model with large weights, so that every image except a black one overflows float16: the first channel of its patches is far above the
# others, and so the first column of the first query is infinite.
small=$folder/model.safetensors
cp "$tests/data/reference/model.safetensors" "$small"
cp "$tests/data/reference/config.json" "$folder"
overwrite() { # TENSOR VALUES: of float16, as printf writes them
    local begin
    begin=$(LC_ALL=C grep -aoE "\"$1\":\{[^}]*\"data_offsets\":\[[0-9]+" "$small" | grep -oE '[0-9]+$')
    printf "$2" | dd of="$small" bs=1 seek=$((8 + $(od -A n -t u8 -N 8 "$small") + begin)) conv=notrunc 2>/dev/null
}
overwrite patch_embed.proj.weight '\377\173\377\173\377\173\377\173' # 65504
overwrite blocks.0.attn.qkv.weight '\342\164'                           # 20000
black=$folder/black.png
base64 -d >"$black" <<<iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVQI12NgYGAAAAAEAAEnNCcKAAAAAElFTkSuQmCC
prune=(--prune l2 --blocks 1)
bad() { expect "$1" classify "$small" "${@:2}" "${prune[@]}" --backend cpu --dtype f16 --mean 0 --std 1; }
bad 0 "$black"
bad 4 "$cat" # every image
err "^raggedvit: $cat: a score is NaN at prune stage 0 \(block 1\): the model overflows float16; use bf16 or f32$"

echo "no image" >"$folder/broken.png"
files=("$black" "$cat" "$black" "$folder/broken.png" "$black" "$cat" "$black")
for variant in "--prepare host" "--prepare device"; do
    for batch in 1 3 7; do
        # shellcheck disable=SC2086
        bad 1 "${files[@]}" $variant --batch $batch --ndjson
        [ "$(wc -l <"$folder/out")" -eq 9 ] || fail "expected a line for each image, and two more ($variant, batches of $batch)"
        [ "$(wc -l <"$folder/err")" -eq 3 ] || fail "expected a message for each failure ($variant, batches of $batch)"
        for i in 0 1 2 3 4 5 6; do
            case $i in
            1 | 5) line_has $((i + 2)) "^\{\"file\": \"$cat\", \"tile\": null, \"position\": $i, \"error\": \"a score is NaN at .*\"\}$" ;;
            3) line_has 5 "^\{\"file\": \".*broken.png\", \"tile\": null, \"position\": 3, \"error\": \".*\"\}$" ;;
            *) line_has $((i + 2)) "^\{\"file\": \"$black\", \"tile\": null, \"position\": $i, \"logits\": \[" ;;
            esac
        done
        line_has 9 '"n_images": 4, "n_failed": 3, .*"exit_code": 1'
        sed 's/"position": [0-9]*//' "$folder/out" | grep '"logits"' | sort -u >"$folder/good"
        [ "$(wc -l <"$folder/good")" -eq 1 ] || fail "a batch with failures changes the others ($variant, batches of $batch)"
    done
    # shellcheck disable=SC2086
    bad 1 "${files[@]}" $variant --json --features "$folder/features.npy"
    json images 4
    json images.1.position 2
    json failed 3
    json failed.0.position 1
    json failed.1.file '.*broken.png'
    json failed.2.position 5
    json n_failed 3
    head -c 128 "$folder/features.npy" | grep -aq "'shape': (4, 32), }" || fail "the features of failed images"
    # shellcheck disable=SC2086
    bad 1 "${files[@]}" $variant
    [ "$(grep -c 'black.png  ' "$folder/out")" -eq 4 ] || fail "the results of the other images"
    ! grep -q chelsea "$folder/out" || fail "a result for a failed image"
    out '^failed +3, see the messages$'
    printf '0\n%.0s' 1 2 3 4 5 6 7 >"$folder/right.txt"
    # shellcheck disable=SC2086
    bad 1 "${files[@]}" $variant --expect "$folder/right.txt" --quiet
    out '^top-1 .* of 4\)$'
    # the overlay shows the first image, which has no result here
    # shellcheck disable=SC2086
    bad 1 "$cat" "$black" $variant --overlay "$folder/overlay.png"
    err "^raggedvit: $folder/overlay.png: is not written: the first image could not be computed$"
    [ ! -e "$folder/overlay.png" ] || fail "an overlay without a result"
    ! grep -q '^overlay ' "$folder/out" || fail "the output names an overlay that was not written"
done
bad 1 "$black" "$cat" "$black" --prepare device --timings --quiet
out '^timings '

# policies that do not use scores: the logits, or without a head the features, show the failure
for policy in none "random --blocks 1" "tome --blocks 1"; do
    read -ra prune <<<"--prune $policy"
    bad 1 "${files[@]}" --json --features "$folder/features.npy"
    json n_failed 3
    json failed.0.position 1
    json failed.0.error 'its logits are not finite: the model overflows float16; use bf16 or f32'
    json failed.2.position 5
    json images 4
    head -c 128 "$folder/features.npy" | grep -aq "'shape': (4, 32), }" || fail "the features of failed images ($policy)"
    [ "$(grep -c 'its logits are not finite' "$folder/err")" -eq 2 ] || fail "expected a message for each failed image ($policy)"
done
expect 1 bench "$small" --backend cpu --dtype f16 --batch 1 --prune none
err 'its logits are not finite: the model overflows float16'
prune=(--prune l2 --blocks 1)

# Batches with one such image, for every policy; 10,000 batches with RVIT_TEST_CASES=all. The results of the other images must not change.
files=()
for i in 0 1 2 3 4 5 6 7 8 9; do # batches of 5: one bad image in each, at every place
    for place in 0 1 2 3 4; do
        if [ $place -eq $((i % 5)) ]; then files+=("$cat"); else files+=("$black"); fi
    done
done
rounds=1
[ "${RVIT_TEST_CASES:-}" != all ] || rounds=125
n_batches=0
for policy in none l2 evit evit-fused ats-paper tome random received; do
    read -ra prune <<<"--prune $policy --blocks 1"
    [ $policy != none ] || prune=(--prune none)
    bad 0 "$black" --ndjson
    sed 's/"position": [0-9]*//' "$folder/out" | grep '"logits"' >"$folder/single"
    for ((round = 0; round < rounds; round++)); do
        bad 1 "${files[@]}" --batch 5 --ndjson
        line_has 52 '"n_images": 40, "n_failed": 10, '
        sed 's/"position": [0-9]*//' "$folder/out" | grep '"logits"' | sort -u >"$folder/good"
        cmp -s "$folder/good" "$folder/single" || fail "a batch with a bad image changes the others ($policy)"
        n_batches=$((n_batches + 10))
    done
done
echo "$n_batches batches with a bad image"
prune=(--prune l2 --blocks 1)

# tiles, and frames of a video
bad 4 "$sheet" --tiles 160 --limit 3 --json
json failed 3
json failed.2.tile 2
json failed.2.error 'tile 2: a score is NaN.*'
{ head -c 1800 /dev/zero; head -c 1800 /dev/zero | tr '\0' '\200'; head -c 1800 /dev/zero; } >"$folder/frames"
what="frames"
"$tool" classify "$small" - --size 30x20 --format rgb24 --backend cpu --dtype f16 --mean 0 --std 1 --prune l2 --blocks 1 --ndjson \
    --batch 2 <"$folder/frames" >"$folder/out" 2>"$folder/err"
[ $? -eq 1 ] || fail "the exit code of frames"
err '^raggedvit: standard input: frame 1: a score is NaN '
line_has 2 '"frame": 0'
line_has 3 '"error": "frame 1: a score is NaN .*", "frame": 1\}$'
line_has 4 '"frame": 2'

finish
