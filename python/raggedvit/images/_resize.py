"""Resizing with antialiasing in numpy, bit-equal to the libraries of models' training, as in tools/cli/resize.c."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

PILLOW_BITS = 22  # of a weight's fraction


@dataclass(frozen=True)
class Axis:
    """Resize weights of one axis: output i is the sum of weights[i, j] * input[first[i] + j]; unused ones are 0."""

    first: NDArray[np.int64]
    weights: NDArray[np.float64]
    end: int  # past the last input


def axis_taps(filter: str, size: int, full: int, start: int, n: int) -> Axis:
    """Returns the taps of outputs start .. start + n - 1 when `size` pixels become `full`."""
    scale = size / full
    widened = max(scale, 1.0)
    support = (2.0 if filter == "bicubic" else 1.0) * widened
    centres = (np.arange(start, start + n) + 0.5) * scale
    first = np.maximum(centres - support + 0.5, 0).astype(np.int64)
    count = np.minimum(centres + support + 0.5, size).astype(np.int64) - first
    weights = np.zeros((n, int(count.max())))
    total = np.zeros(n)
    for tap in range(weights.shape[1]):  # in this order, which is that of the libraries' sums
        x = np.abs((first + tap - centres + 0.5) * (1.0 / widened))
        if filter == "bicubic":
            near, far = ((-0.5 + 2.0) * x - (-0.5 + 3.0)) * x * x + 1.0, (((x - 5.0) * x + 8.0) * x - 4.0) * -0.5
            values = np.where(x < 1.0, near, np.where(x < 2.0, far, 0.0))
        else:
            values = np.where(x < 1.0, 1.0 - x, 0.0)
        weights[:, tap] = np.where(tap < count, values, 0.0)
        total += weights[:, tap]
    return Axis(first, weights / np.where(total == 0, 1.0, total)[:, None], int((first + count).max()))


def torch_bits(filter: str, size: int, full: int) -> int:
    """Returns the fraction bits of an axis in PyTorch: as many as keep its largest weight within 16 bits."""
    largest, bits = float(axis_taps(filter, size, full, 0, full).weights.max()), 0
    while bits < PILLOW_BITS and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
        bits += 1
    return bits


def _shrink(lines: np.ndarray, axis: Axis, begin: int, along: int, bits: int | None) -> np.ndarray:
    """Applies taps along an axis whose first pixel has the number `begin`. bits: of fixed point; None: float32."""
    shape: list[Any] = [1, 1, 1]
    shape[along] = -1
    if bits is None:
        weights, total = axis.weights.astype(np.float32), np.float32(0)
    else:
        scaled = axis.weights * (1 << bits)
        weights, total = np.trunc(scaled + np.where(scaled < 0, -0.5, 0.5)).astype(np.int32), np.int32(1 << (bits - 1))
    last = lines.shape[along] - 1
    for tap in range(weights.shape[1]):
        taken = lines.take(np.minimum(axis.first + tap - begin, last), along)
        total = total + taken * weights[:, tap].reshape(shape)
    return np.asarray(total) if bits is None else np.clip(np.asarray(total) >> bits, 0, 255).astype(np.uint8)


def resize(
    image: NDArray[np.uint8], filter: str, sums: str, size: tuple[int, int], window: tuple[int, int, int, int]
) -> np.ndarray:
    """Resizes an image [h, w, 3] to size (width, height), and returns a window (left, top, width, height) of it.

    Nothing outside the window is computed. sums: whose arithmetic: "pillow" (13), "torch" (of 8-bit values), or "float"
    (PyTorch's in float32, from 0 to 1).
    """
    (h, w), (left, top, width, height) = image.shape[:2], window
    across, down = axis_taps(filter, w, size[0], left, width), axis_taps(filter, h, size[1], top, height)
    x0, y0 = int(across.first[0]), int(down.first[0])
    part: np.ndarray = image[y0 : down.end, x0 : across.end]
    if sums == "float":
        part = part.astype(np.float32) * np.float32(1 / 255)
        return _shrink(_shrink(part, across, x0, 1, None), down, y0, 0, None)
    bits = (
        (PILLOW_BITS, PILLOW_BITS)
        if sums == "pillow"
        else (torch_bits(filter, w, size[0]), torch_bits(filter, h, size[1]))
    )
    # Pillow shrinks the lines first if they shrink by far more
    if sums == "pillow" and size[1] < h and h - size[1] > 2 * (w - size[0]):
        return _shrink(_shrink(part, down, y0, 0, bits[1]), across, x0, 1, bits[0])
    return _shrink(_shrink(part, across, x0, 1, bits[0]), down, y0, 0, bits[1])
