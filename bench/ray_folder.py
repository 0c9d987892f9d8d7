#!/usr/bin/env python3
"""Runs examples/ray_folder.py on two workers of this machine, and counts images that are lost or duplicated when a worker is killed, when
the whole job is killed, and when it is started again.

    bench/ray_folder.py --out results [--images 20000] [--image-size 64] [--shard 256]

RAGGEDVIT_LIBRARY names the library, and PYTHONPATH has python/; needs Ray and Pillow. The images are JPEGs of the demo's 1000 tiles,
shifted and mirrored. A worker is killed when a quarter of the shards is done, the job when half of them are; the job is started again, and once
more when nothing is left to do. The classes of every tenth image are compared with those of one process without Ray. Writes
OUT/ray_folder.json.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

import numpy as np
import PIL
import pyarrow
import pyarrow.parquet as pq
import raggedvit
import ray
from PIL import Image

ROOT = pathlib.Path(__file__).resolve().parents[1]
DATA = ROOT / "examples" / "data"
TILE, COLUMNS, TILES = 32, 40, 1000
Row = dict[str, Any]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder of the results")
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/raggedvit-bench/ray_folder"), help="folder for the images")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--image-size", type=int, default=64)
    parser.add_argument("--shard", type=int, default=256)
    return parser.parse_args()


def write_images(folder: pathlib.Path, n: int) -> None:
    folder.mkdir(parents=True)
    sheet = np.asarray(Image.open(DATA / "cifar10_test_1000.png").convert("RGB"))
    for i in range(n):
        y, x = i % TILES // COLUMNS * TILE, i % TILES % COLUMNS * TILE
        tile = np.roll(sheet[y : y + TILE, x : x + TILE], i // TILES // 2, 1)
        Image.fromarray(tile[:, ::-1] if i // TILES % 2 else tile).save(folder / f"{i:06d}.jpg", quality=90)


class Job:
    """A run of the example."""

    def __init__(self, options: argparse.Namespace, photos: pathlib.Path, out: pathlib.Path) -> None:
        self.begin, self.report = time.monotonic(), out.with_suffix(".json")
        command = [sys.executable, ROOT / "examples" / "ray_folder.py", photos, out, "--actors", 2, "--image-size", options.image_size,
                   "--shard", options.shard, "--report", self.report]
        self.process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def workers(self) -> Any:
        """Yields the process id of each shard's worker, as shards are completed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("shard"):
                yield int(line.split()[-1])

    def wait(self) -> Row:
        _, errors = self.process.communicate()
        if self.process.returncode:
            raise SystemExit(errors)
        found: Row = json.loads(self.report.read_text())
        return found


def counts(out: pathlib.Path, names: list[str]) -> Row:
    """Counts the rows in the files that exist now."""
    rows = [name for part in out.glob("part-*.parquet") for name in pq.read_table(part, columns=["path"])["path"].to_pylist()]
    return {"files": len(list(out.glob("part-*.parquet"))), "rows": len(rows), "duplicates": len(rows) - len(set(rows)),
            "missing": len(set(names) - set(rows)), "foreign": len(set(rows) - set(names))}


def different_classes(options: argparse.Namespace, photos: pathlib.Path, out: pathlib.Path, names: list[str]) -> int:
    """How many of the images `names` have another class than in one process without Ray."""
    model = raggedvit.Model(DATA / "deit_tiny_cifar10.safetensors", image_size=options.image_size, max_batch=64)
    found = {row["path"]: row["class"] for part in out.glob("part-*.parquet") for row in pq.read_table(part).to_pylist()}
    different = 0
    for first in range(0, len(names), 64):
        part = names[first : first + 64]
        best = np.asarray(model.classify([photos / name for name in part])).argmax(1)
        different += sum(found[name] != one for name, one in zip(part, best.tolist()))
    return different


def cpu_name() -> str:
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def main() -> int:
    options = parse()
    options.out.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(options.work, ignore_errors=True)
    photos, out = options.work / "photos", options.work / "labels"
    write_images(photos, options.images)
    names = sorted(path.name for path in photos.iterdir())
    n_shards = -(-len(names) // options.shard)
    results: list[Row] = []

    job, seen, killed = Job(options, photos, out), list[int](), 0
    for worker in job.workers():
        seen.append(worker)
        if not killed and len(seen) >= n_shards // 4:
            os.kill(worker, signal.SIGKILL)
            killed = worker
        if len(seen) >= n_shards // 2:
            break
    job.process.kill()
    job.process.wait()
    time.sleep(5)  # the workers of the killed job end by themselves
    results.append({"run": "a worker killed, then the job", "seconds": round(time.monotonic() - job.begin, 1), "shards_reported": len(seen),
                    "workers": len(set(seen)), **counts(out, names)})
    job = Job(options, photos, out)
    results.append({"run": "started again", **job.wait(), **counts(out, names)})
    job = Job(options, photos, out)
    results.append({"run": "started when all is done", **job.wait(), **counts(out, names)})

    report = {"benchmark": "ray_folder", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": cpu_name(), "cores": len(os.sched_getaffinity(0)),
              "load": round(os.getloadavg()[1], 1), "system": platform.platform(),
              "versions": {"raggedvit": raggedvit.version(), "ray": ray.__version__, "pyarrow": pyarrow.__version__,
                           "pillow": PIL.__version__, "numpy": np.__version__, "python": platform.python_version()},
              "model": "deit_tiny_cifar10", "image_size": options.image_size, "images": len(names), "shard": options.shard,
              "shards": n_shards, "actors": 2, "compared": len(names[::10]),
              "different_classes": different_classes(options, photos, out, names[::10]), "results": results}
    (options.out / "ray_folder.json").write_text(json.dumps(report, indent=1) + "\n")
    print(json.dumps(report, indent=1))
    last = results[-1]
    right = (last["rows"], last["duplicates"], last["missing"], last["shards_run"], report["different_classes"]) == (len(names), 0, 0, 0, 0)
    right &= all(row["duplicates"] + row["foreign"] == 0 for row in results) and results[0]["missing"] > 0 and results[0]["workers"] > 1
    shutil.rmtree(options.work)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
