"""Reads the reports in bench/results or of one run, and finds them by what they measured. Used by plots.py and tables.py."""

import json
import math
import pathlib

RESULTS = pathlib.Path(__file__).resolve().parent / "results"
OURS, GRAPH, FLASH, TRITON = "raggedvit", "pytorch graph", "FA2 varlen", "Triton varlen"
# Host times from Python. Reports before 2026-11-22 call the prepared call "raggedvit" and lack the public functions.
PREPARED, FUNCTION, OPERATOR = "raggedvit, prepared C call through ctypes", "raggedvit.attention", "torch.ops.raggedvit.attention"
MODELS = {"deit_tiny_patch16_224": ("DeiT-T 224", 192, 197), "deit_small_patch16_224": ("DeiT-S 224", 384, 197),
          "deit_base_patch16_224": ("DeiT-B 224", 768, 197), "deit_base_patch16_384": ("DeiT-B 384", 768, 577)}


def load(paths=()):
    """Returns the reports in the named files and folders, or in bench/results. The parts of a run's report are returned separately."""
    files = []
    for path in map(pathlib.Path, paths or [RESULTS]):
        files += sorted(path.glob("*.json")) if path.is_dir() else [path]
    reports = []
    for file in files:
        data = json.loads(file.read_text())
        for report in data["parts"] if data.get("benchmark") == "run" else [data]:
            report.setdefault("file", file.name)
            report.setdefault("commit", data.get("commit"))
            report.setdefault("date", data.get("date", ""))
            reports.append(report)
    for report in reports:  # older reports have other keys
        report["benchmark"] = {"peers": "baselines", "cpu_rivals": "cpu_baselines"}.get(report.get("benchmark"), report.get("benchmark"))
        for row in report["results"] if report["benchmark"] == "cpu_baselines" else []:
            row["baseline"] = row.pop("rival", row.get("baseline"))
    return reports


class Reports(list):
    """All reports; find() returns the newest match."""

    def find(self, benchmark, has=None, where=lambda report: True, **fields):
        """has: a section that must not be empty. fields: values in the report or in its device."""
        def value(report, key):
            device = report.get("device")
            return report.get(key, device.get(key) if isinstance(device, dict) else None)

        found = [r for r in self if r.get("benchmark") == benchmark and not r.get("dry_run") and (has is None or r.get(has)) and
                 all(value(r, k) == v for k, v in fields.items()) and where(r)]
        return max(found, key=lambda r: r["date"], default=None)


def read(paths=()):
    return Reports(load(paths))


def by_batch(report):
    """Whether a report of bench/forward.c has several batch sizes."""
    return len({r["batch"] for r in report["results"]}) > 1


def by_ratio(report):
    """Whether it has one batch size, and one policy at many kept fractions."""
    return not by_batch(report) and len(report["results"]) > 5 and {r["prune"] for r in report["results"]} == {"none", "l2"}


def by_policy(report):
    """Whether it has one batch size and many policies."""
    return not by_batch(report) and len({r["prune"] for r in report["results"]}) > 3


def median(entry, *keys):
    for key in keys:
        entry = (entry or {}).get(key)
    return (entry or {}).get("median")


def version(report):
    return report.get("version") or report["versions"]["raggedvit"]


def day(*reports):
    """The range of the reports' dates, and the versions that they measured."""
    days, versions = (sorted(set(found)) for found in zip(*((r["date"][:10], version(r)) for r in reports if r)))
    return f"{' to '.join(dict.fromkeys([days[0], days[-1]]))}, version {' and '.join(versions)}"


def geometric_mean(values):
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values))


def forward_rows(run, section="forwards"):
    return {(r["model"], r["batch"], r["keep"]): r for r in (run or {}).get(section, []) if OURS in r}


def images_per_second(row, who=OURS):
    return (row or {}).get(who, {}).get("images_per_second")


def ideal_speed_up(model, keep, blocks=12, dense=4):
    """The speed-up by multiplications: 12 n D^2 + 2 n^2 D in a block of n tokens with D channels. `dense` blocks come before the stage, the
    others have trunc(keep * tokens) tokens and the CLS token."""
    _, dim, tokens = MODELS[model]

    def block(n):
        return 12 * n * dim**2 + 2 * n**2 * dim

    kept = tokens if keep >= 1 else int(keep * tokens) + 1
    return blocks * block(tokens) / (dense * block(tokens) + (blocks - dense) * block(kept))
