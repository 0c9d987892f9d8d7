#!/bin/bash
# Tests raggedvit quantize on the CPU: the results of the written files, and the reported errors of the layers.
# usage: test_cli_quantize.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"

tiles() { echo "$sheet" --tiles 32 --backend cpu --expect "$data/cifar10_test_1000.txt"; }
logits() { # MODEL DTYPE: classifies some tiles, and leaves their lines
    expect 0 classify "$1" $(tiles) --limit 16 --dtype "$2" --json
    json saturated 0
    grep -E '^\{"file": ' "$folder/out" >"$folder/$3"
    [ -s "$folder/$3" ] || fail "no images ($what)"
}

# the same quantized values as with quantization at load time
expect 0 quantize "$model" --output "$folder/int8.safetensors" --json
no_err
json dtype int8
json n_images 0
json n_layers 48
json n_skipped 0
json layers.0.weight blocks.0.attn.qkv.weight
json layers.47.layer fc2
json layers.0.weight_error '0\.00[5-9].*'
json layers.0.skipped null
[ $(($(stat -c %s "$folder/int8.safetensors") * 10)) -lt $(($(stat -c %s "$model") * 6)) ] || fail "the file is not smaller ($what)"
logits "$model" int8 own
logits "$folder/int8.safetensors" int8 written
cmp -s "$folder/own" "$folder/written" || fail "the file gives other logits than the model in int8"
expect 0 inspect "$folder/int8.safetensors" --tensors
out 'blocks.3.mlp.fc1.weight_scale'

# fixed input scales, from images
for dtype in int8 fp8; do
    [ $dtype = fp8 ] && fixed= || fixed='--inputs fixed'
    expect 0 quantize "$model" --output "$folder/$dtype.safetensors" --dtype $dtype --calibrate "$sheet" --tiles 32 --limit 24 \
        --backend cpu --json $fixed
    json n_images 24
    json inputs fixed
    json layers.0.output_error '0\.0[0-4].*'
    json layers.0.input_largest '[3-9]\..*'
    json layers.3.input_outlier '[1-9].*'
    [ $dtype = int8 ] || json layers.1.skipped 'fp8 models compute proj in 16 bits'
    [ $dtype = int8 ] && json n_skipped 0 || json n_skipped 12
    for type in $dtype f32; do
        expect 0 classify "$folder/$dtype.safetensors" $(tiles) --limit 64 --dtype $type --json
        json n_right '5[4-8]' # of 64; f32: 56
    done
done
expect 3 classify "$folder/fp8.safetensors" "$cat" --backend cpu --dtype int8
err 'its weights are fp8, but quantization is int8, expected fp8 or none'
expect 0 quantize "$model" --output "$folder/text.safetensors" --calibrate "$cat" --backend cpu
out '^dtype +int8, input scales per row$'
logits "$folder/text.safetensors" int8 calibrated
cmp -s "$folder/own" "$folder/calibrated" || fail "a file without fixed scales gives other logits than the model in int8"
expect 0 quantize "$model" --output "$folder/text.safetensors" --calibrate "$cat" --backend cpu --inputs fixed
out '^dtype +int8, input scales from the calibration images$'
out '^block layer +weight +input +outlier +output +tensor$'
out '^0 +qkv .*blocks.0.attn.qkv.weight$'
# larger values on other images are counted
expect 0 classify "$folder/text.safetensors" $(tiles) --limit 8 --dtype int8
out '^saturated +[1-9][0-9]* values'

# config.json is copied next to the file, with the quantization added; an existing one is kept
mkdir "$folder/from" "$folder/to"
cp "$model" "$folder/from/model.safetensors"
echo '{"architecture": "deit_tiny_patch16_224", "num_classes": 10}' >"$folder/from/config.json"
expect 0 quantize "$folder/from/model.safetensors" --output "$folder/to/model.safetensors" --dtype fp8
grep -q '"float-quantized"' "$folder/to/config.json" || fail "no config.json with the format"
grep -q '"blocks.0.attn.proj"' "$folder/to/config.json" || fail "config.json does not list the skipped layers"
echo '{"architecture": "deit_tiny_patch16_224", "mine": 1}' >"$folder/to/config.json"
expect 0 quantize "$folder/from/model.safetensors" --output "$folder/to/model.safetensors" --dtype fp8
grep -q '"mine"' "$folder/to/config.json" || fail "a config.json was overwritten"
expect 0 classify "$folder/to/model.safetensors" "$cat" --backend cpu --dtype fp8
[ -z "$(ls "$folder"/*.part "$folder/to"/*.part 2>/dev/null)" ] || fail "a partial file was left"

# invalid requests
mkdir "$folder/empty"
expect 4 quantize "$model" --output "$folder/x.safetensors" --calibrate "$folder/empty"
err 'no images in this folder'
echo 'no image' >"$folder/bad.png"
expect 4 quantize "$model" --output "$folder/x.safetensors" --calibrate "$folder/bad.png" --backend cpu
err 'none of the calibration images can be read'
[ ! -e "$folder/x.safetensors" ] || fail "a file was written without calibration"
mkdir "$folder/mixed"
cp "$cat" "$folder/bad.png" "$folder/mixed"
expect 1 quantize "$model" --output "$folder/x.safetensors" --calibrate "$folder/mixed" --backend cpu
err 'bad.png'
cp "$model" "$folder/nan.safetensors"
printf '\377\377' | dd of="$folder/nan.safetensors" bs=2 seek=$(($(stat -c %s "$model") / 4)) conv=notrunc 2>/dev/null # in a block, f16
expect 4 quantize "$folder/nan.safetensors" --output "$folder/y.safetensors"
err "tensor 'blocks.*weight' has values that are not finite"
[ ! -e "$folder/y.safetensors" ] || fail "a file was written from weights that are not finite"
expect 4 quantize "$folder/int8.safetensors" --output "$folder/y.safetensors"
err "tensor 'blocks.*weight' already has 8 bits \(I8\)"
expect 2 quantize "$folder/from/model.safetensors" --output "$folder/from/../from/model.safetensors"
err "is the model's own file, which is not overwritten"
expect 2 quantize "$model"
err 'quantize needs --output FILE'
expect 2 quantize "$model" --output "$folder/y.safetensors" --dtype f16
expect 2 quantize "$model" --output "$folder/y.safetensors" --limit 3
err 'need --calibrate'
expect 2 quantize "$model" --output "$folder/y.safetensors" --inputs fixed
err '--inputs fixed needs --calibrate'
expect 5 quantize "$model" --output "$folder/none/y.safetensors"
err 'cannot be written'
finish
