"""A simple float64 forward of a Vision Transformer, one image at a time.

A policy (policies.py) is called at three points of each block and may remove rows from the state.
"""

import json
import struct

import numpy as np
from PIL import Image
from scipy.special import erf

DTYPES = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)


def read_safetensors(path):
    """All tensors by name, as float64."""
    with open(path, "rb") as file:
        (header_size,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_size))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            values = np.frombuffer(data[begin:end], DTYPES[entry["dtype"]])
            tensors[name] = values.reshape(entry["shape"]).astype(np.float64)
    return tensors


def read_tiles(path, count, tile, size):
    """Yields the first tiles of a sheet as model inputs, [3, size, size] each. The normalisation is in float32, as in other libraries."""
    sheet = Image.open(path).convert("RGB")
    columns = sheet.width // tile
    for n in range(count):
        left, top = n % columns * tile, n // columns * tile
        view = sheet.crop((left, top, left + tile, top + tile)).resize((size, size), Image.Resampling.BICUBIC)
        values = (np.asarray(view, np.float32) / np.float32(255) - MEAN) / DEVIATION
        yield values.transpose(2, 0, 1).astype(np.float64)


def layernorm(x, weight, bias, eps):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps) * weight + bias


def gelu(x):
    return 0.5 * x * (1 + erf(x / np.sqrt(2)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


class Model:
    def __init__(self, path, eps=1e-6, head_dim=64):
        self.tensors = read_safetensors(path)
        self.eps = eps
        self.dim = self["patch_embed.proj.bias"].size
        self.n_heads = self.dim // head_dim
        self.head_dim = head_dim
        self.depth = 1 + max(int(name.split(".")[1]) for name in self.tensors if name.startswith("blocks."))
        self.patch = self["patch_embed.proj.weight"].shape[-1]
        self.n_prefix = 2 if "dist_token" in self.tensors else 1
        self.n_patches = self["pos_embed"].shape[1] - self.n_prefix
        self.n_classes = self["head.bias"].size

    def __getitem__(self, name):
        return self.tensors[name]

    def linear(self, x, name):
        return x @ self[name + ".weight"].T + self[name + ".bias"]

    def norm(self, x, name):
        return layernorm(x, self[name + ".weight"], self[name + ".bias"], self.eps)

    def embed(self, image):
        p = self.patch
        grid = image.shape[1] // p
        patches = image.reshape(3, grid, p, grid, p).transpose(1, 3, 0, 2, 4).reshape(grid * grid, 3 * p * p)
        rows = patches @ self["patch_embed.proj.weight"].reshape(self.dim, -1).T + self["patch_embed.proj.bias"]
        prefix = [self[name][0] for name in ("cls_token", "dist_token") if name in self.tensors]
        return np.concatenate(prefix + [rows]) + self["pos_embed"][0]

    def attention(self, x, block, sizes):
        """Returns x after the residual, the probabilities [heads, rows, rows], and the keys and values [rows, heads, head_dim]."""
        name = f"blocks.{block}."
        qkv = self.linear(self.norm(x, name + "norm1"), name + "attn.qkv").reshape(len(x), 3, self.n_heads, self.head_dim)
        q, k, v = qkv[:, 0], qkv[:, 1], qkv[:, 2]
        logits = np.einsum("ihd,jhd->hij", q, k, optimize=True) * self.head_dim**-0.5
        if sizes is not None:
            logits = logits + np.log(sizes)
        probabilities = softmax(logits)
        out = np.einsum("hij,jhd->ihd", probabilities, v, optimize=True).reshape(len(x), self.dim)
        return x + self.linear(out, name + "attn.proj"), probabilities, k, v

    def mlp(self, x, block):
        name = f"blocks.{block}."
        return x + self.linear(gelu(self.linear(self.norm(x, name + "norm2"), name + "mlp.fc1")), name + "mlp.fc2")

    def head(self, x):
        x = self.norm(x[: self.n_prefix], "norm")
        logits = self.linear(x[0], "head")
        return (logits + self.linear(x[1], "head_dist")) / 2 if self.n_prefix == 2 else logits


class State:
    """The state of an image in the forward. ids: the patch index of each row after the prefix; -1 for a fused token."""

    def __init__(self, model, image):
        self.model = model
        self.x = model.embed(image)
        self.ids = np.arange(model.n_patches)
        self.sizes = None  # of all rows, including the prefix; None: all 1
        self.attention = self.keys = self.values = None  # of the current block, for the rows of its attention
        self.stages = []

    def patches(self):
        return self.x[self.model.n_prefix :]

    def keep(self, kept):
        """kept: indices into the current patches, in their new order."""
        p = self.model.n_prefix
        self.x = np.concatenate([self.x[:p], self.x[p + kept]])
        self.ids = self.ids[kept]

    def record(self, block, margin):
        self.stages.append((block, self.ids.copy(), None if self.sizes is None else self.sizes.copy(), margin))


def forward(model, image, policy):
    """Returns the logits and, for each prune stage, (block, ids, sizes, margin)."""
    state = State(model, image)
    for block in range(model.depth):
        policy.before_block(state, block)
        state.x, state.attention, state.keys, state.values = model.attention(state.x, block, state.sizes)
        policy.after_attention(state, block)
        state.x = model.mlp(state.x, block)
        policy.after_block(state, block)
    return model.head(state.x), state.stages
