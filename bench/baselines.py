#!/usr/bin/env python3
"""Compares the library with its alternatives: PyTorch's attention kernels, a Triton kernel, PyTorch's forwards.

    bench/baselines.py --library build/libraggedvit.so --out results [--sections attention,forwards] [--deadline 300]
    bench/baselines.py --library build/libraggedvit.so --out results --dry-run [--backend cuda]

The library is loaded through python/raggedvit and works on PyTorch's tensors and stream. Results go to OUT/baselines.json after each
section. --dry-run runs everything at tiny sizes without a GPU, on the library's CPU device or, with --backend cuda, on whatever
libcuda.so.1 is found; its figures mean nothing.
"""

import argparse
import datetime
import importlib.metadata
import json
import os
import pathlib
import platform
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
SECTIONS = ["demo", "accuracy", "attention", "long", "host", "forwards", "stages", "eager", "compile"]
PREPARED = ["models", "extension", "kernels", "flex"]


class Budget:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def left(self):
        return self.end - time.monotonic()

    def is_spent(self):
        return self.left() <= 0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--data", default=HERE.parent / "examples" / "data", help="the demo checkpoint and images")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench", help="folder for checkpoints and compiled code")
    parser.add_argument("--sections", default=",".join(SECTIONS), help="some of: " + ", ".join(SECTIONS))
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no new point starts")
    parser.add_argument("--dry-run", action="store_true", help="tiny sizes, without a GPU")
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu", help="backend of the dry run")
    parser.add_argument("--warm-compile", metavar="I/N", help="only compile share I of N of the forwards, to fill the compiler's cache")
    parser.add_argument("--baseline", help=argparse.SUPPRESS)  # baselines/apart.py
    parser.add_argument("--prepare", choices=PREPARED, help="only write the checkpoints, or compile the C++ extension, the Triton kernel or FlexAttention")
    return parser.parse_args()


def command(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout.strip().splitlines()[0]
    except (OSError, IndexError, subprocess.SubprocessError):
        return "unknown"


def machine(torch, context, library):
    info = context.info()
    cpu = "unknown"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            cpu = line.split(":", 1)[1].strip()
            break
    versions = {"python": platform.python_version(), "torch": torch.__version__, "torch_cuda": torch.version.cuda}
    for name in ("triton", "timm", "transformers", "safetensors", "numpy"):
        try:
            versions[name] = __import__(name).__version__
        except Exception as error:
            versions[name] = f"missing: {type(error).__name__}"
    for name in ("flash-attn-4", "nvidia-cutlass-dsl", "nvidia-cudnn-frontend"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "missing"
    if context.torch_device.type == "cuda":
        versions["cudnn"] = torch.backends.cudnn.version()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "version": library.version(),
        "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
        "machine": {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release()},
        "device": {"name": info.name.decode(), "driver": info.driver.decode(),
                   "gpu": command("nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit",
                                  "--format=csv,noheader")},
        "versions": versions,
    }


def load_extension(options):
    from baselines import flash
    from baselines.clock import first_line

    try:
        return flash.build_extension(pathlib.Path(options.work) / "extension")
    except Exception as error:
        print(f"  C++ host times are skipped: {first_line(error)}", flush=True)
        return None


def prepare(options, zoo, clock, names):
    """Slow work that would disturb measurements, done before them, each in a process of its own."""
    if options.prepare == "models":
        for name in names:
            zoo.use(name)
        zoo.release()
    elif options.prepare == "extension":
        load_extension(options)
    else:
        prepare_kernels(options, zoo)
        clock.synchronize()
    return 0


def prepare_kernels(options, zoo):
    from baselines import flex, points, triton_varlen
    from baselines.clock import first_line

    if options.prepare == "kernels":
        small = points.Batch(zoo.context, points.tiny()[1], 12, 64, zoo.dtype)
        works = {f"Triton {tile}": (lambda t=tile: triton_varlen.attention(small, t)[0]()) for tile in triton_varlen.TILES}
    else:
        ragged = points.tiny()[1] if options.dry_run else next(p for p in points.ragged() if p.name == "B=64 uniform 20..197")
        works = {"FlexAttention": lambda: flex.attention(points.Batch(zoo.context, ragged, 12, 64, zoo.dtype))[0]()}
    for name, work in works.items():
        begin = time.monotonic()
        try:
            work()
            print(f"  {name}: {time.monotonic() - begin:.1f} s", flush=True)
        except Exception as error:
            print(f"  {name}: {first_line(error)}", flush=True)


def child_arguments(options):
    """The arguments of this program in a baseline's process, without --out."""
    words = [str(HERE / "baselines.py"), "--library", options.library, "--work", options.work, "--sections", "long"]
    return words + (["--dry-run", "--backend", options.backend] if options.dry_run else [])


def main():
    options = parse()
    sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
    os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)  # for the package's public functions

    import torch

    from baselines import forwards
    from baselines.clock import GpuClock, HostClock
    from baselines.library import GpuContext, HostContext, Library
    from baselines.shapes import SHAPES

    library = Library(options.library)
    torch.manual_seed(1)
    if options.dry_run:
        torch.set_num_threads(1)
        context = HostContext(library, options.backend)
        clock = HostClock(context.synchronize)
    else:
        clock = GpuClock()
        context = GpuContext(library, clock.stream)
    dry, budget = options.dry_run, Budget(options.deadline)
    zoo = forwards.Zoo(context, clock, pathlib.Path(options.work) / ("tiny" if dry else "models"), tiny=dry)
    names = ["tiny"] if dry else list(SHAPES)
    with clock.on_stream():
        if options.prepare:
            return prepare(options, zoo, clock, names)
        if options.warm_compile:
            forwards.compiled(zoo, forwards.compile_points(forwards.COMPILE_POINTS, options.warm_compile), budget, warm_only=True)
            return 0
        return measure(options, library, context, clock, zoo, names, budget)


def measure(options, library, context, clock, zoo, names, budget):
    import torch

    from baselines import apart, attention, demo, forwards, points
    from baselines.clock import first_line

    dry = options.dry_run
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    report = {"benchmark": "baselines", "dry_run": dry} | machine(torch, context, library)
    print(f"{report['device']['name']}, {report['device']['driver']}; {report['versions']}", flush=True)

    def save():
        (out / "baselines.json").write_text(json.dumps(report, indent=1) + "\n")

    def run_demo(rows):
        limit, batch = (64, 16) if dry else (1000, 50)
        for dtype in ["f32"] if dry and options.backend == "cuda" else ["f32", "f16"]:
            if dry and options.backend == "cuda":
                limit, batch = 1, 1
            rows.append(demo.run(context, options.data, dtype, limit, batch))
            print(f"  {rows[-1]}", flush=True)

    def run_accuracy(rows):
        rows += forwards.accuracy(zoo, names if dry else ["deit_small_patch16_224", "deit_base_patch16_224"], 2 if dry else 8)

    def run_attention(rows):
        sizes = {"heads": 2} if dry else {}
        report["copy"] = attention.copy_bandwidth(clock, context, 1 << 16 if dry else 1 << 32)
        print(f"  copy: {report['copy']['bytes_per_second'] / 1e12:.2f} TB/s", flush=True)
        attention.gpu(context, clock, points.tiny() if dry else points.sweep() + points.ragged(), budget, rows=rows, **sizes)
        large = points.tiny()[:1] if dry else points.sweep((64, 256), (197,))
        report["attention_cold"] = attention.cold(context, clock, large, budget, **sizes)

    def run_long(rows):
        shapes = ((2, 64),) if dry else ((12, 64), (6, 128), (9, 80))
        if options.baseline is None:
            rows += apart.run(attention.LONG_BASELINES, child_arguments(options), out, attention.OURS, budget)
            return
        if options.baseline == attention.TRITON:
            for heads, head_dim in shapes:
                attention.compile_tiles(points.Batch(context, points.tiny()[1], heads, head_dim, zoo.dtype))
        apart.wait_for_turn()
        for heads, head_dim in shapes:
            attention.gpu(context, clock, points.tiny() if dry else points.long_images(), budget, heads=heads, head_dim=head_dim, rows=rows,
                          names=[attention.OURS, options.baseline])

    def run_host(rows):
        chosen = points.tiny()[:1] if dry else points.sweep((1,), (21,)) + points.sweep((4,), (21,))
        rows += attention.host(context, clock, chosen, load_extension(options), **({"heads": 2} if dry else {}))

    def run_forwards(rows):
        batches, keeps = ((1, 2), (None, 0.5)) if dry else ((1, 4, 16, 64, 256), (None, 0.5, 0.2))
        forwards.graphs(zoo, names, batches, keeps, budget, 0.02 if dry else 0.25, rows)

    def run_stages(rows):
        chosen = (names, (2,)) if dry else (["deit_base_patch16_224", "deit_tiny_patch16_224"], (8, 64))
        forwards.stages(zoo, *chosen, 0.5, budget, rows)

    def run_eager(rows):
        forwards.eager(zoo, [("tiny", 1, 0.5), ("tiny", 2, None)] if dry else forwards.EAGER_POINTS, budget, rows)

    def run_compile(rows):
        chosen = [("tiny", 1, 0.5)] if dry else forwards.COMPILE_POINTS
        forwards.compiled(zoo, chosen, budget, rows=rows)

    # A run that is stopped keeps its results.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    failed = 0
    for section in options.sections.split(","):
        begin = time.monotonic()
        print(f"{section}:", flush=True)
        report[section] = []
        try:
            {"demo": run_demo, "accuracy": run_accuracy, "attention": run_attention, "long": run_long, "host": run_host, "forwards": run_forwards,
             "stages": run_stages, "eager": run_eager, "compile": run_compile}[section](report[section])
        except Exception as error:
            import traceback

            traceback.print_exc()
            report.setdefault("failed_sections", {})[section] = first_line(error)
            failed += 1
        finally:
            report.setdefault("section_seconds", {})[section] = round(time.monotonic() - begin, 1)
            save()
    zoo.release()
    print(f"seconds: {report['section_seconds']}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
