#!/bin/bash
# Tests variable resolution, and resizing on the device, in the command line tool, on the CPU.
# usage: test_cli_variable_resolution.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"
raw_pixels=$(dirname "$tool")/raw_pixels
small=$tests/data/reference/model.safetensors # 32 x 56 pixels, patches of 8, a CLS row
turned=$tests/data/turned.jpg                 # 7 x 10 pixels with its EXIF orientation applied
small_run() { expect "$1" classify "$small" "${@:2}" --backend cpu; }
lines_of() { sed 's/"seconds": .*//; s/"memory".*//' "$folder/out"; }
logits() { grep -o '"logits": \[[^]]*\]' "$folder/out"; }

# Images of many sizes, valid and broken.
mkdir "$folder/many"
for i in $(seq 10 29); do
    case $i in
    13 | 20) head -c $((1000 * i)) "$cat" >"$folder/many/$i.png" ;;
    14 | 21 | 22) cp "$turned" "$folder/many/$i.jpg" ;;
    15) head -c 700 "$turned" >"$folder/many/$i.jpg" ;;
    *5) cp "$sheet" "$folder/many/$i.png" ;;
    *) cp "$cat" "$folder/many/$i.png" ;;
    esac
done

# Resizing on the device and on the host gives the same results, in the same order, with the same messages.
for arguments in "" "--prune l2 --blocks 1" "--prune tome" "--fast-decode" "--fit squash --filter bilinear" "--tiles 8 --limit 40"; do
    # shellcheck disable=SC2086
    small_run 1 "$folder/many" --batch 3 --ndjson --prepare host $arguments
    lines_of >"$folder/host"
    cp "$folder/err" "$folder/host_err"
    for threads in 1 5; do
        # shellcheck disable=SC2086
        small_run 1 "$folder/many" --batch 3 --ndjson --prepare device --threads $threads $arguments
        lines_of | cmp -s - "$folder/host" || fail "the output with resizing on the device differs ($what)"
        cmp -s "$folder/err" "$folder/host_err" || fail "the messages with resizing on the device differ ($what)"
    done
done
mkdir "$folder/float"
cp "$small" "$folder/float/model.safetensors"
cp "$(dirname "$small")/config.json" "$folder/float/config.json"
echo '{"image_processor_type": "DINOv3ViTImageProcessor", "size": {"height": 32, "width": 56}}' >"$folder/float/preprocessor_config.json"
for prepare in host device; do # float32 resizing runs on the host in both cases
    expect 0 classify "$folder/float/model.safetensors" "$cat" "$turned" --backend cpu --ndjson --prepare $prepare
    lines_of >"$folder/$prepare"
done
cmp -s "$folder/host" "$folder/device" || fail "the results of float32 resizing differ"
"$raw_pixels" "$cat" "$cat" >"$folder/frames"
for format in "451x300 --format rgb24" "451x300 --format bgr24" "100x100 --format nv12 --range full --matrix bt709" \
    "101x99 --format yuv420p" "150x100 --format gray"; do
    for prepare in host device; do
        what="frames, $format, $prepare"
        # shellcheck disable=SC2086
        timeout 60 "$tool" classify "$small" - --backend cpu --size $format --limit 2 --ndjson --prepare $prepare <"$folder/frames" \
            >"$folder/out" 2>"$folder/err" || fail "exit code of $what"
        lines_of >"$folder/$prepare"
    done
    cmp -s "$folder/host" "$folder/device" || fail "frames differ on the device ($format)"
done
echo '[[[0]], [[1, 2]], [[5]]]' >"$folder/mask"
for prepare in host device; do
    small_run 0 "$cat" "$turned" "$sheet" --prune mask --blocks 1 --mask "$folder/mask" --batch 2 --ndjson --prepare $prepare
    lines_of >"$folder/$prepare"
done
cmp -s "$folder/host" "$folder/device" || fail "masks differ on the device"

# Each image gives the same result by itself and in a batch.
variable() { small_run "$1" "${@:2}" --variable-resolution --ndjson; }
for arguments in "--max-patches 30 --max-tokens 70" "--max-patches 30 --max-tokens 70 --prune evit --blocks 1" \
    "--max-patches 30 --max-tokens 70 --prune tome --blocks 0,1" "--max-patches 5 --max-tokens 6 --prune received --blocks 1" \
    "--max-patches 300 --fast-decode" "--max-tokens 9000 --prune l2 --blocks 1"; do
    # shellcheck disable=SC2086
    variable 1 "$folder/many" $arguments
    logits >"$folder/together"
    cp "$folder/out" "$folder/lines"
    wanted=17
    [ "${arguments/9000/}" = "$arguments" ] || wanted=16 # the sheet has 16,000 patches
    [ "$(wc -l <"$folder/together")" -eq $wanted ] || fail "expected $wanted valid images ($what)"
    for threads in 1 4; do
        # shellcheck disable=SC2086
        variable 1 "$folder/many" $arguments --threads $threads
        logits | cmp -s - "$folder/together" || fail "the logits differ with $threads threads ($what)"
    done
    for image in "$cat" "$turned"; do
        # shellcheck disable=SC2086
        variable 0 "$image" $arguments --batch 64
        line=$(logits)
        grep -qF -- "$line" "$folder/together" || fail "the result of $image changes with other images in the batch ($what)"
    done
done
variable 1 "$folder/many" --max-patches 30 --max-tokens 70
[ "$(grep -o '"file": "[^"]*' "$folder/out" | head -20 | sort -c 2>&1)" = "" ] || fail "images are out of order"
out '^\{"run": .*"variable_resolution": \{"max_tokens": 70, "max_patches": 30\}'
err "^raggedvit: $folder/many/13.png: broken PNG"
err "^raggedvit: $folder/many/15.jpg: broken JPEG"
[ "$(grep -c '"error"' "$folder/out")" -eq 4 ] || fail "expected errors for three images and in the summary"
variable 0 "$cat" --max-patches 30 # 451 x 300
out '"grid": \[4, 7\]'
variable 0 "$turned" --max-patches 30
out '"grid": \[6, 5\]|"grid": \[6, 4\]'
variable 0 "$cat" "$turned" # at their own size
out '"grid": \[38, 57\]'
out '"grid": \[2, 1\]'
# On the model's own grid, variable resolution gives the same results as the fixed size.
head -c 10752 "$folder/frames" >"$folder/frame"
for variant in "--variable-resolution" "--fit squash --crop 1"; do
    what="a frame of the model's size, $variant"
    # shellcheck disable=SC2086
    "$tool" classify "$small" - --backend cpu --size 56x32 --format rgb24 --json $variant <"$folder/frame" >"$folder/out" 2>"$folder/err" ||
        fail "exit code of $what"
    no_err
    json images 2
    for i in 0 1; do for c in 0 3 6; do
        "$json_get" images.$i.logits.$c <"$folder/out"
    done; done >"$folder/variant${variant%% *}"
done
paste "$folder/variant--variable-resolution" "$folder/variant--fit" |
    awk '{d = $1 - $2; if (d < 0) d = -d; if (d > 1e-5) exit 1} END {if (NR != 6) exit 1}' ||
    fail "variable resolution differs on the model's own grid"

# capacities
variable 1 "$cat" "$turned" --max-tokens 100
err "^raggedvit: .*chelsea.png: 451 x 300 pixels are 38 x 57 patches and 2167 tokens, more than --max-tokens 100; --max-patches"
out '"n_images": 1, .*"exit_code": 1'
variable 4 "$cat" --max-tokens 100
variable 0 "$cat" "$turned" --max-tokens 100 --max-patches 99
variable 2 "$cat" --max-tokens 100 --max-patches 100
err "an image of 100 patches and 1 prefix token exceeds --max-tokens 100"
for arguments in "--max-tokens 100" "--max-patches 100" "--variable-resolution --tiles 8" \
    "--variable-resolution --grid --features $folder/f.npy" "--variable-resolution --fit crop" "--variable-resolution --crop 0.5" \
    "--variable-resolution --prune mask --mask $folder/mask" "--variable-resolution --prepare host" "--timings --prepare host" \
    "--variable-resolution --max-tokens 0" "--variable-resolution --max-patches -3" "--prepare cloud" "--timings"; do
    # shellcheck disable=SC2086
    small_run 2 "$cat" $arguments
    err "^raggedvit: (--|unknown)"
    no_out
done
expect 2 classify "$small" - --backend cpu --size 30x20 --format gray --variable-resolution --timings
err 'excludes --tiles, --expect, --timings, --decoder and --shard'

# Settings of a NaFlex processor's config file.
mkdir "$folder/naflex"
cp "$small" "$folder/naflex/model.safetensors"
cp "$(dirname "$small")/config.json" "$folder/naflex/config.json"
processor='"image_processor_type": "Siglip2ImageProcessor", "patch_size": 8, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]'
echo "{$processor, \"max_num_patches\": 30}" >"$folder/naflex/preprocessor_config.json"
expect 0 inspect "$folder/naflex/model.safetensors"
out '^max patches   30 per image, by the NaFlex rule$'
out 'from preprocessor_config.json: max_num_patches'
out '^  max patches +30 +preprocessor_config.json: max_num_patches$'
expect 0 inspect "$folder/naflex/model.safetensors" --json
json preprocessing.max_patches 30
expect 0 classify "$folder/naflex/model.safetensors" "$cat" --variable-resolution --backend cpu --ndjson
logits >"$folder/limited"
small_run 0 "$cat" --variable-resolution --max-patches 30 --filter bilinear --ndjson # Pillow's sums, not torchvision's
out '"grid": \[4, 7\]'
expect 0 classify "$folder/naflex/model.safetensors" "$cat" --variable-resolution --max-patches 20 --backend cpu --ndjson
logits | cmp -s - "$folder/limited" && fail "--max-patches has no effect"
expect 2 classify "$folder/naflex/model.safetensors" "$cat" --variable-resolution --max-tokens 20 --backend cpu
err "an image of 30 patches .from the model's files. and 1 prefix token exceeds --max-tokens 20"
echo "{$processor, \"max_num_patches\": 30, \"do_resize\": false}" >"$folder/naflex/preprocessor_config.json"
expect 4 classify "$folder/naflex/model.safetensors" "$cat" --variable-resolution --backend cpu
err "this tool does not support the model's image preparation .fit: not resized, from preprocessor_config.json: do_resize."
echo "{${processor/: 8/: 16}, \"max_num_patches\": 30}" >"$folder/naflex/preprocessor_config.json"
expect 4 classify "$folder/naflex/model.safetensors" "$cat" --variable-resolution --backend cpu
err "preprocessor_config.json: patch_size"
echo "{$processor, \"max_num_patches\": 0}" >"$folder/naflex/preprocessor_config.json"
expect 4 inspect "$folder/naflex/model.safetensors"
err "preprocessor_config.json: max_num_patches"

# Vision encoders with merge groups of 2 x 2 patches: kept patches are numbered row by row. Shapes: tests/model/dumps.jsonl; values: random.
if command -v python3 >/dev/null; then
    head -c 2880 "$folder/frames" >"$folder/frame"
    for encoder in qwen2_5_vl qwen3_vl; do
        mkdir "$folder/$encoder"
        python3 - "$tests/model/dumps.jsonl" "$encoder" "$folder/$encoder" <<'END'
import array, json, math, random, struct, sys
dump = next(dump for dump in map(json.loads, open(sys.argv[1])) if dump["name"] == sys.argv[2])
header, values = {}, array.array("f")
draw = random.Random(1)
for name, shape, offset, shift in dump["tensors"]:
    begin = 4 * len(values)
    values.extend(offset + 2.0**-shift * draw.uniform(-1, 1) for _ in range(math.prod(shape)))
    header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, 4 * len(values)]}
text = json.dumps(header).encode()
open(sys.argv[3] + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + values.tobytes())
json.dump(dump["config"], open(sys.argv[3] + "/config.json", "w"))
END
        for arguments in "--prune l2 --blocks 1" "--prune tome --merge 20 --blocks 0,1"; do
            what="$encoder, $arguments"
            # shellcheck disable=SC2086
            "$tool" classify "$folder/$encoder/model.safetensors" - --size 40x24 --format rgb24 --variable-resolution --mean 0.5 --std 0.5 \
                --backend cpu --json $arguments <"$folder/frame" >"$folder/out" 2>"$folder/err" || fail "exit code of $what"
            python3 - "$folder/out" <<'END' || fail "kept patches of $what"
import json, sys
image = json.load(open(sys.argv[1]))["images"][0]
lines, columns = image["grid"]
groups = lines * columns // 4
for stage, (kept, n) in enumerate(zip(image["kept"], image["tokens_kept"], strict=True)):
    left = set(kept)
    assert kept == sorted(left) and len(left) == n < 4 * groups and kept[-1] < lines * columns
    for patch in kept:
        y, x = patch // columns // 2 * 2, patch % columns // 2 * 2
        assert {y * columns + x, y * columns + x + 1, (y + 1) * columns + x, (y + 1) * columns + x + 1} <= left
    assert "sizes" not in image or sum(image["sizes"][stage]) == 4 * groups
assert len(image["kept"]) == (2 if "sizes" in image else 1)
END
        done
        expect 3 classify "$folder/$encoder/model.safetensors" "$cat" --variable-resolution --mean 0.5 --std 0.5 --backend cpu --json \
            --prune evit --blocks 1
        err 'evit drops single patches, but the model merges groups of 2 x 2 of them: .* drop whole groups, and tome merges them$'
    done
fi

# The overlay has the image's own shape; features; a live pipe; timings.
small_run 0 "$cat" "$turned" --variable-resolution --max-patches 60 --prune l2 --blocks 1 --overlay "$folder/variable.png" \
    --features "$folder/f.npy" --quiet
out '^batches at most 16384 tokens, images at most 60 patches$'
out '^tokens kept  2[0-9].* of 5[0-9].* at block 1'
[ "$(od -A n -t u1 -j 16 -N 8 "$folder/variable.png" | awk '{print $3 * 256 + $4 " x " $7 * 256 + $8}')" = "902 x 600" ] ||
    fail "the overlay has a wrong shape"
head -c 128 "$folder/f.npy" | grep -aq "'shape': (2, 32)" || fail "features of two images"
small_run 0 "$turned" "$cat" --variable-resolution --max-patches 60 --prune l2 --blocks 1 --overlay "$folder/upright.png" --quiet
[ "$(od -A n -t u1 -j 16 -N 8 "$folder/upright.png" | awk '{print ($4 + 256 * $3) * 10 == ($8 + 256 * $7) * 7}')" = 1 ] ||
    fail "the overlay of an image with an orientation"
head -c 3000 "$folder/frames" >"$folder/gray"
what="a pipe that ends inside a frame"
"$tool" classify "$small" - --backend cpu --size 30x20 --format rgb24 --variable-resolution --ndjson <"$folder/gray" \
    >"$folder/out" 2>"$folder/err"
[ $? -eq 1 ] || fail "exit code of $what"
err '^raggedvit: standard input: ends inside frame 1, after 1200 of its 1800 bytes$'
out '^\{"file": "-", .*"frame": 0, "grid": \[3, 4\]\}$'
mkfifo "$folder/pipe"
timeout 60 "$tool" classify "$small" - --backend cpu --size 30x20 --format gray --variable-resolution --ndjson <"$folder/pipe" \
    >"$folder/out" 2>"$folder/err" &
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
small_run 1 "$folder/many" --variable-resolution --max-patches 30 --timings --json
json timings.decoding '[0-9.]+'
json timings.without_decoding '[0-9.]+'
json n_images 17
small_run 0 "$cat" --prepare device --timings
out '^timings +[0-9.]+ images/s decoding only, [0-9.]+ in total, [0-9.]+ without decoding$'

finish
