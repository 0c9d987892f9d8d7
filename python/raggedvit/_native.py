"""Images of any grids in one batch: a session of native resolution, and what a run of it takes and gives."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _checks
from ._arrays import host_array, is_torch
from ._errors import invalid
from ._layouts import new
from ._outputs import Outputs
from ._sessions import Prune

if TYPE_CHECKING:
    from ._model import Model, Result


def _values(argument: str, value: Any) -> np.ndarray:
    return host_array(argument, value.detach().cpu() if is_torch(value) else value)


class Native:
    """A function of patches and grids: Model.prepare(native=True) makes it. It keeps the model alive. Threads may share it; their calls
    wait for one another."""

    def __init__(self, model: Model, prune: Prune, outputs: Outputs, max_images: Any, max_tokens: Any, max_len: Any) -> None:
        if prune.policy == "mask":
            raise invalid("the policy is 'mask', which is not supported with native")
        most = _checks.INT32_MAX
        desc = new("rvit_session_desc", native=1, max_images=_checks.integer("max_images", max_images, 1, 1 << 20),
                   max_tokens=_checks.optional(_checks.integer, "max_tokens", max_tokens, 1, most) or 0,
                   max_len=_checks.optional(_checks.integer, "max_len", max_len, 1, most) or 0)
        outputs.fill(desc)
        prune.fill(model._lib, desc.prune)
        self._model, self._outputs, self._lock = model, outputs, threading.Lock()
        self._session = model._lib.own("session", model._handle, ctypes.byref(desc), keeps=(model._handle,))
        self._run = new("rvit_run_args")

    def __call__(self, patches: ArrayLike, grids: ArrayLike) -> Result[NDArray[np.float32]]:
        """Logits of a batch, and what was kept of it, as Model.classify gives them.

        grids: integers [B, 2], lines and columns of each image's grid of patches. patches: floating point [sum of lines * columns,
        patch_size * patch_size * channels], normalised: those of one image behind those of another, line after line, the values of each in
        the order (y, x, channel): the rows of a processor's pixel_values that its mask does not leave out. Of towers that merge squares
        of patches they are the pixel_values of their processor, and grids its image_grid_thw without the first column, which is 1; a
        video of t pairs of frames is t images. Arrays, or PyTorch tensors, which are copied to the host.

        Raises RaggedVitError: INVALID_ARGUMENT names the image that is empty or beyond the capacities.
        """
        info = self._model.info
        cells, values = _values("grids", grids), _values("patches", patches)
        width = info.channels * info.patch_size**2 * max(info.patch_frames, 1)
        if cells.ndim != 2 or cells.shape[1] != 2 or cells.dtype.kind not in "iu":
            raise invalid(f"grids is {cells.dtype} {list(cells.shape)}; expected integers [B, 2]: lines and columns of each image")
        if values.ndim != 2 or values.shape[1] != width or values.dtype.kind != "f":
            raise invalid(f"patches is {values.dtype} {list(values.shape)}; expected floating point [patches of all images, {width}]")
        sides = np.clip(cells, -1, 1 << 16).astype(np.int64)
        sizes = sides.prod(axis=1)
        if ((sides > 0) & (sides < 1 << 15)).all() and int(sizes.sum()) != len(values):  # the library names others
            raise invalid(f"patches has {len(values)} rows, but the grids are of {int(sizes.sum())} patches")
        bounds = np.ascontiguousarray(sides, np.int32)
        values = np.ascontiguousarray(values, np.float32)
        n = len(bounds)
        logits = np.empty((n, info.n_classes), np.float32) if info.n_classes else None
        with self._lock:
            self._run.n_images, self._run.grids, self._run.patches = n, bounds.ctypes.data, values.ctypes.data
            self._model._lib.rvit_session_run(self._session, ctypes.byref(self._run), None if logits is None else logits.ctypes.data)
            return self._model._result(self._session, logits, n, self._outputs)
