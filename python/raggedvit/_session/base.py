"""The internals of Model: its device, weights and sessions, and the ways to run a batch."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
import weakref
from typing import Any, Iterator

import numpy as np

from .._arrays.arrays import host_array, is_torch
from .._c import checks
from .._c.errors import RaggedVitError, Status, invalid
from .._c.info import PRECISIONS, TIERS, DeviceInfo, ModelInfo, name_of, precision_of
from .._c.layouts import new
from .._c.library import Handle, Library, library
from .._c.process import renews
from ..images import PIXEL, Recipe, are_raw, prepare_all, read
from .device_images import DeviceBatch, are_on_device
from .failures import Failures, add, check, of_run
from .outputs import LOGITS, Outputs
from .pipeline import HOST_HELPS, Pipeline
from .policy import Policy
from .prepared import Prepared, as_float32, converted, elsewhere, host_tensor, host_view, misfit, untraced
from .result import Result, as_tensors, copy_logits, joined, noted, of_session, stages_of
from .sessions import Session, Sessions
from .staging import MOST_SIDE, Shapes, Spec, room_of
from .staging import named as numbered


def _weakly(method: Any) -> Any:
    """A bound method that does not keep its object alive."""
    found = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        method = found()
        if method is not None:
            method(*arguments)

    return call


class ModelBase:
    """A model on a device, without the methods that users call."""

    def _configure(
        self,
        policy: str | Policy,
        device: tuple[int, int],
        dtype: Any,
        tier: str,
        n_threads: int,
        poll_us: int,
        max_sessions: int,
        max_batch: int | None,
    ) -> None:
        """Checks the arguments of a constructor. device: the backend and the index."""
        integer = checks.integer
        self._policy = Policy.of(policy)
        self._limits = (
            integer("max_sessions", max_sessions, 1, checks.INT32_MAX),
            checks.optional(integer, "max_batch", max_batch, 1, 1 << 20),
        )
        self._device_desc = new(
            "rvit_device_desc",
            backend=device[0],
            index=device[1],
            tier=checks.choice("tier", tier, TIERS),
            n_threads=n_threads,
            poll_us=poll_us,
        )
        self._precision = PRECISIONS[precision_of("dtype", dtype)]
        self._lib: Library = library()

    def _open(self, checkpoint: Handle, widens: bool = False) -> None:
        """Opens the device and loads the weights. widens: bf16 becomes f32 on a device without bf16."""
        lib = self._lib
        self._device = lib.own("device", ctypes.byref(self._device_desc))
        chosen = new("rvit_precision_choice")
        try:
            lib.rvit_precision_choose(self._device, checkpoint, self._precision, ctypes.byref(chosen))
        except RaggedVitError as error:
            if not widens or error.status != Status.UNSUPPORTED or self._precision != PRECISIONS["bf16"]:
                raise
            lib.rvit_precision_choose(self._device, checkpoint, PRECISIONS["f32"], ctypes.byref(chosen))
        desc = new("rvit_model_desc", dtype=chosen.dtype, quantization=chosen.quantization)
        handle = lib.own("model", self._device, checkpoint, ctypes.byref(desc), keeps=(self._device,))
        #: The type that the model computes in. If "auto" chose it, dtype_reason says why.
        self.dtype: str = name_of(PRECISIONS, chosen.precision)
        self.dtype_reason: str = chosen.reason.decode(errors="replace")
        info, files = new("rvit_model_info"), new("rvit_checkpoint_info")
        recipe, device_info = new("rvit_image_recipe"), new("rvit_device_info")
        lib.rvit_model_get_info(handle, ctypes.byref(info))
        lib.rvit_checkpoint_get_info(checkpoint, ctypes.byref(files))
        lib.rvit_model_get_recipe(handle, ctypes.byref(recipe))
        lib.rvit_device_get_info(self._device, ctypes.byref(device_info))
        self.info: ModelInfo = ModelInfo.of(info, files, recipe)
        self.device: DeviceInfo = DeviceInfo.of(device_info)
        #: PyTorch's index of the CUDA device; -1 for other devices.
        self.cuda_index: int = self.device.index if self.device.backend == "cuda" else -1
        self._recipe: Recipe | None = None
        self._rooms: dict[tuple[Spec, Shapes], int] = {}
        self._proxy: Any = weakref.proxy(self)
        self._prepared: weakref.WeakSet[Prepared] = weakref.WeakSet()
        self._sessions = Sessions(lib, self._device, handle, self.info, *self._limits, on_drop=_weakly(self._forget))
        self._forwards: dict[Policy, Prepared] = {}
        self._streams: dict[int, Handle] = {}
        self._own: Handle | None = None
        self._idle: list[Pipeline] = []  # for batches of the host
        self._slots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()  # prepared objects that own their session
        self._forked()
        renews(self)

    def _forked(self) -> None:
        """Creates the lock, also in a forked child, where no thread would release the parent's."""
        self._lock = threading.Lock()

    @property
    def recipe(self) -> Recipe:
        """How classify prepares raw images. Set it if the model's files do not define it.

        Raises:
            RaggedVitError: UNSUPPORTED if the model's files do not define it, or prepare images in an unknown way.
        """
        if self._recipe is None:
            if self.info.channels != 3:
                raise RaggedVitError(
                    Status.UNSUPPORTED, f"the model takes images of {self.info.channels} channels; raw images are RGB"
                )
            recipe = new("rvit_image_recipe")
            self._lib.rvit_model_get_recipe(self._handle, ctypes.byref(recipe))
            self._recipe = Recipe.of(recipe)
        return self._recipe

    @recipe.setter
    def recipe(self, recipe: Recipe) -> None:
        size = (3, recipe.height, recipe.width)
        if size != self.info.image_shape:
            raise invalid(f"the recipe makes images of {list(size)}, the model takes {list(self.info.image_shape)}")
        self._recipe = recipe

    @property
    def _spec(self) -> Spec:
        """How sessions prepare raw images."""
        return Spec(self.recipe, self.recipe.max_patches)

    @property
    def _handle(self) -> Handle:
        """The library's model. Raises INVALID_ARGUMENT if it is closed."""
        return self._sessions.open()

    def _policy_of(self, policy: str | Policy | None) -> Policy:
        return self._policy if policy is None else Policy.of(policy)

    def _room(self, spec: Spec, shapes: Shapes) -> int:
        """Returns the bytes that raw images of these shapes take in a session's memory."""
        found = self._rooms.get((spec, shapes))
        if found is None:
            if len(self._rooms) >= 64:
                self._rooms.clear()
            found = self._rooms[spec, shapes] = room_of(self._lib, self.info, spec, shapes)
        return found

    def _unfit(self, spec: Spec, shapes: Shapes) -> Failures:
        """Returns the images whose shape the device refuses."""
        found: Failures = {}
        try:
            self._room(spec, shapes)
        except RaggedVitError:
            for number, shape in enumerate(shapes):
                try:
                    self._room(spec, (shape,))
                except RaggedVitError as error:
                    found[number] = numbered(error, number)
        return found

    def _read_images(self, images: Any, failures: Failures | None = None) -> Any:
        """Reads raw images: returns a list of arrays if the device prepares them, else the model's input.

        failures: receives the errors of images that cannot be prepared; one pixel replaces each.
        """
        spec = self._spec
        found = read(images, failures)
        able = spec.on_device(self.info)
        fit = able and all(max(image.shape) <= MOST_SIDE for image in found)
        if failures is not None and able and (fit or spec.max_patches):
            unfit = self._unfit(spec, tuple(image.shape for image in found))
            fit = fit and not any(
                error.status in HOST_HELPS and spec.recipe._refusal(*found[number].shape[:2]) is None
                for number, error in unfit.items()
            )
            if fit or spec.max_patches:
                add(failures, unfit)
                found, fit = [PIXEL if number in unfit else image for number, image in enumerate(found)], True
        if fit and found:
            return found
        if spec.max_patches:
            raise RaggedVitError(
                Status.UNSUPPORTED,
                f"images of more than {MOST_SIDE} pixels a side are not supported at their own shape",
            )
        return prepare_all(spec.recipe, found, failures)

    def _check_policy(self, policy: Policy) -> None:
        """Raises the error that creating a session with this policy would raise."""
        desc, memory = new("rvit_session_desc"), new("rvit_memory_info")
        policy._fill(self._lib, desc)
        self._lib.rvit_session_memory(self._handle, ctypes.byref(desc), ctypes.byref(memory))

    def _mask(self, mask: Any, policy: Policy, session: Session, n_images: int) -> Any:
        """Returns the mask in the form that a run takes; None for other policies."""
        if policy.name != "mask":
            if mask is not None:
                raise invalid(f"there is a mask, but the policy is {policy.name!r}; expected 'mask'")
            return None
        if session.staging is not None and self._spec.max_patches > 0:
            raise invalid("the policy is 'mask', which is not supported with images at their own shape")
        if mask is None:
            raise invalid(f"the policy is 'mask', but there is no mask; expected [{n_images}, {self.info.tokens}]")
        stages = stages_of(self._lib, session.handle)
        mask = host_array("mask", mask.cpu() if is_torch(mask) else mask)
        wanted = (stages, n_images, self.info.tokens)
        if mask.shape != wanted and (stages != 1 or mask.shape != wanted[1:]):
            expected = list(wanted if stages != 1 else wanted[1:])
            raise invalid(
                f"the mask is {list(mask.shape)}; expected {expected}, tokens with the {self.info.n_prefix} of the"
                " prefix first"
            )
        if mask.dtype.kind not in "biuf":
            raise invalid(f"the mask is {mask.dtype}; expected numbers or bools")
        if mask.dtype.kind == "f" and np.isnan(mask).any():
            raise invalid("the mask has NaN; expected 0 for what is dropped, another number for what is kept")
        return np.ascontiguousarray(mask != 0, np.uint8)

    def _classify(
        self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result[Any]:
        images = untraced(images)
        if are_on_device(images):
            result = self._classify_on_device(images, policy, mask, outputs, failures)
        elif is_torch(images) and images.is_cuda:
            result = self._classify_cuda(images, policy, mask, outputs, failures)
        else:
            found = (
                self._read_images(images, failures)
                if are_raw(images)
                else host_view(self, host_tensor(self, images) if is_torch(images) else images)
            )
            overlaps = isinstance(found, list) or (self.cuda_index >= 0 and len(found) > 0)
            result = (self._classify_in_slot if overlaps else self._classify_host)(
                found, policy, mask, outputs, failures
            )
            result = as_tensors(result, "cpu") if is_torch(images) else result
        return noted(result, failures)

    def _classify_host(
        self, images: np.ndarray, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result:
        images, n = as_float32(images), len(images)
        session = self._sessions.get(policy, n, outputs)
        with session.lock:
            run, masked = session.run, self._mask(mask, policy, session, n)
            run.n_images, run.input.data = n, images.ctypes.data
            run.keep = None if masked is None else masked.ctypes.data
            logits = np.empty((n, self.info.n_classes), np.float32) if self.info.n_classes else None
            self._run(session.handle, session.pointer, n, logits, failures)
            return of_session(self._lib, self.info, session.handle, logits, n, outputs, failed=failures)

    def _classify_in_slot(
        self,
        images: np.ndarray | list[np.ndarray],
        policy: Policy,
        mask: Any,
        outputs: Outputs,
        failures: Failures | None,
    ) -> Result:
        found: list[Result[Any]] = []
        first = 0
        with (
            self._pipeline() as pipeline,
            contextlib.closing(pipeline.parts(images, policy, outputs, mask, failures)) as parts,
        ):
            for logits, session in parts:
                n = len(logits)
                failed = [image - first for image in failures if first <= image < first + n] if failures else None
                own = logits if self.info.n_classes else None
                found.append(of_session(self._lib, self.info, session.handle, own, n, outputs, failed=failed))
                first += n
        return joined(found)

    def _classify_on_device(
        self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result[Any]:
        batch = DeviceBatch(self, images, failures)
        if not batch.images:
            result = self._classify_host(
                np.zeros((batch.n, *self.info.image_shape), np.float32), policy, mask, outputs, failures
            )
        else:
            result = batch.classify(policy, mask, outputs, failures)
        return result if batch.tensors is None else as_tensors(result, batch.tensors)

    def _classify_cuda(
        self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result[Any]:
        torch, info = sys.modules["torch"], self.info
        if images.get_device() != self.cuda_index:
            raise elsewhere(self, images)
        if images.ndim != 4 or tuple(images.shape[1:]) != info.image_shape:
            raise misfit(self, images)
        images = images if images.dtype == torch.float32 else converted(torch, images)
        images = images.clone(memory_format=torch.contiguous_format) if images.data_ptr() % 16 else images.contiguous()
        n, stream = len(images), torch._C._cuda_getCurrentRawStream(self.cuda_index)
        logits = torch.empty((n, info.n_classes), dtype=torch.float32, device=images.device) if info.n_classes else None
        # Not the session of __call__, which does not report errors of images.
        session = self._sessions.get(policy, n, outputs, lambda: self._stream(stream), (stream, "classify"))
        with session.lock:
            self._point(session, images, logits)
            run, masked = session.run, self._mask(mask, policy, session, n)
            run.n_images, run.keep = n, None if masked is None else masked.ctypes.data
            self._run(session.handle, session.pointer, n, None, failures)
            if logits is not None:
                check(logits, self.dtype, failures)
            return as_tensors(
                of_session(self._lib, self.info, session.handle, logits, n, outputs, failed=failures), images.device
            )

    def _run(self, session: Handle, run: int, n: int, logits: np.ndarray | None, failures: Failures | None) -> None:
        """Runs a session, and waits for it. failures: receives the errors of single images."""
        try:
            self._lib.rvit_session_run(session, run, None if logits is None else logits.ctypes.data)
        except RaggedVitError as error:
            if failures is None:
                raise
            add(failures, {image: numbered(one, 0) for image, one in of_run(self._lib, session, n, error).items()})
            if logits is not None:
                copy_logits(self._lib, session, logits)

    def _of_map(self, session: Session | None, logits: np.ndarray, batch: Any, failures: Failures) -> Result[Any]:
        """Returns the Result of a batch of Prepared.map, which ran or was refused as a whole."""
        result: Result[Any] = Result(logits)
        if session is not None:
            result = of_session(self._lib, self.info, session.handle, logits, len(logits), LOGITS, failed=failures)
        return noted(as_tensors(result, "cpu") if is_torch(batch) else result, failures)

    def _point(self, session: Session, images: Any, logits: Any) -> None:
        """Makes the next run of a session read and write these tensors."""
        run = session.run
        for name, tensor, view in (("images", images, run.input.view), ("logits", logits, run.logits)):
            if tensor is None or not tensor.numel():
                continue
            if getattr(session, name) is None:
                setattr(session, name, self._wrapped(tensor))
            view.buffer = getattr(session, name).pointer
            self._lib.rvit_buffer_set(getattr(session, name), tensor.data_ptr(), tensor.numel() * tensor.element_size())

    @contextlib.contextmanager
    def _pipeline(self) -> Iterator[Pipeline]:
        """Provides a pipeline for batches in host memory; several may be in use."""
        with self._lock:
            pipeline = self._idle.pop() if self._idle else None
        if pipeline is None:
            pipeline = Pipeline(self._proxy)
            self._slots.update(pipeline.slots)
        try:
            yield pipeline
        finally:
            with self._lock:
                if len(self._idle) < 2:
                    self._idle.append(pipeline)

    def _forget(self, session: Session) -> None:
        for forward in list(self._prepared):
            forward.forget(session)

    def _update(self, checkpoint: Handle) -> None:
        def work() -> None:
            model = self._handle
            for stream in [*self._streams.values(), *(slot.stream for slot in self._slots)]:
                self._lib.rvit_stream_synchronize(stream)
            self._lib.rvit_model_update(model, checkpoint)

        self._sessions.holding_all([other.lock for other in self._others], work)

    def _stream(self, stream: int) -> Handle:
        """Wraps a caller's CUDA stream for one session.

        Sessions of several threads share the caller's stream, but only one thread at a time may use a library stream.
        """
        with self._lock:
            if stream not in self._streams:
                self._streams[stream] = self._wrapped_stream(stream)  # to wait for all work on it
        return self._wrapped_stream(stream)

    def _own_stream(self) -> int:
        """Returns a CUDA stream for arrays that have none."""
        with self._lock:
            if self._own is None:
                self._own = self._lib.own("stream", self._device, keeps=(self._device,))
        return int(self._lib.make("rvit_stream_handle", self._own).value or 0)

    def _wrapped_stream(self, stream: int) -> Handle:
        keeps = (self._device,) if self._own is None else (self._device, self._own)
        return self._lib.own("stream", self._device, stream or None, create="rvit_stream_wrap", keeps=keeps)

    def _wrapped(self, tensor: Any) -> Handle:
        return self._lib.wrap(self._device, tensor.data_ptr(), max(1, tensor.numel() * tensor.element_size()))
