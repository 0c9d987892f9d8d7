#!/usr/bin/env python3
"""Whole forwards on a CPU beside what its users would pick instead: OpenVINO, ONNX Runtime and PyTorch, in f32, bf16 and int8.

    bench/cpu_rivals.py --library build/libraggedvit.so.0 --out results          everything; 20 minutes with 16 cores
    bench/cpu_rivals.py ... --cores 2 --models deit_tiny_patch16_224 --batches 1,8     a part of it; parts land in one report
    bench/cpu_rivals.py ... --prepare                                            only converts and quantises the models
    bench/cpu_rivals.py ... --settings results/cpu_rivals.json                   rivals as they were best there, instead of trying
    bench/cpu_rivals.py --summary results/cpu_rivals.json                        the requirements, each with pass or MISS
    bench/cpu_rivals.py ... --dry-run                                            a tiny model; its figures mean nothing

Needs numpy; torch 2.11, timm, openvino, nncf, onnx and onnxruntime as far as they are to be measured: what is missing is skipped and said.
All run the same random weights on the same pictures, from pictures in memory to logits in memory, one batch at a time, in one process
that may use only the cores measured, each with its own thread pool of that size. First each rival's settings are tried and the fastest is
kept; its logits are compared with PyTorch's in float32; then the rivals take turns. A call that was not right is not timed.
"""

import argparse
import dataclasses
import datetime
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

from peers import cpu_models, cpu_summary  # noqa: E402
from peers.shapes import SHAPES, TINY  # noqa: E402

MODULES = {"raggedvit": "cpu_ours", "openvino": "cpu_openvino", "onnxruntime": "cpu_onnx", "pytorch": "cpu_torch"}
# Error of the logits in the Euclidean norm, relative to float32's. A prune keeps other tokens where scores are close.
LIMITS = {"f32": 1e-4, "bf16": 0.1, "int8": 0.4}
ROUNDS = 3


@dataclasses.dataclass
class Point:
    """What is measured: a model and a batch size on some cores."""

    shape: object
    folder: pathlib.Path
    batch: int
    cpus: list
    options: object

    @property
    def cores(self):
        return len(self.cpus)

    def __post_init__(self):
        self.images = np.ascontiguousarray(np.load(self.folder / "images.npy")[: self.batch])


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", help="libraggedvit.so.0")
    parser.add_argument("--out", default="build/bench", help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/cpu", help="folder for models")
    parser.add_argument("--models", default="deit_tiny_patch16_224,deit_small_patch16_224,deit_base_patch16_224")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--cores", type=int, default=0, help="how many to use; 0: all")
    parser.add_argument("--seconds", type=float, default=0.45, help="measuring time of a rival at a point")
    parser.add_argument("--rivals", default="", help="only those whose name begins with one of these, by commas")
    parser.add_argument("--compile", action="store_true", help="torch.compile too; some 20 s for each point")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no new point is begun")
    parser.add_argument("--settings", help="a report whose settings are taken")
    parser.add_argument("--prepare", action="store_true", help="only make the models")
    parser.add_argument("--summary", metavar="REPORT", help="only print what a report shows")
    parser.add_argument("--profile", action="store_true", help="OpenVINO's time by operator instead")
    parser.add_argument("--dry-run", action="store_true", help="a tiny model and next to no time")
    return parser.parse_args()


def say(error):
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {' '.join(lines[:3])}"[:300]


def cores_to_use(wanted):
    """CPUs of one node, one of each physical core before the second threads; as many as wanted."""
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
        raise SystemExit(f"cpu_rivals: --cores {wanted}, but this process may use {len(free)}")
    return chosen


def machine():
    facts = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = (part.strip() for part in line.partition(":"))
        facts.setdefault(name, value)
    flags = [f for f in facts.get("flags", "").split() if f.startswith(("avx", "amx", "fma", "f16c"))]
    return {"cpu": facts.get("model name", platform.machine()), "flags": " ".join(flags), "cores": os.cpu_count(),
            "kernel": platform.release()}


def rival_modules(wanted):
    """The modules that can be loaded, and a sentence for each that cannot."""
    found, missing = {}, {}
    for name, module in MODULES.items():
        if wanted and not any(w.startswith(name) or name.startswith(w) for w in wanted):
            continue
        try:
            loaded = importlib.import_module(f"peers.{module}")
            loaded.versions()
            found[name] = loaded
        except Exception as error:
            missing[name] = say(error)
    return found, missing


def run(call):
    return np.concatenate(call())


def timed(call):
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def quick(call):
    """Seconds a call, roughly: the least of a few calls."""
    took = timed(call)
    return min([took] + [timed(call) for _ in range(max(1, min(5, int(0.15 / took))))])


def choose(module, point, name, known):
    """The call of a rival's fastest setting: (setting, call, what was tried)."""
    if known:
        return known, module.start(point, name, known), {}
    tried, kept = {}, None
    settings, first = list(module.rivals(point)[name]), True
    while settings:
        setting = settings.pop(0)
        try:
            os.sched_setaffinity(0, point.cpus)  # some library may have pinned this thread
            call = module.start(point, name, setting)
            tried[setting] = 1e3 * (quick(call) if first or kept else 0) / point.batch
        except Exception as error:
            tried[setting] = say(error)
            call = None
        if call is not None:
            faster = kept is None or tried[setting] < tried[kept[0]]
            kept = (setting, call) if faster else kept
            del call
            if not first and not faster:
                break
        elif not first:
            break
        if not settings and first and kept:
            settings, first = module.more(point, name, kept[0]), False
    if kept is None:
        raise RuntimeError("; ".join(dict.fromkeys(why.removeprefix("RuntimeError: ") for why in tried.values())))
    return kept + (tried,)


def checked(name, logits, wanted):
    """How far the logits are from float32's. Raises if they are wrong."""
    limit = 1.0 if "keep" in name else LIMITS[name.split()[1]]
    if logits.shape != wanted.shape or not np.isfinite(logits).all():
        raise RuntimeError(f"logits {logits.shape} with {int((~np.isfinite(logits)).sum())} values that are not finite")
    off = float(np.linalg.norm(logits - wanted) / np.linalg.norm(wanted))
    same = float((logits.argmax(1) == wanted.argmax(1)).mean())
    if off > limit:
        raise RuntimeError(f"logits are off by {off:.3g}, limit {limit:g}; the class is the same for {same:.0%}")
    return {"relative": off, "same_class": same}


def measure(point, modules, options, known):
    """One row for each rival."""
    rows, calls, wanted = [], [], None
    if (point.folder / "logits.npy").exists():
        wanted = np.load(point.folder / "logits.npy")[: point.batch]
    for module in modules.values():
        for name in module.rivals(point):
            if not name.startswith(tuple(options.rivals.split(","))):
                continue
            row = {"model": point.shape.name, "batch": point.batch, "cores": point.cores, "cpus": point.cpus, "rival": name}
            rows.append(row)
            try:
                row["setting"], call, row["tried"] = choose(module, point, name, known.get((point.shape.name, point.batch, point.cores, name)))
                logits = run(call)
                wanted = logits if wanted is None else wanted
                row |= checked(name, logits, wanted)
                calls.append((row, call))
            except Exception as error:
                row["skipped"] = say(error)
    samples = {id(row): [] for row, _ in calls}
    for _ in range(1 if options.dry_run else ROUNDS):
        for row, call in calls:
            time.sleep(0.01)  # the threads of the rival before go to sleep
            took = timed(call)
            if took > 0.3:  # nothing to warm up, and no time for it
                samples[id(row)].append(took)
            end = time.perf_counter() + options.seconds / ROUNDS - took
            while time.perf_counter() < end or not samples[id(row)]:
                samples[id(row)].append(timed(call))
    for row, _ in calls:
        ordered = sorted(1e3 * s / point.batch for s in samples[id(row)])
        n = len(ordered)
        middle = (ordered[n // 2] + ordered[(n - 1) // 2]) / 2
        row["ms_per_image"] = {"median": middle, "p10": ordered[n // 10], "p90": ordered[n - 1 - n // 10], "minimum": ordered[0], "count": n}
    return rows


def profile(point, openvino):
    """OpenVINO's time by operator, with the rate of its products."""
    shape, rows = point.shape, []
    area = point.batch * shape.tokens * shape.dim**2 * shape.depth
    macs = {"attn.qkv": 3 * area, "attn.proj": area, "mlp.fc1": 4 * area, "mlp.fc2": 4 * area}
    for name, settings in openvino.rivals(point).items():
        for setting in settings if name.startswith(tuple(point.options.rivals.split(","))) else []:
            found = openvino.profile(point, setting)
            for part in macs.keys() & found.keys():
                found[part]["tflops"] = 2e-6 * macs[part] / found[part]["us"]
            rows.append({"model": shape.name, "batch": point.batch, "cores": point.cores, "rival": name, "setting": setting, "parts": found})
            print(f"{shape.name} {point.cores} cores B {point.batch} {name}, {setting}: {sum(p['us'] for p in found.values()):.0f} us")
            for part, row in found.items():
                rate = f"{row['tflops']:7.2f} TFLOP/s" if "tflops" in row else ""
                print(f"  {part:<20}{row['us']:>10.0f} us {rate:<18}{', '.join(row['by'])}", flush=True)
    return rows


def show(rows):
    for row in rows:
        place = f"{row['model']:<24}{row['cores']:>3} cores B {row['batch']:<3}{row['rival']:<34}"
        if "skipped" in row:
            print(f"{place} skipped: {row['skipped']}", flush=True)
        else:
            print(f"{place}{row['ms_per_image']['median']:>9.3f} ms an image, {row['ms_per_image']['count']:>4} calls, {row['setting']}; off by"
                  f" {row['relative']:.1e}, same class {row['same_class']:.0%}", flush=True)


def prepare(options, shapes, modules):
    """Models side by side, each in a process of its own."""
    if len(shapes) > 1:
        share = max(1, len(os.sched_getaffinity(0)) // len(shapes))
        children = [subprocess.Popen([sys.executable, str(HERE / "cpu_rivals.py"), "--prepare", "--work", options.work, "--models", s.name,
                                      "--rivals", options.rivals], env=os.environ | {"OMP_NUM_THREADS": str(share)}) for s in shapes]
        return max(child.wait() for child in children)
    parts = {name: make for module in modules.values() for name, make in module.PARTS.items()}
    for shape in shapes:
        cpu_models.prepare(shape, pathlib.Path(options.work) / shape.name, parts, options.prepare)
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
    modules, missing = rival_modules([r.split()[0] for r in options.rivals.split(",") if r])
    for name, why in missing.items():
        print(f"{name} is not measured: {why}", flush=True)
    code = prepare(options, shapes, modules)
    if options.prepare:
        return code
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    path = out / "cpu_rivals.json"
    known, rows = {}, []
    if options.settings:
        known = {(r["model"], r["batch"], r["cores"], r["rival"]): r["setting"] for r in json.loads(pathlib.Path(options.settings).read_text())[
            "results"] if "setting" in r}
    before = json.loads(path.read_text()) if path.exists() else {}
    rows = before.get("results", [])
    report = {"benchmark": "cpu_rivals", "dry_run": options.dry_run, "date": datetime.datetime.now(datetime.timezone.utc).strftime(
        "%Y-%m-%dT%H:%M:%SZ"), "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "machine": machine(),
        "versions": {"python": platform.python_version(), "numpy": np.__version__}, "missing": missing, "results": rows}
    report["profiles"] = before.get("profiles", [])
    for module in modules.values():
        report["versions"] |= module.versions()
    begin = time.monotonic()
    for shape in shapes:
        for batch in batches:
            key = {"model": shape.name, "batch": batch, "cores": len(cpus)}
            if time.monotonic() - begin > options.deadline:
                print(f"left out: {key}", flush=True)
                continue
            point = Point(shape, pathlib.Path(options.work) / shape.name, batch, cpus, options)
            if options.profile:
                report["profiles"].extend(profile(point, modules["openvino"]))
                continue
            found = measure(point, modules, options, known)
            show(found)
            again = {(r["model"], r["batch"], r["cores"], r["rival"]) for r in found}
            rows[:] = [r for r in rows if (r["model"], r["batch"], r["cores"], r["rival"]) not in again] + found
            path.write_text(json.dumps(report, indent=1) + "\n")
    path.write_text(json.dumps(report, indent=1) + "\n")
    print(f"{path}: {len(rows)} rows, {time.monotonic() - begin:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
