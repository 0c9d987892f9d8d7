"""The measured points: batches of image lengths, and tensors for them."""

import dataclasses
import random

import torch


@dataclasses.dataclass
class Point:
    name: str
    lengths: list
    capacity: int  # tokens of an unpruned image, to which baselines pad
    swept: bool  # belongs to the sweep over batch size and kept tokens, not to the ragged sets

    @property
    def batch(self):
        return len(self.lengths)

    @property
    def rows(self):
        return sum(self.lengths)

    @property
    def longest(self):
        return max(self.lengths)


def sweep(batches=(1, 4, 16, 64, 256), kept=(197, 99, 41, 21)):
    return [Point(f"B={b} S={s}", [s] * b, 197, True) for b in batches for s in kept]


def _uniform(batch, low, high):
    generator = random.Random(batch * 1000 + high)
    return [generator.randint(low, high) for _ in range(batch)]


def ragged():
    return [
        Point("B=64 uniform 20..197", _uniform(64, 20, 197), 197, False),
        Point("B=64 one 197, rest 21", [197] + [21] * 63, 197, False),
        Point("B=256 uniform 20..197", _uniform(256, 20, 197), 197, False),
        Point("B=256 one 197, rest 21", [197] + [21] * 255, 197, False),
        Point("B=64 uniform 60..577", _uniform(64, 60, 577), 577, False),
        Point("B=64 S=577", [577] * 64, 577, False),
        Point("B=256 S=577", [577] * 256, 577, False),
    ]


def long_images():
    mixed = _uniform(16, 100, 1024)
    return [Point("B=16 uniform 100..1024", mixed, max(mixed), False)] + [
        Point(f"B={b} S={s}", [s] * b, s, True) for b, s in ((8, 1024), (64, 577), (256, 577), (4, 4096))]


def tiny():
    return [Point("B=2 S=5", [5, 5], 9, True), Point("B=3 ragged", [9, 1, 4], 9, False)]


class Batch:
    """Random qkv [rows, 3, heads, head_dim], as a GEMM writes it, packed and padded, with the lengths on the device."""

    def __init__(self, context, point, heads, head_dim, dtype):
        self.point, self.heads, self.head_dim, self.dtype = point, heads, head_dim, dtype
        self.device = context.torch_device
        self.qkv = context.empty(point.rows, 3, heads, head_dim, dtype=dtype)
        self.qkv.normal_()
        self.q, self.k, self.v = self.qkv.unbind(1)
        ends = torch.tensor([0] + point.lengths).cumsum(0)
        self.cu_seqlens = context.empty(point.batch + 1, dtype=torch.int32)
        self.cu_seqlens.copy_(ends.to(torch.int32))
        lengths = torch.tensor(point.lengths, device=self.device)
        self.live = torch.arange(point.capacity, device=self.device)[None, :] < lengths[:, None]
        self.scale = head_dim**-0.5
        self._padded = None

    def padded(self):
        """q, k, v as [batch, heads, capacity, head_dim] views of a padded GEMM output; the padding is random, too."""
        if self._padded is None:
            p = self.point
            grid = torch.randn(p.batch, p.capacity, 3, self.heads, self.head_dim, device=self.device).to(self.dtype)
            grid[self.live] = self.qkv
            self._padded = [t.transpose(1, 2) for t in grid.unbind(2)]
        return self._padded

    def pack(self, out):
        """Rows of a padded result [batch, heads, capacity, head_dim] that belong to images."""
        return out.transpose(1, 2)[self.live]

    def reference(self, images=16):
        """Attention in float64, a few images at a time."""
        p, parts = self.point, []
        ends = torch.tensor([0] + p.lengths).cumsum(0).tolist()
        for first in range(0, p.batch, images):
            lengths = p.lengths[first : first + images]
            longest = max(lengths)
            grid = torch.zeros(len(lengths), longest, 3, self.heads, self.head_dim, device=self.device, dtype=torch.float64)
            live = torch.arange(longest, device=self.device)[None, :] < torch.tensor(lengths, device=self.device)[:, None]
            grid[live] = self.qkv[ends[first] : ends[first + len(lengths)]].double()
            q, k, v = (t.transpose(1, 2) for t in grid.unbind(2))
            logits = (q @ k.transpose(-1, -2)) * self.scale
            logits.masked_fill_(~live[:, None, None, :], float("-inf"))
            parts.append((logits.softmax(-1) @ v).transpose(1, 2)[live])
        return torch.cat(parts)


def error(result, reference):
    """Relative error in the Euclidean norm, and the largest difference."""
    difference = result.double().reshape(reference.shape) - reference
    return {"relative": float(difference.norm() / reference.norm()), "largest": float(difference.abs().max())}
