#!/usr/bin/env python3
"""Puts the reports of one run into one file: OUT/run.json, {"benchmark": "run", "date", "commit", "seconds", "parts": [report, ...]}.

    bench/collect.py OUT COMMIT SECONDS      the reports are OUT/parts/*.json
"""

import json
import os
import pathlib
import platform
import sys


def main():
    out, commit, seconds = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    parts = []
    for path in sorted((out / "parts").glob("*.json")):
        try:
            parts.append({"part": path.stem} | json.loads(path.read_text()))
        except ValueError as error:  # a program that was cut short
            print(f"collect: {path}: {error}", file=sys.stderr)
    run = {"benchmark": "run", "date": max((p["date"] for p in parts if "date" in p), default=""), "commit": commit, "seconds": seconds,
           "python": platform.python_version(), "cores": os.cpu_count(), "parts": parts}
    (out / "run.json").write_text(json.dumps(run, indent=1) + "\n")
    print(f"{out / 'run.json'}: {len(parts)} reports")


if __name__ == "__main__":
    main()
