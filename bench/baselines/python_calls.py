#!/usr/bin/env python3
"""Compares the host time of one eager call from Python of the library, FlashAttention-2 and a Triton kernel: repeats the section "host" of
bench/baselines.py several times, with more ways to call the library.

    bench/baselines/python_calls.py --library build/libraggedvit.so --out python_calls.json [--runs 3] [--heads 12]
    bench/baselines/python_calls.py --library build/libraggedvit.so --out python_calls.json --dry-run

The functions of raggedvit are called with the output allocated and the arguments checked, as every baseline's call is. --dry-run uses
CPU tensors; its times mean nothing. Exits 1 if a limit of LIMITS is exceeded.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python")]


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so, with _core.abi3.so beside it")
    parser.add_argument("--out", required=True, help="JSON")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


OPTIONS = parse()
os.environ["RAGGEDVIT_LIBRARY"] = str(pathlib.Path(OPTIONS.library).resolve())

import torch  # noqa: E402

from baselines import attention, ours, points  # noqa: E402
from baselines.clock import GpuClock, HostClock, first_line  # noqa: E402
from baselines.library import GpuContext, HostContext  # noqa: E402
from raggedvit._c.library import library  # noqa: E402

TRITON, FLASH = attention.TRITON, attention.FLASH
# Limits of the median over the runs: name -> microseconds, and fractions of the times of baselines.
LIMITS = {
    attention.FUNCTION: (6.0, {TRITON: 1 / 2, FLASH: 1 / 3}),
    attention.OPERATOR: (10.0, {TRITON: 1.0}),
    attention.FLASH_FUNCTION: (7.0, {}),
}


def time_variants(clock, context, point, heads, dtype):
    """Times more ways to call the library: name -> summary of the clock."""
    batch = points.Batch(context, point, heads, 64, dtype)
    leaf = batch.qkv.clone().requires_grad_()
    d_out = torch.ones_like(ours.function(batch)())
    makers = {
        "raggedvit.attention, out set": lambda: ours.function(batch, torch.empty_like(d_out)),
        "raggedvit.attention, lse and cls_probs": lambda: ours.function(batch, lse=True, cls_probs=True),
        "raggedvit.attention, a gradient recorded": lambda: ours.function(batch, qkv=leaf),
        "raggedvit.attention, forward and backward": lambda: ours.step(batch, leaf, d_out),
        "raggedvit.select": lambda: ours.select(batch),
        "raggedvit.pack": lambda: ours.pack(batch),
        "raggedvit.unpack": lambda: ours.unpack(batch),
    }
    if context.torch_device.type == "cuda":
        makers["100 of torch.ops.raggedvit.attention, inference_mode"] = lambda: ours.in_inference_mode(ours.operator(batch))
    found = {}
    for name, make in makers.items():
        try:
            found[name] = clock.host_us(make())
        except Exception as failure:
            found[name] = {"skipped": first_line(failure)}
        print(f"  {point.name} {name:<48} {found[name].get('median', found[name].get('skipped'))}", flush=True)
    return found


def judge(runs):
    """Compares each point with the limits: [{point, name, us, limits...}]."""
    verdicts = []
    for i, point in enumerate(runs[0]):
        medians = {name: statistics.median(run[i]["python_us"][name]["median"] for run in runs)
                   for name in point["python_us"] if all("median" in run[i]["python_us"][name] for run in runs)}
        for name, (most, shares) in LIMITS.items():
            us = medians.get(name)
            verdict = {"point": point["point"], "name": name, "us": us, "at_most": most, "kept": us is not None and us <= most}
            for baseline, share in shares.items():
                theirs = medians.get(baseline)
                verdict["share of " + baseline] = us / theirs if us and theirs else None
                verdict["kept"] &= bool(us and theirs and us <= share * theirs)
            verdicts.append(verdict)
    return verdicts


def gpu():
    try:
        words = ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit", "--format=csv,noheader"]
        return subprocess.run(words, capture_output=True, text=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def main():
    dry, lib = OPTIONS.dry_run, library()
    if dry:
        context = HostContext(lib, "cpu")
        clock, chosen, heads, dtype = HostClock(context.synchronize), points.tiny()[:1], 2, torch.float32
    else:
        clock = GpuClock()
        context = GpuContext(lib, clock.stream)
        chosen = points.sweep((1,), (21,)) + points.sweep((4,), (21,)) + points.sweep((64,), (197,))
        heads, dtype = OPTIONS.heads, torch.float16
    versions = {"python": platform.python_version(), "torch": torch.__version__, "torch_cuda": torch.version.cuda}
    try:
        versions["triton"] = __import__("triton").__version__
    except ImportError:
        versions["triton"] = "missing"
    cpu = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), "unknown")
    report = {"benchmark": "python_calls", "dry_run": dry,
              "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "version": lib.version(),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
              "source": "bench/baselines/python_calls.py: 30 bursts of eager calls each; outputs allocated, arguments checked.",
              "machine": {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release()},
              "device": {"name": context.info().name.decode(), "driver": context.info().driver.decode(), "gpu": gpu()}, "versions": versions,
              "runs": []}
    with clock.on_stream():
        for _ in range(1 if dry else OPTIONS.runs):
            report["runs"].append(attention.host(context, clock, chosen, None, heads=heads, dtype=dtype))
        report["more"] = [{"point": point.name, "python_us": time_variants(clock, context, point, heads, dtype)} for point in chosen]
    report["limits"] = judge(report["runs"])
    pathlib.Path(OPTIONS.out).write_text(json.dumps(report, indent=1) + "\n")
    for verdict in report["limits"]:
        print(verdict, flush=True)
    return 0 if dry or all(verdict["kept"] for verdict in report["limits"]) else 1


if __name__ == "__main__":
    sys.exit(main())
