"""VariableResolution: images of different grids in one batch, as patches."""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._arrays.arrays import host_array, is_torch, refuse_shared
from .._c import checks
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status, invalid
from .._c.layouts import new
from .._c.process import renews
from .failures import Errors, wanted
from .model_type import Model
from .outputs import Outputs
from .policy import Policy
from .prepared import untraced
from .result import Result, noted, of_session
from .staging import copy_bytes


def _values(argument: str, value: Any) -> np.ndarray:
    return host_array(argument, value.detach().cpu() if is_torch(value) else value)


class VariableResolution:
    """A function of patches and grids, for images of different shapes in one batch.

    Model.prepare(inputs="patches") returns it. It keeps the model alive. Threads may share it; their calls wait for one
    another.
    """

    def __init__(
        self,
        model: Model,
        policy: Policy,
        *,
        max_images: Any = 1,
        max_tokens: Any = None,
        max_len: Any = None,
        on_device: bool = False,
        **outputs: Any,
    ) -> None:
        wanted_outputs = Outputs.of(model.info.depth, **outputs)
        on_device = checks.flag("on_device", on_device)
        if policy.name == "mask":
            raise invalid("the policy is 'mask', which is not supported with inputs='patches'")
        most, optional, integer = checks.INT32_MAX, checks.optional, checks.integer
        desc = new(
            "rvit_session_desc",
            variable_resolution=1,
            input=CONSTANTS["RVIT_INPUT_PATCHES"],
            max_images=integer("max_images", max_images, 1, 1 << 20),
            max_tokens=optional(integer, "max_tokens", max_tokens, 1, most) or 0,
            max_len=optional(integer, "max_len", max_len, 1, most) or 0,
        )
        wanted_outputs.fill(desc)
        policy._fill(model._lib, desc)
        self._model, self._outputs = model, wanted_outputs
        self._forked()
        renews(self)
        self._width = model.info.channels * model.info.patch_size**2 * max(model.info.patch_frames, 1)
        self._capacity = desc.max_tokens or desc.max_images * (desc.max_len or model.info.tokens)
        self._device = _DeviceRows(model, wanted_outputs, desc, self._capacity, self._width) if on_device else None
        keeps = (model._handle, *(self._device.handles if self._device else ()))
        self._session = model._lib.own("session", model._handle, ctypes.byref(desc), keeps=keeps)
        self._input: Any = None if on_device else model._lib.rvit_session_input_memory(self._session, None)
        self._run = new("rvit_run_args")
        self._run.input.kind = desc.input
        model._others.add(self)

    def _forked(self) -> None:
        """Creates the lock, also in a forked child, where no thread would release the parent's."""
        self.lock = threading.Lock()

    def __call__(
        self, patches: Any, grids: ArrayLike, *, out: Any = None, deepstack_out: Any = None, errors: Errors = "raise"
    ) -> Result[Any]:
        """Returns a Result with the outputs that were requested from prepare.

        With prepare's on_device, everything is ordered on PyTorch's current stream, as if PyTorch had computed it. The
        call waits for the forward, but not for the copies of rows after it. Outputs other than merged and deepstack
        rows are host arrays.

        Args:
            patches: Normalised floating point [sum of lines * columns, patch_size * patch_size * channels]: the patches
                of all images, one image after another, line by line, with values in the order (y, x, channel). These
                are the rows of a processor's pixel_values where its mask is set; for vision encoders that merge groups
                of patches, all pixel_values of their processor. Arrays or PyTorch tensors. They are copied to the host;
                with on_device, tensors on the model's CUDA device, of any floating type, are not.
            grids: Integers [B, 2]: lines and columns of each image's grid of patches. For encoders that merge groups,
                image_grid_thw without its first column, which is 1; a video of t pairs of frames is t images.
            out: Memory for the merged rows: float32 [rows, info.merged_dim], with at least as many rows as there are
                merge groups; the result has the first of them. With on_device, a tensor there of any floating type.
                None: new memory, which costs more time than the copy itself, because it is touched for the first time.
            deepstack_out: The same for deepstack rows: a sequence of info.n_deepstack arrays.
            errors: As for Model.classify. Invalid grids raise in any case. Rows that stay on the device are not checked
                for NaN.

        Raises:
            RaggedVitError: INVALID_ARGUMENT names the image that is empty or beyond the capacities.
        """
        failures, patches = wanted(errors), untraced(patches, "patches")
        self._model._sessions.open()
        info = self._model.info
        found = _values("grids", grids)
        if found.ndim != 2 or found.shape[1] != 2 or found.dtype.kind not in "iu":
            raise invalid(
                f"grids is {found.dtype} {list(found.shape)}; expected integers [B, 2]: lines and columns of each image"
            )
        values = self._device.floating(patches) if self._device else _values("patches", patches)
        if values.ndim != 2 or values.shape[1] != self._width or (not self._device and values.dtype.kind != "f"):
            raise invalid(
                f"patches is {str(values.dtype).replace('torch.', '')} {list(values.shape)}; expected floating point"
                f" [patches of all images, {self._width}]"
            )
        sides = np.clip(found, -1, 1 << 16).astype(np.int64)
        sizes = sides.prod(axis=1)
        # the library names the image of other errors
        if ((sides > 0) & (sides < 1 << 15)).all() and int(sizes.sum()) != len(values):
            raise invalid(f"patches has {len(values)} rows, but the grids are of {int(sizes.sum())} patches")
        bounds = np.ascontiguousarray(sides, np.int32)
        n = len(bounds)
        merged = _MergedRows(self._outputs, info.n_deepstack, info.merged_dim, out, deepstack_out, self._device)
        logits = np.empty((n, info.n_classes), np.float32) if info.n_classes else None
        with self.lock:
            self._run.n_images, self._run.input.grids = n, bounds.ctypes.data
            if self._device:
                self._device.take(values)
            elif len(values) <= self._capacity:  # else the library names the image that does not fit
                values = np.ascontiguousarray(values, np.float32)
                copy_bytes(self._input, values.ctypes.data, values.nbytes)
            self._model._run(self._session, ctypes.addressof(self._run), n, logits, failures)
            try:
                return noted(
                    of_session(self._model._lib, info, self._session, logits, n, self._outputs, merged.rows, failures),
                    failures,
                )
            finally:
                if self._device:
                    self._device.returned()


class _MergedRows:
    """The destination of merged rows: the caller's memory, or new memory."""

    def __init__(
        self, outputs: Outputs, n_deepstack: int, width: int, out: Any, deepstack_out: Any, device: _DeviceRows | None
    ) -> None:
        for name, value, requested in (
            ("out", out, outputs.merged),
            ("deepstack_out", deepstack_out, outputs.deepstack),
        ):
            if value is not None and not requested:
                raise invalid(f"{name} is given, but prepare was not asked for such rows")
        stacked: list[Any] = [None] * n_deepstack if deepstack_out is None else list(deepstack_out)
        if len(stacked) != n_deepstack:
            raise invalid(
                f"deepstack_out has {len(stacked)} arrays; expected {n_deepstack}, one for each of info.n_deepstack"
            )
        self.device, self.outputs = device, [*stacked, out]  # the output of merger -1, the last one, is at -1
        for number, value in enumerate(self.outputs):
            if value is not None:
                self._check("out" if number == n_deepstack else f"deepstack_out[{number}]", value, width)
        if not device:
            refuse_shared({"out": out, **{f"deepstack_out[{number}]": value for number, value in enumerate(stacked)}})

    def _check(self, name: str, value: Any, width: int) -> None:
        if self.device:
            self.device.check(name, value, width)
        elif (
            not isinstance(value, np.ndarray)
            or value.dtype != np.float32
            or not value.flags.c_contiguous
            or not value.flags.writeable
        ):
            raise invalid(
                f"{name} is {type(value).__name__}; expected a writable, contiguous numpy array of float32 [rows,"
                f" {width}]"
            )
        if value.ndim != 2 or value.shape[1] != width:
            raise invalid(f"{name} is {list(value.shape)}; expected [rows, {width}]")

    def rows(self, number: int, address: int | None, shape: tuple[int, int]) -> Any:
        """Returns the rows of merger `number`: those at `address` in the library's memory, or on the device."""
        own = self.outputs[number]
        if own is not None and len(own) < shape[0]:
            raise invalid(
                f"{'out' if number < 0 else f'deepstack_out[{number}]'} has {len(own)} rows, but the batch has"
                f" {shape[0]} merge groups"
            )
        if self.device:
            found = self.device.rows(number, shape[0])
            return found.clone() if own is None else own[: shape[0]].copy_(found)
        out = np.empty(shape, np.float32) if own is None else own[: shape[0]]
        if out.nbytes:
            if address is None:
                raise RaggedVitError(Status.INTERNAL, "the library has no merged rows")
            copy_bytes(out.ctypes.data, address, out.nbytes)
        return out


class _DeviceRows:
    """The tensors from which every run of the session reads patches and to which it writes rows, and its stream."""

    def __init__(self, model: Model, outputs: Outputs, desc: Any, tokens: int, width: int) -> None:
        torch = sys.modules.get("torch")
        if model.cuda_index < 0 or torch is None:
            raise invalid(
                f"on_device is True, but the model is on {model.device}"
                if model.cuda_index < 0
                else "on_device is True, but PyTorch is not imported"
            )
        self.torch, self.model, info = torch, model, model.info
        self.device = torch.device("cuda", model.cuda_index)
        groups = tokens // info.merge**2 if info.merge else 0
        self.patches = self._tensor(tokens, width)
        self.merged: Any = self._tensor(groups, info.merged_dim) if outputs.merged else None
        self.deepstack: Any = self._tensor(info.n_deepstack, groups, info.merged_dim) if outputs.deepstack else None
        self.done = torch.cuda.Event()  # recorded after the copies of the last call's rows
        self.stream = model._stream(self._current())
        self.handles = [self.stream]
        for field, tensor in (("input_view", self.patches), ("merged", self.merged), ("deepstack", self.deepstack)):
            if tensor is not None:
                self.handles.append(model._wrapped(tensor))
                getattr(desc, field).buffer = self.handles[-1].pointer
        desc.input_memory, desc.stream = CONSTANTS["RVIT_INPUT_FIXED"], self.stream.pointer.value

    def _tensor(self, *shape: int) -> Any:
        return self.torch.empty(shape, dtype=self.torch.float32, device=self.device)

    def _current(self) -> int:
        return int(self.torch._C._cuda_getCurrentRawStream(self.model.cuda_index))

    def floating(self, patches: Any) -> Any:
        """Returns patches as a tensor on their device."""
        found = (
            patches.detach()
            if is_torch(patches)
            else self.torch.from_numpy(np.ascontiguousarray(host_array("patches", patches)))
        )
        if not found.is_floating_point():
            raise invalid(f"patches is {str(found.dtype)[6:]} {list(found.shape)}; expected floating point")
        if found.is_cuda and found.device != self.device:
            raise invalid(f"patches is on {found.device}, the model on {self.model.device}; move one of them")
        return found

    def take(self, patches: Any) -> None:
        """Enqueues the copy of a batch's patches on PyTorch's current stream, which the run then uses."""
        if len(patches) > len(self.patches):
            raise invalid(f"patches has {len(patches)} rows, more than the {len(self.patches)} of max_tokens")
        current = self.torch.cuda.current_stream(self.device)
        current.wait_event(self.done)  # which may have been recorded on another stream
        for tensor in (self.patches, self.merged, self.deepstack):
            if tensor is not None:
                tensor.record_stream(current)
        self.model._lib.rvit_stream_set(self.stream, self._current() or None)
        self.patches[: len(patches)].copy_(patches)

    def returned(self) -> None:
        self.done.record(self.torch.cuda.current_stream(self.device))

    def check(self, name: str, value: Any, width: int) -> None:
        if not is_torch(value) or value.device != self.device or not value.is_floating_point() or value.requires_grad:
            kind = f"{str(value.dtype)[6:]} on {value.device}" if is_torch(value) else type(value).__name__
            raise invalid(
                f"{name} is {kind}; expected a tensor of a floating type on {self.device}, without a gradient: [rows,"
                f" {width}]"
            )

    def rows(self, number: int, n: int) -> Any:
        return (self.merged if number < 0 else self.deepstack[number])[:n]
