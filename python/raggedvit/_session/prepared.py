"""Prepared: a function that returns the logits of images.

CUDA tensors run on PyTorch's current stream, host arrays through the library's memory."""

from __future__ import annotations

import contextlib
import ctypes
import sys
import weakref
from typing import Any, Iterable, Iterator, Sequence, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays.arrays import host_array, is_symbol, is_torch
from .._arrays.core_loader import core, ready
from .._arrays.typing import TensorT
from .._c.errors import RaggedVitError, Status, invalid
from .._c.layouts import new
from ..images import RawImage, are_raw
from .device_images import are_on_device
from .failures import Errors, Failures, refusal, wanted
from .model_type import Model
from .outputs import LOGITS
from .policy import Policy
from .sessions import Session, tick

MAX_SHAPES, MAX_STREAMS = 64, 64


def expected_shape(model: Model) -> str:
    info = model.info
    return f"[B, {info.channels}, {info.image_height}, {info.image_width}]"


def misfit(model: Model, images: Any) -> RaggedVitError:
    return invalid(
        f"images are {str(images.dtype).removeprefix('torch.')} {list(images.shape)}; expected {expected_shape(model)},"
        " normalised floating point"
    )


def elsewhere(model: Model, images: Any) -> RaggedVitError:
    return invalid(f"images are on {images.device}, the model on {model.device}; move one of them")


def host_view(model: Model, images: Any) -> np.ndarray:
    """Returns a normalised batch in host memory as an array, of any floating-point type and layout."""
    try:
        info, found = model.info, host_array("images", images)
    except RaggedVitError as error:
        if not isinstance(images, (list, tuple)) or not any(hasattr(part, "shape") for part in images):
            raise
        raise invalid(
            f"images are a {type(images).__name__} of {len(images)}, which is not an array; expected only"
            f" {expected_shape(model)}: of the batches of a loader with labels give map(images for images, *_ in"
            f" loader) ({error})"
        ) from error
    if found.dtype.kind != "f" or found.ndim != 4 or found.shape[1:] != info.image_shape:
        raise misfit(model, found)
    return found


def as_float32(images: np.ndarray) -> np.ndarray:
    """Returns a batch as contiguous float32, in place if it already is."""
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(images, np.float32)
    except FloatingPointError as error:
        raise invalid("images have a value that float32 does not hold; expected normalised ones") from error


def host_tensor(model: Model, images: Any) -> Any:
    """Returns a CPU tensor in a type that numpy has."""
    if images.device.type != "cpu":
        raise elsewhere(model, images)
    images = images.detach()
    return images.float() if images.dtype == sys.modules["torch"].bfloat16 else images


def untraced(images: Any, argument: str = "images") -> Any:
    """Returns images in a form that a recorded forward can read: a tensor without lazy conjugation or negation.

    Refuses gradients, tangents and traces, which a recorded forward would ignore.
    """
    if "torch" not in sys.modules:
        return images
    from .._torch import tracing

    if is_symbol(images) or tracing.is_tracing() or tracing.is_fake(images):
        raise RaggedVitError(
            Status.UNSUPPORTED,
            "PyTorch traces the call (torch.jit.trace, torch.fx, an exporter), and would record its result "
            "as a constant; call the model outside the trace, or trace the module that has its weights",
        )
    if not is_torch(images):
        return images
    if tracing.wants_grad(images) or tracing.has_tangent(images):
        kind = "require a gradient" if images.requires_grad else "have a tangent"
        raise invalid(
            f"{argument} {kind}, which the recorded forward does not give; call it under torch.no_grad(), or with "
            f"{argument}.detach(), or patch the module (raggedvit.patch)"
        )
    if tracing.is_wrapped(images):
        raise invalid(
            f"{argument} are a tensor of a transform of torch.func's (vmap, grad, ...), which the recorded forward does"
            " not see; give a whole batch, outside the transform"
        )
    return tracing.in_memory({argument: images})[argument]


def refuse_encoder(model: Model) -> None:
    """Refuses the vision encoders of Qwen2.5-VL and Qwen3-VL, which take images of any shape and return no logits."""
    if model.info.merge:
        raise RaggedVitError(
            Status.UNSUPPORTED,
            f"the model, {model.info.architecture}, returns a row for each merge group of patches, and no logits:"
            ' model.prepare(inputs="patches", merged=True) returns a function of the patches and grids of its'
            " processor",
        )


class Prepared:
    """A model and a policy as one function of images: `prepared = model.prepare("evit")`, then `prepared(images)`.

    It returns what `model(images, policy)` returns. On CUDA tensors it is the cheapest way to call a model from
    Python.
    """

    def __init__(self, model: Model, policy: Policy) -> None:
        refuse_encoder(model)
        if not model.info.n_classes:
            raise RaggedVitError(
                Status.UNSUPPORTED,
                "the model has no head, so there are no logits; classify(pooled=True) "
                "returns a row for each image, classify(features=True) one for each token",
            )
        if policy.name == "mask":
            raise invalid("policy is 'mask', which needs a mask for each call; use classify")
        self.model: Any = model  # Any: the whole Model, not only the Protocol
        self.policy = policy
        self._lanes: dict[int, Lane] = {}
        self._fast: Any = None  # the compiled core's forward, and its state
        self._state: Any = None
        model._prepared.add(self)

    @overload
    def __call__(self, images: TensorT | Sequence[TensorT]) -> TensorT: ...

    @overload
    def __call__(self, images: ArrayLike | Sequence[RawImage]) -> NDArray[np.float32]: ...

    def __call__(self, images: Any) -> Any:
        """Returns the logits of a batch, as Model.__call__ does."""
        if self._fast is not None:
            logits = self._fast(self._state, images)
            if logits is not None:
                return logits
        return self._general(images)

    def forget(self, session: Session) -> None:
        """Drops a session."""
        if self._fast is not None:
            core.forward_clear(self._state)
        for lane in list(self._lanes.values()):
            for shape in [shape for shape, plan in list(lane.plans.items()) if plan[0] is session]:
                lane.plans.pop(shape, None)

    def _general(self, images: Any) -> Any:
        torch, images = sys.modules.get("torch"), untraced(images)
        if are_on_device(images):
            return self.model._classify_on_device(images, self.policy, None, LOGITS, None).logits
        if torch is None or not isinstance(images, torch.Tensor):
            return self._on_host(self.model._read_images(images) if are_raw(images) else images)
        if not images.is_cuda:
            return torch.from_numpy(self._on_host(images))
        if type(images) is not torch.Tensor:
            images = images.as_subclass(torch.Tensor)
        index = images.get_device()
        if index != self.model.cuda_index:
            raise elsewhere(self.model, images)
        stream = torch._C._cuda_getCurrentRawStream(index)
        lane = self._lanes.get(stream)
        if lane is None:
            lane = self._lane(stream, index)
        return _forward(lane, images)

    def _lane(self, stream: int, index: int) -> Lane:
        torch = sys.modules["torch"]
        if self._fast is None and _reads_tensors():
            info = self.model.info
            self._state = ready().forward_state(index, *info.image_shape, info.n_classes)
            core.hook("capturing", torch._C._cuda_isCurrentStreamCapturing)
            self._fast = core.forward
        if len(self._lanes) >= MAX_STREAMS:
            self._lanes.clear()
            if self._fast is not None:
                core.forward_clear(self._state)
        lane = self._lanes[stream] = Lane(self, torch, stream, index)
        return lane

    def map(self, batches: Iterable[Any], errors: Errors = "raise") -> Iterator[Any]:
        """Returns an iterator over the logits of each batch, in order.

        On a CUDA device one batch is copied while the previous one is computed. The device copies directly from pinned
        memory, so do not change a batch until you have received its logits.

        Args:
            batches: An iterable of arrays, CPU tensors or lists of images.
            errors: As for Model.classify. With "return" the iterator yields Results. A batch that is invalid as a
                whole (by its shape, for example) has NaN for logits, and that error for each of its images.

        Raises:
            RaggedVitError: As Model.classify, also for results that are not finite.
        """
        if wanted(errors) is not None:
            self.model._check_policy(self.policy)
            return self._overlapped(batches, True) if self.model.cuda_index >= 0 else self._results(batches)
        if self.model.cuda_index < 0:
            return (self(batch) for batch in batches)
        return self._overlapped(batches)

    def _overlapped(self, batches: Iterable[Any], errors_return: bool = False) -> Iterator[Any]:
        with self.model._pipeline() as pipeline:
            yield from pipeline.run(batches, self.policy, errors_return)

    def _results(self, batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            failures: Failures = {}
            result: Any = None
            self.model._sessions.open()
            with refusal(batch, failures):
                result = self.model._classify(batch, self.policy, None, LOGITS, failures)
            yield result or self.model._of_map(
                None, np.full((len(batch), self.model.info.n_classes), np.nan, np.float32), batch, failures
            )

    def _on_host(self, images: Any) -> np.ndarray:
        model = self.model
        raw = isinstance(images, list) and are_raw(images)
        found: Any = images if raw else host_view(model, host_tensor(model, images) if is_torch(images) else images)
        if raw or (model.cuda_index >= 0 and len(found)):
            with model._pipeline() as pipeline, contextlib.closing(pipeline.parts(found, self.policy)) as parts:
                return np.concatenate([logits for logits, _ in parts])
        images = as_float32(found)
        logits = np.empty((len(images), model.info.n_classes), np.float32)
        if len(images):
            session = model._sessions.get(self.policy, len(images))
            with session.lock:
                session.run.n_images, session.run.input.data = len(images), images.ctypes.data
                model._lib.rvit_session_run(session.handle, session.pointer, logits.ctypes.data)
        return logits


class Lane:
    """The recorded forwards of a Prepared on one CUDA stream of PyTorch."""

    def __init__(self, forward: Prepared, torch: Any, stream: int, index: int) -> None:
        model = forward.model
        self.forward = weakref.proxy(forward)  # which owns this
        self.model, self.torch, self.stream, self.index = model, torch, stream, index
        lib = model._lib
        self.empty_like, self.float32, self.capturing = (
            torch.empty_like,
            torch.float32,
            torch._C._cuda_isCurrentStreamCapturing,
        )
        self.set_buffer, self.enqueue = lib.raw.rvit_buffer_set, lib.raw.rvit_session_enqueue
        # For each shape of a batch: session, its pointers, a template for logits, bytes of images and of logits, and
        # the owner of one of the pointers.
        self.plans: dict[Any, tuple[Any, ...]] = {}

    def plan(self, images: Any) -> tuple[Any, ...]:
        """Checks a shape, and creates the plan that runs batches of it."""
        model, torch, info = self.model, self.torch, self.model.info
        shape = tuple(images.shape)
        if len(shape) != 4 or shape[1:] != info.image_shape:
            raise misfit(model, images)
        n = shape[0]
        session = model._sessions.get(self.forward.policy, n, LOGITS, lambda: model._stream(self.stream), self.stream)
        template = torch.empty((n, info.n_classes), dtype=torch.float32, device=images.device)
        with model._sessions.lock:  # another thread may do the same
            if session.images is None or session.logits is None:
                # Buffers without memory of their own: each run points them at its memory.
                session.images, session.logits = model._wrapped(template), model._wrapped(template)
        run = new("rvit_run_args", n_images=n)
        run.input.view.buffer, run.logits.buffer = session.images.pointer, session.logits.pointer
        if len(self.plans) >= MAX_SHAPES:
            self.plans.clear()
            if self.forward._fast is not None:
                core.forward_clear(self.forward._state)
        made = (
            session,
            session.handle.pointer.value,
            ctypes.addressof(run),
            session.images.pointer.value,
            session.logits.pointer.value,
            template,
            4 * images.numel(),
            4 * template.numel(),
            run,
        )
        self.plans[images.shape] = made
        return made

    def arm(self, plan: tuple[Any, ...]) -> None:
        """Passes a plan to the compiled core, which handles such calls from now on."""
        session, handle, _, images, logits, template, *_ = plan
        core.forward_add(
            self.forward._state,
            plan,
            session.lock.locked,
            self.stream,
            len(template),
            handle,
            images,
            logits,
            ctypes.addressof(session.ran),
        )


def _forward(lane: Lane, images: Any) -> Any:
    """Runs a CUDA tensor that the compiled core did not handle."""
    if lane.capturing():
        raise RaggedVitError(
            Status.UNSUPPORTED,
            "the current stream captures a CUDA graph, and the forward is a graph of its own, which "
            "cannot be captured; call it outside torch.cuda.graph",
        )
    if images.dtype is not lane.float32:
        images = converted(lane.torch, images)
    plan = lane.plans.get(images.shape)
    if plan is None or not plan[0].alive:
        if images.shape[:1] == (0,) and len(images.shape) == 4:
            return empty_batch(lane, images)
        plan = lane.plan(images)
    session, handle, run, images_buffer, logits_buffer, template, images_size, logits_size, _ = plan
    address = images.data_ptr()
    if address % 16 or not images.is_contiguous():
        images = images.clone(memory_format=lane.torch.contiguous_format)
        address = images.data_ptr()
    logits = lane.empty_like(template)
    with session.lock:
        session.ran.value = tick()
        status = (
            lane.set_buffer(images_buffer, address, images_size)
            or lane.set_buffer(logits_buffer, logits.data_ptr(), logits_size)
            or lane.enqueue(handle, run)
        )
        if status:
            lane.model._lib.check(status)
    if lane.forward._fast is not None and session.alive:
        lane.arm(plan)
    return logits


def _reads_tensors() -> bool:
    """Whether the compiled core can read PyTorch tensors."""
    if core is None:
        return False
    from .._torch.eager import READS_TENSORS

    return READS_TENSORS


def converted(torch: Any, images: Any) -> Any:
    if images.dtype not in (torch.float16, torch.bfloat16):
        raise invalid(
            f"images are {str(images.dtype)[6:]} {list(images.shape)}; expected float32, float16 or bfloat16,"
            " normalised"
        )
    return images.float()


def empty_batch(lane: Lane, images: Any) -> Any:
    info = lane.model.info
    if tuple(images.shape[1:]) != info.image_shape:
        raise misfit(lane.model, images)
    return lane.torch.empty((0, info.n_classes), dtype=lane.torch.float32, device=images.device)
