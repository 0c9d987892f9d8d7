"""Errors of single images of a batch.

One valid pixel replaces an image that cannot be prepared, so that the batch keeps the size of its recorded forward."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, Literal, TypeVar

import numpy as np

from .._arrays.arrays import is_torch
from .._c import checks
from .._c.errors import RaggedVitError, Status
from .._c.library import Handle, Library

#: Errors by the number of the image in its batch.
Failures = dict[int, RaggedVitError]
Errors = Literal["raise", "return"]
T = TypeVar("T")


def wanted(errors: str) -> Failures | None:
    """Returns an empty dict for errors="return", None for errors="raise"."""
    return {} if checks.choice("errors", errors, {"raise": 0, "return": 1}) else None


def of_run(lib: Library, session: Handle, n: int, error: RaggedVitError) -> Failures:
    """Returns the images without a result of a run of n images, after its wait raised `error`.

    Raises `error` if the run failed as a whole.
    """
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
    """Finds images with non-finite logits, for sessions that do not check the logits themselves."""
    sums = (
        logits.sum(1, dtype=sys.modules["torch"].float64).cpu().numpy()
        if is_torch(logits)
        else logits.sum(1, dtype=np.float64)
    )
    for image in np.flatnonzero(~np.isfinite(sums)).tolist():
        error = RaggedVitError(
            Status.NOT_FINITE,
            f"image {first + image}: its logits are not finite: its pixels are not finite, or the "
            f"model overflows {dtype}"
            + (", where bf16 or f32 helps" if dtype == "f16" else ", or weights are not finite"),
        )
        if failures is None:
            raise error
        failures.setdefault(first + image, error)


@contextlib.contextmanager
def refusal(batch: Any, failures: Failures | None) -> Iterator[None]:
    """Assigns an INVALID_ARGUMENT error of a whole batch to each of its images."""
    try:
        yield
    except RaggedVitError as error:
        if failures is None or error.status != Status.INVALID_ARGUMENT or not hasattr(batch, "__len__"):
            raise
        failures.update(dict.fromkeys(range(len(batch)), error))


def attempt(image: int, failures: Failures | None, function: Callable[..., T], *arguments: Any) -> T | None:
    """Calls a function for an image. Returns None, and stores the error, if it fails."""
    try:
        return function(*arguments)
    except RaggedVitError as error:
        if failures is None:
            raise
        failures[image] = error
        return None


def add(failures: Failures, found: Failures) -> None:
    """Adds errors; the first error of an image stays."""
    for image, error in found.items():
        failures.setdefault(image, error)
