"""Raw images in the memory of a CUDA device.

The device copies them to the memory of a session, because a recorded forward reads the same memory in every run. The
copies and the forward are enqueued on the caller's stream."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
import os
import sys
from typing import Any, Iterator, NamedTuple

import numpy as np

from .._arrays.arrays import DeviceArray, device_array, is_torch, on_cuda
from .._c.errors import RaggedVitError, Status, invalid
from .._c.library import Handle, cuda_driver
from .failures import Failures, add, attempt
from .model_type import Model
from .outputs import Outputs
from .policy import Policy
from .result import Result, of_session
from .staging import MOST_SIDE, named

LEGACY_STREAM = 1  # the default stream in __cuda_array_interface__ and the driver, which is also 0
ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [
        (f"{side}_{name}", kind)
        for side in ("source", "destination")
        for name, kind in (
            ("x", ctypes.c_size_t),
            ("y", ctypes.c_size_t),
            ("type", ctypes.c_uint32),
            ("host", ctypes.c_void_p),
            ("device", ctypes.c_uint64),
            ("array", ctypes.c_void_p),
            ("pitch", ctypes.c_size_t),
        )
    ] + [("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]


class DeviceImage(NamedTuple):
    """RGB8: lines of 3 * width bytes, `stride` apart. stream: the stream that writes the memory, or None."""

    address: int
    height: int
    width: int
    stride: int
    stream: int | None

    def pixel(self) -> DeviceImage:
        return self._replace(height=1, width=1, stride=3)


@functools.lru_cache(None)
def _driver() -> Any:
    driver, size, pointer = cuda_driver(), ctypes.c_size_t, ctypes.c_void_p
    driver.cuMemcpyDtoDAsync_v2.argtypes = [ctypes.c_uint64, ctypes.c_uint64, size, pointer]
    driver.cuMemcpy2DAsync_v2.argtypes = [ctypes.POINTER(Copy2D), pointer]
    driver.cuEventRecord.argtypes = [pointer, pointer]
    driver.cuStreamWaitEvent.argtypes = [pointer, pointer, ctypes.c_uint]
    driver.cuEventDestroy_v2.argtypes = driver.cuCtxPushCurrent_v2.argtypes = [pointer]
    return driver


def _call(name: str, *arguments: Any) -> None:
    failed = getattr(_driver(), name)(*arguments)
    if failed:
        raise RaggedVitError(Status.INTERNAL, f"{name} failed: CUDA error {failed}")


@contextlib.contextmanager
def _current(context: ctypes.c_void_p) -> Iterator[None]:
    _call("cuCtxPushCurrent_v2", context)
    try:
        yield
    finally:
        _driver().cuCtxPopCurrent_v2(ctypes.byref(ctypes.c_void_p()))


def _wait(stream: int, other: int) -> None:
    """Makes a stream wait for the work that is enqueued on another."""
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), NO_TIMING)
    try:
        _call("cuEventRecord", event, other)
        _call("cuStreamWaitEvent", stream, event, 0)
    finally:
        _driver().cuEventDestroy_v2(event)  # destroyed once nothing waits for it


def are_on_device(images: Any) -> bool:
    """Whether a batch has raw images, and at least one of them is on a CUDA device."""
    if isinstance(images, (list, tuple)):
        return any(not isinstance(one, (np.ndarray, str, os.PathLike)) and on_cuda(one) for one in images)
    if isinstance(images, np.ndarray) or not on_cuda(images):
        return False
    return str(images.dtype) == "torch.uint8" if is_torch(images) else device_array(images, "images").dtype == "uint8"


def _stream_of(model: Model, images: Any) -> int:
    """PyTorch's current stream for tensors; else the model's own, which waits for those that the arrays name."""
    if is_torch(images) or (isinstance(images, (list, tuple)) and any(is_torch(one) for one in images)):
        return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(model.cuda_index))
    return model._own_stream()


def _described(images: Any, stream: int, failures: Failures | None) -> list[DeviceArray | None]:
    """Describes the images of a batch: a list, or an array [B, height, width, 3].

    failures: receives the errors of elements that are not images; these are None in the result.
    """
    if isinstance(images, (list, tuple)):
        host = [number for number, one in enumerate(images) if not on_cuda(one)]
        if host:
            raise invalid(
                f"image {host[0]} is in host memory, and others of the batch are on a CUDA device; move all to one side"
            )
        return [
            attempt(number, failures, device_array, one, f"image {number}", stream) for number, one in enumerate(images)
        ]
    whole = device_array(images, "images", stream)
    if len(whole.shape) != 4:
        raise invalid(
            f"images are uint8 {list(whole.shape)}; expected [B, height, width, 3], or a list of [height, width, 3]"
        )
    return [
        dataclasses.replace(
            whole, address=whole.address + number * whole.strides[0], shape=whole.shape[1:], strides=whole.strides[1:]
        )
        for number in range(whole.shape[0])
    ]


def _image(number: int, found: DeviceArray, model: Model) -> DeviceImage:
    """Checks image `number` of a batch."""
    name, shape, strides = f"image {number}", found.shape, found.strides
    if found.device is not None and found.device != model.cuda_index:
        raise invalid(f"{name} is on cuda:{found.device}, the model on {model.device}; move one of them")
    if found.dtype != "uint8" or len(shape) != 3 or shape[2] != 3 or 0 in shape or max(shape) > MOST_SIDE:
        raise invalid(
            f"{name} is {found.dtype} {list(shape)}; expected uint8 [height, width, 3], RGB, of 1 to {MOST_SIDE} pixels"
            " a side"
        )
    height, width, _ = shape
    stride = strides[0] if height > 1 else 3 * width
    if strides[2] != 1 or (width > 1 and strides[1] != 3) or stride < 3 * width:
        raise invalid(
            f"{name} has the strides {list(strides)}; expected {3 * width} or more, 3, 1: whole pixels side by side,"
            " lines from top to bottom"
        )
    if not is_torch(found.owner):  # PyTorch is trusted; the driver must confirm the addresses of other arrays
        begin, end = found.address // 16 * 16, found.address + stride * (height - 1) + 3 * width
        try:
            model._lib.wrap(model._device, begin, end - begin)
        except RaggedVitError as error:
            raise RaggedVitError(Status(error.status), f"{name}: {error}") from None
    return DeviceImage(found.address, height, width, stride, None if is_torch(found.owner) else found.stream)


class DeviceBatch:
    """Raw images on the model's device, and the stream on which they are used."""

    def __init__(self, model: Model, images: Any, failures: Failures | None = None) -> None:
        """failures: receives the errors of single images. A pixel of another image replaces each; if all fail, the
        batch is empty."""
        if model.cuda_index < 0:
            raise invalid(f"images are on a CUDA device, the model on {model.device}; move one of them")
        self.model, self.spec = model, model._spec
        if not self.spec.on_device(model.info):
            raise RaggedVitError(
                Status.UNSUPPORTED,
                "the device does not prepare images for this model: a resize in float32, or patches of an "
                "odd size; move them to the host",
            )
        self.stream = _stream_of(model, images)
        arrays = _described(images, self.stream, failures)
        self.n, found = len(arrays), [one for one in arrays if one is not None]
        self.owners = [one.owner for one in found]
        # device of the results; None: they are arrays
        self.tensors = next((one.owner.device for one in found if is_torch(one.owner)), None)
        checked = [
            None if one is None else attempt(number, failures, _image, number, one, model)
            for number, one in enumerate(arrays)
        ]
        good = next((image for image in checked if image is not None), None)
        self.images = [] if good is None else [good.pixel() if image is None else image for image in checked]
        if failures is not None:
            unfit = model._unfit(self.spec, tuple((image.height, image.width, 3) for image in self.images))
            add(failures, unfit)
            self.images = [image.pixel() if number in unfit else image for number, image in enumerate(self.images)]
        self.shapes = tuple((image.height, image.width, 3) for image in self.images)

    def classify(self, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None = None) -> Result[Any]:
        """Returns what Model.classify returns, in host arrays. It waits for the results."""
        model, n = self.model, len(self.images)
        lib = model._lib
        size = sum(height * width * 3 for height, width, _ in self.shapes)
        try:
            # The staging buffer has only the descriptors and the resize weights, not the images.
            room = model._room(self.spec, self.shapes) - size
        except RaggedVitError as error:
            raise named(error, 0) from None
        session = model._sessions.get(
            policy,
            n,
            outputs,
            lambda: model._stream(self.stream),
            (self.stream, "device images"),
            self.spec,
            room,
            size + 64 * n,
        )
        with session.lock:
            assert session.staging is not None and session.pixels is not None
            table, starts = session.staging.plan_on_device(lib, model.info, self.spec, self.shapes, session.pixels)
            masked = model._mask(mask, policy, session, n)
            run = session.run
            run.n_images, run.input.data = n, table.ctypes.data
            run.keep = None if masked is None else masked.ctypes.data
            logits = np.empty((n, model.info.n_classes), np.float32) if model.info.n_classes else None
            try:
                self.copy(session.pixels, starts)
                model._run(session.handle, session.pointer, n, logits, failures)
            except RaggedVitError as error:
                # from here on nothing reads the caller's memory
                lib.raw.rvit_stream_synchronize(model._stream(self.stream))
                raise named(error, 0) from None
            return of_session(lib, model.info, session.handle, logits, n, outputs, failed=failures)

    def copy(self, pixels: Handle, starts: list[int], user: int | None = None) -> None:
        """Enqueues the copies to the offsets `starts` of device memory, after the work of the images' streams.

        user: the stream that uses the copies; None: the same one.
        """
        lib = self.model._lib
        own, address = self.stream or LEGACY_STREAM, lib.address(pixels)
        with _current(lib.make("rvit_cuda_device_context", self.model._device)):
            for stream in {image.stream or LEGACY_STREAM for image in self.images if image.stream is not None} - {own}:
                _wait(self.stream, stream)
            for to, source, lines, size, stride in _runs(self.images, starts):
                if lines == 1:
                    _call("cuMemcpyDtoDAsync_v2", address + to, source, size, self.stream)
                    continue
                copy = Copy2D(
                    source_type=ON_DEVICE,
                    source_device=source,
                    source_pitch=stride,
                    destination_type=ON_DEVICE,
                    destination_device=address + to,
                    destination_pitch=size,
                    width=size,
                    height=lines,
                )
                _call("cuMemcpy2DAsync_v2", ctypes.byref(copy), self.stream)
            if user is not None:
                _wait(user, self.stream)


def _runs(images: list[DeviceImage], starts: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
    """Yields copies as (destination, source, lines, bytes of a line, bytes between lines).

    Images that are adjacent in both memories become one copy.
    """
    to = source = size = 0
    for start, image in zip(starts, images):
        line = 3 * image.width
        whole = image.stride == line or image.height == 1
        if size and whole and to + size == start and source + size == image.address:
            size += line * image.height
            continue
        if size:
            yield to, source, 1, size, size
            size = 0
        if whole:
            to, source, size = start, image.address, line * image.height
        else:
            yield start, image.address, image.height, line, image.stride
    if size:
        yield to, source, 1, size, size
