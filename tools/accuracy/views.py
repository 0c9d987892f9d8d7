#!/usr/bin/env python3
"""Measures top-1 of the demo checkpoint over 18 views of its 1000 test tiles, in f32 and in other types, to resolve differences that are too
small for 1000 images.

A view is the sheet with each tile shifted by up to one pixel each way, mirrored or not; the first view is the sheet itself. For each type
and policy the table has the number of images that are right only in f32 or only in the type, and the difference in points with its
standard error. The error is over tiles, because the views of a tile are not independent. Prints a Markdown table; --json FILE also writes
the figures.

usage: tools/accuracy/views.py [--dtypes f16,bf16] [--backend cpu] [--policies "none;ats samples=196"] [--tiles N] [--json FILE]
The environment variable RAGGEDVIT names the tool (default: build/release/tools/raggedvit). Exits 77 without numpy and Pillow."""
import argparse
import pathlib
import sys
import tempfile

try:
    import numpy as np
    from PIL import Image
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from policies import CLASSES, MODEL, SHEET, options_of, run, write_report  # noqa: E402

SIDE = 32
SHIFTS = [(0, 0)] + [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if (y, x) != (0, 0)]


def views(n):
    """The views of the first n tiles: [views, n, rows, columns, channels]."""
    sheet = np.asarray(Image.open(SHEET).convert("RGB"))
    rows, columns = sheet.shape[0] // SIDE, sheet.shape[1] // SIDE
    tiles = sheet.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2).reshape(-1, SIDE, SIDE, 3)[:n]
    padded = np.pad(tiles, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
    shifted = [padded[:, 1 + y : 1 + y + SIDE, 1 + x : 1 + x + SIDE] for y, x in SHIFTS]
    return shifted + [view[:, :, ::-1] for view in shifted]


def write_sheet(folder, n):
    """Writes all views as one sheet, whose rows have as many tiles as there are views."""
    tiles = np.concatenate(views(n))
    sheet = tiles.reshape(n, -1, SIDE, SIDE, 3).swapaxes(1, 2).reshape(n * SIDE, -1, 3)
    Image.fromarray(np.ascontiguousarray(sheet)).save(folder / "sheet.png", compress_level=1)
    classes = CLASSES.read_text().split()[:n]
    (folder / "classes.txt").write_text("\n".join(classes * (len(tiles) // n)) + "\n")
    return len(tiles)


def right(folder, arguments, dtype, policy):
    """Returns whether the first class is the expected one, [views, tiles], and the device."""
    found = run("classify", MODEL, folder / "sheet.png", "--tiles", SIDE, "--expect", folder / "classes.txt", "--backend", arguments.backend,
                "--dtype", dtype, *options_of(policy), "--batch", 128)
    return np.array([image["top"][0]["class"] == image["expected"] for image in found["images"]]).reshape(-1, arguments.tiles), found["device"]


def compare(dtype, policy, reference, values):
    change = values.astype(int) - reference
    of_tiles = change.sum(0)
    return {
        "dtype": dtype,
        "policy": policy.split()[0],
        "settings": " ".join(policy.split()[1:]),
        "images": values.size,
        "top1_f32": float(reference.mean()),
        "top1": float(values.mean()),
        "right_only_in_f32": int((change < 0).sum()),
        "right_only_in_type": int((change > 0).sum()),
        "difference": float(change.mean()),
        "standard_error": float(np.sqrt((of_tiles**2).sum()) / values.size),
        "first_view_difference": float(change[0].mean()),
        "first_view_standard_error": float(np.sqrt((change[0] ** 2).sum()) / change.shape[1]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtypes", default="f16,bf16")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("--policies", default="none;ats samples=196;ats samples=98")
    parser.add_argument("--tiles", type=int, default=1000, help="use the first N tiles (default: 1000)")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    results, device = [], ""
    print("| policy | setting | type | top-1 (f32) | right only in f32 | only in the type | points | on the sheet itself |")
    print("|---|---|---|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        n = write_sheet(folder, arguments.tiles)
        for policy in arguments.policies.split(";"):
            reference, device = right(folder, arguments, "f32", policy)
            for dtype in arguments.dtypes.split(","):
                r = compare(dtype, policy, reference, right(folder, arguments, dtype, policy)[0])
                results.append(r)
                points, error, first, first_error = (
                    100 * r[key] for key in ("difference", "standard_error", "first_view_difference", "first_view_standard_error")
                )
                print(
                    f"| {r['policy']} | {r['settings'].replace('=', ' ')} | {dtype} | {100 * r['top1']:.2f} ({100 * r['top1_f32']:.2f}) |"
                    f" {r['right_only_in_f32']} | {r['right_only_in_type']} | {points:+.2f} ± {error:.2f} | {first:+.1f} ± {first_error:.1f} |",
                    flush=True,
                )
    write_report(arguments.json, "accuracy_views", model=MODEL.name, data=SHEET.name, device=device, images=n, results=results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
