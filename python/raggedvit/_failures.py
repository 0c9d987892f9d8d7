"""Images of a batch that fail alone: which they are, and what the result of their batch says of them. A batch that runs all the same has, in
the place of a picture that cannot be prepared, one pixel that can, so that it stays as large as the forward that was recorded for it."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterable, Iterator, Literal, Sequence, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import _checks
from ._arrays import is_torch
from ._errors import RaggedVitError, Status
from ._library import Handle, Library

if TYPE_CHECKING:
    from ._model import Result

#: By the number of the image in its batch; None where the first failure raises.
Failures = dict[int, RaggedVitError]
Errors = Literal["raise", "return"]
T = TypeVar("T")


def wanted(errors: str) -> Failures | None:
    """What the argument `errors` asks for."""
    return {} if _checks.choice("errors", errors, {"raise": 0, "return": 1}) else None


def of_run(lib: Library, session: Handle, n: int, error: RaggedVitError) -> Failures:
    """The images of a run of n that have no result, where its wait raised `error`; raises that if the run failed as a whole."""
    found: Failures = {}
    for image in range(n):
        try:
            lib.rvit_session_image_status(session, image)
        except RaggedVitError as one:
            found[image] = one
    if not any(str(one) == str(error) for one in found.values()):
        raise error
    return found


def check(logits: Any, dtype: str, failures: Failures | None, first: int = 0) -> None:
    """Notes the images whose logits are not finite, where a session has left these in memory of ours and has not looked at them."""
    sums = logits.sum(1, dtype=sys.modules["torch"].float64).cpu().numpy() if is_torch(logits) else logits.sum(1, dtype=np.float64)
    for image in np.flatnonzero(~np.isfinite(sums)).tolist():
        error = RaggedVitError(Status.NOT_FINITE, f"image {first + image}: its logits are not finite: its pixels are not finite, or the "
                               f"model overflows {dtype}" + (", where bf16 or f32 helps" if dtype == "f16" else ", or weights are not finite"))
        if failures is None:
            raise error
        failures.setdefault(first + image, error)


@contextlib.contextmanager
def refusal(batch: Any, failures: Failures | None) -> Iterator[None]:
    """What breaks a rule for a batch as a whole is an error of each of its images."""
    try:
        yield
    except RaggedVitError as error:
        if failures is None or error.status != Status.INVALID_ARGUMENT or not hasattr(batch, "__len__"):
            raise
        failures.update(dict.fromkeys(range(len(batch)), error))


def attempt(image: int, failures: Failures | None, function: Callable[..., T], *arguments: Any) -> T | None:
    """What a function makes of an image; None: it failed."""
    try:
        return function(*arguments)
    except RaggedVitError as error:
        if failures is None:
            raise
        failures[image] = error
        return None


def add(failures: Failures, found: Failures) -> None:
    """What an image failed of first stays."""
    for image, error in found.items():
        failures.setdefault(image, error)


def noted(result: Result[Any], failures: Failures | None) -> Result[Any]:
    """The result of a batch, with its failures in order."""
    if failures:
        result.errors = dict(sorted(failures.items()))
    return result


def withhold(result: Result[Any], failed: Iterable[int], layouts: Sequence[NDArray[np.int32]], cls_stage: int, area: int) -> None:
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

