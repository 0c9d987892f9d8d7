#!/bin/bash
# Tests the output of raggedvit classify --text-embeddings, and invalid files, on the CPU. python/tests/test_zero_shot.py compares the
# probabilities with transformers.
# usage: test_zero_shot.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER      (json_get is in the folder of RAGGEDVIT)
. "$(dirname "$0")/cli_checks.sh"

get() { "$json_get" "$1" <"$folder/out"; }

# bytes HEX: prints the bytes.
bytes() { printf "$(sed 's/../\\x&/g' <<<"$1")"; }
# tensors FILE HEADER: writes a .safetensors file with the data from standard input.
tensors() {
    { bytes "$(printf '%02x%02x000000000000' $((${#2} % 256)) $((${#2} / 256)))"; printf '%s' "$2"; cat -; } >"$1"
}
# identity ROWS COLUMNS: prints a float32 matrix with 2 on the diagonal.
identity() {
    local i j
    for ((i = 0; i < $1; i++)); do for ((j = 0; j < $2; j++)); do [ $i -eq $j ] && bytes 00000040 || bytes 00000000; done; done
}
matrix() { echo "\"$1\":{\"dtype\":\"F32\",\"shape\":[$2,$3],\"data_offsets\":[$4,$(($4 + 4 * $2 * $3))]}"; }

# The demo's model as a CLIP model with its ten logits as embedding: with unit vectors as texts, the scores have the order of the logits.
model=$folder/clip/model.safetensors
mkdir -p "$folder/clip" || exit 1
cp "$data/deit_tiny_cifar10.safetensors" "$model"
echo '{"architecture": "vit_base_patch16_clip_224", "num_classes": 10,
    "model_args": {"embed_dim": 192, "depth": 12, "num_heads": 3, "num_classes": 10, "pre_norm": false}}' >"$folder/clip/config.json"
texts=$folder/texts.safetensors
identity 10 10 | tensors "$texts" "{$(matrix t 10 10 0)}"
printf 'text %d\n' 0 1 2 3 4 5 6 7 8 9 >"$folder/labels"

run 0 "$cat" --json
order=$(for i in 0 1 2 3 4; do get images.0.top.$i.class; done)
run 0 "$cat" --text-embeddings "$texts" --labels "$folder/labels" --json
[ "$(for i in 0 1 2 3 4; do get images.0.top.$i.class; done)" = "$order" ] || fail "the order of the texts differs from that of the logits"
[ "$(get images.0.top.0.label)" = "text $(get images.0.top.0.class)" ] || fail "the label is $(get images.0.top.0.label)"
[[ "$(get texts.scores) $(get texts.n) $(get texts.scale)" =~ ^softmax\ 10\ 100(\.0)?$ ]] || fail "texts in JSON"
run 0 "$cat" --text-embeddings "$texts" --labels "$folder/labels"
out '^texts +10, 10 wide; softmax of 100 x cosine \(no file has logit_scale\)$'
out '^  +[0-9.]+ %  text [0-9]$'
run 0 "$cat" --text-embeddings "$texts" --prune l2 --keep 0.5
out '^  +[0-9.]+ %  [0-9]$' # without labels by number, not by the names of the model's classes

# scale and bias in the file of the texts
scale='"logit_scale":{"dtype":"F32","shape":[],"data_offsets":[0,4]}'
{ bytes 0000803f0000c0bf; identity 10 10; } | tensors "$folder/scaled" "{$scale,
\"logit_bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]},$(matrix t 10 10 8)}"
run 0 "$cat" --text-embeddings "$folder/scaled"
out 'sigmoid of 2\.71828 x cosine -1\.5$'

# invalid files and options
refused() { # refused CODE WORDS ARGUMENT...
    run "$1" "$cat" "${@:3}"
    err "$2"
    no_out
}
refused 2 'text-tensor needs --text-embeddings' --text-tensor t
refused 4 "there is no tensor 'u'" --text-embeddings "$texts" --text-tensor u
head -n 9 "$folder/labels" >"$folder/nine"
refused 4 'nine: 9 class names, but .*texts.safetensors has embeddings of 10 texts' --text-embeddings "$texts" --labels "$folder/nine"
identity 4 12 | tensors "$folder/wide" "{$(matrix t 4 12 0)}"
refused 4 'wide: the text embeddings are 12 wide, the model.s image embeddings 10' --text-embeddings "$folder/wide"
identity 12 10 | tensors "$folder/zero" "{$(matrix t 12 10 0)}"
refused 4 'zero: the embedding of text 10 is zero' --text-embeddings "$folder/zero"
{ bytes 0000c07f; head -c 396 /dev/zero; } | tensors "$folder/nan" "{$(matrix t 10 10 0)}"
refused 4 'nan: the embedding of text 0 is not finite' --text-embeddings "$folder/nan"
identity 10 20 | tensors "$folder/two" "{$(matrix t 10 10 0),$(matrix u 10 10 400)}"
refused 4 "two: has 2 tensors with two dimensions, 't' is the first; choose one with --text-tensor" --text-embeddings "$folder/two"
{ bytes 0000807f; identity 10 10; } | tensors "$folder/infinite" "{$scale,$(matrix t 10 10 4)}"
refused 4 "infinite: tensor 'logit_scale' is not a single finite number" --text-embeddings "$folder/infinite"
head -c 100 "$texts" >"$folder/cut"
refused 4 'cut' --text-embeddings "$folder/cut"
refused 4 'missing' --text-embeddings "$folder/missing"
model=$data/deit_tiny_cifar10.safetensors
refused 3 'deit_tiny_cifar10.safetensors: has no embedding to compare with texts' --text-embeddings "$texts"

finish
