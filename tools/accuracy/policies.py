#!/usr/bin/env python3
"""Measures top-1 of the demo checkpoint on its sheet of test tiles, dense and with every policy at several rates, on each BACKEND.

Prints a Markdown table; --json FILE also writes the figures. Exits 1 if two backends differ by more than 0.3 points.

usage: tools/accuracy/policies.py [--tiles N] [--dtype f32|f16|bf16] [--only PATTERN] [--json FILE] BACKEND...
PATTERN is a regular expression that selects rows, such as 'tome|evit keep=0.7'. The environment variable RAGGEDVIT names the tool (default:
build/release/tools/raggedvit)."""
import argparse
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT / "examples" / "data"
MODEL, SHEET, CLASSES = (DATA / name for name in ("deit_tiny_cifar10.safetensors", "cifar10_test_1000.png", "cifar10_test_1000.txt"))

# A policy and its settings; after the bar, its top-1 on all 10,000 test images, if known.
ROWS = """none                            | 85.61
l2 keep=0.9
l2 keep=0.75                    | 85.31
l2 keep=0.5                     | 84.60
l2 keep=0.3                     | 83.55
l2 keep=0.2                     | 82.24
l2-threshold threshold=38
l2-threshold threshold=42
evit keep=0.9
evit keep=0.7
evit keep=0.5
evit-fused keep=0.9
evit-fused keep=0.7
evit-fused keep=0.5
evit-paper keep=0.75            | 84.66
evit-paper keep=0.5             | 83.59
evit-paper keep=0.2             | 81.78
dynamicvit keep=0.9             | 85.45
dynamicvit keep=0.8             | 85.17
dynamicvit keep=0.7             | 84.40
dynamicvit keep=0.6             | 83.80
dynamicvit keep=0.5             | 82.73
dynamicvit-gate threshold=0.5
ats samples=196
ats samples=98
ats samples=49
ats-paper mass=0.9
ats-paper mass=0.7
ats-paper keep=0.5
ats-paper keep=0.2
tome merge=4
tome merge=8
tome merge=13
random keep=0.75                | 84.95
random keep=0.5                 | 84.14
random keep=0.2                 | 81.73
received keep=0.75
received keep=0.5
received keep=0.2""".splitlines()


def output(command, codes=(0,)):
    command = [str(part) for part in command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in codes or not done.stdout:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


def tool():
    return os.environ.get("RAGGEDVIT", str(ROOT / "build/release/tools/raggedvit"))


def run(*command, codes=(0,)):
    return json.loads(output([tool(), *command, "--json"], codes))


def options_of(row):
    """The tool's options: "l2 keep=0.5" becomes --prune l2 --keep 0.5."""
    policy, *settings = row.split()
    return ["--prune", policy, *(part for setting in settings for part in ("--" + setting.split("=")[0], setting.split("=")[1]))]


def write_report(path, benchmark, **facts):
    """Writes the figures to path, unless it is None."""
    if path:
        report = {"benchmark": benchmark, "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                  "version": output([tool(), "--version"]).split()[1], **facts}
        pathlib.Path(path).write_text(json.dumps(report, indent=1) + "\n")


def measure(arguments, backend, row):
    found = run("classify", MODEL, SHEET, "--tiles", 32, "--expect", CLASSES, "--limit", arguments.tiles, "--backend", backend, "--dtype",
                arguments.dtype, *options_of(row))
    policy, _, settings = row.partition(" ")
    return {"backend": backend, "prune": policy, "settings": settings, "right": found["n_right"], "top1": round(found["n_right"] / arguments.tiles, 4),
            "mean_tokens": [round(kept / found["n_images"], 1) for kept in found["tokens"]["kept"]]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("backends", nargs="+", choices=("cpu", "vulkan", "cuda"), metavar="BACKEND")
    parser.add_argument("--tiles", type=int, default=1000)
    parser.add_argument("--dtype", default="f32")
    parser.add_argument("--only", default=".")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results, apart = [], False
    print(f"| policy | settings | tokens left | {' | '.join(arguments.backends)} | 10,000 images |\n|{'---|' * (4 + len(arguments.backends))}")
    for line in ROWS:
        if not re.search(arguments.only, line):
            continue
        row, _, known = (part.strip() for part in line.partition("|"))
        found = [measure(arguments, backend, row) for backend in arguments.backends]
        results += found
        tokens = [f"{n:.1f}" for n in found[-1]["mean_tokens"]]
        shown = f"{tokens[0]} .. {tokens[-1]}" if len(tokens) > 4 else ", ".join(tokens) or "all"
        cells = " ".join(f"{100 * r['right'] / arguments.tiles:.1f} |" for r in found)
        print(f"| {found[0]['prune']} | {found[0]['settings'].replace('=', ' ')} | {shown} | {cells} {known} |", flush=True)
        difference = max(r["right"] for r in found) - min(r["right"] for r in found)
        if 1000 * difference > 3 * arguments.tiles:
            print(f"accuracy: the backends differ by {difference} images of {arguments.tiles}", file=sys.stderr)
            apart = True
    devices = {}
    for backend in arguments.backends if arguments.json else ():
        text = output([tool(), "classify", MODEL, DATA / "chelsea.png", "--backend", backend])
        devices[backend] = re.search(r"^device +(.*)", text, re.M)[1]
    write_report(arguments.json, "accuracy", model=MODEL.name, data=SHEET.name, tiles=arguments.tiles, dtype=arguments.dtype, devices=devices,
                 results=results)
    return int(apart)


if __name__ == "__main__":
    sys.exit(main())
