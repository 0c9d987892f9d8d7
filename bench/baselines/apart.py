"""Runs each baseline in a process of its own, so that one that fails, or breaks CUDA or PyTorch, does not affect the others. All prepare
at the same time, then one at a time measures itself and the library on the same stream."""

import json
import os
import pathlib
import subprocess
import sys
import time

LONGEST = 240  # seconds for a baseline's measurement


def wait_for_turn():
    """Called in a baseline's process before its measurements."""
    sys.stdin.readline()


def _words(text):
    return "".join(c if c.isalnum() else "_" for c in text.lower())


def run(names, argv, out, ours, budget):
    """Runs baselines.py for each name. Returns one row per point with all baselines. For the library, the first process counts; its time in
    each other process is stored with the baseline as "beside"."""
    folders = {name: pathlib.Path(out) / "parts" / _words(name) for name in names}
    children = {}
    for name, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "log.txt", "w") as log:
            children[name] = subprocess.Popen([sys.executable] + argv + ["--out", str(folder), "--baseline", name], stdin=subprocess.PIPE,
                                              stdout=log, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONUNBUFFERED": "1"})
    rows = {}
    for name, child in children.items():
        begin = time.monotonic()
        try:
            child.communicate(b"go\n", timeout=max(1, min(LONGEST, budget.left())))
            failure = f"its process ended with status {child.returncode}" if child.returncode else None
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            failure = f"not done after {time.monotonic() - begin:.0f} s"
        print(f"  {name}: {time.monotonic() - begin:.1f} s{', ' + failure if failure else ''}", flush=True)
        _merge(rows, name, folders[name], ours, failure)
    return list(rows.values())


def _merge(rows, name, folder, ours, failure):
    try:
        found = json.loads((folder / "baselines.json").read_text())
    except (OSError, ValueError):
        found = {}
    for row in found.get("long", []):
        if "gpu_us" not in row:
            continue
        key = (row["point"], row["heads"], row["head_dim"])
        merged = rows.setdefault(key, row | {"gpu_us": {}, "errors": {}})
        times = row["gpu_us"]
        merged["gpu_us"].setdefault(ours, times[ours])
        merged["gpu_us"][name] = times.get(name, {"skipped": "not measured"}) | {"beside": times[ours].get("median")}
        merged["errors"] |= row["errors"]
        merged["triton_tiles"] = merged.get("triton_tiles") or row["triton_tiles"]
    for merged in rows.values():
        if name not in merged["gpu_us"]:
            lines = (folder / "log.txt").read_text().strip().splitlines() if (folder / "log.txt").exists() else []
            reason = failure or found.get("failed_sections", {}).get("long") or "not measured"
            merged["gpu_us"][name] = {"skipped": f"{reason}: {lines[-1]}"[:200] if lines and failure else reason}
