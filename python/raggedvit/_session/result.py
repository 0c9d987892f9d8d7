"""What a forward gives beside its logits, read from its session, and what it says of images that failed."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass, field
from typing import Any, Generic, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .._arrays.arrays import is_torch
from .._c.errors import RaggedVitError, Status
from .failures import Failures
from .staging import copy_bytes
from .._c.info import ModelInfo
from .._c.library import Handle, Library
from .outputs import Outputs
from .._arrays.typing import ArrayT

#: The arrays of a Result that are asked for by name.
NAMED = ("features", "cls_attention", "pooled", "projected", "block_features", "received_attention")


@dataclass
class Result(Generic[ArrayT]):
    """What a classify gives: arrays of its own, which nothing overwrites. For images in a PyTorch tensor, logits and the outputs that are
    asked for by name are tensors on its device; the rest are numpy arrays."""

    #: float32 [B, n_classes]; None for a model without a head.
    logits: ArrayT | None
    #: int32 [B + 1] for each prune stage: tokens of image i after it, prefix tokens included: cu[i + 1] - cu[i].
    cu_seqlens: list[NDArray[np.int32]] = field(default_factory=list)
    #: For each stage, for each image: int32, the token of the unpruned image that each row holds (prefix first; patch n is n_prefix + n);
    #: -1 for EViT's fused token.
    kept: list[list[NDArray[np.int32]]] = field(default_factory=list)
    #: tome: for each stage, for each image: float32, how many tokens each row is the mean of. Otherwise empty.
    sizes: list[list[NDArray[np.float32]]] = field(default_factory=list)
    #: float32 [rows, dim], if asked for: the rows of the last stage (of all tokens without one) after the final layernorm, image after
    #: image.
    features: ArrayT | None = None
    #: float32 [rows, n_heads], if asked for: the CLS row of the last block's attention.
    cls_attention: ArrayT | None = None
    #: float32 [B, dim], if asked for: what the head reads, after its norm; CLS row and mean, or CLS row and distillation token side by side.
    pooled: ArrayT | None = None
    #: float32 [B, info.embedding_dim], if asked for: the vectors that are compared with those of texts (CLIP, SigLIP).
    projected: ArrayT | None = None
    #: float32 [rows, dim], if asked for: the rows that a block leaves, before any norm. block_stage: the stage whose cu_seqlens and kept they
    #: have; -1: all tokens of all images.
    block_features: ArrayT | None = None
    block_stage: int | None = None
    #: float32 [rows, n_heads], if asked for: the attention that the rows receive in a block, the mean over all rows; received_stage as
    #: block_stage.
    received_attention: ArrayT | None = None
    received_stage: int | None = None
    #: float32 [squares, info.merged_dim], if asked for: what becomes of each square of info.merge * info.merge patches, image after image, the
    #: squares of an image line after line.
    merged: ArrayT | None = None
    #: info.n_deepstack of the same, if asked for: of the rows that earlier blocks leave. deepstack_stages: for each the stage whose
    #: cu_seqlens and kept its rows have; -1: those of all tokens.
    deepstack: list[ArrayT] | None = None
    deepstack_stages: list[int] | None = None
    #: With errors="return": what failed of the batch: image -> its error. Such an image has NaN in logits, pooled and projected, and in rows
    #: of all tokens; after a stage it has no rows. Otherwise empty.
    errors: dict[int, RaggedVitError] = field(default_factory=dict)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        logits: Any = self.logits
        if logits is None:
            raise RaggedVitError(Status.UNSUPPORTED, "the model has no head, so there are no logits")
        return np.array(logits.cpu().numpy() if is_torch(logits) else logits, dtype=dtype)


def _copied(address: int | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A copy of what the library lends."""
    out = np.empty(shape, dtype)
    if out.nbytes:
        if address is None:
            raise RaggedVitError(Status.INTERNAL, "the library gave no such result")
        copy_bytes(out.ctypes.data, address, out.nbytes)
    return out


def _merged_rows(number: int, address: int | None, shape: tuple[int, int]) -> Any:
    """What a result has of merger `number`, -1: the last one, where nobody says where its rows go."""
    return _copied(address, shape, np.float32)


def of_session(lib: Library, info: ModelInfo, session: Handle, logits: Any, n: int, outputs: Outputs, merged_rows: Any = _merged_rows,
               failed: Iterable[int] | None = None) -> Result[Any]:
    """The results of a session's last run, of n images. failed: the images that have no result."""
    result: Result[Any] = Result(logits)
    stages = lib.rvit_session_n_stages(session)
    cls_stage = -1
    for stage in range(stages):
        cu = _copied(lib.rvit_session_cu_seqlens(session, stage), (n + 1,), np.int32)
        result.cu_seqlens.append(cu)
        result.kept.append(_by_image(lib.rvit_session_kept(session, stage, 0), cu, np.int32))
        sizes = lib.rvit_session_sizes(session, stage, 0)
        if sizes:
            result.sizes.append(_by_image(sizes, cu, np.float32))

    def rows(stage: int) -> int:
        return int(result.cu_seqlens[stage][-1] if stage >= 0 else _copied(lib.rvit_session_cu_seqlens(session, -1), (n + 1,), np.int32)[-1])

    def laid_out(call: Any, width: int) -> tuple[int, np.ndarray]:
        stage = ctypes.c_int32(-1)
        address = call(session, ctypes.byref(stage))
        return stage.value, _copied(address, (rows(stage.value), width), np.float32)

    if outputs.features:
        result.features = _copied(lib.rvit_session_features(session), (rows(stages - 1), info.dim), np.float32)
    if outputs.cls_attention:
        cls_stage, result.cls_attention = laid_out(lib.rvit_session_cls_attention, info.n_heads)
    if outputs.pooled:
        width = ctypes.c_int32(0)
        address = lib.rvit_session_pooled(session, ctypes.byref(width))
        result.pooled = _copied(address, (n, width.value), np.float32)
    if outputs.projected:
        result.projected = _copied(lib.rvit_session_projected(session), (n, info.embedding_dim), np.float32)
    if outputs.block_features is not None:
        result.block_stage, result.block_features = laid_out(lib.rvit_session_block_features, info.dim)
    if outputs.received_attention is not None:
        result.received_stage, result.received_attention = laid_out(lib.rvit_session_received_attention, info.n_heads)
    if outputs.merged:
        shape = (rows(stages - 1) // info.merge**2, info.merged_dim)
        result.merged = merged_rows(-1, lib.rvit_session_merged(session), shape)
    if outputs.deepstack:
        result.deepstack, result.deepstack_stages = [], []
        for k in range(info.n_deepstack):
            stage = ctypes.c_int32(-1)
            address = lib.rvit_session_deepstack(session, k, ctypes.byref(stage))
            result.deepstack_stages.append(stage.value)
            result.deepstack.append(merged_rows(k, address, (rows(stage.value) // info.merge**2, info.merged_dim)))
    if failed:
        unpruned = _copied(lib.rvit_session_cu_seqlens(session, -1), (n + 1,), np.int32)
        _withhold(result, failed, [*result.cu_seqlens, unpruned], cls_stage, max(1, info.merge**2))
    return result


def _by_image(address: int | None, cu_seqlens: NDArray[np.int32], dtype: Any) -> list[np.ndarray]:
    """The rows of each image, cut from the library's one array of all rows."""
    bounds = cu_seqlens.tolist()
    rows = _copied(address, (bounds[-1],), dtype)
    return [rows[begin:end] for begin, end in zip(bounds, bounds[1:])]


def joined(parts: list[Result[Any]]) -> Result[Any]:
    """The results of a batch from those of its parts."""
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

    return Result(rows("logits"), [layout(stage) for stage in range(len(parts[0].cu_seqlens))], images(part.kept for part in parts),
                  images(part.sizes for part in parts), block_stage=parts[0].block_stage, received_stage=parts[0].received_stage,
                  **{name: rows(name) for name in NAMED})


def as_tensors(result: Result[Any], device: Any) -> Result[Any]:
    torch = sys.modules["torch"]
    for name in ("logits", *NAMED):
        value = getattr(result, name)
        if isinstance(value, np.ndarray):
            setattr(result, name, torch.from_numpy(value).to(device))
    return result


def noted(result: Result[Any], failures: Failures | None) -> Result[Any]:
    """The result of a batch, with its failures in order."""
    if failures:
        result.errors = dict(sorted(failures.items()))
    return result


def _withhold(result: Result[Any], failed: Iterable[int], layouts: Sequence[NDArray[np.int32]], cls_stage: int, area: int) -> None:
    """Makes a result say nothing of the images that failed: NaN in what has one row an image, and in rows of all tokens; no rows in what
    follows a stage. layouts: the cu_seqlens of each stage, and last those of all tokens; cls_stage: whose rows cls_attention has; area: rows
    of a square."""
    numbers, n = sorted(failed), len(layouts[-1]) - 1
    good = np.ones(n, bool)
    good[numbers] = False
    for name in ("logits", "pooled", "projected"):
        value = getattr(result, name)
        if value is not None:
            value[numbers] = np.nan

    def rows(value: Any, stage: int, unit: int = 1) -> Any:
        if value is None:
            return None
        mine = np.repeat(good, np.diff(layouts[stage]) // unit)
        places = np.flatnonzero(mine if stage >= 0 else ~mine)
        at = sys.modules["torch"].from_numpy(places).to(value.device) if is_torch(value) else places
        if stage < 0:
            value[at] = np.nan
            return value
        value[: len(places)] = value[at]  # memory of the caller's, perhaps
        return value[: len(places)]

    last = len(result.cu_seqlens) - 1
    result.features, result.cls_attention = rows(result.features, last), rows(result.cls_attention, cls_stage)
    result.block_features = rows(result.block_features, -1 if result.block_stage is None else result.block_stage)
    result.received_attention = rows(result.received_attention, -1 if result.received_stage is None else result.received_stage)
    result.merged = rows(result.merged, last, area)
    if result.deepstack is not None:
        result.deepstack = [rows(value, stage, area) for value, stage in zip(result.deepstack, result.deepstack_stages or [])]
    result.cu_seqlens = [np.concatenate([[0], np.cumsum(np.diff(cu) * good)]).astype(np.int32) for cu in result.cu_seqlens]
    for stages in (result.kept, result.sizes):
        for stage in stages:
            for image in numbers:
                stage[image] = stage[image][:0]
