"""InputSlot: memory that the device reads, which callers decode images into."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from .._arrays.arrays import on_cuda
from .._c import checks
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, invalid
from .._c.layouts import new
from .._c.library import Handle
from .._c.process import renews
from .device_images import DeviceBatch
from .failures import Errors, Failures, add, of_run, wanted
from .model_type import Model
from .outputs import Outputs
from .policy import Policy
from .prepared import refuse_encoder
from .result import Result, copy_logits, noted, of_session
from .staging import FORMATS, IMAGE, MOST_SIDE, PIXEL_SIZES, StagingBuffer, grid_of, named, rounded


class InputSlot:
    """A recorded forward with memory for the images of one batch, which callers write to and the device reads.

    Model.prepare(inputs="slot") returns it. Images reach the device without a copy on the host. Fill one slot
    while another runs:

        slots = [model.prepare(inputs="slot", max_images=64, max_bytes=64 * 480 * 640 * 3) for _ in range(2)]

        def fill(slot):  # writes to a free slot; False: there are no more batches
            for jpeg in itertools.islice(jpegs, 64):
                decode(jpeg, out=slot.add(480, 640))
            return len(slot) > 0

        for result in raggedvit.double_buffer(slots, fill):
            ...

    It keeps the model alive. Only one thread may use a slot at a time, but several may write to the memory that add
    returned.
    """

    def __init__(
        self,
        model: Model,
        policy: Policy,
        *,
        max_images: int = 1,
        max_bytes: int = 1 << 24,
        device_bytes: int = 0,
        fixed_batch: bool = False,
        **outputs: Any,
    ) -> None:
        wanted_outputs = Outputs.of(model.info.depth, **outputs)
        refuse_encoder(model)
        max_images = checks.integer("max_images", max_images, 1, 1 << 20)
        max_bytes = checks.integer("max_bytes", max_bytes, 1, 1 << 32)
        device_bytes = checks.integer("device_bytes", device_bytes, 0, 1 << 36)
        fixed_batch = checks.flag("fixed_batch", fixed_batch)
        self._spec = spec = model._spec
        if not spec.on_device(model.info):
            raise invalid(
                "the model's recipe needs a resize in float32, which the device does not support; use classify"
            )
        if fixed_batch and spec.max_patches:
            raise invalid(
                "fixed_batch is True, but the model runs each image at its own shape, with any number of tokens"
            )
        if policy.name == "mask":
            raise invalid("the policy is 'mask', which is not supported with slots")
        if device_bytes and model.cuda_index < 0:
            raise invalid(f"device_bytes is {device_bytes}, but the model is on {model.device}, not on a CUDA device")
        self._lib, self._model, self._outputs = model._lib, model, wanted_outputs
        recipe = spec.recipe._struct()
        # Resize weights take a small fraction of the bytes of images, unless these are very thin.
        room = max_bytes + max_bytes // 8 + 16384 * max_images + self._lib.rvit_images_table_size(max_images)
        desc = new(
            "rvit_session_desc",
            max_images=max_images,
            input=CONSTANTS["RVIT_INPUT_IMAGES"],
            input_bytes=room,
            fixed_batch=int(fixed_batch),
        )
        self.stream = self._lib.own("stream", model._device, keeps=(model._device,))  # Model.update waits for it
        desc.recipe, desc.stream = ctypes.addressof(recipe), self.stream.pointer.value
        if spec.max_patches:
            desc.variable_resolution, desc.max_len = 1, model.info.n_prefix + spec.max_patches
        wanted_outputs.fill(desc)
        policy._fill(self._lib, desc)
        keeps: tuple[Any, ...] = (self.stream, model._handle)
        self._pixels: Handle | None = None  # memory of images on the device
        self._device_bytes = device_bytes
        if device_bytes:
            self._pixels = self._lib.own(
                "buffer", model._device, device_bytes, CONSTANTS["RVIT_BUFFER_DEVICE"], keeps=(model._device,)
            )
            desc.input_view.buffer, keeps = self._pixels.pointer, (*keeps, self._pixels)
        self._session = self._lib.own("session", model._handle, ctypes.byref(desc), keeps=keeps)
        model._slots.add(self)
        self._staging = StagingBuffer(self._lib, self._session)
        self._table = np.zeros(max_images, IMAGE)
        self._table["struct_size"] = IMAGE.itemsize
        self._grids: dict[tuple[int, int], tuple[int, int]] = {}
        self._run = new(
            "rvit_run_args", input={"kind": CONSTANTS["RVIT_INPUT_IMAGES"], "data": self._table.ctypes.data}
        )
        self._n = self._end = self._device_end = (
            0  # number of images; offsets of the next one, on the host and on the device
        )
        self._owners: list[Any] = []  # of memory that copies may still read
        self._pending = False
        self._enqueued = False  # start was not interrupted
        self._failures: Failures | None = None  # of the batch under way
        self._forked()
        renews(self)
        model._others.add(self)

    def _forked(self) -> None:
        """Creates the lock, also in a forked child, where no thread would release the parent's."""
        self.lock = threading.Lock()  # held while a batch is enqueued, which Model.update waits for

    @property
    def memory(self) -> NDArray[np.uint8]:
        """The whole memory, uint8 [bytes]; add returns parts of it. Do not touch it between start and finish."""
        return self._staging.memory

    @property
    def pending(self) -> bool:
        """Whether a batch was started and is not finished."""
        return self._pending

    def __len__(self) -> int:
        """The number of added images."""
        return self._n

    def add(self, height: int, width: int, format: str = "rgb") -> NDArray[np.uint8]:
        """Adds an image, and returns the memory to write it to before start.

        Args:
            height: Lines of the image.
            width: Columns of the image.
            format: "rgb", "bgr", "rgba", "gray" or "nv12" (BT.601, limited range, both sides even).

        Returns:
            uint8 [height, width, 3], for "rgba" [height, width, 4], for "gray" [height, width], for "nv12" [height +
            height / 2, width].

        Raises:
            RaggedVitError: INVALID_ARGUMENT if the slot is full, or its batch is under way.
        """
        kind, size = checks.choice("format", format, FORMATS), PIXEL_SIZES[format]
        height, width = checks.integer("height", height, 1, MOST_SIDE), checks.integer("width", width, 1, MOST_SIDE)
        if format == "nv12" and (height % 2 or width % 2):
            raise invalid(f"the image is nv12 {height} x {width}; expected an even height and width")
        if self._pending:
            raise invalid("the slot's batch is under way; finish it first")
        lines = height + height // 2 if format == "nv12" else height
        begin, end = self._end, self._end + lines * width * size
        if self._n == len(self._table) or end > len(self._staging.memory):
            raise invalid(
                f"the slot is full: image {self._n} of {len(self._table)}, {end} bytes of {len(self._staging.memory)}"
            )
        row = self._next(height, width)
        row["data"], row["format"], row["view"] = self._staging.address + begin, kind, (0, 0)
        self._end = rounded(end)
        shape = (lines, width) if size == 1 else (lines, width, size)
        return self._staging.memory[begin:end].reshape(shape)

    def add_device_image(self, image: Any) -> None:
        """Adds an image in the memory of the model's CUDA device.

        The device copies it to the slot's device memory, after the work on PyTorch's current stream for a tensor, or on
        the stream that an array names. A tensor may be reused immediately on that stream; do not change other arrays
        until finish.

        Args:
            image: uint8 [height, width, 3], as classify takes them.

        Raises:
            RaggedVitError: INVALID_ARGUMENT if the slot is full (device_bytes), or its batch is running.
        """
        if self._pending:
            raise invalid("the slot's batch is under way; finish it first")
        if self._pixels is None:
            raise invalid("the slot has no device memory; prepare(inputs='slot', device_bytes=...) reserves it")
        if not on_cuda(image):
            raise invalid("the image is in host memory; add returns memory to write it to")
        batch = DeviceBatch(self._model, [image])
        height, width, _ = batch.shapes[0]
        begin, end = self._device_end, self._device_end + 3 * height * width
        if self._n == len(self._table) or end > self._device_bytes:
            raise invalid(
                f"the slot is full: image {self._n} of {len(self._table)}, {end} bytes of {self._device_bytes} on the"
                " device"
            )
        user = int(self._lib.make("rvit_stream_handle", self.stream).value or 0)
        batch.copy(self._pixels, [begin], user)
        self._owners += batch.owners
        row = self._next(height, width)
        row["data"], row["format"], row["view"] = 0, FORMATS["rgb"], (self._pixels.pointer.value, begin)
        self._device_end = rounded(end)

    def _next(self, height: int, width: int) -> Any:
        """Returns the descriptor of the next image."""
        row = self._table[self._n]
        row["height"], row["width"] = height, width
        if self._spec.max_patches:
            info, key = self._model.info, (height, width)
            if key not in self._grids:
                self._grids[key] = grid_of(self._lib, height, width, info.patch_size, self._spec.max_patches)
            row["target_height"], row["target_width"] = (info.patch_size * side for side in self._grids[key])
        self._n += 1
        return row

    def start(self, errors: Errors = "raise") -> None:
        """Enqueues the batch, as one transfer and one dispatch. Nothing is copied or allocated, and nothing waits.

        Args:
            errors: As for Model.classify. With "return" an image that cannot be resized does not affect the others, and
                its error is in the Result of finish.
        """
        if self._pending:
            raise invalid("the slot's batch is under way; finish it first")
        self._failures, self._run.n_images = wanted(errors), self._n
        self._model._sessions.open()
        with self.lock:
            self._enqueued, self._pending = False, True
            try:
                self._lib.rvit_session_enqueue(self._session, ctypes.byref(self._run))
            except RaggedVitError as error:
                if self._failures is None or not self._without_unfit(self._failures):
                    self._pending = False
                    raise named(error, 0) from None
            self._enqueued = True

    def _without_unfit(self, failures: Failures) -> bool:
        """Enqueues the batch with a pixel in place of each image that cannot be resized; False if there is none."""
        shapes = tuple((int(row["height"]), int(row["width"]), 3) for row in self._table[: self._n])
        unfit, kept, n = self._model._unfit(self._spec, shapes), self._table.copy(), self._n
        try:
            for self._n in unfit:
                side = 2 if kept[self._n]["format"] == FORMATS["nv12"] else 1
                self._next(side, side)
            self._n = n
            add(failures, unfit)
            if unfit:
                self._lib.rvit_session_enqueue(self._session, ctypes.byref(self._run))
        finally:
            self._table[:], self._n = kept, n
        return bool(unfit)

    def finish(self) -> Result[NDArray[np.float32]]:
        """Waits for the batch, and returns what Model.classify returns.

        The images remain: start runs them again, clear removes them.
        """
        if not self._pending:
            raise invalid("no batch of the slot is under way; start it first")
        if not self._enqueued:
            raise invalid("the slot's start was interrupted; abandon it")
        failures = self._failures
        try:
            self._lib.rvit_session_wait(self._session)
            self._pending = False
        except RaggedVitError as error:
            self._pending = False
            if failures is None:
                raise named(error, 0) from None
            add(
                failures,
                {image: named(one, 0) for image, one in of_run(self._lib, self._session, self._n, error).items()},
            )
        logits = None
        if self._model.info.n_classes:
            logits = np.empty((self._n, self._model.info.n_classes), np.float32)
            copy_logits(self._lib, self._session, logits)
        return noted(
            of_session(self._lib, self._model.info, self._session, logits, self._n, self._outputs, failed=failures),
            failures,
        )

    def abandon(self) -> None:
        """Waits for a running batch, and drops its results and the images."""
        if self._pending:
            self._lib.raw.rvit_session_wait(self._session)
        self._pending = False
        self.clear()

    def clear(self) -> None:
        """Removes the images, so that their memory is free."""
        if self._pending:
            raise invalid("the slot's batch is under way; finish it first")
        if self._owners:
            self._lib.raw.rvit_stream_synchronize(self.stream)  # it waits for the copies
        self._n = self._end = self._device_end = 0
        self._owners.clear()


def double_buffer(
    slots: Sequence[InputSlot], fill: Callable[[InputSlot], Any], errors: Errors = "raise"
) -> Iterator[Result[NDArray[np.float32]]]:
    """Returns an iterator over the results of batches that are filled and run in turn.

    Args:
        slots: Two or more slots of one model.
        fill: A function that adds the images of the next batch to an empty slot and writes them. It returns whether
            there was a batch. It is called while the batches of the other slots run.
        errors: As for InputSlot.start.
    """
    busy: list[InputSlot] = []
    free = list(slots)
    try:
        while True:
            slot = free.pop(0) if free else None
            if slot is None:
                slot = busy.pop(0)
                result = slot.finish()
                slot.clear()
                free.append(slot)
                yield result
                continue
            slot.clear()
            if not fill(slot):
                break
            slot.start(errors)
            busy.append(slot)
        while busy:
            yield busy.pop(0).finish()
    finally:
        for slot in slots:
            slot.abandon()
