"""pack, unpack, gather and select as operators: kernels in Python over the compiled core, shapes, gradients."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from .._arrays.arrays import is_symbol, is_torch
from .._c.errors import invalid
from . import eager, operators
from .tracing import in_memory, is_direct, refuse_tangent, wants_grad

_library = torch.library.Library("raggedvit", "FRAGMENT")  # the registrations last as long as this object
for _schema in (
    "pack(Tensor x, Tensor src_rows, Tensor? cu_seqlens=None) -> Tensor",
    "gather(Tensor x, Tensor src_rows, Tensor? cu_seqlens=None) -> Tensor",
    "_pack(Tensor x, Tensor src_rows, Tensor? cu_seqlens=None, bool zero=False) -> Tensor",
    *(
        name
        + "(Tensor x, Tensor src_rows, Tensor? cu_seqlens=None, SymInt? rows=None, float fill=0., Tensor? base=None) "
        "-> Tensor"
        for name in ("unpack", "_unpack")
    ),
):
    _library.define(_schema, tags=(torch.Tag.pt2_compliant_tag,))
_pack, _unpack = torch.ops.raggedvit._pack.default._op, torch.ops.raggedvit._unpack.default._op
OPERATORS = {
    "pack": torch.ops.raggedvit.pack,
    "unpack": torch.ops.raggedvit.unpack,
    "gather": torch.ops.raggedvit.gather,
}


def call(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> Any:
    """Calls pack, gather or unpack on tensors that the core did not handle."""
    inputs = {other: array for other, array in arrays.items() if other != "out"}
    if any(map(is_symbol, arrays.values())):
        if arrays["out"] is not None or stream is not None:
            raise invalid("out or stream is given, which a trace of torch.fx does not take")
        return OPERATORS[name](**inputs, **numbers)
    arrays = in_memory(arrays, ("out",))
    x, out = arrays["x"], arrays["out"]
    for other, array in arrays.items():
        if array is None:
            continue
        if not is_torch(array):
            raise invalid(f"{other} is a {type(array).__name__}; expected a tensor, as x is")
        if array.device != x.device:
            raise invalid(f"{other} is on {array.device}, x on {x.device}")
    if x.device.type not in ("cpu", "cuda", "meta"):
        raise invalid(f"x is on {x.device}; expected a CPU or a CUDA device")
    tensors = [array for array in arrays.values() if array is not None]
    inputs = {other: array for other, array in arrays.items() if other != "out"}
    if wants_grad(*tensors):
        if out is not None:
            raise invalid(
                "out is given, but a tensor requires grad: what is written into memory of the caller's has no gradient"
            )
        return OPERATORS[name](**inputs, **numbers)
    if is_direct(tensors):
        return eager.rows(name, arrays, numbers, stream)
    if out is not None or stream is not None:
        raise invalid(
            f"{'stream' if out is None else 'out'} is given, which a subclass of Tensor, a mode or a trace of PyTorch's"
            " or torch.func does not take"
        )
    return OPERATORS[name](**inputs, **numbers)


def _pack_kernel(x: Tensor, src_rows: Tensor, cu_seqlens: Optional[Tensor] = None, zero: bool = False) -> Tensor:
    out = x.new_zeros((src_rows.shape[0], *x.shape[1:])) if zero else None
    return eager.rows("pack", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "out": out}, {})


def _unpack_kernel(
    x: Tensor,
    src_rows: Tensor,
    cu_seqlens: Optional[Tensor] = None,
    rows: Optional[int] = None,
    fill: float = 0.0,
    base: Optional[Tensor] = None,
) -> Tensor:
    return eager.rows(
        "unpack",
        {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "base": base, "out": None},
        {"rows": rows, "fill": fill},
    )


def _pack_shape(x: Tensor, src_rows: Tensor, cu_seqlens: Optional[Tensor] = None, zero: bool = False) -> Tensor:
    return x.new_empty((src_rows.shape[0], *x.shape[1:]))


def _unpack_shape(
    x: Tensor,
    src_rows: Tensor,
    cu_seqlens: Optional[Tensor] = None,
    rows: Optional[int] = None,
    fill: float = 0.0,
    base: Optional[Tensor] = None,
) -> Tensor:
    if rows is None and base is None:
        raise invalid("rows is not given, nor base or out, whose rows it could be")
    return x.new_empty((base.shape[0] if rows is None else rows, *x.shape[1:]))  # type: ignore[union-attr]


class _Pack(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, src_rows: Tensor, cu_seqlens: Optional[Tensor]) -> Tensor:
        ctx.save_for_backward(src_rows, cu_seqlens)
        ctx.rows = x.shape[0]
        return _pack(x, src_rows, cu_seqlens, True)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        src_rows, cu_seqlens = ctx.saved_tensors
        return torch.ops.raggedvit.unpack(d_out.contiguous(), src_rows, cu_seqlens, ctx.rows), None, None


class _Gather(_Pack):
    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        src_rows, cu_seqlens = ctx.saved_tensors
        rows = src_rows.to(torch.int64)
        if cu_seqlens is not None:  # rows past the last image go to an extra row, which is dropped
            live = torch.arange(len(rows), device=rows.device) < cu_seqlens[-1]
            rows = torch.where(live, rows, ctx.rows)
        sums = d_out.new_zeros((ctx.rows + 1, *d_out.shape[1:]))
        # Both sum deterministically: index_put sorts on CUDA, index_add goes row by row on the CPU.
        sums = (
            sums.index_add(0, rows, d_out)
            if d_out.device.type == "cpu"
            else sums.index_put((rows,), d_out, accumulate=True)
        )
        return sums[: ctx.rows], None, None


class _Unpack(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        src_rows: Tensor,
        cu_seqlens: Optional[Tensor],
        rows: Optional[int],
        fill: float,
        base: Optional[Tensor],
    ) -> Tensor:
        ctx.save_for_backward(src_rows, cu_seqlens)
        ctx.x_rows = x.shape[0]
        return _unpack(x, src_rows, cu_seqlens, rows, fill, base)

    @staticmethod
    def backward(ctx: Any, d_out: Tensor) -> Any:
        (src_rows, cu_seqlens), d_out = ctx.saved_tensors, d_out.contiguous()
        d_x = d_base = None
        if ctx.needs_input_grad[0]:
            d_x = (
                _pack(d_out, src_rows, cu_seqlens, True)
                if not d_out.requires_grad
                else _Pack.apply(d_out, src_rows, cu_seqlens)
            )
            if ctx.x_rows > d_x.shape[0]:
                d_x = torch.cat([d_x, d_x.new_zeros((ctx.x_rows - d_x.shape[0], *d_x.shape[1:]))])
        if ctx.needs_input_grad[5]:
            none = d_out.new_zeros((src_rows.shape[0], *d_out.shape[1:]))
            d_base = torch.ops.raggedvit.unpack(none, src_rows, cu_seqlens, None, 0.0, d_out)
        return d_x, None, None, None, None, d_base


def _differentiable(name: str, function: Any, plain: Any, *arguments: Any) -> Tensor:
    refuse_tangent(name, *arguments)
    try:
        return function.apply(*arguments) if wants_grad(*arguments) else plain(*arguments)  # type: ignore[no-any-return]
    except RuntimeError as error:
        raise operators.failed(error) from None


def _pack_autograd(x: Tensor, src_rows: Tensor, cu_seqlens: Optional[Tensor] = None) -> Tensor:
    return _differentiable("pack", _Pack, _pack, x, src_rows, cu_seqlens)


def _gather_autograd(x: Tensor, src_rows: Tensor, cu_seqlens: Optional[Tensor] = None) -> Tensor:
    return _differentiable("gather", _Gather, _pack, x, src_rows, cu_seqlens)


def _unpack_autograd(
    x: Tensor,
    src_rows: Tensor,
    cu_seqlens: Optional[Tensor] = None,
    rows: Optional[int] = None,
    fill: float = 0.0,
    base: Optional[Tensor] = None,
) -> Tensor:
    return _differentiable("unpack", _Unpack, _unpack, x, src_rows, cu_seqlens, rows, fill, base)


for _name, _kernel, _shape, _autograd in (
    ("pack", _pack_kernel, _pack_shape, _pack_autograd),
    ("gather", _pack_kernel, _pack_shape, _gather_autograd),
    ("_pack", _pack_kernel, _pack_shape, None),
    ("unpack", _unpack_kernel, _unpack_shape, _unpack_autograd),
    ("_unpack", _unpack_kernel, _unpack_shape, None),
):
    if _autograd is not None:
        _library.impl(_name, _autograd, "Autograd")
    for _key in ("CPU", "CUDA"):
        _library.impl(_name, _kernel, _key)
    torch.library.register_fake("raggedvit::" + _name, _shape, lib=_library)
