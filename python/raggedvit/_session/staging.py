"""Raw images in the memory of a session: their layout, their descriptors, and the threads that copy them there.

The device resizes, crops and normalises them, with the bits of raggedvit.images."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import threading
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from .._arrays.core_loader import core, ready
from .._c import checks
from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status
from .._c.info import ModelInfo
from .._c.layouts import TYPES, new
from .._c.library import Handle, Library
from .._c.process import Threads, renews
from ..images import Recipe

IMAGE = np.dtype(TYPES["rvit_image"])
CHUNK = 1 << 20  # bytes that one thread copies at a time
MOST_TABLES = 64
ALIGNMENT = 64
MOST_SIDE = CONSTANTS["RVIT_IMAGE_MAX_SIDE"]
#: Image formats of the library, and the bytes of a pixel (for nv12, of its luma).
FORMATS = {
    "rgb": CONSTANTS["RVIT_IMAGE_RGB8"],
    "bgr": CONSTANTS["RVIT_IMAGE_BGR8"],
    "rgba": CONSTANTS["RVIT_IMAGE_RGBA8"],
    "gray": CONSTANTS["RVIT_IMAGE_GRAY8"],
    "nv12": CONSTANTS["RVIT_IMAGE_NV12"],
}
PIXEL_SIZES = {"rgb": 3, "bgr": 3, "rgba": 4, "gray": 1, "nv12": 1}

Shapes = tuple[tuple[int, ...], ...]

#: The threads that copy images to memory that the device reads.
copiers = Threads("raggedvit-copy", 8, others=1)


class Copies:
    """Copies batches to the same memory with several threads.

    If a signal handler raised, remaining copies end before the next batch begins.
    """

    def __init__(self) -> None:
        self._turn: object = None  # identifies the batch whose copies may begin
        self._forked()
        renews(self)

    def _forked(self) -> None:
        self._locks: list[threading.Lock] = []

    def begin(self, copy: Callable[..., None], pieces: Sequence[Any]) -> list[concurrent.futures.Future[None]]:
        self.end()
        self._locks, self._turn = [threading.Lock() for _ in pieces], (turn := object())

        def work(lock: threading.Lock, arguments: Any) -> None:
            with lock:
                if self._turn is turn:
                    copy(*arguments)

        return [copiers().submit(work, lock, piece) for lock, piece in zip(self._locks, pieces)]

    def end(self) -> None:
        """Waits until no thread writes to the memory."""
        self._turn = None
        for lock in self._locks:
            with lock:
                pass


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Spec(NamedTuple):
    """How a session prepares raw images. max_patches: if above 0, the maximum number of patches of an image's grid."""

    recipe: Recipe
    max_patches: int = 0

    def on_device(self, info: ModelInfo) -> bool:
        """Whether the device supports the recipe. It may still refuse an image or a session."""
        return self.recipe.processor != "hf_float" and info.channels == 3 and info.patch_size % 2 == 0


def grid_of(lib: Library, height: int, width: int, patch_size: int, max_patches: int) -> tuple[int, int]:
    """Returns the lines and columns of a patch grid by the size rule of NaFlex."""
    grid, recipe = (ctypes.c_int32 * 2)(), new("rvit_image_recipe", patch_size=patch_size, max_patches=max_patches)
    lib.rvit_image_recipe_grid(ctypes.byref(recipe), height, width, grid)
    return grid[0], grid[1]


def table_of(lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes) -> np.ndarray:
    """Returns descriptors of RGB images of these shapes, without addresses."""
    table = np.zeros(len(shapes), IMAGE)
    table["struct_size"] = IMAGE.itemsize
    table["height"], table["width"] = [shape[0] for shape in shapes], [shape[1] for shape in shapes]
    if spec.max_patches:
        grids = {shape: grid_of(lib, shape[0], shape[1], info.patch_size, spec.max_patches) for shape in set(shapes)}
        table["target_height"] = [info.patch_size * grids[shape][0] for shape in shapes]
        table["target_width"] = [info.patch_size * grids[shape][1] for shape in shapes]
    return table


def room_of(lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes) -> int:
    """Returns the bytes of images of these shapes and their resize weights, without the descriptors.

    The error names the image that cannot be resized.
    """
    n, size, recipe, table = len(shapes), ctypes.c_int64(), spec.recipe._struct(), table_of(lib, info, spec, shapes)
    args = new("rvit_images_args", n_images=n, max_images=n, max_rows=checks.INT32_MAX - 1, patch_size=info.patch_size)
    args.recipe, args.images = ctypes.addressof(recipe), table.ctypes.data
    lib.rvit_images_write(ctypes.byref(args), None, 0, ctypes.byref(size))
    return int(size.value) - int(lib.rvit_images_table_size(n)) + ALIGNMENT * (n + 1)


class StagingBuffer:
    """The memory of a session for raw images. It lives as long as anything refers to it."""

    def __init__(self, lib: Library, session: Handle) -> None:
        size = ctypes.c_int64()
        self.address: int = lib.rvit_session_input_memory(session, ctypes.byref(size))
        memory = (ctypes.c_uint8 * size.value).from_address(self.address)
        memory.owner = session  # type: ignore[attr-defined]
        self.memory: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.copies = Copies()
        self._tables: dict[Shapes, tuple[np.ndarray, list[NDArray[np.uint8]]]] = {}
        self._on_device: dict[Shapes, tuple[np.ndarray, list[int]]] = {}

    def plan(
        self, lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes
    ) -> tuple[np.ndarray, list[NDArray[np.uint8]]]:
        """Returns the descriptors of adjacent RGB images, and the arrays to write them to."""
        found = self._tables.get(shapes)
        if found is None:
            table = table_of(lib, info, spec, shapes)
            sizes = [rounded(shape[0] * shape[1] * 3) for shape in shapes]
            starts = [0, *itertools.accumulate(sizes)]
            table["data"] = [self.address + start for start in starts[:-1]]
            targets = [
                self.memory[start : start + shape[0] * shape[1] * 3].reshape(shape)
                for start, shape in zip(starts, shapes)
            ]
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            found = self._tables[shapes] = table, targets
        return found

    def plan_on_device(
        self, lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes, pixels: Handle
    ) -> tuple[np.ndarray, list[int]]:
        """Returns the descriptors of RGB images in a session's device memory, and their offsets there."""
        found = self._on_device.get(shapes)
        if found is None:
            table = table_of(lib, info, spec, shapes)
            starts = [0, *itertools.accumulate(rounded(shape[0] * shape[1] * 3) for shape in shapes)][:-1]
            table["view"]["buffer"], table["view"]["offset"] = pixels.pointer.value, starts
            if len(self._on_device) >= MOST_TABLES:
                self._on_device.clear()
            found = self._on_device[shapes] = table, starts
        return found


def _copy(pieces: list[tuple[np.ndarray, np.ndarray]]) -> None:
    for destination, source in pieces:
        np.copyto(destination, source)


def fill(copies: Copies, targets: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
    """Copies images, with several threads if there are many bytes."""
    copies.end()
    if core is not None and all(image.flags.c_contiguous for image in found):
        _gather(targets, found)
        return
    pieces = []
    for target, image in zip(targets, found):
        lines = max(1, CHUNK * len(target) // max(1, target.nbytes))
        pieces += [(target[i : i + lines], image[i : i + lines]) for i in range(0, len(target), lines)]
    total = sum(target.nbytes for target in targets)
    threads = min(1 + copiers.n, total // CHUNK)
    if threads < 2:
        _copy(pieces)
        return
    step = -(-len(pieces) // threads)
    try:
        done = copies.begin(_copy, [(pieces[i : i + step],) for i in range(step, len(pieces), step)])
        _copy(pieces[:step])
        for one in done:
            one.result()
    finally:
        copies.end()


def _gather(targets: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
    """As fill, with the threads of the compiled core, which do not hold the GIL."""
    _copy_in_pieces(
        (target.__array_interface__["data"][0], image.__array_interface__["data"][0], target.nbytes)
        for target, image in zip(targets, found)
    )


def _copy_in_pieces(copies: Iterable[tuple[int, int, int]]) -> None:
    """Copies memory in pieces. copies: destination, source and bytes of each."""
    pieces = [
        (to + at, source + at, min(CHUNK, size - at)) for to, source, size in copies for at in range(0, size, CHUNK)
    ]
    table = np.array(pieces, np.uint64)
    ready().gather(table.ctypes.data, len(table))


def copy_bytes(to: int, source: int, size: int) -> None:
    """Copies memory, with several threads if it is large, which also makes the first write to new memory faster."""
    if core is None or size < 4 * CHUNK:
        ctypes.memmove(to, source, size)
    else:
        _copy_in_pieces([(to, source, size)])


def named(error: RaggedVitError, first: int) -> RaggedVitError:
    """Returns an error of image i of a run as an error of image first + i of the caller's batch."""
    head, _, rest = str(error).partition(":")
    word, _, number = head.partition(" ")
    if word != "image" or not number.isdigit():
        return error
    return RaggedVitError(Status(error.status), f"image {first + int(number)}:{rest}")
