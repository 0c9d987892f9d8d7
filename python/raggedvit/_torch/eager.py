"""Attention, pack, unpack and select on plain PyTorch tensors, without autograd.

CPU tensors that the library cannot use in place are copied. Importing this module sets the core's PyTorch hooks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from .._arrays.arrays import is_torch, may_share, refuse_shared, tensor_array
from .._arrays.core_loader import core
from .._arrays.plain import (
    INTEGERS,
    MODES,
    SCORES,
    Selection,
    raise_error,
    strict_attention,
    strict_rows,
    strict_select,
)
from .tracing import has_tangent

if core is not None:
    for _name, _object in (
        ("grad_enabled", torch.is_grad_enabled),
        ("function_modes", torch._C._len_torch_function_stack),
        ("dispatch_modes", torch._C._len_torch_dispatch_stack),
        ("tracing", torch._C._is_tracing),
        ("forward_ad", forward_ad),
        ("has_tangent", has_tangent),
        ("is_negative", torch.Tensor.is_neg),
    ):
        core.hook(_name, _object)
READS_TENSORS = core is not None and all([core.tensor_type(kind) for kind in (torch.Tensor, torch.nn.Parameter)])
"""Whether the core can read the tensors of this PyTorch: from 2.10 on, or with the package torch-c-dlpack-ext."""
OUTPUTS = ("out", "lse", "cls_probs")


def attention(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None = None) -> Any:
    named, written = dict(named), {}
    first = next(iter(named))
    if named[first].device.type == "cpu":
        inputs = [tensor for name, tensor in named.items() if is_torch(tensor) and name not in OUTPUTS]
        outputs = {name: named[name] for name in OUTPUTS if is_torch(named[name])}
        refuse_shared(outputs)
        for name, tensor in named.items():
            if (
                not is_torch(tensor)
                or name == "cu_seqlens"
                or (usable(tensor) and not (name in outputs and may_share(tensor, inputs)))
            ):
                continue
            named[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            named[name].copy_(tensor.detach())
            if name in OUTPUTS:
                written[name] = (tensor, named[name])
        lengths = named["cu_seqlens"].contiguous()
        named["cu_seqlens"] = lengths.clone() if lengths.data_ptr() % 4 else lengths
    result = (
        strict_attention(named, scale, max_len, stream)
        if READS_TENSORS
        else _described_attention(named, scale, max_len, stream)
    )
    for tensor, copy in written.values():
        tensor.copy_(copy)
    parts = result if isinstance(result, tuple) else (result,)
    parts = tuple(written[name][0] if name in written else part for name, part in zip(OUTPUTS, parts))
    return parts if isinstance(result, tuple) else parts[0]


def usable(tensor: torch.Tensor) -> bool:
    """Whether the library can use a CPU tensor in place: 16-byte aligned, contiguous rows 8 n elements apart."""
    if tensor.numel() == 0 or tensor.dim() == 0:
        return True
    row = tensor[0]
    return (
        tensor.data_ptr() % 16 == 0
        and row.is_contiguous()
        and (
            tensor.shape[0] == 1 or tensor.stride(0) >= row.numel() and (tensor.dim() == 1 or tensor.stride(0) % 8 == 0)
        )
    )


def _described_attention(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None) -> Any:
    """For a PyTorch whose tensors the core cannot read."""
    first = next(iter(named))
    q, shape = named[first], named[first].shape
    made = dict(named)
    if made["out"] is None:
        made["out"] = torch.empty((shape[0], *shape[-2:]), dtype=q.dtype, device=q.device)
    for name in ("lse", "cls_probs"):
        if made[name] is True:
            made[name] = torch.empty((shape[0], shape[-2]), dtype=torch.float32, device=q.device)
    arrays: dict[str, Any] = {name: None if tensor is None else tensor_array(tensor) for name, tensor in made.items()}
    if q.is_cuda:
        arrays[first].stream = torch.cuda.current_stream(q.device).cuda_stream if stream is None else stream
    result = strict_attention(arrays, scale, max_len)
    return tuple(made[name] for name in OUTPUTS) if isinstance(result, tuple) else made["out"]


def rows(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None = None) -> Any:
    arrays, x, out = dict(arrays), arrays["x"], arrays["out"]
    name = "pack" if name == "gather" else name
    if not x.is_cuda:
        read = [
            array
            for other, array in arrays.items()
            if array is not None and other != "out" and not (other == "base" and array is out)
        ]
        if out is not None:
            refuse_shared({"out": out})
            if not out.is_contiguous() or out.data_ptr() % 16 or may_share(out, read):
                arrays["out"] = out.clone(memory_format=torch.contiguous_format)
        for other, array in arrays.items():
            if array is not None and other != "out":
                if other in INTEGERS and array.dtype == torch.int64:
                    array = array.to(torch.int32)
                arrays[other] = (
                    array.contiguous()
                    if array.data_ptr() % 16 == 0
                    else array.clone(memory_format=torch.contiguous_format)
                )
    if READS_TENSORS:
        result = strict_rows(name, arrays, numbers, stream)
    else:
        rows = arrays["src_rows"].shape[0] if name == "pack" else numbers["rows"]
        if name == "unpack" and rows is None:
            rows = next((array.shape[0] for array in (arrays["base"], out) if array is not None), None)
        if out is None and rows is not None:
            arrays["out"] = x.new_empty((rows, *x.shape[1:]))
        _described_rows(name, arrays, numbers, stream)
        result = arrays["out"]
    if out is not None and result is not out:
        out.copy_(result)
    return result if out is None else out


def _described_rows(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> None:
    """For a PyTorch whose tensors the core cannot read."""
    x = arrays["x"]
    found = {other: tensor_array(array) for other, array in arrays.items() if array is not None}
    if x.is_cuda:
        found["x"].stream = torch.cuda.current_stream(x.device).cuda_stream if stream is None else stream
    strict_rows(name, found, numbers)


def select(
    cu_seqlens: Tensor,
    rows: int,
    mode: int,
    score: int,
    max_len: int,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    out: Selection | None = None,
    stream: int | None = None,
) -> Selection:
    on_cpu = cu_seqlens.device.type == "cpu"
    device, arrays, fuse = cu_seqlens.device, dict(arrays), arrays["fuse_x"]
    if on_cpu:
        cu_seqlens = cu_seqlens.to(torch.int32).contiguous()
        for name, array in arrays.items():
            if array is not None and (array.data_ptr() % 16 or not array.is_contiguous()):
                arrays[name] = array.clone(memory_format=torch.contiguous_format)
    if out is None:
        has_scores = mode != MODES["MASK"]
        made = Selection(
            torch.empty(cu_seqlens.shape, dtype=torch.int32, device=device),
            torch.empty(rows, dtype=torch.int32, device=device),
            torch.empty(rows, dtype=torch.bool, device=device),
            None
            if not has_scores
            else arrays["scores"]
            if score == SCORES["GIVEN"]
            else torch.empty(rows, dtype=torch.float32, device=device),
            torch.empty(1, dtype=torch.int32, device=device),
        )
    else:
        made = out
    if READS_TENSORS:
        strict_select(cu_seqlens, rows, mode, score, max_len, numbers, arrays, made, stream)
    else:
        first = tensor_array(cu_seqlens)
        if not on_cpu:
            first.stream = torch.cuda.current_stream(device).cuda_stream if stream is None else stream
        strict_select(
            first,
            rows,
            mode,
            score,
            max_len,
            numbers,
            {name: _described(array) for name, array in arrays.items()},
            Selection(*map(_described, made)),
            None,
        )
    if on_cpu and made.error is not None:
        raise_error(int(made.error[0]))
    if fuse is not None and arrays["fuse_x"] is not fuse:
        fuse.copy_(arrays["fuse_x"])
    return made


def _described(array: Any) -> Any:
    return None if array is None else tensor_array(array)
