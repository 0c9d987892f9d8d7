#!/bin/bash
# Tests the output, exit codes and error messages of the command line tool, on the CPU.
# usage: test_cli.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER      (json_get is in the folder of RAGGEDVIT)
. "$(dirname "$0")/cli_checks.sh"

# help, version, usage
expect 0 --help
for command in devices classify merge verify bench inspect quantize selftest policies; do
    expect 0 --help
    out "^  $command "
    expect 0 $command --help
    out "^usage: raggedvit $command"
    out "^  --help"
    no_err
done
expect 0 classify --help
for option in backend device tier threads prune keep blocks threshold mass samples merge seed mask image-size resample architecture heads \
    activation pool position eps dtype batch \
    top labels overlay features grid tiles fit filter crop mean std expect json ndjson size format matrix range fast-decode shard; do
    out "^  --$option "
done
for command in devices classify merge verify bench inspect quantize selftest policies; do
    expect 0 $command --help
    awk 'length > 100 {exit 1}' "$folder/out" || fail "help wider than 100 columns ($what)"
done
expect 0 --version
out '^raggedvit [0-9]+\.[0-9]+\.[0-9]+$'
expect 2
err "no command"
for arguments in "frobnicate" "classify" "classify $model" "verify" "inspect" "inspect a b" "devices now" \
    "classify $model $cat --frobnicate" "classify $model $cat --batch" "classify $model $cat --batch 0" \
    "classify $model $cat --batch 2x" "classify $model $cat --keep 1.5 --prune l2" "classify $model $cat --keep -0.1 --prune l2" \
    "classify $model $cat --keep nan --prune l2" "classify $model $cat --keep 0.5" "classify $model $cat --prune some" \
    "classify $model $cat --prune mask" "classify $model $cat --prune l2 --blocks 6,3" "classify $model $cat --prune l2 --blocks 3," \
    "classify $model $cat --prune l2 --blocks -1" "classify $model $cat --backend cpu --prune l2 --blocks 12" \
    "classify $model $cat --prune l2-threshold --threshold -1" "classify $model $cat --prune ats-paper --mass 1.1" \
    "classify $model $cat --prune ats --samples 0" "classify $model $cat --prune tome --merge -1" \
    "classify $model $cat --prune random --seed x" \
    "classify $model $cat --prune hiprune --alpha 1.1" "classify $model $cat --prune hiprune --alpha nan" \
    "classify $model $cat --prune hiprune --object-block -1" "classify $model $cat --grid" "classify $model $cat --image-size 0" \
    "classify $model $cat --backend cpu --image-size 225" "classify $model $cat --resample some" "classify $model $cat --eps 0" \
    "classify $model $cat --crop 0" "classify $model $cat --mean 0.5,0.5" "classify $model $cat --mean 2" \
    "classify $model $cat --std 0" "classify $model $cat --std 0.5," \
    "classify $model $cat --dtype f64" "classify $model $cat --backend tpu" \
    "bench a b" "bench --prune mask" "bench --batches 0,3" "bench --batches 4,2" "bench --batches 1,4097" "bench --seconds -1" \
    "bench --shape huge" "bench --prune tome --keep 0.5" "bench --top 3" "bench --backend cpu --prune l2 --blocks 12" \
    "classify $model $cat --top 0" "classify $model $cat --tiles 0" "verify $model --tiles 32" "verify $model --top 3"; do
    # shellcheck disable=SC2086
    expect 2 $arguments
    err "^raggedvit: "
    no_out
done
expect 2 classify "$model" "$cat" --prune some
err "some.*none, l2, .*evit"

# each policy names its options and rejects the others
refused() { # OPTION POLICY USERS
    # shellcheck disable=SC2086
    expect 2 classify "$model" "$cat" $1 --prune "$2"
    err "^raggedvit: ${1%% *} is not used by --prune $2, but by: $3$"
}
refused "--mass 0.5" l2 ats-paper
refused "--keep 0.5" none "l2, evit, .*hiprune"
refused "--keep 0.5" tome "l2, evit, .*hiprune"
refused "--blocks 3" none "l2, .*hiprune"
refused "--samples 9" ats-paper ats
refused "--merge 9" ats tome
refused "--seed 9" mask random
refused "--alpha 0.2" received hiprune
refused "--object-block 2" fastervlm hiprune
refused "--tau 0.1" l2 pixelprune
refused "--blocks 3" pixelprune "l2, .*hiprune"
refused "--threshold 9" evit "l2-threshold, dynamicvit-gate"
refused "--mask x" evit mask
expect 2 verify "$model" --backend cpu --prune l2 --mass 0.5
err "mass is not used by --prune l2"
expect 2 classify "$model" "$cat" --kernels portable
err "^raggedvit: --kernels needs --backend cpu$"
expect 2 classify "$model" "$cat" --prune l2-threshold
err "l2-threshold needs --threshold"
expect 2 classify "$model" "$cat" --prune mask
err "mask needs --mask FILE"
expect 2 classify "$model" "$cat" --prune ats-paper --keep 0.5 --mass 0.5
err "--keep or --mass, not both"
expect 2 classify "$model" "$cat" --backend cpu --prune hiprune --blocks 5,10
err "hiprune prunes in one block, n_blocks is 2"
expect 2 classify "$model" "$cat" --backend cpu --prune hiprune --object-block 11
err "object_block is 11, expected 0\.\.10: hiprune prunes after block 10"
expect 3 classify "$model" "$cat" --backend cpu --prune pixelprune
err "variable_resolution is 0, but pixelprune needs it"
expect 2 classify "$model" "$cat" --backend cpu --prune pixelprune --tau 1.5
err "tau"
expect 2 classify "$model" "$cat" --backend cpu --prune dynamicvit --blocks 3,12
err "block 12.*0\.\.11"

# the manual page has every command with its options, and every exit code
options_of() { # COMMAND: in the manual page
    awk -v command="$1" '/^\.S[SH]/ {inside = $1 == ".SS" && $2 == command} inside && sub(/^\\fB\\-\\-/, "") {sub(/\\fR.*/, ""); print}' \
        "$folder/manual" | sed 's/\\-/-/g'
}
expect 0 --manual
no_err
mv "$folder/out" "$folder/manual"
expect 0 --help
while IFS= read -r line; do
    grep -qxF -- "$line" "$folder/manual" || fail "not in the manual page: $line"
done < <(sed -n 's/^  [0-9]  //p' "$folder/out")
for command in $(sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' "$folder/out"); do
    expect 0 "$command" --help
    [ "$(options_of "$command")" = "$(sed -nE 's/^  --([a-z-]+).*/\1/p' "$folder/out" | grep -vx help)" ] ||
        fail "the options in the manual page differ from those in the help ($command)"
done
if command -v groff >/dev/null; then
    groff -man -ww -z "$folder/manual" >"$folder/out" 2>"$folder/err"
    no_err
fi

# devices and policies
expect 0 devices
out '^. cpu +0 '
for backend in cuda vulkan; do
    out "^. $backend +([0-9]|-  not (usable|in this build)$)"
done
if grep -qE '^. vulkan +[0-9]' "$folder/out"; then
    out '^ +(no )?instructions for GEMMs of int8$'
fi
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
grep -q '"native_dtypes": \[' "$folder/out" || fail "no native_dtypes"
expect 0 policies
policies=$(awk '/^[a-z]/ && $1 != "policy" {print $1}' "$folder/out")
for policy in none l2 l2-threshold evit evit-fused evit-paper dynamicvit dynamicvit-gate ats ats-paper tome random mask received \
    fastervlm map-probe hiprune pixelprune; do
    out "^$policy "
done
out '^evit +--keep 0\.7 --blocks 3,6,9 +between attention and MLP +arXiv 2202\.07800$'
out '^tome .*--blocks 0\.\.last --merge 8 '
out '^fastervlm +--keep 0\.5 --blocks last-1 +after the block +arXiv 2412\.01818$'
out '^map-probe +--keep 0\.5 --blocks last +after the block '
out '^hiprune +--keep 0\.5 --blocks last-1 +after the block +arXiv 2508\.00553$'
out '^ +--alpha 0\.1 \[--object-block B\]$'
out '^pixelprune +--tau 0 +before the block +arXiv 2604\.00886$'
awk 'length > 100 {exit 1}' "$folder/out" || fail "the table is wider than 100 columns"
expect 0 policies --json
json policies "$(wc -w <<<"$policies")"
i=0
for policy in $policies; do
    json "policies.$i.name" "$policy"
    for field in summary source site; do
        json "policies.$i.$field" '.+'
    done
    [ "$policy" != ats-paper ] || ats_paper=$i
    [ "$policy" != hiprune ] || hiprune=$i
    [ "$policy" != pixelprune ] || pixelprune=$i
    i=$((i + 1))
done
json "policies.$ats_paper.parameters" 3
json "policies.$ats_paper.defaults.mass" '0\.9'
json "policies.$ats_paper.defaults.keep" null
json "policies.$ats_paper.defaults.blocks.0" 3
json "policies.$ats_paper.blocks_to_last" false
json "policies.$hiprune.parameters" 4
json "policies.$hiprune.defaults.alpha" '0\.1'
json "policies.$hiprune.defaults.object-block" null
json "policies.$pixelprune.parameters" 1
json "policies.$pixelprune.defaults.tau" '0(\.0)?'
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
printf 'PK\3\4 made by torch.save' >"$folder/model.pth"
expect 4 inspect "$folder/model.pth"
err "PyTorch checkpoint: convert it with tools/convert_checkpoint\.py"
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
# A renamed tensor is both missing and unexpected.
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
cmp -s "$cat" "$folder/kept.png" && fail "the overlay is the image itself"
run 0 "$cat" --prune tome --overlay "$folder/merged.png"
cmp -s "$folder/merged.png" "$folder/kept.png" && fail "the overlay does not depend on the policy"
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
json blocks.2 9
json memory.weights '[1-9][0-9]{7}'
json memory.upload 604672
json memory.host '[1-9][0-9]+'
json threshold null

# every policy runs; the kept patches are ascending, and each stage keeps a subset of the stage before
kept() { # STAGE: the patches that the image of "$folder/out" kept after it, one per line
    local n i
    n=$("$json_get" "images.0.kept.$1" <"$folder/out") || return
    grep -o '"kept": \[\[.*' "$folder/out" | sed 's/\]\].*//; s/"kept": \[\[//; s/\], \[/\n/g' | sed -n "$(($1 + 1))p" |
        tr -d ' ' | tr ',' '\n' | awk -v n="$n" '{print} END {exit NR != n}'
}
for policy in "l2" "l2-threshold --threshold 40" "evit" "evit-fused" "evit-paper" "dynamicvit" "dynamicvit-gate" "ats --samples 60" \
    "ats-paper" "ats-paper --keep 0.3" "tome --merge 30 --blocks 2,5,7" "random" "received" "fastervlm --keep 0.2" \
    "hiprune --keep 0.6 --alpha 0.4 --object-block 2"; do
    # shellcheck disable=SC2086
    run 0 "$cat" --top 1 --json --prune $policy
    no_err
    stages=$("$json_get" images.0.kept <"$folder/out")
    [ "$("$json_get" images.0.tokens_kept <"$folder/out")" = "$stages" ] || fail "stages of kept ($policy)"
    seq 0 195 >"$folder/before"
    for stage in $(seq 0 $((stages - 1))); do
        kept "$stage" >"$folder/after" || fail "kept of stage $stage ($policy)"
        sort -nuc "$folder/after" || fail "kept of stage $stage is not ascending ($policy)"
        [ -z "$(comm -13 <(sort "$folder/before") <(sort "$folder/after"))" ] || fail "stage $stage keeps dropped patches ($policy)"
        tokens=$("$json_get" "images.0.tokens_kept.$stage" <"$folder/out")
        # Other tokens are the CLS token and, with evit-fused, the fused tokens.
        extra=$((tokens - $(wc -l <"$folder/after")))
        if [ "$policy" = evit-fused ]; then
            [ $extra -ge 2 ] && [ $extra -le $((stage + 2)) ]
        else
            [ $extra -eq 1 ]
        fi || fail "$extra tokens that are not patches ($policy)"
        cp "$folder/after" "$folder/before"
    done
    if [ "${policy%% *}" = tome ]; then
        json images.0.sizes 3
        for stage in 0 1 2; do
            json "images.0.sizes.$stage" "$(kept $stage | wc -l)"
        done
        grep -o '"sizes": \[\[.*' "$folder/out" | sed 's/\]\].*//; s/"sizes": \[\[//; s/\], \[/\n/g' | tr ',' ' ' |
            awk '{sum = 0; for (i = 1; i <= NF; i++) sum += $i; bad = bad || sum != 196} END {exit bad || NR != 3}' ||
            fail "the sizes of a stage are not those of 196 patches"
    else
        grep -q '"sizes"' "$folder/out" && fail "sizes of $policy"
    fi
done
run 0 "$cat" --json --prune random --seed 1
kept 0 >"$folder/seed1"
run 0 "$cat" --json --prune random --seed 1
cmp -s <(kept 0) "$folder/seed1" || fail "equal seeds differ"
run 0 "$cat" --json --prune random --seed 2
json seed 2
cmp -s <(kept 0) "$folder/seed1" && fail "different seeds give equal results"

run 0 "$cat" --json --prune hiprune
json alpha '0\.1'
json object-block 4
json blocks.0 10
json images.0.tokens_kept.0 99

# a checkpoint without predictors
sed 's/"score_predictor\.1\.out_conv\.4\.bias"/"score_predictor.1.out_conv.4.biax"/' "$model" >"$folder/predictors.safetensors"
for policy in dynamicvit dynamicvit-gate; do
    expect 3 classify "$folder/predictors.safetensors" "$cat" --backend cpu --prune $policy
    err "score_predictor\.1\.out_conv\.4\.bias"
    no_out
done

# a checkpoint without a head: its tensors are renamed to ones that are ignored, with the same header length
LC_ALL=C sed '1s/"head\.bias"/"score_predictor.8"/; 1s/"head\.weight"/"score_predictor.9"/; 1s/airplane,automobile/plane/' "$model" \
    >"$folder/headless.safetensors"
expect 0 inspect "$folder/headless.safetensors"
out '^classes +none'
expect 2 classify "$folder/headless.safetensors" "$cat" --backend cpu
err "headless.safetensors: has no head to classify with"
expect 0 classify "$folder/headless.safetensors" "$cat" --backend cpu --prune l2 --features "$folder/features.npy"
out '^model .* no head$'
no_err
expect 0 classify "$folder/headless.safetensors" "$cat" --backend cpu --prune l2 --json
no_err
json images.0.logits null
json images.0.top 0
json images.0.kept.0 98
expect 0 verify "$folder/headless.safetensors" --backend cpu --tier scalar --against cpu --prune l2 --limit 1
out '^features +largest difference '
out '^result +within tolerance$'

# a checkpoint in several files
mkdir -p "$folder/parts"
cp "$model" "$folder/parts/part.safetensors"
"$tool" inspect "$model" --tensors | sed -n '/^all tensors/,$p' | awk 'NR > 1 {print $1}' >"$folder/tensors"
index=$folder/parts/model.safetensors.index.json
write_index() { # FILE: of every tensor
    awk -v file="$1" 'BEGIN {printf "{\"metadata\": {}, \"weight_map\": {"}
        {printf "%s\"%s\": \"%s\"", (NR == 1 ? "" : ", "), $1, file} END {print "}}"}' "$folder/tensors" >"$index"
}
write_index part.safetensors
expect 0 classify "$index" "$cat" --backend cpu
out '^ +82\.2 %  cat$'
# A shortened path in a message keeps the file's name.
long="$folder/parts/$(printf 'a folder with a long name %.0s' 1 2 3 4 5 6)/part.safetensors"
for file in none.safetensors ../parts/part.safetensors "$folder/parts/part.safetensors" "$long"; do
    write_index "$file"
    expect 4 classify "$index" "$cat" --backend cpu
    err "^raggedvit: .*${file##*/}"
    no_out
done
echo '{"weight_map": {' >"$index"
expect 4 classify "$index" "$cat" --backend cpu
err "^raggedvit: $index: "

# another resolution, with an interpolated position embedding
run 0 "$cat" --image-size 384 --top 1 --json
json images.0.top.0.label cat
json architecture '.*_384'
"$json_get" images.0.logits.0 <"$folder/out" >"$folder/timm"
run 0 "$cat" --image-size 384 --resample bilinear --top 1 --json
[ "$("$json_get" images.0.logits.0 <"$folder/out")" != "$(cat "$folder/timm")" ] || fail "--resample has no effect"
expect 0 inspect "$model" --image-size 384 --eps 1e-12
out '^tokens +577'
out '^resampled .*224'
out '^layernorm +eps 1e-12$'

# masks
bytes() { # N BYTE
    head -c "$1" /dev/zero | tr '\0' "\\$2"
}
npy() { # TYPE SHAPE: the data follows on standard input
    local header="{'descr': '$1', 'fortran_order': ${3:-False}, 'shape': $2, }"
    printf '\223NUMPY\1\0\166\0%-117s\n' "$header"
    cat
}
masked() { # CODE ARGUMENT...: with the mask of the file
    run "$1" "$cat" --top 1 --prune mask --mask "$folder/mask" "${@:2}"
}
{ bytes 100 1; bytes 96 0; } | npy '|u1' '(196,)' >"$folder/mask"
masked 0
out '^tokens kept +101\.0 of 197 at block 3$'
masked 0 --json
json images.0.kept.0 100
json images.0.kept.0.99 99
json mask ".*/mask"
{ bytes 99 1; bytes 97 0; } | npy '|b1' '(1, 196)' >"$folder/mask"
masked 0 --blocks 5
out '^tokens kept +100\.0 of 197 at block 5$'
{ bytes 150 1; bytes 46 0; bytes 50 0; bytes 146 7; } | npy '|u1' '(2, 1, 196)' >"$folder/mask" # stage 2 keeps no dropped patch
masked 0 --blocks 2,4
out '^tokens kept +151\.0 of 197 at block 2$'
out '^tokens kept +101\.0 of 197 at block 4$'
masked 4
err "mask: is for 2 prune stages, but 1 block prunes"
run 0 "$cat" --prune evit-paper --json
grep -o '"logits": [^]]*' "$folder/out" >"$folder/logits"
cp "$folder/out" "$folder/mask"
masked 0 --json
grep -o '"logits": [^]]*' "$folder/out" | cmp -s - "$folder/logits" || fail "a run with its own kept patches as a mask gives other logits"
run 0 "$cat" --prune dynamicvit --blocks 1,4 --json
cp "$folder/out" "$folder/mask"
masked 0
out 'at block 4$'
masked 4 --blocks 4
err "mask: is for 2 prune stages"
echo '[[[0, 3]], [[]]]' >"$folder/mask"
run 0 "$cat" "$cat" --prune mask --mask "$folder/mask" --json
json images.0.kept.0 2
json images.1.kept.0 0
bad_mask() { # MESSAGE: about the mask on standard input
    cat >"$folder/mask"
    masked 4
    err "^raggedvit: $folder/mask: $1"
    no_out
}
bytes 784 1 | npy '<f4' '(196,)' | bad_mask "holds elements of type '<f4'"
bytes 195 1 | npy '|u1' '(195,)' | bad_mask "is for 195 patches, the model has 196"
bytes 195 1 | npy '|u1' '(196,)' | bad_mask "the data is truncated"
bytes 392 1 | npy '|u1' '(2, 196)' | bad_mask "is for 2 images, but there are 1"
bytes 196 1 | npy '|u1' '(1, 1, 1, 196)' | bad_mask "has 4 dimensions"
bytes 196 1 | npy '|u1' '(1, 196)' True | bad_mask "is stored in Fortran order"
bytes 196 1 | npy '|u1' '196' | bad_mask "the header cannot be read"
npy '|u1' '(0, 196)' </dev/null | bad_mask "has no images"
bytes 196 1 | npy '|u1' '(1, 196)' | head -c 50 | bad_mask "the header is truncated"
echo '[[[0, 196]]]' | bad_mask "image 0, stage 0: 196 is not a patch number from 0 to 195"
echo '[[[0, -1]]]' | bad_mask "image 0, stage 0: -1 is not a patch number"
echo '[[[0, "x"]]]' | bad_mask 'image 0, stage 0: "x" is not a patch number'
echo '[[[0]], [[1]]]' | bad_mask "is for 2 images, but there are 1"
echo '[[[0], [1]], [[1]]]' | bad_mask "image 1 has 1 prune stages, image 0 has 2"
echo '[[0]]' | bad_mask "image 0, stage 0: expected a list"
echo '[7]' | bad_mask "image 0: expected a list"
echo '[]' | bad_mask "has no images"
echo '{}' | bad_mask "has no images"
echo '[[[0]' | bad_mask "is not a NumPy array \(.npy\) or JSON: line 2"
: | bad_mask "is not a NumPy array"
run 4 "$cat" --prune mask --mask "$folder/none"
err "none: cannot be read: No such file"
run 4 "$cat" --prune mask --mask "$folder"
err "is a folder, not a file"

# features
floats() { # FROM COUNT: of the array in "$folder/features.npy"
    od -A n -v -t f4 -w4 -j $((128 + 4 * $1)) -N $((4 * $2)) "$folder/features.npy" | tr -d ' '
}
run 0 "$sheet" --tiles 32 --limit 5 --batch 2 --prune ats --features "$folder/features.npy" --quiet
out '^features +.*features.npy$'
head -c 128 "$folder/features.npy" | grep -aq "'shape': (5, 192), }" || fail "the shape of the features"
[ "$(wc -c <"$folder/features.npy")" -eq $((128 + 4 * 5 * 192)) ] || fail "the size of the features"
floats 192 192 >"$folder/second"
run 0 "$sheet" --tiles 32 --limit 2 --batch 1 --prune ats --features "$folder/features.npy" --quiet
paste "$folder/second" <(floats 192 192) |
    awk '{d = $1 - $2; n += $1 != 0; if (d > 1e-4 || d < -1e-4) bad = 1} END {exit bad || n < 190}' ||
    fail "the features differ between batch 2 and batch 1"
run 0 "$cat" --prune evit --features "$folder/features.npy" --grid --json
head -c 128 "$folder/features.npy" | grep -aq "'shape': (1, 14, 14, 192), }" || fail "the shape of the grid"
floats 0 $((196 * 192)) | awk '{if ($1 != 0) some[int((NR - 1) / 192)] = 1} END {for (i = 0; i < 196; i++) if (i in some) print i}' \
    >"$folder/places"
cmp -s <(kept 2) "$folder/places" || fail "the patches of the grid are not the kept ones"
run 5 "$cat" --features "$folder/no/such/folder.npy"
err "folder.npy: cannot be written"

# tiles of a sheet
run 0 "$sheet" --tiles 32 --limit 12 --batch 5 --expect "$data/cifar10_test_1000.txt"
out '^top-1 +[0-9.]+ % \([0-9]+ of 12\)$'
[ "$(grep -c '#' "$folder/out")" -eq 12 ] || fail "one line per tile"
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

# results do not depend on the batch size
logits() { grep -o '"logits": \[[^]]*\]' "$folder/out" | tr -d '"a-z:[] '; }
run 0 "$sheet" --tiles 32 --limit 7 --batch 1 --json
logits >"$folder/batch_1"
run 0 "$sheet" --tiles 32 --limit 7 --batch 4 --json
logits >"$folder/batch_4"
paste -d, "$folder/batch_1" "$folder/batch_4" |
    awk -F, '{ for (i = 1; i <= 10; i++) { d = $i - $(i + 10); if (d > 1e-5 || d < -1e-5) bad = 1; n++ } } END { exit bad || n != 70 }' ||
    fail "the logits differ between batch 1 and batch 4"

# class names and expected classes
seq 100 109 >"$folder/names.txt"
run 0 "$cat" --labels "$folder/names.txt" --top 1
out '%  103$'
seq 1 9 >"$folder/names.txt"
run 4 "$cat" --labels "$folder/names.txt"
err "names.txt: 9 class names, but the model has 10 classes"
run 4 "$cat" --labels "$folder/none.txt"
err "none.txt: cannot be read: No such file"
# class names in config.json, in the formats of timm and transformers
mkdir "$folder/named"
cp "$tests/data/reference/model.safetensors" "$folder/named"
for names in '"label_names": ["a, A", "b", "c", "d", "e", "f", "g"]' \
    '"id2label": {"6": "g", "0": "a, A", "1": "b", "2": "c", "3": "d", "4": "e", "5": "f"}'; do
    sed "s/^{/{$names, /" "$tests/data/reference/config.json" >"$folder/named/config.json"
    expect 0 classify "$folder/named/model.safetensors" "$cat" --backend cpu --top 7
    for name in "a, A" b c d e f g; do out "%  $name\$"; done
    expect 0 inspect "$folder/named/model.safetensors"
    out '^classes +7: a, A,b,c,d,e,f,g$'
    expect 0 inspect "$folder/named/model.safetensors" --json
    json classes 'a, A,b,c,d,e,f,g'
done
sed 's/^{/{"label_names": ["a"], /' "$tests/data/reference/config.json" >"$folder/named/config.json"
expect 0 classify "$folder/named/model.safetensors" "$cat" --backend cpu --top 1
err 'the checkpoint names 1 classes but has 7; they are shown by number'
echo cat >"$folder/right.txt"
run 0 "$cat" --expect "$folder/right.txt"
out '^top-1 +100.0 %'
echo 5 >"$folder/right.txt"
run 0 "$cat" --expect "$folder/right.txt"
out '^top-1 +0.0 %'
echo cow >"$folder/right.txt"
run 4 "$cat" --expect "$folder/right.txt"
err "right.txt: line 1: 'cow' is not a class"
printf 'cat\ncat\n' >"$folder/right.txt"
run 4 "$cat" --expect "$folder/right.txt"
err "right.txt: 2 classes for 1 images"

# folders, lists, broken images
mkdir -p "$folder/images/inner" "$folder/empty"
cp "$cat" "$folder/images/b.png"
cp "$cat" "$folder/images/a.PNG"
cp "$cat" "$folder/images/inner/c.png"
echo "no image" >"$folder/images/notes.md"
run 0 "$folder/images" --top 1
[ "$(grep -c 'cat$' "$folder/out")" -eq 2 ] || fail "two images in the folder"
[ "$(grep -m1 -n 'a\.PNG' "$folder/out" | cut -d: -f1)" -lt "$(grep -m1 -n 'b\.png' "$folder/out" | cut -d: -f1)" ] || fail "sorted"
out '^skipped +2 entries of the folders that are not images$'
err "^raggedvit: $folder/images: skipped, not images: inner, notes.md$"
run 4 "$folder/empty"
err "empty: no images in this folder"
# images are also recognised by their first bytes; unsupported formats are errors, other files are skipped
mkdir -p "$folder/kinds/inner"
turned=$(dirname "$0")/data/turned.jpg
for name in a.jfif b.JPE c; do cp "$turned" "$folder/kinds/$name"; done
printf 'GIF89a of old' >"$folder/kinds/d.gif"
printf '\0\0\0\040ftypavif\0\0\0\0' >"$folder/kinds/e.avif"
head -c 54 /dev/zero >"$folder/kinds/f.bmp"
printf 'BMW is no image, nor is this' >"$folder/kinds/g.text"
mkfifo "$folder/kinds/h"
cp "$turned" "$folder/kinds/.hidden.jpg"
run 1 "$folder/kinds" --json
err "^raggedvit: $folder/kinds: skipped, not images: g.text, h, inner$"
err "d.gif: GIF is not supported; PNG, JPEG, WebP and BMP are$"
err "e.avif: AVIF is not supported; PNG, JPEG, WebP and BMP are$"
err "f.bmp: not a PNG, JPEG, WebP or BMP image$"
json n_images 3
json n_failed 3
json n_skipped 3
json skipped.0 '.*/kinds/g.text'
json images.2.file '.*/kinds/c'
for i in 0 1; do run 1 "$folder/kinds" --json --shard $i/2 && cp "$folder/out" "$folder/kinds$i.json"; done
expect 1 merge "$folder/kinds0.json" "$folder/kinds1.json"
json n_skipped 3
json skipped.2 '.*/kinds/inner'
for i in $(seq 20); do : >"$folder/images/inner/empty$i"; done
run 0 "$folder/images/inner" --top 1
err "inner: skipped, not images: empty1, .* and 12 more$"
rm "$folder"/images/inner/empty*
printf 'images/b.png\r\n\nimages/inner/c.png\n' >"$folder/list.txt"
run 0 "$folder/list.txt" --top 1
[ "$(grep -c 'cat$' "$folder/out")" -eq 2 ] || fail "two images in the list"
: >"$folder/list.txt"
run 4 "$folder/list.txt"
err "list.txt: the list is empty"
head -c 5000 "$cat" >"$folder/images/broken.png"
: >"$folder/images/none.jpg"
run 1 "$folder/images" "$folder/missing.png" --top 1
err "^raggedvit: $folder/images/broken.png: broken PNG"
err "^raggedvit: $folder/images/none.jpg: the file is empty"
err "^raggedvit: $folder/missing.png: cannot be read: No such file"
[ "$(grep -c 'cat 82.2 %' "$folder/out")" -eq 2 ] || fail "the results of the valid images"
run 1 "$folder/images" --json
json images 2
json failed 2
json failed.0.file '.*broken.png'
json failed.0.error 'broken PNG.*'
json exit_code 1
printf 'cat\ncat\n3\ndog\n' >"$folder/right.txt" # a.PNG, b.png, broken.png, none.jpg
run 1 "$folder/images" --expect "$folder/right.txt"
out '^top-1 +100.0 % \(2 of 2\)$'
run 4 "$folder/missing.png"
err "missing.png: cannot be read"
run 4 "$folder/missing.png" --json
json images 0

# named pipes without a writer are rejected
mkfifo "$folder/pipe" "$folder/pipe.txt"
limit=20
for arguments in "$cat --labels $folder/pipe" "$cat --expect $folder/pipe" "$cat --prune mask --mask $folder/pipe" "$folder/pipe.txt" \
    "$folder/pipe"; do
    # shellcheck disable=SC2086
    run 4 $arguments
    err "^raggedvit: $folder/pipe(\.txt)?: is not a regular file$"
done
unset limit
run 4 "$cat" --labels <(seq 10)
err ": is not a regular file$"

# text from files and arguments is printed without control characters
unsafe=$'a\033[2J\177\302\233m\342\200\256b\377\303\251'
shown='a\\x1b\[2J\\x7f\\xc2\\x9bm\\xe2\\x80\\xaeb\\xff'$'\303\251'
{ seq 3; printf '%s\n' "$unsafe"; seq 6; } >"$folder/names.txt"
run 0 "$cat" --labels "$folder/names.txt" --top 1
out "%  $shown\$"
printable
run 0 "$cat" "$cat" "$cat" "$cat" "$cat" --labels "$folder/names.txt"
out "chelsea.png  $shown 82\.2 %\$"
printable
printf '%s\n' "$unsafe" >"$folder/right.txt"
run 4 "$cat" --expect "$folder/right.txt"
err "line 1: 'a\\\\x1b\[2J.*' is not a class"
printable
cp "$cat" "$folder/$unsafe"$'\n'
run 0 "$folder/$unsafe"$'\n' --top 1 --overlay "$folder/$unsafe.png" --features "$folder/$unsafe.npy"
out "/$shown\\\\x0a\$"
out "^overlay .*/$shown\.png\$"
out "^features .*/$shown\.npy\$"
printable
run 4 "$folder/none$unsafe"
err "/none$shown: cannot be read"
printable
bytes 196 1 | npy '|u1' '(196,)' >"$folder/mask$unsafe"
run 0 "$cat" --prune mask --mask "$folder/mask$unsafe"
out "^prune .*/mask$shown\$"
printable
expect 0 verify "$model" --backend cpu --against cpu --limit 1 --images "$folder/$unsafe"$'\n'
out "of .*/$shown\\\\x0a\$"
printable
for arguments in "$unsafe" "classify a b --prune $unsafe" "classify a b --backend $unsafe" "classify a b --batch $unsafe" \
    "classify a b --$unsafe" "bench --batches $unsafe" "bench --keep $unsafe"; do
    # shellcheck disable=SC2086
    expect 2 $arguments
    err 'x1b\[2J'
    printable
done
# Names of classes and tensors in the header of a checkpoint, with the same header length.
LC_ALL=C sed '1s/airplane,/\\u009bma,/; 1s/"score_predictor\.0\.out_conv\.4\.bias"/"score_predictor.0.out_\\u001b[2Jas"/' "$model" \
    >"$folder/unsafe.safetensors"
expect 0 inspect "$folder/unsafe.safetensors" --tensors
out '^classes .*\\xc2\\x9bma,'
out 'score_predictor\.0\.out_\\x1b\[2Jas '
printable
# JSON contains the original text.
{ printf 'd\177\302\233\342\200\256\303\251\n'; seq 9; } >"$folder/names.txt"
run 0 "$cat" --labels "$folder/names.txt" --json --top 10
printable
grep -qF '"d\u007f\u009b\u202e'$'\303\251"' "$folder/out" || fail "the label in JSON"
"$json_get" images.0.top.0.label <"$folder/out" >/dev/null || fail "no JSON of such labels"

# libraries in the current folder are not loaded
mkdir "$folder/planted"
for library in $(ldd "$tool" | awk '{print $1}' | grep -v /); do
    : >"$folder/planted/$library"
done
[ -e "$folder/planted/libjansson.so.4" ] || fail "ldd does not list the tool's libraries"
(cd "$folder/planted" && "$tool" --version >"$folder/out" 2>"$folder/err") || fail "the tool loads libraries from the current folder"

# verify compares with float64 sums, and two types with each other
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
json blocks 3
json block_differences 12
json first_diverging_block null
json within_tolerance true
json images_skipped 0
for policy in "l2-threshold --threshold 40" "evit-fused" "evit-paper" "dynamicvit" "dynamicvit-gate" \
    "ats --blocks 3,7" "ats-paper" "random" "received"; do
    # shellcheck disable=SC2086
    expect 0 verify "$model" --backend cpu --tier scalar --against cpu --images "$sheet" --tiles 32 --limit 2 --json --prune $policy
    json stages.0.differ_same_scores 0
    json within_tolerance true
done
expect 0 verify "$model" --backend cpu --tier scalar --against cpu --prune tome --images "$sheet" --tiles 32 --limit 2
out '^tokens +block 11: 202 kept by A, '
out '^result +within tolerance$'
bytes 196 1 | npy '|u1' '(196,)' >"$folder/mask"
expect 0 verify "$model" --backend cpu --tier scalar --against cpu --prune mask --mask "$folder/mask" --limit 1
out '^tokens +block 3: 197 kept by A, 0 differ end to end$'
# Here f16 and f32 keep different tokens, so verify runs B again with the tokens of A.
expect 0 verify "$model" --backend cpu --dtype f16 --against cpu --against-dtype f32 --prune ats --images "$sheet" --tiles 32 --limit 4 \
    --json
json images_remasked '[1-4]'
json within_tolerance true
expect 0 verify "$model" --backend cpu --dtype f16 --against cpu --against-dtype f32 --prune l2 --limit 2
out 'tolerance 0.02'
expect 0 verify "$model" --backend cpu --dtype bf16 --against cpu --against-dtype f32 --prune l2 --limit 2
out 'tolerance 0.16'
expect 0 verify "$model" --backend cpu --dtype int8 --against cpu --against-dtype f32 --images "$sheet" --tiles 32 --limit 2 --json
json dtype int8
json a.dtype int8
json b.dtype f32
json tolerance 0.3
json within_tolerance true
json largest_difference '0\.0[0-9]+' # something was rounded
expect 0 classify "$model" "$cat" --backend cpu --dtype fp8 --top 1
out '^device +cpu 0: .*, fp8$'
out 'cat$'
expect 0 classify "$model" "$cat" --backend cpu --tier scalar --dtype auto --top 1 --json
err '^--dtype auto: f32, because 8-bit GEMMs are not faster on this device$'
json dtype f32
json dtype_reason '8-bit GEMMs are not faster on this device'
expect 0 bench "$model" --backend cpu --dtype int8 --batches 1 --seconds 0.01 --json
json dtype int8
# For every policy in less precise types, different decisions must be near ties. ats keeps different tokens for most images.
for policy in l2 "l2-threshold --threshold 38" evit evit-fused evit-paper dynamicvit dynamicvit-gate ats "ats-paper --mass 0.9" tome \
    random received fastervlm "hiprune --alpha 0.5"; do
    for dtype in f16 bf16 int8; do
        # shellcheck disable=SC2086
        expect 0 verify "$model" --backend cpu --dtype $dtype --against cpu --against-dtype f32 --images "$sheet" --tiles 32 --limit 4 \
            --json --prune $policy
        json judged.differ_beyond_margin 0
        json judged.decisions '[1-9][0-9]+'
        json stages.0.judged.images_skipped 0
        json within_tolerance true
    done
done
expect 0 verify "$model" --backend cpu --dtype bf16 --against oracle --against-dtype f32 --images "$sheet" --tiles 32 --limit 2 \
    --prune ats --expect "$data/cifar10_test_1000.txt"
out '^sets +[12] of 2 images kept different tokens somewhere$'
out '^decided +block 3: 392 decisions after the same tokens, [1-9][0-9]* differ within the margin of '
out '16-bit types keep other tokens'
out '^right +A [0-9.]+ %, B [0-9.]+ % of 2'
expect 0 verify "$model" --backend cpu --dtype f16 --against cpu --against-dtype f32 --images "$sheet" --tiles 32 --limit 1 \
    --prune hiprune --alpha 1
out '^decided +anchors, block '
expect 2 verify "$model" --backend cpu --expect "$data/cifar10_test_1000.txt"
err "needs --images"
expect 2 verify "$model" --backend cpu --images "$sheet" --labels "$data/cifar10_test_1000.txt"
err "needs --expect"
expect 4 verify "$model" --backend cpu --images "$sheet" --tiles 32 --expect "$folder/missing.txt"
expect 4 verify "$folder/headless.safetensors" --backend cpu --images "$sheet" --tiles 32 --limit 1 --expect "$data/cifar10_test_1000.txt"
err "no head"
expect 0 verify "$model" --backend cpu --against cpu --limit 1
err "same device"
expect 4 verify "$model" --backend cpu --images "$folder/missing.png"
err "missing.png: cannot be read"

# bench: the output, except the times
expect 0 bench "$model" --backend cpu --batches 1,2 --seconds 0
out '^model +deit_tiny_patch16_224$'
out '^prune +l2, keep 0.5, block 3$'
out '^1 .* [0-9.]+x +(keep 0\.[0-9]+|none)$'
out '^2 '
no_err
expect 0 bench "$model" --backend cpu --batches 1 --seconds 0 --prune l2 --keep 0.2 --json
no_err
json date '20[0-9]{2}-[0-9T:-]+Z'
json backend cpu
json prune l2
json keep '0\.2'
json results 1
json results.0.batch 1
json results.0.dense.ms.count '[1-9][0-9]*'
json results.0.dense.launches 87
json results.0.dense.tokens 0
json results.0.pruned.ms.median '[0-9.]+'
json results.0.pruned.images_per_second '[0-9.]+'
json results.0.pruned.tokens.0 '(39|40)'
json results.0.speed_up '[0-9.]+'
json results.0.break_even_keep '0(\.[0-9]+)?'
expect 0 bench "$model" --backend cpu --batches 1 --seconds 0 --prune tome --merge 13 --json
json results.0.pruned.tokens 12
json results.0.break_even_keep null
expect 0 bench --backend cpu --batches 1 --seconds 0 --prune none # random weights
out '^model +deit_tiny_patch16_224, random weights$'
out '^prune +none$'
(
    ulimit -f 100
    trap '' XFSZ
    expect 5 bench --backend cpu
    err 'random weights cannot be written: File too large'
    exit $failures
) || failures=$((failures + 1))
# If bench is interrupted while it writes the weights, it removes its files.
mkdir "$folder/temporary"
for signal in INT TERM; do
    TMPDIR=$folder/temporary timeout -k 5 -s $signal 0.4 "$tool" bench --backend cpu --shape base --batches 1 >"$folder/out" 2>"$folder/err"
done
[ -z "$(ls "$folder/temporary")" ] || fail "an interrupted bench leaves files: $(ls "$folder/temporary")"
expect 4 bench "$cat" --backend cpu
err "^raggedvit: $cat: "
expect 3 bench "$model" --backend cpu --device 99
no_out

finish
