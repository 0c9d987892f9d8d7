#!/usr/bin/env python3
"""Combines the parts of a run of bench/serving/run.sh: writes OUT/serving.json and prints its tables.

collect.py OUT: the folder of the run. collect.py --rates PART.json: 50, 80 and 95 % of the best images per second of a part."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

Row = dict[str, Any]
SHARES = (0.5, 0.8, 0.95)
BAD = ("failed", "lost", "swapped", "wrong", "unsent")


def best(rows: list[Row]) -> float:
    return max(float(row["images_per_second"]) for row in rows)


def rates(path: str) -> str:
    top = best(json.loads(pathlib.Path(path).read_text())["results"])
    return ",".join(str(max(1, round(share * top))) for share in SHARES)


def nvidia_smi() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):
        return []


def rows_of(parts: dict[str, Row], prefix: str) -> list[Row]:
    """The results of all parts of one kind, with the numbers in the part's name: gpus_DEVICES_INSTANCES (per device), instances_N."""
    numbers = {"gpus": ("devices", "instances"), "instances": ("threads",)}.get(prefix, ())
    return [row | {key: int(number) for key, number in zip(numbers, name.split("_")[1:])}
            for name in sorted(parts) if name.split("_")[0] == prefix for row in parts[name]["results"]]


def direct_rate(report: Row, devices: int = 1, threads: int = 2) -> float | None:
    """Images per second of direct sessions with full batches: as many sessions as the server has instances."""
    full = [row for row in report["direct"] if row["batch"] == row["max_images"] > 1]
    return next((float(row["images_per_second"]) for row in full if (row["devices"], row["threads"]) == (devices, threads)), None)


def one_client(rows: list[Row], transport: str) -> Row | None:
    return next((row for row in rows if row["transport"] == transport and row["clients"] == 1), None)


def limits(report: Row) -> list[Row]:
    """Compares the 99th percentile of the latency with one client with a limit: 1.5 times that of a direct call plus that of the server
    without work. The direct call is in a session for one image and, without small_batch, also in a session as large as the server's,
    which gives the same bits."""
    calls = {row["max_images"] == 1: row["latency_ms"]["p99"] for row in report["direct"] if row["batch"] == 1}
    found: list[Row] = []
    for small_batch, row in [(0, row) for row in report["closed"]] + [(1, row) for row in report["small"]]:
        idle = one_client(report["noop"], row["transport"])
        if row["clients"] != 1 or idle is None or len(calls) != 2:
            continue
        p99, idle_p99 = row["latency_ms"]["p99"], idle["latency_ms"]["p99"]
        for name, is_for_one in (("a session for one image", True), ("the same session", False)):
            if small_batch and not is_for_one:
                continue
            limit = 1.5 * calls[is_for_one] + idle_p99
            found.append({"transport": row["transport"], "small_batch": small_batch, "direct": name, "p99_ms": p99, "limit_ms": limit,
                          "direct_p99_ms": calls[is_for_one], "noop_p99_ms": idle_p99, "kept": p99 <= limit})
    return found


def number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:,.{digits}f}"


def table(title: str, rows: list[Row], direct: float | None) -> None:
    if not rows:
        return
    print(f"\n{title}")
    print(f"{'transport':12} {'clients':>7} {'rate':>8} {'images/s':>9} {'of direct':>9} {'p50 ms':>8} {'p99 ms':>8} {'server us':>9} "
          f"{'client us':>9} {'batch':>6} {'bad':>5}")
    for row in rows:
        share = f"{row['images_per_second'] / direct:.3f}" if direct else "-"
        print(f"{row['transport']:12} {row['clients']:7} {number(row['rate'], 0):>8} {number(row['images_per_second'], 1):>9} {share:>9} "
              f"{number(row['latency_ms']['p50'], 2):>8} {number(row['latency_ms']['p99'], 2):>8} {number(row['server_cpu_us'], 0):>9} "
              f"{number(row['client_cpu_us'], 0):>9} {number(row['mean_batch'], 1):>6} {sum(row[bad] for bad in BAD):5}")


def head_of(parts: dict[str, Row]) -> Row:
    """Machine, device, versions and date."""
    some = next(iter(parts.values()))
    device = next((part["device"] for part in parts.values() if "device" in part), None)
    model = next(({key: part[key] for key in ("model", "dtype", "prune", "settings")} for part in parts.values() if "dtype" in part), None)
    server = next((part["server"] for part in parts.values() if "server" in part), None)
    return {"benchmark": "serving", "date": min(part["date"] for part in parts.values()), "version": some["version"],
            "commit": os.environ.get("RVIT_SERVING_COMMIT", "unknown"), "compiler": some["compiler"], "seed": some["seed"],
            "machine": some["machine"], "device": device, "nvidia_smi": nvidia_smi(), "server": server, "model": model,
            "distinct_images": some["distinct_images"], "mean_image_bytes": some["mean_image_bytes"]}


def collect(out: pathlib.Path) -> int:
    parts: dict[str, Row] = {path.stem: json.loads(path.read_text()) for path in sorted((out / "parts").glob("*.json"))}
    if not parts:
        print(f"collect.py: {out / 'parts'} holds no report", file=sys.stderr)
        return 1
    kinds = ("direct", "noop", "right", "closed", "open", "encoded", "small", "gpus", "instances")
    report = head_of(parts) | {kind: rows_of(parts, kind) for kind in kinds}
    direct = direct_rate(report)
    report["limits"] = limits(report)
    served = [row for kind in kinds[1:] for row in report[kind]]
    report["bad"] = {bad: sum(row[bad] for row in served) for bad in BAD}
    report["right_answers"] = sum(row["right"] for row in served)
    (out / "serving.json").write_text(json.dumps(report, indent=1) + "\n")
    print(f"\n{report['machine']['cpu']}, {report['machine']['cores']} cores, {(report['device'] or {}).get('name')}; {report['server']}")
    for row in report["direct"]:
        print(f"direct: {row['devices']} x {row['threads']} threads, {row['batch']} images in sessions for {row['max_images']}: "
              f"{row['images_per_second']:,.1f} images/s, p50 {row['latency_ms']['p50']:.2f} ms, p99 {row['latency_ms']['p99']:.2f} ms")
    table("A backend that computes nothing", report["noop"], direct)
    table("raggedvit, each client one request at a time", report["closed"], direct)
    table("raggedvit, requests at random times", report["open"], direct)
    table("raggedvit, JPEG files", report["encoded"], direct)
    table("raggedvit with small_batch: 1", report["small"], direct)
    for row in report["gpus"]:
        table(f"GPUs: {row['devices']}, instances on each: {row['instances']}", [row], direct_rate(report, devices=row["devices"]))
    for n in sorted({row["threads"] for row in report["instances"]}):
        table(f"Instances: {n}, compared with as many direct sessions", [row for row in report["instances"] if row["threads"] == n],
              direct_rate(report, threads=n))
    for limit in report["limits"]:
        parts_of_it = f"1.5 x {limit['direct_p99_ms']:.2f} + {limit['noop_p99_ms']:.2f}"
        print(f"p99 of one client, {limit['transport']}{', small_batch 1' if limit['small_batch'] else ''}, beside {limit['direct']}: "
              f"{limit['p99_ms']:.2f} ms, limit {limit['limit_ms']:.2f} ms ({parts_of_it}): {'pass' if limit['kept'] else 'MISS'}")
    print(f"answers: {report['right_answers']:,} right, " + ", ".join(f"{report['bad'][bad]} {bad}" for bad in BAD))
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--rates":
        print(rates(sys.argv[2]))
    elif len(sys.argv) == 2:
        sys.exit(collect(pathlib.Path(sys.argv[1])))
    else:
        sys.exit(__doc__)
