"""Ragged attention on the caller's arrays, in place wherever they may be used as they lie.

raggedvit.attention is a function of the compiled core, which computes what is plain: PyTorch tensors without a gradient, and numpy arrays
that are contiguous within a row. It leaves every other call to `general` here."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ._arrays import device_array, integers, is_symbol, is_torch, may_share, number_array, on_cuda, on_stream, refuse_shared
from ._checks import INT32_MAX, UINT64_MAX, float32, integer, optional, shown
from ._core_loader import core, ready
from ._errors import invalid
from ._typing import Array, ArrayT

DTYPES = ("float32", "float16", "bfloat16")


def general(qkv: Any, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: Any = None, *,
            stream: int | None = None, k: Any = None, v: Any = None, key_bias: Any = None, lse: Any = False,
            cls_probs: Any = False) -> Any:
    """Bidirectional attention of every sequence of a ragged batch with itself.

    qkv: float32, float16 or bfloat16 (CUDA) [rows, 3, heads, head_dim], head_dim a multiple of 8 up to 128; sequence i is rows
    cu_seqlens[i] .. cu_seqlens[i + 1] - 1. With k and v it is q alone, and each is [rows, heads, head_dim]. Rows may be further apart than
    they are long; within a row all is contiguous. cu_seqlens: int32 [n + 1], from 0, not decreasing. scale: of the logits; None: 1 /
    sqrt(head_dim). max_len: no sequence is longer. out: [rows, heads, head_dim] of qkv's type, which is then returned; None: a new one.
    Rows past cu_seqlens[n] are not written: undefined in a new one, or zeros if a gradient is recorded. Outputs must not overlap one
    another, nor on CUDA an input.

    key_bias: float32 [rows], added to the logits of each key. lse, cls_probs: True, or a float32 [rows, heads] to write: the logarithm of
    each softmax's denominator; the softmax row of the first token of each sequence. With either the result is the tuple (out, lse,
    cls_probs), with None for what was not asked for.

    numpy arrays and CPU tensors of PyTorch are computed on the library's CPU device before it returns; max_len defaults to the longest.

    CUDA arrays (PyTorch tensors, and whatever has __cuda_array_interface__ or DLPack) are used where they lie: the call enqueues one
    kernel or two and returns. Nothing is read back, so cu_seqlens is not checked and max_len defaults to rows: give it, since work that no
    sequence has is skipped but not free. stream: a CUstream as an int; None: PyTorch's current stream for its tensors, else the stream that
    __cuda_array_interface__ names, else the legacy default stream. Other arrays than PyTorch's need an out, and their device's context
    current in the thread. Memory must be 16-byte aligned, cu_seqlens 4-byte.

    PyTorch tensors that require grad get one: for q, k, v and key_bias, from out, lse and cls_probs. Where none can be given (an out, lse
    or cls_probs of the caller's) the call raises. Any thread may call; each has streams of its own. Raises RaggedVitError.
    """
    scale, max_len = optional(float32, "scale", scale), optional(integer, "max_len", max_len, 0, INT32_MAX - 1)
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    if scale is not None and (not scale or math.isinf(scale)):
        raise invalid(f"scale is {scale:g}; expected another number, or None for 1 / sqrt(head_dim)")
    ready()
    named = {"q" if k is not None else "qkv": qkv, "cu_seqlens": cu_seqlens, "out": out, "k": k, "v": v, "key_bias": key_bias,
             "lse": _output(lse), "cls_probs": _output(cls_probs)}
    if is_torch(qkv) or any(map(is_symbol, named.values())):
        from . import _torch_attention

        return _torch_attention.attention(named, scale, max_len, stream)
    if on_cuda(qkv):
        return _on_cuda(named, scale, max_len, stream)
    if stream is not None:
        raise invalid("a stream is given, but qkv is not on a CUDA device")
    for name, array in named.items():
        if array is not None and array is not True and on_cuda(array):
            raise invalid(f"{name} is on a CUDA device, qkv is not")
    return _on_host(named, scale, max_len)


if TYPE_CHECKING:
    @overload
    def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
                  stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
                  lse: Literal[False] | None = False, cls_probs: Literal[False] | None = False) -> ArrayT: ...

    @overload
    def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
                  stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
                  lse: Literal[True] | Array, cls_probs: bool | Array | None = False) -> tuple[ArrayT, Any, Any]: ...

    @overload
    def attention(qkv: ArrayT, cu_seqlens: Any, scale: float | None = None, max_len: int | None = None, out: ArrayT | None = None, *,
                  stream: int | None = None, k: ArrayT | None = None, v: ArrayT | None = None, key_bias: Array | None = None,
                  lse: bool | Array | None = False, cls_probs: Literal[True] | Array) -> tuple[ArrayT, Any, Any]: ...

    def attention(*arguments: Any, **named: Any) -> Any:
        return general(*arguments, **named)

elif core is None:
    attention = general
else:
    attention = core.attention
    core.hook("attention", general)


def _output(value: Any) -> Any:
    """An output that may be asked for: None if it is not."""
    if isinstance(value, (bool, np.bool_)):
        return True if value else None
    return value


def strict(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None = None) -> Any:
    """The core's attention of arrays that it must take as they are."""
    qkv = named["q"] if "q" in named else named["qkv"]
    return ready().strict_attention(qkv, named["cu_seqlens"], scale, max_len, named["out"], stream=stream, k=named["k"], v=named["v"],
                                    key_bias=named["key_bias"], lse=named["lse"], cls_probs=named["cls_probs"])


def _on_host(named: dict[str, Any], scale: float | None, max_len: int | None) -> Any:
    """numpy arrays: those that the core cannot use as they are travel through copies."""
    first = next(iter(named))
    arrays: dict[str, Any] = {}
    for name in (first, "k", "v", "key_bias"):
        if name == first or named[name] is not None:
            arrays[name] = number_array(name, named[name])
    cu_seqlens = integers("cu_seqlens", named["cu_seqlens"])
    for name in ("qkv", "q", "k", "v"):
        if name in arrays and arrays[name].dtype.name not in DTYPES[:2]:
            raise invalid(f"{name} is {arrays[name].dtype}; expected one of {', '.join(DTYPES)}")
    ready_arrays = {name: usable(array) for name, array in arrays.items()}
    outputs: dict[str, Any] = {"out": named["out"], "lse": named["lse"], "cls_probs": named["cls_probs"]}
    copies: dict[str, Any] = {}
    for name, array in outputs.items():
        if array is None or array is True:
            continue
        wanted = arrays[first].dtype if name == "out" else np.dtype(np.float32)
        if not isinstance(array, np.ndarray) or array.dtype != wanted or not array.dtype.isnative:
            kind, found = "qkv's type" if name == "out" else "float32", array.dtype if isinstance(array, np.ndarray) else shown(array)
            raise invalid(f"{name} is not a numpy array of {kind}: it is {found}")
        number_array(name, array)
        if not array.flags.writeable:
            raise invalid(f"{name} is read-only")
        if usable(array) is not array or may_share(array, [*arrays.values(), cu_seqlens]):
            copies[name] = outputs[name] = aligned(array.shape, array.dtype)
            np.copyto(outputs[name], array)
    refuse_shared({name: named[name] for name in outputs if isinstance(named[name], np.ndarray)})
    result = strict({**{name: None for name in ("k", "v", "key_bias")}, **ready_arrays, **outputs,
                     "cu_seqlens": cu_seqlens}, scale, max_len)
    for name, copy in copies.items():
        np.copyto(named[name], copy)
    if isinstance(result, tuple):
        return tuple(named[name] if name in copies else part for name, part in zip(("out", "lse", "cls_probs"), result))
    return named["out"] if "out" in copies else result


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new array at a multiple of 16, which numpy does not promise."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + 16, np.uint8)
    begin = -memory.ctypes.data % 16
    return memory[begin : begin + size].view(dtype).reshape(shape)


def usable(array: Any) -> Any:
    """The array, or a copy that is at a multiple of 16 and contiguous within its rows, which are multiples of 8 elements apart."""
    if type(array) is np.ndarray and array.size == 0:
        return array
    if type(array) is np.ndarray and array.ndim and array.dtype.isnative and array.ctypes.data % 16 == 0 and array[0].flags.c_contiguous:
        step = array.strides[0]
        if step == array.itemsize if array.ndim == 1 else step > 0 and step % (8 * array.itemsize) == 0:
            return array
    copy = aligned(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def _on_cuda(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None) -> Any:
    """Arrays of other libraries than PyTorch, as they describe themselves."""
    first = next(iter(named))
    if named["out"] is None:
        raise invalid("out is not given; qkv is no PyTorch tensor, so there is nothing to make one with")
    for name in ("lse", "cls_probs"):
        if named[name] is True:
            raise invalid(f"{name} is True; qkv is no PyTorch tensor, so there is nothing to make one with: give an array")
    if any(is_torch(array) for array in named.values()):
        raise invalid("PyTorch tensors and other arrays are given together")
    described = device_array(named[first], first, stream)
    arrays: dict[str, Any] = {first: described}
    if stream is None:
        stream = described.stream or 0
    for name, array in named.items():
        if name != first:
            arrays[name] = None if array is None else device_array(array, name, stream)
    on_stream([described], stream)
    result = strict(arrays, scale, max_len)
    found = result if isinstance(result, tuple) else (result,)
    given = tuple(None if part is None else named[name] for name, part in zip(("out", "lse", "cls_probs"), found))
    return given if isinstance(result, tuple) else given[0]
