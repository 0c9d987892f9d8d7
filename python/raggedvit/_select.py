"""select: which rows of a ragged batch stay, and the layout of those that do."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any, NamedTuple

import numpy as np

from . import _rows
from ._arrays import DeviceArray, device_array, integers, is_symbol, is_torch, on_cuda, on_stream, refuse_shared
from ._attention import aligned
from ._checks import INT32_MAX, UINT64_MAX, choice, flag, float32, integer, number, optional, shown
from ._constants import CONSTANTS
from ._core_loader import core, ready
from ._errors import RaggedVitError, Status, invalid
from ._library import library

MODES = {name: CONSTANTS["RVIT_SELECT_" + name] for name in ("TOP_K", "THRESHOLD", "MASK", "SAMPLE", "MASS")}
SCORES = {name: CONSTANTS["RVIT_SCORE_" + name] for name in ("GIVEN", "L2", "CLS_ATTENTION", "CLS_NORM", "PREDICTOR", "POSITION")}
RULES = {"floor": CONSTANTS["RVIT_COUNT_FLOOR"], "ceil": CONSTANTS["RVIT_COUNT_CEIL"]}
INPUTS = ("x", "cls_probs", "weight", "bias", "position_scores", "counts", "scores", "mask", "fuse_x")
OUTPUTS = ("cu_seqlens", "src_rows", "keep", "error")


# By what is given: bits of scores, x, cls_probs, weight, bias, position_scores; of keep, counts, threshold, n_samples, mass, mask.
_SCORING = {1: SCORES["GIVEN"], 2: SCORES["L2"], 4: SCORES["CLS_ATTENTION"], 6: SCORES["CLS_NORM"], 26: SCORES["PREDICTOR"],
            32: SCORES["POSITION"]}
_CHOOSING = {1: MODES["TOP_K"], 2: MODES["TOP_K"], 4: MODES["THRESHOLD"], 8: MODES["SAMPLE"], 16: MODES["MASS"]}
_tried = None if core is None else core.try_select


class Selection(NamedTuple):
    """What select returns. cu_seqlens: int32 [n + 1], the layout of the rows that stay. src_rows: int32 [rows], where each of them was; the
    rest is undefined. keep: bool [rows]; undefined past the last row. scores: float32 [rows], None for a mask. error: int32 [1]: 0, or
    1 + 3 i: image i has a NaN score; 2 + 3 i: the mask drops a prefix row of image i; 3 + 3 i: its scores cannot be added up. In host
    memory an error raises."""

    cu_seqlens: Any
    src_rows: Any
    keep: Any
    scores: Any
    error: Any


def select(cu_seqlens: Any, *, scores: Any = None, x: Any = None, cls_probs: Any = None, weight: Any = None, bias: Any = None,
           position_scores: Any = None, mask: Any = None, keep: float | None = None, rule: str = "floor", counts: Any = None,
           threshold: float | None = None, n_samples: int | None = None, mass: float | None = None, k_min: int = 0, n_prefix: int = 1,
           prefix_competes: bool = False, fuse_x: Any = None, rows: int | None = None, max_len: int | None = None,
           out: Selection | None = None, stream: int | None = None) -> Selection:
    """Scores the rows of a batch, chooses those that stay, and writes their layout; pack and attention take it from there.

    Scores, by what is given: scores, float32 [rows]; x, [rows, dim]: the squared L2 norm; cls_probs, float32 [rows, heads] as attention
    writes it: its mean over the heads; both: their product with the norm (ATS); x with weight [2, dim] and bias float32 [2]: log
    softmax(x weight^T + bias)[0] (DynamicViT); position_scores, float32 [max_len].
    Choice, exactly one of: keep, the fraction that stays, as rule(n * keep) and at least k_min of the n rows past the prefix; counts, int32
    [max_len + 1]: how many of n; threshold, with at least k_min; n_samples (ATS); mass, the fraction of the sum of scores; mask, bool
    or uint8 [rows], which needs no scores.
    The first n_prefix rows of an image always stay; prefix_competes: they also count. fuse_x, [rows, dim]: the sum of the rows that go,
    weighted by their scores, becomes one more row of the image (EViT), in the place of the first of them. rows: of the batch at most, where
    no array says so. max_len: no image is longer; None: rows. out: arrays to write, as CUDA arrays that are none of PyTorch's need.
    include/raggedvit/prune.h has the details. There is no gradient: a tensor that requires one is refused."""
    scoring = (scores is not None) | (x is not None) << 1 | (cls_probs is not None) << 2 | (weight is not None) << 3 | (
        bias is not None) << 4 | (position_scores is not None) << 5
    choosing = (keep is not None) | (counts is not None) << 1 | (threshold is not None) << 2 | (n_samples is not None) << 3 | (
        mass is not None) << 4 | (mask is not None) << 5
    score, mode = _SCORING.get(scoring), _CHOOSING.get(choosing)
    if score is not None and mode is not None and out is None and (type(keep) is float or keep is None) and _tried is not None:
        table = counts
        if type(keep) is float:  # the table of counts, which is kept for the next call
            bound = max_len if max_len is not None else rows
            if bound is None:
                bound = next((array.shape[0] for array in (scores, x, cls_probs, position_scores) if is_torch(array) and array.dim()), None)
            if type(bound) is int and rule in RULES and 0 <= keep <= 1 and type(k_min) is int and not _compiling():
                table = _counts(cu_seqlens, keep, RULES[rule], k_min, bound) if bound >= 0 and k_min >= 0 else None
        if not _compiling() if keep is None else table is not None:
            found = _tried(cu_seqlens, rows, mode, score, max_len, n_prefix, prefix_competes, threshold, k_min, n_samples, mass, x,
                           cls_probs, weight, bias, position_scores, table, scores, mask, fuse_x, None, None, None, None, stream)
            if found is not NotImplemented:
                return Selection._make(found)
    arrays = dict(zip(INPUTS, (x, cls_probs, weight, bias, position_scores, counts, scores, mask, fuse_x)))
    return _general(cu_seqlens, arrays, keep, rule, threshold, n_samples, mass, k_min, n_prefix, prefix_competes, rows, max_len, out,
                    stream)


def _general(cu_seqlens: Any, arrays: dict[str, Any], keep: Any, rule: Any, threshold: Any, n_samples: Any, mass: Any, k_min: Any,
             n_prefix: Any, prefix_competes: Any, rows: Any, max_len: Any, out: Selection | None, stream: Any) -> Selection:
    """Every argument checked; arrays of any kind."""
    numbers = {
        "threshold": optional(float32, "threshold", threshold), "mass": optional(number, "mass", mass),
        "n_samples": optional(integer, "n_samples", n_samples, 1, 65536), "k_min": integer("k_min", k_min, 0, INT32_MAX - 1),
        "n_prefix": integer("n_prefix", n_prefix, 0, INT32_MAX - 1), "competes": int(flag("prefix_competes", prefix_competes)),
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
        raise invalid("rows is not given, nor an array that has so many")
    if max_len is None:
        n_counts, n_positions = length(arrays["counts"]), length(arrays["position_scores"])
        max_len = n_counts - 1 if n_counts is not None else rows if n_positions is None else n_positions
    if not symbolic:
        rows, max_len = integer("rows", rows, 0, INT32_MAX - 1), integer("max_len", max_len, 0, INT32_MAX - 1)
    if keep is not None:
        arrays["counts"] = _counts(cu_seqlens, float(number("keep", keep, 0.0)), choice("rule", rule, RULES), numbers["k_min"], max_len)
    stream = optional(integer, "stream", stream, 0, UINT64_MAX)
    ready()
    if symbolic or is_torch(cu_seqlens):
        from . import _torch_select

        return _torch_select.select(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out, stream)
    if on_cuda(cu_seqlens):
        return _on_cuda(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out, stream)
    if stream is not None:
        raise invalid("a stream is given, but cu_seqlens is not on a CUDA device")
    return _on_host(cu_seqlens, rows, mode, score, max_len, numbers, arrays, out)


def _compiling() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def _mode(arrays: dict[str, Any], keep: Any, threshold: Any, n_samples: Any, mass: Any) -> int:
    given = {"keep": keep, "counts": arrays["counts"], "threshold": threshold, "n_samples": n_samples, "mass": mass, "mask": arrays["mask"]}
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise invalid(f"{' and '.join(names) or 'nothing'} of keep, counts, threshold, n_samples, mass and mask is given; expected one")
    kinds = {"keep": "TOP_K", "counts": "TOP_K", "threshold": "THRESHOLD", "n_samples": "SAMPLE", "mass": "MASS", "mask": "MASK"}
    return MODES[kinds[names[0]]]


def _score(arrays: dict[str, Any]) -> int:
    given = {name for name in ("scores", "x", "cls_probs", "weight", "bias", "position_scores") if arrays[name] is not None}
    kinds = {("scores",): "GIVEN", ("x",): "L2", ("cls_probs",): "CLS_ATTENTION", ("cls_probs", "x"): "CLS_NORM",
             ("bias", "weight", "x"): "PREDICTOR", ("position_scores",): "POSITION"}
    if arrays["mask"] is not None:
        if given:
            raise invalid(f"{sorted(given)[0]} is given, but a mask needs no scores")
        return SCORES["GIVEN"]
    kind = kinds.get(tuple(sorted(given)))
    if kind is None:
        raise invalid(f"{', '.join(sorted(given)) or 'nothing'} is given to score by; expected scores, x, cls_probs, both of these, x with "
                      "weight and bias, or position_scores")
    return SCORES[kind]


@functools.lru_cache(maxsize=64)
def count_table(rule: int, keep: float, k_min: int, max_len: int) -> np.ndarray:
    table = aligned((max_len + 1,), np.int32)
    library().rvit_count_table(rule, keep, k_min, max_len, table.ctypes.data_as(ctypes.c_void_p))
    return table


def _counts(cu_seqlens: Any, keep: float, rule: int, k_min: int, max_len: int) -> Any:
    if is_torch(cu_seqlens) or is_symbol(cu_seqlens):
        from . import _torch_select

        return _torch_select.counts(cu_seqlens.device, rule, keep, k_min, max_len)
    if on_cuda(cu_seqlens):
        raise invalid("keep is given; where cu_seqlens is no PyTorch tensor, give counts as an array on the device")
    return count_table(rule, keep, k_min, max_len)


def run(cu_seqlens: Any, rows: int, mode: int, score: int, max_len: int, numbers: dict[str, Any], arrays: dict[str, Any],
        out: Selection, stream: int | None) -> None:
    """The core's select, of arrays that it must take as they are."""
    given = [out.scores if name == "scores" else arrays[name] for name in INPUTS]
    if mode == MODES["MASK"]:
        given[INPUTS.index("scores")] = None
    ready().strict_select(cu_seqlens, rows, mode, score, max_len, numbers["n_prefix"], numbers["competes"], numbers["threshold"],
                          numbers["k_min"], numbers["n_samples"], numbers["mass"], *given, out.cu_seqlens, out.src_rows, out.keep,
                          out.error, stream)


def raise_error(error: int) -> None:
    """What the op reports of an image."""
    if error:
        image, kind = divmod(error - 1, 3)
        why = ("has a NaN score", "has a mask that drops a prefix row", "has scores that cannot be added up: negative, infinite or all 0")
        raise RaggedVitError(Status.INVALID_ARGUMENT, f"select: image {image} {why[kind]}")


def _on_cuda(cu_seqlens: Any, rows: int, mode: int, score: int, max_len: int, numbers: dict[str, Any], arrays: dict[str, Any],
             out: Selection | None, stream: int | None) -> Selection:
    if out is None:
        raise invalid("out is not given; cu_seqlens is no PyTorch tensor, so there is nothing to make one with")
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
    run(first, rows, mode, score, max_len, numbers, found, outputs, stream)
    return out


def _on_host(cu_seqlens: Any, rows: int, mode: int, score: int, max_len: int, numbers: dict[str, Any], arrays: dict[str, Any],
             out: Selection | None) -> Selection:
    for name, array in arrays.items():
        if array is not None and on_cuda(array):
            raise invalid(f"{name} is on a CUDA device, cu_seqlens is not")
    cu_seqlens, fuse = integers("cu_seqlens", cu_seqlens), arrays["fuse_x"]
    if fuse is not None and not (isinstance(fuse, np.ndarray) and fuse.flags.writeable):
        raise invalid(f"fuse_x is {shown(fuse)}; expected a numpy array that can be written")
    found: dict[str, Any] = {name: None if array is None else _rows.whole(name, array) for name, array in arrays.items()}
    made = Selection(aligned(cu_seqlens.shape, np.int32), aligned((rows,), np.int32), aligned((rows,), bool),
                     None if mode == MODES["MASK"] else found["scores"] if score == SCORES["GIVEN"] else aligned((rows,), np.float32),
                     aligned((1,), np.int32))
    for name, given, array in zip(Selection._fields, out or (), made):
        if given is not None and array is not None and given is not arrays["scores"]:
            if not isinstance(given, np.ndarray) or given.shape != array.shape or given.dtype != array.dtype or not given.flags.writeable:
                raise invalid(f"out.{name} is not a numpy array of {array.dtype} {list(array.shape)} that can be written")
    refuse_shared({"fuse_x": fuse, **{"out." + name: given for name, given in zip(Selection._fields, out or ())}})
    run(cu_seqlens, rows, mode, score, max_len, numbers, found, made, None)
    raise_error(int(made.error[0]))
    if fuse is not None and found["fuse_x"] is not fuse:
        np.copyto(fuse, found["fuse_x"])
    if out is None:
        return made
    for name, given, array in zip(Selection._fields, out, made):
        if given is not None and array is not None and given is not array:
            np.copyto(given, array)
    return out
