#!/bin/bash
# Tests streams in the command line tool, on the CPU: decoding in several threads, output line by line, and video frames from a pipe.
# usage: test_cli_streams.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"
raw_pixels=$(dirname "$tool")/raw_pixels
small=$tests/data/reference/model.safetensors
small_run() { expect "$1" classify "$small" "${@:2}" --backend cpu; }
line() { sed -n "$1p" "$folder/out"; }
line_has() { line "$1" | grep -qE -- "$2" || fail "line $1 has no $2 ($what)"; }

# Images of many sizes, valid and broken, are output in order with any number of threads.
mkdir "$folder/many"
for i in $(seq 10 29); do
    case $i in
    13 | 20) head -c $((1000 * i)) "$cat" >"$folder/many/$i.png" ;;
    *5) cp "$sheet" "$folder/many/$i.png" ;;
    *) cp "$cat" "$folder/many/$i.png" ;;
    esac
done
small_run 1 "$folder/many" --batch 3 --threads 1 --ndjson
sed 's/"seconds": .*//; s/"memory".*//' "$folder/out" >"$folder/one"
small_run 1 "$folder/many" --batch 3 --threads 5 --ndjson
sed 's/"seconds": .*//; s/"memory".*//' "$folder/out" | cmp -s - "$folder/one" || fail "the output of five threads differs from that of one"
err "^raggedvit: $folder/many/13.png: broken PNG"
err "^raggedvit: $folder/many/20.png: broken PNG"
[ "$(wc -l <"$folder/out")" -eq 22 ] || fail "expected a line for each image, and two more"
line_has 1 '^\{"run": \{"version": .*"batch": 3, .*"prune": "none"'
for i in $(seq 10 29); do
    line_has $((i - 8)) "^\{\"file\": \"$folder/many/$i.png\", \"tile\": null, \"position\": $((i - 10)), \"[le]"
done
line_has 5 '"error": "broken PNG: .*"\}$'
line_has 6 '"logits": \[.*"top": \[\{"class": .*"tokens_kept": \[\]'
line_has 22 '^\{"summary": \{"failed": \[\{.*13.png.*20.png.*"n_images": 18, "n_failed": 2, .*"exit_code": 1, .*\}\}$'
while IFS= read -r text; do
    "$json_get" file <<<"$text" >/dev/null || "$json_get" run.version <<<"$text" >/dev/null ||
        "$json_get" summary.n_images <<<"$text" >/dev/null || fail "a line that is not JSON: $text"
done <"$folder/out"
small_run 4 "$folder/none.png" "$folder/none.jpg" --ndjson
[ "$(grep -c '^{"file": .*"error": ' "$folder/out")" -eq 2 ] || fail "expected lines for two unreadable images"
line_has 4 '"n_images": 0, .*"exit_code": 4'
small_run 1 "$folder/many" --limit 7 --json
json images 6
json failed 1

# The overlay shows the first readable image, even if others are ready earlier.
for threads in 1 4; do
    small_run 1 "$folder/many/13.png" "$cat" "$folder/many" --threads $threads --prune l2 --blocks 1 --overlay "$folder/overlay$threads.png"
done
small_run 0 "$cat" --prune l2 --blocks 1 --overlay "$folder/overlay.png"
cmp -s "$folder/overlay.png" "$folder/overlay1.png" || fail "with one thread, the overlay shows another image"
cmp -s "$folder/overlay.png" "$folder/overlay4.png" || fail "with four threads, the overlay shows another image"

# a truncated JPEG, and one with an EXIF orientation
turned=$tests/data/turned.jpg # 10 x 7 pixels, made by Pillow, with EXIF orientation 6
small_run 0 "$turned" --prune l2 --blocks 1 --overlay "$folder/turned.png"
[ "$(od -A n -t u1 -j 16 -N 8 "$folder/turned.png" | awk '{print ($4 + 256 * $3) * 10 == ($8 + 256 * $7) * 7}')" = 1 ] ||
    fail "the EXIF orientation is not applied"
head -c 700 "$turned" >"$folder/cut.jpg"
small_run 1 "$folder/cut.jpg" "$cat"
err "^raggedvit: $folder/cut.jpg: broken JPEG: "
out '^speed .* 1 image '

small_run 0 "$turned" "$cat" --fast-decode --json # nothing to reduce
"$json_get" images.1.logits.0 <"$folder/out" >"$folder/fast"
small_run 0 "$turned" "$cat" --json
[ "$("$json_get" images.1.logits.0 <"$folder/out")" = "$(cat "$folder/fast")" ] || fail "--fast-decode changes images that are not reduced"
small_run 1 "$folder/cut.jpg" "$cat" --fast-decode
err "^raggedvit: $folder/cut.jpg: broken JPEG: "

# Frames give the same results as an image file with the same pixels.
"$raw_pixels" "$cat" "$cat" "$cat" >"$folder/frames" || fail "no frames"
frames() { # CODE ARGUMENT...: with the frames of the file
    local code=$1
    shift
    what="$* (frames)"
    timeout 60 "$tool" classify "$small" - --backend cpu "$@" <"$folder/frames" >"$folder/out" 2>"$folder/err"
    local found=$?
    [ $found -eq "$code" ] || fail "exit code $found, expected $code: $what"
}
logits() { grep -o '"logits": \[[^]]*\]' "$folder/out" | sort -u; }
small_run 0 "$cat" --json
logits >"$folder/logits"
for threads in 1 3; do
    frames 0 --size 451x300 --format rgb24 --json --threads $threads
    no_err
    json images 3
    json images.2.frame 2
    json images.0.file -
    logits | cmp -s - "$folder/logits" || fail "the logits of a frame differ from those of the image"
done
frames 0 --size 451x300 --format rgb24 --limit 2
[ "$(grep -cE '^- #[01]  [0-9]+ ' "$folder/out")" -eq 2 ] || fail "one line per frame"
frames 0 --size 451x300 --format bgr24 --json --limit 1
logits | cmp -s - "$folder/logits" && fail "bgr24 is read as rgb24"
frames 0 --size 451x300 --format rgb24 --prune l2 --blocks 1 --overlay "$folder/frame.png" --limit 1
cmp -s "$folder/overlay.png" "$folder/frame.png" || fail "the overlay of a frame"
# Grey is the same in every format: luma 128 is 128 in full range.
head -c 3000 /dev/zero | tr '\0' '\200' >"$folder/frames"
frames 0 --size 30x20 --format gray --json --limit 1
logits >"$folder/logits"
for format in "rgb24" "nv12 --range full" "yuv420p --range full --matrix bt709"; do
    # shellcheck disable=SC2086
    frames 0 --size 30x20 --format $format --json --limit 1
    logits | cmp -s - "$folder/logits" || fail "grey as $format"
done
frames 0 --size 30x20 --format nv12 --json --limit 1
logits | cmp -s - "$folder/logits" && fail "limited range is read as full"
# a pipe that ends within a frame, or is empty
frames 1 --size 30x20 --format rgb24 --ndjson
err '^raggedvit: standard input: ends inside frame 1, after 1200 of its 1800 bytes$'
line_has 2 '"frame": 0'
line_has 3 '^\{"file": "-", "tile": null, "position": 1, "error": "ends inside frame 1, after 1200 of its 1800 bytes", "frame": 1\}$'
line_has 4 '"n_images": 1, .*"exit_code": 1'
frames 0 --size 30x20 --format nv12 --limit 3 # the rest is not read
frames 4 --size 300x200 --format nv12
err '^raggedvit: standard input: ends inside frame 0, after 3000 of its 90000 bytes$'
small_run 4 - --size 30x20 --format nv12
err '^raggedvit: standard input: ends before the first frame$'
what="a folder as standard input"
"$tool" classify "$small" - --backend cpu --size 30x20 --format nv12 <"$folder" >"$folder/out" 2>"$folder/err"
[ $? -eq 4 ] || fail "exit code of a folder"
err '^raggedvit: standard input: frame 0 cannot be read: '
# Each frame is answered immediately: the test writes the next one only after the answer.
mkfifo "$folder/pipe"
timeout 60 "$tool" classify "$small" - --backend cpu --size 30x20 --format gray --ndjson <"$folder/pipe" >"$folder/out" 2>"$folder/err" &
reader=$!
exec 3>"$folder/pipe"
what="a live stream"
for i in 0 1 2; do
    head -c 600 "$folder/frames" >&3
    for _ in $(seq 200); do
        grep -q "\"frame\": $i" "$folder/out" && break
        sleep 0.05
    done
    grep -q "\"frame\": $i" "$folder/out" || fail "frame $i is not answered before the next one is sent"
done
exec 3>&-
wait $reader || fail "the stream's exit code"
line_has 5 '"n_images": 3'
# --limit ends the run although the pipe is still open.
timeout 20 "$tool" classify "$small" - --backend cpu --size 30x20 --format gray --limit 1 <"$folder/pipe" >"$folder/out" 2>"$folder/err" &
reader=$!
exec 3>"$folder/pipe"
head -c 900 "$folder/frames" >&3
wait $reader || fail "--limit does not end a live stream"
exec 3>&-
# the reader closes the output
"$tool" classify "$small" - --backend cpu --size 30x20 --format gray <"$folder/frames" 2>"$folder/err" | head -n 1 >"$folder/out"
out '^model '
# a terminal shows the progress and the speed
if command -v script >/dev/null; then
    slowly="for i in 1 2 3 4 5; do head -c 600 $folder/frames; sleep 0.3; done"
    watched() {
        what="$* (watched)"
        local command="$tool classify $small - --backend cpu --size 30x20 --format gray --quiet $*"
        script -qec "sh -c '($slowly) | $command'" /dev/null </dev/null >"$folder/out" 2>&1
        tr '\r' '\n' <"$folder/out" >"$folder/err"
    }
    watched
    err '^[3-5] images  [0-9.]+ images/s'
    watched --limit 5
    err '^\[#+\.*\] +[68]0 %  [34] of 5 images  [0-9.]+ images/s  [0-9]+ s left'
fi
# options that exclude each other
for arguments in "-" "- --size 30x20" "- --format nv12" "- --size 30 --format nv12" "- --size 0x5 --format nv12" \
    "- --size 30x20x3 --format nv12" "- --size 100000x100000 --format nv12" "- --size 30x20 --format mjpeg" \
    "- $cat --size 30x20 --format nv12" \
    "- --size 30x20 --format nv12 --tiles 10" "- --size 30x20 --format nv12 --expect $cat" "- --size 30x20 --format rgb24 --range full" \
    "- --size 30x20 --format nv12 --matrix bt2020" "$cat --size 30x20" "$cat --range full" "$cat --json --ndjson"; do
    # shellcheck disable=SC2086
    small_run 2 $arguments
    err "^raggedvit: (--|video on standard input|unknown)"
    no_out
done
echo '[[[0]], [[1]]]' >"$folder/mask"
frames 4 --size 30x20 --format gray --prune mask --blocks 1 --mask "$folder/mask"
err "mask: is for 2 images; for video on standard input, set --limit to that number$"
frames 0 --size 30x20 --format gray --prune mask --blocks 1 --mask "$folder/mask" --limit 2 --json
json images.1.kept.0 1

finish
