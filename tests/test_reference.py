#!/usr/bin/env python3
"""Tests raggedvit verify --reference with models of timm and transformers: it passes, and fails with a wrong activation.

usage: test_reference.py RAGGEDVIT; exits with 77 if these libraries are not installed.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import safetensors.torch
    import timm
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools/reference"))
import dump_reference  # noqa: E402

TIMM = [
    ("vit_base_patch16_siglip_224", {"img_size": 64, "num_classes": 0}),
    ("vit_base_patch16_clip_quickgelu_224", {"img_size": 64, "num_classes": 24}),
    ("vit_small_patch16_dinov3", {"img_size": [48, 80], "num_classes": 5}),
    ("vit_base_patch16_224", {"img_size": [32, 80], "global_pool": "avg", "num_classes": 5}),
]
SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 96, "image_size": 48, "patch_size": 16}
VISION = {**SHAPE, "projection_dim": 24}
TEXT = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 99}
HF = [
    ("ViTForImageClassification", "ViTConfig", {**SHAPE, "num_labels": 5}),
    ("CLIPModel", "CLIPConfig", {"vision_config": VISION, "text_config": TEXT, "projection_dim": 24}),
    ("CLIPVisionModel", "CLIPVisionConfig", SHAPE),
    ("SiglipModel", "SiglipConfig", {"vision_config": SHAPE, "text_config": TEXT}),
    ("Dinov2ForImageClassification", "Dinov2Config", {**SHAPE, "num_labels": 5}),
    ("DINOv3ViTModel", "DINOv3ViTConfig", {**SHAPE, "num_register_tokens": 3}),
]


def randomize(model):
    torch.manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            scale = 0.4 if p.ndim < 2 else 1.5 / max(1, p[0].numel()) ** 0.5
            if p.is_floating_point() and "scale" not in name:
                p.copy_(torch.randn_like(p) * scale + (1 if p.ndim == 1 and "norm" in name and name.endswith("weight") else 0))


def dump(first, *arguments):
    """Runs the first dump as a command and the others in this process, because a command takes seconds to start."""
    arguments = ["--n-images", "3", *map(str, arguments)]
    if first:
        subprocess.run([sys.executable, str(ROOT / "tools/reference/dump_reference.py"), *arguments], check=True)
    else:
        dump_reference.main(arguments)


def verify(tool, name, model, dump_file, other):
    """Checks that verify passes in f32 and f16, and fails with another activation."""
    failures = 0
    command = [tool, "verify", str(model), "--backend", "cpu", "--reference", str(dump_file), "--json"]
    for more, code in (([], 0), (["--dtype", "f16"], 0), (["--activation", other], 1)):
        result = subprocess.run(command + more, capture_output=True, text=True, check=False)
        text = json.loads(result.stdout) if result.stdout else {}
        failed = result.returncode != code or text.get("right") != (code == 0)
        failures += failed
        print("FAIL" if failed else "ok  ", name, more, {k: v["largest_relative_difference"] for k, v in text.get("outputs", {}).items()},
              result.stderr.strip())
    return failures


def main():
    tool, failures = sys.argv[1], 0
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as folder:
        for name, kwargs in TIMM:
            place = pathlib.Path(folder, name)
            place.mkdir()
            kwargs = {"embed_dim": 64, "depth": 2, "num_heads": 2, **kwargs}
            model = timm.create_model(name, **kwargs)
            randomize(model)
            safetensors.torch.save_file({k: v.contiguous() for k, v in model.state_dict().items()}, place / "model.safetensors")
            (place / "config.json").write_text(json.dumps({"architecture": name, "num_classes": model.num_classes,
                                                           "global_pool": model.global_pool, "model_args": kwargs}))
            dump(name == TIMM[0][0], "--timm", name, "--checkpoint", place / "model.safetensors", "--out", place / "dump.st")
            failures += verify(tool, name, place / "model.safetensors", place / "dump.st", "silu")
        for name, config, kwargs in HF:
            place = pathlib.Path(folder, name)
            model = getattr(transformers, name)(getattr(transformers, config)(**kwargs))
            randomize(model)
            model.save_pretrained(place)
            dump(name == HF[0][0], "--transformers", place, "--out", place / "dump.st")
            failures += verify(tool, name, place / "model.safetensors", place / "dump.st", "silu")
    sys.exit(failures > 0)


if __name__ == "__main__":
    main()
