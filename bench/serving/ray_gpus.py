#!/usr/bin/env python3
"""Compares Ray Data on one GPU and on several GPUs of one machine: raggedvit.ray.Classifier on images of different sizes, with several
actors per GPU.

    bench/serving/ray_gpus.py --out results [--gpus 1,2] [--actors 2] [--images 200000] [--models deit_tiny,deit_base]
    bench/serving/ray_gpus.py --out results --dry-run       # small, on the CPU: its figures mean nothing

RAGGEDVIT_LIBRARY names the library, and PYTHONPATH has python/ and Ray. Weights are random. Actors make the uint8 images from their ids, so
the object store carries only ids and classes. Writes OUT/ray_gpus.json after each row. `images_per_second`: while all actors work, from the
first batch of the last actor to the last batch of the first. `with_start`: from the call, with the start of the actors, the opening of the
models and the last batches. `same_classes`: equal images have the same class in all batches and on all GPUs.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import itertools
import json
import os
import pathlib
import platform
import sys
import time
from typing import Any

import numpy as np
import raggedvit.ray
import ray
import ray.data

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
jpegs: Any = importlib.import_module("jpegs")

SIZES = ((500, 375), (375, 500), (320, 240), (240, 320), (448, 448), (256, 256), (224, 224), (640, 480))
POOL = 256  # different images
WIDTHS = {"deit_tiny": 192, "deit_small": 384, "deit_base": 768}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/raggedvit-bench/ray"), help="folder for checkpoints")
    parser.add_argument("--gpus", default="1,2", help="numbers of GPUs to compare")
    parser.add_argument("--actors", type=int, default=2, help="actors per GPU")
    parser.add_argument("--images", type=int, default=200_000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--capacity", default="64", help="images that run at once; one or more numbers")
    parser.add_argument("--models", default="deit_tiny,deit_base")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--policy", default="l2")
    parser.add_argument("--keep", type=float, default=0.5)
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def write_model(folder: pathlib.Path, name: str) -> str:
    """Writes a DeiT with timm's names. Returns its path."""
    width, shapes = WIDTHS[name], dict[str, list[int]]()
    shapes |= {"cls_token": [1, 1, width], "pos_embed": [1, 197, width], "patch_embed.proj.weight": [width, 3, 16, 16],
               "patch_embed.proj.bias": [width]}
    for block in [f"blocks.{i}" for i in range(12)]:
        for part, out, wide in (("attn.qkv", 3, 1), ("attn.proj", 1, 1), ("mlp.fc1", 4, 1), ("mlp.fc2", 1, 4)):
            jpegs.linear(shapes, f"{block}.{part}", out * width, wide * width)
        shapes |= {f"{block}.{norm}.{part}": [width] for norm in ("norm1", "norm2") for part in ("weight", "bias")}
    shapes["norm.weight"] = shapes["norm.bias"] = [width]
    jpegs.linear(shapes, "head", 1000, width)
    (folder / name).mkdir(parents=True, exist_ok=True)
    jpegs.write_weights(folder / name / "model.safetensors", shapes)
    (folder / name / "config.json").write_text(json.dumps({
        "architecture": f"{name}_patch16_224", "num_classes": 1000, "pretrained_cfg": {
            "mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225], "interpolation": "bicubic", "crop_pct": 0.9,
            "crop_mode": "center"}}))
    return str(folder / name / "model.safetensors")


class Synthetic(raggedvit.ray.Classifier):
    """Takes only ids. Image i is image i % POOL of a pool."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(**settings)
        random = np.random.default_rng(1)
        self.pool = [random.integers(0, 256, (*SIZES[i % len(SIZES)][::-1], 3), np.uint8) for i in range(POOL)]

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        found = super().__call__({"id": batch["id"], "image": [self.pool[i] for i in (batch["id"] % POOL).tolist()]})
        n, device = len(found["id"]), self.model.device
        return {**found, "end": np.full(n, time.monotonic()), "worker": np.full(n, os.getpid()),
                "device": np.array([f"{device.name} {device.uuid.hex()}"] * n)}


def library_path() -> None:
    """Adds the folder of cuBLASLt to LD_LIBRARY_PATH for the workers, because it may be installed only with PyTorch."""
    spec = importlib.util.find_spec("torch")
    if spec is not None and spec.origin is not None:
        for path in sorted((pathlib.Path(spec.origin).parents[1] / "nvidia").glob("*/lib/libcublasLt.so.1[23]")):
            os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [os.environ.get("LD_LIBRARY_PATH"), str(path.parent)]))


def run(options: argparse.Namespace, path: str, capacity: int, n_gpus: int, cpus: int) -> dict[str, Any]:
    """Classifies all images once. cpus: per actor."""
    settings = dict(path=path, outputs=["class"], policy=raggedvit.Policy(options.policy, keep=options.keep), dtype=options.dtype, capacity=capacity)
    if options.dry_run:
        settings |= dict(device="cpu", options={"image_size": 32}, n_threads=1)
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(n_gpus)))
    actors, cores = n_gpus * options.actors, len(os.sched_getaffinity(0))
    ray.init(include_dashboard=False, num_gpus=0 if options.dry_run else n_gpus, num_cpus=max(cores, actors + 1),
             _node_ip_address="127.0.0.1", log_to_driver=False, object_store_memory=1 << 29)
    ray.data.DataContext.get_current().enable_progress_bars = False
    begin = time.monotonic()
    data = ray.data.range(options.images, override_num_blocks=max(1, options.images // options.batch)).map_batches(
        Synthetic, fn_constructor_args=(settings,), batch_size=options.batch, num_cpus=cpus,
        num_gpus=0 if options.dry_run else 1 / options.actors, compute=ray.data.ActorPoolStrategy(size=actors))
    batches = list(data.iter_batches(batch_size=None))
    seconds = time.monotonic() - begin
    ray.shutdown()
    ids, classes, end, workers, devices, errors = (np.concatenate([batch[name] for batch in batches])
                                                   for name in ("id", "class", "end", "worker", "device", "error"))
    names = np.unique(workers)
    first, last = max(end[workers == one].min() for one in names), min(end[workers == one].max() for one in names)
    steady, different = int(((end > first) & (end <= last)).sum()), len(np.unique(ids))
    by_image = np.full(POOL, -1)
    by_image[ids % POOL] = classes
    return {"gpus": n_gpus, "actors": actors, "workers": len(names), "devices": sorted(set(devices.tolist())),
            "images_per_second": round(steady / (last - first), 1) if last > first else None, "seconds_steady": round(last - first, 2),
            "with_start": round(len(ids) / seconds, 1), "seconds": round(seconds, 2), "rows": len(ids), "duplicates": len(ids) - different,
            "missing": options.images - different, "failed": int((errors != "").sum()),
            "same_classes": bool((by_image[ids % POOL] == classes).all()), "classes": by_image.tolist()}


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    library_path()
    gpus = [int(n) for n in options.gpus.split(",")]
    if options.dry_run:
        options.images, options.batch, options.capacity, options.dtype, options.models = 2000, 64, "32", "f32", "deit_tiny"
    cores = len(os.sched_getaffinity(0))
    cpus = max(1, (cores - 2) // (options.actors * max(gpus)))
    report: dict[str, Any] = {
        "benchmark": "ray_gpus", "dry_run": options.dry_run, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": platform.processor() or platform.machine(), "cores": cores,
        "versions": {"raggedvit": raggedvit.version(), "ray": ray.__version__, "numpy": np.__version__,
                     "python": platform.python_version()},
        "images": options.images, "sizes": SIZES, "batch": options.batch, "dtype": options.dtype,
        "policy": options.policy, "keep": options.keep, "actors_per_gpu": options.actors, "cpus_per_actor": cpus, "results": []}
    right = True
    for name, capacity in itertools.product(options.models.split(","), map(int, options.capacity.split(","))):
        path, rows = write_model(options.work, name), list[dict[str, Any]]()
        for n_gpus in gpus:
            row = {"model": name, "capacity": capacity, **run(options, path, capacity, n_gpus, cpus)}
            row["same_classes"] &= not rows or row["classes"] == rows[0]["classes"]
            if rows and row["images_per_second"] and rows[0]["images_per_second"]:
                row["ratio"] = round(row["images_per_second"] / rows[0]["images_per_second"], 3)
            rows.append(row)
            report["results"].append({key: value for key, value in row.items() if key != "classes"})
            (options.out / "ray_gpus.json").write_text(json.dumps(report, indent=1) + "\n")
            print(f"{name}, capacity {capacity}, {n_gpus} GPUs, {row['actors']} actors: {row['images_per_second']} images/s "
                  f"({row['with_start']} with the start), ratio {row.get('ratio', 1)}, rows {row['rows']}, duplicates {row['duplicates']}, "
                  f"missing {row['missing']}, failed {row['failed']}, same classes: {row['same_classes']}", flush=True)
            right &= row["rows"] == options.images and not row["duplicates"] + row["failed"] and row["same_classes"]
            right &= len(row["devices"]) == (1 if options.dry_run else n_gpus)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
