"""Attention of PyTorch tensors that the core does not take as they come: those that require grad, subclasses and fake tensors, calls
under a mode of PyTorch's, and memory that the library cannot use in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd import forward_ad

from ._arrays import integers, is_symbol, is_torch, may_share, refuse_shared, tensor_array
from ._attention import DTYPES, strict
from ._core_loader import core
from ._errors import invalid
from ._torch_checks import has_tangent, in_memory, is_direct, wants_grad

if core is not None:
    for _name, _object in (("grad_enabled", torch.is_grad_enabled), ("function_modes", torch._C._len_torch_function_stack),
                           ("dispatch_modes", torch._C._len_torch_dispatch_stack), ("tracing", torch._C._is_tracing),
                           ("forward_ad", forward_ad), ("has_tangent", has_tangent), ("is_negative", torch.Tensor.is_neg)):
        core.hook(_name, _object)
READS_TENSORS = core is not None and all([core.tensor_type(kind) for kind in (torch.Tensor, torch.nn.Parameter)])
"""Whether the core reads this PyTorch's tensors itself: from 2.10 on, or with the package torch-c-dlpack-ext."""
OUTPUTS = ("out", "lse", "cls_probs")


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
            raise invalid("cu_seqlens has an entry that is no int32")
        named["cu_seqlens"] = cu_seqlens.to(torch.int32)
    tensors = [array for array in named.values() if is_torch(array)]
    if wants_grad(*tensors):
        if given:
            raise invalid(f"{given[0]} is given, but a tensor requires grad: what is written into memory of the caller's has no gradient")
        return _by_operator(named, scale, max_len)
    if is_direct(tensors):
        return compute(named, scale, max_len, stream)
    if given or stream is not None:
        raise invalid(f"{(given or ['stream'])[0]} is given, which a subclass of Tensor, a mode or a trace of PyTorch's or torch.func does not take")
    return _by_operator(named, scale, max_len)


def _by_operator(named: dict[str, Any], scale: float | None, max_len: int | None) -> Any:
    from . import torch as operators

    if "qkv" in named and named["key_bias"] is None and named["lse"] is None and named["cls_probs"] is None:
        return operators.attention(named["qkv"], named["cu_seqlens"], scale, max_len)
    q = named["q"] if "q" in named else named["qkv"]
    out, lse, cls_probs = torch.ops.raggedvit.attention_forward(q, named["k"], named["v"], named["cu_seqlens"], named["key_bias"], scale,
                                                                max_len, named["cls_probs"] is not None)
    if named["lse"] is None and named["cls_probs"] is None:
        return out
    return out, lse if named["lse"] is not None else None, cls_probs if named["cls_probs"] is not None else None


def compute(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None = None) -> Any:
    """Plain tensors, without autograd. On the CPU those that the library cannot use in place travel through copies."""
    named, written = dict(named), {}
    first = next(iter(named))
    if named[first].device.type == "cpu":
        inputs = [tensor for name, tensor in named.items() if is_torch(tensor) and name not in OUTPUTS]
        outputs = {name: named[name] for name in OUTPUTS if is_torch(named[name])}
        refuse_shared(outputs)
        for name, tensor in named.items():
            if not is_torch(tensor) or name == "cu_seqlens" or (usable(tensor) and not (name in outputs and may_share(tensor, inputs))):
                continue
            named[name] = torch.empty(tensor.shape, dtype=tensor.dtype)
            named[name].copy_(tensor.detach())
            if name in OUTPUTS:
                written[name] = (tensor, named[name])
        lengths = named["cu_seqlens"].contiguous()
        named["cu_seqlens"] = lengths.clone() if lengths.data_ptr() % 4 else lengths
    result = strict(named, scale, max_len, stream) if READS_TENSORS else _described(named, scale, max_len, stream)
    for tensor, copy in written.values():
        tensor.copy_(copy)
    parts = result if isinstance(result, tuple) else (result,)
    parts = tuple(written[name][0] if name in written else part for name, part in zip(OUTPUTS, parts))
    return parts if isinstance(result, tuple) else parts[0]


def usable(tensor: torch.Tensor) -> bool:
    """Whether the library reads a CPU tensor in place: at a multiple of 16, contiguous within a row, rows multiples of 8 elements apart."""
    if tensor.numel() == 0 or tensor.dim() == 0:
        return True
    row = tensor[0]
    return tensor.data_ptr() % 16 == 0 and row.is_contiguous() and (
        tensor.shape[0] == 1 or tensor.stride(0) >= row.numel() and (tensor.dim() == 1 or tensor.stride(0) % 8 == 0))


def _described(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None) -> Any:
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
    result = strict(arrays, scale, max_len)
    return tuple(made[name] for name in OUTPUTS) if isinstance(result, tuple) else made["out"]
