#!/bin/bash
# Tests images in the command line tool, on the CPU: preprocessing, inputs that are not square, and verify with a reference.
# usage: test_cli_images.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"

# the preprocessing
run 0 "$cat" --crop 0.9 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
out '^ +82\.2 %  cat$'
run 0 "$cat" --mean 0.5 --std 0.5
out '^ +77\.2 %  cat$'
# with and without configuration files next to the checkpoint
mkdir -p "$folder/recipe"
cp "$model" "$folder/recipe/model.safetensors"
in_recipe() { expect "$1" classify "$folder/recipe/model.safetensors" "$cat" --backend cpu "${@:2}"; }
echo '{"architecture": "deit_tiny_patch16_224", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}' \
    >"$folder/recipe/config.json"
in_recipe 0 --crop 0.9
out '^ +77\.2 %  cat$'
in_recipe 0 --crop 0.9 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
out '^ +82\.2 %  cat$'
echo '{"architecture": "vit_tiny_patch16_224"}' >"$folder/recipe/config.json" # all published weights of this architecture have this recipe
in_recipe 0
out '^ +77\.2 %  cat$'
echo '{"architecture": "vit", "model_args": {"num_heads": 3}}' >"$folder/recipe/config.json"
in_recipe 4
err "the model's files do not give the mean and standard deviation of images; set --mean and --std"
in_recipe 0 --mean 0.5 --std 0.5
out '^ +77\.2 %  cat$'
echo '{"resample": 2, "size": {"height": 224, "width": 224}, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}' \
    >"$folder/recipe/preprocessor_config.json"
in_recipe 0
out '^ +72\.5 %  cat$'
in_recipe 0 --fit crop --filter bicubic --crop 0.9
out '^ +77\.2 %  cat$'
echo '{"resample": 1, "image_processor_type": "ViTImageProcessor"}' >"$folder/recipe/preprocessor_config.json"
in_recipe 4
err "does not support the model's image preparation .filter: Lanczos, from preprocessor_config.json: resample.; choose another with --fit"
in_recipe 0 --filter bilinear
out '^ +72\.5 %  cat$'
echo '{"image_processor_type": "ViTImageProcessor", "do_resize": false}' >"$folder/recipe/preprocessor_config.json"
in_recipe 4
err "this tool does not support the model's image preparation .fit: not resized, from preprocessor_config.json: do_resize."
rm "$folder/recipe/preprocessor_config.json"
echo '{"architecture": "vit_small_patch16_rope_mixed_ape_224", "global_pool": "avg", "model_args": {
    "init_values": null, "act_layer": "quick_gelu", "embed_dim": 192, "num_heads": 3}}' >"$folder/recipe/config.json"
in_recipe 3
err "its rotary positions from the weights or the files next to them: set the timm name"
expect 4 inspect "$folder/recipe/model.safetensors"
out '^  activation +quick GELU +config.json: model_args.act_layer$'
in_recipe 0 --activation gelu --pool cls --position table --mean 0.5 --std 0.5
out '^ +77\.2 %  cat$'
in_recipe 2 --heads 5
err "the width 192 cannot be split into 5 heads .given."
run 0 "$cat" --crop 1
out '^ +85\.7 %  cat$'


# a model with 32 x 56 pixels and patches of 8, and timm's results for it (tests/data/reference/README.md)
wide=$tests/data/reference
small=$wide/model.safetensors
dump=$wide/dump.safetensors
png_size() { od -A n -t u1 -j 16 -N 8 "$1" | awk '{print $3 * 256 + $4 " x " $7 * 256 + $8}'; }
expect 0 inspect "$small"
out '^input +32 x 56 pixels'
out '^tokens +29: 4 x 7 patches and CLS$'
out '^resize +to cover 35 x 62, bicubic .Pillow., centre 32 x 56$'
out 'from config.json: pretrained_cfg.crop_mode; config.json: pretrained_cfg.interpolation; config.json: pretrained_cfg.crop_pct.$'
out '^colours +mean 0.5, 0.5, 0.5; std 0.5, 0.5, 0.5$'
expect 0 inspect "$small" --json
json preprocessing.fit crop
json preprocessing.filter bicubic
json preprocessing.resize.1 62
json preprocessing.size.0 32
json image_width 56
expect 0 classify "$small" "$cat" --backend cpu --prune l2 --blocks 1 --overlay "$folder/wide.png" \
    --features "$folder/wide.npy" --grid --json
json images.0.logits 7
json images.0.tokens_kept.0 14
[ "$(png_size "$folder/wide.png")" = "902 x 600" ] || fail "the overlay is $(png_size "$folder/wide.png")"
head -c 128 "$folder/wide.npy" | grep -aq "'shape': (1, 4, 7, 32), }" || fail "the shape of the grid"
echo '[[[0, 6, 27]]]' >"$folder/mask"
expect 0 classify "$small" "$cat" --backend cpu --prune mask --blocks 1 --mask "$folder/mask" --json
json images.0.kept.0 3
echo '[[[28]]]' >"$folder/mask"
expect 4 classify "$small" "$cat" --backend cpu --prune mask --blocks 1 --mask "$folder/mask"
err "28 is not a patch number from 0 to 27"
expect 0 verify "$small" --backend cpu --tier scalar --against cpu --prune l2 --blocks 1
out '^note +A and B read the checkpoint in the same way; --reference'
expect 0 verify "$small" --backend cpu --images "$cat" --json
json compared_with 'another device'
expect 0 bench "$small" --backend cpu --batches 2 --seconds 0 --prune l2 --blocks 1 --json
json results.0.batch 2
# with lines and columns after the last whole patch, which the model ignores
mkdir -p "$folder/rest"
cp "$small" "$folder/rest"
sed 's/\[32, 56\]/[35, 60]/; s/\[3, 32, 56\]/[3, 35, 60]/' "$wide/config.json" >"$folder/rest/config.json"
expect 0 classify "$folder/rest/model.safetensors" "$cat" --backend cpu --prune l2 --blocks 1 --overlay "$folder/rest.png"
[ "$(png_size "$folder/rest.png")" = "902 x 600" ] || fail "the overlay is $(png_size "$folder/rest.png")"
# the kinds of resizing, and an image that loses all its pixels
for fit in crop squash border; do
    expect 0 classify "$small" "$cat" --backend cpu --fit $fit --filter bilinear --json
    "$json_get" images.0.logits.0 <"$folder/out" >"$folder/$fit"
done
[ "$(sort -u "$folder"/{crop,squash,border} | wc -l)" = 3 ] || fail "--fit has no effect"
expect 2 classify "$small" "$cat" --fit stretch
err "stretch', expected crop, squash or border"

# verify with a reference
reference() { expect "$1" verify "$small" --backend cpu --reference "${@:2}"; }
reference 0 "$dump"
out '^made by +timm '
out "^weights +the same file as the dump's$"
out '^logits +largest difference [0-9.e-]+ of the largest value; tolerance 1e-05; root mean square [0-9.e-]+, PyTorch.s .*$'
out '^features +largest difference '
out "^result +right: as the model's own code computes it$"
no_err
reference 0 "$dump" --dtype f16 --limit 1 --json
json right true
json same_weights_file true
json outputs.pooled.tolerance '0\.00[0-9]+'
json n_images 1
# a model with different results
for mutant in "--activation quick-gelu" "--eps 0.01" "--heads 4"; do
    # shellcheck disable=SC2086
    reference 1 "$dump" $mutant
    out '^result +NOT RIGHT: '
done
reference 1 "$dump" --activation gelu-tanh --json
json right false
# invalid references, and references of another model
damaged() { # MESSAGE: about the dump in "$folder/dump"
    reference 4 "$folder/dump"
    err "^raggedvit: $folder/dump: $1"
    no_out
}
head -c 20000 "$dump" >"$folder/dump"
damaged "."
cp "$small" "$folder/dump"
damaged "has no tensor 'images'"
cp "$dump" "$folder/dump"
printf '\000\000\300\177' | dd of="$folder/dump" bs=1 seek=$(($(wc -c <"$dump") - 4)) conv=notrunc 2>/dev/null
damaged "tensor '[a-z]+': value [0-9]+ is not finite"
LC_ALL=C sed 's/"logits"/"logitx"/; s/"pooled"/"poolex"/; s/"features"/"featurex"/' "$dump" >"$folder/dump"
damaged "has none of the tensors 'logits', 'pooled' and 'features'"
LC_ALL=C sed 's/\[2,7\]/[7,2]/' "$dump" >"$folder/dump"
damaged "tensor 'logits' is .7, 2., expected .2, 7.: the dump is of another model"
LC_ALL=C sed 's/"logits"/"logitx"/; s/"error\.pooled\.f32":"[^"]/&/' "$dump" >"$folder/dump"
reference 0 "$folder/dump"
! grep -q '^logits' "$folder/out" || fail "logits were compared with a reference that has none"
expect 4 verify "$model" --backend cpu --reference "$dump"
err "tensor 'images' is .2, 3, 32, 56., expected .images, 3, 224, 224."
reference 4 "$folder/none"
err "none: "
LC_ALL=C sed 's/"format":"pt"/"format":"px"/' "$small" >"$folder/other.safetensors"
cp "$wide/config.json" "$folder/config.json"
expect 0 verify "$folder/other.safetensors" --backend cpu --reference "$dump"
out "^weights +not the same file as the dump's$"
for arguments in "--images $cat" "--against cpu" "--against-dtype f16" "--prune l2"; do
    # shellcheck disable=SC2086
    reference 2 "$dump" $arguments
    err "^raggedvit: --reference excludes"
done

finish
