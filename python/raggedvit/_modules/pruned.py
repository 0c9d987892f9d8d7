"""The pruned forward in PyTorch, with autograd, which a patched module runs in training.

It follows the library's schedule, and chooses the same tokens from equal scores. Gradients follow the published
methods. They pass through gathered rows but not through top-k. EViT's fused token passes them to the scores that weight
it. ToMe's averages pass them to the rows, but its matching has none."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from .._c.errors import invalid
from .._c.info import policies
from .._session.policy import Policy
from .modules import backbone, expect_attention, expect_heads, refuse_replaced
from .reader import Reader, kind_of, unsupported
from .timm import attention_itself

AFTER_BLOCK = ("l2", "l2-threshold", "evit-paper", "ats-paper", "random", "fastervlm")
BY_CLS = ("evit", "evit-fused", "evit-paper", "ats", "ats-paper", "fastervlm")
SUPPORTED = ("none", "evit", "evit-fused", "ats", "tome", "received", *AFTER_BLOCK)


class Schedule(NamedTuple):
    """A policy for one model, with its defaults."""

    policy: str
    blocks: tuple[int, ...]
    keep: float
    threshold: float
    mass: float | None  # None: a fixed fraction is kept
    n_samples: int
    merges: int
    seed: int


def check(policy: Policy) -> None:
    """Refuses a policy that is not implemented here."""
    if policy.name not in SUPPORTED:
        raise unsupported(f"policy {policy.name!r} cannot be trained here; expected one of {', '.join(SUPPORTED)}")


def schedule_of(policy: Policy, depth: int, n_patches: int) -> Schedule:
    """Returns the schedule of a policy that a session of the same model accepted."""
    check(policy)
    info = next(p for p in policies() if p.name == policy.name)
    defaults = (
        range(info.blocks[0], depth) if info.to_last_block else (block + depth * (block < 0) for block in info.blocks)
    )
    blocks = tuple(policy.blocks or defaults)
    merges = info.merges if policy.merges is None else policy.merges
    if policy.name == "none" or (policy.name == "tome" and merges == 0):
        blocks = ()
    return Schedule(
        policy.name,
        blocks,
        (policy.keep if policy.keep is not None else info.keep) or 0.0,
        policy.threshold or 0.0,
        None if policy.keep is not None else policy.mass if policy.mass is not None else info.mass,
        policy.n_samples or n_patches,
        merges,
        policy.seed or 0,
    )


def count(schedule: Schedule, n: int) -> int:
    """Returns how many of n competing rows are kept."""
    n = int(n)  # in torch.jit.trace sizes are tensors
    if n == 0:
        return 0
    exact = math.ceil(schedule.keep * n) if schedule.policy in ("evit", "evit-fused") else math.trunc(n * schedule.keep)
    return min(max(exact, 1), n)


class Rows:
    """A padded batch of rows: x [B, L, D]; lengths int64 [B], None if all are full; sizes [B, L] of merged rows."""

    def __init__(self, x: Tensor, lengths: Tensor | None = None, sizes: Tensor | None = None) -> None:
        self.x, self.lengths, self.sizes = x, lengths, sizes

    def live(self) -> Tensor | None:
        """Returns bool [B, L]: True for rows that are not padding."""
        return (
            None
            if self.lengths is None
            else torch.arange(self.x.shape[1], device=self.x.device) < self.lengths[:, None]
        )

    def key_bias(self) -> Tensor | None:
        """Returns the bias for the logits of each key, [B, 1, 1, L]."""
        bias = None if self.sizes is None else self.sizes.log().to(self.x.dtype)
        live = self.live()
        if live is not None:
            bias = (torch.zeros_like(self.x[:, :, 0]) if bias is None else bias).masked_fill(~live, -math.inf)
        return None if bias is None else bias[:, None, None]


def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    """Attention on padded rows, [B, H, L, d]. A ragged kernel with gradients could replace this function."""
    return F.scaled_dot_product_attention(
        q, k, v, attn_mask=None if bias is None else bias.to(q.dtype), dropout_p=dropout
    )


def cls_attention(q: Tensor, k: Tensor, bias: Tensor | None) -> Tensor:
    """The CLS row's attention, averaged over the heads: float32 or wider, [B, L]."""
    logits = wide(q[:, :, :1] @ k.transpose(-1, -2))[:, :, 0] * q.shape[-1] ** -0.5
    if bias is not None:
        logits = logits + wide(bias)[:, 0]
    probs: Tensor = logits.softmax(-1)
    return probs.sum(1) * (1.0 / q.shape[1])


def received_attention(q: Tensor, k: Tensor, rows: Rows) -> Tensor:
    """The attention that each row receives, averaged over rows and heads: float32 or wider, [B, L]."""
    logits = wide(q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    bias, live = rows.key_bias(), rows.live()
    probs: Tensor = (logits if bias is None else logits + wide(bias)).softmax(-1)
    if live is None:
        return probs.mean((1, 2))
    assert rows.lengths is not None
    given = (probs * live[:, None, :, None]).sum(2) / rows.lengths[:, None, None].clamp(min=1)
    return given.mean(1)


def wide(x: Tensor) -> Tensor:
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def ranks(scores: Tensor, descending: bool = True) -> Tensor:
    """Returns the rank of each row by score; ties by index; NaN is the lowest score."""
    order = scores.nan_to_num(nan=-math.inf, posinf=math.inf, neginf=-math.inf).argsort(
        dim=1, descending=descending, stable=True
    )
    return torch.empty_like(order).scatter_(
        1, order, torch.arange(scores.shape[1], device=scores.device).expand_as(order)
    )


def top_k(scores: Tensor, k: Tensor | int, competing: Tensor) -> Tensor:
    """Returns bool [B, L]: the k best competing rows by (score descending, index ascending)."""
    order = ranks(scores.masked_fill(~competing, -math.inf))
    return (order < (k if isinstance(k, int) else k[:, None])) & competing


def integers(scores: np.ndarray) -> np.ndarray:
    """Returns scores as the integers that the library adds: 24 significant bits, shifted so that the largest has 32."""
    bits = scores.astype(np.float32).view(np.uint32).astype(np.int64) & 0x7FFFFFFF
    exponent = np.maximum(bits >> 23, 1)
    significand = (bits & 0x7FFFFF) | np.where(bits >> 23 > 0, 0x800000, 0)
    shifted: np.ndarray = (significand << 8) >> np.minimum(exponent.max(initial=1) - exponent, 63)
    return shifted


def refuse_sums(scores: np.ndarray, image: int) -> None:
    if np.isnan(scores).any() or (
        len(scores) > 1 and (np.isinf(scores).any() or (scores < 0).any() or not scores.any())
    ):
        raise invalid(f"image {image}: scores are NaN, negative, infinite or all zero, and cannot be added up")


def sampled(scores: np.ndarray, n_samples: int) -> np.ndarray:
    """Inverse transform sampling over the competing rows of one image: bool [n]."""
    n = len(scores)
    if n < 2:
        return np.ones(n, bool)
    order = np.argsort(scores, kind="stable")
    whole = integers(scores)
    sums = [0]
    for rank in range(1, n):
        sums.append(sums[-1] + int(whole[order[rank]]))
    first, steps = next(c for c in sums if c > 0), max(n_samples - 1, 1)
    keep = np.zeros(n, bool)
    last = lowest = 0  # last and first rank of the largest sum up to the point
    for sample in range(n_samples):
        point = first * steps + sample * (sums[-1] - first)
        while last + 1 < n and sums[last + 1] * steps <= point:
            last += 1
            lowest = last if sums[last] != sums[lowest] else lowest
        beyond = last + 1 < n and sums[last + 1] * steps - point < point - sums[lowest] * steps
        keep[order[last + 1 if beyond else lowest]] = True
    return keep


def heaviest(scores: np.ndarray, mass: float) -> np.ndarray:
    """Keeps the best rows of one image while their sum is at most a fraction of the sum of all: bool [n]."""
    n = len(scores)
    if n < 2:
        return np.ones(n, bool)
    order = np.argsort(-scores, kind="stable")
    whole = integers(scores)
    bound = int(whole.sum())
    if mass < 1.0:
        bound = bound * int(mass * 2**32) >> 32
    keep = np.zeros(n, bool)
    keep[order[: max(1, int((np.cumsum(whole[order]) <= bound).sum()))]] = True
    return keep


@functools.lru_cache(maxsize=64)
def random_scores(seed: int, stage: int, n: int) -> list[float]:
    """Returns random scores of positions by splitmix64; equal seeds give equal scores on every device."""
    mask = 2**64 - 1

    def step(state: int) -> tuple[int, int]:
        state = (state + 0x9E3779B97F4A7C15) & mask
        bits = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        bits = ((bits ^ bits >> 27) * 0x94D049BB133111EB) & mask
        return state, bits ^ bits >> 31

    state = step((step(seed)[1] + stage) & mask)[1]
    found = []
    for _ in range(n):
        state, bits = step(state)
        found.append(float(bits >> 40))
    return found


def keep_mask(schedule: Schedule, stage: int, rows: Rows, n_prefix: int, scores: Tensor) -> tuple[Tensor, int | None]:
    """Returns which rows a stage keeps, bool [B, L], and the number per image if it is the same for all."""
    batch, length = scores.shape
    prefix = torch.arange(length, device=scores.device) < n_prefix
    live = rows.live()
    competing = (~prefix).expand(batch, -1) if live is None else ~prefix & live
    if schedule.policy == "l2":
        competing = torch.ones_like(competing) if live is None else live
    if schedule.policy == "l2-threshold":
        return (scores >= at_least(schedule.threshold**2)) & competing | prefix, None
    if schedule.policy == "ats" or (schedule.policy == "ats-paper" and schedule.mass is not None):
        return _summed(schedule, scores, competing) | prefix, None
    if rows.lengths is None:
        n = length - (0 if schedule.policy == "l2" else n_prefix)
        k = count(schedule, n)
        kept = top_k(scores, k, competing) | prefix
        return kept, length if k == n else None if schedule.policy == "l2" else k + n_prefix
    table = torch.tensor([count(schedule, n) for n in range(length + 1)], device=scores.device)
    return top_k(scores, table[competing.sum(1)], competing) | prefix, None


def at_least(value: float) -> float:
    """Returns the smallest float32 that is not below a value."""
    nearest = np.float32(value)
    return float(np.nextafter(nearest, np.float32(np.inf)) if float(nearest) < value else nearest)


def expect_values(policy: str, x: Tensor) -> None:
    """Refuses a trace, which would fix the number of kept tokens that depends on these images for all later calls."""
    if (
        torch.compiler.is_compiling()
        or torch._C._is_tracing()
        or torch._C._functorch.is_functorch_wrapped_tensor(x)
        or type(x) not in (Tensor, torch.nn.Parameter)
    ):
        raise unsupported(
            f"policy {policy!r} keeps as many tokens as the images' values say, which torch.export, torch.jit.trace and"
            " torch.vmap cannot record; take one that keeps a fixed share, such as 'evit'"
        )


def _summed(schedule: Schedule, scores: Tensor, competing: Tensor) -> Tensor:
    """Computes, on the host, the policies that sum scores."""
    expect_values(schedule.policy, scores)
    values, places = scores.detach().cpu().numpy(), competing.cpu().numpy()
    kept = np.zeros(values.shape, bool)
    for image in range(len(values)):
        mine = values[image][places[image]]
        refuse_sums(mine, image)
        kept[image, places[image]] = (
            sampled(mine, schedule.n_samples)
            if schedule.policy == "ats"
            else heaviest(mine, schedule.mass if schedule.mass is not None else 1.0)
        )
    return torch.from_numpy(kept).to(scores.device)


def gather(rows: Rows, keep: Tensor, fixed: int | None, policy: str) -> Rows:
    """Gathers the kept rows of each image, in order."""
    if fixed is None:
        expect_values(policy, keep)
    lengths = None if fixed is not None else keep.sum(1)
    width = fixed if fixed is not None else int(lengths.max()) if lengths is not None and len(lengths) else 0
    source = keep.logical_not().to(torch.uint8).argsort(dim=1, stable=True)[:, :width]
    x = rows.x.gather(1, source[:, :, None].expand(-1, -1, rows.x.shape[2]))
    return Rows(x, lengths, None if rows.sizes is None else rows.sizes.gather(1, source))


def select(
    schedule: Schedule, stage: int, rows: Rows, n_prefix: int, probs: Tensor | None, values: Tensor | None
) -> Rows:
    """Runs a prune stage that drops rows.

    probs: the attention that the policy uses as scores. values: [B, L, D]; ats multiplies the attention by their norms.
    """
    policy, x = schedule.policy, rows.x
    if policy == "random":
        places = torch.tensor(random_scores(schedule.seed, stage, x.shape[1]), device=x.device)
        scores = places.expand(x.shape[0], -1)
    elif policy in ("l2", "l2-threshold"):
        scores = wide(x.detach()).square().sum(-1)
    else:
        assert probs is not None
        scores = probs
        if policy in ("ats", "ats-paper"):
            scores = scores.detach() * wide((x if values is None else values).detach()).square().sum(-1).sqrt()
    keep, fixed = keep_mask(schedule, stage, rows, n_prefix, scores.detach())
    if fixed == x.shape[1]:
        return rows
    kept = gather(rows, keep, fixed, policy)
    if policy == "evit-fused":
        dropped = scores.masked_fill(keep, 0.0).to(x.dtype)
        kept.x = torch.cat([kept.x, (dropped[:, None] @ x)], 1)
    return kept


@torch.no_grad()
def match(k: Tensor, n_prefix: int, merges: int) -> tuple[Tensor, int] | None:
    """Finds ToMe's pairs in a batch without padding.

    Returns the row that each row is merged into, int64 [B, L], and the number of remaining rows.
    """
    batch, _, length, _ = k.shape
    merges = min(merges, (length - n_prefix) // 2)
    if merges == 0:
        return None
    metric = wide(k).sum(1)
    norm = metric.norm(dim=-1, keepdim=True)
    metric = torch.where(norm > 0, metric / norm, 0.0)
    places = torch.arange(length, device=k.device)
    a, b = places[n_prefix + n_prefix % 2 :: 2], places[n_prefix + 1 - n_prefix % 2 :: 2]
    best, partner = (metric[:, a] @ metric[:, b].transpose(-1, -2)).max(-1)
    merged = ranks(best) < merges
    left = n_prefix + len(a) - merges
    to = places.expand(batch, -1).clone()
    stays = n_prefix - 1 + (~merged).cumsum(1)
    to[:, a] = torch.where(merged, left + partner, stays)
    to[:, b] = left + torch.arange(len(b), device=k.device).expand(batch, -1)
    return to, length - merges


def merge(rows: Rows, k: Tensor, n_prefix: int, merges: int) -> Rows:
    """Replaces similar rows by their mean, weighted by the number of tokens in each."""
    found = match(k, n_prefix, merges)
    sizes = torch.ones_like(rows.x[:, :, 0], dtype=torch.float32) if rows.sizes is None else rows.sizes
    if found is None:
        return Rows(rows.x, None, sizes)
    to, left = found
    total = torch.zeros_like(sizes[:, :left]).scatter_add_(1, to, sizes)
    weighted = rows.x * sizes[:, :, None].to(rows.x.dtype)
    summed = torch.zeros_like(weighted[:, :left]).scatter_add(1, to[:, :, None].expand_as(weighted), weighted)
    return Rows(summed / total[:, :, None].to(rows.x.dtype), None, total)


class TimmBlock:
    """A timm block, split where the library prunes."""

    def __init__(self, block: Any) -> None:
        self.block, self.attention = block, block.attn

    def qkv(self, x: Tensor) -> Any:
        b, n, _ = x.shape
        return (
            self.attention.qkv(self.block.norm1(x))
            .reshape(b, n, 3, self.attention.num_heads, -1)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )

    @property
    def dropout(self) -> float:
        return float(self.attention.attn_drop.p) if self.attention.training else 0.0

    def project(self, x: Tensor, attended: Tensor) -> Any:
        return x + self.block.drop_path1(self.block.ls1(self.attention.proj_drop(self.attention.proj(attended))))

    def mlp(self, x: Tensor) -> Any:
        return x + self.block.drop_path2(self.block.ls2(self.block.mlp(self.block.norm2(x))))


class HfBlock:
    """A block of Hugging Face's ViT or DeiT, split where the library prunes."""

    def __init__(self, layer: Any) -> None:
        self.layer, self.attention = layer, layer.attention

    def qkv(self, x: Tensor) -> Any:
        b, n, _ = x.shape
        x = self.layer.layernorm_before(x)
        return tuple(
            part(x).view(b, n, self.attention.num_attention_heads, -1).transpose(1, 2)
            for part in (self.attention.q_proj, self.attention.k_proj, self.attention.v_proj)
        )

    @property
    def dropout(self) -> float:
        return float(self.attention.attention_dropout) if self.attention.training else 0.0

    def project(self, x: Tensor, attended: Tensor) -> Any:
        return self.layer.dropout(self.attention.o_proj(attended)) + x

    def mlp(self, x: Tensor) -> Any:
        return self.layer.dropout(self.layer.mlp(self.layer.layernorm_after(x))) + x


def run_blocks(blocks: list[Any], x: Tensor, n_prefix: int, schedule: Schedule) -> Tensor:
    """Runs the blocks and returns the prefix rows: [B, n_prefix, D]."""
    rows, stage = Rows(x), 0
    for index, block in enumerate(blocks):
        prunes = stage < len(schedule.blocks) and schedule.blocks[stage] == index
        q, k, v = block.qkv(rows.x)
        bias = rows.key_bias()
        attended = attend(q, k, v, bias, block.dropout).transpose(1, 2).flatten(2)
        probs = None
        if prunes and schedule.policy in BY_CLS:
            probs = cls_attention(q, k, bias)
        elif prunes and schedule.policy == "received":
            probs = received_attention(q, k, rows)
        rows.x = block.project(rows.x, attended)
        if prunes and schedule.policy == "tome":
            rows = merge(rows, k, n_prefix, schedule.merges)
        elif prunes and schedule.policy not in AFTER_BLOCK:
            rows = select(schedule, stage, rows, n_prefix, probs, v.transpose(1, 2).flatten(2))
        rows.x = block.mlp(rows.x)
        if prunes and schedule.policy in AFTER_BLOCK:
            rows = select(schedule, stage, rows, n_prefix, probs, None)
        stage += prunes
    return rows.x[:, :n_prefix]


def check_module(module: Any) -> None:
    """Refuses a module with code that forward, below, would skip.

    forward calls most parts as modules, which may be of any kind, for example adapters. It splits the blocks and their
    attention: these, and the parts that contain them, must be the original ones, without hooks.
    """
    r, timm = Reader(module), kind_of(module) == "timm"
    inner = module if timm else backbone(module)
    apart = [("" if timm else "its backbone", inner), ("its blocks", inner.blocks if timm else inner.layers)]
    for i, block in enumerate(apart[1][1]):
        where = f"{'blocks' if timm else 'layers'}.{i}"
        r.part(where, block, "timm" if timm else "transformers", *(("Block",) if timm else ("ViTLayer", "DeiTLayer")))
        at, attention = (f"{where}.attn", block.attn) if timm else (f"{where}.attention", block.attention)
        apart += [(where, block), (at, attention)]
        if timm:
            attention_itself(r, at, attention, module.embed_dim)
            r.expect(type(attention.norm) is torch.nn.Identity, f"{at}.norm", "is given; a patched module has none")
        else:
            r.part(at, attention, "transformers", "ViTAttention", "DeiTAttention")
            expect_attention(r, at, attention)
            expect_heads(r, at, module.config.hidden_size, attention.num_attention_heads, attention.scaling)
    refuse_replaced(apart, inside_only=True, skips="the pruned forward in PyTorch")
    if timm:
        r.part("its blocks", module.blocks, "torch", "Sequential")
        r.expect(module.global_pool == "token", "global_pool", f"is {module.global_pool!r}; expected 'token'")
        r.expect(type(module.norm_pre) is torch.nn.Identity, "norm_pre", "is given; a patched module has none")
        drops = module.patch_drop.training and type(module.patch_drop) is not torch.nn.Identity
        r.expect(
            not drops,
            "patch_drop",
            "drops tokens at random in training, which pruning does not allow for; set it to Identity",
        )
        r.expect(
            not (module.grad_checkpointing and module.training),
            "gradient checkpointing",
            "of a patched module is not supported; set_grad_checkpointing(False)",
        )


def forward(module: Any, images: Tensor, policy: Policy) -> Any:
    """Returns the pruned logits of a patched module; for Hugging Face (logits, those of CLS, those of the
    distillation token)."""
    if kind_of(module) == "timm":
        x = module._pos_embed(module.patch_embed(images))
        n_prefix = module.num_prefix_tokens
        schedule = schedule_of(policy, len(module.blocks), x.shape[1] - n_prefix)
        x = run_blocks([TimmBlock(block) for block in module.blocks], x, n_prefix, schedule)
        return module.forward_head(module.norm(x))
    inner = backbone(module)
    x = inner.embeddings(images)
    n_prefix = 2 if hasattr(inner.embeddings, "distillation_token") else 1
    schedule = schedule_of(policy, len(inner.layers), x.shape[1] - n_prefix)
    x = inner.layernorm(run_blocks([HfBlock(layer) for layer in inner.layers], x, n_prefix, schedule))
    if hasattr(module, "classifier"):
        return module.classifier(x[:, 0]), None, None
    heads = module.cls_classifier(x[:, 0]), module.distillation_classifier(x[:, 1])
    return (heads[0] + heads[1]) / 2, *heads
