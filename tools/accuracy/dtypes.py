#!/usr/bin/env python3
"""Measures the accuracy of the demo checkpoint in each type with each policy on its 1000 test tiles, by `raggedvit verify` against f32.

Prints a Markdown table; --json FILE also writes the figures. Exits 1 if a decision differs beyond its margin, or if top-1 is lower than in
f32 by more than the type's limit.

usage: tools/accuracy/dtypes.py [--dtypes bf16,f16] [--backend cpu] [--against cpu] [--tiles N] [--only PATTERN] [--threads N]
       [--jobs N] [--calibrate N] [--json FILE]
--calibrate N measures the files that `raggedvit quantize` writes, with input scales from the first N tiles, and compares top-1 with that of
the checkpoint in f32. The environment variable RAGGEDVIT names the tool (default: build/release/tools/raggedvit)."""
import argparse
import concurrent.futures
import pathlib
import re
import sys
import tempfile

from policies import CLASSES, MODEL, SHEET, options_of, run, write_report

ROWS = """none
l2 keep=0.5
l2-threshold threshold=38
evit keep=0.7
evit-fused keep=0.7
evit-paper keep=0.5
dynamicvit keep=0.7
dynamicvit-gate threshold=0.5
ats samples=196
ats samples=98
ats-paper mass=0.9
ats-paper keep=0.5
tome merge=8
random keep=0.5
received keep=0.5
fastervlm keep=0.5
hiprune keep=0.5""".splitlines()

# The largest loss of top-1 of each type, in points.
LIMITS = {"f16": 0.3, "bf16": 0.3, "int8": 0.7, "fp8": 0.7}
ATS_LIMIT = 0.5


def verify(arguments, model, dtype, row):
    options = ["--tiles", 32, "--expect", CLASSES, "--limit", arguments.tiles, *options_of(row)]
    options += ["--threads", arguments.threads] if arguments.threads else []
    found = run("verify", model, "--backend", arguments.backend, "--dtype", dtype, "--against", arguments.against, "--against-dtype", "f32",
                "--images", SHEET, *options, codes=(0, 1))
    if model != MODEL:  # the f32 weights of the quantized file are not those of the checkpoint
        found["right_b"] = run("classify", MODEL, SHEET, "--backend", arguments.against, "--dtype", "f32", *options)["n_right"]
    return found


def calibrate(arguments, dtype, folder):
    model = pathlib.Path(folder) / f"{dtype}.safetensors"
    run("quantize", MODEL, "--output", model, "--dtype", dtype, "--calibrate", SHEET, "--tiles", 32, "--limit", arguments.calibrate,
        "--backend", arguments.against)
    return model


def figures(dtype, row, found):
    judged, n = found["judged"] or {}, found["n_images"]
    stages = [stage["judged"] for stage in found["stages"] if stage["judged"]]
    errors = [stage["score_error_rms"] for stage in stages if stage["score_error_rms"]]
    return {
        "dtype": dtype,
        "policy": row.split()[0],
        "settings": " ".join(row.split()[1:]),
        "tokens": [stage["kept"] / n for stage in found["stages"]],
        "top1": found["right_a"] / found["n_expected"],
        "top1_f32": found["right_b"] / found["n_expected"],
        "agreement": found["top1_equal_own_tokens"] / n,
        "logits_rms": found["rms_difference_own_tokens"],
        "logits_largest": found["largest_difference_own_tokens"],
        "logits_rms_same_sets": found["rms_difference"],
        "logits_largest_same_sets": found["largest_difference"],
        "different_sets": found["images_of_different_sets"],
        "decisions": judged.get("decisions", 0),
        "within_margin": judged.get("differ_within_margin", 0),
        "beyond_margin": judged.get("differ_beyond_margin", 0),
        "margin": judged.get("margin"),
        "largest_margin": max((stage["largest_margin"] for stage in stages), default=0),
        "score_error_rms": max(errors, default=0),
        "score_error_largest": max((stage["score_error_largest"] or 0 for stage in stages), default=0),
        "device": found["a"]["device"],
        "against": found["b"]["device"],
    }


def is_bad(result):
    loss = 100 * (result["top1_f32"] - result["top1"])
    limit = ATS_LIMIT if result["policy"] == "ats" and LIMITS[result["dtype"]] < ATS_LIMIT else LIMITS[result["dtype"]]
    return result["beyond_margin"] > 0 or loss > limit + 1e-9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="f16,bf16")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--against", default="cpu")
    parser.add_argument("--tiles", type=int, default=1000)
    parser.add_argument("--only", default=".")
    parser.add_argument("--threads", type=int, default=0, help="CPU threads of each run (default: all)")
    parser.add_argument("--jobs", type=int, default=1, help="concurrent runs (default: 1)")
    parser.add_argument("--calibrate", type=int, default=0, metavar="N", help="measure files calibrated on N tiles")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        dtypes = arguments.dtypes.split(",")
        return compare(arguments, {dtype: calibrate(arguments, dtype, folder) if arguments.calibrate else MODEL for dtype in dtypes})


def compare(arguments, models):
    cases = [(row, dtype) for row in ROWS if re.search(arguments.only, row) for dtype in models]
    results = []
    print("| policy | setting | type | top-1 (f32) | same class | logits, rms | largest | other sets | decisions | differ within | beyond |")
    print("|---|---|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for (row, dtype), found in zip(cases, pool.map(lambda case: verify(arguments, models[case[1]], case[1], case[0]), cases)):
            r = figures(dtype, row, found)
            results.append(r)
            print(
                f"| {r['policy']} | {r['settings'].replace('=', ' ')} | {dtype} | {100 * r['top1']:.1f} ({100 * r['top1_f32']:.1f}) |"
                f" {100 * r['agreement']:.1f} | {r['logits_rms']:.2g} | {r['logits_largest']:.2g} | {r['different_sets']} |"
                f" {r['decisions']} | {r['within_margin']} | {r['beyond_margin']} |",
                flush=True,
            )
    write_report(arguments.json, "accuracy_calibrated" if arguments.calibrate else "accuracy_dtypes", model=MODEL.name, data=SHEET.name,
                 tiles=arguments.tiles, backend=arguments.backend, against=arguments.against, calibrated_on=arguments.calibrate,
                 results=results)
    bad = [r for r in results if is_bad(r)]
    for r in bad:
        print(f"accuracy: {r['policy']} {r['settings']}, {r['dtype']}: beyond its limits", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
