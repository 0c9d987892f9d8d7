#!/usr/bin/env python3
"""Classifies a folder of JPEGs by `raggedvit classify --timings`: the rates of decoding, of everything, and of everything except decoding.

    bench/jpegs.py --tool build/tools/raggedvit --out results [--files 400] [--backend cuda] [--dtype f16]
    bench/jpegs.py --tool old/raggedvit --tool new/raggedvit --out results --turns 3 --times 15,60 --images 500x375,mixed
    bench/jpegs.py --tool build/tools/raggedvit --out results --backend cpu --dtype f32 --dry-run      # small: its figures mean nothing

Makes the JPEGs in memory (--work) and two models with random weights: DeiT-T at 224, and SigLIP2 NaFlex B/16 at variable resolution.
Writes OUT/jpegs.json after each row. Several tools take turns, and a row has the medians. `of_decoding`: the rate of everything divided by
that of decoding; 1 means that decoding takes all of the time. `same_as_host`: the logits equal those of --prepare host to the last digit;
`same_as_first`: they equal those of the first tool.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

SIZES = {"500x375": [(500, 375)], "1280x720": [(1280, 720)],
         "mixed": [(640, 480), (500, 375), (375, 500), (1280, 720), (1024, 1024), (320, 240), (480, 640), (800, 600)]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True, action="append", help="the program raggedvit; several take turns")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/dev/shm/raggedvit-bench-jpegs", help="folder for images and checkpoints")
    parser.add_argument("--images", default=",".join(SIZES), help="kinds of images")
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--files", type=int, default=400, help="number of files of each kind")
    parser.add_argument("--times", default="15", help="how often a run repeats each file, to take long enough; one or more numbers")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def write_jpegs(folder, sizes, n, times):
    """Writes JPEGs of blurred noise, with files about as large as those of photographs: a few different ones, and copies of them."""
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
    for n_times in times:
        (folder / f"{n_times}.txt").write_text("\n".join(names * n_times) + "\n")
    return total


def write_weights(path, shapes):
    """Random ones, in float16."""
    import numpy

    random, header, data = numpy.random.default_rng(1), {}, []
    at = 0
    for name, shape in shapes.items():
        spread = 1 / shape[-1] ** 0.5 if len(shape) > 1 else 0.1
        values = random.standard_normal(shape, numpy.float32) * spread + (len(shape) == 1 and "norm" in name and name.endswith("weight"))
        data.append(values.astype(numpy.float16).tobytes())
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [at, at + len(data[-1])]}
        at += len(data[-1])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data))


def linear(shapes, name, out, width):
    shapes[f"{name}.weight"], shapes[f"{name}.bias"] = [out, width], [out]


def deit_tiny(depth):
    """Tensor shapes by timm's names."""
    shapes = {"cls_token": [1, 1, 192], "pos_embed": [1, 197, 192], "patch_embed.proj.weight": [192, 3, 16, 16], "patch_embed.proj.bias": [192]}
    for block in [f"blocks.{i}" for i in range(depth)]:
        for name, out, width in (("attn.qkv", 576, 192), ("attn.proj", 192, 192), ("mlp.fc1", 768, 192), ("mlp.fc2", 192, 768)):
            linear(shapes, f"{block}.{name}", out, width)
        shapes.update({f"{block}.{norm}.{part}": [192] for norm in ("norm1", "norm2") for part in ("weight", "bias")})
    shapes["norm.weight"] = shapes["norm.bias"] = [192]
    linear(shapes, "head", 1000, 192)
    return shapes


def siglip2_naflex(depth):
    """Tensor shapes by transformers' names."""
    shapes = {"embeddings.position_embedding.weight": [256, 768], "head.probe": [1, 1, 768], "head.attention.in_proj_weight": [2304, 768],
              "head.attention.in_proj_bias": [2304]}
    linear(shapes, "embeddings.patch_embedding", 768, 768)
    linear(shapes, "head.attention.out_proj", 768, 768)
    layers = [f"encoder.layers.{i}" for i in range(depth)]
    for mlp in [f"{layer}.mlp" for layer in layers] + ["head.mlp"]:
        linear(shapes, f"{mlp}.fc1", 3072, 768)
        linear(shapes, f"{mlp}.fc2", 768, 3072)
    for layer in layers:
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            linear(shapes, f"{layer}.self_attn.{name}", 768, 768)
    for norm in [f"{layer}.layer_norm{i}" for layer in layers for i in (1, 2)] + ["post_layernorm", "head.layernorm"]:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = [768]
    return shapes


def write_models(folder, dry):
    deit, naflex, depth = folder / "deit", folder / "naflex", 1 if dry else 12
    for path in (deit, naflex):
        path.mkdir(parents=True, exist_ok=True)
    write_weights(deit / "model.safetensors", deit_tiny(depth))
    (deit / "config.json").write_text(json.dumps({
        "architecture": "deit_tiny_patch16_224", "num_classes": 1000, "model_args": {"depth": depth}, "pretrained_cfg": {
            "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "interpolation": "bicubic", "crop_pct": 0.9, "crop_mode": "center"}}))
    write_weights(naflex / "model.safetensors", siglip2_naflex(depth))
    (naflex / "config.json").write_text(json.dumps({
        "model_type": "siglip2_vision_model", "num_patches": 256, "patch_size": 16, "hidden_size": 768, "intermediate_size": 3072,
        "num_attention_heads": 12, "num_hidden_layers": depth, "num_channels": 3, "hidden_act": "gelu_pytorch_tanh", "layer_norm_eps": 1e-6,
        "vision_use_head": True}))
    (naflex / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "Siglip2ImageProcessor", "max_num_patches": 256, "patch_size": 16, "resample": 2,
        "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
    return {"deit_tiny": (deit / "model.safetensors", []), "siglip2_naflex_b16": (naflex / "model.safetensors", ["--variable-resolution"])}


def logits(tool, model, images, options, prepare, extra):
    done = subprocess.run([tool, "classify", str(model), str(images), "--backend", options.backend, "--dtype", options.dtype, "--ndjson",
                           "--prepare", prepare, *extra], capture_output=True, text=True, check=True).stdout
    return re.findall(r'"logits": \[[^]]*\]', done)


def rates(tool, model, images, options, extra):
    """Returns (rates of decoding, of everything, of everything except decoding), and the device; on failure the end of stderr."""
    prepare = ["--prepare", "device"] if options.backend == "cpu" else []
    done = subprocess.run([tool, "classify", str(model), str(images), "--backend", options.backend, "--dtype", options.dtype, "--quiet",
                           "--timings", *prepare, *extra], capture_output=True, text=True)
    found = re.search(r"^timings\D+([0-9.]+)\D+([0-9.]+)\D+([0-9.]+)", done.stdout, re.M)
    return (tuple(map(float, found.groups())), re.search(r"^device +(.*)", done.stdout, re.M)[1]) if found else done.stderr[-300:]


def main():
    options = parse()
    work, out = pathlib.Path(options.work), pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    files = 24 if options.dry_run else options.files
    models = write_models(work, options.dry_run)
    report = {"benchmark": "jpegs", "dry_run": options.dry_run, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": platform.processor() or platform.machine(),
              "cores": len(os.sched_getaffinity(0)), "dtype": options.dtype, "results": []}
    times = [1] if options.dry_run else [int(n) for n in options.times.split(",")]
    for name in options.images.split(","):
        folder = work / name
        size = write_jpegs(folder, SIZES[name], files, times)
        for model, (path, extra) in models.items():
            first = logits(options.tool[0], path, folder / "once.txt", options, "device", extra)
            for n_times in times:
                found = {tool: [] for tool in options.tool}
                for tool in options.tool * options.turns:
                    found[tool].append(rates(tool, path, folder / f"{n_times}.txt", options, extra))
                for tool, turns in found.items():
                    row = {"images": name, "files": files, "times": n_times, "bytes": size, "model": model, "options": " ".join(extra), "tool": tool}
                    good = [one for one in turns if not isinstance(one, str)]
                    if len(good) == len(turns):
                        decoding, everything, without = (statistics.median(one) for one in zip(*(values for values, _ in good)))
                        row.update(images_per_second={"decoding": decoding, "everything": everything, "without_decoding": without},
                                   of_decoding=round(statistics.median(values[1] / values[0] for values, _ in good), 3), turns=len(turns),
                                   device=good[0][1])
                        row["same_as_first"] = tool == options.tool[0] or logits(tool, path, folder / "once.txt", options, "device", extra) == first
                        if not extra:
                            row["same_as_host"] = logits(tool, path, folder / "once.txt", options, "host", extra) == first
                    else:
                        row["failed"] = next(one for one in turns if isinstance(one, str))
                    report["results"].append(row)
                    print(json.dumps(row), flush=True)
                    (out / "jpegs.json").write_text(json.dumps(report, indent=1) + "\n")
    shutil.rmtree(work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
