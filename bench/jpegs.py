#!/usr/bin/env python3
"""A folder of JPEGs through `raggedvit classify --timings`: the rate of decoding alone, of everything, and of everything but decoding.

    bench/jpegs.py --tool build/tools/raggedvit --out results [--files 400] [--backend cuda] [--dtype f16]
    bench/jpegs.py --tool build/tools/raggedvit --out results --backend cpu --dtype f32 --dry-run      # small: its figures mean nothing

Makes the JPEGs and the models, DeiT-T at 224 and SigLIP2 NaFlex B/16 at native resolution, of random weights. Writes OUT/jpegs.json, saved
after each row. `of_decoding`: everything as a share of decoding alone; at 1 decoding is all that the time goes to. `same_as_host`: the logits
of the whole folder are those with --prepare host, to the last digit.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

SIZES = {"500x375": [(500, 375)], "1280x720": [(1280, 720)],
         "mixed": [(640, 480), (500, 375), (375, 500), (1280, 720), (1024, 1024), (320, 240), (480, 640), (800, 600)]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, help="the program raggedvit")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/jpegs", help="folder for pictures and checkpoints")
    parser.add_argument("--files", type=int, default=400, help="of each kind")
    parser.add_argument("--times", type=int, default=15, help="how often each file is named, so that a run takes long enough")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def write_jpegs(folder, sizes, n, times):
    """Pictures of blurred noise, about as large as photographs are. A few are made; the others are their copies."""
    import numpy
    from PIL import Image, ImageFilter

    folder.mkdir(parents=True, exist_ok=True)
    random, total = numpy.random.default_rng(1), 0
    made = []
    for i in range(min(n, 16)):
        width, height = sizes[i % len(sizes)]
        noise = Image.fromarray(random.integers(0, 256, (height // 4 + 1, width // 4 + 1, 3), numpy.uint8)).resize((width, height), 3)
        path = folder / f"{i:04d}.jpg"
        noise.filter(ImageFilter.GaussianBlur(1)).save(path, quality=90)
        made.append(path.read_bytes())
    for i in range(n):
        (folder / f"{i:04d}.jpg").write_bytes(made[i % len(made)])
        total += len(made[i % len(made)])
    names = [f"{i:04d}.jpg" for i in range(n)]
    (folder / "once.txt").write_text("\n".join(names) + "\n")
    (folder / "often.txt").write_text("\n".join(names * times) + "\n")
    return total


def write_models(folder, dry):
    import timm
    import torch
    from safetensors.torch import save_file
    from transformers import Siglip2VisionConfig, Siglip2VisionModel

    torch.manual_seed(1)
    deit, naflex = folder / "deit", folder / "naflex"
    for path in (deit, naflex):
        path.mkdir(parents=True, exist_ok=True)
    arguments = {"depth": 1} if dry else {}
    model = timm.create_model("deit_tiny_patch16_224", **arguments)
    save_file({key: value.half().contiguous() for key, value in model.state_dict().items()}, str(deit / "model.safetensors"))
    (deit / "config.json").write_text(json.dumps({
        "architecture": "deit_tiny_patch16_224", "num_classes": 1000, "model_args": arguments, "pretrained_cfg": {
            "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center"}}))
    config = Siglip2VisionConfig(num_patches=256, patch_size=16, hidden_size=768, intermediate_size=3072, num_attention_heads=12,
                                 num_hidden_layers=1 if dry else 12)
    model = Siglip2VisionModel(config)
    save_file({key: value.half().contiguous() for key, value in model.state_dict().items()}, str(naflex / "model.safetensors"))
    (naflex / "config.json").write_text(json.dumps({**config.to_dict(), "model_type": "siglip2_vision_model"}))
    (naflex / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "Siglip2ImageProcessor", "max_num_patches": 256, "patch_size": 16, "resample": 2,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    return {"deit_tiny": (deit / "model.safetensors", []), "siglip2_naflex_b16": (naflex / "model.safetensors", ["--native"])}


def logits(tool, model, pictures, options, prepare):
    told = subprocess.run([tool, "classify", str(model), str(pictures), "--backend", options.backend, "--dtype", options.dtype, "--ndjson",
                           "--prepare", prepare], capture_output=True, text=True, check=True).stdout
    return re.findall(r'"logits": \[[^]]*\]', told)


def main():
    options = parse()
    work, out = pathlib.Path(options.work), pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    files = 24 if options.dry_run else options.files
    prepare = ["--prepare", "device"] if options.backend == "cpu" else []
    models = write_models(work, options.dry_run)
    report = {"benchmark": "jpegs", "dry_run": options.dry_run, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": platform.processor() or platform.machine(),
              "cores": len(os.sched_getaffinity(0)), "dtype": options.dtype, "results": []}
    for name, sizes in SIZES.items():
        folder = work / name
        size = write_jpegs(folder, sizes, files, options.times)
        for model, (path, extra) in models.items():
            row = {"pictures": name, "files": files, "times": options.times, "bytes": size, "model": model, "options": " ".join(extra)}
            told = subprocess.run([options.tool, "classify", str(path), str(folder / "often.txt"), "--backend", options.backend, "--dtype",
                                   options.dtype, "--quiet", "--timings", *prepare, *extra], capture_output=True, text=True)
            found = re.search(r"^timings +([0-9.]+) .* alone, ([0-9.]+) .*everything, ([0-9.]+)", told.stdout, re.M)
            if found:
                decoding, everything, without = map(float, found.groups())
                row.update(images_per_second={"decoding": decoding, "everything": everything, "without_decoding": without},
                           of_decoding=round(everything / decoding, 3), device=re.search(r"^device +(.*)", told.stdout, re.M)[1])
            else:
                row["failed"] = told.stderr[-300:]
            if not extra and told.returncode == 0:
                row["same_as_host"] = logits(options.tool, path, folder / "once.txt", options, "host") == logits(
                    options.tool, path, folder / "once.txt", options, "device")
            report["results"].append(row)
            print(json.dumps(row), flush=True)
            (out / "jpegs.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
