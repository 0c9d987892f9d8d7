#!/usr/bin/env python3
"""Makes model.safetensors, config.json and dump.safetensors again. Needs timm, torch and safetensors from PyPI."""
import json
import pathlib
import subprocess
import sys

import safetensors.torch
import timm
import torch

FOLDER = pathlib.Path(__file__).resolve().parent
SHAPE = {"img_size": [32, 56], "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 2, "mlp_ratio": 2}


def main():
    torch.manual_seed(3)
    model = timm.create_model("vit_base_patch16_224", num_classes=7, **SHAPE)
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.3 if p.ndim > 1 and "pos" not in name else 0.5
            p.copy_(torch.randn_like(p) * scale + ("norm" in name and name.endswith("weight")))
    weights = {name: value.half().contiguous() for name, value in model.state_dict().items()}
    safetensors.torch.save_file(weights, FOLDER / "model.safetensors", {"format": "pt"})
    preprocessing = {"input_size": [3, 32, 56], "mean": [0.5] * 3, "std": [0.5] * 3, "interpolation": "bicubic", "crop_pct": 0.9,
                     "crop_mode": "center"}
    config = {"architecture": "vit_base_patch16_224", "num_classes": 7, "global_pool": "token", "model_args": SHAPE,
              "pretrained_cfg": preprocessing}
    (FOLDER / "config.json").write_text(json.dumps(config) + "\n")
    script = FOLDER.parents[2] / "tools/reference/dump_reference.py"
    subprocess.run([sys.executable, script, "--timm", "vit_base_patch16_224", "--checkpoint", FOLDER / "model.safetensors", "--n-images", "2",
                    "--out", FOLDER / "dump.safetensors"], check=True)


if __name__ == "__main__":
    main()
