#!/bin/bash
# Tests shards of the command line tool, on the CPU: each process runs some of the images, and merge gives the output of a single process.
# usage: test_cli_shards.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"
small=$tests/data/reference/model.safetensors

# images of several sizes; two cannot be read
mkdir "$folder/many"
for i in $(seq 10 22); do
    case $i in
    12 | 19) head -c $((1000 * i)) "$cat" >"$folder/many/$i.png" ;;
    *5) cp "$sheet" "$folder/many/$i.png" ;;
    *) cp "$cat" "$folder/many/$i.png" ;;
    esac
done
images() { grep -E '^\{"file": ' "${1:-$folder/out}" | sed 's/,$//'; }
# sharded N CODE ARGUMENT...: runs N shards, and the whole run with exit code CODE. Writes the output of the whole run to $folder/whole and
# the merged output to $folder/out, both as lines if the arguments have --ndjson.
sharded() {
    local n=$1 code=$2 i
    shift 2
    expect "$code" classify "$small" "$@" --backend cpu
    cp "$folder/out" "$folder/whole"
    cp "$folder/err" "$folder/messages"
    : >"$folder/shard_messages"
    for i in $(seq 0 $((n - 1))); do
        what="$* --shard $i/$n"
        "$tool" classify "$small" "$@" --backend cpu --shard "$i/$n" >"$folder/shard$i.json" 2>"$folder/err"
        [ $? -le 1 ] || fail "the exit code of a shard"
        cat "$folder/err" >>"$folder/shard_messages"
    done
    sort "$folder/messages" | cmp -s - <(sort "$folder/shard_messages") ||
        fail "the messages of the shards differ from those of the whole run ($*)"
}
parts() { for i in "$@"; do echo "$folder/shard$i.json"; done; }
same() { # the merged run is the whole one, but for times
    cmp -s <(images) <(images "$folder/whole") || fail "merged images differ from those of one run ($what)"
    cmp -s <(sed 's/"seconds".*"exit_code"/"exit_code"/' "$folder/out") <(sed 's/"seconds".*"exit_code"/"exit_code"/' "$folder/whole") ||
        fail "merged output differs from that of one run ($what)"
}

printf '%s\n' 0 1 2 3 4 5 6 0 1 2 3 4 5 >"$folder/right.txt"
for lines in --json --ndjson; do
    for options in "" "--prepare device --prune l2 --blocks 1" "--prune tome --merge 3 --expect $folder/right.txt --batch 2" \
        "--limit 8 --expect $folder/right.txt --prune ats --blocks 1"; do
        for n in 1 3 4; do
            # shellcheck disable=SC2086
            sharded $n 1 "$folder/many" $lines $options
            # shellcheck disable=SC2046
            expect 1 merge $lines $(parts $(seq $((n - 1)) -1 0)) # in any order
            no_err
            same
        done
    done
done
sharded 2 1 "$folder/many" --ndjson --prune l2 --blocks 1
# shellcheck disable=SC2046
expect 1 merge $(parts 0 1) # lines in, one object out
json images 11
json images.10.position 12
json failed.1.position 9
json n_failed 2
json inputs.n 13
json tokens.kept.0 '[1-9][0-9]+'
json tokens.all 319
cp "$folder/shard0.json" "$folder/other.json"
sharded 2 1 "$folder/many" --json --prune l2 --blocks 1
expect 1 merge "$folder/other.json" "$folder/shard1.json" # one as lines, one as an object
cmp -s <(images) <(images "$folder/whole") || fail "shards in different formats are not merged correctly"
# a mask file refers to all images
for i in $(seq 1 13); do echo "[[$i, $((i + 7))]]"; done | paste -sd, | sed 's/.*/[&]/' >"$folder/mask"
sharded 3 1 "$folder/many" --json --prune mask --mask "$folder/mask" --blocks 1
# shellcheck disable=SC2046
expect 1 merge $(parts 0 1 2)
same
# Tiles of several sheets, one unreadable; more shards than images.
head -c 3000 "$sheet" >"$folder/cut.png"
sharded 3 1 "$sheet" "$folder/cut.png" "$sheet" --tiles 160 --json --limit 110
# shellcheck disable=SC2046
expect 1 merge $(parts 0 1 2)
json images 70 # 110 without the 40 tiles of the unreadable sheet
same
sharded 4 0 "$cat" "$cat" --json
json images 2
# shellcheck disable=SC2046
expect 0 merge $(parts 3 2 1 0)
same
for i in 0 1; do
    expect 4 classify "$small" "$folder/none.png" "$folder/none.jpg" --backend cpu --json --shard $i/2
    cp "$folder/out" "$folder/shard$i.json"
done
# shellcheck disable=SC2046
expect 4 merge $(parts 0 1) # every image
json n_failed 2
expect 0 classify "$small" "$cat" "$cat" "$cat" --backend cpu --shard 1/2
out '^shard +1/2 of 3 images$'
[ "$(grep -c 'chelsea.png$' "$folder/out")" -eq 1 ] || fail "the text of a shard"

# invalid shards
for shard in 3/2 2/2; do
    expect 2 classify "$small" "$cat" --shard $shard
    err "^raggedvit: --shard is '$shard', expected 0/2 to 1/2: shards are counted from 0, "
done
for shard in 0/0 1 /2 0/ -1/2 0/-2 0/2x 0x/2 ' 0/2' 0/65537 99999999999999999999/2 ''; do
    expect 2 classify "$small" "$cat" --shard "$shard"
    err "^raggedvit: --shard is '$shard', expected I/N such as 0/4: shard I of N, "
done
expect 2 classify "$small" - --size 30x20 --format nv12 --shard 0/2
err "excludes .*--shard"
expect 2 verify "$small" --shard 0/2
expect 2 merge

# files that cannot be merged
shards() { # ARGUMENT...: two shards of it
    for i in 0 1; do
        "$tool" classify "$small" "$@" --backend cpu --shard $i/2 >"$folder/shard$i.json" 2>"$folder/err" || fail "a shard of $*"
    done
}
refused() { # MESSAGE FILE...
    local message=$1
    shift
    expect 4 merge "$@"
    err "^raggedvit: $message"
    [ "$(wc -l <"$folder/err")" -eq 1 ] || fail "more than one message ($what)"
}
zero=$folder/shard0.json one=$folder/shard1.json
for lines in --json --ndjson; do
    shards "$cat" "$cat" "$cat" $lines --prune l2 --blocks 1
    refused "shard 1/2 is missing$" "$zero"
    refused "shard 0/2 is missing$" "$one"
    refused "$zero: is shard 0/2, and so is $zero$" "$zero" "$zero" "$one"
    refused "$folder/none.json: cannot be read: No such file" "$zero" "$folder/none.json"
    refused "$folder: is not a regular file$" "$zero" "$folder"
    for other in "--prune l2 --blocks 1 --keep 0.4" "--prune evit --blocks 1" "--dtype f16 --prune l2 --blocks 1" \
        "--prune l2 --blocks 1 --batch 1" "--prune l2 --blocks 1 --limit 2"; do
        # shellcheck disable=SC2086
        "$tool" classify "$small" "$cat" "$cat" "$cat" $lines $other --backend cpu --shard 1/2 >"$folder/other.json"
        refused "$folder/other.json: is of a different run than $zero: \"[a-z]+\" is .* instead of .*" "$zero" "$folder/other.json"
    done
    "$tool" classify "$small" "$cat" "$sheet" "$cat" $lines --prune l2 --blocks 1 --backend cpu --shard 1/2 >"$folder/other.json"
    refused "$folder/other.json: is of a different run than $zero: \"inputs\" is" "$zero" "$folder/other.json"
    "$tool" classify "$small" "$cat" "$cat" "$cat" $lines --prune l2 --blocks 1 --backend cpu --shard 1/3 >"$folder/other.json"
    refused "$folder/other.json: is one of 3 shards, $zero is one of 2$" "$zero" "$folder/other.json"
    "$tool" classify "$small" "$cat" "$cat" "$cat" $lines --prune l2 --blocks 1 --backend cpu >"$folder/other.json"
    refused "$folder/other.json: is of a run without --shard$" "$folder/other.json" "$one"
    head -c 700 "$one" >"$folder/other.json"
    refused "$folder/other.json: is not JSON output of classify: value [12]: " "$zero" "$folder/other.json"
    sed 's/"logits": \[/"logits": [x/' "$one" >"$folder/other.json"
    refused "$folder/other.json: is not JSON output of classify: value [12]: " "$zero" "$folder/other.json"
    sed 's/"position": 1/"position": 2/' "$one" >"$folder/other.json"
    refused "$folder/other.json: an image has position 2, which is not one of shard 1/2" "$zero" "$folder/other.json"
    sed 's/"exit_code": 0/"exit_code": 5/' "$one" >"$folder/other.json"
    refused "$folder/other.json: the run stopped early with exit code 5" "$zero" "$folder/other.json"
    sed 's/"n_images": 1/"n_images": 2/' "$one" >"$folder/other.json"
    refused "the summaries count 4 images and 0 failures, but there are 3 and 0$" "$zero" "$folder/other.json"
done
sed '2d' "$zero" >"$folder/other.json" # lines: the first image
refused "$folder/other.json: image 0 is missing$" "$folder/other.json" "$one"
sed '2d' "$one" >"$folder/other.json"
refused "$folder/other.json: image 1 is missing$" "$zero" "$folder/other.json"
sed '3d' "$zero" >"$folder/other.json"
refused "$folder/other.json: image 2 is missing$" "$folder/other.json" "$one"
sed '$d' "$one" >"$folder/other.json"
refused "$folder/other.json: is truncated: its summary is missing$" "$zero" "$folder/other.json"
echo '{"images": [], "failed": []}' >"$folder/other.json"
refused "$folder/other.json: is not the output of classify --json or --ndjson$" "$zero" "$folder/other.json"
echo '[1]' >"$folder/other.json"
refused "$folder/other.json: is not JSON output of classify: value 1: not an object$" "$folder/other.json"
: >"$folder/other.json"
refused "$folder/other.json: is truncated" "$folder/other.json"
cat "$zero" "$zero" >"$folder/other.json"
refused "$folder/other.json: has data after its summary$" "$folder/other.json" "$one"
shards "$cat" "$cat" "$cat" --json --prune l2 --blocks 1
cat "$zero" "$zero" >"$folder/other.json"
refused "$folder/other.json: has more than one JSON value, and the first is not a run$" "$folder/other.json" "$one"
printf '{"run": {"inputs": {}, "shard": {"index": 2, "n": 2}}}' >"$folder/other.json"
refused "$folder/other.json: has an invalid \"shard\"$" "$folder/other.json"

finish
