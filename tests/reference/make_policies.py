"""Runs every policy in float64 on tiles of the demo sheet, and writes the reference file of tests/model/policies.c.

usage: make_policies.py OUT N_TILES [DATA_FOLDER]      needs numpy, scipy and Pillow

Lines of the file; the settings of a policy are those of rvit_prune_desc:
  model TOKENS PREFIX CLASSES
  policy NAME [keep=R] [blocks=B,B,...] [threshold=T] [mass=P] [samples=K] [merges=R] [alpha=A] [object_block=B]
  image TILE
  stage BLOCK PATCHES FUSED MARGIN MASK    after the stage: the number of patches and fused tokens, the decision's margin (policies.py), and
                                           the kept patches as hexadecimal digits; patch 0 is the lowest bit of the first digit
  sizes N N ...                            tome: the number of tokens merged into each row after the prefix
  logits X X ...
"""

import sys

import numpy as np

import policies as p
from vit import Model, forward, read_tiles


def masks(n_patches):
    """A mask for each of two stages. The second stage keeps none of the patches that the first one drops."""
    random = np.random.default_rng(2604)
    return [random.random(n_patches) < 0.7, random.random(n_patches) < 0.6]


# Name, the library's settings, the reference.
CONFIGS = [
    ("none", {}, p.Dense),
    ("l2", {}, p.L2),
    ("l2", {"keep": 0.2}, p.L2),
    ("l2", {"keep": 0.9}, p.L2),
    ("l2", {"keep": 0.7, "blocks": (1, 5, 11)}, p.L2),
    ("l2-threshold", {"threshold": 42.0}, p.L2Threshold),
    ("l2-threshold", {"threshold": 38.0, "blocks": (2, 6)}, p.L2Threshold),
    ("evit", {}, p.Evit),
    ("evit", {"keep": 0.5}, p.Evit),
    ("evit", {"keep": 0.9, "blocks": (0, 4, 11)}, p.Evit),
    ("evit-fused", {}, lambda model, **k: p.Evit(model, fused=True, **k)),
    ("evit-fused", {"keep": 0.5}, lambda model, **k: p.Evit(model, fused=True, **k)),
    ("evit-fused", {"keep": 0.9, "blocks": (2, 3, 8, 11)}, lambda model, **k: p.Evit(model, fused=True, **k)),
    ("evit-paper", {}, p.EvitPaper),
    ("evit-paper", {"keep": 0.2}, p.EvitPaper),
    ("dynamicvit", {}, p.DynamicVit),
    ("dynamicvit", {"keep": 0.5}, p.DynamicVit),
    ("dynamicvit", {"keep": 0.9, "blocks": (2, 10)}, p.DynamicVit),
    ("dynamicvit-gate", {}, lambda model, threshold=0.5, **k: p.DynamicVit(model, threshold=threshold, **k)),
    ("dynamicvit-gate", {"threshold": 0.9}, lambda model, threshold=0.5, **k: p.DynamicVit(model, threshold=threshold, **k)),
    ("ats", {}, p.Ats),
    ("ats", {"samples": 60}, p.Ats),
    ("ats", {"samples": 300, "blocks": (3, 6, 9)}, p.Ats),
    ("ats-paper", {}, p.AtsPaper),
    ("ats-paper", {"mass": 0.6, "blocks": (3, 7)}, p.AtsPaper),
    ("ats-paper", {"keep": 0.5}, p.AtsPaper),
    ("ats-paper", {"keep": 0.2}, p.AtsPaper),
    ("tome", {}, p.Tome),
    ("tome", {"merges": 13}, p.Tome),
    ("tome", {"merges": 60, "blocks": (0, 4, 5, 11)}, p.Tome),
    ("received", {}, p.Received),
    ("received", {"keep": 0.6, "blocks": (1, 5, 11)}, p.Received),
    ("fastervlm", {}, p.FasterVlm),
    ("hiprune", {}, p.HiPrune),
    ("hiprune", {"keep": 0.3, "alpha": 0.6}, p.HiPrune),
    ("hiprune", {"keep": 0.7, "alpha": 1.0, "object_block": 9, "blocks": (9,)}, p.HiPrune),
    ("mask", {"blocks": (3, 7)}, None),
]


def settings(options):
    def text(value):
        return ",".join(str(v) for v in value) if isinstance(value, tuple) else repr(value)

    return "".join(f" {name}={text(value)}" for name, value in options.items())


def mask_text(ids, n_patches):
    bits = np.zeros((n_patches + 3) // 4 * 4, int)
    bits[ids[ids >= 0]] = 1
    return "".join(f"{digit:x}" for digit in bits.reshape(-1, 4) @ [1, 2, 4, 8])


def write_image(out, model, stages, logits):
    for block, ids, sizes, margin in stages:
        fused = int((ids < 0).sum())
        print("stage", block, len(ids) - fused, fused, f"{margin:.3g}", mask_text(ids, model.n_patches), file=out)
        if sizes is not None:
            print("sizes", *(int(size) for size in sizes[model.n_prefix :]), file=out)
    print("logits", *(f"{value:.8f}" for value in logits), file=out)


def main():
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    data = sys.argv[3] if len(sys.argv) > 3 else "examples/data"
    model = Model(f"{data}/deit_tiny_cifar10.safetensors")
    tiles = list(read_tiles(f"{data}/cifar10_test_1000.png", int(sys.argv[2]), 32, 224))
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print("model", model.n_patches + model.n_prefix, model.n_prefix, model.n_classes, file=out)
        for name, options, make in CONFIGS:
            policy = make(model, **options) if make else p.Mask(model, masks(model.n_patches), **options)
            print(f"policy {name}{settings(options)}", file=out)
            closest = float("inf")
            for tile, image in enumerate(tiles):
                logits, stages = forward(model, image, policy)
                closest = min([closest] + [margin for *_, margin in stages])
                print("image", tile, file=out)
                write_image(out, model, stages, logits)
            print(f"{name}{settings(options)}: smallest margin {closest:.2g}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
