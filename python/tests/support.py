"""Shared by the tests: paths of the data, preprocessed tiles of the demo's sheet, and attention in float64."""

import ctypes
import functools
import json
import pathlib
import struct
import sys
import threading
import unittest
import zlib

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
DATA = ROOT / "examples" / "data"
CHECKPOINT = DATA / "deit_tiny_cifar10.safetensors"
TILE, COLUMNS, SIZE = 32, 40, 224


class Case(unittest.TestCase):
    def fails(self, status, words, function, *arguments, **named):
        """Expects a RaggedVitError with this status and a message that matches."""
        from raggedvit import RaggedVitError

        with self.assertRaisesRegex(RaggedVitError, words) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.status, status, str(caught.exception))


def png_rows(path, n):
    """Reads the first n lines of an 8-bit RGB PNG without interlacing: uint8 [n, width, 3]."""
    data, at, packed = path.read_bytes(), 8, b""
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        body = data[at + 8 : at + 8 + length]
        if kind == b"IHDR":
            width, _, *rest = struct.unpack(">IIBBBBB", body)
            assert rest == [8, 2, 0, 0, 0], rest
        elif kind == b"IDAT":
            packed += body
        at += length + 12
    raw, size = zlib.decompress(packed), 3 * width
    above, lines = [0] * size, []
    for y in range(n):
        kind, line = raw[y * (size + 1)], list(raw[y * (size + 1) + 1 : (y + 1) * (size + 1)])
        for x in range(size):
            a, b, c = (line[x - 3], above[x], above[x - 3]) if x >= 3 else (0, above[x], 0)
            if kind == 4:
                guess = min((abs(b - c), 0, a), (abs(a - c), 1, b), (abs(a + b - 2 * c), 2, c))[2]
            else:
                guess = (0, a, b, (a + b) // 2)[kind]
            line[x] = (line[x] + guess) & 255
        lines.append(line)
        above = line
    return np.array(lines, np.uint8).reshape(n, width, 3)


@functools.lru_cache(None)
def resampling(size, wanted):
    """Returns a bicubic enlargement (a = -0.5) as a matrix of 22-bit fixed-point weights, rounded as in Pillow."""
    weights = np.zeros((wanted, size), np.int64)
    for i in range(wanted):
        center = (i + 0.5) * size / wanted
        columns = np.arange(max(0, int(center - 1.5)), min(size, int(center + 2.5)))
        x = np.abs(columns + 0.5 - center)
        near, far = 1.5 * x**3 - 2.5 * x**2 + 1, -0.5 * x**3 + 2.5 * x**2 - 4 * x + 2
        row = np.where(x < 1, near, np.where(x < 2, far, 0.0))
        row = row / row.sum() * (1 << 22)
        weights[i, columns] = np.trunc(row + np.where(row < 0, -0.5, 0.5)).astype(np.int64)
    return weights


def enlarge(tile):
    weights = resampling(TILE, SIZE)
    for step in ("ox,yxc->yoc", "oy,yxc->oxc"):
        tile = np.clip((np.einsum(step, weights, tile.astype(np.int64)) + (1 << 21)) >> 22, 0, 255)
    return tile


@functools.lru_cache(None)
def tiles(n):
    """Returns the first n tiles of the sheet: float32 [n, 3, 224, 224], normalised."""
    sheet = png_rows(DATA / "cifar10_test_1000.png", (n + COLUMNS - 1) // COLUMNS * TILE)
    out = np.empty((n, 3, SIZE, SIZE), np.float32)
    for i in range(n):
        y, x = i // COLUMNS * TILE, i % COLUMNS * TILE
        pixels = enlarge(sheet[y : y + TILE, x : x + TILE]) / 255
        out[i] = ((pixels - (0.485, 0.456, 0.406)) / (0.229, 0.224, 0.225)).transpose(2, 0, 1)
    return out


def overflowing_checkpoint(folder):
    """Writes the demo's checkpoint with an MLP that overflows float16; in float32 the results are nearly the same."""
    data = CHECKPOINT.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header, at, values = json.loads(data[8 : 8 + size]), 0, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = {"F16": np.float16, "F32": np.float32}[entry["dtype"]]
        value = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype).astype(np.float32)
        value *= 2**20 if "blocks.5.mlp.fc1" in name else 2**-20 if name == "blocks.5.mlp.fc2.weight" else 1
        entry.update(dtype="F32", data_offsets=[at, at := at + value.nbytes])
        values.append(value.tobytes())
    text = json.dumps(header).encode()
    path = pathlib.Path(folder, "overflowing.safetensors")
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(values))
    return path


def reference_logits():
    return np.loadtxt(DATA / "cifar10_test_logits_64.txt").reshape(64, 10)


def reference_attention(qkv, cu_seqlens, scale=None):
    """Computes attention in float64."""
    qkv = np.asarray(qkv, np.float64)
    rows, _, heads, dim = qkv.shape
    out = np.full((rows, heads, dim), np.nan)
    scale = dim**-0.5 if scale is None else scale
    for begin, end in zip(cu_seqlens[:-1], cu_seqlens[1:]):
        q, k, v = (qkv[begin:end, i].transpose(1, 0, 2) for i in range(3))
        logits = scale * q @ k.transpose(0, 2, 1)
        p = np.exp(logits - logits.max(-1, keepdims=True, initial=-np.inf))
        out[begin:end] = (p / p.sum(-1, keepdims=True) @ v).transpose(1, 0, 2)
    return out


def batch(lengths, heads=3, dim=64, dtype=np.float32, seed=1, padding=0):
    """Returns (qkv, cu_seqlens) with `padding` rows of NaN at the end."""
    cu = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    qkv = np.random.default_rng(seed).standard_normal((cu[-1] + padding, 3, heads, dim)).astype(dtype)
    qkv[cu[-1] :] = np.nan
    return qkv, cu


def counts(model):
    """Returns the launches, submits, synchronizations and copies of a model's sessions, and its device's
    allocations."""
    from raggedvit._c.layouts import new

    total = dict.fromkeys(("launches", "submits", "synchronizations", "copies"), 0)
    for session in model._sessions:
        stats = new("rvit_stats")
        model._lib.rvit_session_get_stats(session.handle, ctypes.byref(stats))
        for name in total:
            total[name] += getattr(stats, name)
    return total | {"device_allocations": stats.device_allocations}


def in_threads(*works):
    """Runs functions in parallel threads, and raises the first exception of any of them."""
    raised = []

    def guarded(work):
        try:
            work()
        except BaseException as failure:
            raised.append(failure)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]
