"""The pruning policies in float64, following their papers (listed in include/raggedvit/prune.h).

Each stage reports a margin: the smallest relative change of a score that would change its decision. The lower index wins a tie.
"""

import math

import numpy as np

from vit import gelu, layernorm

INFINITE = float("inf")


def relative_gap(a, b, least=0.0):
    scale = max(abs(a), abs(b), least)
    if scale == INFINITE:
        return INFINITE
    return abs(a - b) / scale if scale > 0 else 0.0


def best(scores, k, least=0.0):
    """Returns the indices of the k best scores in ascending order, and the margin. The lower index wins a tie."""
    order = np.argsort(-scores, kind="stable")
    margin = relative_gap(scores[order[k - 1]], scores[order[k]], least) if 0 < k < len(scores) else INFINITE
    return np.sort(order[:k]), margin


class Policy:
    site = None

    def __init__(self, model, blocks):
        self.blocks = list(range(blocks[0], model.depth)) if blocks[-1] is None else blocks

    def at(self, site, state, block):
        if self.site == site and block in self.blocks:
            state.record(block, self.prune(state, self.blocks.index(block)))

    def before_block(self, state, block):
        self.at("before", state, block)

    def after_attention(self, state, block):
        self.at("inside", state, block)

    def after_block(self, state, block):
        self.at("after", state, block)


class Dense(Policy):
    def __init__(self, model):
        super().__init__(model, [0])


class L2(Policy):
    """The CLS token counts among the k best if its norm is large enough, and is kept in any case."""

    site = "after"

    def __init__(self, model, blocks=(3,), keep=0.5):
        super().__init__(model, blocks)
        self.rate = keep

    def prune(self, state, stage):
        p = state.model.n_prefix
        k = max(1, math.trunc(len(state.x) * self.rate))
        kept, margin = best((state.x**2).sum(1), k)
        state.keep(kept[kept >= p] - p)
        return margin


class L2Threshold(Policy):
    site = "after"

    def __init__(self, model, threshold, blocks=(3,)):
        super().__init__(model, blocks)
        self.threshold = threshold

    def prune(self, state, stage):
        norms = np.sqrt((state.patches() ** 2).sum(1))
        margin = min((relative_gap(norm, self.threshold) for norm in norms), default=INFINITE)
        state.keep(np.flatnonzero(norms >= self.threshold))
        return margin


def cls_attention(state):
    return state.attention[:, 0].mean(0)[state.model.n_prefix :]


def received_attention(state):
    """The attention that each patch receives, averaged over heads and rows."""
    return state.attention.mean((0, 1))[state.model.n_prefix :]


class Evit(Policy):
    site = "inside"

    def __init__(self, model, blocks=(3, 6, 9), keep=0.7, fused=False):
        super().__init__(model, blocks)
        self.rate, self.fused = keep, fused

    def prune(self, state, stage):
        scores = cls_attention(state)
        k = max(1, math.ceil(self.rate * len(scores)))
        if k >= len(scores):
            return INFINITE
        kept, margin = best(scores, k)
        dropped = np.setdiff1d(np.arange(len(scores)), kept)
        token = scores[dropped] @ state.patches()[dropped]
        state.keep(kept)
        if self.fused:
            state.x = np.concatenate([state.x, token[None]])
            state.ids = np.append(state.ids, -1)
        return margin


class EvitPaper(Policy):
    site = "after"

    def __init__(self, model, blocks=(3,), keep=0.5):
        super().__init__(model, blocks)
        self.rate = keep

    def scores(self, state):
        return cls_attention(state)

    def prune(self, state, stage):
        scores = self.scores(state)
        kept, margin = best(scores, max(1, math.trunc(len(scores) * self.rate)))
        state.keep(kept)
        return margin


class Received(EvitPaper):
    site = "inside"

    def scores(self, state):
        return received_attention(state)


class FasterVlm(EvitPaper):
    """evit-paper in the second to last block, the one that a language model reads."""

    def __init__(self, model, blocks=None, keep=0.5):
        super().__init__(model, blocks or (model.depth - 2,), keep)


class HiPrune(Policy):
    """In the object block, some patches and their neighbours are chosen by the attention that they receive. In the second to last block, the
    best others are added. Neighbours are those in the sequence of patches: the first of a grid row follows the last of the previous row."""

    def __init__(self, model, blocks=None, keep=0.5, alpha=0.1, object_block=None):
        super().__init__(model, blocks or (model.depth - 2,))
        default = min(math.floor(9 / 24 * model.depth + 0.5) - 1, self.blocks[0])
        self.rate, self.alpha, self.object_block = keep, alpha, default if object_block is None else object_block

    def after_attention(self, state, block):
        n, columns = state.model.n_patches, math.isqrt(state.model.n_patches)
        if block == self.object_block:
            k = max(1, math.trunc(n * self.rate))
            anchors, self.margin = best(received_attention(state), min(round(k * self.alpha / 5), k // 5))
            steps = np.array([0, -1, 1, -columns, columns])
            self.chosen = np.unique(np.clip(anchors[:, None] + steps, 0, n - 1))

    def after_block(self, state, block):
        if block not in self.blocks:
            return
        scores = received_attention(state)
        k = max(1, math.trunc(len(scores) * self.rate))
        others = np.setdiff1d(np.arange(len(scores)), self.chosen)
        added, margin = best(scores[others], k - len(self.chosen))
        state.keep(np.sort(np.concatenate([self.chosen, others[added]])))
        state.record(block, min(margin, self.margin))


class AtsPaper(EvitPaper):
    """Scores are attention times the norm of the block's output. Keeps the best ones up to a fraction of the sum, or a fixed number."""

    def __init__(self, model, blocks=(3,), keep=None, mass=0.9):
        super().__init__(model, blocks, keep)
        self.mass = mass

    def scores(self, state):
        return cls_attention(state) * np.sqrt((state.patches() ** 2).sum(1))

    def prune(self, state, stage):
        if self.rate is not None:
            return super().prune(state, stage)
        scores = self.scores(state)
        order = np.argsort(-scores, kind="stable")
        sums = np.cumsum(scores[order]) / (scores.sum() + 1e-6)
        k = max(1, int((sums <= self.mass).sum()))
        kept, margin = best(scores, k)
        crossings = [relative_gap(value, self.mass) for value in sums[1:]]
        state.keep(kept)
        return min([margin] + crossings)


class DynamicVit(Policy):
    """Keeps a scheduled number of patches, or those above the threshold, if there is one (the gate)."""

    site = "before"

    def __init__(self, model, blocks=(3, 6, 9), keep=0.7, threshold=None):
        super().__init__(model, blocks)
        self.rate, self.threshold = keep, threshold

    def keep_log_probability(self, model, x, stage):
        name = f"score_predictor.{stage}."
        x = layernorm(x, model[name + "in_conv.0.weight"], model[name + "in_conv.0.bias"], 1e-5)
        x = gelu(model.linear(x, name + "in_conv.1"))
        half = x.shape[1] // 2
        x = np.concatenate([x[:, :half], np.broadcast_to(x[:, half:].mean(0), (len(x), half))], 1)
        x = gelu(model.linear(x, name + "out_conv.0"))
        x = gelu(model.linear(x, name + "out_conv.2"))
        x = model.linear(x, name + "out_conv.4")
        return x[:, 0] - np.logaddexp(x[:, 0], x[:, 1])

    def prune(self, state, stage):
        # A logarithm near 0 is the difference of two larger numbers, so its error does not shrink with it.
        scores = self.keep_log_probability(state.model, state.patches(), stage)
        if self.threshold is None:
            k = math.trunc(state.model.n_patches * self.rate ** (stage + 1))
            kept, margin = best(scores, min(max(1, k), len(scores)), least=1.0)
        else:
            kept = np.flatnonzero(np.exp(scores) > self.threshold)
            margin = min(relative_gap(score, math.log(self.threshold), 1.0) for score in scores)
            if len(kept) == 0:
                kept, least = best(scores, 1, least=1.0)
                margin = min(margin, least)
        state.keep(kept)
        return margin


def sample(scores, n_samples):
    """Adaptive token sampling: the chosen indices in ascending order, and the margin.

    The margin is small if a sample is nearly midway between two ranks and the other rank would change the set, or if two neighbouring ranks,
    one kept and one dropped, have nearly equal scores.
    """
    n = len(scores)
    if n < 2:
        return np.arange(n), INFINITE
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(scores[order])
    positions = (sums - sums[0]) / (sums[-1] - sums[0])
    first = positions[positions > 0].min()
    points = first + np.arange(n_samples) * (1 - first) / max(n_samples - 1, 1)
    distances = np.abs(points[:, None] - positions[None])
    picks = distances.argmin(1)
    times = np.bincount(picks, minlength=n)
    kept = times > 0
    nearest = distances[np.arange(n_samples), picks]
    distances[np.arange(n_samples), picks] = INFINITE
    others = distances.argmin(1)
    gaps = distances[np.arange(n_samples), others] - nearest
    margin = gaps[(times[picks] == 1) | ~kept[others]].min(initial=INFINITE)
    for r in np.flatnonzero(kept[1:] != kept[:-1]):
        margin = min(margin, relative_gap(scores[order[r]], scores[order[r + 1]]))
    return np.sort(order[kept]), margin


class Ats(Policy):
    site = "inside"

    def __init__(self, model, blocks=(3, None), samples=None):
        super().__init__(model, blocks)
        self.samples = samples or model.n_patches

    def prune(self, state, stage):
        p = state.model.n_prefix
        norms = np.sqrt((state.values[p:] ** 2).sum((1, 2)))
        kept, margin = sample(cls_attention(state) * norms, self.samples)
        state.keep(kept)
        return margin


def match(metric, merges, n_prefix):
    """ToMe's pairs of rows after the prefix. Returns (target row of each source row, the new order of rows, margin)."""
    n = len(metric)
    lengths = np.sqrt((metric**2).sum(1, keepdims=True))
    metric = np.divide(metric, lengths, out=np.zeros_like(metric), where=lengths > 0)
    a, b = np.arange(0, n, 2), np.arange(1, n, 2)
    cosines = metric[a] @ metric[b].T
    cosines[a < n_prefix] = -INFINITE
    cosines[:, b < n_prefix] = -INFINITE
    merges = min(merges, (n - n_prefix) // 2)
    if merges <= 0:
        return {}, np.arange(n), INFINITE
    values = cosines.max(1)
    order = np.argsort(-values, kind="stable")
    merged = order[:merges]
    # The error of a cosine does not shrink with it.
    margin = relative_gap(values[order[merges - 1]], values[order[merges]], 1.0) if merges < len(order) else INFINITE
    targets = {}
    for row in merged:
        target = cosines[row].argmax()
        targets[a[row]] = b[target]
        others = np.delete(cosines[row], target)
        if len(others):
            margin = min(margin, relative_gap(values[row], others.max(), 1.0))
    rest = np.array([row for row in a if row not in targets], int)
    prefix = np.arange(n_prefix)
    return targets, np.concatenate([prefix, rest[rest >= n_prefix], b[b >= n_prefix]]), margin


class Tome(Policy):
    site = "inside"

    def __init__(self, model, blocks=(0, None), merges=8):
        super().__init__(model, blocks)
        self.merges = merges

    def prune(self, state, stage):
        p = state.model.n_prefix
        targets, order, margin = match(state.keys.mean(1), self.merges, p)
        sizes = np.ones(len(state.x)) if state.sizes is None else state.sizes
        x, totals = state.x * sizes[:, None], sizes.copy()
        for source, target in sorted(targets.items()):
            x[target] += x[source]
            totals[target] += sizes[source]
        state.x, state.sizes = (x / totals[:, None])[order], totals[order]
        state.ids = state.ids[order[p:] - p]
        return margin


class Mask(Policy):
    """masks: a boolean array over all patches for each stage."""

    site = "after"

    def __init__(self, model, masks, blocks=(3,)):
        super().__init__(model, blocks)
        self.masks = masks

    def prune(self, state, stage):
        state.keep(np.flatnonzero(self.masks[stage][state.ids]))
        return INFINITE
