"""Attention: checks every baseline on every batch of lengths against float64, then times it."""

import torch

from . import cudnn_ragged, flash, flash4, flex, launch, ours, sdpa
from .clock import first_line, summarize
from .points import Batch, error

OURS, FLASH, TRITON = "raggedvit", "FA2 varlen", "Triton varlen"
FLASH4, CUDNN, CUDNN_RAGGED = "FA4 varlen", "cuDNN SDPA", "cuDNN ragged"
# Ways to call the library: a C call with prepared arguments, and the functions of the Python package.
PREPARED, FUNCTION, OPERATOR = "raggedvit, prepared C call through ctypes", "raggedvit.attention", "torch.ops.raggedvit.attention"
FLASH_FUNCTION = "raggedvit.torch.flash_attn_varlen_func"
LAUNCH = "the driver's launch, through ctypes"
# Points where slow baselines that take long to set up are measured, too.
THOROUGH = {"B=64 uniform 20..197", "B=2 S=5"}
LONG_BASELINES = [FLASH, CUDNN, FLASH4, CUDNN_RAGGED, TRITON]
EVERYWHERE = [OURS, FLASH, "varlen_attn", "padded SDPA", "padded SDPA, key mask", CUDNN, "cuDNN varlen", TRITON]


def _baselines(context, clock, batch, names):
    """Returns name -> (call, result), name -> the reason for a baseline that cannot run, and the times of the Triton tiles."""
    makers = {
        OURS: lambda: ours.attention(context, batch),
        FLASH: lambda: flash.operator(batch),
        "varlen_attn": lambda: flash.varlen_attn(batch),
        "padded SDPA": lambda: sdpa.padded(batch),
        "padded SDPA, key mask": lambda: sdpa.key_mask(batch),
        CUDNN: lambda: sdpa.cudnn(batch),
        "cuDNN varlen": lambda: sdpa.cudnn_varlen(batch),
        CUDNN_RAGGED: lambda: cudnn_ragged.attention(clock, batch),
        FLASH4: lambda: flash4.attention(batch),
        "NestedTensor SDPA": lambda: sdpa.nested(batch),
        "FlexAttention": lambda: flex.attention(batch),
    }
    tiles = {}

    def triton_best():
        from . import triton_varlen

        tile, times = triton_varlen.tune(clock, batch)
        tiles.update({"chosen": "x".join(map(str, tile)), "us": times})
        return triton_varlen.attention(batch, tile)

    makers[TRITON] = triton_best
    baselines, reasons = {}, {}
    for name in names:
        try:
            baselines[name] = makers[name]()
        except Exception as failure:
            if name == OURS:
                raise
            reasons[name] = first_line(failure)
    return baselines, reasons, tiles


def compile_tiles(batch):
    """Compiles every tile of the Triton kernel before anything is measured."""
    from . import triton_varlen

    for tile in triton_varlen.TILES:
        try:
            triton_varlen.attention(batch, tile)[0]()
        except Exception as failure:
            print(f"  Triton {tile}: {first_line(failure)}", flush=True)


def _errors(baselines, batch, reasons):
    wanted, errors = batch.reference(), {}
    for name, (_, result) in list(baselines.items()):
        if result is None:
            continue
        try:
            errors[name] = error(result().clone(), wanted)
        except Exception as failure:
            reasons[name] = first_line(failure)
            del baselines[name]
    return errors


def gpu(context, clock, points, budget, heads=12, head_dim=64, dtype=torch.float16, rows=None, names=None):
    """GPU times and errors at each point. names: of the baselines and the library."""
    rows = [] if rows is None else rows
    for point in points:
        if budget.is_spent():
            rows.append({"point": point.name, "skipped": "out of time"})
            continue
        batch = Batch(context, point, heads, head_dim, dtype)
        thorough = ["NestedTensor SDPA", "FlexAttention"] if point.name in THOROUGH else []
        baselines, reasons, tiles = _baselines(context, clock, batch, names or EVERYWHERE + thorough)
        errors = _errors(baselines, batch, reasons)
        large = point.rows * point.longest > 64 * 197 * 197 * 2
        times = clock.gpu_us({name: call for name, (call, _) in baselines.items()}, **({"calls": 5, "turns": 10} if large else {}))
        times |= {name: {"skipped": reason} for name, reason in reasons.items()}
        bytes_moved = 4 * point.rows * heads * head_dim * batch.qkv.element_size()
        rows.append({"point": point.name, "heads": heads, "head_dim": head_dim, "batch": point.batch, "rows": point.rows, "longest": point.longest, "swept": point.swept,
                     "bytes": bytes_moved, "gpu_us": times, "errors": errors, "triton_tiles": tiles})
        print("  " + _line(rows[-1]), flush=True)
        del baselines, batch
        context.forget()
        if context.torch_device.type == "cuda":
            torch.cuda.empty_cache()
    return rows


def _line(row):
    us = {n: t["median"] for n, t in row["gpu_us"].items() if "median" in t}
    text = f"{row['point']:<24} error {row['errors'].get(OURS, {}).get('relative', float('nan')):.1e}  raggedvit {us[OURS]:8.2f} us"
    for name in (FLASH, TRITON, FLASH4, CUDNN, CUDNN_RAGGED):
        if name in us:
            text += f"  {name} {us[name]:8.2f} ({us[name] / us[OURS]:.2f}x)"
    return text


def cold(context, clock, points, budget, heads=12, head_dim=64, dtype=torch.float16, copies=4):
    """The same with several batches in turn, so that their rows are not in the cache."""
    rows = []
    for point in points:
        if budget.is_spent():
            break
        batches = [Batch(context, point, heads, head_dim, dtype) for _ in range(copies)]
        makers = {OURS: lambda b: ours.attention(context, b), FLASH: flash.operator}
        baselines = {}
        for name, make in makers.items():
            try:
                calls = [make(b)[0] for b in batches]
                baselines[name] = lambda c=calls: [one() for one in c]
            except Exception as failure:
                print(f"  {point.name} cold: {name} skipped: {first_line(failure)}", flush=True)
        times = clock.gpu_us(baselines, calls=2, turns=10)
        for r in times.values():
            for key in ("median", "p10", "p90", "minimum"):
                if key in r:
                    r[key] /= copies
        rows.append({"point": point.name, "bytes": 4 * point.rows * heads * head_dim * batches[0].qkv.element_size(), "gpu_us": times})
        del batches, baselines
        context.forget()
    return rows


def copy_bandwidth(clock, context, size=1 << 32):
    """Bytes read and written per second by the faster of two copies on the device: the driver's and a kernel's."""
    source = torch.empty(size // 4, dtype=torch.float32, device=context.torch_device).normal_()
    target = torch.empty_like(source)
    ways = {"copy": lambda: target.copy_(source), "kernel": lambda: torch.neg(source, out=target)}
    times = clock.gpu_us(ways, calls=4, turns=10)
    best = min((t["median"], name) for name, t in times.items() if "median" in t)
    return {"bytes": 2 * size, "us": times, "fastest": best[1], "bytes_per_second": 2 * size / best[0] * 1e6}


def host(context, clock, points, extension, heads=12, head_dim=64, dtype=torch.float16):
    """Host time of one eager call while the queue is not full: from Python for all, and from C++ if the extension was built."""
    rows = []
    for point in points:
        batch = Batch(context, point, heads, head_dim, dtype)
        row = {"point": point.name, "python_us": {}, "cpp_us": {}}
        makers = {
            LAUNCH: launch.direct_launch,
            PREPARED: lambda: ours.attention(context, batch)[0],
            FUNCTION: lambda: ours.function(batch),
            OPERATOR: lambda: ours.operator(batch),
            FLASH_FUNCTION: lambda: ours.flash(batch),
            FLASH: lambda: flash.operator(batch)[0],
            "varlen_attn": lambda: flash.varlen_attn(batch)[0],
            "padded SDPA": lambda: sdpa.padded(batch)[0],
            "cuDNN SDPA": lambda: sdpa.cudnn(batch)[0],
            TRITON: lambda: _triton(batch, "attention"),
            "Triton, prebuilt": lambda: _triton(batch, "prebuilt"),
        }
        for name, make in makers.items():
            try:
                row["python_us"][name] = clock.host_us(make())
            except Exception as failure:
                row["python_us"][name] = {"skipped": first_line(failure)}
        if extension is not None:
            q, k, v = batch.padded()
            timed = {
                FLASH: lambda n: extension.flash_varlen(batch.q, batch.k, batch.v, batch.cu_seqlens, point.longest, batch.scale, n),
                "padded SDPA": lambda n: extension.padded(q, k, v, n),
            }
            for name, run in timed.items():
                try:
                    row["cpp_us"][name] = _cpp_us(clock, run)
                except Exception as failure:
                    row["cpp_us"][name] = {"skipped": first_line(failure)}
        rows.append(row)
        for where in ("python_us", "cpp_us"):
            for name, r in row[where].items():
                value = f"{r['median']:.2f} us" if "median" in r else f"skipped: {r['skipped']}"
                print(f"  {point.name} host, {where[:-3]}: {name:<22} {value}", flush=True)
        context.forget()
    return rows


def _triton(batch, kind):
    from . import triton_varlen

    return getattr(triton_varlen, kind)(batch, triton_varlen.PAPER_TILE)[0]


def _cpp_us(clock, run, calls=100, repeats=30):
    if clock.stream is None:
        calls, repeats = 2, 3
    samples = []
    for repeat in range(repeats + 2):
        clock.synchronize()
        nanoseconds = run(calls)
        clock.synchronize()
        if repeat >= 2:
            samples.append(nanoseconds / 1e3 / calls)
    return summarize(samples)
