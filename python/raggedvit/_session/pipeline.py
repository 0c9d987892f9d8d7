"""Runs batches in host memory through two slots, so that one batch is copied while the previous one is computed.

Several threads copy raw images to the session's own memory, which the device reads. Normalised batches reach a CUDA
device through pinned staging memory: several threads fill it in chunks, and the device copies each chunk while the next
ones are filled."""

from __future__ import annotations

import collections
import ctypes
import itertools
import sys
from typing import Any, Generator, Iterable, Iterator

import numpy as np

from .._arrays.arrays import is_torch
from .._arrays.core_loader import core, ready
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status, invalid
from .._c.layouts import new
from .._c.library import Handle
from ..images import are_raw, prepare
from .device_images import are_on_device
from .failures import Failures, add, check, of_run, refusal
from .model_type import Model
from .outputs import LOGITS, Outputs
from .policy import Policy
from .prepared import as_float32, host_tensor, host_view, untraced
from .result import copy_logits
from .sessions import Session
from .staging import Copies, fill, named

CHUNK = 2 << 20  # bytes that one thread copies at a time
N_SLOTS = 2
PART = 16 << 20  # smallest part of a normalised batch, in bytes and in images
PART_IMAGES = 16
PART_RAW, MOST_RAW = 8 << 20, 128 << 20  # bytes of the smallest and about the largest part of a raw batch

#: Errors of a device that prepares images. After one of these the host prepares them.
HOST_HELPS = (Status.UNSUPPORTED, Status.OUT_OF_HOST_MEMORY, Status.OUT_OF_DEVICE_MEMORY)

_numbers = itertools.count()


class Slot:
    """A stream, memory for a batch on the host and on the device, and the running batch."""

    def __init__(self, model: Model) -> None:
        self.model, self.lib, self.number = model, model._lib, next(_numbers)
        self.stream = self.lib.own("stream", model._device, keeps=(model._device,))
        self.size = 0
        self.staging: Handle | None = None  # pinned
        self.images: Handle | None = None  # on the device
        self.logits: Handle | None = None  # pinned; the head writes there
        self.held: Any = None  # caller's memory that the device may be reading
        self.session: Any = None
        self.n = 0
        self.first = 0  # number of the slot's first image in the caller's batch
        self.in_session = False  # the batch's images and logits are in the session's own memory
        self.copies = Copies()  # to the staging memory
        self.under_way = False  # a batch was started, and neither finished nor abandoned
        self.copy = new("rvit_copy_args")
        self.run = new("rvit_run_args")

    def reserve(self, n: int) -> None:
        info = self.model.info
        image = 4 * info.channels * info.image_height * info.image_width
        if n * image <= self.size:
            return
        buffer, self.size = self.lib.own, 0
        self.staging = buffer(
            "buffer", self.model._device, n * image, CONSTANTS["RVIT_BUFFER_UPLOAD"], keeps=(self.model._device,)
        )
        self.images = buffer(
            "buffer", self.model._device, n * image, CONSTANTS["RVIT_BUFFER_DEVICE"], keeps=(self.model._device,)
        )
        self.logits = buffer(
            "buffer",
            self.model._device,
            max(16, 4 * n * info.n_classes),
            CONSTANTS["RVIT_BUFFER_READBACK"],
            keeps=(self.model._device,),
        )
        self.size = n * image
        self.copy.destination.buffer = self.run.input.view.buffer = self.images.pointer
        self.run.logits.buffer = self.logits.pointer if info.n_classes else None

    def start(
        self, images: np.ndarray, policy: Policy, outputs: Outputs = LOGITS, mask: Any = None, first: int = 0
    ) -> None:
        """Enqueues the copy of a batch and its forward."""
        if self.under_way:  # an exception of a signal handler interrupted it
            self.abandon()
        self.under_way = True
        self.n, self.first, self.held = len(images), first, None
        if isinstance(images, list):
            try:
                return self.start_raw(images, policy, outputs, mask)
            except RaggedVitError as error:
                if error.status not in HOST_HELPS or self.model._spec.max_patches:
                    raise named(error, first) from None
            try:
                images = prepare(self.model.recipe, images)
            except RaggedVitError as error:
                raise named(error, first) from None
        if self.model.cuda_index < 0:
            return self.start_in_session(images, policy, outputs, mask)
        n = self.n
        self.in_session = False
        self.reserve(n)
        self.session = self.model._sessions.get(policy, n, outputs, lambda: self.stream, ("host", self.number))
        masked, pinned = self.model._mask(mask, policy, self.session, n), self.pinned(images)
        self.held = (images, pinned, masked)
        if pinned is not None:
            self.upload(pinned, 0, images.nbytes)
        else:
            self.fill(images)
        self.run.n_images, self.run.keep = n, None if masked is None else masked.ctypes.data
        with self.session.lock:
            self.lib.rvit_session_enqueue(self.session.handle, ctypes.addressof(self.run))

    def start_raw(self, images: list[np.ndarray], policy: Policy, outputs: Outputs, mask: Any) -> None:
        """Copies raw images to the session's own memory, and enqueues their forward."""
        model, spec, shapes = self.model, self.model._spec, tuple(image.shape for image in images)
        room = model._room(spec, shapes)
        self.in_session, self.session = (
            True,
            model._sessions.get(policy, self.n, outputs, lambda: self.stream, ("raw", self.number), spec, room),
        )
        session = self.session
        with session.lock:
            table, places = session.staging.plan(self.lib, model.info, spec, shapes)
            fill(session.staging.copies, places, images)
            session.run.input.data = table.ctypes.data
            self.enqueue(session, model._mask(mask, policy, session, self.n))

    def start_in_session(self, images: np.ndarray, policy: Policy, outputs: Outputs, mask: Any) -> None:
        """Enqueues the forward of a batch that the session copies itself."""
        self.in_session, self.session = (
            True,
            self.model._sessions.get(policy, self.n, outputs, key=("host", self.number)),
        )
        images, session = as_float32(images), self.session
        with session.lock:
            session.run.input.data = images.ctypes.data
            self.enqueue(session, self.model._mask(mask, policy, session, self.n))

    def enqueue(self, session: Session, masked: Any) -> None:
        session.run.n_images, session.run.keep = self.n, None if masked is None else masked.ctypes.data
        self.lib.rvit_session_enqueue(session.handle, session.pointer)

    def pinned(self, images: np.ndarray) -> Handle | None:
        """Returns a batch in pinned memory as a buffer that the device copies from; None if it is not pinned."""
        if images.dtype != np.float32 or not images.flags.c_contiguous or images.ctypes.data % 16:
            return None
        try:
            return self.lib.wrap(self.model._device, images.ctypes.data, images.nbytes)
        except RaggedVitError as error:
            if error.status != Status.INVALID_ARGUMENT:
                raise
            return None

    def fill(self, images: np.ndarray) -> None:
        """Copies a batch to the staging memory in chunks, and enqueues the copy of each to the device."""
        assert self.staging is not None
        self.copies.end()
        address = self.lib.rvit_buffer_host(self.staging)
        if core is not None and images.dtype == np.float32 and images.flags.c_contiguous:
            assert self.images is not None
            ready().stage(
                self.stream.pointer.value,
                self.staging.pointer.value,
                self.images.pointer.value,
                address,
                images.ctypes.data,
                images.nbytes,
            )
            return
        memory: Any = (ctypes.c_char * self.size).from_address(address)
        memory.owner = self.staging
        staged = np.frombuffer(memory, np.float32)[: images.size].reshape(images.shape)
        image = staged[0].nbytes
        step = max(1, CHUNK // image)
        chunks = [(first, min(first + step, len(images))) for first in range(0, len(images), step)]
        try:
            if len(chunks) == 1:
                _copy(staged, images)
                self.upload(self.staging, 0, staged.nbytes)
                return
            try:
                done = self.copies.begin(_copy, [(staged[first:end], images[first:end]) for first, end in chunks])
                for (first, end), chunk in zip(chunks, done):
                    chunk.result()
                    self.upload(self.staging, first * image, (end - first) * image)
            finally:
                self.copies.end()
        except FloatingPointError as error:
            raise invalid("images have a value that float32 does not hold; expected normalised ones") from error

    def upload(self, source: Handle, at: int, size: int) -> None:
        self.copy.source.buffer, self.copy.size = source.pointer, size
        self.copy.source.offset = self.copy.destination.offset = at
        self.lib.rvit_copy(self.stream, ctypes.byref(self.copy))

    def finish(self, failures: Failures | None = None) -> np.ndarray:
        """Waits for the running batch, and returns its logits: [n, 0] without a head.

        failures: receives the errors of single images, by their numbers in the caller's batch.
        """
        try:
            with self.session.lock:
                self.lib.rvit_session_wait(self.session.handle)
        except RaggedVitError as error:
            if failures is None:
                raise named(error, self.first) from None
            found = of_run(self.lib, self.session.handle, self.n, error)
            add(failures, {self.first + image: named(one, self.first) for image, one in found.items()})
        self.held, self.under_way = None, False
        if self.in_session:
            return self.own_logits()
        assert self.logits is not None
        logits = np.empty((self.n, self.model.info.n_classes), np.float32)
        ctypes.memmove(logits.ctypes.data, self.lib.rvit_buffer_host(self.logits), logits.nbytes)
        check(logits, self.model.dtype, failures, self.first)
        return logits

    def own_logits(self) -> np.ndarray:
        """Copies the logits out of the session's own memory."""
        logits = np.empty((self.n, self.model.info.n_classes), np.float32)
        copy_logits(self.lib, self.session.handle, logits)
        return logits

    def abandon(self) -> None:
        """Waits for all enqueued work after a failure, and ignores its errors."""
        if self.session is not None:
            with self.session.lock:
                self.lib.raw.rvit_session_wait(self.session.handle)
        self.lib.raw.rvit_stream_synchronize(self.stream)
        self.held, self.under_way = None, False


def _copy(destination: np.ndarray, source: np.ndarray) -> None:
    with np.errstate(over="raise"):
        np.copyto(destination, source, casting="same_kind")


def n_parts_of(images: Any) -> int:
    """Returns the number of parts into which to split a batch so that two slots run it fastest."""
    if not isinstance(images, list):
        return min(4 * images.size // PART, len(images) // PART_IMAGES)
    size, parts = sum(image.nbytes for image in images), 1
    while 2 * parts <= min(size // PART_RAW, len(images) // PART_IMAGES) or (
        size > parts * MOST_RAW and parts < len(images)
    ):
        parts *= 2
    return min(parts, len(images))


class Pipeline:
    """Slots that are used in turn. One caller at a time takes a pipeline from the model, and returns it."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.slots = [Slot(model) for _ in range(N_SLOTS)]

    def parts(
        self, images: Any, policy: Policy, outputs: Outputs = LOGITS, mask: Any = None, failures: Failures | None = None
    ) -> Generator[tuple[np.ndarray, Session], None, None]:
        """Yields the logits of each part of a batch, in order, and its session, while the next part runs.

        The session has the other results of the part until the next one is requested. failures: as for Slot.finish.
        """
        n_parts = n_parts_of(images)
        if mask is not None or n_parts < 2 or self.model._sessions.most < N_SLOTS:
            n_parts = 1
        size, busy = -(-len(images) // n_parts), collections.deque[Slot]()
        try:
            for number, first in enumerate(range(0, len(images), size)):
                if len(busy) == N_SLOTS:
                    yield busy[0].finish(failures), busy.popleft().session
                slot = self.slots[number % N_SLOTS]
                busy.append(slot)
                slot.start(images[first : first + size], policy, outputs, mask, first)
            while busy:
                yield busy[0].finish(failures), busy.popleft().session
        except BaseException:
            for slot in self.slots:
                slot.abandon()
            raise

    def taken(self, batch: Any, failures: Failures | None = None) -> Any:
        """Returns the caller's batch in the form that slots take: a normalised array, or a list of raw images."""
        batch = untraced(batch)
        if are_on_device(batch):
            raise invalid(
                "a batch of images is on a CUDA device, where map copies nothing; give it to the model or to classify"
            )
        if are_raw(batch):
            return self.model._read_images(batch, failures)
        return host_view(self.model, host_tensor(self.model, batch) if is_torch(batch) else batch)

    def run(self, batches: Iterable[Any], policy: Policy, errors_return: bool = False) -> Iterator[Any]:
        """Yields the logits of each batch, in order, while the next batch runs.

        errors_return: yields Results instead; if a batch is refused as a whole, its Result has only logits and errors.
        """
        free = collections.deque(self.slots)
        busy: collections.deque[tuple[Slot | None, Any, Failures | None]] = collections.deque()

        def result() -> Any:
            slot, batch, failures = busy.popleft()
            if slot is None:
                logits = np.full((len(failures or ()), self.model.info.n_classes), np.nan, np.float32)
            else:
                logits = slot.finish(failures)
                free.append(slot)
            if failures is not None:
                return self.model._of_map(None if slot is None else slot.session, logits, batch, failures)
            return sys.modules["torch"].from_numpy(logits) if is_torch(batch) else logits

        try:
            for batch in batches:
                failures: Failures | None = {} if errors_return else None
                images: Any = ()
                self.model._sessions.open()
                with refusal(batch, failures):
                    images = self.taken(batch, failures)
                # the batch before last is (almost) done; the last one is computed while this one is copied
                while not free:
                    yield result()
                started = None
                if len(images):
                    slot = free.popleft()
                    with refusal(batch, failures):
                        slot.start(images, policy)
                        started = slot
                    if started is None:
                        slot.abandon()
                        free.append(slot)
                busy.append((started, batch, failures))
            while busy:
                yield result()
        finally:
            for slot in self.slots:
                slot.abandon()
