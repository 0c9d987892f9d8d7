"""A pruned forward of Qwen's vision encoders on one image, in plain PyTorch with the modules of transformers: the reference of raggedvit's
policies. It prunes whole merge groups, and masks attention to windows. Part of make_dumps.py."""
import math

import torch
from reference_pruned import best, repeating, unpredicted
from transformers.vision_utils import get_vision_interpolation_indices_and_weights, get_vision_position_ids

# Mistakes in merging, one at a time: attention ignores sizes; means ignore sizes; only the first rows of groups are compared; each row
# merges into the next one; groups merge across windows.
MISTAKES = ("bias", "mean", "first", "row", "windows")


def rotated(x, cos, sin):
    """x [rows, heads, head_dim]."""
    half = x.shape[-1] // 2
    return x * cos[:, None] + torch.cat([-x[..., half:], x[..., :half]], -1) * sin[:, None]


def attend(block, x, cos, sin, windows, sizes):
    """Returns the output of attention, the probabilities [heads, rows, rows] and the keys [heads, rows, head_dim]. windows: the window of
    each row, or None. sizes: the number of original rows in each row."""
    attention = block.attn
    q, k, v = attention.qkv(block.norm1(x)).reshape(len(x), 3, attention.num_heads, -1).unbind(1)
    q, k, v = (part.transpose(0, 1) for part in (rotated(q, cos, sin), rotated(k, cos, sin), v))
    logits = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + sizes.log()
    if windows is not None:
        logits = logits.masked_fill(windows[:, None] != windows[None, :], -math.inf)
    probs = torch.softmax(logits, -1)
    return attention.proj((probs @ v).transpose(0, 1).reshape(len(x), -1)), probs, k


def merge(x, sizes, keys, windows, group_size, merges, mistake):
    """ToMe on merge groups: each chosen even group, counted window by window, merges into the most similar odd group of its window.
    Returns x, sizes, and the remaining groups. mistake: one of MISTAKES, or None."""
    metric = torch.nn.functional.normalize(keys.sum(0), dim=-1).reshape(len(x) // group_size, -1)
    if mistake == "first":
        metric = metric[:, :keys.shape[-1]]
    within = torch.zeros(len(metric)) if windows is None else windows[::group_size]
    order = torch.argsort(within, stable=True)
    if mistake == "windows":
        within = torch.zeros(len(metric))
    even, odd = order[0::2], order[1::2]
    x, sizes = x.reshape(len(metric), group_size, -1).clone(), sizes[::group_size].clone()
    left = torch.ones(len(metric), dtype=torch.bool)
    if len(odd) > 0:
        similarity, partner = (metric[even] @ metric[odd].T).masked_fill(within[even][:, None] != within[odd][None, :], -math.inf).max(-1)
        merges = min(merges, len(metric) // 2, int(similarity.isfinite().sum()))
        merged = torch.topk(similarity, merges).indices
        weights = torch.ones_like(sizes) if mistake == "mean" else sizes.clone()
        sums = x * weights[:, None, None]
        for i in merged:
            sums[odd[partner[i]]] += sums[even[i]].roll(int(mistake == "row"), 0)
            weights[odd[partner[i]]] += weights[even[i]]
            sizes[odd[partner[i]]] += sizes[even[i]]
            left[even[i]] = False
        x = sums / weights[:, None, None]
    left = torch.nonzero(left).flatten()
    return x[left].flatten(0, 1), sizes[left].repeat_interleave(group_size), left


def encoder(model, patches, grid, prune, mistake=None):
    """Returns the merged rows in float64, the rows of the deepstack mergers, the merge groups kept, and the number of original groups in
    each. Groups are in row-major order."""
    config, side = model.config, model.config.spatial_merge_size
    group_size, group_grid, thw = side**2, (grid[0] // side, grid[1] // side), torch.tensor([(1, *grid)])
    groups = repeating(patches.reshape(group_grid[0] * group_grid[1], -1), group_grid, prune)
    positions = get_vision_position_ids(thw, side)
    x = model.patch_embed(groups.reshape(len(patches), -1))
    if hasattr(model, "pos_embed"):
        indices, weights = get_vision_interpolation_indices_and_weights(
            thw, num_grid_per_side=model.num_grid_per_side, mode=model.interpolation_mode, align_corners=True, spatial_merge_size=side)
        x = x + (model.pos_embed(indices) * weights[:, :, None].double()).sum(1)
    cos, sin = (table.double() for table in model.rotary_pos_emb(x, positions))
    windows, full = None, range(config.depth)
    if hasattr(config, "window_size"):
        edge = config.window_size // config.patch_size
        windows, full = positions[:, 0] // edge * grid[1] + positions[:, 1] // edge, config.fullatt_block_indexes
    sizes, kept = torch.ones(len(x), dtype=x.dtype), torch.arange(len(x) // group_size)

    def keep(groups_left):
        rows = (groups_left[:, None] * group_size + torch.arange(group_size)).flatten()
        return x[rows], cos[rows], sin[rows], None if windows is None else windows[rows], sizes[rows], kept[groups_left]

    def best_groups(scores):
        return best(scores.reshape(-1, group_size).mean(1), prune["keep"])

    if prune["policy"] == "pixelprune":
        x, cos, sin, windows, sizes, kept = keep(unpredicted(groups, group_grid, prune["tau"] / prune["std"]))
    deepstack = []
    for index, block in enumerate(model.blocks):
        policy = prune["policy"] if index in prune["blocks"] else None
        added, probs, keys = attend(block, x, cos, sin, None if index in full else windows,
                                    torch.ones_like(sizes) if mistake == "bias" else sizes)
        x = x + added
        if policy == "received":
            x, cos, sin, windows, sizes, kept = keep(best_groups(probs.mean((0, 1))))
        elif policy == "tome":
            merged, merged_sizes, left = merge(x, sizes, keys, windows, group_size, prune["merges"], mistake)
            x, cos, sin, windows, sizes, kept = keep(left)
            x, sizes = merged, merged_sizes
        x = x + block.mlp(block.norm2(x))
        if index in getattr(config, "deepstack_visual_indexes", ()):
            deepstack.append(model.deepstack_merger_list[config.deepstack_visual_indexes.index(index)](x))
        if policy == "l2":
            x, cos, sin, windows, sizes, kept = keep(best_groups(x.square().sum(-1)))
    return model.merger(x), deepstack, kept.tolist(), sizes[::group_size].tolist()
