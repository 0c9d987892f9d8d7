"""The library's attention from Python: a prepared C call, and the functions that a Python program calls."""

import ctypes

import raggedvit
from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new

from .library import DTYPES


def attention(context, batch, **options):
    """Returns (call, result) for one eager rvit_attention on a batch. The args are prepared, as in a C program."""
    library, point = context.library, batch.point
    out = context.empty(point.rows, batch.heads * batch.head_dim, dtype=batch.dtype)
    stride = 3 * batch.heads * batch.head_dim
    args = new(
        "rvit_attention_args", dtype=CONSTANTS[DTYPES[batch.dtype]], n_images=point.batch, n_heads=batch.heads,
        head_dim=batch.head_dim, max_len=point.longest, rows=point.rows, q=context.view(batch.q), k=context.view(batch.k),
        v=context.view(batch.v), q_stride=stride, k_stride=stride, v_stride=stride, cu_seqlens=context.view(batch.cu_seqlens),
        out=context.view(out), **options)
    pointer, function, stream = ctypes.addressof(args), library.raw.rvit_attention, context.stream
    library.rvit_attention(stream, pointer)  # raises with the reason if the call is refused

    def call(_args=args, _out=out):  # keeps what pointer points at, and what the call writes
        if function(stream, pointer):
            raise RuntimeError(library.raw.rvit_status_detail().decode())

    def result():
        out.fill_(float("nan"))
        call()
        return out

    return call, result


def function(batch, out=None, qkv=None, **options):
    """raggedvit.attention, which checks its arguments and allocates its output."""
    qkv, longest, scale = batch.qkv if qkv is None else qkv, batch.point.longest, batch.scale
    if out is None and not options:
        return lambda: raggedvit.attention(qkv, batch.cu_seqlens, scale, longest)
    return lambda: raggedvit.attention(qkv, batch.cu_seqlens, scale, longest, out, **options)


def operator(batch):
    """The same as a PyTorch operator."""
    import raggedvit.torch

    run, longest, scale = raggedvit.torch.attention, batch.point.longest, batch.scale
    return lambda: run(batch.qkv, batch.cu_seqlens, scale, longest)


def flash(batch):
    """The same with FlashAttention's signature."""
    import raggedvit.torch

    run, longest, scale = raggedvit.torch.flash_attn_varlen_func, batch.point.longest, batch.scale
    return lambda: run(batch.q, batch.k, batch.v, batch.cu_seqlens, batch.cu_seqlens, longest, longest, softmax_scale=scale)


def in_inference_mode(call):
    """100 calls in one inference mode, in which PyTorch records nothing for gradients."""
    import torch

    def inside():
        with torch.inference_mode():
            for _ in range(100):
                call()

    return inside


def step(batch, leaf, d_out):
    """Forward and backward."""
    call = function(batch, qkv=leaf)

    def both():
        leaf.grad = None
        call().backward(d_out)

    return both


def _selection(batch):
    _, _, probs = raggedvit.attention(batch.qkv, batch.cu_seqlens, None, batch.point.longest, cls_probs=True)
    return probs, raggedvit.select(batch.cu_seqlens, cls_probs=probs, keep=0.5, max_len=batch.point.longest)


def select(batch):
    probs, _ = _selection(batch)
    return lambda: raggedvit.select(batch.cu_seqlens, cls_probs=probs, keep=0.5, max_len=batch.point.longest)


def pack(batch):
    x, chosen = function(batch)(), _selection(batch)[1]
    return lambda: raggedvit.pack(x, chosen.src_rows, chosen.cu_seqlens)


def unpack(batch):
    x, chosen = function(batch)(), _selection(batch)[1]
    return lambda: raggedvit.unpack(x, chosen.src_rows, chosen.cu_seqlens, batch.point.rows)
