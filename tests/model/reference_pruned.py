"""A pruned forward of SigLIP2 NaFlex on one image, in plain PyTorch with the modules of transformers: the reference of raggedvit's
policies. Part of make_dumps.py."""
import math

import torch


def attend(layer, x, sizes):
    """Returns the output of attention, the probabilities [heads, rows, rows] and the keys [heads, rows, head_dim]."""
    attention = layer.self_attn
    heads = attention.num_heads
    normed = layer.layer_norm1(x)
    q, k, v = (project(normed).reshape(len(x), heads, -1).transpose(0, 1)
               for project in (attention.q_proj, attention.k_proj, attention.v_proj))
    probs = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]) + sizes.log(), -1)
    return attention.out_proj((probs @ v).transpose(0, 1).reshape(len(x), -1)), probs, k


def best(scores, keep):
    """The indices of the highest trunc(keep * n) scores, at least one, in ascending order."""
    n = max(1, math.trunc(len(scores) * keep))
    return torch.sort(torch.topk(scores, n).indices).values


def merge(x, sizes, keys, merges):
    """ToMe without prefix tokens: each chosen even row merges into the most similar odd row."""
    metric = torch.nn.functional.normalize(keys.sum(0), dim=-1)
    even, odd = torch.arange(0, len(x), 2), torch.arange(1, len(x), 2)
    merges = min(merges, len(x) // 2)
    if merges == 0:
        return x, sizes
    similarity, partner = (metric[even] @ metric[odd].T).max(-1)
    merged = set(torch.topk(similarity, merges).indices.tolist())
    sums, counts = x[odd] * sizes[odd, None], sizes[odd].clone()
    for i in merged:
        sums[partner[i]] += x[even[i]] * sizes[even[i]]
        counts[partner[i]] += sizes[even[i]]
    unmerged = torch.tensor([int(even[i]) for i in range(len(even)) if i not in merged], dtype=torch.int64)
    return torch.cat([x[unmerged], sums / counts[:, None]]), torch.cat([sizes[unmerged], counts])


def pool(head, x, sizes):
    attention = head.attention
    heads, dim = attention.num_heads, x.shape[-1]
    q, k, v = (torch.nn.functional.linear(value, weight, bias).reshape(-1, heads, dim // heads).transpose(0, 1) for value, weight, bias in
               zip((head.probe[0], x, x), attention.in_proj_weight.chunk(3), attention.in_proj_bias.chunk(3)))
    probs = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(dim // heads) + sizes.log(), -1)
    pooled = attention.out_proj((probs @ v).transpose(0, 1).reshape(1, dim))
    return pooled + head.mlp(head.layernorm(pooled))


def repeating(patches, grid, prune):
    """Makes every patch of a tile equal to the tile's top left patch, plus a small step. tile: (lines, columns) of patches."""
    if "tile" not in prune:
        return patches
    tile, width = prune["tile"], grid[1]
    positions = [(y, x) for y in range(grid[0]) for x in range(width)]
    source = [(y - y % tile[0]) * width + x - x % tile[1] for y, x in positions]
    steps = torch.tensor([prune["step"] * ((y + x) % 3) for y, x in positions], dtype=patches.dtype)
    return patches[source] + steps[:, None]


def unpredicted(patches, grid, limit):
    """PixelPrune, patch by patch: the indices of the patches that their neighbours do not predict."""
    height, width = grid
    reconstructed, kept = {}, []

    def alike(a, b):
        return (a - b).abs().max() <= limit

    for y in range(height):
        for x in range(width):
            own = patches[y * width + x]
            left, above, corner = (reconstructed.get(position) for position in ((y, x - 1), (y - 1, x), (y - 1, x - 1)))
            prediction = above if left is None or (corner is not None and alike(corner, left) and not alike(corner, above)) else left
            dropped = prediction is not None and alike(own, prediction)
            reconstructed[y, x] = prediction if dropped else own
            if not dropped:
                kept.append(y * width + x)
    return torch.tensor(kept)


def siglip2(model, patches, grid, prune):
    """The pooled row of a Siglip2VisionModel in float64, as a list, and the number of rows after pruning."""
    patches = repeating(patches, grid, prune)
    x = model.embeddings(patches[None], torch.tensor([grid]))[0]
    if prune["policy"] == "pixelprune":
        x = x[unpredicted(patches, grid, prune["tau"] / prune["std"])]
    sizes = torch.ones(len(x), dtype=x.dtype)
    for index, layer in enumerate(model.encoder.layers):
        policy = prune["policy"] if index in prune["blocks"] else None
        added, probs, keys = attend(layer, x, sizes)
        x = x + added
        if policy == "received":
            left = best(probs.mean((0, 1)), prune["keep"])
            x, sizes = x[left], sizes[left]
        elif policy == "tome":
            x, sizes = merge(x, sizes, keys, prune["merges"])
        x = x + layer.mlp(layer.layer_norm2(x))
        if policy == "l2":
            left = best(x.square().sum(-1), prune["keep"])
            x, sizes = x[left], sizes[left]
    return pool(model.head, model.post_layernorm(x), sizes)[0].tolist(), len(x)
