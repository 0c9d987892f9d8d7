"""A varlen attention kernel in Triton, after the description in arXiv 2604.15408: online softmax over packed rows, one program per block of
rows of a head. To be a strong baseline, its tile is autotuned for each batch, and full key blocks use a loop without masks."""

import torch
import triton
import triton.language as tl

# Rows, keys, warps, stages of a tile.
TILES = [(16, 32, 1, 2), (16, 64, 1, 2), (16, 64, 2, 2), (32, 32, 2, 2), (32, 64, 2, 2), (64, 32, 4, 2), (64, 64, 4, 2), (64, 64, 4, 3),
         (128, 64, 4, 2), (128, 64, 8, 2), (64, 128, 4, 2)]
PAPER_TILE = (64, 64, 4, 2)


@triton.jit
def _step(q, k_at, v_at, columns, length, acc, top, total, scale, MASKED: tl.constexpr):
    if MASKED:
        k = tl.load(k_at, mask=columns[None, :] < length, other=0.0)
        v = tl.load(v_at, mask=columns[:, None] < length, other=0.0)
    else:
        k = tl.load(k_at)
        v = tl.load(v_at)
    logits = tl.dot(q, k) * scale
    if MASKED:
        logits = tl.where(columns[None, :] < length, logits, float("-inf"))
    best = tl.maximum(top, tl.max(logits, 1))
    weights = tl.exp2(logits - best[:, None])
    shrink = tl.exp2(top - best)
    total = total * shrink + tl.sum(weights, 1)
    acc = tl.dot(weights.to(v.dtype), v, acc * shrink[:, None])
    return acc, best, total


@triton.jit
def varlen_kernel(qkv, out, cu_seqlens, n_heads, scale, D: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    block = tl.program_id(0)
    head = tl.program_id(1)
    image = tl.program_id(2)
    begin = tl.load(cu_seqlens + image)
    length = tl.load(cu_seqlens + image + 1) - begin
    if block * ROWS >= length:
        return
    stride = 3 * n_heads * D
    row = block * ROWS + tl.arange(0, ROWS)
    key = tl.arange(0, KEYS)
    channel = tl.arange(0, D)
    base = qkv + begin * stride + head * D
    q = tl.load(base + row[:, None] * stride + channel[None, :], mask=row[:, None] < length, other=0.0)
    k_at = base + n_heads * D + key[None, :] * stride + channel[:, None]
    v_at = base + 2 * n_heads * D + key[:, None] * stride + channel[None, :]
    acc = tl.zeros((ROWS, D), dtype=tl.float32)
    top = tl.full((ROWS,), float("-inf"), dtype=tl.float32)
    total = tl.zeros((ROWS,), dtype=tl.float32)
    full = length // KEYS * KEYS
    for first in range(0, full, KEYS):
        acc, top, total = _step(q, k_at + first * stride, v_at + first * stride, key, length, acc, top, total, scale, False)
    if full < length:
        acc, top, total = _step(q, k_at + full * stride, v_at + full * stride, key + full, length, acc, top, total, scale, True)
    acc = acc / total[:, None]
    out_at = out + (begin + row[:, None]) * (n_heads * D) + head * D + channel[None, :]
    tl.store(out_at, acc.to(out.dtype.element_ty), mask=row[:, None] < length)


def launch(qkv, out, cu_seqlens, images, longest, heads, head_dim, tile):
    """Launches the kernel as a PyTorch program would. Returns the compiled kernel."""
    rows, keys, warps, stages = tile
    return varlen_kernel[(triton.cdiv(longest, rows), heads, images)](
        qkv, out, cu_seqlens, heads, head_dim**-0.5 * 1.4426950408889634, D=head_dim, ROWS=rows, KEYS=keys, num_warps=warps,
        num_stages=stages)


def attention(batch, tile):
    p, out = batch.point, torch.empty(batch.point.rows, batch.heads, batch.head_dim, device=batch.device, dtype=batch.dtype)

    def call():
        launch(batch.qkv, out, batch.cu_seqlens, p.batch, p.longest, batch.heads, batch.head_dim, tile)
        return out

    return call, call


def prebuilt(batch, tile):
    """The same launch with only Triton's launcher, without its lookup of the compiled kernel."""
    p, out = batch.point, torch.empty(batch.point.rows, batch.heads, batch.head_dim, device=batch.device, dtype=batch.dtype)
    kernel = launch(batch.qkv, out, batch.cu_seqlens, p.batch, p.longest, batch.heads, batch.head_dim, tile)
    grid = (triton.cdiv(p.longest, tile[0]), batch.heads, p.batch)
    run, scale = kernel[grid], batch.scale * 1.4426950408889634
    constants = (batch.head_dim, tile[0], tile[1])
    arguments = (batch.qkv, out, batch.cu_seqlens, batch.heads, scale)
    try:
        run(*arguments, *constants)  # newer launchers need the constants, too
    except TypeError:
        run(*arguments)
        constants = ()

    def call():
        run(*arguments, *constants)
        return out

    return call, call


def tune(clock, batch):
    """Returns the fastest tile for a batch by GPU time, and the time of each."""
    if batch.head_dim & (batch.head_dim - 1):
        raise RuntimeError(f"tl.arange needs a power of two, head_dim is {batch.head_dim}")
    baselines = {}
    for tile in TILES:
        if tile[0] < 2 * batch.point.longest or tile[0] == 16:
            baselines[tile] = attention(batch, tile)[0]
    times = clock.gpu_us(baselines, calls=10, turns=5)
    medians = {tile: r["median"] for tile, r in times.items() if "median" in r}
    if not medians:
        raise RuntimeError("; ".join(sorted({r.get("skipped", "") for r in times.values()})))
    return min(medians, key=medians.get), {"x".join(map(str, tile)): us for tile, us in medians.items()}
