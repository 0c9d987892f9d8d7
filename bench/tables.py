#!/usr/bin/env python3
"""Writes the tables of README.md, bench/README.md, docs/pruning.md, docs/accuracy.md and docs/devices.md from the reports in bench/results.
A table is between <!-- begin NAME --> and <!-- end NAME -->. A test runs this with --check, so no number there can differ from a report.

    bench/tables.py            rewrites them
    bench/tables.py --check    exits 1 and shows the difference if they do not match the reports
"""

import difflib
import os
import pathlib
import re
import statistics
import sys
import textwrap

from reports import (FLASH, GRAPH, MODELS, OURS, TRITON, by_policy, forward_rows, geometric_mean, ideal_speed_up,
                     images_per_second, median, read, version)

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 100
POLICIES = [("none", ""), ("l2", "keep=0.5"), ("l2", "keep=0.2"), ("l2-threshold", "threshold=38"), ("evit", "keep=0.7"),
            ("evit", "keep=0.5"), ("evit-fused", "keep=0.7"), ("evit-fused", "keep=0.5"), ("evit-paper", "keep=0.5"),
            ("evit-paper", "keep=0.2"),
            ("dynamicvit", "keep=0.7"), ("dynamicvit", "keep=0.5"), ("dynamicvit-gate", "threshold=0.5"), ("ats", "samples=196"),
            ("ats", "samples=98"), ("ats-paper", "mass=0.9"), ("ats-paper", "keep=0.5"), ("ats-paper", "keep=0.2"), ("tome", "merge=8"),
            ("tome", "merge=13"), ("random", "keep=0.5"), ("random", "keep=0.2")]
FORWARDS = [("deit_tiny_patch16_224", 1), ("deit_tiny_patch16_224", 64), ("deit_small_patch16_224", 1), ("deit_small_patch16_224", 64),
            ("deit_base_patch16_224", 1), ("deit_base_patch16_224", 4), ("deit_base_patch16_224", 16), ("deit_base_patch16_224", 64),
            ("deit_base_patch16_224", 256), ("deit_base_patch16_384", 1), ("deit_base_patch16_384", 64)]
ATTENTION = [("B=1 S=197", "1 image of 197"), ("B=16 S=197", "16 images of 197"), ("B=64 S=197", "64 images of 197"),
             ("B=64 S=99", "64 images of 99"), ("B=64 S=41", "64 images of 41"), ("B=256 S=197", "256 images of 197"),
             ("B=256 uniform 20..197", "256 images, uniform 20..197"), ("B=256 one 197, rest 21", "256 images, one 197, rest 21"),
             ("B=256 S=577", "256 images of 577")]
CALLS = [("B=1 S=21", "1 image of 21"), ("B=4 S=21", "4 images of 21")]
BASELINES = [(FLASH, "FlashAttention-2 varlen"), (TRITON, "Triton varlen"), ("padded SDPA", "SDPA, padded"),
          ("padded SDPA, key mask", "SDPA, key mask")]


def paragraph(text):
    words = " ".join(text.split()).replace(" %", "\0%")  # keep a number and its % on one line
    return "\n".join(textwrap.wrap(words, WIDTH, break_long_words=False, break_on_hyphens=False)).replace("\0", " ")


def table(head, rows):
    """Columns of numbers are aligned to the right."""
    rule = "".join("---:|" if all(re.fullmatch(r"-|[\d.,*]+( / [\d.,*]+)?", row[i]) for row in rows) else "---|" for i in range(len(head)))
    return "\n".join(["| " + " | ".join(head) + " |", "|" + rule] + ["| " + " | ".join(row) + " |" for row in rows])


def link(report, text="JSON"):
    """A link relative to the root of the repository; on_page() makes it relative to the page."""
    return f"[{text}](bench/results/{report['file']})"


def on_page(text, page):
    """Makes links relative to the page's folder instead of the root of the repository, and wraps paragraphs again."""
    folder = pathlib.PurePath(page).parent
    text = re.sub(r"\]\((bench/[^)#]*)", lambda match: "](" + os.path.relpath(match.group(1), folder), text)
    return "\n\n".join(part if part.startswith("|") else paragraph(part) for part in text.split("\n\n"))


def measured(report):
    """tests/test_bench_results.py searches for this text."""
    return f"measured with version {version(report)}"


def machine(run):
    """"measured with version 0.3.0 on an NVIDIA H200 (driver ..., CUDA 13.0, PyTorch 2.11, Triton 3.6, 2026-11-20)"."""
    gpu, versions = run["device"]["gpu"].split(", "), run["versions"]
    return (f"{measured(run)} on an {gpu[0]} (driver {gpu[1]}, CUDA {versions['torch_cuda']}, PyTorch {'.'.join(versions['torch'].split('.')[:2])},"
            f" Triton {'.'.join(versions['triton'].split('.')[:2])}, {run['date'][:10]})")


def short(tokens):
    names = [f"{t:.0f}" for t in tokens]
    return ", ".join(names) if len(names) <= 4 else f"{names[0]} .. {names[-1]}"


def photo(reports):
    """The caption of the image of a pruned photo."""
    found = reports.find("photo")
    dense, pruned = (found[k]["images"][0] for k in ("dense", "pruned"))
    kept, top = len(pruned["kept"][0]), pruned["top"][0]
    still = "still says" if top["label"] == dense["top"][0]["label"] else "now says"
    return paragraph(f"""*DeiT-Tiny keeps {kept} of 196 patches (bright) after block {found['pruned']['blocks'][0]} and {still}
        {top['label']}, with probability {100 * top['probability']:.0f} % instead of {100 * dense['top'][0]['probability']:.0f} %.*""")


def accuracy(reports):
    found = reports.find("accuracy")
    right = {(r["prune"], r["settings"], r["backend"]): r for r in found["results"]}
    settings = {(r["prune"], r["settings"]) for r in found["results"]}
    spread = max(100 * (max(tops) - min(tops)) for tops in ([r["top1"] for k, r in right.items() if k[:2] == s] for s in settings))
    backend = found["results"][0]["backend"]
    timed = [r for r in (reports.find("forward", backend=b, where=by_policy) for b in ("cuda", "cpu")) if r]
    speeds = [{(x["prune"], x["settings"]): x["images_per_second"] for x in r["results"]} for r in timed]
    rows = []
    for name, setting in POLICIES:
        r = right[(name, setting, backend)]
        over_dense = [s[(name, setting)] / s[("none", "")] if (name, setting) in s else None for s in speeds]
        rows.append([name, setting.replace("=", " "), short(r["mean_tokens"] or [197]), f"{100 * r['top1']:.1f}"] +
                    ["-" if x is None else f"{x:.2f}" for x in over_dense])
    names = {"cpu": "the CPU", "vulkan": "Vulkan", "cuda": "CUDA"}
    on = [names[b] for b in found["devices"]]
    said = ", ".join(on[:-1]) + " and " + on[-1] if len(on) > 1 else on[0]
    text = paragraph(f"""Top-1 accuracy in percent of the demo checkpoint (DeiT-Tiny) on the first {found['tiles']} test images of
        CIFAR-10, in {found['dtype']}, {measured(found)} on {found['date'][:10]}. "Tokens" is the mean count per image after each stage, CLS token
        included. {link(found, found['file'])} has {len(settings)} settings; the largest difference between {said} in any of them is
        {spread:.1f} points.""")
    if timed:
        where = "; ".join(f"{r['device']['backend']} is an {r['device']['name']} in {r['dtype']} at batch {r['results'][0]['batch']}"
                          f" ({link(r)})" for r in timed)
        text += "\n\n" + paragraph(f"""The last column{'s give' if len(timed) > 1 else ' gives'} images per second on the same tiles,
            divided by those of the dense forward: {where}. Below 1, pruning costs more time than it saves.""")
    return text + "\n\n" + table(["policy", "setting", "tokens", "top-1"] + [f"{r['device']['backend']}, x dense" for r in timed], rows)


def accuracy_dtypes(reports):
    """Accuracy of each type with each policy. One report per backend."""
    names = {"cpu": "CPU", "cuda": "CUDA", "vulkan": "Vulkan"}
    found = [r for r in (reports.find("accuracy_dtypes", backend=b) for b in names) if r]
    columns, f32, said, worst = [], {}, [], []
    for report in found:
        for dtype in dict.fromkeys(r["dtype"] for r in report["results"]):
            rows = {(r["policy"], r["settings"]): r for r in report["results"] if r["dtype"] == dtype}
            columns.append((f"{dtype}, {names[report['backend']]}", rows))
            f32.update({key: r["top1_f32"] for key, r in rows.items()})
            pruned = [r for r in rows.values() if r["decisions"]]
            dense = rows[("none", "")]
            losses = [[100 * (r["top1_f32"] - r["top1"]) for r in rows.values() if (r["policy"] == "ats") == is_ats] for is_ats in (False, True)]
            worst.append([dtype, names[report["backend"]], f"{max(losses[0]):.1f}", f"{max(losses[1]):.1f}",
                          f"{dense['logits_rms']:.2g}", f"{dense['logits_largest']:.2g}",
                          f"{sum(r['decisions'] for r in pruned):,}", f"{sum(r['within_margin'] for r in pruned):,}",
                          f"{sum(r['beyond_margin'] for r in pruned):,}", f"{max(r['score_error_rms'] for r in pruned):.1e}"])
        said.append(f"{names[report['backend']]}: {report['results'][0]['device']} ({link(report)}, {report['date'][:10]})")
    text = paragraph(f"""The demo checkpoint (DeiT-Tiny, weights in f16) on the first {found[0]['tiles']} test images of CIFAR-10,
        {' and '.join(sorted({measured(r) for r in found}))}. Each column
        has: top-1 in percent / images in percent with the same class as in f32 / images per thousand that keep other tokens than in
        f32. {'; '.join(said)}.""")
    cells = [[name, setting.replace("=", " "), f"{100 * top1:.1f}"] +
             [f"{100 * rows[name, setting]['top1']:.1f} / {100 * rows[name, setting]['agreement']:.1f} / "
              f"{1000 * rows[name, setting]['different_sets'] / found[0]['tiles']:.0f}" if (name, setting) in rows else "-"
              for _, rows in columns] for (name, setting), top1 in f32.items()]
    text += "\n\n" + table(["policy", "setting", "f32"] + [head for head, _ in columns], cells)
    text += "\n\n" + paragraph("""Over all policies: the largest loss of top-1 in points, for all policies except ats and for ats; the error of the dense forward's logits;
        the number of decisions that were compared, which are those after equal earlier decisions; how many of them differ from f32's within
        the margin that the type explains, and beyond it; and the relative root mean square error of scores, in the stage where it is
        largest.""")
    return text + "\n\n" + table(["type", "on", "loss", "ats", "logits, rms", "largest", "decisions", "within margin", "beyond", "scores, rms"], worst)


def accuracy_random(reports):
    """Errors of models with random weights, next to PyTorch's."""
    found = reports.find("accuracy_random")
    text = paragraph(f"""Full-size models with random weights, {found['results'][0]['n_images']} images of noise, {measured(found)} on the CPU: the error of the
        outputs from float64, as relative root mean square and as largest error relative to the largest output
        ({link(found)}, {found['date'][:10]}; {found['results'][0]['source']}, torchao for int8). At most twice PyTorch's largest is
        allowed.""")
    return text + "\n\n" + table(
        ["model", "type", "rms", "PyTorch, rms", "largest", "twice PyTorch's"],
        [[r["model"], r["dtype"], f"{r['rms']:.1e}", f"{r['pytorch_rms']:.1e}" if r["pytorch_rms"] else "-", f"{r['largest']:.1e}",
          f"{r['tolerance']:.1e}"] for r in found["results"]])


def forwards_table(rows, chosen):
    def cell(model, batch, keep):
        row = rows.get((model, batch, keep))
        if not row:
            return "-"
        ours, theirs = images_per_second(row), images_per_second(row, GRAPH)
        return f"{ours:,.0f} / {f'**{theirs:,.0f}**' if theirs > ours else f'{theirs:,.0f}'}"

    return table(["", "batch", "dense", "keep 0.5", "keep 0.2"],
                 [[MODELS[m][0], str(b)] + [cell(m, b, k) for k in (None, 0.5, 0.2)] for m, b in chosen])


def compared_with_graph(rows):
    """How often raggedvit's forward is faster than PyTorch's, and by how much."""
    ratios = [images_per_second(r) / images_per_second(r, GRAPH) for r in rows.values()]
    faster, kinds = sum(r > 1 for r in ratios), "combinations of model, batch size and kept fraction"
    if faster == len(ratios):
        return f"raggedvit is faster in all {faster} {kinds}, by at least {min(ratios):.2f}x."
    return f"raggedvit is faster in {faster} of {len(ratios)} {kinds}; a figure in bold is faster than raggedvit's."


def results(reports):
    """The table of README.md."""
    run = reports.find("baselines", "forwards")
    rows = forward_rows(run)
    text = paragraph(f"""Images per second of whole forwards, raggedvit / PyTorch, {machine(run)}, in f16, with images and
        logits in device memory ({link(run)}). raggedvit prunes once, by `l2` after block 3. PyTorch replays the same forward as a CUDA
        graph, which keeps a fixed number of tokens per image by a gather. {compared_with_graph(rows)}""")
    return text + "\n\n" + forwards_table(rows, [(m, b) for m, b in FORWARDS if b in (1, 64)])


def forwards(reports):
    run = reports.find("baselines", "forwards")
    rows = forward_rows(run)
    out = [paragraph(f"""Images per second, raggedvit / PyTorch, {machine(run)}, in f16, with images and logits in device memory
        ({link(run)}). Several forwards are enqueued before one wait. raggedvit's are enqueued by a prepared C call
        (`rvit_session_enqueue` through ctypes) and prune once, by `l2` after block 3. PyTorch's are replays of a CUDA graph that keeps a
        fixed number of tokens by a gather. {compared_with_graph(rows)}"""), forwards_table(rows, FORWARDS)]

    base = "deit_base_patch16_224"
    ideal = [f"{100 * images_per_second(rows[(base, 64, k)]) / images_per_second(rows[(base, 64, None)]) / ideal_speed_up(base, k):.0f} %"
             for k in (0.5, 0.2)]
    text = f"""Measured against its own dense forward, the pruned DeiT-B at batch 64 reaches {ideal[0]} (keep 0.5) and {ideal[1]} (keep
        0.2) of the speed-up that its number of multiplications (MACs) allows."""
    return "\n\n".join(out + [paragraph(text)])


def attention(reports):
    run = reports.find("baselines", "attention")
    rows = {r["point"]: r for r in run["attention"] if "gpu_us" in r}
    lines = []
    for point, name in ATTENTION:
        ours = median(rows[point], "gpu_us", OURS)
        cells = []
        for baseline, _ in BASELINES:
            theirs = median(rows[point], "gpu_us", baseline)
            cells.append("-" if theirs is None else f"**{theirs:.1f}**" if theirs < ours else f"{theirs:.1f}")
        lines.append([name, f"{ours:.1f}"] + cells)

    def mean(baseline):
        return geometric_mean(median(r, "gpu_us", baseline) / median(r, "gpu_us", OURS) for r in rows.values() if median(r, "gpu_us", baseline))

    compared, lost = comparisons(run), losses(run)
    text = paragraph(f"""Over {len(rows)} points raggedvit is {mean(FLASH):.2f} times as fast as FlashAttention-2 and {mean(TRITON):.2f}
        times as fast as the Triton kernel (geometric means). A baseline is faster at {len(lost)} of the {len(compared)} measured combinations of point and baseline
        ([which](bench/README.md#where-a-baseline-is-faster)).""")
    bold = any("**" in cell for line in lines for cell in line)
    head = paragraph(f"""GPU microseconds per call, {machine(run)}, in f16, with 12 heads of 64 channels ({link(run)}). The time
        is that of a CUDA graph's replay, without host time. FlashAttention-2 is the kernel that PyTorch ships. The Triton kernel
        is ours, with the best of eleven tiles at each point. "SDPA, padded" pads to the longest image and has no mask, so its result is
        wrong on ragged batches; "SDPA, key mask" is right. {'A figure in bold is faster than raggedvit.' if bold else
        'raggedvit is the fastest in every row of this table.'}""")
    return "\n\n".join([head, table(["", "raggedvit"] + [name for _, name in BASELINES], lines), text])


def comparisons(run):
    """All comparisons in the report: (the baseline's time over ours, point, baseline, our us, its us)."""
    found = []
    for r in run["attention"]:
        ours = median(r, "gpu_us", OURS)
        found += [(times["median"] / ours, f"attention, {r['point']}", baseline, ours, times["median"])
                  for baseline, times in r.get("gpu_us", {}).items() if baseline != OURS and times.get("median")]
    return found


def losses(run):
    """The comparisons in which a baseline is faster, worst first."""
    return sorted(cell for cell in comparisons(run) if cell[0] < 1)


def worst(reports):
    found = losses(reports.find("baselines", "attention"))
    text = paragraph(f"A baseline is faster at {len(found)} combination{'' if len(found) == 1 else 's'} of point and baseline{'; the worst three' if len(found) > 3 else ''}:")
    rows = [[what, baseline, f"{ours:.2f}", f"{theirs:.2f}", f"{ratio:.3f}"] for ratio, what, baseline, ours, theirs in found[:3]]
    return text + "\n\n" + table(["point", "baseline", "raggedvit, us", "baseline, us", "baseline's time over ours"], rows) if rows else text


CPU_BASELINES = {"f32": ("raggedvit", "OpenVINO", "ONNX Runtime", "PyTorch"), "bf16": ("raggedvit", "OpenVINO", "PyTorch"),
              "int8": ("raggedvit", "OpenVINO", "ONNX Runtime")}


def cpu_baselines(reports):
    """Whole forwards, compared with other programs on the same cores."""
    found = reports.find("cpu_baselines", where=lambda report: "onnxruntime" in report["versions"])
    versions, points = found["versions"], {}
    for r in found["results"]:
        points.setdefault((r["cores"], r["model"], r["batch"]), {})[r["baseline"]] = median(r, "ms_per_image")

    def of(name, dtype):
        return f"{name.lower().replace(' ', '')} {dtype}"

    shown = {dtype: [name for name in names if any(ms.get(of(name, dtype)) for ms in points.values())] for dtype, names in CPU_BASELINES.items()}
    rows = []
    for (cores, model, batch), ms in sorted(points.items(), key=lambda item: (item[0][0], list(MODELS).index(item[0][1]), item[0][2])):
        cells = []
        for dtype, names in shown.items():
            each = [ms.get(of(name, dtype)) for name in names]
            least = min(x for x in each if x) if sum(map(bool, each)) > 1 else None
            cells.append(" / ".join(f"**{three(x)}**" if x and x == least else three(x) for x in each))
        rows.append([f"{cores} cores", MODELS[model][0].removesuffix(" 224"), str(batch)] + cells + [three(ms.get("raggedvit bf16 keep 0.2"))])

    def against(baseline, ours):
        ratios = [ms[baseline] / ms[ours] for ms in points.values() if ms.get(baseline) and ms.get(ours)]
        return (f"{min(ratios):.2f} to {max(ratios):.2f} times as fast as {baseline.replace('openvino', 'OpenVINO')} (geometric mean of"
                f" {len(ratios)} points: {geometric_mean(ratios):.2f})")

    text = paragraph(f"""Milliseconds per image for whole forwards at 224 pixels, from host memory to host memory, one batch at a time,
        {measured(found)} on virtual cores of an {found['machine']['cpu']} with {'AMX' if 'amx_tile' in found['machine']['flags'] else 'AVX-512'} (OpenVINO
        {versions['openvino'].split('-')[0]}, ONNX Runtime {versions['onnxruntime']}, PyTorch {versions['torch'].split('+')[0]},
        {found['date'][:10]}, {link(found)}). Each program uses its best settings ([list](bench/notes/cpu-baselines.md)); the fastest of a type is in bold. The host is
        shared and its clock varies by up to a factor of two between points, so compare only within a row. In bf16 raggedvit is
        {against("openvino bf16", "raggedvit bf16")}, in f32 {against("openvino f32", "raggedvit f32")}, in int8
        {against("openvino int8", "raggedvit int8")}.""")
    return text + "\n\n" + table(["", "model", "batch"] + [f"{dtype}: " + " / ".join(names) for dtype, names in shown.items()] + [
        "raggedvit bf16, keep 0.2"], rows)


def three(value):
    """Rounds to three digits."""
    return "-" if value is None else f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def calls(reports):
    """Host time of the functions that a Python program calls: median, minimum and maximum of the runs' medians."""
    found = reports.find("python_calls")
    versions, runs = found["versions"], found["runs"]
    text = paragraph(f"""Host microseconds of one eager call from Python {'.'.join(versions['python'].split('.')[:2])},
        {machine(found)}, in f16, with 12 heads of 64 channels ({link(found)}): the median of {len(runs)} runs' medians, and in brackets
        their minimum and maximum. "Triton, prebuilt" skips Triton's lookup of the compiled kernel.""")
    rows = []
    for name in runs[0][0]["python_us"]:
        each = [sorted(median(point, "python_us", name) for run in runs for point in run if point["point"] == key) for key, _ in CALLS]
        rows.append([dict(BASELINES).get(name, name).replace("launch alone", "launch")] + [f"{statistics.median(us):.1f} ({us[0]:.1f} to {us[-1]:.1f})" for us in each])
    return text + "\n\n" + table(["call"] + [label for _, label in CALLS], rows)


# Reports of devices that no self-test has run on yet, with the backend that they measured.
BEFORE_SELFTEST = {"h100_serving.json": "cuda", "h100_vulkan_direct.json": "vulkan"}
TIMINGS = ["attention of 64 images of 197 tokens, 3 heads", "DeiT-T, batch 1, dense", "DeiT-T, batch 1, l2 keep 0.5",
           "DeiT-T, batch 32, dense", "DeiT-T, batch 32, l2 keep 0.5"]


def devices(reports):
    """A row for each device of each self-test, and for devices that were measured before there was one."""
    tests = sorted((r for r in reports if r["benchmark"] == "selftest"), key=lambda r: (r["date"], r["file"]))
    rows, known = [], set()
    for test in tests:
        for device in (d for d in test["devices"] if d["usable"] and d["checks"]):
            timings = {t["name"]: t for t in device["timings"]}
            known.add((device["name"], device["backend"]))
            where = f" on {test['machine']['cpu']}" if device["software"] else ""
            rows.append([device["name"] + where, device["backend"], device["driver"], device["tier"],
                         f"{device['passed']} of {device['passed'] + device['failed']}", next((t["dtype"] for t in timings.values()), "")] +
                        [three(timings[name]["ms"]["median"]) if name in timings else "" for name in TIMINGS] +
                        [f"{link(test)}, {test['date'][:10]}"])
    before = [(r, BEFORE_SELFTEST[r["file"]]) for r in reports if r["file"] in BEFORE_SELFTEST]
    for report, backend in before:
        device = report.get("device") or {"name": report["machine"]["cpu"]}
        if (device["name"], backend) not in known:
            rows.append([device["name"], backend, device.get("driver", ""), device.get("tier", ""), "", ""] + [""] * len(TIMINGS) +
                        [f"{link(report)}, {report['date'][:10]}"])
    text = paragraph(f"""Self-tests were {' and '.join(sorted({measured(r) for r in tests}))}. Times are medians in milliseconds, in the
        type of the column before them: attention of 64 images of 197 tokens with 3 heads of 64 channels, and forwards of DeiT-T from
        images in mapped memory to logits in mapped memory, dense and with `l2`, which keeps half of the patches after block 3. Rows
        without checks are of devices that were {' and '.join(sorted({measured(r) for r, _ in before}))}, before there was a self-test;
        their reports have other figures. The machine of the virtual processors is shared, so their times vary.""")
    return text + "\n\n" + table(["device", "backend", "driver", "tier", "checks passed", "type", "attention", "batch 1, dense",
                                  "batch 1, l2", "batch 32, dense", "batch 32, l2", "report"], rows)


# The tables of each page. Other text is not changed.
PAGES = {"README.md": {"photo": photo, "results": results},
         "bench/README.md": {"forwards": forwards, "attention": attention, "cpu_baselines": cpu_baselines, "calls": calls, "worst": worst},
         "docs/pruning.md": {"accuracy": accuracy},
         "docs/accuracy.md": {"accuracy_dtypes": accuracy_dtypes, "accuracy_random": accuracy_random},
         "docs/devices.md": {"devices": devices}}


def main():
    check, reports, differ = "--check" in sys.argv[1:], read(), False
    for page, blocks in PAGES.items():
        path = ROOT / page
        old = path.read_text()
        used = re.findall(r"<!-- begin (\w+) -->\n.*?<!-- end \1 -->", old, flags=re.S)
        if sorted(used) != sorted(blocks):
            sys.exit(f"tables: {page} has the tables {', '.join(sorted(used))}; expected {', '.join(sorted(blocks))}")

        def fill(match, page=page, blocks=blocks):
            name = match.group(1)
            return f"<!-- begin {name} -->\n{on_page(blocks[name](reports), page)}\n<!-- end {name} -->"

        new = re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end \1 -->", fill, old, flags=re.S)
        if new != old and check:
            differ = True
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), page, "from bench/results"))
        elif new != old:
            path.write_text(new)
            print(f"{page}: rewritten")
    if differ:
        sys.exit("tables: run bench/tables.py")


if __name__ == "__main__":
    main()
