#!/usr/bin/env python3
"""Writes a gnuplot script FOLDER/FIGURE.gp for each figure that reports have the data for. bench/plots.sh runs them.

    bench/plots.py FOLDER [REPORT.json...]      without reports: uses bench/results, and makes only the figures that exist there
"""

import pathlib
import re
import sys
import textwrap

from reports import (FLASH, FUNCTION, GRAPH, MODELS, OPERATOR, OURS, PREPARED, RESULTS, TRITON, by_batch, by_policy, by_ratio, day,
                     forward_rows, ideal_speed_up, images_per_second, median, read)

# Okabe and Ito's colour-blind safe colours. Point types and dashes distinguish the series, too.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D1F"]
POINTS = [7, 5, 9, 11, 13, 15, 4, 6, 8, 10, 12, 14]
WHO = {OURS: 0, FLASH: 1, TRITON: 2, "padded SDPA": 3, "padded SDPA, key mask": 4, "cuDNN SDPA": 5, "varlen_attn": 6}


class Lines:
    """A panel with lines. series: (label, style number, dashed, [(x, y) or (x, y, low, high)])"""

    def __init__(self, title, x, y, series, log_x=True, log_y=False, y_range=None, ticks=None):
        self.title, self.x, self.y, self.log_x, self.log_y = title, x, y, log_x, log_y
        self.series = [s for s in series if s[3]]
        self.y_range, self.ticks = y_range, ticks

    def empty(self):
        return not self.series

    def legend(self):
        return [(label, style_of(style, dashed), "linespoints") for label, style, dashed, _ in self.series]

    def script(self, tag):
        out, plots = [], []
        xs = self.ticks or sorted({p[0] for s in self.series for p in s[3]})
        if self.log_x:
            out.append(f"set logscale x 2\nset xrange [{xs[0] / 1.3}:{xs[-1] * 1.3}]")
        else:
            span = xs[-1] - xs[0]
            last = max(xs[-1], max(p[0] for s in self.series for p in s[3]))
            out.append(f"set xrange [{xs[0] - 0.03 * span}:{last + 0.03 * span}]")
        if self.log_y:
            out.append(log_axis([v for s in self.series for p in s[3] for v in p[1:]]))
        elif self.y_range:
            out.append(f"set yrange [{self.y_range[0]}:{self.y_range[1]}]")
        else:
            out.append("set yrange [0:*]")
        out.append("set xtics (" + ", ".join(f'"{x:,g}" {x}' for x in xs) + ")")
        for i, (_, style, dashed, points) in enumerate(self.series):
            block = f"${tag}_{i}"
            out.append(f"{block} << EOD\n" + "\n".join(" ".join(f"{v:.6g}" for v in p) for p in points) + "\nEOD")
            kind = "yerrorlines" if len(points[0]) == 4 else "linespoints"
            plots.append(f"{block} using 1:2{':3:4' if kind == 'yerrorlines' else ''} with {kind} {style_of(style, dashed)} notitle")
        return out, plots


def log_axis(values):
    """Range and ticks of a logarithmic y axis: 1, 2 and 5 times powers of ten, or only powers of ten if there are many."""
    low, high = min(values) / 1.3, max(values) * 1.4
    ticks = [m * 10.0**e for e in range(-9, 8) for m in (1, 2, 5) if low <= m * 10.0**e <= high]
    if len(ticks) > 9:
        ticks = [t for t in ticks if f"{t:e}".startswith("1.0")]
    names = ", ".join(f'"{t:,.0f}" {t:g}' if t >= 1 else f'"{t:g}" {t:g}' for t in ticks)
    return f"set logscale y\nset yrange [{low:g}:{high:g}]\nset ytics ({names})\nunset mytics"


def style_of(style, dashed=False):
    return (f"lc rgb '{COLOURS[style % len(COLOURS)]}' lw 2 dt {2 if dashed else 1} pt {POINTS[style % len(POINTS)]}"
            f" ps {0.01 if dashed else 1.1}")


class Bars:
    """A panel with bars. series: (label, style number, [value or None for each category])"""

    def __init__(self, title, y, categories, series, stacked=False, log_y=False, rotate=False, line=None, labels=False, under=96):
        self.title, self.x, self.y, self.categories, self.stacked, self.log_y = title, "", y, categories, stacked, log_y
        self.series, self.rotate, self.line, self.labels = [s for s in series if any(s[2])], rotate, line, labels
        self.under = under  # pixels for rotated names

    def empty(self):
        return not self.series or not self.categories

    def legend(self):
        lines = [(self.line[0], "lc rgb '#000000' lw 1.5 dt 2", "lines")] if self.line else []
        kind = "boxes fs solid 0.85 border rgb '#333333'"
        return [(label, f"lc rgb '{COLOURS[style]}'", kind) for label, style, _ in self.series] + lines

    def script(self, tag):
        out, plots = ["unset logscale x"], []
        if self.log_y:
            out.append(log_axis([v for s in self.series for v in s[2] if v] + ([1] if self.line else [])))
        else:
            top = 1.12 * max(v for s in self.series for v in s[2] if v) if self.labels else "*"
            out.append(f"unset logscale y\nset yrange [0:{top}]")
        n = 1 if self.stacked else len(self.series)
        width = 0.8 / n
        tics = ", ".join(f'"{name}" {i}' for i, name in enumerate(self.categories))
        out.append(f"set xtics ({tics}) {'rotate by 35 right' if self.rotate else 'norotate center'} scale 0")
        out.append(f"set xrange [-0.6:{len(self.categories) - 0.4}]\nunset mxtics")
        out.append(f"set boxwidth {width:.4f} absolute")
        base = [0.0] * len(self.categories)
        order = []
        for i, (_, style, values) in enumerate(self.series):
            rows = []
            for c, value in enumerate(values):
                if value is None:
                    continue
                x = c if self.stacked else c + (i - (n - 1) / 2) * width
                rows.append((x, base[c] + value))
                if self.stacked:
                    base[c] += value
            block = f"${tag}_{i}"
            out.append(f"{block} << EOD\n" + "\n".join(f'{x:.4f} {y:.6g} "{short(y)}"' for x, y in rows) + "\nEOD")
            order.append(f"{block} using 1:2 with boxes fs solid 0.85 border rgb '#333333' lc rgb '{COLOURS[style]}' notitle")
            if self.labels:
                order.append(f"{block} using 1:2:3 with labels offset 0,{1.2 if self.line else 0.6} font ',8' notitle")
        # Draw the tallest bar of a stack first and the others over it.
        plots = order[::-1] if self.stacked else order
        if self.line:
            plots.insert(0, f"{self.line[1]} with lines lc rgb '#000000' lw 1.5 dt 2 notitle")
        return out, plots


def short(value):
    """Rounds to three digits: 111k, 9.40k, 43.9, 0.00343."""
    return f"{value / 1000:#.3g}k".replace(".k", "k") if value >= 1000 else f"{value:#.3g}".rstrip(".")


class Figure:
    def __init__(self, name, title, panels, columns=1, note="", panel_size=(430, 330)):
        self.name, self.title, self.note, self.columns = name, title, note, columns
        self.panels = [p for p in panels if not p.empty()]
        self.panel_size = panel_size
        self.legend_width = 60 + 8 * max((len(label) for p in self.panels for label, _, _ in p.legend()), default=0)

    def script(self):
        columns = min(self.columns, len(self.panels))
        rows = -(-len(self.panels) // columns)
        panels_width = columns * self.panel_size[0]
        width = max(panels_width + self.legend_width, 7 * len(self.note), 10 * len(self.title))
        top, bottom = 42, 22 if self.note else 4
        height = rows * self.panel_size[1] + top + bottom
        out = ["set multiplot"]
        legend = {}
        for i, panel in enumerate(self.panels):
            for label, style, kind in panel.legend():
                legend.setdefault(label, (style, kind))
            column, row = i % columns, i // columns
            under = panel.under if getattr(panel, "rotate", False) else 68
            left, right = column * self.panel_size[0] + 100, (column + 1) * self.panel_size[0] - 14
            high, low = height - top - row * self.panel_size[1] - 26, height - top - (row + 1) * self.panel_size[1] + under
            out += ["reset", "unset key\nset grid ytics lc rgb '#dddddd' lw 1\nset border 3\nset tics nomirror out"]
            if i == 0:
                out += [f"set label 1 '{quote(self.title)}' at screen 0.5,{1 - 20 / height:.4f} center font ',14'"]
                if self.note:
                    out.append(f"set label 2 '{quote(self.note)}' at screen 0.5,{13 / height:.4f} center font ',9'")
            out.append(f"set lmargin at screen {left / width:.4f}\nset rmargin at screen {right / width:.4f}")
            out.append(f"set tmargin at screen {high / height:.4f}\nset bmargin at screen {low / height:.4f}")
            out.append(f"set title '{quote(panel.title)}' font ',11' offset 0,-0.4\nset xlabel '{quote(panel.x)}'")
            out.append(f"set label 3 '{quote(panel.y)}' at screen {(left - 82) / width:.4f},{(high + low) / 2 / height:.4f} center rotate")
            lines, plots = panel.script(f"p{i}")
            out += lines
            out.append("plot " + ", \\\n     ".join(plots))
        # The legend has its own panel, so that it covers no data.
        out.append("reset\nunset tics\nunset border\nunset xlabel\nunset ylabel\nunset title\nset xrange [0:1]\nset yrange [0:1]")
        out.append(f"set lmargin at screen {(panels_width + 4) / width:.4f}")
        out.append(f"set rmargin at screen {(panels_width + self.legend_width - 4) / width:.4f}")
        out.append(f"set tmargin at screen {1 - top / height:.4f}\nset bmargin at screen {bottom / height:.4f}")
        out.append("set key left top Left reverse samplen 2 spacing 1.25 font ',10' width -2")
        entries = [f"NaN with {kind} {style} title '{quote(label)}'" for label, (style, kind) in legend.items()]
        out.append("plot " + ", \\\n     ".join(entries))
        out.append("unset multiplot")
        return width, height, "\n".join(out) + "\n"


def quote(text):
    return text.replace("'", "''")


def slug(device):
    return re.sub(r"[^a-z0-9]+", "_", re.sub(r"^(NVIDIA|AMD|Intel\(R\)) ", "", device).lower()).strip("_")


def points_of(rows, value):
    return sorted((r["batch"], value(r)) for r in rows if value(r))


# --- the figures: each takes all reports and a device's name, and gives a Figure or None -------------------------------------------------


def attention(reports, device):
    run = reports.find("baselines", "attention", name=device)
    if not run:
        return None
    rows = [r for r in run["attention"] if "gpu_us" in r and r.get("swept")]
    names = [n for n in WHO if n != "varlen_attn"]
    panels = []
    for kept in sorted({r["longest"] for r in rows}, reverse=True):
        chosen = [r for r in rows if r["longest"] == kept]
        series = [(n, WHO[n], False, points_of(chosen, lambda r, n=n: median(r, "gpu_us", n))) for n in names]
        panels.append(Lines(f"{kept} of 197 tokens", "images", "GPU us a call", series, log_y=True))
    return Figure(f"{slug(device)}_attention", f"Attention, 12 heads of 64, f16: {device}, {day(run)}", panels, 2,
                  "Median of a CUDA graph's replays, warm caches. Padded ones pad to 197 tokens; without a key mask the result is wrong"
                  " on ragged batches.")


def overhead(reports, device):
    run, ours = reports.find("baselines", "host", name=device), reports.find("attention", name=device, backend="cuda")
    timed = reports.find("baselines", "attention", name=device)
    if not run or not timed:
        return None
    row = run["host"][0]
    gpu = next((r["gpu_us"] for r in timed["attention"] if r.get("point") == row["point"] and "gpu_us" in r), {})
    mine = next((r for r in (ours or {}).get("results", []) if f"B={r['batch']} S={r['length']}" == row["point"]), {})
    host, names = [], []
    for label, value, device_us in (
            ("raggedvit, C", median(mine, "host_us"), median(gpu, OURS)),
            (PREPARED, median(row, "python_us", PREPARED) or median(row, "python_us", OURS), median(gpu, OURS)),
            (FUNCTION, median(row, "python_us", FUNCTION), median(gpu, OURS)),
            (OPERATOR, median(row, "python_us", OPERATOR), median(gpu, OURS)),
            ("Triton varlen, compiled kernel launched directly", median(row, "python_us", "Triton, prebuilt"), median(gpu, TRITON)),
            ("Triton varlen", median(row, "python_us", TRITON), median(gpu, TRITON)),
            ("FA2 varlen, operator from C++", median(row, "cpp_us", FLASH), median(gpu, FLASH)),
            ("FA2 varlen, operator", median(row, "python_us", FLASH), median(gpu, FLASH)),
            ("FA2 varlen, varlen_attn", median(row, "python_us", "varlen_attn"), median(gpu, "varlen_attn")),
            ("padded SDPA", median(row, "python_us", "padded SDPA"), median(gpu, "padded SDPA")),
            ("cuDNN SDPA", median(row, "python_us", "cuDNN SDPA"), median(gpu, "cuDNN SDPA"))):
        if value:
            names.append("\\n".join(textwrap.wrap(label, 24)))
            host.append((value, device_us))
    floor = median(ours or {}, "floor_before", "empty_launch_us")
    panel = Bars(f"{row['point']}: one eager call", "us", names,
                 [("host, to enqueue it", 1, [h for h, _ in host]), ("GPU, to run it", 0, [g for _, g in host])], rotate=True, labels=True,
                 under=150, line=("host, an empty launch", f"{floor:.4f}") if floor else None)
    return Figure(f"{slug(device)}_overhead", f"What a call costs beside its work: {device}, {day(run, timed, ours)}", [panel], 1,
                  "Host: 100 calls in a row, the clock stopped before the wait. From Python unless the label says C or C++."
                  " Prepared calls and Triton write to an output allocated beforehand.", (900, 440))


def throughput(reports, device):
    model = "deit_base_patch16_224"
    run, more, compiled = (reports.find("baselines", s, name=device) for s in ("forwards", "eager", "compile"))
    if not run:
        return None
    rows = forward_rows(run)
    batches = sorted({b for m, b, _ in rows if m == model})

    def series(section, who, keep):
        return sorted((b, images_per_second(r, who)) for (m, b, k), r in forward_rows(*section).items()
                      if m == model and k == keep and images_per_second(r, who))

    lines = [("raggedvit, keep 0.5", 0, False, series((run, "forwards"), OURS, 0.5)),
             ("raggedvit, dense", 0, True, series((run, "forwards"), OURS, None)),
             ("PyTorch graph, gather", 1, False, series((run, "forwards"), GRAPH, 0.5)),
             ("PyTorch graph, dense", 1, True, series((run, "forwards"), GRAPH, None)),
             ("torch.compile, gather", 2, False, series((compiled or {}, "compile"), "torch.compile", 0.5)),
             ("padded graph, key mask", 3, False, series((more or {}, "eager"), "padded graph, key mask", 0.5)),
             ("eager, Triton varlen", 4, False, series((more or {}, "eager"), "eager, Triton varlen", 0.5)),
             ("eager, FA2 varlen", 5, False, series((more or {}, "eager"), "eager, FA2 varlen", 0.5))]
    panel = Lines("DeiT-B 224, f16, half of the tokens after block 3", "images in a batch", "images a second", lines, log_y=True,
                  ticks=batches)
    return Figure(f"{slug(device)}_throughput", f"Whole forwards: {device}, {day(run, more, compiled)}", [panel], 1,
                  "Several enqueued, one wait. Images and logits in device memory. raggedvit by prepared C calls through ctypes.",
                  (620, 420))


def ratio(reports, device):
    run = reports.find("baselines", "forwards", name=device)
    panels, used = [], []
    for model, (title, _, tokens) in MODELS.items():
        swept = reports.find("forward", name=device, model=model, where=by_ratio)
        x_ideal = [i / 20 for i in range(0, 19)]
        lines = [("ideal, by MACs", 6, True, [(p, ideal_speed_up(model, 1 - p)) for p in x_ideal])]
        if swept:
            used.append(swept)
            dense = next(median(r, "ms_per_image") for r in swept["results"] if r["prune"] == "none")
            batch = swept["results"][0]["batch"]
            lines.append((OURS, 0, False, [(0, 1)] + [(1 - r["keep"], dense / median(r, "ms_per_image")) for r in swept["results"]
                                                      if r["prune"] == "l2"]))
        elif run:
            rows, batch = forward_rows(run), 64
            points = [(1 - keep, images_per_second(rows.get((model, batch, keep))) / images_per_second(rows[(model, batch, None)]))
                      for keep in (0.5, 0.2) if (model, batch, keep) in rows]
            lines.append((OURS, 0, False, [(0, 1)] + points if points else []))
        if run:
            rows = forward_rows(run)
            points = [(1 - keep, images_per_second(rows[(model, 64, keep)], GRAPH) / images_per_second(rows[(model, 64, None)], GRAPH))
                      for keep in (0.5, 0.2) if (model, 64, keep) in rows]
            lines.append(("PyTorch graph, gather", 1, False, [(0, 1)] + points if points else []))
        if len([s for s in lines if s[3]]) > 1:
            panels.append(Lines(f"{title}, B = {batch}", "share of tokens pruned after block 3", "speed-up over its own dense forward",
                                lines, log_x=False, y_range=(0.8, 2.8), ticks=[0, 0.2, 0.4, 0.6, 0.8]))
    if not panels:
        return None
    return Figure(f"{slug(device)}_ratio", f"Speed-up by prune ratio: {device}, {day(*(used or [run]), run)}", panels, 2,
                  "Each against its own dense forward in its own run. The ideal counts the MACs of the blocks, nothing else.")


def stages(reports, device):
    run, panels, used = reports.find("baselines", "stages", name=device), [], []
    for model in MODELS:
        ours = reports.find("stages", name=device, model=model)
        if not ours:
            continue
        used.append(ours)
        categories, columns = [], []
        for row in ours["results"]:
            categories.append(f"raggedvit, B={row['batch']}")
            columns.append(row)
            theirs = next((r for r in (run or {}).get("stages", [])
                           if (r["model"], r["batch"]) == (model, row["batch"]) and "front" in r), None)
            if theirs:
                categories.append(f"PyTorch, B={row['batch']}")
                columns.append(theirs)
        batch = [int(c.rsplit("=", 1)[1]) for c in categories]
        series = [(name, i, [(median(c, part) or 0) / b for c, b in zip(columns, batch)])
                  for i, (part, name) in enumerate((("front", "embedding, blocks 0 to 3"), ("prune", "prune stage"),
                                                    ("late", "blocks 4 to 11"), ("head", "head")))]
        panels.append(Bars(f"{MODELS[model][0]}, {ours['dtype']}, keep {ours['keep']:g}", "us an image", categories, series, stacked=True,
                           rotate=True))
    if not panels:
        return None
    return Figure(f"{slug(device)}_stages", f"Where a pruned forward's time goes: {device}, {day(*used, run)}", panels, 2,
                  "Each part replayed by itself." + (" PyTorch's gather is in its prune stage; ours is in the layernorm of block 4."
                                                     if run else ""))


def scaling(reports, device):
    run = reports.find("baselines", "forwards", name=device)
    if not run:
        return None
    rows = forward_rows(run)
    models = [m for m in MODELS if any(k[0] == m for k in rows)]

    def peak(model, who, keep):
        return max((images_per_second(r, who) for (m, _, k), r in rows.items() if m == model and k == keep), default=None)

    series = [(label, style, [peak(m, who, keep) for m in models]) for label, style, who, keep in (
        ("raggedvit, dense", 5, OURS, None), ("raggedvit, keep 0.5", 0, OURS, 0.5), ("PyTorch graph, dense", 4, GRAPH, None),
        ("PyTorch graph, gather 0.5", 1, GRAPH, 0.5))]
    panel = Bars("the best over batch sizes 1 to 256", "images a second", [MODELS[m][0] for m in models], series, log_y=True, labels=True)
    return Figure(f"{slug(device)}_scaling", f"DeiT-T, S and B, f16: {device}, {day(run)}", [panel], 1, "", (760, 400))


def resolution(reports, device):
    run = reports.find("baselines", "forwards", name=device)
    if not run:
        return None
    rows, panels = forward_rows(run), []
    for model in ("deit_base_patch16_224", "deit_base_patch16_384"):
        lines = []
        for who in (OURS, GRAPH):
            for style, keep in enumerate((None, 0.5, 0.2)):
                points = sorted((b, images_per_second(r, who)) for (m, b, k), r in rows.items() if m == model and k == keep)
                label = f"{'raggedvit' if who == OURS else 'PyTorch graph'}, {'dense' if keep is None else f'keep {keep}'}"
                lines.append((label, style, who == GRAPH, points))
        panels.append(Lines(f"{MODELS[model][0]}, {MODELS[model][2]} tokens", "images in a batch", "images a second", lines, log_y=True))
    return Figure(f"{slug(device)}_resolution", f"224 and 384 pixels, f16: {device}, {day(run)}", panels, 2)


def difference(reports, device):
    run, exact = reports.find("baselines", "attention", name=device), reports.find("baselines", "accuracy", name=device)
    if not run:
        return None
    rows = [r for r in run["attention"] if r.get("errors") and r["batch"] == 64 and r["rows"] == 64 * r["longest"]]
    names = [(OURS, 0), (FLASH, 1), (TRITON, 2), ("padded SDPA, key mask", 4)]
    panels = [Lines("attention, 64 images", "tokens", "relative error, 1e-4",
                    [(n, s, False, sorted((r["longest"], 1e4 * r["errors"][n]["relative"]) for r in rows if n in r["errors"]))
                     for n, s in names])]
    if exact:
        chosen = [r for r in exact["accuracy"] if r["model"] in MODELS]
        panels.append(Bars("logits of whole dense forwards", "largest difference", [MODELS[r["model"]][0] for r in chosen],
                           [(OURS, 0, [r["raggedvit_f16"]["largest"] for r in chosen]),
                            ("PyTorch, f16", 1, [r["pytorch"]["largest"] for r in chosen])], labels=True))
    return Figure(f"{slug(device)}_difference", f"f16 against float64: {device}, {day(run, exact)}", panels, 2)


def policies(reports, device):
    accuracy = reports.find("accuracy")
    fast = reports.find("forward", name=device, where=by_policy)
    if not accuracy or not fast:
        return None
    right = {(r["prune"], r["settings"]): 100 * r["top1"] for r in accuracy["results"]}
    named = {}
    for r in fast["results"]:
        if (r["prune"], r["settings"]) in right:
            named.setdefault(r["prune"], []).append((r["images_per_second"], right[(r["prune"], r["settings"])]))
    order = "l2 evit evit-fused dynamicvit ats tome none evit-paper l2-threshold dynamicvit-gate ats-paper random received".split()
    styles = {name: i for i, name in enumerate(order)}
    lines = [(n, styles.get(n, 0), False, sorted(points)) for n, points in sorted(named.items(), key=lambda kv: styles.get(kv[0], 99))]
    low = min(y for _, _, _, p in lines for _, y in p)
    where = f"{fast['device']['backend']}, {fast['dtype']}, B = {fast['results'][0]['batch']}"
    panel = Lines(f"demo checkpoint (DeiT-T), CIFAR-10 tiles, {where}", "images a second", "top-1, %", lines, log_x=False,
                  y_range=(int(low) - 1, 86), ticks=ticks_over([x for _, _, _, p in lines for x, _ in p]))
    return Figure(f"{slug(device)}_policies", f"Accuracy against throughput: {device}, {day(fast)}", [panel], 1,
                  f"Each policy at several settings; top-1 in {accuracy['dtype']}, on 1000 test tiles 1 point is within the error."
                  " Lengths are truly ragged.",
                  (720, 460))


def ticks_over(values):
    low, high = min(values), max(values)
    step = next(m * 10.0**e for e in range(-3, 9) for m in (1, 2, 5) if (high - low) / (m * 10.0**e) <= 7)
    return [i * step for i in range(int(low // step), int(-(-high // step)) + 1)]


def ragged(reports, device):
    run, whole = reports.find("baselines", "attention", name=device), reports.find("baselines", "eager", name=device)
    if not run:
        return None
    rows = [r for r in run["attention"] if "gpu_us" in r and not r["swept"]]
    names = [n for n in WHO if n not in ("cuDNN SDPA", "varlen_attn", OURS)]
    panels = [Bars("attention, ragged and at 577 tokens", "GPU time over raggedvit's", [r["point"] for r in rows],
                   [(n, WHO[n], [(median(r, "gpu_us", n) or 0) / median(r, "gpu_us", OURS) or None for r in rows]) for n in names],
                   rotate=True, log_y=True, line=("raggedvit = 1", "1"))]
    found = [r for r in (whole or {}).get("eager", []) if r["keep"] is None and OURS in r]
    others = [("padded graph, key mask", 3), ("eager, Triton varlen", 2), ("eager, FA2 varlen", 1)]
    panels.append(Bars("DeiT-B 224, a threshold on norms", "images a second", [f"B={r['batch']}" for r in found],
                       [(OURS, 0, [images_per_second(r) for r in found])] +
                       [(n, s, [images_per_second(r, n) for r in found]) for n, s in others], log_y=True))
    return Figure(f"{slug(device)}_ragged", f"Truly ragged lengths, f16: {device}, {day(run, whole if found else None)}", panels, 2,
                  "Below the dashed line a baseline is faster.", (640, 400))


def vulkan(reports, device):
    def tiers(benchmark, **fields):
        for backend, tier, label, style in (("cuda", "matrix", "CUDA", 0), ("vulkan", "matrix", "Vulkan, matrix", 1),
                                            ("vulkan", "subgroup", "Vulkan, subgroup", 2), ("vulkan", "scalar", "Vulkan, scalar", 3)):
            report = reports.find(benchmark, name=device, backend=backend, tier=tier, **fields)
            if report:
                yield report, label, style

    kernels, used = [], []
    for report, label, style in tiers("attention", dtype="f16"):
        used.append((report, label))
        long = [r for r in report["results"] if r["length"] == 197]
        kernels.append((label, style, False, points_of(long, lambda r: median(r, "device_us"))))
    panels = [Lines("attention, 197 tokens, 12 heads of 64", "images", "us a call", kernels, log_y=True)]
    lines = []
    for report, label, style in tiers("forward", model="deit_base_patch16_224", dtype="f16", where=by_batch):
        used.append((report, label))
        for keep, dashed in ((1.0, True), (0.5, False)):
            lines.append((f"{label}, {'dense' if keep == 1 else 'keep 0.5'}", style, dashed, sorted(
                (r["batch"], r["images_per_second"]) for r in report["results"] if r["keep"] == keep and r["prune"] in ("none", "l2"))))
    panels.append(Lines("DeiT-B 224, latency of one batch at a time", "images in a batch", "images a second", lines, log_y=True))
    if not any("Vulkan" in label for _, label in used):
        return None
    return Figure(f"{slug(device)}_vulkan", f"Vulkan beside CUDA, f16: {device}, {day(*(r for r, _ in used))}", panels, 2,
                  "CUDA: GPU time by events. Vulkan: host time of a recording of 10 to 20 calls and one wait, divided.")


def cpu(reports, device):
    found = reports.find("forward", name=device, backend="cpu", where=by_batch)
    if not found:
        return None
    cores, lines = found["machine"]["cores"], []
    soft = reports.find("forward", backend="vulkan", where=lambda r: by_batch(r) and "llvmpipe" in r["device"]["name"] and
                        r["machine"]["cpu"] == device)
    for report, label, style in ((found, "CPU", 0), (soft, "Vulkan on the same cores", 3)):
        for keep, shade in ((1.0, 0), (0.5, 1), (0.2, 2)):
            points = sorted((r["batch"], 1e3 / median(r, "ms_per_image"), 1e3 / r["ms_per_image"]["p90"], 1e3 / r["ms_per_image"]["p10"])
                            for r in (report or {}).get("results", []) if r["keep"] == keep and r["prune"] in ("none", "l2"))
            lines.append((f"{label}, {'dense' if keep == 1 else f'keep {keep:g}'}", style + shade, False, points))
    panel = Lines("DeiT-T 224, f32", "images in a batch", "images a second", lines, log_y=True)
    return Figure(f"{slug(device)}_cpu", f"On the processor: {device}, {cores} cores, {day(found, soft)}", [panel], 1,
                  "Host memory to host memory, one wait. Bars: the 10th to the 90th percentile.", (600, 400))


def steps(reports, device):
    panels, used = [], []
    for backend in ("cuda", "vulkan", "cpu"):
        found = reports.find("prune", name=device, backend=backend)
        if not found:
            continue
        used.append(found)
        batches = sorted({r["batch"] for r in found["results"]})
        chosen = [batches[0], batches[-1] if backend == "cpu" else 64 if 64 in batches else batches[-1]]
        names = list(dict.fromkeys(r["step"] for r in found["results"]))
        values = {(r["step"], r["batch"]): median(r, "device_us") for r in found["results"]}
        panels.append(Bars(f"{backend}, {found['dtype']}, {found['heads'] * found['head_dim']} channels, 197 tokens, half kept",
                           "us a call", names, [(f"B = {b}", i, [values.get((n, b)) for n in names]) for i, b in enumerate(chosen)],
                           rotate=True, labels=True, log_y=backend != "cuda"))
    if not used:
        return None
    return Figure(f"{slug(device)}_steps", f"The steps around attention: {device}, {day(*used)}", panels, 1, "", (900, 380))


def break_even(reports, device):
    newest = {(r["backend"], r["architecture"], r["dtype"]): r for r in sorted(reports, key=lambda r: r["date"])
              if r.get("benchmark") == "tool" and r["device"] == device and r["prune"] == "l2"}
    found = [newest[key] for key in sorted(newest)]
    if not found:
        return None
    lines = [(f"{r['backend']}, {r['architecture']}, {r['dtype']}", i, False,
              [(x["batch"], x["break_even_keep"]) for x in r["results"] if x["break_even_keep"]]) for i, r in enumerate(found)]
    panel = Lines("l2 after block 3", "images in a batch", "largest kept fraction that pays", lines, y_range=(0, 1.02))
    return Figure(f"{slug(device)}_break_even", f"From where on pruning pays: {device}, {day(*found)}", [panel], 1, "raggedvit bench",
                  (560, 380))


FIGURES = [attention, overhead, throughput, ratio, stages, scaling, resolution, difference, policies, ragged, vulkan, cpu, steps,
           break_even]


def main():
    folder, reports = pathlib.Path(sys.argv[1]), read(sys.argv[2:])
    folder.mkdir(parents=True, exist_ok=True)
    names = dict.fromkeys(r["device"] if isinstance(r["device"], str) else r["device"]["name"] for r in reports if r.get("device"))
    for device in names:
        if "llvmpipe" in device:
            continue  # is in the figure of its CPU
        for make in FIGURES:
            figure = make(reports, device)
            if figure is None or not figure.panels:
                continue
            if len(sys.argv) == 2 and not (RESULTS / f"{figure.name}.svg").exists():
                continue  # shown on no page
            width, height, script = figure.script()
            head = f"set terminal svg size {width},{height} font 'sans-serif,11' background 'white' noenhanced"
            (folder / f"{figure.name}.gp").write_text(f"{head}\nset output '{figure.name}.svg'\n{script}")


if __name__ == "__main__":
    main()
