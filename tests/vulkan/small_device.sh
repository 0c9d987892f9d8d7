#!/bin/sh
# usage: small_device.sh RAGGEDVIT DATA FOLDER IMAGE
# On a device with arrays of at most 128 MiB (layer.c), defaults fit the device; otherwise the error names the array that does not fit.
set -eu
tool=$1 data=$2 folder=$3/small_device
model=$data/deit_tiny_cifar10.safetensors sheet=$data/cifar10_test_1000.png photo=$4
mkdir -p "$folder"

# run EXIT MESSAGE ARGUMENTS...: expects this exit code and message
run() {
    wanted=$1 message=$2
    shift 2
    code=0
    "$tool" classify "$model" --backend vulkan "$@" >"$folder/out" 2>"$folder/said" || code=$?
    [ "$code" -eq "$wanted" ] || { echo "$*: exit code $code"; cat "$folder/said"; exit 1; }
    grep -q "$message" "$folder/said" || { echo "$*: does not print: $message"; cat "$folder/said"; exit 1; }
}

set -- "$photo" "$photo" "$photo" "$photo"
set -- "$@" "$@" "$@" "$@"
set -- "$@" "$@" "$@" "$@"
run 0 '^raggedvit: 32 images per run instead of 64, to fit the device.s memory$' "$@" --variable-resolution --max-patches 4
run 3 'input_bytes is [0-9]*, which makes an array (staged_images) of [0-9]* bytes, and .* takes arrays of at most 134217[0-9]*: ' \
    "$@" --variable-resolution --batch 64
grep -q -- '--batch' "$folder/said"
run 3 'max_images is 1000, which makes an array (wide) of 605184000 bytes, and .* at most 134217[0-9]*: a max_images of about 221 fits' \
    "$sheet" --tiles 32 --batch 1000 --prepare host
grep -q -- '--batch' "$folder/said"
