#!/usr/bin/env python3
"""Tests bench/cpu_baselines.py on a tiny model: it reports what is not installed, does not time wrong results, and its summary fails
correctly.

usage: test_cpu_baselines.py LIBRARY; exits with 77 if numpy is not installed or the library is built with a sanitizer.
"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SYSTEM = "/usr/bin/python3"
try:
    import numpy as np
except ImportError as error:
    if os.path.exists(SYSTEM) and sys.executable != SYSTEM:  # the user's interpreter may lack it
        os.execv(SYSTEM, [SYSTEM, "-B"] + sys.argv)
    print(f"skipped: {error}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench"))
from baselines import cpu_summary  # noqa: E402


def check(good, what):
    if not good:
        sys.exit(f"failed: {what}")


def measure(library, folder):
    """Returns the report of a dry run in which no baseline can be imported."""
    done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/cpu_baselines.py"), "--dry-run", "--cores", "1", "--library", library, "--out",
                           folder, "--work", folder], env=os.environ | {"PYTHONPATH": f"{folder}/absent"}, capture_output=True, text=True)
    check(done.returncode == 0, done.stdout + done.stderr)
    return json.loads((pathlib.Path(folder) / "cpu_baselines.json").read_text()), done.stdout


def dry_run(library):
    with tempfile.TemporaryDirectory() as folder:
        for name in ("openvino", "onnx", "onnxruntime", "torch", "timm"):
            path = pathlib.Path(folder) / "absent" / f"{name}.py"
            path.parent.mkdir(exist_ok=True)
            path.write_text("raise ImportError('not here')\n")
        report, out = measure(library, folder)
        for name in ("openvino", "onnxruntime", "pytorch"):
            check("not here" in report["missing"][name] and f"{name} is not measured" in out, f"{name}: {report['missing']}")
        rows = {(r["batch"], r["baseline"]): r for r in report["results"]}
        for batch in (1, 2):
            for name in ("raggedvit f32", "raggedvit f32 keep 0.2"):
                row = rows[batch, name]
                check(row.get("ms_per_image", {}).get("median", 0) > 0 and row["cores"] == 1, f"{row}")
        check(all("ms_per_image" in r or len(r["skipped"]) > 20 for r in report["results"]), f"{report['results']}")
        done = subprocess.run([sys.executable, "-B", str(ROOT / "bench/cpu_baselines.py"), "--dry-run", "--cores", "2", "--cpu-time"],
                              capture_output=True, text=True)
        check(done.returncode == 1 and "--cpu-time is for --cores 1, not 2" in done.stderr, f"{done}")
        # With wrong logits nothing may be timed, and the report is replaced.
        wanted = pathlib.Path(folder) / "tiny" / "logits.npy"
        check(not wanted.exists(), "logits of PyTorch's, which is not here")
        np.save(wanted, np.full((32, 10), 1e-3, np.float32))
        report, _ = measure(library, folder)
        check(len(report["results"]) == len(rows), f"{len(report['results'])} rows after {len(rows)}")
        for row in report["results"]:
            check("skipped" in row and "ms_per_image" not in row, f"a wrong result was timed: {row}")
        check(any("off by" in row["skipped"] for row in report["results"]), f"{report['results']}")


def summary():
    """Checks the summary's requirements with made-up times."""
    def show(ours, kept):
        times = {"openvino bf16": 2.0, "raggedvit bf16": ours, "raggedvit bf16 keep 0.2": kept, "raggedvit f32": 4.0}
        rows = [{"model": "m", "cores": 2, "batch": b, "baseline": name, "ms_per_image": {"median": ms}} for b in (1, 8)
                for name, ms in times.items()]
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = cpu_summary.show({"date": "", "machine": {"cpu": "", "flags": ""}, "versions": {}, "commit": "", "dry_run": False,
                                     "missing": {}, "results": rows})
        check(code == 1, "lines are missing, so the summary fails")
        return out.getvalue()

    text = show(ours=1.0, kept=0.5)
    check("[pass] bf16 against OpenVINO's bf16, least of 2 points: 2.00x" in text, text)
    check("[pass] bf16 against OpenVINO's bf16, geometric mean: 2.00x (wanted 1.15x)" in text, text)
    check("[pass] bf16, keep 0.2 against dense, least of 2 points: 2.00x" in text, text)
    check("[ -- ] f32 against OpenVINO's f32: not measured" in text, text)
    text = show(ours=1.9, kept=1.5)
    check("[pass] bf16 against OpenVINO's bf16, least" in text and "[MISS] bf16 against OpenVINO's bf16, geometric mean: 1.05x" in text, text)
    check("[MISS] bf16, keep 0.2 against dense" in text, text)


def main():
    if b"__asan_init" in (library := pathlib.Path(sys.argv[1]).read_bytes()) or b"__tsan_init" in library:
        print("skipped: the library is built with a sanitizer, so this interpreter cannot load it")
        sys.exit(77)
    summary()
    dry_run(sys.argv[1])
    print("cpu_baselines: right")


if __name__ == "__main__":
    main()
