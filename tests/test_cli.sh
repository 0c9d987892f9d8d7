#!/bin/bash
# The command line tool from outside: what it prints, what it returns, and how it takes bad input. CPU only.
# usage: test_cli.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER      (json_get lies beside RAGGEDVIT)
set -u
tool=$1
data=$2
folder=$3/cli.$$
json_get=$(dirname "$tool")/json_get
model=$data/deit_tiny_cifar10.safetensors
sheet=$data/cifar10_test_1000.png
cat=$data/chelsea.png
failures=0
unset RVIT_LOG

mkdir -p "$folder" || exit 1
trap 'rm -rf "$folder"' EXIT
[ -x "$json_get" ] || { echo "no json_get beside $tool"; exit 1; }

fail() {
    echo "FAIL: $1"
    sed 's/^/    out: /' "$folder/out" | head -20
    sed 's/^/    err: /' "$folder/err" | head -20
    failures=$((failures + 1))
}

# expect CODE ARGUMENT...: runs the tool.
expect() {
    local wanted=$1 code
    shift
    what="$*"
    "$tool" "$@" >"$folder/out" 2>"$folder/err" </dev/null
    code=$?
    [ $code -eq "$wanted" ] || fail "exit code $code, expected $wanted: $what"
}
out() { grep -qE -- "$1" "$folder/out" || fail "not in the output: $1 ($what)"; }
err() { grep -qE -- "$1" "$folder/err" || fail "not in the messages: $1 ($what)"; }
no_out() { [ ! -s "$folder/out" ] || fail "unexpected output ($what)"; }
no_err() { [ ! -s "$folder/err" ] || fail "unexpected messages ($what)"; }
# json PATH PATTERN: the value at the path matches.
json() {
    local value
    value=$("$json_get" "$1" <"$folder/out") || { fail "no JSON, or no $1 ($what)"; return; }
    [[ $value =~ ^($2)$ ]] || fail "$1 is '$value', expected '$2' ($what)"
}
run() { expect "$1" classify "$model" "${@:2}" --backend cpu; }

# help, version, usage
expect 0 --help
for command in devices classify verify inspect policies; do
    expect 0 --help
    out "^  $command "
    expect 0 $command --help
    out "^usage: raggedvit $command"
    out "^  --help"
    no_err
done
expect 0 classify --help
for option in backend device tier threads prune keep blocks dtype batch top labels overlay tiles expect json; do
    out "^  --$option "
done
expect 0 --version
out '^raggedvit [0-9]+\.[0-9]+\.[0-9]+$'
expect 2
err "a command is needed"
for arguments in "frobnicate" "classify" "classify $model" "verify" "inspect" "inspect a b" "devices now" \
    "classify $model $cat --frobnicate" "classify $model $cat --batch" "classify $model $cat --batch 0" \
    "classify $model $cat --batch 2x" "classify $model $cat --keep 1.5 --prune l2" "classify $model $cat --keep -0.1 --prune l2" \
    "classify $model $cat --keep nan --prune l2" "classify $model $cat --keep 0.5" "classify $model $cat --prune some" \
    "classify $model $cat --prune mask" "classify $model $cat --prune l2 --blocks 6,3" "classify $model $cat --prune l2 --blocks 3," \
    "classify $model $cat --backend cpu --prune l2 --blocks 12" "classify $model $cat --dtype f64" "classify $model $cat --backend tpu" \
    "classify $model $cat --top 0" "classify $model $cat --tiles 0" "verify $model --tiles 32" "verify $model --top 3"; do
    # shellcheck disable=SC2086
    expect 2 $arguments
    err "^raggedvit: "
    no_out
done
expect 2 classify "$model" "$cat" --prune some
err "some.*none, l2, evit"

# devices and policies
expect 0 devices
out '^. cpu +0 '
no_err
expect 0 devices --json
json version '.+'
n_devices=$("$json_get" devices <"$folder/out")
cpu=0
while [ $cpu -lt $((n_devices - 1)) ] && [ "$("$json_get" devices.$cpu.backend <"$folder/out")" != cpu ]; do
    cpu=$((cpu + 1))
done
json "devices.$cpu.backend" cpu
json "devices.$cpu.usable" true
expect 0 policies
out '^evit '
expect 3 classify "$model" "$cat" --backend cpu --device 99
err "^raggedvit: cpu: "
no_out

# the checkpoint
expect 0 inspect "$model"
out '^architecture +deit_tiny_patch16_224'
out '^parameters +5526346$'
out '^not used +30 tensors$'
expect 0 inspect "$model" --tensors
[ "$(grep -c 'blocks.11.attn.qkv' "$folder/out")" -eq 2 ] || fail "tensors of block 11"
expect 0 inspect "$model" --json
json tensors 182
json dtypes.F16 182
json tokens 197
json refused null
head -c 100000 "$model" >"$folder/cut.safetensors"
for bad in "$folder/none.safetensors" "$folder/cut.safetensors" "$cat" "$folder"; do
    expect 4 inspect "$bad"
    err "^raggedvit: $bad: "
    no_out
    expect 4 classify "$bad" "$cat" --backend cpu
    err "^raggedvit: $bad: "
    no_out
    expect 4 verify "$bad" --backend cpu
    err "^raggedvit: $bad: "
done
# One that is misnamed is both missing and unknown.
sed 's/"norm\.bias"/"norx.bias"/' "$model" >"$folder/missing.safetensors"
expect 4 inspect "$folder/missing.safetensors"
err "norm\.bias"

# one image
run 0 "$cat"
out '^ +82\.2 %  cat$'
out '^tokens kept +all 197$'
no_err
run 0 "$cat" --prune l2 --keep 0.5 --top 1
out '%  cat$'
out '^tokens kept +(98|99)\.0 of 197 at block 3$'
run 0 "$cat" --prune evit --keep 0.5 --blocks 2,5 --top 1 --dtype f16 --tier scalar --threads 1
out '^tokens kept +99\.0 of 197 at block 2$'
out '^tokens kept +50\.0 of 197 at block 5$'
out 'scalar tier, f16'

# the overlay
rm -f "$folder/kept.png"
run 0 "$cat" --prune l2 --overlay "$folder/kept.png"
run 0 "$folder/kept.png" # it can be read
cmp -s "$cat" "$folder/kept.png" && fail "the overlay is the picture itself"
run 1 "$cat" --prune l2 --overlay "$folder/no/such/folder.png"
err "^raggedvit: $folder/no/such/folder.png: cannot be written"
out 'cat$'

# JSON
run 0 "$cat" --prune evit --keep 0.7 --json --top 2
no_err
json backend cpu
json device '.+'
json dtype f32
json prune evit
json keep '0\.7'
json images_per_second '[0-9.]+'
json images 1
json images.0.file '.*chelsea.png'
json images.0.tile null
json images.0.logits 10
json images.0.top 2
json images.0.top.0.class 3
json images.0.top.0.label cat
json images.0.top.0.probability '0\.[0-9]+'
json images.0.tokens_kept 3
json images.0.tokens_kept.0 139
json images.0.tokens_kept.2 69

# a sheet
run 0 "$sheet" --tiles 32 --limit 12 --batch 5 --expect "$data/cifar10_test_1000.txt"
out '^top-1 +[0-9.]+ % \([0-9]+ of 12\)$'
[ "$(grep -c '#' "$folder/out")" -eq 12 ] || fail "one line a tile"
run 0 "$sheet" --tiles 32 --limit 12 --expect "$data/cifar10_test_1000.txt" --json
json images 12
json images.11.tile 11
json top1 '[01](\.[0-9]+)?'
json images.0.top.0.label cat
json images.0.expected 3
run 0 "$sheet" --tiles 32 --limit 12 --quiet
! grep -q '#' "$folder/out" || fail "quiet still prints images"
run 4 "$sheet" --tiles 33
err "1280 x 800 pixels cannot be cut into tiles of 33"

# how images fall into batches does not matter
logits() { grep -o '"logits": \[[^]]*\]' "$folder/out" | tr -d '"a-z:[] '; }
run 0 "$sheet" --tiles 32 --limit 7 --batch 1 --json
logits >"$folder/ones"
run 0 "$sheet" --tiles 32 --limit 7 --batch 4 --json
logits >"$folder/fours"
paste -d, "$folder/ones" "$folder/fours" |
    awk -F, '{ for (i = 1; i <= 10; i++) { d = $i - $(i + 10); if (d > 1e-5 || d < -1e-5) bad = 1; n++ } } END { exit bad || n != 70 }' ||
    fail "logits at batch 1 and batch 4"

# class names and expectations
seq 100 109 >"$folder/names.txt"
run 0 "$cat" --labels "$folder/names.txt" --top 1
out '%  103$'
seq 1 9 >"$folder/names.txt"
run 4 "$cat" --labels "$folder/names.txt"
err "names.txt: 9 class names, but the model has 10 classes"
run 4 "$cat" --labels "$folder/none.txt"
err "none.txt: cannot be read: No such file"
echo cat >"$folder/right.txt"
run 0 "$cat" --expect "$folder/right.txt"
out '^top-1 +100.0 %'
echo 5 >"$folder/right.txt"
run 0 "$cat" --expect "$folder/right.txt"
out '^top-1 +0.0 %'
echo cow >"$folder/right.txt"
run 4 "$cat" --expect "$folder/right.txt"
err "right.txt: line 1: 'cow' is no class"
printf 'cat\ncat\n' >"$folder/right.txt"
run 4 "$cat" --expect "$folder/right.txt"
err "right.txt: 2 classes for 1 images"

# folders, lists, broken images
mkdir -p "$folder/pictures/inner" "$folder/empty"
cp "$cat" "$folder/pictures/b.png"
cp "$cat" "$folder/pictures/a.PNG"
cp "$cat" "$folder/pictures/inner/c.png"
echo "no picture" >"$folder/pictures/notes.md"
run 0 "$folder/pictures" --top 1
[ "$(grep -c 'cat$' "$folder/out")" -eq 2 ] || fail "two pictures in the folder"
[ "$(grep -m1 -n 'a\.PNG' "$folder/out" | cut -d: -f1)" -lt "$(grep -m1 -n 'b\.png' "$folder/out" | cut -d: -f1)" ] || fail "sorted"
run 4 "$folder/empty"
err "empty: no .png, .jpg or .jpeg files"
printf 'pictures/b.png\r\n\npictures/inner/c.png\n' >"$folder/list.txt"
run 0 "$folder/list.txt" --top 1
[ "$(grep -c 'cat$' "$folder/out")" -eq 2 ] || fail "two pictures in the list"
: >"$folder/list.txt"
run 4 "$folder/list.txt"
err "list.txt: the list names no image"
head -c 5000 "$cat" >"$folder/pictures/broken.png"
: >"$folder/pictures/none.jpg"
run 1 "$folder/pictures" "$folder/missing.png" --top 1
err "^raggedvit: $folder/pictures/broken.png: broken PNG"
err "^raggedvit: $folder/pictures/none.jpg: the file is empty"
err "^raggedvit: $folder/missing.png: cannot be read: No such file"
[ "$(grep -c 'cat 82.2 %' "$folder/out")" -eq 2 ] || fail "the good ones are classified"
run 1 "$folder/pictures" --json
json images 2
json failed 2
json failed.0.file '.*broken.png'
json failed.0.error 'broken PNG.*'
json exit_code 1
printf 'cat\ncat\n3\ndog\n' >"$folder/right.txt" # a.PNG, b.png, broken.png, none.jpg
run 1 "$folder/pictures" --expect "$folder/right.txt"
out '^top-1 +100.0 % \(2 of 2\)$'
run 4 "$folder/missing.png"
err "missing.png: cannot be read"
run 4 "$folder/missing.png" --json
json images 0

# output that cannot be written
if [ -w /dev/full ]; then
    "$tool" policies >/dev/full 2>"$folder/err"
    [ $? -eq 5 ] || fail "a full disk goes unnoticed"
fi

# verify: against float64 sums, and a tier against another
expect 0 verify "$model" --backend cpu --limit 2
out '^B .*oracle'
out '^result +within tolerance$'
no_err
expect 0 verify "$model" --backend cpu --tier scalar --against cpu --prune evit --keep 0.5 --images "$sheet" --tiles 32 --limit 4 --json
no_err
json a.tier scalar
json n_images 4
json stages 3
json stages.2.differ_same_scores 0
json blocks 12
json first_diverging_block null
json within_tolerance true
expect 0 verify "$model" --backend cpu --dtype f16 --against cpu --against-dtype f32 --prune l2 --limit 2
out 'tolerance 0.02'
expect 0 verify "$model" --backend cpu --against cpu --limit 1
err "same device"
expect 4 verify "$model" --backend cpu --images "$folder/missing.png"
err "missing.png: cannot be read"

if [ $failures -gt 0 ]; then
    echo "$failures failed"
    exit 1
fi
echo "all passed"
