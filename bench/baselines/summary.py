"""Checks the reports of a run against the requirements: prints pass or MISS for each, and the tables of times.

    python3 bench/baselines/summary.py FOLDER      exits 1 if a requirement is missed or was not measured
"""

import json
import math
import pathlib
import sys

OURS, FLASH, TRITON = "raggedvit", "FA2 varlen", "Triton varlen"
FUNCTION = "raggedvit.attention"
# The required speed-up of a pruned forward over PyTorch's graph, from each batch size on.
PRUNED_FACTORS = [(16, 1.15), (4, 1.3), (1, 1.6)]


class Lines:
    def __init__(self):
        self.missed = 0

    def add(self, title, found, wanted, good, detail=""):
        mark = "pass" if good else "MISS"
        self.missed += not good
        print(f"[{mark}] {title}: {found} (wanted {wanted}){'  ' + detail if detail else ''}")

    def add_missing(self, title, why="not measured"):
        self.missed += 1
        print(f"[ -- ] {title}: {why}")


def read(folder, name):
    path = folder / name
    return json.loads(path.read_text()) if path.exists() else None


def median(entry, *keys):
    for key in keys:
        entry = (entry or {}).get(key)
    return (entry or {}).get("median")


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def tests(lines, folder):
    result = read(folder, "tests.json")
    if not result:
        return lines.add_missing("1 tests")
    bad = [f"{name}: exit {code}" for name, code in result.items() if code != 0]
    lines.add("1 test programs on cuda", f"{len(result) - len(bad)} of {len(result)} pass", "all", not bad, ", ".join(bad))


def correctness(lines, baselines):
    for row in baselines.get("demo", []):
        limit = 1e-4 if row["dtype"] == "f32" else 4e-3
        found = row["largest_logit_difference"]
        lines.add(f"1 demo logits, {row['dtype']}", f"{found:.2e}", f"at most {limit:g}", found <= limit)
        if row["tiles"] == 1000:
            lines.add(f"1 demo top-1, {row['dtype']}", f"{row['top1_percent']:.1f} %", "84.5 to 84.9",
                      84.49 <= row["top1_percent"] <= 84.91)
    for row in baselines.get("accuracy", []):
        found = row["raggedvit_f16"]["largest"]
        lines.add(f"1 {row['model']} f16 logits against {row['reference']} in float64", f"{found:.2e}", "at most 4e-3", found <= 4e-3,
                  f"PyTorch in f16: {row['pytorch']['largest']:.2e}")
    rows = [r for r in baselines.get("attention", []) if "errors" in r]
    if rows:
        worst = max(rows, key=lambda r: r["errors"][OURS]["relative"])
        found = worst["errors"][OURS]["relative"]
        lines.add("1 attention against float64 at every point measured", f"{found:.1e}", "at most 1e-3", found <= 1e-3, worst["point"])


def attention(lines, baselines):
    rows = [r for r in baselines.get("attention", []) if "gpu_us" in r]
    if not rows:
        return lines.add_missing("2 attention")
    print("\nattention, GPU us per call, and the baseline's time over ours")
    shown = (FLASH, TRITON, "padded SDPA", "padded SDPA, key mask", "cuDNN SDPA")
    print(f"{'point':<24}{'ours':>9}" + "".join(f"{n[-16:]:>24}" for n in shown))
    for r in rows:
        ours, text = median(r, "gpu_us", OURS), ""
        for name in shown:
            theirs = median(r, "gpu_us", name)
            text += f"{theirs:>15.2f} {theirs / ours:>6.2f}x " if theirs else f"{'-':>24}"
        print(f"{r['point']:<24}{ours:>9.2f}{text}")
    print()
    for baseline, mean_wanted, least_wanted in ((FLASH, 2.0, 1.3), (TRITON, 1.2, 1.0)):
        ratios = {r["point"]: median(r, "gpu_us", baseline) / median(r, "gpu_us", OURS) for r in rows if median(r, "gpu_us", baseline)}
        if not ratios:
            lines.add_missing(f"2 attention over {baseline}")
            continue
        mean, least = geometric_mean(ratios.values()), min(ratios, key=ratios.get)
        short = [f"{p} {x:.2f}" for p, x in ratios.items() if x < least_wanted]
        lines.add(f"2 attention over {baseline}, geometric mean of {len(ratios)} points", f"{mean:.2f}x", f"{mean_wanted}x",
                  mean >= mean_wanted)
        lines.add(f"2 attention over {baseline}, least", f"{ratios[least]:.2f}x at {least}", f"{least_wanted}x", not short, ", ".join(short))
    skipped = [r["point"] for r in baselines.get("attention", []) if "skipped" in r]
    if skipped:
        lines.add_missing("2 attention at " + ", ".join(skipped), "out of time")
    copy = baselines.get("copy", {}).get("bytes_per_second")
    for r in baselines.get("attention_cold", []):
        took = median(r, "gpu_us", OURS)
        share = 100 * r["bytes"] / (took * 1e-6) / copy
        lines.add(f"2 bandwidth at {r['point']}, rows not in the cache", f"{share:.0f} % of {copy / 1e12:.2f} TB/s", "60 %", share >= 60)


def host(lines, baselines, c_attention, c_forwards):
    floor = median(c_attention, "floor_before", "empty_launch_us")
    calls = sorted(median(r, "host_us") for r in (c_attention or {}).get("results", []))
    ours = calls[len(calls) // 2] if calls else None
    title = "3 host, one eager attention over an empty launch"
    if floor and ours:
        lines.add(title, f"{ours:.2f} us / {floor:.2f} us = {ours / floor:.2f}x", "at most 1.5x", ours <= 1.5 * floor)
    else:
        lines.add_missing(title)
    # Compares like with like: both called from Python, or neither.
    rows = baselines.get("host", [])
    pairs = {
        "raggedvit.attention and FA2's operator from Python": (1, [(median(r, "python_us", FLASH), median(r, "python_us", FUNCTION))
                                                                   for r in rows]),
        "theirs from C++, ours from C": (5, [(median(r, "cpp_us", FLASH), ours) for r in rows]),
    }
    for how, (wanted, found) in pairs.items():
        found = [(theirs, mine) for theirs, mine in found if theirs and mine]
        title = f"3 host, FA2 varlen over one eager attention, {how}"
        if found:
            theirs, mine = min(found, key=lambda pair: pair[0] / pair[1])
            lines.add(title, f"{theirs:.1f} us / {mine:.2f} us = {theirs / mine:.1f}x", f"at least {wanted}x", theirs >= wanted * mine)
        else:
            lines.add_missing(title)
    # The floor is measured with consecutive launches, too.
    rows = [(median(r, "enqueue_next_us") or median(r, "enqueue_us"), f["model"], r["batch"], r["keep"],
             median(f, "floor", "empty_graph_launch_us")) for f in c_forwards if median(f, "floor", "empty_graph_launch_us") for r in f["results"]]
    if rows:
        worst = max(rows, key=lambda r: r[0] / r[4])
        lines.add("3 host, a whole forward over an empty graph launch, the worst",
                  f"{worst[0]:.2f} us / {worst[4]:.2f} us = {worst[0] / worst[4]:.2f}x", "at most 3x", worst[0] <= 3 * worst[4],
                  f"{worst[1]} B={worst[2]} keep {worst[3]}")
    else:
        lines.add_missing("3 host, a whole forward over an empty graph launch")


def _factor(row):
    if row["keep"] is None:
        return 1.0
    return next(factor for batch, factor in PRUNED_FACTORS if row["batch"] >= batch)


def forwards(lines, baselines):
    rows = [r for r in baselines.get("forwards", []) if OURS in r]
    if not rows:
        lines.add_missing("4 forwards against PyTorch's graph")
    else:
        print("\nforwards: images per second, ours and PyTorch's graph; GPU us of one forward; latency of one with a wait")
        for r in rows:
            us = [median(r, who, what) or math.nan for what in ("gpu", "latency") for who in (OURS, "pytorch graph")]
            ratio = r[OURS]["images_per_second"] / r["pytorch graph"]["images_per_second"]
            short = "" if ratio >= _factor(r) else f"<{_factor(r)}"
            print(f"{r['model']:<24}B={r['batch']:<4}{'dense' if r['keep'] is None else r['keep']!s:<6}"
                  f"{r[OURS]['images_per_second']:>10.0f} {r['pytorch graph']['images_per_second']:>10.0f} {ratio:>6.2f}x {short:<6}"
                  f" gpu {us[0]:>9.1f} {us[1]:>9.1f}  latency {us[2]:>9.1f} {us[3]:>9.1f}")
        print()
        for title, chosen in (
                ("pruned, B = 1", [r for r in rows if r["keep"] is not None and r["batch"] < 4]),
                ("pruned, B = 4", [r for r in rows if r["keep"] is not None and 4 <= r["batch"] < 16]),
                ("pruned, B >= 16", [r for r in rows if r["keep"] is not None and r["batch"] >= 16]),
                ("dense", [r for r in rows if r["keep"] is None])):
            if not chosen:
                lines.add_missing(f"4 forwards, {title}")
                continue
            ratios = [r[OURS]["images_per_second"] / r["pytorch graph"]["images_per_second"] for r in chosen]
            short = [f"{r['model']} B={r['batch']} {r['keep']}: {x:.2f}" for r, x in zip(chosen, ratios) if x < _factor(r)]
            lines.add(f"4 forwards over PyTorch's graph, {title}, least of {len(chosen)}", f"{min(ratios):.2f}x", f"{_factor(chosen[0])}x",
                      not short, "; ".join(short))
    skipped = [f"{r['model']} B={r['batch']} {r['keep']}: {r['skipped']}" for r in baselines.get("forwards", []) + baselines.get("compile", [])
               if "skipped" in r]
    if skipped:
        lines.add_missing("4 forwards left out", "; ".join(skipped))
    rows = [r for r in baselines.get("compile", []) if OURS in r]
    if rows:
        ratios = {f"{r['model']} B={r['batch']} {r['keep']}":
                  r[OURS]["images_per_second"] / r["torch.compile"]["images_per_second"] for r in rows}
        print("over torch.compile: " + ", ".join(f"{k} {x:.2f}x" for k, x in ratios.items()))
        least = min(ratios.values())
        lines.add(f"4 forwards over torch.compile, least of {len(ratios)}", f"{least:.2f}x", "1.0x", least >= 1)
    else:
        lines.add_missing("4 forwards over torch.compile")
    rows = [r for r in baselines.get("eager", []) if r["batch"] == 1 and median(r, "eager, Triton varlen", "latency")]
    if rows:
        ratios = [median(r, "eager, Triton varlen", "latency") / median(r, OURS, "latency") for r in rows]
        lines.add("4 forwards over the eager Triton pipeline at B = 1, least", f"{min(ratios):.1f}x", "5x", min(ratios) >= 5)
    else:
        lines.add_missing("4 forwards over the eager Triton pipeline")


def counters(lines, c_attention, c_forwards):
    seen = [r["ten_calls"] for r in (c_attention or {}).get("results", [])]
    seen += [r["one_enqueue"] for f in c_forwards for r in f["results"]]
    if not seen:
        return lines.add_missing("5 synchronisations and allocations")
    total = sum(s[k] for s in seen for k in ("synchronizations", "host_allocations", "device_allocations"))
    lines.add(f"5 synchronisations and allocations in {len(seen)} measured loops", str(total), "0", total == 0)


def main():
    folder = pathlib.Path(sys.argv[1])
    lines, baselines, c_attention = Lines(), read(folder, "baselines.json") or {}, read(folder, "attention_cuda.json")
    c_forwards = [read(folder, p.name) for p in sorted(folder.glob("forward_cuda_*.json"))]
    device, versions = baselines.get("device", {}), baselines.get("versions", {})
    print(f"{baselines.get('date')}  {device.get('gpu')}  {device.get('driver')}  torch {versions.get('torch')},"
          f" triton {versions.get('triton')}, raggedvit {baselines.get('version')} {baselines.get('commit')}")
    if baselines.get("dry_run"):
        print("A DRY RUN: the figures mean nothing")
    tests(lines, folder)
    correctness(lines, baselines)
    attention(lines, baselines)
    host(lines, baselines, c_attention, c_forwards)
    forwards(lines, baselines)
    counters(lines, c_attention, c_forwards)
    for section, why in baselines.get("failed_sections", {}).items():
        lines.add_missing(f"section {section}", why)
    print(f"\n{lines.missed} requirements missed or not measured" if lines.missed else "\nall requirements are met")
    return 1 if lines.missed else 0


if __name__ == "__main__":
    sys.exit(main())
