"""Classifies a folder of images on several workers of Ray, into a folder of Parquet files.

The images may also be in a Parquet file with columns path and bytes. Workers may die, and the whole job may be stopped
and started again: no image is lost or duplicated, and finished work is not repeated.

    export PYTHONPATH=python RAGGEDVIT_LIBRARY=build/release/libraggedvit.so
    python3 examples/ray_folder.py photos labels --actors 2 --cpus 4
    python3 examples/ray_folder.py photos labels --model vit.safetensors --policy l2 --keep 0.5 --actors 8 --gpus 1

The sorted names are split into shards. A shard is one task and one file, part-NUMBER.parquet, which is written
atomically. If Ray repeats a task, because its worker died or a result was lost, the task writes the same rows to the
same file. So retries are safe, and the existing files show what is left to do.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import time
import uuid

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray

import raggedvit.ray

DEMO = pathlib.Path(__file__).resolve().parent / "data" / "deit_tiny_cifar10.safetensors"
MOST_ATTEMPTS = 5
# what Pillow reads
SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".avif", ".gif", ".tif", ".tiff")


class Shards:
    """An actor: classifies shards, writes their files, and reports them."""

    def __init__(self, folder, out, settings):
        self.folder, self.out, self.classify = folder, out, raggedvit.ray.Classifier(**settings)

    def __call__(self, batch):
        for number, names in zip(batch["shard"], batch["names"]):
            with open(self.out / f".part-{number:06d}.attempts", "ab") as attempts:  # Ray would retry forever
                attempts.write(b"x")
                if attempts.tell() > MOST_ATTEMPTS:
                    raise RuntimeError(
                        f"the worker of shard {number}, {names[0]} to {names[-1]}, has died {MOST_ATTEMPTS} times"
                    )
            found = self.classify({"path": np.asarray(names, object), "image": raw_images(self.folder, names)})
            table = pa.table({name: pa.array(list(values)) for name, values in found.items()})
            write(self.out / f"part-{number:06d}.parquet", lambda file: pq.write_table(table, file))
        return {"shard": batch["shard"], "worker": np.full(len(batch["shard"]), os.getpid())}


def raw_images(source, names):
    """The paths of the files, or their bytes. Each shard reads only its part of a Parquet file sorted by path."""
    if source.is_dir():
        return [str(source / name) for name in names]
    rows = pq.read_table(source, columns=["path", "bytes"], filters=[("path", "in", list(names))]).to_pylist()
    of = {row["path"]: row["bytes"] for row in rows}
    return [of[name] for name in names]


def write(path, put):
    """Writes a file under a temporary name, and renames it when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    with open(temporary, "wb") as file:
        put(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "folder", type=pathlib.Path, help="folder of images, or a Parquet file; all workers must be able to read it"
    )
    parser.add_argument(
        "out", type=pathlib.Path, help="folder for the Parquet files; all workers must be able to write to it"
    )
    parser.add_argument("--model", default=str(DEMO))
    parser.add_argument("--outputs", default="class,label,score", help="columns, as raggedvit.ray.Classifier has them")
    parser.add_argument("--policy", default="none")
    parser.add_argument("--keep", type=float)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--shard", type=int, default=512, help="images per shard")
    parser.add_argument("--actors", type=int, default=1)
    parser.add_argument("--gpus", type=float, default=0, help="GPUs per actor; with 0.5 two actors share one")
    parser.add_argument(
        "--cpus", type=float, default=1, help="CPUs per actor, for decoding and, without a GPU, computing"
    )
    parser.add_argument("--report", type=pathlib.Path, help="write a summary to this JSON file")
    return parser.parse_args()


def main():
    options, begin = parse(), time.monotonic()
    folder, out = options.folder.resolve(), options.out.resolve()
    if folder.is_dir():
        files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        names = [name for name in files if pathlib.Path(name).suffix.lower() in SUFFIXES]
        left_out = sorted(set(files) - set(names))
        if left_out:
            print(
                f"{len(left_out)} files are skipped, because their names do not end like those of images:"
                f" {', '.join(left_out[:8])}",
                flush=True,
            )
    else:
        names = sorted(pq.read_table(folder, columns=["path"])["path"].to_pylist())
    if len(set(names)) < len(names):
        sys.exit(f"{folder} has a path twice")
    settings = {
        "path": str(pathlib.Path(options.model).resolve()),
        "outputs": options.outputs.split(","),
        "policy": raggedvit.Policy(options.policy, keep=options.keep),
        "options": {"image_size": options.image_size},
    }
    # All files of a job must come from the same image list and settings.
    job = json.dumps(
        {
            "folder": str(folder),
            "images": len(names),
            "sha256": hashlib.sha256("\n".join(names).encode()).hexdigest(),
            "shard": options.shard,
            "settings": settings,
        },
        indent=1,
        default=repr,
    )
    out.mkdir(parents=True, exist_ok=True)
    if (out / "job.json").exists() and (out / "job.json").read_text() != job:
        sys.exit(
            f"{out} was begun with other images or settings:\n{(out / 'job.json').read_text()}\nnow there are:\n{job}"
        )
    write(out / "job.json", lambda file: file.write(job.encode()))
    for left in out.glob(".part-*"):
        left.unlink(missing_ok=True)
    parts = [out / f"part-{i:06d}.parquet" for i in range(-(-len(names) // options.shard))]
    todo = [
        {"shard": i, "names": names[i * options.shard : (i + 1) * options.shard]}
        for i, part in enumerate(parts)
        if not part.exists()
    ]
    print(f"{len(names)} images in {len(parts)} shards, {len(parts) - len(todo)} of them done", flush=True)
    workers = set()
    if todo:
        ray.init(include_dashboard=False)  # or the cluster that RAY_ADDRESS names
        ray.data.DataContext.get_current().enable_progress_bars = False
        done = ray.data.from_items(todo, override_num_blocks=len(todo)).map_batches(
            Shards,
            fn_constructor_args=(folder, out, settings),
            batch_size=1,
            num_cpus=options.cpus,
            num_gpus=options.gpus,
            compute=ray.data.ActorPoolStrategy(size=min(options.actors, len(todo))),
        )
        for one in done.iter_rows():
            workers.add(one["worker"])
            print(f"shard {one['shard']} by worker {one['worker']}", flush=True)
        for left in out.glob(".part-*"):
            left.unlink(missing_ok=True)

    tables = [pq.read_table(part, columns=["path", "error"]) for part in parts]
    rows = [name for table in tables for name in table["path"].to_pylist()]
    report = {
        "images": len(names),
        "rows": len(rows),
        "duplicates": len(rows) - len(set(rows)),
        "missing": len(set(names) - set(rows)),
        "failed": sum(bool(sentence) for table in tables for sentence in table["error"].to_pylist()),
        "shards": len(parts),
        "shards_run": len(todo),
        "workers": len(workers),
        "seconds": round(time.monotonic() - begin, 1),
    }
    print(json.dumps(report))
    if options.report:
        options.report.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(0 if rows == names else "the rows do not match the images")


if __name__ == "__main__":
    main()
