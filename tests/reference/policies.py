"""The pruning policies in float64, after their sources (see the table in include/raggedvit/prune.h for the names and the papers).

Each stage reports a margin: how far, relatively, its closest decision was from going the other way. Ties go to the lower place.
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
    """The k best by (score descending, place ascending), in ascending order of place, and the margin."""
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
    """The CLS token competes for the k places and is kept in any case."""

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
    """What a patch is given by all rows, in the mean over heads and rows."""
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
    """As evit-paper, in the block whose output a language model is given: the last but one."""

    def __init__(self, model, blocks=None, keep=0.5):
        super().__init__(model, blocks or (model.depth - 2,), keep)


class HiPrune(Policy):
    """In the object block, some patches and their neighbours are chosen by the attention they receive; in the last block but one, the best
    of the others fill up. Neighbours are those in the sequence of patches: the first of a grid row follows the last of the row before."""

    def __init__(self, model, blocks=None, keep=0.5, alpha=0.1, object_block=None):
        super().__init__(model, blocks or (model.depth - 2,))
        usual = min(math.floor(9 / 24 * model.depth + 0.5) - 1, self.blocks[0])
        self.rate, self.alpha, self.object_block = keep, alpha, usual if object_block is None else object_block

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
    """Attention times the norm of the block's output: the best up to a part of the sum, or a fixed number of them."""

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
    """threshold None: a schedule of counts; else the gate."""

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
        # A logarithm near 0 is the difference of two numbers that are not: what it may be off by does not shrink with it.
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
    """Adaptive token sampling's choice among scores, as places in ascending order, and the margin.

    A choice is close if a sample stands nearly midway between two ranks and taking the other would change the set, or if the order of two
    neighbouring ranks, one kept and one dropped, is sensitive to rounding.
    """
    n = len(scores)
    if n < 2:
        return np.arange(n), INFINITE
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(scores[order])
    places = (sums - sums[0]) / (sums[-1] - sums[0])
    first = places[places > 0].min()
    points = first + np.arange(n_samples) * (1 - first) / max(n_samples - 1, 1)
    distances = np.abs(points[:, None] - places[None])
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
    """ToMe's pairs: (target place for each source place, the new order of places, margin). The prefix takes no part."""
    n = len(metric)
    lengths = np.sqrt((metric**2).sum(1, keepdims=True))
    metric = np.divide(metric, lengths, out=np.zeros_like(metric), where=lengths > 0)
    a, b = np.arange(0, n, 2), np.arange(1, n, 2)
    products = metric[a] @ metric[b].T
    products[a < n_prefix] = -INFINITE
    products[:, b < n_prefix] = -INFINITE
    merges = min(merges, (n - n_prefix) // 2)
    if merges <= 0:
        return {}, np.arange(n), INFINITE
    values = products.max(1)
    order = np.argsort(-values, kind="stable")
    merged = order[:merges]
    # Products are cosines: what they may be off by does not shrink with them.
    margin = relative_gap(values[order[merges - 1]], values[order[merges]], 1.0) if merges < len(order) else INFINITE
    targets = {}
    for row in merged:
        target = products[row].argmax()
        targets[a[row]] = b[target]
        others = np.delete(products[row], target)
        if len(others):
            margin = min(margin, relative_gap(values[row], others.max(), 1.0))
    rest = np.array([place for place in a if place not in targets], int)
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
    """masks: of each stage, the patches to keep, as a boolean array over all patches."""

    site = "after"

    def __init__(self, model, masks, blocks=(3,)):
        super().__init__(model, blocks)
        self.masks = masks

    def prune(self, state, stage):
        state.keep(np.flatnonzero(self.masks[stage][state.ids]))
        return INFINITE
