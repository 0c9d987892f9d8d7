#!/usr/bin/env python3
"""Compares whole forwards on a CPU with the alternatives OpenVINO, ONNX Runtime and PyTorch, in f32, bf16 and int8.

    bench/cpu_baselines.py --library build/libraggedvit.so --out results             everything; 20 minutes with 16 cores
    bench/cpu_baselines.py ... --cores 2 --models deit_tiny_patch16_224 --batches 1,8  a part of it; all parts go to one report
    bench/cpu_baselines.py ... --prepare                                               only converts and quantizes the models
    bench/cpu_baselines.py ... --settings results/cpu_baselines.json                   uses the best settings of that report
    bench/cpu_baselines.py --summary results/cpu_baselines.json                        the requirements, each with pass or MISS
    bench/cpu_baselines.py ... --dry-run                                               a tiny model; its figures mean nothing

Needs numpy, and for the baselines torch 2.11, timm, openvino, nncf, onnx and onnxruntime; missing ones are skipped and reported. All run
the same random weights on the same images, from images in memory to logits in memory, one batch at a time. They run in one process that is
limited to the measured cores, each with its own thread pool of that size. First the fastest setting of each baseline is chosen, and its
logits are compared with PyTorch's in float32; then the baselines take turns. Calls with wrong logits are not timed.
"""

import argparse
import datetime
import fnmatch
import importlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import numpy as np  # noqa: E402

from baselines import cpu_models, cpu_summary  # noqa: E402
from baselines.cpu_turns import Point, measure, describe  # noqa: E402
from baselines.shapes import SHAPES, TINY  # noqa: E402

MODULES = {"raggedvit": "cpu_ours", "openvino": "cpu_openvino", "onnxruntime": "cpu_onnx", "pytorch": "cpu_torch"}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libraggedvit.so")
    parser.add_argument("--out", default="build/bench", help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/cpu", help="folder for models")
    parser.add_argument("--models", default="deit_tiny_patch16_224,deit_small_patch16_224,deit_base_patch16_224")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--cores", type=int, default=0, help="number of cores to use; 0: all")
    parser.add_argument("--seconds", type=float, default=0.45, help="measuring time per baseline and point")
    parser.add_argument("--baselines", default="*", help="only those that match one of these patterns: 'raggedvit bf16*,openvino*'")
    parser.add_argument("--compile", action="store_true", help="also measure torch.compile; takes about 20 s per point")
    parser.add_argument("--cpu-time", action="store_true", help="with --cores 1: measure CPU time instead of wall time, for a machine with "
                        "other users")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no new point starts")
    parser.add_argument("--settings", help="use the settings in this report")
    parser.add_argument("--prepare", action="store_true", help="only make the models")
    parser.add_argument("--parts", default="", help="only these conversions, separated by commas: openvino, openvino int8, onnx, onnx fused, "
                        "onnx dynamic int8, onnx static int8")
    parser.add_argument("--summary", metavar="REPORT", help="only print the requirements and the table of a report")
    parser.add_argument("--profile", action="store_true", help="measure OpenVINO's time by operator instead")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model, almost without measuring time")
    options = parser.parse_args()
    if options.cpu_time and options.cores != 1:
        raise SystemExit(f"cpu_baselines: --cpu-time is for --cores 1, not {options.cores or 'all'}: threads that wait would count too")
    return options


def cores_to_use(wanted):
    """The CPUs to use, as many as wanted: one per physical core before second threads of a core."""
    def read(cpu, name):
        try:
            return pathlib.Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/{name}").read_text().strip()
        except OSError:
            return str(cpu)

    free, seen, order = sorted(os.sched_getaffinity(0)), {}, []
    for cpu in free:
        core = read(cpu, "physical_package_id"), read(cpu, "core_id")
        seen[core] = seen.get(core, -1) + 1
        order.append((seen[core], cpu))
    chosen = sorted(cpu for _, cpu in sorted(order)[: wanted or len(free)])
    if len(chosen) < wanted:
        raise SystemExit(f"cpu_baselines: --cores {wanted}, but this process may use {len(free)}")
    return chosen


def machine():
    facts = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        facts.setdefault(name, value)
    flags = [f for f in facts.get("flags", "").split() if f.startswith(("avx", "amx", "fma", "f16c"))]
    return {"cpu": facts.get("model name", platform.machine()), "flags": " ".join(flags), "cores": os.cpu_count(),
            "kernel": platform.release()}


def baseline_modules(wanted):
    """The modules that can be loaded, and a sentence for each that cannot."""
    found, missing = {}, {}
    for name, module in MODULES.items():
        if not any(fnmatch.fnmatchcase(name, pattern.split()[0]) for pattern in wanted.split(",")):
            continue
        try:
            loaded = importlib.import_module(f"baselines.{module}")
            loaded.versions()
            found[name] = loaded
        except Exception as error:
            missing[name] = describe(error)
    return found, missing


def profile(point, openvino):
    """OpenVINO's time by operator, with the rate of its GEMMs."""
    shape, rows = point.shape, []
    area = point.batch * shape.tokens * shape.dim**2 * shape.depth
    macs = {"attn.qkv": 3 * area, "attn.proj": area, "mlp.fc1": 4 * area, "mlp.fc2": 4 * area}
    for name, settings in openvino.baselines(point).items():
        for setting in settings if point.wants(name) else []:
            found = openvino.profile(point, setting)
            for part in macs.keys() & found.keys():
                found[part]["tflops"] = 2e-6 * macs[part] / found[part]["us"]
            rows.append({"model": shape.name, "batch": point.batch, "cores": point.cores, "baseline": name, "setting": setting, "parts": found})
            print(f"{shape.name} {point.cores} cores B {point.batch} {name}, {setting}: {sum(p['us'] for p in found.values()):.0f} us")
            for part, row in found.items():
                rate = f"{row['tflops']:7.2f} TFLOP/s" if "tflops" in row else ""
                print(f"  {part:<20}{row['us']:>10.0f} us {rate:<18}{', '.join(row['by'])}", flush=True)
    return rows


def show(rows):
    for row in rows:
        label = f"{row['model']:<24}{row['cores']:>3} cores B {row['batch']:<3}{row['baseline']:<34}"
        if "skipped" in row:
            print(f"{label} skipped: {row['skipped']}", flush=True)
        else:
            print(f"{label}{row['ms_per_image']['median']:>9.3f} ms per image, {row['ms_per_image']['count']:>4} calls, {row['setting']};"
                  f" error {row['relative']:.1e}, same class {row['same_class']:.0%}", flush=True)


def prepare(options, shapes, modules):
    """Converts the models in parallel, each in a process of its own. Without --prepare, only models without made.json."""
    work = pathlib.Path(options.work)
    shapes = [s for s in shapes if options.prepare or not (work / s.name / "made.json").exists()]
    if len(shapes) > 1:
        share = max(1, len(os.sched_getaffinity(0)) // len(shapes))
        children = [subprocess.Popen([sys.executable, str(HERE / "cpu_baselines.py"), "--prepare", "--work", options.work, "--models", s.name,
                                      "--baselines", options.baselines, "--parts", options.parts], env=os.environ | {"OMP_NUM_THREADS": str(share)}) for s in shapes]
        return max(child.wait() for child in children)
    parts = {name: make for module in modules.values() for name, make in module.PARTS.items() if not options.parts or name in
             options.parts.split(",")}
    for shape in shapes:
        cpu_models.prepare(shape, work / shape.name, parts)
    return 0


def main():
    options = parse()
    if options.summary:
        return cpu_summary.show(json.loads(pathlib.Path(options.summary).read_text()))
    if options.library:
        os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)
    shapes = [TINY] if options.dry_run else [SHAPES[name] for name in options.models.split(",")]
    batches = [1, 2] if options.dry_run else [int(b) for b in options.batches.split(",")]
    options.seconds = 0 if options.dry_run else options.seconds
    cpus = cores_to_use(options.cores)
    if not options.prepare:
        os.sched_setaffinity(0, cpus)  # before any library counts the cores
        os.environ["OMP_NUM_THREADS"] = str(len(cpus))
    modules, missing = baseline_modules(options.baselines)
    for name, why in missing.items():
        print(f"{name} is not measured: {why}", flush=True)
    code = prepare(options, shapes, modules)
    if options.prepare:
        return code
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "cpu_baselines.json"
    known, rows = {}, []
    if options.settings:
        known = {(r["model"], r["batch"], r["cores"], r["baseline"]): r["setting"] for r in json.loads(pathlib.Path(options.settings).read_text())[
            "results"] if "setting" in r}
    before = json.loads(path.read_text()) if path.exists() else {}
    rows = before.get("results", [])
    report = {"benchmark": "cpu_baselines", "dry_run": options.dry_run, "date": datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ"), "clock": "cpu" if options.cpu_time else "wall", "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
        "machine": machine(), "versions": {"python": platform.python_version(), "numpy": np.__version__}, "missing": missing, "results": rows}
    report["profiles"] = before.get("profiles", [])
    for module in modules.values():
        report["versions"] |= module.versions()
    begin = time.monotonic()
    for shape in shapes:
        for batch in batches:
            key = {"model": shape.name, "batch": batch, "cores": len(cpus)}
            if time.monotonic() - begin > options.deadline:
                print(f"skipped, out of time: {key}", flush=True)
                continue
            point = Point(shape, pathlib.Path(options.work) / shape.name, batch, cpus, options)
            if options.profile:
                report["profiles"].extend(profile(point, modules["openvino"]))
                continue
            found = measure(point, modules, known)
            show(found)
            again = {(r["model"], r["batch"], r["cores"], r["baseline"]) for r in found}
            rows[:] = [r for r in rows if (r["model"], r["batch"], r["cores"], r["baseline"]) not in again] + found
            path.write_text(json.dumps(report, indent=1) + "\n")
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{path}: {len(rows)} rows, {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
