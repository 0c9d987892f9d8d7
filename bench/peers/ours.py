"""The library's attention from Python: by a prepared C call, and by the functions that a Python program calls."""

import ctypes

import raggedvit
from raggedvit._constants import CONSTANTS
from raggedvit._layouts import new

from .library import DTYPES


def attention(place, batch, **options):
    """(call, result) of one eager rvit_attention on a batch; the args are filled in beforehand, as a C program does it."""
    library, point = place.library, batch.point
    out = place.empty(point.rows, batch.heads * batch.head_dim, dtype=batch.dtype)
    stride = 3 * batch.heads * batch.head_dim
    args = new(
        "rvit_attention_args", dtype=CONSTANTS[DTYPES[batch.dtype]], n_images=point.batch, n_heads=batch.heads,
        head_dim=batch.head_dim, max_len=point.longest, rows=point.rows, q=place.view(batch.q), k=place.view(batch.k),
        v=place.view(batch.v), q_stride=stride, k_stride=stride, v_stride=stride, cu_seqlens=place.view(batch.cu_seqlens),
        out=place.view(out), **options)
    pointer, function, stream = ctypes.addressof(args), library.raw.rvit_attention, place.stream
    library.rvit_attention(stream, pointer)  # raises with the reason if the call is refused

    def call(_args=args, _out=out):  # keeps what pointer points at, and what the call writes
        if function(stream, pointer):
            raise RuntimeError(library.raw.rvit_status_detail().decode())

    def result():
        out.fill_(float("nan"))
        call()
        return out

    return call, result


def function(batch):
    """raggedvit.attention, which checks its arguments and allocates its output."""
    longest, scale = batch.point.longest, batch.scale
    return lambda: raggedvit.attention(batch.qkv, batch.cu_seqlens, scale, longest)


def operator(batch):
    """The same as an operator of PyTorch's."""
    import raggedvit.torch

    run, longest, scale = raggedvit.torch.attention, batch.point.longest, batch.scale
    return lambda: run(batch.qkv, batch.cu_seqlens, longest, scale)
