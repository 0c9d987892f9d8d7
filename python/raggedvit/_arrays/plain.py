"""Attention, pack, unpack and select on arrays that are not PyTorch's.

The library's CPU device computes numpy arrays; CUDA arrays of other libraries are used in place. All calls, and those
of PyTorch tensors, end in the strict functions of the core."""

from __future__ import annotations

import ctypes
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from .._c.checks import shown
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status, invalid
from .._c.library import library
from .arrays import (
    DeviceArray,
    device_array,
    integers,
    is_torch,
    may_share,
    number_array,
    on_cuda,
    on_stream,
    refuse_shared,
)
from .core_loader import ready

DTYPES = ("float32", "float16", "bfloat16")
INTEGERS = ("src_rows", "cu_seqlens")
MODES = {name: CONSTANTS["RVIT_SELECT_" + name] for name in ("TOP_K", "THRESHOLD", "MASK", "SAMPLE", "MASS")}
SCORES = {
    name: CONSTANTS["RVIT_SCORE_" + name]
    for name in ("GIVEN", "L2", "CLS_ATTENTION", "CLS_NORM", "PREDICTOR", "POSITION")
}
RULES = {"floor": CONSTANTS["RVIT_COUNT_FLOOR"], "ceil": CONSTANTS["RVIT_COUNT_CEIL"]}
INPUTS = ("x", "cls_probs", "weight", "bias", "position_scores", "counts", "scores", "mask", "fuse_x")


def aligned(shape: tuple[int, ...], dtype: Any) -> Any:
    """Creates a 16-byte aligned array; numpy does not guarantee this alignment."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.empty(size + 16, np.uint8)
    begin = -memory.ctypes.data % 16
    return memory[begin : begin + size].view(dtype).reshape(shape)


def usable(array: Any) -> Any:
    """Returns the array, or a copy that is 16-byte aligned with contiguous rows, multiples of 8 elements apart."""
    if type(array) is np.ndarray and array.size == 0:
        return array
    if (
        type(array) is np.ndarray
        and array.ndim
        and array.dtype.isnative
        and array.ctypes.data % 16 == 0
        and array[0].flags.c_contiguous
    ):
        step = array.strides[0]
        if step == array.itemsize if array.ndim == 1 else step > 0 and step % (8 * array.itemsize) == 0:
            return array
    copy = aligned(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def whole(name: str, value: Any) -> Any:
    """Returns a contiguous, 16-byte aligned array."""
    array = number_array(name, value)
    if type(array) is np.ndarray and array.flags.c_contiguous and array.dtype.isnative and array.ctypes.data % 16 == 0:
        return array
    copy = aligned(array.shape, array.dtype.newbyteorder("="))
    np.copyto(copy, array)
    return copy


def strict_attention(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None = None) -> Any:
    """Calls the core's attention, which uses all arrays in place."""
    qkv = named["q"] if "q" in named else named["qkv"]
    return ready().strict_attention(
        qkv,
        named["cu_seqlens"],
        scale,
        max_len,
        named["out"],
        stream=stream,
        k=named["k"],
        v=named["v"],
        key_bias=named["key_bias"],
        lse=named["lse"],
        cls_probs=named["cls_probs"],
    )


def attention_on_host(named: dict[str, Any], scale: float | None, max_len: int | None) -> Any:
    """Attention on numpy arrays. Copies those that the core cannot use in place."""
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
            kind, found = (
                "qkv's type" if name == "out" else "float32",
                array.dtype if isinstance(array, np.ndarray) else shown(array),
            )
            raise invalid(f"{name} is not a numpy array of {kind}: it is {found}")
        number_array(name, array)
        if not array.flags.writeable:
            raise invalid(f"{name} is read-only")
        if usable(array) is not array or may_share(array, [*arrays.values(), cu_seqlens]):
            copies[name] = outputs[name] = aligned(array.shape, array.dtype)
            np.copyto(outputs[name], array)
    refuse_shared({name: named[name] for name in outputs if isinstance(named[name], np.ndarray)})
    result = strict_attention(
        {**{name: None for name in ("k", "v", "key_bias")}, **ready_arrays, **outputs, "cu_seqlens": cu_seqlens},
        scale,
        max_len,
    )
    for name, copy in copies.items():
        np.copyto(named[name], copy)
    if isinstance(result, tuple):
        return tuple(named[name] if name in copies else part for name, part in zip(("out", "lse", "cls_probs"), result))
    return named["out"] if "out" in copies else result


def attention_on_cuda(named: dict[str, Any], scale: float | None, max_len: int | None, stream: int | None) -> Any:
    """Attention on CUDA arrays that are not PyTorch's."""
    first = next(iter(named))
    if named["out"] is None:
        raise invalid("out is not given; it is required if qkv is not a PyTorch tensor")
    for name in ("lse", "cls_probs"):
        if named[name] is True:
            raise invalid(f"{name} is True; expected an array, because qkv is not a PyTorch tensor")
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
    result = strict_attention(arrays, scale, max_len)
    found = result if isinstance(result, tuple) else (result,)
    given = tuple(None if part is None else named[name] for name, part in zip(("out", "lse", "cls_probs"), found))
    return given if isinstance(result, tuple) else given[0]


def strict_rows(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None = None) -> Any:
    """Calls the core's function, which uses all arrays in place."""
    return getattr(ready(), "strict_" + ("pack" if name == "gather" else name))(**arrays, **numbers, stream=stream)


def rows_on_host(name: str, arrays: dict[str, Any], numbers: dict[str, Any]) -> Any:
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
    result = strict_rows(name, found, numbers)
    if out is None:
        return result
    if copy is not out:
        np.copyto(out, copy)
    return out


def rows_on_cuda(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> Any:
    """pack, unpack and gather on CUDA arrays that are not PyTorch's."""
    found = {"x": device_array(arrays["x"], "x", stream)}
    if stream is None:
        stream = found["x"].stream or 0
    for other, array in arrays.items():
        if array is not None and other != "x":
            found[other] = device_array(array, other, stream)
    on_stream([found["x"]], stream)
    strict_rows(name, found, numbers)
    return arrays["out"]


class Selection(NamedTuple):
    """The outputs of select.

    Attributes:
        cu_seqlens: int32 [n + 1], the layout of the kept rows.
        src_rows: int32 [rows], the row number of each kept row in the input; the rest is undefined.
        keep: bool [rows], True for kept rows; undefined past the last row.
        scores: float32 [rows]; None for a mask.
        error: int32 [1]: 0, or for image i 1 + 3 i: it has a NaN score; 2 + 3 i: the mask drops one of its prefix rows;
            3 + 3 i: its scores cannot be added up. In host memory an error raises.
    """

    cu_seqlens: Any
    src_rows: Any
    keep: Any
    scores: Any
    error: Any


@functools.lru_cache(maxsize=64)
def count_table(rule: int, keep: float, k_min: int, max_len: int) -> np.ndarray:
    table = aligned((max_len + 1,), np.int32)
    library().rvit_count_table(rule, keep, k_min, max_len, table.ctypes.data_as(ctypes.c_void_p))
    return table


def strict_select(
    cu_seqlens: Any,
    rows: int,
    mode: int,
    score: int,
    max_len: int,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    out: Selection,
    stream: int | None,
) -> None:
    """Calls the core's select, which uses all arrays in place."""
    given = [out.scores if name == "scores" else arrays[name] for name in INPUTS]
    if mode == MODES["MASK"]:
        given[INPUTS.index("scores")] = None
    ready().strict_select(
        cu_seqlens,
        rows,
        mode,
        score,
        max_len,
        numbers["n_prefix"],
        numbers["competes"],
        numbers["threshold"],
        numbers["k_min"],
        numbers["n_samples"],
        numbers["mass"],
        *given,
        out.cu_seqlens,
        out.src_rows,
        out.keep,
        out.error,
        stream,
    )


def raise_error(error: int) -> None:
    """Raises the error that the op reported for an image."""
    if error:
        image, kind = divmod(error - 1, 3)
        why = (
            "has a NaN score",
            "has a mask that drops a prefix row",
            "has scores that cannot be added up: negative, infinite or all 0",
        )
        raise RaggedVitError(Status.INVALID_ARGUMENT, f"select: image {image} {why[kind]}")


def select_on_host(
    cu_seqlens: Any,
    rows: int,
    mode: int,
    score: int,
    max_len: int,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    out: Selection | None,
) -> Selection:
    for name, array in arrays.items():
        if array is not None and on_cuda(array):
            raise invalid(f"{name} is on a CUDA device, cu_seqlens is not")
    cu_seqlens, fuse = integers("cu_seqlens", cu_seqlens), arrays["fuse_x"]
    if fuse is not None and not (isinstance(fuse, np.ndarray) and fuse.flags.writeable):
        raise invalid(f"fuse_x is {shown(fuse)}; expected a numpy array that can be written")
    found: dict[str, Any] = {name: None if array is None else whole(name, array) for name, array in arrays.items()}
    made = Selection(
        aligned(cu_seqlens.shape, np.int32),
        aligned((rows,), np.int32),
        aligned((rows,), bool),
        None
        if mode == MODES["MASK"]
        else found["scores"]
        if score == SCORES["GIVEN"]
        else aligned((rows,), np.float32),
        aligned((1,), np.int32),
    )
    for name, given, array in zip(Selection._fields, out or (), made):
        if given is not None and array is not None and given is not arrays["scores"]:
            if (
                not isinstance(given, np.ndarray)
                or given.shape != array.shape
                or given.dtype != array.dtype
                or not given.flags.writeable
            ):
                raise invalid(
                    f"out.{name} is not a numpy array of {array.dtype} {list(array.shape)} that can be written"
                )
    refuse_shared({"fuse_x": fuse, **{"out." + name: given for name, given in zip(Selection._fields, out or ())}})
    strict_select(cu_seqlens, rows, mode, score, max_len, numbers, found, made, None)
    raise_error(int(made.error[0]))
    if fuse is not None and found["fuse_x"] is not fuse:
        np.copyto(fuse, found["fuse_x"])
    if out is None:
        return made
    for name, given, array in zip(Selection._fields, out, made):
        if given is not None and array is not None and given is not array:
            np.copyto(given, array)
    return out


def select_on_cuda(
    cu_seqlens: Any,
    rows: int,
    mode: int,
    score: int,
    max_len: int,
    numbers: dict[str, Any],
    arrays: dict[str, Any],
    out: Selection | None,
    stream: int | None,
) -> Selection:
    if out is None:
        raise invalid("out is not given; it is required if cu_seqlens is not a PyTorch tensor")
    first = device_array(cu_seqlens, "cu_seqlens", stream)
    if stream is None:
        stream = first.stream or 0

    def described(name: str, array: Any) -> DeviceArray | None:
        return None if array is None else device_array(array, name, stream)

    found = {name: described(name, array) for name, array in arrays.items()}
    outputs = Selection(*(described("out." + name, array) for name, array in zip(Selection._fields, out)))
    if found["scores"] is not None:
        outputs = outputs._replace(scores=found["scores"])
    on_stream([first], stream)
    strict_select(first, rows, mode, score, max_len, numbers, found, outputs, stream)
    return out
