"""Attention on PyTorch tensors that the core does not handle.

These require grad, are subclasses or fake tensors, are used under a mode of PyTorch, or have memory that the library
cannot use in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from .._arrays.arrays import integers, is_symbol, is_torch
from .._arrays.plain import DTYPES
from .._c.errors import invalid
from . import eager
from .eager import OUTPUTS
from .tracing import in_memory, is_direct, wants_grad


def attention(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None) -> Any:
    first = next(iter(named))
    given = [name for name in OUTPUTS if named[name] is not None and named[name] is not True]
    if any(map(is_symbol, named.values())):
        if given or stream is not None:
            raise invalid(f"{(given or ['stream'])[0]} is given, which a trace of torch.fx does not take")
        return _by_operator(named, scale, max_len)
    if (named["k"] is None) != (named["v"] is None):
        raise invalid("k and v are given together or not at all")
    if named["cu_seqlens"] is None:
        raise invalid("cu_seqlens: None is given; expected a tensor")
    named = in_memory(named, OUTPUTS)
    qkv = named[first]
    if qkv.device.type not in ("cpu", "cuda", "meta"):
        raise invalid(f"{first} is on {qkv.device}; expected a CPU or a CUDA device")
    if qkv.device.type == "cpu" and stream is not None:
        raise invalid(f"a stream is given, but {first} is not on a CUDA device")
    for name, array in named.items():
        if array is None or array is True or is_torch(array):
            continue
        if name == "cu_seqlens" and qkv.device.type == "cpu":
            named[name] = torch.from_numpy(np.array(integers(name, array)))
        else:
            raise invalid(f"{name} is a {type(array).__name__} in host memory; expected a tensor, as {first} is")
    for name, array in named.items():
        if is_torch(array) and array.device != qkv.device:
            raise invalid(f"{name} is on {array.device}, {first} on {qkv.device}")
    if str(qkv.dtype)[6:] not in DTYPES:
        raise invalid(f"{first} is {str(qkv.dtype)[6:]}; expected one of {', '.join(DTYPES)}")
    cu_seqlens = named["cu_seqlens"]
    if qkv.device.type == "cpu" and cu_seqlens.dtype in (torch.int64, torch.int16, torch.uint8):
        if cu_seqlens.numel() and is_direct([cu_seqlens]) and int(cu_seqlens.max()) > 2**31 - 1:
            raise invalid("cu_seqlens has an entry that is not an int32")
        named["cu_seqlens"] = cu_seqlens.to(torch.int32)
    tensors = [array for array in named.values() if is_torch(array)]
    if wants_grad(*tensors):
        if given:
            raise invalid(
                f"{given[0]} is given, but a tensor requires grad: what is written into memory of the caller's has no"
                " gradient"
            )
        return _by_operator(named, scale, max_len)
    if is_direct(tensors):
        return eager.attention(named, scale, max_len, stream)
    if given or stream is not None:
        raise invalid(
            f"{(given or ['stream'])[0]} is given, which a subclass of Tensor, a mode or a trace of PyTorch's or"
            " torch.func does not take"
        )
    return _by_operator(named, scale, max_len)


def _by_operator(named: dict[str, Any], scale: float | None, max_len: int | None) -> Any:
    from . import operators  # registers the operators, which takes a while

    if "qkv" in named and named["key_bias"] is None and named["lse"] is None and named["cls_probs"] is None:
        return operators.OPERATOR(named["qkv"], named["cu_seqlens"], scale, max_len)
    q = named["q"] if "q" in named else named["qkv"]
    out, lse, cls_probs = operators.FORWARD_OPERATOR(
        q,
        named["k"],
        named["v"],
        named["cu_seqlens"],
        named["key_bias"],
        scale,
        max_len,
        named["cls_probs"] is not None,
    )
    if named["lse"] is None and named["cls_probs"] is None:
        return out
    return out, lse if named["lse"] is not None else None, cls_probs if named["cls_probs"] is not None else None
