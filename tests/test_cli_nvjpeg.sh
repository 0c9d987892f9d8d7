#!/bin/bash
# Tests classify and verify with --decoder nvjpeg, on emulations of nvJPEG and the CUDA driver.
# usage: test_cli_nvjpeg.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER CUDA_EMULATION NVJPEG_EMULATION
. "$(dirname "$0")/cli_checks.sh"
cuda=$4
nvjpeg=$5
model=$tests/data/reference/model.safetensors
jpegs=$folder/jpegs
mkdir -p "$jpegs"
"$(dirname "$tool")/jpeg_files" "$cat" "$jpegs" || exit 1
cp "$cat" "$jpegs/a_image.png"
good=$folder/good
mkdir -p "$good"
cp "$jpegs"/{444,422,440,420,grey,restart,followed}.jpg "$good"

# on FOLDER CODE ARGUMENT...: runs the tool with the nvJPEG of that folder.
on() {
    export LD_LIBRARY_PATH=$nvjpeg/$1:$cuda
    expect "$2" "${@:3}" --backend cuda
    unset LD_LIBRARY_PATH
}
# The emulation reports incorrect calls.
right() { ! grep -q "emulation:" "$folder/err" || fail "incorrect use ($what)"; }
classify() { on emulated "$1" classify "$model" "${@:2}" --json; right; }
nvjpeg() { classify "$1" "${@:2}" --decoder nvjpeg; }
logits() { for i in $(seq 0 $(($1 - 1))); do "$json_get" images.$i.logits.0 <"$folder/out"; done; }
counts() { # ENGINES KERNELS OTHERS FAILURES
    json decoder.engines "$1"
    json decoder.kernels "$2"
    json decoder.others "$3"
    json decoder.failures "$4"
}

# More batches than sessions, enqueued by one thread and reported by another, with valid and broken files: lines must be in order.
for threads in 1 5; do
    RVIT_EMU_LATE=1 on emulated 1 classify "$model" "$jpegs" "$good" "$jpegs" "$good" --batch 2 --ndjson --threads $threads
    right
    sed 's/"seconds": .*//; s/"memory".*//' "$folder/out" >"$folder/lines$threads"
done
[ "$(grep -c '"logits"' "$folder/lines1")" -ge 30 ] || fail "expected lines for at least 30 images"
cmp -s "$folder/lines1" "$folder/lines5" || fail "the output of five threads differs from that of one"

# Every kind of file must give the same pixels as libjpeg. nvJPEG decodes only files that all decoders read in the same way.
classify 0 "$good"
logits 7 >"$folder/libjpeg"
[ "$(sort -u "$folder/libjpeg" | wc -l)" -ge 5 ] || fail "the files do not differ"
nvjpeg 0 "$good"
counts 0 7 0 0
json decoder.library 'libnvjpeg\.so\.13'
json decoder.first_failure null
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ from libjpeg's"
export RVIT_EMU_NVJPEG_ENGINES=1
nvjpeg 0 "$good"
counts 7 0 0 0
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ from libjpeg's"
nvjpeg 0 "$jpegs/progressive.jpg"
counts 0 1 0 0
RVIT_EMU_LATE=1 nvjpeg 0 "$good" --threads 3 --batch 2
counts 7 0 0 0
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if enqueued work runs late"
RVIT_EMU_PROTECT=1 nvjpeg 0 "$good"
counts 7 0 0 0
# resizing on the CPU, and variable resolution
classify 0 "$good" --prepare host
logits 7 >"$folder/host"
nvjpeg 0 "$good" --prepare host
counts 7 0 0 0
logits 7 | cmp - "$folder/host" || fail "the logits differ with resizing on the host"
classify 0 "$good" --variable-resolution --max-patches 40
logits 7 >"$folder/variable"
nvjpeg 0 "$good" --variable-resolution --max-patches 40
counts 7 0 0 0
logits 7 | cmp - "$folder/variable" || fail "the logits differ with variable resolution"
# The images of nvJPEG are used, and their EXIF orientation is applied.
RVIT_EMU_NVJPEG_SWAP=1 nvjpeg 0 "$good"
! logits 7 | cmp -s - "$folder/libjpeg" || fail "nvJPEG's images are not used"
classify 0 "$jpegs/turned.jpg"
logits 1 >"$folder/turned"
nvjpeg 0 "$jpegs/turned.jpg"
counts 1 0 0 0
logits 1 | cmp - "$folder/turned" || fail "the orientation differs from libjpeg's"
! cmp -s "$folder/turned" <(sed -n 1p "$folder/libjpeg") || fail "the orientation has no effect"

# The CPU decodes the other files, and rejects the same files as without nvJPEG.
classify 1 "$jpegs"
logits 13 >"$folder/all"
json n_images 13
sort "$folder/err" >"$folder/sentences"
nvjpeg 1 "$jpegs"
sort "$folder/err" | cmp - "$folder/sentences" || fail "the messages differ from those with libjpeg"
json n_images 13
counts 8 1 6 0
logits 13 | cmp - "$folder/all" || fail "the logits differ from libjpeg's"
on emulated 1 classify "$model" "$jpegs" --decoder nvjpeg
out "^decoder +libnvjpeg.so.13: 9 files, 8 by the GPU's JPEG engines; CPU: 6$"
err "bad_cut.jpg: broken JPEG: "
err "bad_12_bits.jpg: broken JPEG: "

# failures: the next decoder is tried, and no image is lost
RVIT_EMU_NVJPEG_FAIL_ENGINES=1 nvjpeg 0 "$good"
counts 0 7 0 0
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if engines fail"
RVIT_EMU_NVJPEG_SKIP=1 nvjpeg 0 "$good"
counts 0 7 0 0
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if engines skip images"
RVIT_EMU_NVJPEG_SKIP=2 nvjpeg 0 "$good"
counts 0 0 7 7
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if kernels skip images"
unset RVIT_EMU_NVJPEG_ENGINES
RVIT_EMU_NVJPEG_FAIL=3 nvjpeg 0 "$good" --threads 1
counts 0 2 5 5
json decoder.first_failure 'nvjpegDecode: execution failed'
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if nvJPEG fails"
RVIT_EMU_NVJPEG_FAIL=1 on emulated 0 classify "$model" "$good" --decoder nvjpeg
out '^decoder +libnvjpeg.so.13: 0 files, 0 by .*; CPU: 7$'
out '^ +nvJPEG failed on 7 of these, first with "nvjpegDecode: execution failed"$'
RVIT_EMU_NVJPEG_STATES=1 nvjpeg 0 "$good"
counts 0 0 7 7
json decoder.first_failure '.*out of memory'
logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if there is too little memory"
# Without enough device memory there is a result, or an error message and an exit code.
for n in $(seq 1 3 90); do
    LD_LIBRARY_PATH=$nvjpeg/emulated:$cuda RVIT_EMU_FAIL_ALLOC=$n timeout 60 "$tool" classify "$model" "$good" --decoder nvjpeg \
        --backend cuda --threads 2 --json >"$folder/out" 2>"$folder/err" </dev/null
    code=$?
    what="allocation $n fails"
    right
    case $code in
    0) logits 7 | cmp - "$folder/libjpeg" || fail "the logits differ if allocation $n fails" ;;
    3 | 5) [ -s "$folder/err" ] || fail "no message if allocation $n fails" ;;
    *) fail "exit code $code if allocation $n fails" ;;
    esac
done

# tiles, and the overlay of the first image
"$(dirname "$tool")/jpeg_files" "$sheet" "$folder" && nvjpeg 0 "$folder/420.jpg" --tiles 32 --limit 9
json n_images 9
counts 0 1 0 0
nvjpeg 0 "$jpegs/turned.jpg" --prune l2 --blocks 1 --overlay "$folder/overlay.png"
counts 0 1 0 0
[ -s "$folder/overlay.png" ] || fail "no overlay"
# verify
on emulated 0 verify "$model" --images "$good" --against cpu --decoder nvjpeg
right
on emulated 2 verify "$model" --decoder nvjpeg
err '^raggedvit: --decoder needs --images$'

# invalid options
on emulated 2 classify "$model" "$cat" --decoder nvjpeg --fast-decode
err '^raggedvit: --fast-decode excludes --decoder nvjpeg: it needs libjpeg$'
on emulated 2 classify "$model" - --size 8x8 --format rgb24 --decoder nvjpeg
err '^raggedvit: video on standard input .-. excludes --tiles, --expect, --timings, --decoder and --shard$'
on emulated 2 classify "$model" "$cat" --decoder turbo
err "turbo', expected libjpeg or nvjpeg"
expect 3 classify "$model" "$cat" --backend cpu --decoder nvjpeg
err '^raggedvit: --decoder nvjpeg: needs --backend cuda$'
on lacking 3 classify "$model" "$cat" --decoder nvjpeg
err '^raggedvit: --decoder nvjpeg: libnvjpeg.so.13 has no nvjpegDecodeBatched: CUDA 12.1 or later has it$'
RVIT_EMU_NVJPEG_VERSION=12.0 on emulated 3 classify "$model" "$cat" --decoder nvjpeg
err '^raggedvit: --decoder nvjpeg: libnvjpeg.so.13 is version 12.0; 12.1 or later is needed for the colours of libjpeg$'
RVIT_EMU_NVJPEG_CREATE=5 on emulated 3 classify "$model" "$cat" --decoder nvjpeg
err '^raggedvit: --decoder nvjpeg: libnvjpeg.so.13: nvjpegCreateEx failed: out of memory .5.$'
on none 3 classify "$model" "$cat" --decoder nvjpeg
err '^raggedvit: --decoder nvjpeg: .*libnvjpeg.so.13: file too short$'
if ! ldconfig -p | grep -q libnvjpeg && ! ls /usr/local/cuda/lib64/libnvjpeg.so.1[23] >/dev/null 2>&1; then
    on no_folder 3 classify "$model" "$cat" --decoder nvjpeg
    err '^raggedvit: --decoder nvjpeg: nvJPEG of the CUDA toolkit is neither in the library path nor in /usr/local/cuda/lib64/: '
fi

finish
