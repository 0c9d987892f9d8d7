"""Pictures that lie in the memory of a CUDA device already. They are copied there, by the device, to where a session has its pictures: that
is the same memory in every run, which a recorded forward reads. The copies are enqueued on the stream that the caller works on, and so is
the forward."""

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
from .failures import Failures, add, attempt
from .staging import MOST_SIDE, named
from .._c.library import Handle
from .model_type import Model
from .outputs import Outputs
from .result import Result, of_session
from .policy import Policy

LEGACY_STREAM = 1  # what __cuda_array_interface__ and the driver call the default stream, which is 0 too
ON_DEVICE = 2  # CU_MEMORYTYPE_DEVICE
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING


class Copy2D(ctypes.Structure):
    """CUDA_MEMCPY2D."""

    _fields_ = [(f"{side}_{name}", kind) for side in ("source", "destination") for name, kind in
                (("x", ctypes.c_size_t), ("y", ctypes.c_size_t), ("type", ctypes.c_uint32), ("host", ctypes.c_void_p),
                 ("device", ctypes.c_uint64), ("array", ctypes.c_void_p), ("pitch", ctypes.c_size_t))] + [
        ("width", ctypes.c_size_t), ("height", ctypes.c_size_t)]


class DevicePicture(NamedTuple):
    """RGB8: lines of 3 * width bytes, `stride` apart. stream: where the memory is written, which is to be waited for; None: nowhere."""

    address: int
    height: int
    width: int
    stride: int
    stream: int | None

    def pixel(self) -> DevicePicture:
        return self._replace(height=1, width=1, stride=3)


@functools.lru_cache(None)
def _driver() -> Any:
    driver, size, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_size_t, ctypes.c_void_p
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
    """Makes a stream go on behind what is enqueued on another."""
    event = ctypes.c_void_p()
    _call("cuEventCreate", ctypes.byref(event), NO_TIMING)
    try:
        _call("cuEventRecord", event, other)
        _call("cuStreamWaitEvent", stream, event, 0)
    finally:
        _driver().cuEventDestroy_v2(event)  # goes once nothing waits for it


def are_on_device(images: Any) -> bool:
    """Whether a batch is one of pictures of which at least one lies on a CUDA device."""
    if isinstance(images, (list, tuple)):
        return any(not isinstance(one, (np.ndarray, str, os.PathLike)) and on_cuda(one) for one in images)
    if isinstance(images, np.ndarray) or not on_cuda(images):
        return False
    return str(images.dtype) == "torch.uint8" if is_torch(images) else device_array(images, "images").dtype == "uint8"


def _stream_of(model: Model, images: Any) -> int:
    """Where tensors are given, PyTorch's current one; else one of the model's own, which waits for those that the arrays name."""
    if is_torch(images) or (isinstance(images, (list, tuple)) and any(is_torch(one) for one in images)):
        return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(model.cuda_index))
    return model._own_stream()


def _described(images: Any, stream: int, failures: Failures | None) -> list[DeviceArray | None]:
    """The pictures of a batch: those of a list, or those that an array [B, height, width, 3] has one behind another. failures: where the errors
    of those go that are none, and are None here."""
    if isinstance(images, (list, tuple)):
        host = [number for number, one in enumerate(images) if not on_cuda(one)]
        if host:
            raise invalid(f"picture {host[0]} is in host memory, and others of the batch are on a CUDA device; bring all to one side")
        return [attempt(number, failures, device_array, one, f"picture {number}", stream) for number, one in enumerate(images)]
    whole = device_array(images, "images", stream)
    if len(whole.shape) != 4:
        raise invalid(f"images are uint8 {list(whole.shape)}; expected pictures [B, height, width, 3], or a list of [height, width, 3]")
    return [dataclasses.replace(whole, address=whole.address + number * whole.strides[0], shape=whole.shape[1:], strides=whole.strides[1:])
            for number in range(whole.shape[0])]


def _picture(number: int, found: DeviceArray, model: Model) -> DevicePicture:
    """Picture `number` of a batch."""
    name, shape, strides = f"picture {number}", found.shape, found.strides
    if found.device is not None and found.device != model.cuda_index:
        raise invalid(f"{name} is on cuda:{found.device}, the model on {model.device}; move one of them")
    if found.dtype != "uint8" or len(shape) != 3 or shape[2] != 3 or 0 in shape or max(shape) > MOST_SIDE:
        raise invalid(f"{name} is {found.dtype} {list(shape)}; expected uint8 [height, width, 3], RGB, of 1 to {MOST_SIDE} pixels a side")
    height, width, _ = shape
    stride = strides[0] if height > 1 else 3 * width
    if strides[2] != 1 or (width > 1 and strides[1] != 3) or stride < 3 * width:
        raise invalid(f"{name} has the strides {list(strides)}; expected {3 * width} or more, 3, 1: whole pixels side by side, lines from "
                      "top to bottom")
    if not is_torch(found.owner):  # PyTorch knows where its memory is: what others say, the driver must know
        begin, end = found.address // 16 * 16, found.address + stride * (height - 1) + 3 * width
        try:
            model._lib.own("buffer", model._device, begin, end - begin, create="rvit_cuda_buffer_wrap")
        except RaggedVitError as error:
            raise RaggedVitError(Status(error.status), f"{name}: {error}") from None
    return DevicePicture(found.address, height, width, stride, None if is_torch(found.owner) else found.stream)


class DeviceBatch:
    """Pictures on the model's device, and the stream that they are used on."""

    def __init__(self, model: Model, images: Any, failures: Failures | None = None) -> None:
        """failures: where the errors of single pictures go; one pixel of another is in the place of each, unless all have failed and there are
        none."""
        if model.cuda_index < 0:
            raise invalid(f"pictures are on a CUDA device, the model on {model.device}; move one of them")
        self.model, self.spec = model, model.spec
        if not self.spec.on_device(model.info):
            raise RaggedVitError(Status.UNSUPPORTED, "the device does not prepare pictures for this model: a resize in float32, or patches of an "
                                 "odd size; bring them to the host")
        self.stream = _stream_of(model, images)
        arrays = _described(images, self.stream, failures)
        self.n, found = len(arrays), [one for one in arrays if one is not None]
        self.owners = [one.owner for one in found]
        self.tensors = next((one.owner.device for one in found if is_torch(one.owner)), None)  # of the results; None: arrays
        pictures = [None if one is None else attempt(number, failures, _picture, number, one, model) for number, one in enumerate(arrays)]
        good = next((picture for picture in pictures if picture is not None), None)
        self.pictures = [] if good is None else [good.pixel() if picture is None else picture for picture in pictures]
        if failures is not None:
            unfit = model._unfit(self.spec, tuple((picture.height, picture.width, 3) for picture in self.pictures))
            add(failures, unfit)
            self.pictures = [picture.pixel() if number in unfit else picture for number, picture in enumerate(self.pictures)]
        self.shapes = tuple((picture.height, picture.width, 3) for picture in self.pictures)

    def classify(self, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None = None) -> Result[Any]:
        """What Model.classify gives, in arrays of the host; it waits for the results."""
        model, n = self.model, len(self.pictures)
        lib = model._lib
        size = sum(height * width * 3 for height, width, _ in self.shapes)
        try:
            # The region has the table and the weights of the resize: the pictures' bytes lie elsewhere.
            room = model._room(self.spec, self.shapes) - size
        except RaggedVitError as error:
            raise named(error, 0) from None
        session = model._sessions.get(policy, n, outputs, lambda: model._stream(self.stream), (self.stream, "device pictures"), self.spec, room,
                                      size + 64 * n)
        with session.lock:
            assert session.feed is not None and session.pixels is not None
            table, starts = session.feed.lend(lib, model.info, self.spec, self.shapes, session.pixels)
            masked = model._mask(mask, policy, session, n)
            run = session.run
            run.n_images, run.pictures, run.keep = n, table.ctypes.data, None if masked is None else masked.ctypes.data
            logits = np.empty((n, model.info.n_classes), np.float32) if model.info.n_classes else None
            try:
                self.copy(session.pixels, starts)
                model._run(session.handle, session.pointer, n, logits, failures, "picture")
            except RaggedVitError as error:
                lib.raw.rvit_stream_synchronize(model._stream(self.stream))  # nothing reads the caller's memory any more
                raise named(error, 0) from None
            return of_session(lib, model.info, session.handle, logits, n, outputs, failed=failures)

    def copy(self, pixels: Handle, starts: list[int], user: int | None = None) -> None:
        """Enqueues the copies to `starts` in memory of the device, behind what the pictures' own streams do. user: a stream that goes on behind
        them; None: it is the same."""
        lib, found = self.model._lib, ctypes.c_uint64()
        lib.rvit_cuda_buffer_address(pixels, ctypes.byref(found))
        own, address = self.stream or LEGACY_STREAM, found.value
        with _current(lib.make("rvit_cuda_device_context", self.model._device)):
            for stream in {picture.stream or LEGACY_STREAM for picture in self.pictures if picture.stream is not None} - {own}:
                _wait(self.stream, stream)
            for to, source, lines, size, stride in _runs(self.pictures, starts):
                if lines == 1:
                    _call("cuMemcpyDtoDAsync_v2", address + to, source, size, self.stream)
                    continue
                copy = Copy2D(source_type=ON_DEVICE, source_device=source, source_pitch=stride, destination_type=ON_DEVICE,
                              destination_device=address + to, destination_pitch=size, width=size, height=lines)
                _call("cuMemcpy2DAsync_v2", ctypes.byref(copy), self.stream)
            if user is not None:
                _wait(user, self.stream)


def _runs(pictures: list[DevicePicture], starts: list[int]) -> Iterator[tuple[int, int, int, int, int]]:
    """Copies, (to, from, lines, bytes of a line, bytes between lines): one for pictures that follow one another on both sides."""
    to = source = size = 0
    for start, picture in zip(starts, pictures):
        line = 3 * picture.width
        whole = picture.stride == line or picture.height == 1
        if size and whole and to + size == start and source + size == picture.address:
            size += line * picture.height
            continue
        if size:
            yield to, source, 1, size, size
            size = 0
        if whole:
            to, source, size = start, picture.address, line * picture.height
        else:
            yield start, picture.address, picture.height, line, picture.stride
    if size:
        yield to, source, 1, size, size
