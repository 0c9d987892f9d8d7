"""A checkpoint on a device, and images through it."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Iterator, Literal, Sequence, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._c import checks
from ._modules import modules
from . import images as pictures
from ._arrays.arrays import host_array, is_torch
from ._c.constants import CONSTANTS
from ._session.device_images import DeviceBatch, are_on_device
from ._c.errors import RaggedVitError, Status, invalid
from ._session.failures import Errors, Failures, add, check, of_run, wanted
from ._session.staging import MOST_SIDE, Shapes, Spec, named as numbered, room_of
from ._session.forward import (Forward, as_float32, converted, elsewhere, host_tensor, host_view, misfit,
                               refuse_tower, unwatched)
from ._c.info import BACKENDS, TIERS, DeviceInfo, ModelInfo, name_of, named
from ._c.layouts import new
from ._c.library import Handle, Library, library, refuse_copy
from ._session.variable_resolution import Native
from ._session.outputs import LOGITS, Outputs
from ._session.slots import PictureSlot
from ._session.pipeline import HOST_HELPS, Pipeline
from ._c.process import renews
from ._session.result import Result, as_tensors, joined, noted, of_session
from ._session.policy import Policy
from ._session.sessions import Session, Sessions
from ._arrays.typing import TensorT

if TYPE_CHECKING:
    import torch

DTYPES = named("RVIT_PRECISION_")
RESAMPLES = {name: CONSTANTS["RVIT_RESAMPLE_" + name.upper()] for name in ("timm", "bicubic", "bilinear", "bilinear_antialias")}
ACTIVATIONS, POOLINGS, POSITIONS = ({name: value for name, value in named(prefix).items() if value != 0}
                                    for prefix in ("RVIT_ACTIVATION_", "RVIT_POOLING_", "RVIT_POSITION_"))


def _given(argument: str, value: str | None, table: dict[str, int]) -> int:
    """A choice; 0 where none is made."""
    return 0 if value is None else checks.choice(argument, value, table)


def _weakly(method: Any) -> Any:
    """A bound method that does not keep its object."""
    found = weakref.WeakMethod(method)

    def call(*arguments: Any) -> None:
        method = found()
        if method is not None:
            method(*arguments)

    return call


class Model:
    """A Vision Transformer on a device.

    path: a .safetensors file, or a *.safetensors.index.json. backend: "auto" (CUDA, then a Vulkan GPU, then the CPU), "cpu", "cuda",
    "vulkan"; index: the device within it. dtype: "f32", "f16" or "bf16", storage of weights and activations; "int8" (for CPUs and Vulkan) and "fp8" (for
    CUDA) multiply 8 bits in the blocks; "auto" is the fastest of these that is accurate enough (rvit_precision in raggedvit/session.h), and
    self.dtype says which it is. image_size: side of the images if it is not the checkpoint's own; the position table is then resampled ("timm", "bicubic", "bilinear"; None: as the code that the tensors'
    names belong to). n_threads: of the CPU backend; 0: as
    many as the process may use. poll_us: how long a thread that waits for a Vulkan device keeps a core busy asking it, in microseconds; 0: 2000; -1: not at
    all, on CUDA neither (on streams of the library's own). lenient: tensors that nothing uses are no error.

    architecture, n_heads, activation ("gelu", "gelu_tanh", "quick_gelu", "silu"), pooling ("cls", "mean", ...), position ("table", "rope",
    ...) and eps say what the weights do not tell, where neither a config.json beside the file nor its metadata does, or against them. A name
    of timm's as architecture stands for all of them; "vit" is a plain model. rvit_checkpoint_open in raggedvit/session.h has the rule.

    Forwards are recorded when first needed, and kept with their memory. A policy's first two batch sizes get a forward each, the fastest
    there is; all other sizes share one, whose capacity doubles as it must. max_batch: no batch is larger; each policy then has one forward
    of this capacity alone. max_sessions: how many recorded forwards are kept in all, the least recently used going first; each CUDA stream
    has its own.

    Threads may share a model. Calls that use the same recorded forward wait for one another. The child of a fork may use a model on the
    CPU, which computes on one core there, and no other.

    Raises RaggedVitError: BAD_FILE, UNSUPPORTED, UNAVAILABLE (no such device) and INVALID_ARGUMENT, as the C API documents them.
    """

    def __init__(self, path: str | os.PathLike[str], backend: str = "auto", dtype: str = "f32", image_size: int | None = None, *,
                 policy: str | Policy = "none", index: int = -1, tier: str = "auto", n_threads: int = 0, resample: str | None = None, lenient: bool = False,
                 eps: float = 0.0, max_sessions: int = 8, poll_us: int = 0, max_batch: int | None = None, architecture: str | None = None,
                 n_heads: int = 0, activation: str | None = None, pooling: str | None = None, position: str | None = None) -> None:
        encoded = checks.path("path", path)
        self._prepare(policy, backend, dtype, index, tier, n_threads, poll_us, max_sessions, max_batch)
        desc = new("rvit_checkpoint_desc", lenient=checks.flag("lenient", lenient), image_size=0 if image_size is None else image_size,
                   resample=_given("resample", resample, RESAMPLES), eps=eps, n_heads=n_heads,
                   activation=_given("activation", activation, ACTIVATIONS), pooling=_given("pooling", pooling, POOLINGS),
                   position=_given("position", position, POSITIONS),
                   architecture=None if architecture is None else checks.text("architecture", architecture).encode())
        checkpoint = self._lib.own("checkpoint", encoded, ctypes.byref(desc), create="rvit_checkpoint_open")
        self._open(checkpoint)
        names = self._lib.rvit_checkpoint_metadata(checkpoint, b"classes")
        #: The names that the file's metadata lists under "classes", else the label_names or id2label of its config, as a module's config
        #: has them; None if there are none.
        self.class_names: list[str] | None = names.decode().split(",") if names else self._config_names(checkpoint)

    def _config_names(self, checkpoint: object) -> list[str] | None:
        names = (self._lib.rvit_checkpoint_class_name(checkpoint, i) for i in itertools.count())
        return [name.decode() for name in itertools.takewhile(lambda name: name is not None, names)] or None

    @classmethod
    def from_module(cls, module: torch.nn.Module, backend: str | None = None, dtype: str | None = None, *, policy: str | Policy = "none",
                    index: int | None = None, tier: str = "auto", n_threads: int = 0, max_sessions: int = 8, poll_us: int = 0,
                    max_batch: int | None = None, _inside_only: bool = False) -> Model:
        """A model with the weights of a VisionTransformer, VisionTransformerDistilled or Eva of timm, or of a ViTForImageClassification or
        DeiTForImageClassification(WithTeacher) of Hugging Face: what it computes in eval mode. The weights are copied: see update.

        backend and index: None: where the module is. dtype: None: "f16" for a float16 module, "bf16" for a bfloat16 one where the device
        computes in it, else "f32".
        UNSUPPORTED names what the library does not compute as the module does, hooks included.
        """
        facts = modules.read(module, _inside_only)
        place, ordinal = modules.place_of(module)
        same = backend is None or backend == place
        self = cls.__new__(cls)
        self._prepare(policy, place if backend is None else backend, modules.storage_of(module) if dtype is None else dtype,
                      (ordinal if same else -1) if index is None else index, tier, n_threads, poll_us, max_sessions, max_batch)
        self._open(modules.checkpoint(self._lib, module, facts), widens=dtype is None)
        self.class_names = modules.label_names(module)
        return self

    def update(self, module: torch.nn.Module) -> None:
        """Takes the weights of a module of the same geometry, without recording anything again. Waits for the forwards under way.
        INVALID_ARGUMENT: the geometry or the eps differs; nothing has changed then."""
        self._update(modules.checkpoint(self._lib, module, modules.read(module)))

    def _policy_of(self, policy: str | Policy | None) -> Policy:
        return self.policy if policy is None else Policy.of(policy)

    def _prepare(self, policy: str | Policy, backend: str, dtype: str, index: int, tier: str, n_threads: int, poll_us: int, max_sessions: int,
                 max_batch: int | None) -> None:
        choice, integer = checks.choice, checks.integer
        #: The policy of calls that name none.
        self.policy = Policy.of(policy)
        self._limits = (integer("max_sessions", max_sessions, 1, checks.INT32_MAX),
                        checks.optional(integer, "max_batch", max_batch, 1, 1 << 20))
        self._device_desc = new("rvit_device_desc", backend=choice("backend", backend, BACKENDS), index=index,
                                tier=choice("tier", tier, TIERS), n_threads=n_threads, poll_us=poll_us)
        self._precision = choice("dtype", dtype, DTYPES)
        self._lib: Library = library()

    def _open(self, checkpoint: Handle, widens: bool = False) -> None:
        """widens: in float32, which holds bfloat16 too, on a device that does not compute in the latter."""
        lib = self._lib
        self._device = lib.own("device", ctypes.byref(self._device_desc))
        chosen = new("rvit_precision_choice")
        try:
            lib.rvit_precision_choose(self._device, checkpoint, self._precision, ctypes.byref(chosen))
        except RaggedVitError as error:
            if not widens or error.status != Status.UNSUPPORTED or self._precision != DTYPES["bf16"]:
                raise
            lib.rvit_precision_choose(self._device, checkpoint, DTYPES["f32"], ctypes.byref(chosen))
        desc = new("rvit_model_desc", dtype=chosen.dtype, quantization=chosen.quantization)
        handle = lib.own("model", self._device, checkpoint, ctypes.byref(desc), keeps=(self._device,))
        #: What dtype stands for: that which was given, or what "auto" has chosen; and why, in a line, where it has.
        self.dtype: str = name_of(DTYPES, chosen.precision)
        self.dtype_reason: str = chosen.reason.decode(errors="replace")
        info, device_info = new("rvit_model_info"), new("rvit_device_info")
        lib.rvit_model_get_info(handle, ctypes.byref(info))
        lib.rvit_device_get_info(self._device, ctypes.byref(device_info))
        self.info: ModelInfo = ModelInfo.of(info)
        self.device: DeviceInfo = DeviceInfo.of(device_info)
        #: PyTorch's index of the CUDA device; -1 for other devices.
        self.cuda_index: int = self.device.index if self.device.backend == "cuda" else -1
        self._recipe: pictures.Recipe | None = None
        self._rooms: dict[tuple[Spec, Shapes], int] = {}
        self._proxy: Any = weakref.proxy(self)
        self._prepared: weakref.WeakSet[Forward] = weakref.WeakSet()
        self._sessions = Sessions(lib, self._device, handle, self.info, *self._limits, on_drop=_weakly(self._forget))
        self._forwards: dict[Policy, Forward] = {}
        self._streams: dict[int, Handle] = {}
        self._own: Handle | None = None
        self._idle: list[Pipeline] = []  # for batches of the host
        self._slots: weakref.WeakSet[Any] = weakref.WeakSet()
        self._others: weakref.WeakSet[Any] = weakref.WeakSet()  # Natives and PictureSlots, whose sessions are their own
        self.forked()
        renews(self)

    def forked(self) -> None:
        """In the child of a fork, too, where nobody would release it."""
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:
        refuse_copy("a Model")

    def __repr__(self) -> str:
        return f"<raggedvit.Model {self.info.architecture} on {self.device.name} ({self.device.backend})>"

    @property
    def recipe(self) -> pictures.Recipe:
        """How classify prepares pictures. UNSUPPORTED: the model's files do not tell it, or ask for what is not known here; set it then."""
        if self._recipe is None:
            if self.info.channels != 3:
                raise RaggedVitError(Status.UNSUPPORTED, f"the model takes images of {self.info.channels} channels; pictures are RGB")
            info = new("rvit_model_info")
            self._lib.rvit_model_get_info(self._handle, ctypes.byref(info))
            self._recipe = pictures.Recipe.of(info)
        return self._recipe

    @recipe.setter
    def recipe(self, recipe: pictures.Recipe) -> None:
        size = (3, recipe.height, recipe.width)
        if size != self.info.image_shape:
            raise invalid(f"the recipe makes images of {list(size)}, the model takes {list(self.info.image_shape)}")
        self._recipe = recipe

    @property
    def spec(self) -> Spec:
        """What the device does with pictures."""
        return Spec(self.recipe, self.recipe.max_patches)

    def _room(self, spec: Spec, shapes: Shapes) -> int:
        """Bytes that pictures of these shapes take."""
        found = self._rooms.get((spec, shapes))
        if found is None:
            if len(self._rooms) >= 64:
                self._rooms.clear()
            found = self._rooms[spec, shapes] = room_of(self._lib, self.info, spec, shapes)
        return found

    def _unfit(self, spec: Spec, shapes: Shapes) -> Failures:
        """The pictures of a batch that the device refuses for their shape; the status of those that the host can prepare is in HOST_HELPS."""
        found: Failures = {}
        try:
            self._room(spec, shapes)
        except RaggedVitError:
            for number, shape in enumerate(shapes):
                thin = "" if spec.max_patches else spec.recipe.too_thin(shape[1], shape[0])
                try:
                    self._room(spec, (shape,))
                except RaggedVitError as error:
                    found[number] = invalid(f"picture {number}: {thin}") if thin else numbered(error, number)
        return found

    def _pictures(self, images: Any, failures: Failures | None = None) -> Any:
        """A batch of pictures: as a list of arrays where the device prepares them, else as the model's input. failures: where the errors of
        those go that cannot be prepared; others are in their place."""
        spec = self.spec
        found = pictures.read(images, failures)
        able = spec.on_device(self.info)
        fit = able and all(max(picture.shape) <= MOST_SIDE for picture in found)
        if failures is not None and able and (fit or spec.max_patches):
            unfit = self._unfit(spec, tuple(picture.shape for picture in found))
            fit = fit and not any(error.status in HOST_HELPS for error in unfit.values())
            if fit or spec.max_patches:
                add(failures, unfit)
                found, fit = [pictures.PIXEL if number in unfit else picture for number, picture in enumerate(found)], True
        if fit and found:
            return found
        if spec.max_patches:
            raise RaggedVitError(Status.UNSUPPORTED, f"pictures of more than {MOST_SIDE} pixels a side are not handled at their own shape")
        return pictures.prepare_all(spec.recipe, found, failures)

    @property
    def place(self) -> str:
        """Where the model is, as PyTorch names it: "cpu", "cuda:0"; "vulkan:0", which PyTorch does not have."""
        return self.device.backend if self.device.backend == "cpu" else f"{self.device.backend}:{self.device.index}"

    @overload
    def prepare(self, policy: str | Policy | None = None, *,
                native: Literal[False] = False) -> Forward: ...

    @overload
    def prepare(self, policy: str | Policy | None = None, *,
                native: Literal[True], max_images: int = 1, max_tokens: int | None = None,
                max_len: int | None = None, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                projected: bool = False, normalized: bool = False, block_features: int | None = None,
                received_attention: int | None = None, merged: bool = False, deepstack: bool = False,
                on_device: bool = False) -> Native: ...

    def prepare(self, policy: str | Policy | None = None, *,
                native: bool = False, max_images: int = 1, max_tokens: int | None = None,
                max_len: int | None = None, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                projected: bool = False, normalized: bool = False, block_features: int | None = None,
                received_attention: int | None = None, merged: bool = False, deepstack: bool = False, on_device: bool = False) -> Any:
        """forward with its policy settled: a function of images.

        native: a function of (patches, grids) in its place, for images of grids of their own in one batch: see Native. max_images: how many
        there are at most; max_len: tokens of an image, prefix tokens among them (None: info.tokens); max_tokens: of all images of a batch
        (None: max_images * max_len). Memory follows from max_tokens. The function gives a Result, with the outputs that are asked for here,
        as in classify. merged, deepstack: of towers that merge squares of patches (Qwen2.5-VL, Qwen3-VL), which run so alone. on_device:
        patches, merged rows and deepstack rows are PyTorch tensors on the model's CUDA device, and do not pass through the host.
        """
        policy = self._policy_of(policy)
        outputs = Outputs.of(self.info.depth, features, cls_attention, pooled, projected, normalized, block_features, received_attention,
                             merged, deepstack)
        if checks.flag("native", native):
            return Native(self, policy, outputs, max_images, max_tokens, max_len, bool(checks.flag("on_device", on_device)))
        if outputs != Outputs() or (max_images, max_tokens, max_len, on_device) != (1, None, None, False):
            raise invalid("capacities, outputs or on_device are given, but native is False")
        refuse_tower(self)
        return Forward(self, policy)

    def picture_slot(self, policy: str | Policy | None = None, *, max_images: int = 1,
                     max_bytes: int = 1 << 24, device_bytes: int = 0, fixed_batch: bool = False, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                     projected: bool = False, normalized: bool = False, block_features: int | None = None,
                     received_attention: int | None = None) -> PictureSlot:
        """Memory for the pictures of one batch, which callers decode into and the device reads, and a forward of them: pictures come to the
        device without a copy on the host. max_images and max_bytes: how many pictures, and how many bytes of them, a batch has at most.
        device_bytes: the same of pictures that lie on the model's CUDA device, which lend adds.
        fixed_batch: every batch has exactly max_images, which makes the forward faster. All else as in classify. With two of them one is filled while the other runs: see in_turns."""
        policy = self._policy_of(policy)
        outputs = Outputs.of(self.info.depth, features, cls_attention, pooled, projected, normalized, block_features, received_attention)
        refuse_tower(self)
        return PictureSlot(self, policy, outputs, checks.integer("max_images", max_images, 1, 1 << 20),
                           checks.integer("max_bytes", max_bytes, 1, 1 << 32),
                           checks.integer("device_bytes", device_bytes, 0, 1 << 36), bool(checks.flag("fixed_batch", fixed_batch)))

    @overload
    def forward(self, images: TensorT, policy: str | Policy | None = None) -> TensorT: ...

    @overload
    def forward(self, images: ArrayLike, policy: str | Policy | None = None) -> NDArray[np.float32]: ...

    def forward(self, images: Any, policy: str | Policy | None = None) -> Any:
        """Logits of a batch, float32 [B, n_classes]: an array for an array, a tensor for a PyTorch tensor, on its device.

        images: as classify documents them; arrays and CPU tensors for any model. CUDA tensors (float32, float16, bfloat16; of the model's
        device) are read where they lie: the forward is enqueued on PyTorch's current stream, nothing is copied, and nothing waits. It then
        reports no error of single images: NaN in an image, or a model that overflows its dtype, makes that image's logits NaN, where classify
        names it. policy: as classify takes it, but for "mask". There is no gradient: images that require one are refused; see raggedvit.patch. A stream of the
        caller's must outlive the model. The forward cannot be captured into another CUDA graph. Pictures, on the device or not, are waited
        for.
        """
        policy = self._policy_of(policy)
        forward = self._forwards.get(policy)
        if forward is None:
            # The proxy avoids a reference cycle, which would keep the model until the next collection.
            forward = Forward(self._proxy, policy)
            if len(self._forwards) >= 64:
                self._forwards.clear()
            self._forwards[policy] = forward
        return forward(images)

    __call__ = forward

    @overload
    def classify(self, images: TensorT | Sequence[TensorT], policy: str | Policy | None = None, *,
                 mask: Any = None, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                 projected: bool = False, normalized: bool = False, block_features: int | None = None,
                 received_attention: int | None = None, errors: Errors = "raise") -> Result[TensorT]: ...

    @overload
    def classify(self, images: ArrayLike | Sequence[pictures.Picture], policy: str | Policy | None = None, *,
                 mask: Any = None, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                 projected: bool = False, normalized: bool = False, block_features: int | None = None,
                 received_attention: int | None = None, errors: Errors = "raise") -> Result[NDArray[np.float32]]: ...

    def classify(self, images: Any, policy: str | Policy | None = None, *,
                 mask: Any = None, features: bool = False, cls_attention: bool = False, pooled: bool = False,
                 projected: bool = False, normalized: bool = False, block_features: int | None = None,
                 received_attention: int | None = None, errors: Errors = "raise") -> Result[Any]:
        """Logits of a batch, and what was kept of it.

        images: floating point [B, channels, image_height, image_width], normalised as the checkpoint was trained; an array or what numpy can
        make one of, or a PyTorch tensor on the CPU or on the model's CUDA device; float32 and contiguous, it is read in place. Or pictures, as
        they are: a list of files, Pillow's pictures and uint8 arrays [height, width, 3] of different sizes, or a uint8 array [B, height, width,
        3]. Files are read on threads; the device resizes, crops and normalises by the model's recipe, to the bits of raggedvit.images.prepare,
        and what it does not do the host does. With recipe.max_patches (NaFlex) each picture keeps its own shape. One that cannot be prepared
        is named. Uint8 pictures may all lie on the model's CUDA device: PyTorch tensors, or arrays with __cuda_array_interface__ or DLPack,
        whose pixels lie side by side, lines any distance apart. They do not pass through the host: the device copies them to memory of the
        session's, behind the work on PyTorch's current stream, or on the streams that arrays name. For tensors the result is on the device.
        policy: a Policy, or a name of policies(); None: the model's. mask: for policy "mask",
        numbers or bools, nonzero = keep: [B, tokens], or [n_stages, B, tokens] with several blocks; the first info.n_prefix tokens (CLS, ...)
        must be kept.
        features, cls_attention, pooled, projected: give these too, as Result has them. normalized: the projection is divided by its L2 norm.
        block_features, received_attention: the number of a block, from 0, or below 0 from the end (-2: the block before the last), of which
        Result has the rows, or the attention that rows receive.
        errors: "raise": the first image that fails raises, and its error names it. "return": the others have their results, and Result's errors
        tells which failed, and why: pictures that cannot be prepared, images whose scores are NaN or cannot be added up, and those whose
        results are not finite, because their pixels are not or because the model overflows its dtype.

        It waits for the results. The first call with a batch size and a policy records a forward and allocates its memory; later ones run
        it.
        Raises RaggedVitError: INVALID_ARGUMENT for what breaks a rule and for pixels that give no result, NOT_FINITE where the model gives
        none, UNSUPPORTED for a policy that the
        checkpoint has no weights for, and for an output that the model does not have.
        """
        policy = self._policy_of(policy)
        outputs = Outputs.of(self.info.depth, features, cls_attention, pooled, projected, normalized, block_features, received_attention)
        refuse_tower(self)
        return self._classify(images, policy, mask, outputs, wanted(errors))

    def _classify(self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None) -> Result[Any]:
        images = unwatched(images)
        if are_on_device(images):
            result = self._classify_on_device(images, policy, mask, outputs, failures)
        elif is_torch(images) and images.is_cuda:
            result = self._classify_cuda(images, policy, mask, outputs, failures)
        else:
            found = (self._pictures(images, failures) if pictures.are_pictures(images)
                     else host_view(self, host_tensor(self, images) if is_torch(images) else images))
            in_turns = isinstance(found, list) or (self.cuda_index >= 0 and len(found) > 0)
            result = (self._classify_in_slot if in_turns else self._classify_host)(found, policy, mask, outputs, failures)
            result = as_tensors(result, "cpu") if is_torch(images) else result
        return noted(result, failures)

    def _run(self, session: Handle, run: int, n: int, logits: np.ndarray | None, failures: Failures | None, what: str = "image") -> None:
        """Runs a session, and waits for it. failures: where the errors of single images go."""
        try:
            self._lib.rvit_session_run(session, run, None if logits is None else logits.ctypes.data)
        except RaggedVitError as error:
            if failures is None:
                raise
            add(failures, {image: numbered(one, 0, what) for image, one in of_run(self._lib, session, n, error).items()})
            if logits is not None and logits.nbytes:
                ctypes.memmove(logits.ctypes.data, self._lib.rvit_session_logits(session), logits.nbytes)

    def _of_map(self, session: Session | None, logits: np.ndarray, batch: Any, failures: Failures) -> Result[Any]:
        """What Forward.map gives of a batch that ran, or was refused as a whole, where errors are returned."""
        result: Result[Any] = Result(logits)
        if session is not None:
            result = of_session(self._lib, self.info, session.handle, logits, len(logits), LOGITS, failed=failures)
        return noted(as_tensors(result, "cpu") if is_torch(batch) else result, failures)

    def _classify_host(self, images: np.ndarray, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None) -> Result:
        images, n = as_float32(images), len(images)
        session = self._sessions.get(policy, n, outputs)
        with session.lock:
            run, masked = session.run, self._mask(mask, policy, session, n)
            run.n_images, run.images, run.keep = n, images.ctypes.data, None if masked is None else masked.ctypes.data
            logits = np.empty((n, self.info.n_classes), np.float32) if self.info.n_classes else None
            self._run(session.handle, session.pointer, n, logits, failures)
            return of_session(self._lib, self.info, session.handle, logits, n, outputs, failed=failures)

    def _classify_in_slot(self, images: np.ndarray | list[np.ndarray], policy: Policy, mask: Any, outputs: Outputs,
                          failures: Failures | None) -> Result:
        found: list[Result[Any]] = []
        first = 0
        with self._pipeline() as pipeline, contextlib.closing(pipeline.parts(images, policy, outputs, mask, failures)) as parts:
            for logits, session in parts:
                n = len(logits)
                failed = [image - first for image in failures if first <= image < first + n] if failures else None
                given = logits if self.info.n_classes else None
                found.append(of_session(self._lib, self.info, session.handle, given, n, outputs, failed=failed))
                first += n
        return joined(found)

    def _classify_on_device(self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None) -> Result[Any]:
        batch = DeviceBatch(self, images, failures)
        if not batch.pictures:
            result = self._classify_host(np.zeros((batch.n, *self.info.image_shape), np.float32), policy, mask, outputs, failures)
        else:
            result = batch.classify(policy, mask, outputs, failures)
        return result if batch.tensors is None else as_tensors(result, batch.tensors)

    def _classify_cuda(self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None) -> Result[Any]:
        torch, info = sys.modules["torch"], self.info
        if images.get_device() != self.cuda_index:
            raise elsewhere(self, images)
        if images.ndim != 4 or tuple(images.shape[1:]) != info.image_shape:
            raise misfit(self, images)
        images = images if images.dtype == torch.float32 else converted(torch, images)
        images = images.clone(memory_format=torch.contiguous_format) if images.data_ptr() % 16 else images.contiguous()
        n, place = len(images), torch._C._cuda_getCurrentRawStream(self.cuda_index)
        logits = torch.empty((n, info.n_classes), dtype=torch.float32, device=images.device) if info.n_classes else None
        # Not the session of forward, whose errors nobody has asked for.
        session = self._sessions.get(policy, n, outputs, lambda: self._stream(place), (place, "classify"))
        with session.lock:
            self._point(session, images, logits)
            run, masked = session.run, self._mask(mask, policy, session, n)
            run.n_images, run.keep = n, None if masked is None else masked.ctypes.data
            self._run(session.handle, session.pointer, n, None, failures)
            if logits is not None:
                check(logits, self.dtype, failures)
            return as_tensors(of_session(self._lib, self.info, session.handle, logits, n, outputs, failed=failures), images.device)

    def _point(self, session: Session, images: Any, logits: Any) -> None:
        """Makes the next run of a session read and write these tensors."""
        for name, tensor in (("images", images), ("logits", logits)):
            if tensor is None or not tensor.numel():
                continue
            if getattr(session, name) is None:
                setattr(session, name, self._wrapped(tensor))
            getattr(session.run, f"device_{name}").buffer = getattr(session, name).pointer
            self._lib.rvit_cuda_buffer_set(getattr(session, name), tensor.data_ptr(), tensor.numel() * tensor.element_size())

    def close(self) -> None:
        """Lets go of the sessions and the weights: they are freed now, but for what another thread computes with, which goes when its call
        ends, and the weights under a Native, a PictureSlot or an iterator of map, which go with the last of these. Later calls raise
        INVALID_ARGUMENT."""
        self._sessions.close()
        self._forwards.clear()
        self._streams.clear()
        self._own = None
        self._idle.clear()

    @property
    def _handle(self) -> Handle:
        """INVALID_ARGUMENT: the model is closed."""
        return self._sessions.open()

    @contextlib.contextmanager
    def _pipeline(self) -> Iterator[Pipeline]:
        """A pipeline for batches of the host; several may be in use."""
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

    def _check_policy(self, policy: Policy) -> None:
        """Raises what a session with this policy would, without making one."""
        desc, memory = new("rvit_session_desc"), new("rvit_memory_info")
        policy._fill(self._lib, desc.prune)
        self._lib.rvit_session_memory(self._handle, ctypes.byref(desc), ctypes.byref(memory))

    def _update(self, checkpoint: Handle) -> None:
        def work() -> None:
            model = self._handle
            for stream in [*self._streams.values(), *(slot.stream for slot in self._slots)]:
                self._lib.rvit_stream_synchronize(stream)
            self._lib.rvit_model_update(model, checkpoint)

        self._sessions.holding_all([other.lock for other in self._others], work)

    def _stream(self, stream: int) -> Handle:
        """A CUDA stream of the caller's, as one of the library's for one session: of those only one thread at a time may use one, and
        sessions of several threads share the caller's."""
        with self._lock:
            if stream not in self._streams:
                self._streams[stream] = self._wrapped_stream(stream)  # to wait for all work on it
        return self._wrapped_stream(stream)

    def _own_stream(self) -> int:
        """A CUDA stream for what comes with none."""
        with self._lock:
            if self._own is None:
                self._own = self._lib.own("stream", self._device, keeps=(self._device,))
        return int(self._lib.make("rvit_cuda_stream_handle", self._own).value or 0)

    def _wrapped_stream(self, stream: int) -> Handle:
        keeps = (self._device,) if self._own is None else (self._device, self._own)
        return self._lib.own("stream", self._device, stream or None, create="rvit_cuda_stream_wrap", keeps=keeps)

    def _wrapped(self, tensor: Any) -> Handle:
        return self._lib.own("buffer", self._device, tensor.data_ptr(), max(1, tensor.numel() * tensor.element_size()),
                             create="rvit_cuda_buffer_wrap", keeps=(self._device,))

    def _mask(self, mask: Any, policy: Policy, session: Session, n_images: int) -> Any:
        """The mask as a run takes it; None for other policies."""
        if policy.name != "mask":
            if mask is not None:
                raise invalid(f"a mask is given, but the policy is {policy.name!r}; expected 'mask'")
            return None
        if session.feed is not None and self.spec.max_patches > 0:
            raise invalid("the policy is 'mask', which is not supported with pictures at their own shape")
        if mask is None:
            raise invalid(f"the policy is 'mask', but no mask is given; expected [{n_images}, {self.info.tokens}]")
        stages = self._lib.rvit_session_n_stages(session.handle)
        mask = host_array("mask", mask.cpu() if is_torch(mask) else mask)
        wanted = (stages, n_images, self.info.tokens)
        if mask.shape != wanted and (stages != 1 or mask.shape != wanted[1:]):
            expected = list(wanted if stages != 1 else wanted[1:])
            raise invalid(f"the mask is {list(mask.shape)}; expected {expected}, tokens with the {self.info.n_prefix} of the prefix first")
        if mask.dtype.kind not in "biuf":
            raise invalid(f"the mask is {mask.dtype}; expected numbers or bools")
        if mask.dtype.kind == "f" and np.isnan(mask).any():
            raise invalid("the mask has NaN; expected 0 for what is dropped, another number for what is kept")
        return np.ascontiguousarray(mask != 0, np.uint8)
