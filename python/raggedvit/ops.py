"""attention, pack, unpack, gather and select on the caller's arrays, in place where the layout allows it.

raggedvit.attention, pack and unpack are functions of the compiled core, and gather and select try it first. It handles
the plain cases: PyTorch tensors without a gradient, and numpy arrays that are contiguous within a row. For every other
call it calls a function here, which passes tensors to the modules of _torch and other arrays to _arrays/plain.py."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from ._arrays.arrays import is_symbol, is_torch, on_cuda
from ._arrays.core_loader import core, ready
from ._arrays.plain import (
    INPUTS,
    MODES,
    RULES,
    SCORES,
    Selection,
    attention_on_cuda,
    attention_on_host,
    count_table,
    rows_on_cuda,
    rows_on_host,
    select_on_cuda,
    select_on_host,
)
from ._arrays.typing import Array, ArrayT
from ._c.checks import INT32_MAX, UINT64_MAX, choice, flag, float32, integer, number, optional, shown
from ._c.errors import invalid

# Bit masks of the arguments that are present: scores, x, cls_probs, weight, bias, position_scores; and keep, counts,
# threshold, n_samples, mass, mask.
_SCORING = {
    1: SCORES["GIVEN"],
    2: SCORES["L2"],
    4: SCORES["CLS_ATTENTION"],
    6: SCORES["CLS_NORM"],
    26: SCORES["PREDICTOR"],
    32: SCORES["POSITION"],
}
_CHOOSING = {1: MODES["TOP_K"], 2: MODES["TOP_K"], 4: MODES["THRESHOLD"], 8: MODES["SAMPLE"], 16: MODES["MASS"]}
_tried = None if core is None else core.try_select


def general_attention(
    qkv: Any,
    cu_seqlens: Any,
    scale: float | None = None,
    max_len: int | None = None,
    out: Any = None,
    *,
    stream: int | None = None,
    k: Any = None,
    v: Any = None,
    key_bias: Any = None,
    lse: Any = False,
    cls_probs: Any = False,
) -> Any:
    """Bidirectional self-attention of every sequence of a ragged batch.

    numpy arrays and CPU tensors are computed on the library's CPU device before the call returns. CUDA arrays (PyTorch
    tensors, and arrays with __cuda_array_interface__ or DLPack) are used in place: the call enqueues one or two kernels
    and returns. Their memory must be 16-byte aligned, that of cu_seqlens 4-byte.

    PyTorch tensors that require grad get gradients: for q, k, v and key_bias, from out, lse and cls_probs. Any thread
    may call; each has its own streams.

    Args:
        qkv: float32, float16 or bfloat16 (CUDA) [rows, 3, heads, head_dim], head_dim a multiple of 8 up to 128.
            Sequence i is rows cu_seqlens[i] .. cu_seqlens[i + 1] - 1. With k and v it is only q, [rows, heads,
            head_dim]. Each row must be contiguous, but rows may have any stride.
        cu_seqlens: int32 [n + 1], from 0, not decreasing. On CUDA it is not checked, because nothing is read back.
        scale: Factor of the logits; None: 1 / sqrt(head_dim).
        max_len: An upper bound of the sequence lengths; None: the longest, on CUDA the number of rows. Set it on CUDA,
            because skipping work past the end of a sequence costs time.
        out: [rows, heads, head_dim] of qkv's type to write and return; None: a new array. Outputs must not overlap one
            another, nor an input on CUDA. It is required for CUDA arrays that are not PyTorch's.
        stream: A CUstream as an int; None: PyTorch's current stream for its tensors, else the stream that
            __cuda_array_interface__ names, else the legacy default stream. For arrays that are not PyTorch's the
            context of their device must be current in the thread.
        k, v: [rows, heads, head_dim].
        key_bias: float32 [rows], added to the logits of each key.
        lse: True, or a float32 [rows, heads] array to write: the logarithm of each softmax's denominator.
        cls_probs: True, or a float32 [rows, heads] array to write: the softmax row of the first token of each sequence.

    Returns:
        out; with lse or cls_probs the tuple (out, lse, cls_probs), with None for what was not requested. Rows past
        cu_seqlens[n] are not written: they are undefined in a new array, or zeros if a gradient is recorded.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments, and if out, lse or cls_probs is passed and a gradient is
            needed.
    """
    scale, max_len = optional(float32, "scale", scale), optional(integer, "max_len", max_len, 0, INT32_MAX - 1)
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    if scale is not None and (not scale or math.isinf(scale)):
        raise invalid(f"scale is {scale:g}; expected another number, or None for 1 / sqrt(head_dim)")
    ready()
    named = {
        "q" if k is not None else "qkv": qkv,
        "cu_seqlens": cu_seqlens,
        "out": out,
        "k": k,
        "v": v,
        "key_bias": key_bias,
        "lse": _output(lse),
        "cls_probs": _output(cls_probs),
    }
    if is_torch(qkv) or any(map(is_symbol, named.values())):
        from ._torch import attention as torch_attention

        return torch_attention.attention(named, scale, max_len, stream)
    if on_cuda(qkv):
        return attention_on_cuda(named, scale, max_len, stream)
    if stream is not None:
        raise invalid("a stream is given, but qkv is not on a CUDA device")
    for name, array in named.items():
        if array is not None and array is not True and on_cuda(array):
            raise invalid(f"{name} is on a CUDA device, qkv is not")
    return attention_on_host(named, scale, max_len)


def _output(value: Any) -> Any:
    """Normalises an optional output: True, an array, or None."""
    if isinstance(value, (bool, np.bool_)):
        return True if value else None
    return value


if TYPE_CHECKING:

    @overload
    def attention(
        qkv: ArrayT,
        cu_seqlens: Any,
        scale: float | None = None,
        max_len: int | None = None,
        out: ArrayT | None = None,
        *,
        stream: int | None = None,
        k: ArrayT | None = None,
        v: ArrayT | None = None,
        key_bias: Array | None = None,
        lse: Literal[False] | None = False,
        cls_probs: Literal[False] | None = False,
    ) -> ArrayT: ...

    @overload
    def attention(
        qkv: ArrayT,
        cu_seqlens: Any,
        scale: float | None = None,
        max_len: int | None = None,
        out: ArrayT | None = None,
        *,
        stream: int | None = None,
        k: ArrayT | None = None,
        v: ArrayT | None = None,
        key_bias: Array | None = None,
        lse: Literal[True] | Array,
        cls_probs: bool | Array | None = False,
    ) -> tuple[ArrayT, Any, Any]: ...

    @overload
    def attention(
        qkv: ArrayT,
        cu_seqlens: Any,
        scale: float | None = None,
        max_len: int | None = None,
        out: ArrayT | None = None,
        *,
        stream: int | None = None,
        k: ArrayT | None = None,
        v: ArrayT | None = None,
        key_bias: Array | None = None,
        lse: bool | Array | None = False,
        cls_probs: Literal[True] | Array,
    ) -> tuple[ArrayT, Any, Any]: ...

    def attention(*arguments: Any, **named: Any) -> Any:
        return general_attention(*arguments, **named)

elif core is None:
    attention = general_attention
else:
    attention = core.attention
    core.hook("attention", general_attention)


def general_pack(
    x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None
) -> ArrayT:
    """Copies rows of a batch: out[t] = x[src_rows[t]].

    The gradient of x is computed by unpack, so src_rows must ascend, as select writes it unless it fuses tokens. gather
    takes any order.

    Args:
        x: [source rows, ...], contiguous.
        src_rows: int32 [rows].
        cu_seqlens: int32 [n + 1], the layout of the result. Rows at or past cu_seqlens[n] are not written: they are
            undefined in a new array, or zeros if a gradient is recorded. None: all rows are written.
        out: [rows, ...] to write; None: a new array.
        stream: As for attention.

    Returns:
        out.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments.
    """
    return _rows_call("pack", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "out": out}, {}, stream)


def general_unpack(
    x: ArrayT,
    src_rows: Any,
    cu_seqlens: Any = None,
    rows: int | None = None,
    fill: float = 0.0,
    base: ArrayT | None = None,
    out: ArrayT | None = None,
    *,
    stream: int | None = None,
) -> ArrayT:
    """The inverse of pack: out[src_rows[t]] = x[t].

    Every other row is copied from base, or has `fill` in every element. Both x and base have gradients.

    Args:
        x: float32, float16 or bfloat16 [rows, ...] with a multiple of 4 elements per row.
        src_rows: int32, ascending.
        cu_seqlens: int32 [n + 1], the layout of x; None: all rows of x are used.
        rows: Rows of the result; None: those of base or out.
        fill: Value of the other rows, without base.
        base: [rows, ...]; it may be the same array as out.
        out: [rows, ...] to write; None: a new array.
        stream: As for attention.

    Returns:
        out.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments.
    """
    numbers = {"rows": optional(integer, "rows", rows, 0, INT32_MAX - 1), "fill": float32("fill", fill)}
    return _rows_call(
        "unpack", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "base": base, "out": out}, numbers, stream
    )


def gather(
    x: ArrayT, src_rows: Any, cu_seqlens: Any = None, out: ArrayT | None = None, *, stream: int | None = None
) -> ArrayT:
    """Copies rows as pack does, with src_rows in any order and with repetitions.

    The gradient of a row of x is the sum over its copies.

    Args:
        x, src_rows, cu_seqlens, out, stream: As for pack.

    Returns:
        out.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.compiler.is_compiling() and is_torch(x) and out is None and stream is None:
        from ._torch import rows as torch_rows  # noqa: F401

        return torch.ops.raggedvit.gather(x, src_rows, cu_seqlens)  # type: ignore[no-any-return]
    found = NotImplemented if core is None else core.try_pack(x, src_rows, cu_seqlens, out, stream=stream)
    if found is NotImplemented:
        found = _rows_call("gather", {"x": x, "src_rows": src_rows, "cu_seqlens": cu_seqlens, "out": out}, {}, stream)
    return found  # type: ignore[no-any-return]


def _rows_call(name: str, arrays: dict[str, Any], numbers: dict[str, Any], stream: int | None) -> Any:
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    ready()
    for other in ("x", "src_rows"):
        if arrays[other] is None:
            raise invalid(f"{other}: None is given; expected an array")
    x = arrays["x"]
    if is_torch(x) or any(map(is_symbol, arrays.values())):
        from ._torch import rows as torch_rows

        return torch_rows.call(name, arrays, numbers, stream)
    if on_cuda(x):
        if arrays["out"] is None:
            raise invalid("out is not given; it is required if x is not a PyTorch tensor")
        return rows_on_cuda(name, arrays, numbers, stream)
    if stream is not None:
        raise invalid("a stream is given, but x is not on a CUDA device")
    return rows_on_host(name, arrays, numbers)


if TYPE_CHECKING or core is None:
    pack, unpack = general_pack, general_unpack
else:
    pack, unpack = core.pack, core.unpack
    core.hook("pack", general_pack)
    core.hook("unpack", general_unpack)


def select(
    cu_seqlens: Any,
    *,
    scores: Any = None,
    x: Any = None,
    cls_probs: Any = None,
    weight: Any = None,
    bias: Any = None,
    position_scores: Any = None,
    mask: Any = None,
    keep: float | None = None,
    rule: str = "floor",
    counts: Any = None,
    threshold: float | None = None,
    n_samples: int | None = None,
    mass: float | None = None,
    k_min: int = 0,
    n_prefix: int = 1,
    prefix_competes: bool = False,
    fuse_x: Any = None,
    rows: int | None = None,
    max_len: int | None = None,
    out: Selection | None = None,
    stream: int | None = None,
) -> Selection:
    """Scores the rows of a batch, chooses the rows to keep, and writes their layout for pack and attention.

    The arguments determine the scores: `scores` itself; with x, its squared L2 norm; with cls_probs, the mean over the
    heads; with x and cls_probs, that mean times the L2 norm (ATS); with x, weight and bias, log softmax(x weight^T +
    bias)[0] (DynamicViT); or position_scores. Exactly one of keep, counts, threshold, n_samples, mass and mask chooses
    the rows. include/raggedvit/prune.h has the details. There is no gradient: tensors that require one are refused.

    Args:
        cu_seqlens: int32 [n + 1], the layout of the batch.
        scores: float32 [rows].
        x: [rows, dim].
        cls_probs: float32 [rows, heads], as attention writes it.
        weight, bias: [2, dim] and float32 [2].
        position_scores: float32 [max_len].
        mask: bool or uint8 [rows]; it needs no scores.
        keep: Fraction to keep: rule(n * keep), and at least k_min, of the n rows past the prefix.
        rule: "floor" or "ceil".
        counts: int32 [max_len + 1]: how many of n rows to keep.
        threshold: Lowest score of a kept row; at least k_min rows are kept.
        n_samples: Number of samples (ATS).
        mass: Fraction of the sum of the scores to keep.
        k_min: Smallest number of rows to keep.
        n_prefix: Number of first rows of each image that are always kept.
        prefix_competes: Whether the prefix rows count among the n rows.
        fuse_x: [rows, dim]: the sum of the dropped rows, weighted by their scores, becomes one more row of the image
            (EViT), in the position of the first dropped row.
        rows: Largest number of rows of the batch, if no array shows it.
        max_len: An upper bound of the image lengths; None: rows.
        out: Arrays to write; required for CUDA arrays that are not PyTorch's.
        stream: As for attention.

    Returns:
        A Selection.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments and, in host memory, for images with unusable scores.
    """
    scoring = (
        (scores is not None)
        | (x is not None) << 1
        | (cls_probs is not None) << 2
        | (weight is not None) << 3
        | (bias is not None) << 4
        | (position_scores is not None) << 5
    )
    choosing = (
        (keep is not None)
        | (counts is not None) << 1
        | (threshold is not None) << 2
        | (n_samples is not None) << 3
        | (mass is not None) << 4
        | (mask is not None) << 5
    )
    score, mode = _SCORING.get(scoring), _CHOOSING.get(choosing)
    if (
        score is not None
        and mode is not None
        and out is None
        and (type(keep) is float or keep is None)
        and _tried is not None
    ):
        table = counts
        if type(keep) is float:  # the table of counts, which is cached
            bound = max_len if max_len is not None else rows
            if bound is None:
                bound = next(
                    (
                        array.shape[0]
                        for array in (scores, x, cls_probs, position_scores)
                        if is_torch(array) and array.dim()
                    ),
                    None,
                )
            if type(bound) is int and rule in RULES and 0 <= keep <= 1 and type(k_min) is int and not _compiling():
                table = _counts(cu_seqlens, keep, RULES[rule], k_min, bound) if bound >= 0 and k_min >= 0 else None
        if not _compiling() if keep is None else table is not None:
            found = _tried(
                cu_seqlens,
                rows,
                mode,
                score,
                max_len,
                n_prefix,
                prefix_competes,
                threshold,
                k_min,
                n_samples,
                mass,
                x,
                cls_probs,
                weight,
                bias,
                position_scores,
                table,
                scores,
                mask,
                fuse_x,
                None,
                None,
                None,
                None,
                stream,
            )
            if found is not NotImplemented:
                return Selection._make(found)
    arrays = dict(zip(INPUTS, (x, cls_probs, weight, bias, position_scores, counts, scores, mask, fuse_x)))
    return _general_select(
        cu_seqlens,
        arrays,
        keep,
        rule,
        threshold,
        n_samples,
        mass,
        k_min,
        n_prefix,
        prefix_competes,
        rows,
        max_len,
        out,
        stream,
    )


def _general_select(
    cu_seqlens: Any,
    arrays: dict[str, Any],
    keep: Any,
    rule: Any,
    threshold: Any,
    n_samples: Any,
    mass: Any,
    k_min: Any,
    n_prefix: Any,
    prefix_competes: Any,
    rows: Any,
    max_len: Any,
    out: Selection | None,
    stream: Any,
) -> Selection:
    """Checks every argument; takes arrays of any kind."""
    numbers = {
        "threshold": optional(float32, "threshold", threshold),
        "mass": optional(number, "mass", mass),
        "n_samples": optional(integer, "n_samples", n_samples, 1, 65536),
        "k_min": integer("k_min", k_min, 0, INT32_MAX - 1),
        "n_prefix": integer("n_prefix", n_prefix, 0, INT32_MAX - 1),
        "competes": int(flag("prefix_competes", prefix_competes)),
    }
    mode, score = _mode(arrays, keep, threshold, n_samples, mass), _score(arrays)
    if out is not None and (not isinstance(out, tuple) or len(out) != len(Selection._fields)):
        raise invalid(f"out is {shown(out)}; expected a Selection of arrays")
    symbolic = _compiling() or any(map(is_symbol, (cu_seqlens, *arrays.values())))

    def length(array: Any) -> Any:
        shape = getattr(array, "shape", ())
        return shape[0] if (symbolic and array is not None) or len(shape) else None

    if rows is None:
        with_rows = [arrays[name] for name in ("scores", "x", "cls_probs", "mask", "fuse_x")]
        rows = next((length(array) for array in with_rows if length(array) is not None), None)
    if rows is None:
        raise invalid("rows is not given, and no array shows the number of rows")
    if max_len is None:
        n_counts, n_positions = length(arrays["counts"]), length(arrays["position_scores"])
        max_len = n_counts - 1 if n_counts is not None else rows if n_positions is None else n_positions
    if not symbolic:
        rows, max_len = integer("rows", rows, 0, INT32_MAX - 1), integer("max_len", max_len, 0, INT32_MAX - 1)
    if keep is not None:
        arrays["counts"] = _counts(
            cu_seqlens, float(number("keep", keep, 0.0)), choice("rule", rule, RULES), numbers["k_min"], max_len
        )
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    ready()
    if symbolic or is_torch(cu_seqlens):
        from ._torch import select as torch_select

        return torch_select.select(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out, stream)
    if on_cuda(cu_seqlens):
        return select_on_cuda(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out, stream)
    if stream is not None:
        raise invalid("a stream is given, but cu_seqlens is not on a CUDA device")
    return select_on_host(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out)


def _compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def _mode(arrays: dict[str, Any], keep: Any, threshold: Any, n_samples: Any, mass: Any) -> int:
    given = {
        "keep": keep,
        "counts": arrays["counts"],
        "threshold": threshold,
        "n_samples": n_samples,
        "mass": mass,
        "mask": arrays["mask"],
    }
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise invalid(
            f"{' and '.join(names) or 'nothing'} of keep, counts, threshold, n_samples, mass and mask is given;"
            " expected one"
        )
    kinds = {
        "keep": "TOP_K",
        "counts": "TOP_K",
        "threshold": "THRESHOLD",
        "n_samples": "SAMPLE",
        "mass": "MASS",
        "mask": "MASK",
    }
    return MODES[kinds[names[0]]]


def _score(arrays: dict[str, Any]) -> int:
    given = {
        name for name in ("scores", "x", "cls_probs", "weight", "bias", "position_scores") if arrays[name] is not None
    }
    kinds = {
        ("scores",): "GIVEN",
        ("x",): "L2",
        ("cls_probs",): "CLS_ATTENTION",
        ("cls_probs", "x"): "CLS_NORM",
        ("bias", "weight", "x"): "PREDICTOR",
        ("position_scores",): "POSITION",
    }
    if arrays["mask"] is not None:
        if given:
            raise invalid(f"{sorted(given)[0]} is given, but a mask needs no scores")
        return SCORES["GIVEN"]
    kind = kinds.get(tuple(sorted(given)))
    if kind is None:
        raise invalid(
            f"{', '.join(sorted(given)) or 'nothing'} is given to score by; expected scores, x, cls_probs, both of"
            " these, x with weight and bias, or position_scores"
        )
    return SCORES[kind]


def _counts(cu_seqlens: Any, keep: float, rule: int, k_min: int, max_len: int) -> Any:
    if is_torch(cu_seqlens) or is_symbol(cu_seqlens):
        from ._torch import select as torch_select

        return torch_select.counts(cu_seqlens.device, rule, keep, k_min, max_len)
    if on_cuda(cu_seqlens):
        raise invalid("keep is given; if cu_seqlens is not a PyTorch tensor, give counts as an array on the device")
    return count_table(rule, keep, k_min, max_len)
