"""Prepares images for models: files and uint8 arrays of any size become float32 batches.

The batches equal those of timm's transform or transformers' processor, bit for bit.

    batch = raggedvit.images.prepare(model.recipe, ["cat.jpg", frame])  # float32 [2, 3, H, W]

Model.classify does this itself. Reading files needs Pillow (pip install "raggedvit[images]"); arrays need nothing.
"""

from __future__ import annotations

import concurrent.futures
import ctypes
import io
import math
import os
import sys
from dataclasses import dataclass
from typing import Any, Sequence, Union

import numpy as np
from numpy.typing import NDArray

from .._c import checks
from .._c.errors import RaggedVitError, Status, invalid
from .._c.info import name_of, named
from .._c.layouts import new
from .._c.library import library
from .._c.process import Threads

__all__ = ["RawImage", "Recipe", "decode", "load", "prepare"]

#: A file, or uint8 [height, width, 3], RGB. Pillow images are accepted too and treated like their files: reduced to the
#: upper 8 bits of 16, and rotated as getexif() says.
RawImage = Union[str, "os.PathLike[str]", NDArray[np.uint8]]

MOST_PIXELS = 200_000_000
MOST_TARGET = 1 << 14  # pixels per side
FLOATS = ctypes.POINTER(ctypes.c_float)
MOST_THREADS = 16
#: How Pillow rotates an image upright, by EXIF orientation (tools/cli/orientation.c has the command line tool's table).
ORIENTATION = 0x112
TURNS = {
    2: "FLIP_LEFT_RIGHT",
    3: "ROTATE_180",
    4: "FLIP_TOP_BOTTOM",
    5: "TRANSPOSE",
    6: "ROTATE_270",
    7: "TRANSVERSE",
    8: "ROTATE_90",
}
PIXEL: NDArray[np.uint8] = np.zeros((1, 1, 3), np.uint8)  # an image that works with every recipe
FITS, FILTERS, PROCESSORS = named("RVIT_FIT_"), named("RVIT_FILTER_"), named("RVIT_PROCESSOR_")

#: The threads that read and prepare images.
workers = Threads("raggedvit-image", MOST_THREADS)


@dataclass(frozen=True)
class Recipe:
    """How to turn an image into a model's input, as defined by the files beside the weights.

    dataclasses.replace makes another recipe.

    Attributes:
        height, width: Size of the model's input.
        mean, std: One value per channel, for pixel values from 0 to 1.
        resize: (height, width) before the crop. If both are equal, "crop" resizes the shorter edge to this length.
        fit: "crop" resizes until the image covers `resize`, and cuts out the centre. "squash" resizes both edges to
            `resize`, and cuts out the centre. "border" resizes until the image fits into `resize`, and fills the rest.
        filter: "bilinear" or "bicubic".
        processor: The code to reproduce: "timm" (Pillow 13), "hf" (transformers on torchvision), or "hf_float" (the
            same in float32, for "squash" without a crop).
        fill: Colour of the border.
        max_patches: For NaFlex models, above 0: classify runs each image at its own shape, with at most this number of
            patches. prepare, which makes batches of one shape, squashes images.
    """

    height: int
    width: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    resize: tuple[int, int]
    fit: str = "crop"
    filter: str = "bicubic"
    processor: str = "timm"
    fill: tuple[int, int, int] = (0, 0, 0)
    max_patches: int = 0

    @classmethod
    def of(cls, info: Any) -> Recipe:
        """Returns the recipe of a rvit_image_recipe.

        Raises:
            RaggedVitError: UNSUPPORTED if mean and std are unknown, or an image is prepared in an unknown way.
        """
        fit, filter, processor = (
            name_of(table, value)
            for table, value in ((FITS, info.fit), (FILTERS, info.filter), (PROCESSORS, info.processor))
        )
        if fit == "other" or filter not in ("bilinear", "bicubic"):
            raise RaggedVitError(
                Status.UNSUPPORTED,
                "the model's files ask for images to be prepared in a way that is not supported; set model.recipe",
            )
        if not info.std[0] > 0:
            raise RaggedVitError(
                Status.UNSUPPORTED,
                "no file next to the model has the mean and the standard deviation of its images; "
                "set model.recipe, or give normalised images",
            )
        size = (info.resize_height, info.resize_width)
        mean, std, fill = tuple(info.mean), tuple(info.std), tuple(info.fill)
        return cls(info.height, info.width, mean, std, size, fit, filter, processor, fill, info.max_patches)

    def __post_init__(self) -> None:
        for name, table in (
            ("fit", ("crop", "squash", "border")),
            ("filter", ("bilinear", "bicubic")),
            ("processor", ("timm", "hf", "hf_float")),
        ):
            checks.choice(name, getattr(self, name), dict.fromkeys(table, 0))
        for name in ("height", "width"):
            checks.integer(name, getattr(self, name), 1, MOST_TARGET)
        checks.integer("max_patches", self.max_patches, 0, 1 << 20)
        for size in self.resize:
            checks.integer("resize", size, 1, MOST_TARGET)
        if len(self.resize) != 2 or any(len(getattr(self, name)) != 3 for name in ("mean", "std", "fill")):
            raise invalid("a recipe has two sizes of resize, and three values of mean, std and fill")
        if not all(value > 0 for value in self.std) or not all(
            math.isfinite(value) for value in (*self.mean, *self.std)
        ):
            raise invalid(f"mean is {self.mean} and std {self.std}; expected numbers, those of std above 0")
        if self.processor == "hf_float" and (self.fit != "squash" or tuple(self.resize) != (self.height, self.width)):
            raise invalid("the processor hf_float resizes both edges, without a crop")

    def _struct(self) -> Any:
        """Returns the recipe as a rvit_image_recipe."""
        return new(
            "rvit_image_recipe",
            fit=FITS[self.fit],
            filter=FILTERS[self.filter],
            processor=PROCESSORS[self.processor],
            height=self.height,
            width=self.width,
            resize_height=self.resize[0],
            resize_width=self.resize[1],
            mean=self.mean,
            std=self.std,
            fill=self.fill,
        )

    def _refusal(self, height: int, width: int) -> RaggedVitError | None:
        """Returns why an image of this size cannot be prepared, or None if it can. The message has no image number."""
        image, geometry = new("rvit_image", height=height, width=width), new("rvit_image_geometry")
        recipe = self._struct()
        try:
            library().rvit_image_prepare(ctypes.byref(recipe), ctypes.byref(image), None, None, ctypes.byref(geometry))
        except RaggedVitError as error:
            return _unnumbered(error)
        return None


def _unnumbered(error: RaggedVitError) -> RaggedVitError:
    return RaggedVitError(error.status, str(error).removeprefix("image: "))


def load(path: str | os.PathLike[str]) -> NDArray[np.uint8]:
    """Returns the pixels of a file as viewers show it. Needs Pillow.

    The image is rotated upright as its EXIF data says, or else its XMP data. Grey, palettes and CMYK become RGB, alpha
    is dropped, and 16-bit values are reduced to their upper 8 bits. The first image of an animation is read.

    Args:
        path: An image file of a format that Pillow reads.

    Returns:
        uint8 [height, width, 3].

    Raises:
        RaggedVitError: BAD_FILE names the file. Float values, and integers beyond 16 bits, are refused, because their
            white level is unknown.
    """
    name = os.fsdecode(checks.path("path", path))
    return _read(name, f"{name}: ")


def decode(data: bytes | bytearray | memoryview) -> NDArray[np.uint8]:
    """Returns the pixels of an encoded image, as load does.

    Args:
        data: The bytes of an image file.

    Returns:
        uint8 [height, width, 3].

    Raises:
        RaggedVitError: As load.
    """
    return _read(io.BytesIO(data), "")


def _read(source: str | io.BytesIO, name: str) -> NDArray[np.uint8]:
    """Reads a file. name: the beginning of error messages."""
    try:
        from PIL import Image
    except ImportError as error:
        raise RaggedVitError(
            Status.UNAVAILABLE, 'reading image files needs Pillow: pip install "raggedvit[images]"'
        ) from error
    try:
        with Image.open(source) as file:
            return _of_pillow(file)
    except MemoryError:
        raise
    except Exception as error:
        raise RaggedVitError(Status.BAD_FILE, name + _why(error, bool(name))) from error


def _why(error: Exception, is_named: bool = False) -> str:
    """The message of an error of Pillow, whose plugins raise exceptions of many types."""
    if type(error).__name__ == "UnidentifiedImageError" and not is_named:  # Pillow's message would name a Python object
        return "cannot identify the format of the image"
    return str(error) if isinstance(error, (OSError, ValueError)) else f"{type(error).__name__}: {error}"


def _of_pillow(image: Any) -> NDArray[np.uint8]:
    """Returns the pixels of a Pillow image, just opened or made elsewhere."""
    from PIL import Image

    if not 0 < image.width * image.height <= MOST_PIXELS:
        raise ValueError(f"{image.width} x {image.height} pixels; {MOST_PIXELS} in all are handled")
    image.load()
    try:
        how = TURNS.get(image.getexif().get(ORIENTATION, 1))
    except MemoryError:
        raise
    except Exception:  # ignore damaged EXIF data; ImageOps.exif_transpose does so for some kinds of files
        how = None
    if how is not None:
        image = image.transpose(Image.Transpose[how])
    if image.mode.startswith("I"):  # grey of 16 bits, which convert would clip
        grey = np.asarray(image)
        if grey.size and not 0 <= grey.min() <= grey.max() <= 0xFFFF:
            raise ValueError(f"grey values from {grey.min()} to {grey.max()}; those of 16 bits are read, 0 to 65535")
        return np.repeat((grey >> 8).astype(np.uint8)[:, :, None], 3, axis=2)
    if image.mode == "F":
        raise ValueError("grey values in float32, and nothing tells which value is white; convert the image to mode L")
    return np.array(image.convert("RGB"))


def _is_pil(image: Any) -> bool:
    return isinstance(image, getattr(sys.modules.get("PIL.Image"), "Image", ()))


def _load_shared(images: Any) -> None:
    """Loads Pillow images that a batch contains more than once, because two threads must not load one concurrently."""
    seen: set[int] = set()
    for image in () if isinstance(images, np.ndarray) else filter(_is_pil, images):
        if id(image) in seen:
            try:
                image.load()
                image.getexif()
            except Exception:  # raised again by _pixels, with the number of the image
                pass
        seen.add(id(image))


def _pixels(number: int, image: Any) -> NDArray[np.uint8]:
    """Returns the pixels of image `number` of a batch."""
    if isinstance(image, (str, os.PathLike)):
        try:
            return load(image)
        except RaggedVitError as error:
            raise RaggedVitError(error.status, f"image {number}: {error}") from error
    if _is_pil(image):
        try:
            return _of_pillow(image)
        except MemoryError:
            raise
        except Exception as error:
            raise invalid(f"image {number}: {_why(error)}") from error
    found = np.asarray(image)
    if (
        found.dtype != np.uint8
        or found.ndim != 3
        or found.shape[2] != 3
        or 0 in found.shape
        or found.size > 3 * MOST_PIXELS
    ):
        raise invalid(
            f"image {number} is {found.dtype} {list(found.shape)}; expected a path, or uint8 [height, width, 3], RGB,"
            f" of at most {MOST_PIXELS} pixels"
        )
    return found


def prepare_one(pixels: NDArray[np.uint8], recipe: Recipe, out: NDArray[np.float32]) -> None:
    """Writes the model's input, float32 [3, H, W], for uint8 [height, width, 3]."""
    height, width, _ = pixels.shape
    if pixels.strides[1:] != (3, 1) or pixels.strides[0] < 3 * width:
        pixels = np.ascontiguousarray(pixels)
    image = new("rvit_image", data=pixels.ctypes.data, height=height, width=width, stride=pixels.strides[0])
    struct = recipe._struct()
    try:
        library().rvit_image_prepare(ctypes.byref(struct), ctypes.byref(image), None, out.ctypes.data_as(FLOATS), None)
    except RaggedVitError as error:
        raise _unnumbered(error) from None


def prepare(
    recipe: Recipe, images: Sequence[RawImage] | NDArray[np.uint8], failures: dict[int, RaggedVitError] | None = None
) -> NDArray[np.float32]:
    """Reads and prepares images on threads.

    Args:
        recipe: How to prepare them, for example model.recipe.
        images: Files and arrays of different sizes, or uint8 [n, height, width, 3].
        failures: A dict that receives the error of each image that cannot be prepared, by its number. The batch then
            leaves such images out.

    Returns:
        float32 [n, 3, height, width].

    Raises:
        RaggedVitError: Without `failures`: BAD_FILE or INVALID_ARGUMENT names the first image that cannot be prepared.
    """
    found: dict[int, RaggedVitError] | None = None if failures is None else {}
    out = prepare_all(recipe, images, found)
    if failures is None or not found:
        return out
    failures.update(found)
    return np.delete(out, list(found), axis=0)


def prepare_all(
    recipe: Recipe, images: Sequence[RawImage] | NDArray[np.uint8], failures: dict[int, RaggedVitError] | None
) -> NDArray[np.float32]:
    """As prepare, but images that cannot be prepared become zeros in the batch."""
    out = np.empty((len(images), 3, recipe.height, recipe.width), np.float32)

    def work(number: int) -> None:
        pixels = _pixels(number, images[number])
        try:
            prepare_one(pixels, recipe, out[number])
        except RaggedVitError as error:
            raise RaggedVitError(error.status, f"image {number}: {error}") from error

    _load_shared(images)
    done = [workers().submit(work, number) for number in range(len(images))]
    try:
        for number, one in enumerate(done):
            try:
                one.result()
            except RaggedVitError as error:
                if failures is None:
                    raise
                failures[number] = error
                out[number] = 0
    finally:  # from here on no thread writes to the batch
        for one in done:
            one.cancel()
        concurrent.futures.wait(done)
    return out


def read(
    images: Sequence[RawImage] | NDArray[np.uint8], failures: dict[int, RaggedVitError] | None = None
) -> list[NDArray[np.uint8]]:
    """Returns the pixels of each image; threads read files. With `failures` a failed image is a black pixel."""

    def pixels(number: int, image: Any) -> NDArray[np.uint8]:
        try:
            return _pixels(number, image)
        except RaggedVitError as error:
            if failures is None:
                raise
            failures[number] = error
            return PIXEL

    if not any(isinstance(one, (str, os.PathLike)) for one in images):
        return [pixels(number, one) for number, one in enumerate(images)]
    _load_shared(images)
    return list(workers().map(pixels, range(len(images)), images))


def are_raw(images: Any) -> bool:
    """Whether a batch has raw images (files, Pillow images and uint8 arrays) instead of normalised values."""
    if isinstance(images, np.ndarray):
        return images.dtype == np.uint8 and images.ndim == 4 and images.shape[3] == 3
    if not isinstance(images, (list, tuple)):
        return False
    return any(
        isinstance(one, (str, os.PathLike)) or (isinstance(one, np.ndarray) and one.dtype == np.uint8) or _is_pil(one)
        for one in images
    )
