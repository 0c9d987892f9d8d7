"""Substitutes that torch.compile traces for the functions in C. They call the operators."""

from __future__ import annotations

from typing import Any

import torch

from .._arrays.core_loader import core
from .._c.errors import invalid
from . import rows as torch_rows  # noqa: F401 (it registers operators)
from . import select as torch_select  # noqa: F401 (the same)


def _only(name: str, value: Any) -> None:
    if value is not None:
        raise invalid(f"{name} is given, which a compiled graph does not take")


def _replaces(function: Any) -> Any:
    """Registers a substitute. PyTorch before 2.5 does not support this: a compiled graph then breaks at the call."""
    substitute = getattr(torch.compiler, "substitute_in_graph", None)
    return (lambda other: other) if substitute is None else substitute(function, skip_signature_check=True)


@_replaces(core.attention)
def attention(
    qkv: Any,
    cu_seqlens: Any,
    scale: Any = None,
    max_len: Any = None,
    out: Any = None,
    *,
    stream: Any = None,
    k: Any = None,
    v: Any = None,
    key_bias: Any = None,
    lse: Any = False,
    cls_probs: Any = False,
) -> Any:
    _only("out", out)
    _only("stream", stream)
    _only("lse, as a tensor,", None if lse is None or isinstance(lse, bool) else lse)
    _only("cls_probs, as a tensor,", None if cls_probs is None or isinstance(cls_probs, bool) else cls_probs)
    if k is None and key_bias is None and not lse and not cls_probs:
        return torch.ops.raggedvit.attention(qkv, cu_seqlens, scale, max_len)
    result = torch.ops.raggedvit.attention_forward(qkv, k, v, cu_seqlens, key_bias, scale, max_len, bool(cls_probs))
    if not lse and not cls_probs:
        return result[0]
    return result[0], result[1] if lse else None, result[2] if cls_probs else None


@_replaces(core.pack)
def pack(x: Any, src_rows: Any, cu_seqlens: Any = None, out: Any = None, *, stream: Any = None) -> Any:
    _only("out", out)
    _only("stream", stream)
    return torch.ops.raggedvit.pack(x, src_rows, cu_seqlens)


@_replaces(core.unpack)
def unpack(
    x: Any,
    src_rows: Any,
    cu_seqlens: Any = None,
    rows: Any = None,
    fill: Any = 0.0,
    base: Any = None,
    out: Any = None,
    *,
    stream: Any = None,
) -> Any:
    _only("out", out)
    _only("stream", stream)
    return torch.ops.raggedvit.unpack(x, src_rows, cu_seqlens, rows, fill, base)
