"""Qwen's vision towers on one image, pruned by squares of patches, written out in plain PyTorch over the modules of transformers: what
raggedvit's policies are held against. Windows are a mask here. Part of dump_reference.py."""
import math

import torch
from reference_pruned import best, repeating, unpredicted
from transformers.vision_utils import get_vision_interpolation_indices_and_weights, get_vision_position_ids


def rotated(x, cos, sin):
    """x [rows, heads, head_dim]."""
    half = x.shape[-1] // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]


def attend(block, x, cos, sin, windows):
    """What attention adds to x; the probabilities [heads, rows, rows]. windows: of each row, or None."""
    attention = block.attn
    q, k, v = attention.qkv(block.norm1(x)).reshape(len(x), 3, attention.num_heads, -1).unbind(1)
    q, k, v = (part.transpose(0, 1) for part in (rotated(q, cos, sin), rotated(k, cos, sin), v))
    logits = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    if windows is not None:
        logits = logits.masked_fill(windows[:, None] != windows[None, :], -math.inf)
    probs = torch.softmax(logits, -1)
    return attention.proj((probs @ v).transpose(0, 1).reshape(len(x), -1)), probs


def tower(model, patches, grid, prune):
    """Merged rows in float64, those of deepstack mergers, and how many rows are left at the end. Rows are squares of patches, line after line."""
    config, side = model.config, model.config.spatial_merge_size
    unit, squares, thw = side**2, (grid[0] // side, grid[1] // side), torch.tensor([(1, *grid)])
    cells = repeating(patches.reshape(squares[0] * squares[1], -1), squares, prune)
    places = get_vision_position_ids(thw, side)
    x = model.patch_embed(cells.reshape(len(patches), -1))
    if hasattr(model, "pos_embed"):
        indices, weights = get_vision_interpolation_indices_and_weights(
            thw, num_grid_per_side=model.num_grid_per_side, mode=model.interpolation_mode, align_corners=True, spatial_merge_size=side)
        x = x + (model.pos_embed(indices) * weights[:, :, None].double()).sum(1)
    cos, sin = (table.double() for table in model.rotary_pos_emb(x, places))
    windows, full = None, range(config.depth)
    if hasattr(config, "window_size"):
        edge = config.window_size // config.patch_size
        windows, full = places[:, 0] // edge * grid[1] + places[:, 1] // edge, config.fullatt_block_indexes

    def keep(squares_left):
        rows = (squares_left[:, None] * unit + torch.arange(unit)).flatten()
        return x[rows], cos[rows], sin[rows], None if windows is None else windows[rows]

    def by_squares(scores):
        return best(scores.reshape(-1, unit).mean(1), prune["keep"])

    if prune["policy"] == "pixelprune":
        x, cos, sin, windows = keep(unpredicted(cells, squares, prune["tau"] / prune["std"]))
    deepstack = []
    for index, block in enumerate(model.blocks):
        policy = prune["policy"] if index in prune["blocks"] else None
        added, probs = attend(block, x, cos, sin, None if index in full else windows)
        x = x + added
        if policy == "received":
            x, cos, sin, windows = keep(by_squares(probs.mean((0, 1))))
        x = x + block.mlp(block.norm2(x))
        if index in getattr(config, "deepstack_visual_indexes", ()):
            deepstack.append(model.deepstack_merger_list[config.deepstack_visual_indexes.index(index)](x))
        if policy == "l2":
            x, cos, sin, windows = keep(by_squares(x.square().sum(-1)))
    return model.merger(x), deepstack, len(x)
