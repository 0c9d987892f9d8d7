#!/usr/bin/env python3
"""Writes docs/timm_architectures.md: which of timm's Vision Transformers with published weights load, and why the others do not.

  timm_verdicts.py RAGGEDVIT            write the table
  timm_verdicts.py RAGGEDVIT --print    print it

RAGGEDVIT is the command line tool. For each published set of weights the script writes a checkpoint with names and shapes but no values,
and timm's config.json, and inspects them with the tool. Needs torch and timm from PyPI.
"""
import argparse
import collections
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

try:
    import timm
    import torch
    from timm.models import _registry
except ImportError as error:
    sys.exit(f"timm_verdicts.py: {error}; it needs torch and timm from PyPI")

FILE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "timm_architectures.md"
MODULES = ("vision_transformer", "deit", "eva", "naflexvit")
HEAD = """# timm's Vision Transformers

Written by `tools/timm_verdicts.py` with timm {version}: the plain Vision Transformers of timm with
published weights, each as a file of names and shapes with the `config.json` that timm writes. {loads}
of {sets} sets of weights load ({percent} %).

| architecture | sets of weights | of these load | why the others do not |
|---|---|---|---|
"""


def write_header_only(path, state):
    header, end = {}, 0
    for name, tensor in state.items():
        size = 2 * tensor.numel()
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)  # sparse: the values take no space


def config_of(name, model, cfg):
    kept = {key: list(value) if isinstance(value, tuple) else value for key, value in cfg.to_dict().items()
            if key in ("tag", "input_size", "interpolation", "crop_pct", "crop_mode", "mean", "std", "notes", "num_classes")}
    return {"architecture": name, "num_classes": model.num_classes, "num_features": model.num_features,
            "global_pool": model.global_pool, "pretrained_cfg": kept}


def reasons(refusal):
    """Shortens a refusal to the unsupported parts."""
    parts = []
    for part in refusal.split("; "):
        part = part.split("the model has ")[-1].split(", which is not supported")[0]
        parts.append(part if len(part) < 120 else part[:117] + "...")
    return parts


def inspect(tool, folder):
    done = subprocess.run([tool, "inspect", str(folder / "model.safetensors"), "--json"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return []
    if not done.stdout.strip():
        return [done.stderr.strip().split("model.safetensors: ")[-1]]
    return reasons(json.loads(done.stdout)["refused"].split("model.safetensors: ")[-1])


def survey(tool):
    rows = []
    for name in sorted(timm.list_models()):
        entry = _registry._model_entrypoints[name]
        cfgs = [cfg for cfg in _registry._model_default_cfgs[name].cfgs.values() if cfg.has_weights]
        if entry.__module__.rsplit(".", 1)[1] not in MODULES or not cfgs:
            continue
        refused, loads = collections.Counter(), 0
        with tempfile.TemporaryDirectory() as folder:
            folder, held = pathlib.Path(folder), None
            for cfg in cfgs:
                if held is None or held.num_classes != cfg.num_classes:
                    with torch.device("meta"):
                        held = timm.create_model(name, num_classes=cfg.num_classes)
                    write_header_only(folder / "model.safetensors", held.state_dict())
                (folder / "config.json").write_text(json.dumps(config_of(name, held, cfg)))
                found = inspect(tool, folder)
                loads += not found
                refused.update(found)
        rows.append((name, len(cfgs), loads, "; ".join(refused)))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool")
    parser.add_argument("--print", action="store_true", dest="prints", help="write no file")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    rows = survey(options.tool)
    sets, loads = sum(row[1] for row in rows), sum(row[2] for row in rows)
    text = HEAD.format(version=timm.__version__, loads=loads, sets=sets, percent=round(100 * loads / max(1, sets)))
    text += "".join(f"| {name} | {n} | {good} | {why} |\n" for name, n, good, why in rows)
    if options.prints:
        print(text)
    else:
        FILE.write_text(text)


if __name__ == "__main__":
    main()
