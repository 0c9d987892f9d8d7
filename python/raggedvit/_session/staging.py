"""Sessions that take pictures: where pictures lie in the memory of one, what a run is told of them, and threads that copy them there. The
device resizes, crops and normalises them, to the values of raggedvit.images bit for bit."""

from __future__ import annotations

import concurrent.futures
import ctypes
import itertools
import threading
from typing import Any, Callable, Iterable, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from .._c import checks
from .. import images as pictures
from .._c.constants import CONSTANTS
from .._arrays.core_loader import core, ready
from .._c.errors import Status, RaggedVitError
from .._c.info import ModelInfo
from .._c.layouts import TYPES, new
from .._c.library import Handle, Library
from .._c.process import Threads, renews

IMAGE = np.dtype(TYPES["rvit_image"])
CHUNK = 1 << 20  # bytes that one thread copies at a time
MOST_TABLES = 64
ALIGNMENT = 64
MOST_SIDE = CONSTANTS["RVIT_IMAGE_MAX_SIDE"]
#: Formats of pictures as the library has them, and the bytes of a pixel (of nv12 those of its luma).
FORMATS = {"rgb": CONSTANTS["RVIT_IMAGE_RGB8"], "bgr": CONSTANTS["RVIT_IMAGE_BGR8"], "rgba": CONSTANTS["RVIT_IMAGE_RGBA8"],
           "gray": CONSTANTS["RVIT_IMAGE_GRAY8"], "nv12": CONSTANTS["RVIT_IMAGE_NV12"]}
PIXEL_SIZES = {"rgb": 3, "bgr": 3, "rgba": 4, "gray": 1, "nv12": 1}

Shapes = tuple[tuple[int, ...], ...]

#: The threads that copy pictures and images to where the device reads them.
copiers = Threads("raggedvit-copy", 8, others=1)


class Copies:
    """Copies of one batch after another to the same memory, by several threads. Those that a signal's exception has left behind end before the
    next batch begins."""

    def __init__(self) -> None:
        self._turn: object = None  # of the batch whose copies may begin
        self.forked()
        renews(self)

    def forked(self) -> None:
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
        """Nobody writes to the memory any more."""
        self._turn = None
        for lock in self._locks:
            with lock:
                pass


def rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


class Spec(NamedTuple):
    """What a session does with pictures. max_patches: above 0: native resolution, each picture at a grid of its own of so many patches."""

    recipe: pictures.Recipe
    max_patches: int = 0

    def on_device(self, info: ModelInfo) -> bool:
        """Whether the device can prepare them as the recipe says; a picture or a session may still be refused."""
        return self.recipe.processor != "hf_float" and info.channels == 3 and info.patch_size % 2 == 0

    def struct(self) -> Any:
        r = self.recipe
        return new("rvit_image_recipe", fit=pictures.FITS[r.fit], filter=pictures.FILTERS[r.filter], processor=pictures.PROCESSORS[r.processor],
                   height=r.height, width=r.width, resize_height=r.resize[0], resize_width=r.resize[1], mean=r.mean, std=r.std, fill=r.fill)


def grid_of(lib: Library, height: int, width: int, patch_size: int, max_patches: int) -> tuple[int, int]:
    """NaFlex's: lines and columns of patches."""
    grid = (ctypes.c_int32 * 2)()
    lib.rvit_naflex_grid(height, width, patch_size, max_patches, grid)
    return grid[0], grid[1]


def table_of(lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes) -> np.ndarray:
    """What a run is told of RGB pictures of these shapes, but for where they lie."""
    table = np.zeros(len(shapes), IMAGE)
    table["struct_size"] = IMAGE.itemsize
    table["height"], table["width"] = [shape[0] for shape in shapes], [shape[1] for shape in shapes]
    if spec.max_patches:
        grids = {shape: grid_of(lib, shape[0], shape[1], info.patch_size, spec.max_patches) for shape in set(shapes)}
        table["target_height"] = [info.patch_size * grids[shape][0] for shape in shapes]
        table["target_width"] = [info.patch_size * grids[shape][1] for shape in shapes]
    return table


def room_of(lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes) -> int:
    """Bytes that pictures of these shapes take in a session's memory beside its table, and the weights of their resize. Names the picture
    that cannot be resized."""
    n, size, recipe, table = len(shapes), ctypes.c_int64(), spec.struct(), table_of(lib, info, spec, shapes)
    args = new("rvit_images_args", n_images=n, max_images=n, max_rows=checks.INT32_MAX - 1, patch_size=info.patch_size)
    args.recipe, args.images = ctypes.addressof(recipe), table.ctypes.data
    lib.rvit_images_write(ctypes.byref(args), None, 0, ctypes.byref(size))
    return int(size.value) - int(lib.rvit_images_table_size(n)) + ALIGNMENT * (n + 1)


class Feed:
    """The memory of a session for pictures, as long as anything refers to it."""

    def __init__(self, lib: Library, session: Handle) -> None:
        size = ctypes.c_int64()
        self.address: int = lib.rvit_session_picture_memory(session, ctypes.byref(size))
        memory = (ctypes.c_uint8 * size.value).from_address(self.address)
        memory.owner = session  # type: ignore[attr-defined]
        self.memory: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.copies = Copies()
        self._tables: dict[Shapes, tuple[np.ndarray, list[NDArray[np.uint8]]]] = {}
        self._lent: dict[Shapes, tuple[np.ndarray, list[int]]] = {}

    def plan(self, lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes) -> tuple[np.ndarray, list[NDArray[np.uint8]]]:
        """What a run is told of RGB pictures of these shapes, one behind another, and the places to write them to."""
        found = self._tables.get(shapes)
        if found is None:
            table = table_of(lib, info, spec, shapes)
            sizes = [rounded(shape[0] * shape[1] * 3) for shape in shapes]
            starts = [0, *itertools.accumulate(sizes)]
            table["data"] = [self.address + start for start in starts[:-1]]
            places = [self.memory[start : start + shape[0] * shape[1] * 3].reshape(shape) for start, shape in zip(starts, shapes)]
            if len(self._tables) >= MOST_TABLES:
                self._tables.clear()
            found = self._tables[shapes] = table, places
        return found

    def lend(self, lib: Library, info: ModelInfo, spec: Spec, shapes: Shapes, pixels: Handle) -> tuple[np.ndarray, list[int]]:
        """The same of pictures in a session's memory on the device, and where they begin there."""
        found = self._lent.get(shapes)
        if found is None:
            table = table_of(lib, info, spec, shapes)
            starts = [0, *itertools.accumulate(rounded(shape[0] * shape[1] * 3) for shape in shapes)][:-1]
            table["view"]["buffer"], table["view"]["offset"] = pixels.pointer.value, starts
            if len(self._lent) >= MOST_TABLES:
                self._lent.clear()
            found = self._lent[shapes] = table, starts
        return found


def _copy(pieces: list[tuple[np.ndarray, np.ndarray]]) -> None:
    for destination, source in pieces:
        np.copyto(destination, source)


def fill(copies: Copies, places: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
    """Copies pictures, several threads at a time where that pays."""
    copies.end()
    if core is not None and all(picture.flags.c_contiguous for picture in found):
        _gather(places, found)
        return
    pieces = []
    for place, picture in zip(places, found):
        lines = max(1, CHUNK * len(place) // max(1, place.nbytes))
        pieces += [(place[i : i + lines], picture[i : i + lines]) for i in range(0, len(place), lines)]
    total = sum(place.nbytes for place in places)
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


def _gather(places: Sequence[np.ndarray], found: Sequence[np.ndarray]) -> None:
    """The same by the compiled core's threads, which need no interpreter."""
    _copy_in_pieces((place.__array_interface__["data"][0], picture.__array_interface__["data"][0], place.nbytes)
                    for place, picture in zip(places, found))


def _copy_in_pieces(copies: Iterable[tuple[int, int, int]]) -> None:
    """copies: to, from and bytes of each."""
    pieces = [(to + at, source + at, min(CHUNK, size - at)) for to, source, size in copies for at in range(0, size, CHUNK)]
    table = np.array(pieces, np.uint64)
    ready().gather(table.ctypes.data, len(table))


def copy_bytes(to: int, source: int, size: int) -> None:
    """Copies memory, by several threads where it is much: they also touch for the first time what was never written."""
    if core is None or size < 4 * CHUNK:
        ctypes.memmove(to, source, size)
    else:
        _copy_in_pieces([(to, source, size)])


def named(error: RaggedVitError, first: int, what: str = "picture") -> RaggedVitError:
    """An error of image i of a run, as one of picture first + i of the caller's."""
    head, _, rest = str(error).partition(":")
    word, _, number = head.partition(" ")
    if word not in ("image", "picture") or not number.isdigit():
        return error
    return RaggedVitError(Status(error.status), f"{what} {first + int(number)}:{rest}")
