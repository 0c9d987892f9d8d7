"""Runs many images through a model under Ray.

Classifier is for Dataset.map_batches of Ray Data and for deployments of Ray Serve; decode is a stage for decoding only.

    ds = ray.data.read_binary_files("photos", include_paths=True)
    ds = ds.map_batches(
        raggedvit.ray.Classifier, batch_size=256, num_gpus=1, num_cpus=8, compute=ray.data.ActorPoolStrategy(size=2),
        fn_constructor_kwargs=dict(path="model.safetensors", column="bytes", policy=raggedvit.Policy("l2", keep=0.5)))
    ds.write_parquet("labels")

This module does not import Ray, Pillow or PyTorch. Encoded images and files need Pillow.
"""

from __future__ import annotations

import collections
import concurrent.futures
import dataclasses
import inspect
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Mapping, NamedTuple, Sequence

import numpy as np
from numpy.typing import NDArray

from . import images
from ._c import checks
from ._c.errors import RaggedVitError, Status, invalid
from ._c.info import device_of, precision_of
from ._c.process import usable_processors, watch_forks
from ._session.policy import Policy
from ._session.result import Result
from .model import Model

if TYPE_CHECKING:
    import torch

__all__ = ["Classifier", "decode"]

Array = NDArray[Any]
Batch = dict[str, Any]


class _Output(NamedTuple):
    """An output: the arguments of classify that it needs, and its columns with the values for failed images."""

    asks: dict[str, bool]
    columns: dict[str, Any]


OUTPUTS = {
    "class": _Output({}, {"class": -1}),
    "label": _Output({}, {"label": ""}),
    "score": _Output({}, {"score": np.nan}),
    "top": _Output({}, {"top_classes": -1, "top_scores": np.nan}),
    "logits": _Output({}, {"logits": np.nan}),
    "pooled": _Output({"pooled": True}, {"pooled": np.nan}),
    "embedding": _Output({"projected": True, "normalized": True}, {"embedding": np.nan}),
    "tokens": _Output({}, {"tokens": 0}),
    "mask": _Output({}, {"mask": 0}),
}
OF_HEAD = ("class", "label", "score", "top", "logits")

#: Errors of single images. All others are errors of the model or the device.
OF_IMAGES = (Status.INVALID_ARGUMENT, Status.UNSUPPORTED, Status.BAD_FILE)

_opening = threading.Lock()


def _forked() -> None:
    global _opening
    _opening = threading.Lock()


watch_forks(_forked)


@dataclass
class _Opened:
    """What each process opens for itself."""

    process: int
    model: Model
    pool: concurrent.futures.ThreadPoolExecutor
    names: list[str] | None
    row: dict[str, Array]  # the columns of one image, for their types and widths


class Classifier:
    """Classifies the images of a Ray batch, a dict of columns, and returns a batch.

    It drops the column of images and passes all other columns through. Results of several actors arrive in any order,
    so keep an id or a path. An image that cannot be read or run gets an error message in the column "error", which is
    "" for all others. It does not affect the others.

    The object can be pickled and copied. The first call in each process, including forked children, opens the model on
    the worker's machine, so `path` must be valid there. It records one session of `capacity` images, which runs batches
    of any size. The session is recorded again, with twice the memory, if images need more.

    Args:
        path: As for Model.
        column: The column of images: encoded JPEG, PNG, ... (bytes), names of files (strings), or uint8 arrays [height,
            width, 3], RGB, of any sizes; or one uint8 array [n, height, width, 3].
        outputs: The columns to return:

            * class: int64, the best class; -1 for a failed image. The other columns have "", NaN or 0 for it.
            * label: The name of the class from the checkpoint's metadata or `labels`; else its number, as text.
            * score: float32, its softmax.
            * top: top_classes int64 [top_k] and top_scores float32 [top_k], best first.
            * logits: float32 [n_classes].
            * pooled: float32 [width], the input of the head.
            * embedding: float32 [embedding_dim], the projection (CLIP, SigLIP), divided by its L2 norm.
            * tokens: int32, the number of tokens after the last prune stage.
            * mask: uint8 [tokens of an image], 1 for these tokens; only for models with a fixed image size.
        top_k: Number of classes in "top".
        prefix: Put before the names of these columns, and of "error".
        policy: As for Model.classify, but not "mask".
        recipe: How images are prepared: a raggedvit.images.Recipe, or a dict of fields that differ from model.recipe.
        labels: Names of the classes.
        capacity: Number of images that run at once. Larger batches are split, and the images of later parts are decoded
            meanwhile.
        device: As for Model; "cuda" is the first GPU that CUDA_VISIBLE_DEVICES shows. None: "cuda" if Ray has
            assigned a GPU to the worker, else "cpu" (because a worker without a GPU sees those of others); without Ray,
            "auto".
        dtype: As for Model.
        n_threads: Threads of the CPU backend; None: the number of CPUs that Ray has assigned to the worker
            (OMP_NUM_THREADS is not read), or all CPUs without Ray.
        decode_threads: Threads that decode; None: the same number, at most 16.
        options: Further arguments of Model, for example {"image_size": 384}.

    Raises:
        RaggedVitError: INVALID_ARGUMENT for wrong arguments, and for a batch without that column, with a column of
            another type, or with a column that an output would overwrite. The first call raises the errors of Model,
            and UNSUPPORTED for outputs that the model does not have. Errors of the device (DEVICE_LOST,
            OUT_OF_DEVICE_MEMORY, ...) are raised, because no image caused them.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        column: str = "image",
        outputs: Sequence[str] = ("class", "label", "score"),
        top_k: int = 5,
        prefix: str = "",
        policy: str | Policy = "none",
        recipe: images.Recipe | Mapping[str, Any] | None = None,
        labels: Sequence[str] | None = None,
        capacity: int = 64,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype = "f32",
        n_threads: int | None = None,
        decode_threads: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        optional, integer = checks.optional, checks.integer
        self.path = os.fsdecode(checks.path("path", path))
        self.column, self.prefix = checks.text("column", column), checks.text("prefix", prefix)
        table = dict.fromkeys(OUTPUTS, 0)
        self.outputs = tuple(
            checks.entries("outputs", outputs, len(OUTPUTS), lambda name, value: _choice(name, value, table))
        )
        self.top_k = integer("top_k", top_k, 1, 1 << 20)
        self.policy = Policy.of(policy)
        if self.policy.name == "mask":
            raise invalid("policy is 'mask', for which each call needs a mask; use Model.classify")
        fields = [field.name for field in dataclasses.fields(images.Recipe)]
        self.recipe = (
            recipe if recipe is None or isinstance(recipe, images.Recipe) else _named("recipe", recipe, fields)
        )
        self.labels = None if labels is None else checks.entries("labels", labels, 1 << 20, checks.text)
        self.capacity = integer("capacity", capacity, 1, 1 << 16)
        optional(device_of, "device", device)
        self.device = None if device is None else str(device)
        self.dtype = precision_of("dtype", dtype)
        self.n_threads = optional(integer, "n_threads", n_threads, 0, 1 << 16)
        self.decode_threads = optional(integer, "decode_threads", decode_threads, 1, 1 << 10)
        own = ("self", "path", "device", "dtype", "n_threads", "max_batch", "policy")
        self.options = _named(
            "options", options, [name for name in inspect.signature(Model).parameters if name not in own]
        )
        self._opened: _Opened | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    def __repr__(self) -> str:
        return f"<raggedvit.ray.Classifier of {self.path}>"

    @property
    def model(self) -> Model:
        """The model of this process; opened on first use."""
        return self._open().model

    def __call__(self, batch: Batch) -> Batch:
        found, errors = _images_of(batch, self.column, self.prefix)
        opened = self._open()
        n, out = len(found), _others(batch, self.column, self.prefix, list(opened.row))
        columns = {name: np.full((n, *one.shape[1:]), _failed(name), one.dtype) for name, one in opened.row.items()}
        # Threads decode; arrays need no thread.
        reading: collections.deque[tuple[int, Any]] = collections.deque(
            (i, found[i] if isinstance(found[i], np.ndarray) else opened.pool.submit(_pixels, found[i]))
            for i in range(n)
            if not errors[i]
        )
        try:
            while reading:
                part: dict[int, Array] = {}
                while reading and len(part) < self.capacity:
                    i, one = reading.popleft()
                    try:
                        part[i] = _pixels(one) if isinstance(one, np.ndarray) else one.result()
                    except RaggedVitError as error:
                        errors[i] = _message(error)
                self._part(opened, part, columns, errors)
        finally:
            for _, one in reading:
                if not isinstance(one, np.ndarray):
                    one.cancel()
        out.update({self.prefix + name: column for name, column in columns.items()})
        out[self.prefix + "error"] = _objects(errors)
        return out

    def rows(self, images: Sequence[Any]) -> list[dict[str, Any]]:
        """Classifies images and returns a dict of plain Python values for each.

        Args:
            images: Encoded images, names of files, or uint8 arrays.

        Returns:
            The outputs of each image, or only {"error": message} for an image that failed.
        """
        out = self({self.column: list(images)})
        errors = out.pop(self.prefix + "error")
        return [
            (
                {self.prefix + "error": errors[i]}
                if errors[i]
                else {name: value[i] if isinstance(value[i], str) else value[i].tolist() for name, value in out.items()}
            )
            for i in range(len(images))
        ]

    def _open(self) -> _Opened:
        opened = self._opened
        if opened is not None and opened.process == os.getpid():
            return opened
        with _opening:
            if self._opened is None or self._opened.process != os.getpid():
                self._opened = self._made()
            return self._opened

    def _made(self) -> _Opened:
        cpus, gpus = _assigned()
        device = self.device or ("auto" if gpus is None else "cuda" if gpus else "cpu")
        device = "cuda:0" if device == "cuda" else device  # of those that CUDA_VISIBLE_DEVICES shows
        usable = usable_processors() if cpus is None else cpus
        n_threads = self.n_threads if self.n_threads is not None else 0 if cpus is None else cpus
        model = Model(self.path, device, self.dtype, n_threads=n_threads, max_batch=self.capacity, **self.options)
        if isinstance(self.recipe, images.Recipe):
            model.recipe = self.recipe
        elif self.recipe is not None:
            model.recipe = dataclasses.replace(model.recipe, **self.recipe)
        info, recipe = model.info, model.recipe
        names = self.labels or model.class_names
        for name in self.outputs:
            if name in OF_HEAD and not info.n_classes:
                raise RaggedVitError(
                    Status.UNSUPPORTED, f"outputs has {name!r}, but the model has no head; it has 'pooled'"
                )
            if name in ("tokens", "mask") and recipe.max_patches and (name == "mask" or self.policy.name == "none"):
                raise RaggedVitError(
                    Status.UNSUPPORTED,
                    f"outputs has {name!r}, but images run at their own shape, with any number of tokens"
                    + (", and nothing is pruned" if name == "tokens" else ""),
                )
        if "top" in self.outputs and self.top_k > info.n_classes:
            raise invalid(f"top_k is {self.top_k}, but the model has {info.n_classes} classes")
        if self.labels is not None and len(self.labels) != info.n_classes:
            raise invalid(f"labels has {len(self.labels)} names, but the model has {info.n_classes} classes")
        pool = concurrent.futures.ThreadPoolExecutor(
            self.decode_threads or min(images.MOST_THREADS, usable), "raggedvit-decode"
        )
        opened = _Opened(os.getpid(), model, pool, names, {})
        # Running one image records the session and shows the columns and their types.
        noise = np.random.default_rng(0).integers(0, 256, (recipe.height, recipe.width, 3), np.uint8)
        opened.row = self._columns(opened, self._classified(opened, [noise], "raise"), 1)
        return opened

    def _classified(self, opened: _Opened, images: list[Array], errors: Literal["raise", "return"]) -> Result[Any]:
        asks: dict[str, Any] = {ask: value for name in self.outputs for ask, value in OUTPUTS[name].asks.items()}
        result: Result[Any] = opened.model.classify(images, self.policy, **asks, errors=errors)
        return result

    def _part(self, opened: _Opened, part: dict[int, Array], columns: dict[str, Array], errors: list[str]) -> None:
        """Runs the images of `part`, by row number, and writes their outputs into these rows."""
        if not part:
            return
        result = self._classified(opened, list(part.values()), "return")
        found = self._columns(opened, result, len(part))
        good = np.ones(len(part), bool)
        good[list(result.errors)] = False
        rows = np.fromiter(part, np.intp, len(part))
        for name, values in found.items():
            columns[name][rows[good]] = values[good]
        for j, error in result.errors.items():
            errors[rows[j]] = str(error).removeprefix(f"image {j}: ")

    def _columns(self, opened: _Opened, result: Result[Any], n: int) -> dict[str, Array]:
        """Returns the columns of n images."""
        info, found = opened.model.info, dict[str, Any]()
        if any(name in OF_HEAD for name in self.outputs):
            logits: Any = result.logits
            best = _best(logits, self.top_k if "top" in self.outputs else 1)
            found.update({"class": best[:, 0], "logits": logits, "top_classes": best})
            if "label" in self.outputs:
                names = opened.names
                found["label"] = _objects([str(i) if names is None else names[i] for i in best[:, 0].tolist()])
            if "score" in self.outputs or "top" in self.outputs:
                with np.errstate(invalid="ignore"):  # images that failed
                    powers = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
                    scores = np.take_along_axis(powers, best, 1) / powers.sum(1, keepdims=True)
                found["top_scores"] = scores.astype(np.float32)
                found["score"] = found["top_scores"][:, 0]
        if "pooled" in self.outputs:
            found["pooled"] = result.pooled
        if "embedding" in self.outputs:
            found["embedding"] = result.projected
        if "tokens" in self.outputs:
            found["tokens"] = np.diff(result.cu_seqlens[-1]) if result.cu_seqlens else np.full(n, info.tokens, np.int32)
        if "mask" in self.outputs:
            found["mask"] = np.full((n, info.tokens), not result.kept, np.uint8)
            for line, kept in zip(found["mask"], result.kept[-1] if result.kept else ()):
                line[kept[kept >= 0]] = 1
        return {name: found[name] for output in self.outputs for name in OUTPUTS[output].columns}


def _best(logits: Array, k: int) -> Array:
    """Returns the classes of the k largest logits of each row, int64 [n, k], the largest first."""
    if k == 1:
        return np.expand_dims(logits.argmax(1), 1)
    some = np.sort(np.argpartition(-logits, k - 1, axis=1)[:, :k], axis=1)
    order = np.argsort(-np.take_along_axis(logits, some, 1), axis=1, kind="stable")
    return np.take_along_axis(some, order, 1)


def decode(batch: Batch, column: str = "image", prefix: str = "") -> Batch:
    """Decodes a column of images, as a stage of map_batches before a Classifier on GPUs.

    Args:
        batch: A batch of Ray, a dict of columns.
        column: The column of encoded images or of names of files.
        prefix: Put before the name of the column "error".

    Returns:
        The batch with uint8 arrays [height, width, 3] in that column, and a column "error". An image that cannot be
        read becomes an array [0, 0, 3] and has its message in "error". A Classifier with the same prefix skips such
        rows and keeps their messages.
    """
    found, errors = _images_of(batch, checks.text("column", column), checks.text("prefix", prefix))
    out = _others(batch, column, prefix, [])
    pixels = [np.zeros((0, 0, 3), np.uint8)] * len(found)
    for i, image in enumerate(found):
        try:
            pixels[i] = pixels[i] if errors[i] else _pixels(image)
        except RaggedVitError as error:
            errors[i] = _message(error)
    return {**out, column: _objects(pixels), prefix + "error": _objects(errors)}


def _assigned() -> tuple[int | None, float | None]:
    """Returns the CPUs (at least 1) and GPUs that Ray has assigned to this worker; (None, None) outside a worker."""
    ray: Any = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None, None
    try:
        found = ray.get_runtime_context().get_assigned_resources()
    except AssertionError:  # this is the driver
        return None, None
    return max(1, int(found.get("CPU", 0))), found.get("GPU", 0)


def _choice(argument: str, value: Any, table: dict[str, int]) -> str:
    checks.choice(argument, value, table)
    return str(value)


def _named(argument: str, value: Any, names: Sequence[str]) -> dict[str, Any]:
    """Checks a dict of options whose keys must be among these names."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise invalid(f"{argument} is {checks.shown(value)}; expected a dict")
    for name in value:
        if name not in names:
            raise invalid(f"{argument} has {checks.shown(name)}; expected names of {', '.join(names)}")
    return dict(value)


def _failed(column: str) -> Any:
    return next(output.columns[column] for output in OUTPUTS.values() if column in output.columns)


def _objects(values: Sequence[Any]) -> Array:
    """Returns an array of objects. numpy.array would stack arrays of one shape."""
    out = np.empty(len(values), object)
    for i, value in enumerate(values):
        out[i] = value
    return out


def _images_of(batch: Any, column: str, prefix: str) -> tuple[Any, list[str]]:
    """Returns the images of a batch, and the error message of each that an earlier stage could not read."""
    if not isinstance(batch, dict):
        raise invalid(
            f'the batch is a {type(batch).__name__}; expected a dict of columns (map_batches\' batch_format="numpy")'
        )
    if column not in batch:
        there = ", ".join(map(repr, batch)) or "none at all"
        raise invalid(f"the batch has no column {column!r}, but {there}; the argument column names it")
    found = batch[column]
    encoded = not isinstance(found, np.ndarray) or found.dtype.kind in "OSU" or not len(found)
    if not encoded and (found.dtype != np.uint8 or found.ndim != 4 or found.shape[3] != 3):
        raise invalid(
            f"column {column!r} is {found.dtype} {list(found.shape)}; expected encoded images (bytes), names of files,"
            " or uint8 [height, width, 3], RGB"
        )
    if not isinstance(found, (np.ndarray, list, tuple)):
        raise invalid(f"column {column!r} is a {type(found).__name__}; expected an array or a list")
    earlier = batch.get(prefix + "error")
    if earlier is None:
        return found, [""] * len(found)
    if len(earlier) != len(found) or not all(one is None or isinstance(one, str) for one in earlier):
        raise invalid(
            f"the batch has a column {prefix + 'error'!r} that is not decode's, and the results would overwrite it;"
            " give a prefix"
        )
    return found, [one or "" for one in earlier]


def _others(batch: Batch, column: str, prefix: str, added: Sequence[str]) -> Batch:
    """Returns all other columns. None of them may have the name of an added column."""
    out = {name: value for name, value in batch.items() if name not in (column, prefix + "error")}
    for name in added:
        if prefix + name in out:
            raise invalid(f"the batch has a column {prefix + name!r}, which the results would overwrite; give a prefix")
    return out


def _pixels(image: Any) -> NDArray[np.uint8]:
    """Returns the pixels of one element of a column."""
    try:
        if isinstance(image, (bytes, bytearray, memoryview)):
            return images.decode(image)
        if isinstance(image, (str, os.PathLike)):
            return images.load(image)
    except MemoryError:
        raise invalid("the image takes more memory than there is") from None
    if image is None:
        raise invalid("there is no image in this row (null)")
    what = f"{image.dtype} {list(image.shape)}" if isinstance(image, np.ndarray) else f"a {type(image).__name__}"
    if (
        not isinstance(image, np.ndarray)
        or image.dtype != np.uint8
        or image.ndim != 3
        or image.shape[2] != 3
        or not image.size
    ):
        raise invalid(
            f"the image is {what}; expected encoded bytes, the name of a file, or uint8 [height, width, 3], RGB"
        )
    if image.size > 3 * images.MOST_PIXELS:
        raise invalid(f"the image is {what}; {images.MOST_PIXELS} pixels in all are handled")
    return image


def _message(error: RaggedVitError) -> str:
    """Returns the message of an image's error. Raises errors that no image caused, such as a missing Pillow."""
    if error.status not in OF_IMAGES:
        raise error
    return str(error)
