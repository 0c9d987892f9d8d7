#!/usr/bin/env python3
"""Compares the errors of full-size models with random weights with those of PyTorch (int8: torchao), for each type.

For each model it makes a checkpoint with timm, writes a float64 reference (tools/reference/dump_reference.py) and runs `raggedvit verify
--reference`. Prints a Markdown table; --json FILE also writes the figures. Exits 1 if an error is more than twice PyTorch's. Needs torch and
timm (and torchao for int8) from PyPI.

usage: tools/accuracy/random_weights.py [--dtypes f32,f16,bf16] [--backend cpu] [--only PATTERN] [--images N] [--keep DIR] [--json FILE]
The environment variable RAGGEDVIT names the tool (default: build/release/tools/raggedvit)."""
import argparse
import json
import pathlib
import platform
import re
import sys
import tempfile

from policies import ROOT, output, run, write_report

MODELS = {
    "deit_small_patch16_224": 1000,
    "deit_base_patch16_224": 1000,
    "vit_base_patch16_clip_224": 512,
    "vit_base_patch16_siglip_224": 0,
    "vit_base_patch16_dinov3": 0,
}


def make_checkpoint(name, n_classes, folder):
    """Writes weights with the magnitude of trained ones. With timm's initialisation, a deep model's output stays close to its input."""
    import safetensors.torch
    import timm
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    model = timm.create_model(name, pretrained=False, num_classes=n_classes)
    generator = torch.Generator().manual_seed(1)
    tensors = {}
    for key, value in model.state_dict().items():
        noise = torch.randn(value.shape, generator=generator)
        if value.dim() >= 2 and ("weight" in key or "latent" not in key) and key.endswith("weight"):
            noise = noise / (value[0].numel() ** 0.5)
        elif "norm" in key and key.endswith("weight"):
            noise = 1 + 0.1 * noise
        elif "gamma" in key:
            noise = 0.3 + 0.05 * noise
        elif value.is_floating_point():
            noise = 0.1 * noise
        tensors[key] = noise.to(value.dtype).contiguous() if value.is_floating_point() else value
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    config = {"architecture": name, "num_classes": n_classes, "global_pool": getattr(model, "global_pool", "token")}
    config["num_features"] = model.num_features
    config["pretrained_cfg"] = {"input_size": list(model.pretrained_cfg["input_size"]), "mean": [0.5] * 3, "std": [0.5] * 3}
    (folder / "config.json").write_text(json.dumps(config))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="f32,f16,bf16")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--only", default=".")
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--keep", type=pathlib.Path, help="keep checkpoints and references in this folder, and reuse them")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results, failed = [], False
    print("| model | type | rms | PyTorch | x | largest | twice PyTorch's |\n|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as temporary:
        for name, n_classes in MODELS.items():
            if not re.search(arguments.only, name):
                continue
            folder = (arguments.keep or pathlib.Path(temporary)) / name
            checkpoint, dump = folder / "model.safetensors", folder / "reference.safetensors"
            if not checkpoint.exists():
                make_checkpoint(name, n_classes, folder)
            if not dump.exists():
                output([sys.executable, ROOT / "tools/reference/dump_reference.py", "--timm", name, "--checkpoint", checkpoint, "--n-images",
                        arguments.images, "--out", dump])
            for dtype in arguments.dtypes.split(","):
                found = run("verify", checkpoint, "--reference", dump, "--backend", arguments.backend, "--dtype", dtype, codes=(0, 1))
                outputs = found["outputs"]
                kind = next(key for key in ("logits", "pooled", "features") if key in outputs)
                o = outputs[kind]
                ours, theirs = o["relative_rms"], o["pytorch_relative_rms"]
                result = {"model": name, "dtype": dtype, "output": kind, "rms": ours, "pytorch_rms": theirs,
                          "largest": o["largest_relative_difference"], "tolerance": o["tolerance"], "right": found["right"],
                          "n_images": found["n_images"], "device": found["device"], "source": found["reference_source"]}
                results.append(result)
                failed |= not found["right"]
                ratio = f"{ours / theirs:.2f}" if theirs else "?"
                print(f"| {name} | {dtype} | {ours:.2g} | {theirs:.2g} | {ratio} | {result['largest']:.2g} | {o['tolerance']:.2g} |", flush=True)
    write_report(arguments.json, "accuracy_random", machine=platform.processor() or platform.machine(), backend=arguments.backend,
                 results=results)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
