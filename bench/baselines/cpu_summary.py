"""Checks a report of cpu_baselines.py against the requirements: prints pass or MISS for each, and the table of times."""

from .summary import Lines, geometric_mean

KEEP, PLAIN = " keep 0.2", " without AMX"


def table(report):
    """(model, cores, batch) -> baseline -> milliseconds per image."""
    found = {}
    for row in report["results"]:
        if "ms_per_image" in row:
            found.setdefault((row["model"], row["cores"], row["batch"]), {})[row["baseline"]] = row["ms_per_image"]["median"]
    return found


def compare(lines, points, title, slow, fast, least, mean=None):
    """Requires the ratio of the times of `slow` and `fast` to be at least `least` at every point that has both."""
    ratios = {point: times[slow] / times[fast] for point, times in points.items() if slow in times and fast in times}
    if not ratios:
        return lines.add_missing(title)
    worst = min(ratios, key=ratios.get)
    short = [f"{m} {c} cores B {b}: {ratios[m, c, b]:.2f}" for m, c, b in ratios if ratios[m, c, b] < least]
    lines.add(f"{title}, least of {len(ratios)} points", f"{ratios[worst]:.2f}x at {' '.join(map(str, worst))}", f"{least}x", not short,
              ", ".join(short))
    if mean:
        found = geometric_mean(ratios.values())
        lines.add(f"{title}, geometric mean", f"{found:.2f}x", f"{mean}x", found >= mean)
    return None


def show(report):
    lines, points = Lines(), table(report)
    machine = report["machine"]
    print(f"{report['date']}  {machine['cpu']}  {machine['flags']}\n{report['versions']}, commit {report['commit']}")
    if report["dry_run"]:
        print("A DRY RUN: the figures mean nothing")
    for name, why in report["missing"].items():
        print(f"{name} was not measured: {why}")
    names = list(dict.fromkeys(name for times in points.values() for name in times))
    print(f"\n{'ms per image':<44}" + "".join(f"{' '.join(map(str, key)).replace('_patch16_224', ''):>18}" for key in points))
    for name in names:
        print(f"{name:<44}" + "".join(f"{times[name]:>18.3f}" if name in times else f"{'-':>18}" for times in points.values()))
    print()
    compare(lines, points, "bf16 against OpenVINO's bf16", "openvino bf16", "raggedvit bf16", 1.0, 1.15)
    compare(lines, points, "f32 against OpenVINO's f32", "openvino f32", "raggedvit f32", 1.0)
    for dtype in ("f32", "bf16", "int8"):
        compare(lines, points, f"{dtype}, keep 0.2 against dense", f"raggedvit {dtype}", f"raggedvit {dtype}{KEEP}", 1.9)
    compare(lines, points, "int8 against our bf16", "raggedvit bf16", "raggedvit int8", 1.2)
    for dtype in ("bf16", "int8"):
        compare(lines, points, f"{dtype}{PLAIN} against our f32", "raggedvit f32", f"raggedvit {dtype}{PLAIN}", 1.3)
    for baseline, ours in (("openvino int8", "raggedvit int8"), ("onnxruntime f32", "raggedvit f32"), ("onnxruntime int8", "raggedvit int8"),
                        ("pytorch f32", "raggedvit f32"), ("pytorch bf16", "raggedvit bf16")):
        compare(lines, points, f"{ours.split()[1]} against {baseline}", baseline, ours, 1.0)
    print(f"\n{lines.missed} requirements missed or not measured" if lines.missed else "\nall requirements are met")
    return 1 if lines.missed else 0
