"""Detects gradients, tangents and traces, and resolves lazy views."""

from __future__ import annotations

import sys
from typing import Any, Iterable

import torch
from torch.autograd import forward_ad

from .._arrays.arrays import is_torch
from .._c.errors import RaggedVitError, Status, invalid


def wants_grad(*tensors: Any) -> bool:
    return torch.is_grad_enabled() and any(is_torch(tensor) and tensor.requires_grad for tensor in tensors)


def is_plain(tensor: Any) -> bool:
    return type(tensor) in (torch.Tensor, torch.nn.Parameter)


def no_modes() -> bool:
    return not torch._C._len_torch_function_stack() and not torch._C._len_torch_dispatch_stack()


def is_wrapped(tensor: torch.Tensor) -> bool:
    """Whether a tensor belongs to a transform of torch.func: vmap, grad or functionalize."""
    return torch._C._functorch.maybe_get_level(tensor) != -1 or torch._is_functional_tensor(tensor)


def is_tracing() -> bool:
    """Whether PyTorch records the computation: torch.jit.trace, which exporters use, or make_fx."""
    return torch._C._is_tracing() or torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY) is not None


def is_fake(tensor: Any) -> bool:
    """Whether a tensor has no values, like those of torch.export and of compilers."""
    module = sys.modules.get("torch._subclasses.fake_tensor")
    return module is not None and isinstance(tensor, module.FakeTensor)


def has_tangent(tensor: Any) -> bool:
    """Whether forward-mode differentiation follows a tensor."""
    return (
        forward_ad._current_level >= 0
        and is_torch(tensor)
        and tensor.is_floating_point()
        and forward_ad.unpack_dual(tensor).tangent is not None
    )


def refuse_tangent(function: str, *tensors: Any) -> None:
    if forward_ad._current_level >= 0 and any(map(has_tangent, tensors)):
        raise RaggedVitError(
            Status.UNSUPPORTED,
            f"{function} has no forward-mode derivative (torch.func.jvp, jacfwd, dual numbers): "
            "differentiate in reverse, by torch.autograd",
        )


def is_direct(tensors: list[torch.Tensor]) -> bool:
    """Whether the library may use tensors without PyTorch's knowledge; otherwise PyTorch must see the operator."""
    return (
        tensors[0].device.type != "meta"
        and all(map(is_plain, tensors))
        and no_modes()
        and not torch._C._is_tracing()
        and not any(map(is_wrapped, tensors))
        and not any(map(has_tangent, tensors))
    )


def in_memory(named: dict[str, Any], outputs: Iterable[str] = ()) -> dict[str, Any]:
    """Returns the arguments with lazily negated or conjugated tensors resolved."""
    found = dict(named)
    for name, tensor in named.items():
        if not is_torch(tensor):
            continue
        if tensor.layout is not torch.strided or tensor.is_nested:
            kind = "nested" if tensor.is_nested else str(tensor.layout)[6:]
            raise invalid(f"{name} is a {kind} tensor; expected a dense one")
        if tensor.is_neg() or tensor.is_conj() or tensor._is_zerotensor():
            if name in outputs:
                raise invalid(
                    f"{name} is a view that negates or conjugates its memory, or has none; expected a tensor of its own"
                    " memory"
                )
            found[name] = torch.zeros_like(tensor) if tensor._is_zerotensor() else tensor.resolve_conj().resolve_neg()
    return found
