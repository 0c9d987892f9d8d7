#!/bin/bash
# The command line tool's pictures: how they are prepared, inputs that are not square, and comparing with a reference. CPU only.
# usage: test_cli_pictures.sh RAGGEDVIT EXAMPLES_DATA TEMPORARY_FOLDER
. "$(dirname "$0")/cli_checks.sh"

# the recipe
run 0 "$cat" --crop 0.9 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
out '^ +82\.2 %  cat$'
run 0 "$cat" --mean 0.5 --std 0.5
out '^ +77\.2 %  cat$'
# from the files beside the checkpoint, or from nowhere
mkdir -p "$folder/recipe"
cp "$model" "$folder/recipe/model.safetensors"
in_recipe() { expect "$1" classify "$folder/recipe/model.safetensors" "$cat" --backend cpu "${@:2}"; }
echo '{"architecture": "deit_tiny_patch16_224", "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}}' \
    >"$folder/recipe/config.json"
in_recipe 0 --crop 0.9
out '^ +77\.2 %  cat$'
in_recipe 0 --crop 0.9 --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225
out '^ +82\.2 %  cat$'
echo '{"architecture": "vit_tiny_patch16_224"}' >"$folder/recipe/config.json" # all of its weights have these
in_recipe 0
out '^ +77\.2 %  cat$'
echo '{"architecture": "vit", "model_args": {"num_heads": 3}}' >"$folder/recipe/config.json"
in_recipe 4
err "no file beside it tells the mean and the standard deviation of its pictures: give --mean and --std"
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
err "this tool does not know .filter: Lanczos, from preprocessor_config.json: resample.: --fit and --filter choose another"
in_recipe 0 --filter bilinear
out '^ +72\.5 %  cat$'
echo '{"image_processor_type": "ViTImageProcessor", "do_resize": false}' >"$folder/recipe/preprocessor_config.json"
in_recipe 4
err "this tool does not know .fit: not resized, from preprocessor_config.json: do_resize."
rm "$folder/recipe/preprocessor_config.json"
echo '{"architecture": "vit_small_patch16_rope_mixed_ape_224", "global_pool": "avg", "model_args": {"act_layer": "quick_gelu",
    "embed_dim": 192, "num_heads": 3}}' >"$folder/recipe/config.json"
in_recipe 3
err "tell how its rotary positions turn: give timm's name"
expect 4 inspect "$folder/recipe/model.safetensors"
out '^  activation  quick GELU +config.json: model_args.act_layer$'
in_recipe 0 --activation gelu --pool cls --position table --mean 0.5 --std 0.5
out '^ +77\.2 %  cat$'
in_recipe 2 --heads 5
err "the width 192 cannot be cut into 5 heads .given."
run 0 "$cat" --crop 1
out '^ +85\.7 %  cat$'

finish
