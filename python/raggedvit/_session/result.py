"""Results: copies of a run's outputs, without the images that failed."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from typing import Any, Generic, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._arrays.arrays import is_torch
from .._arrays.typing import ArrayT
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status
from .._c.info import ModelInfo
from .._c.layouts import new
from .._c.library import Handle, Library
from .failures import Failures
from .outputs import Outputs
from .staging import copy_bytes

#: The optional arrays of a Result, by name.
NAMED = ("features", "cls_attention", "pooled", "projected", "block_features", "received_attention")


@dataclass
class Result(Generic[ArrayT]):
    """The results of Model.classify, in arrays that later calls do not overwrite.

    For images in a PyTorch tensor, logits and the optional outputs are tensors on its device; the rest are numpy
    arrays. An output that was not requested is None. Stage -1 means all tokens of all images.

    Attributes:
        logits: float32 [B, n_classes]; None for a model without a head.
        cu_seqlens: For each prune stage, int32 [B + 1]: image i has cu[i + 1] - cu[i] tokens after it, prefix tokens
            included.
        kept: For each stage, for each image: int32, the number of each row's token in the unpruned image (prefix first;
            patch n is n_prefix + n), or -1 for EViT's fused token.
        sizes: For "tome", for each stage, for each image: float32, the number of tokens averaged in each row. Otherwise
            empty.
        features: float32 [rows, dim]: the rows of the last stage (of all tokens if there is none) after the final norm,
            one image after another.
        cls_attention: float32 [rows, n_heads]: the CLS row of the last block's attention.
        pooled: float32 [B, dim]: the input of the head, after its norm; CLS row and mean, or CLS row and distillation
            token, are concatenated.
        projected: float32 [B, info.embedding_dim]: the embeddings to compare with those of texts (CLIP, SigLIP).
        block_features: float32 [rows, dim]: the rows after a block, before any norm.
        block_stage: The stage whose cu_seqlens and kept belong to block_features.
        received_attention: float32 [rows, n_heads]: the attention that each row receives in a block, averaged over all
            rows.
        received_stage: The stage whose cu_seqlens and kept belong to received_attention.
        merged: float32 [merge groups, info.merged_dim]: the merger's row for each group of info.merge * info.merge
            patches, one image after another, the groups of an image line by line.
        deepstack: info.n_deepstack such arrays, from the rows after earlier blocks.
        deepstack_stages: For each array of deepstack, the stage of its rows.
        errors: With errors="return", the error of each failed image, by its number. Such an image has NaN in logits,
            pooled and projected, and in rows of all tokens; after a stage it has no rows.
    """

    logits: ArrayT | None
    cu_seqlens: list[NDArray[np.int32]] = field(default_factory=list)
    kept: list[list[NDArray[np.int32]]] = field(default_factory=list)
    sizes: list[list[NDArray[np.float32]]] = field(default_factory=list)
    features: ArrayT | None = None
    cls_attention: ArrayT | None = None
    pooled: ArrayT | None = None
    projected: ArrayT | None = None
    block_features: ArrayT | None = None
    block_stage: int | None = None
    received_attention: ArrayT | None = None
    received_stage: int | None = None
    merged: ArrayT | None = None
    deepstack: list[ArrayT] | None = None
    deepstack_stages: list[int] | None = None
    errors: dict[int, RaggedVitError] = field(default_factory=dict)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        logits: Any = self.logits
        if logits is None:
            raise RaggedVitError(Status.UNSUPPORTED, "the model has no head, so there are no logits")
        return np.array(logits.cpu().numpy() if is_torch(logits) else logits, dtype=dtype)


class _Views:
    """A session's results, in memory of the library. All share one struct, which each call overwrites."""

    def __init__(self, lib: Library, session: Any) -> None:
        self._lib, self._session, self._view = lib, session, new("rvit_result_view")
        self._at = ctypes.byref(self._view)

    def find(self, name: str, index: int = 0) -> Any:
        """Returns a result, or None if the session does not have it."""
        status = self._lib.raw.rvit_session_get(self._session, CONSTANTS["RVIT_RESULT_" + name], index, self._at)
        return None if status else self._view

    def get(self, name: str, index: int = 0) -> Any:
        self._lib.rvit_session_get(self._session, CONSTANTS["RVIT_RESULT_" + name], index, self._at)
        return self._view


def stages_of(lib: Library, session: Any) -> int:
    info = new("rvit_session_info")
    lib.rvit_session_get_info(session, ctypes.byref(info))
    return int(info.n_stages)


def copy_logits(lib: Library, session: Any, logits: np.ndarray) -> None:
    """Copies the logits of the last run into an array."""
    if logits.nbytes:
        ctypes.memmove(logits.ctypes.data, _Views(lib, session).get("LOGITS").data, logits.nbytes)


def _copied(address: int | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Copies memory of the library."""
    out = np.empty(shape, dtype)
    if out.nbytes:
        if address is None:
            raise RaggedVitError(Status.INTERNAL, "the library has no such result")
        copy_bytes(out.ctypes.data, address, out.nbytes)
    return out


def _merged_rows(number: int, address: int | None, shape: tuple[int, int]) -> Any:
    """Returns the rows of merger `number` (-1: the last one) in a new array."""
    return _copied(address, shape, np.float32)


def of_session(
    lib: Library,
    info: ModelInfo,
    session: Handle,
    logits: Any,
    n: int,
    outputs: Outputs,
    merged_rows: Any = _merged_rows,
    failed: Iterable[int] | None = None,
) -> Result[Any]:
    """Returns the results of a session's last run, of n images. failed: the images without a result."""
    result: Result[Any] = Result(logits)
    views = _Views(lib, session)
    cls_stage = -1
    for stage in range(stages_of(lib, session)):
        cu = _copied(views.get("CU_SEQLENS", stage).data, (n + 1,), np.int32)
        result.cu_seqlens.append(cu)
        result.kept.append(_by_image(views.get("KEPT", stage).data, cu, np.int32))
        sizes = views.find("SIZES", stage)
        if sizes:
            result.sizes.append(_by_image(sizes.data, cu, np.float32))

    def of_rows(name: str) -> tuple[int, np.ndarray]:
        view = views.get(name)
        return view.stage, _copied(view.data, (view.rows, view.width), np.float32)

    if outputs.features:
        _, result.features = of_rows("FEATURES")
    if outputs.cls_attention:
        cls_stage, result.cls_attention = of_rows("CLS_ATTENTION")
    if outputs.pooled:
        _, result.pooled = of_rows("POOLED")
    if outputs.projected:
        _, result.projected = of_rows("PROJECTED")
    if outputs.block_features is not None:
        result.block_stage, result.block_features = of_rows("BLOCK_FEATURES")
    if outputs.received_attention is not None:
        result.received_stage, result.received_attention = of_rows("RECEIVED_ATTENTION")
    if outputs.merged:
        view = views.get("MERGED")
        result.merged = merged_rows(-1, view.data, (view.rows, view.width))
    if outputs.deepstack:
        result.deepstack, result.deepstack_stages = [], []
        for k in range(info.n_deepstack):
            view = views.get("DEEPSTACK", k)
            result.deepstack_stages.append(view.stage)
            result.deepstack.append(merged_rows(k, view.data, (view.rows, view.width)))
    if failed:
        unpruned = _copied(views.get("CU_SEQLENS", -1).data, (n + 1,), np.int32)
        _withhold(result, failed, [*result.cu_seqlens, unpruned], cls_stage, max(1, info.merge**2))
    return result


def _by_image(address: int | None, cu_seqlens: NDArray[np.int32], dtype: Any) -> list[np.ndarray]:
    """Splits the library's array of all rows into one array per image."""
    bounds = cu_seqlens.tolist()
    rows = _copied(address, (bounds[-1],), dtype)
    return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]


def joined(parts: list[Result[Any]]) -> Result[Any]:
    """Joins the results of the parts of a batch."""
    if len(parts) == 1:
        return parts[0]

    def rows(name: str) -> Any:
        values = [getattr(part, name) for part in parts]
        return None if values[0] is None else np.concatenate(values)

    def layout(stage: int) -> NDArray[np.int32]:
        lengths = np.concatenate([np.diff(part.cu_seqlens[stage]) for part in parts])
        return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)

    def images(lists: Any) -> list[Any]:
        return [[rows for found in stage for rows in found] for stage in zip(*lists)]

    return Result(
        rows("logits"),
        [layout(stage) for stage in range(len(parts[0].cu_seqlens))],
        images(part.kept for part in parts),
        images(part.sizes for part in parts),
        block_stage=parts[0].block_stage,
        received_stage=parts[0].received_stage,
        **{name: rows(name) for name in NAMED},
    )


def as_tensors(result: Result[Any], device: Any) -> Result[Any]:
    torch = sys.modules["torch"]
    for name in ("logits", *NAMED):
        value = getattr(result, name)
        if isinstance(value, np.ndarray):
            setattr(result, name, torch.from_numpy(value).to(device))
    return result


def noted(result: Result[Any], failures: Failures | None) -> Result[Any]:
    """Adds the failures of a batch, in order, to its result."""
    if failures:
        result.errors = dict(sorted(failures.items()))
    return result


def _withhold(
    result: Result[Any], failed: Iterable[int], layouts: Sequence[NDArray[np.int32]], cls_stage: int, area: int
) -> None:
    """Removes the images that failed from a result.

    Arrays with one row per image, and rows of all tokens, get NaN; rows after a stage are removed. layouts: the
    cu_seqlens of each stage, then those of all tokens. cls_stage: the stage of cls_attention's rows. area: rows per
    merge group.
    """
    numbers, n = sorted(failed), len(layouts[-1]) - 1
    good = np.ones(n, bool)
    good[numbers] = False
    for name in ("logits", "pooled", "projected"):
        value = getattr(result, name)
        if value is not None:
            value[numbers] = np.nan

    def rows(value: Any, stage: int, group: int = 1) -> Any:
        if value is None:
            return None
        mine = np.repeat(good, np.diff(layouts[stage]) // group)
        found = np.flatnonzero(mine if stage >= 0 else ~mine)
        at = sys.modules["torch"].from_numpy(found).to(value.device) if is_torch(value) else found
        if stage < 0:
            value[at] = np.nan
            return value
        value[: len(found)] = value[at]  # in place: this may be the caller's memory
        return value[: len(found)]

    last = len(result.cu_seqlens) - 1
    result.features, result.cls_attention = rows(result.features, last), rows(result.cls_attention, cls_stage)
    result.block_features = rows(result.block_features, -1 if result.block_stage is None else result.block_stage)
    result.received_attention = rows(
        result.received_attention, -1 if result.received_stage is None else result.received_stage
    )
    result.merged = rows(result.merged, last, area)
    if result.deepstack is not None:
        result.deepstack = [
            rows(value, stage, area) for value, stage in zip(result.deepstack, result.deepstack_stages or [])
        ]
    result.cu_seqlens = [
        np.concatenate([[0], np.cumsum(np.diff(cu) * good)]).astype(np.int32) for cu in result.cu_seqlens
    ]
    for stages in (result.kept, result.sizes):
        for stage in stages:
            for image in numbers:
                stage[image] = stage[image][:0]
