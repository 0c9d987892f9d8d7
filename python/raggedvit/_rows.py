"""pack, unpack and gather on the caller's arrays: what the compiled core leaves of them, and their operators' kernels."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from ._arrays import device_array, integers, is_symbol, is_torch, may_share, number_array, on_cuda, on_stream, refuse_shared, tensor_array
from ._attention import aligned
from ._checks import INT32_MAX, UINT64_MAX, float32, integer, optional
from ._core_loader import core, ready
from ._errors import invalid
from ._typing import ArrayT

INTEGERS = ("src_rows", "cu_seqlens")


def general_pack(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT:
    """Rows of a batch: out[t] = x[src_rows[t]], bit by bit.

    x: [source rows, ...], contiguous. src_rows: int32 [rows], as select writes it. cu_seqlens: int32 [n + 1], the layout of the result;
    rows at or past cu_seqlens[n] are not written: undefined in a new out, or zeros if a gradient is recorded. None: all rows are. out:
    [rows, ...]; None: a new one. stream: as for attention. The gradient of x is unpack's, so src_rows must ascend, as those of select do
    unless it fuses; gather takes any order."""
    return _call("pack", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "out": out}, {}, stream)


def general_unpack(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, rows: int | None = None, fill: float = 0.0, base: ArrayT | None = None,
                   out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT:
    """The inverse of pack: out[src_rows[t]] = x[t]; every other row is that of base, or `fill` in every element.

    x: float32, float16 or bfloat16 [rows, ...] with a multiple of 4 elements in a row. src_rows: int32, ascending. rows: of the result;
    None: those of base or out. base: [rows, ...]; may be out. Both x and base have gradients."""
    numbers = {"rows": optional(integer, "rows", rows, 0, INT32_MAX - 1), "fill": float32("fill", fill)}
    return _call("unpack", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "base": base, "out": out}, numbers, stream)


def gather(x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None) -> ArrayT:
    """As pack, with src_rows in any order and with repetitions: the gradient of a row of x is the sum over the rows that took it."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling() and is_torch(x) and out is None and stream is None:
        from . import _torch_rows  # noqa: F401

        return torch.ops.raggedvit.gather(x, src_rows, cu_seqlens)  # type: ignore[no-any-return]
    found = NotImplemented if core is None else core.try_pack(x, src_rows, cu_seqlens, out, stream=stream)
    if found is NotImplemented:
        found = _call("gather", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "out": out}, {}, stream)
    return found  # type: ignore[no-any-return]


if TYPE_CHECKING or core is None:
    pack, unpack = general_pack, general_unpack
else:
    pack, unpack = core.pack, core.unpack
    core.hook("pack", general_pack)
    core.hook("unpack", general_unpack)


def strict(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None = None) -> Any:
    """The core's function, of arrays that it must take as they are."""
    return getattr(ready(), "strict_" + ("pack" if name == "gather" else name))(**arrays, **numbers, stream=stream)


def _call(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> Any:
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    ready()
    for other in ("x", "src_rows"):
        if arrays[other] is None:
            raise invalid(f"{other}: None is given; expected an array")
    x = arrays["x"]
    if is_torch(x) or any(map(is_symbol, arrays.values())):
        from . import _torch_rows

        return _torch_rows.call(name, arrays, numbers, stream)
    if on_cuda(x):
        if arrays["out"] is None:
            raise invalid("out is not given; x is no PyTorch tensor, so there is nothing to make one with")
        return described(name, arrays, numbers, stream)
    if stream is not None:
        raise invalid("a stream is given, but x is not on a CUDA device")
    return _on_host(name, arrays, numbers)


def described(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> Any:
    """CUDA arrays of other libraries than PyTorch."""
    found = {"x": device_array(arrays["x"], "x", stream)}
    if stream is None:
        stream = found["x"].stream or 0
    for other, array in arrays.items():
        if array is not None and other != "x":
            found[other] = device_array(array, other, stream)
    on_stream([found["x"]], stream)
    strict(name, found, numbers)
    return arrays["out"]


def whole(name: str, value: Any) -> Any:
    """An array that is contiguous at a multiple of 16."""
    array = number_array(name, value)
    if type(array) is np.ndarray and array.flags.c_contiguous and array.dtype.isnative and array.ctypes.data % 16 == 0:
        return array
    copy = aligned(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def _on_host(name: str, arrays: dict[str, Any], numbers: dict[str, Any]) -> Any:
    found: dict[str, Any] = {}
    copy: Any = None
    for other, array in arrays.items():
        if array is not None and on_cuda(array):
            raise invalid(f"{other} is on a CUDA device, x is not")
        if array is None or other == "out":
            continue
        found[other] = integers(other, array) if other in INTEGERS else whole(other, array)
    out = arrays["out"]
    if out is not None:
        if not isinstance(out, np.ndarray) or out.dtype != found["x"].dtype:
            raise invalid("out is not a numpy array of the type of x")
        if not out.flags.writeable:
            raise invalid("out is read-only")
        refuse_shared({"out": out})
        read = [array for other, array in found.items() if not (other == "base" and array is out)]
        own = whole("out", out) is out and not may_share(out, read)
        copy = found["out"] = out if own else aligned(out.shape, out.dtype)
        if not own:
            np.copyto(copy, out)
    result = strict(name, found, numbers)
    if out is None:
        return result
    if copy is not out:
        np.copyto(out, copy)
    return out


def described_tensors(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> None:
    """Tensors of a PyTorch that the core cannot read."""
    torch, x = sys.modules["torch"], arrays["x"]
    found = {other: tensor_array(array) for other, array in arrays.items() if array is not None}
    if x.is_cuda:
        found["x"].stream = torch.cuda.current_stream(x.device).cuda_stream if stream is None else stream
    strict(name, found, numbers)
