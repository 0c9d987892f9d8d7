"""A checkpoint on a device, and images through it."""

from __future__ import annotations

import collections
import ctypes
import os
import threading
from dataclasses import dataclass, field
from typing import Any, Sequence

import numpy as np

from . import _checks
from ._arrays import host_array
from ._constants import CONSTANTS
from ._errors import RaggedVitError, Status, invalid
from ._info import BACKENDS, TIERS, DeviceInfo, ModelInfo
from ._layouts import new
from ._library import Handle, Library, library

DTYPES = {"f32": CONSTANTS["RVIT_F32"], "f16": CONSTANTS["RVIT_F16"], "bf16": CONSTANTS["RVIT_BF16"]}
RESAMPLES = {"timm": CONSTANTS["RVIT_RESAMPLE_TIMM"], "bicubic": CONSTANTS["RVIT_RESAMPLE_BICUBIC"],
             "bilinear": CONSTANTS["RVIT_RESAMPLE_BILINEAR"]}


def _blocks(argument: str, value: Any) -> tuple[int, ...]:
    most = CONSTANTS["RVIT_PRUNE_MAX_STAGES"]
    found = _checks.integers(argument, value, most, 0, _checks.INT32_MAX)
    if not found:
        raise invalid(f"{argument} has 0 entries; expected 1 to {most}")
    return found


def copied(address: int | None, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """A copy of what the library lends."""
    out = np.empty(shape, dtype)
    if out.nbytes:
        if address is None:
            raise RaggedVitError(Status.INTERNAL, "the library gave no such result")
        ctypes.memmove(out.ctypes.data, address, out.nbytes)
    return out


@dataclass
class Result:
    """What a classify gives: arrays of its own, which nothing overwrites."""

    #: float32 [B, n_classes]; None for a model without a head.
    logits: np.ndarray | None
    #: int32 [B + 1] for each prune stage: tokens of image i after it, prefix tokens included: cu[i + 1] - cu[i].
    cu_seqlens: list[np.ndarray] = field(default_factory=list)
    #: For each stage, for each image: int32, the token of the unpruned image that each row holds (prefix first; patch n is n_prefix + n);
    #: -1 for EViT's fused token.
    kept: list[list[np.ndarray]] = field(default_factory=list)
    #: tome: for each stage, for each image: float32, how many tokens each row is the mean of. Otherwise empty.
    sizes: list[list[np.ndarray]] = field(default_factory=list)
    #: float32 [rows, dim], if asked for: the rows of the last stage (of all tokens without one) after the final layernorm, image after
    #: image.
    features: np.ndarray | None = None
    #: float32 [rows, n_heads], if asked for: the CLS row of the last block's attention.
    cls_attention: np.ndarray | None = None

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        if self.logits is None:
            raise RaggedVitError(Status.UNSUPPORTED, "the model has no head, so there are no logits")
        return np.array(self.logits, dtype=dtype)


@dataclass
class _Session:
    handle: Handle
    lock: threading.Lock = field(default_factory=threading.Lock)


class Model:
    """A Vision Transformer on a device.

    path: a .safetensors file, or a *.safetensors.index.json. backend: "auto" (CUDA, then a Vulkan GPU, then the CPU), "cpu", "cuda",
    "vulkan"; index: the device within it. dtype: "f32" or "f16", storage of weights and activations. image_size: side of the images if it
    is not the checkpoint's own; the position table is then resampled ("timm", "bicubic", "bilinear"). n_threads: of the CPU backend; 0: as
    many as the process may use. poll_us: how long a thread that waits for a Vulkan device keeps a core busy asking it, in microseconds; 0: 2000; -1: not at
    all. lenient: tensors that nothing uses are no error. eps: of the layernorms; 0: the checkpoint's. max_sessions: how many recorded
    forwards, one for each batch size and policy, are kept; each holds its memory.

    Threads may share a model. Calls with the same batch size and policy wait for one another. Not across a fork.

    Raises RaggedVitError: BAD_FILE, UNSUPPORTED, UNAVAILABLE (no such device) and INVALID_ARGUMENT, as the C API documents them.
    """

    def __init__(self, path: str | os.PathLike[str], backend: str = "auto", dtype: str = "f32", image_size: int | None = None, *,
                 index: int = -1, tier: str = "auto", n_threads: int = 0, resample: str = "timm", lenient: bool = False, eps: float = 0.0,
                 max_sessions: int = 8, poll_us: int = 0) -> None:
        self._max_sessions = _checks.integer("max_sessions", max_sessions, 1, _checks.INT32_MAX)
        choice, encoded = _checks.choice, _checks.path("path", path)
        device_desc = new("rvit_device_desc", backend=choice("backend", backend, BACKENDS), index=index, tier=choice("tier", tier, TIERS),
                          n_threads=n_threads, poll_us=poll_us)
        checkpoint_desc = new("rvit_checkpoint_desc", lenient=_checks.flag("lenient", lenient),
                              image_size=0 if image_size is None else image_size, resample=choice("resample", resample, RESAMPLES), eps=eps)
        model_desc = new("rvit_model_desc", dtype=choice("dtype", dtype, DTYPES))
        self._lib: Library = library()
        lib = self._lib
        checkpoint = lib.own("checkpoint", encoded, ctypes.byref(checkpoint_desc), create="rvit_checkpoint_open")
        device = lib.own("device", ctypes.byref(device_desc))
        self._handle = lib.own("model", device, checkpoint, ctypes.byref(model_desc), keeps=(device,))
        info, device_info = new("rvit_model_info"), new("rvit_device_info")
        lib.rvit_model_get_info(self._handle, ctypes.byref(info))
        lib.rvit_device_get_info(device, ctypes.byref(device_info))
        self.info: ModelInfo = ModelInfo.of(info)
        self.device: DeviceInfo = DeviceInfo.of(device_info)
        names = lib.rvit_checkpoint_metadata(checkpoint, b"classes")
        #: The names that the file's metadata lists under "classes"; None if it lists none.
        self.class_names: list[str] | None = names.decode().split(",") if names else None
        self._sessions: collections.OrderedDict[Any, _Session] = collections.OrderedDict()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"<raggedvit.Model {self.info.architecture} on {self.device.name} ({self.device.backend})>"

    def classify(self, images: Any, policy: str = "none", keep: float | None = None, *, blocks: Sequence[int] | None = None,
                 threshold: float | None = None, mass: float | None = None, n_samples: int | None = None, merges: int | None = None,
                 seed: int | None = None, mask: Any = None, features: bool = False, cls_attention: bool = False) -> Result:
        """Logits of a batch, and what was kept of it.

        images: floating point [B, channels, image_size, image_size], normalised as the checkpoint was trained; an array or what numpy can
        make one of; float32 and contiguous, it is read in place. NaN or infinity in an image makes its own logits NaN where no score is
        taken. policy: a name of policies(); "none" prunes nothing. keep, blocks, threshold, mass, n_samples, merges, seed: its parameters;
        None is its default. mask: for policy "mask", numbers or bools, nonzero = keep: [B, tokens], or [n_stages, B, tokens] with several
        blocks; the first info.n_prefix tokens (CLS, ...) must be kept. features, cls_attention: give these too.

        The first call with a batch size and a policy records a forward and allocates its memory; later ones run it.
        Raises RaggedVitError: INVALID_ARGUMENT for what breaks a rule and for NaN in the scores, UNSUPPORTED for a policy that the
        checkpoint has no weights for.
        """
        info, optional, integer, number = self.info, _checks.optional, _checks.integer, _checks.number
        images = self._images(images)
        features, cls_attention = _checks.flag("features", features), _checks.flag("cls_attention", cls_attention)
        # A negative parameter would stand for its default.
        key = (len(images), _checks.text("policy", policy), optional(number, "keep", keep, 0.0), optional(_blocks, "blocks", blocks),
               optional(number, "threshold", threshold, 0.0), optional(number, "mass", mass, 0.0),
               optional(integer, "n_samples", n_samples, 0, _checks.INT32_MAX), optional(integer, "merges", merges, 0, _checks.INT32_MAX),
               optional(integer, "seed", seed, 0, _checks.UINT64_MAX), features, cls_attention)
        session = self._session(key)
        with session.lock:
            stages = self._lib.rvit_session_n_stages(session.handle)
            run = new("rvit_run_args", n_images=len(images), images=images.ctypes.data)
            if policy == "mask":
                mask = self._mask(mask, stages, len(images))
                run.keep = mask.ctypes.data
            elif mask is not None:
                raise invalid(f"a mask is given, but the policy is {policy!r}; expected 'mask'")
            logits = np.empty((len(images), info.n_classes), np.float32) if info.n_classes else None
            self._lib.rvit_session_run(session.handle, ctypes.byref(run), None if logits is None else logits.ctypes.data)
            return self._result(session.handle, logits, stages, len(images), features, cls_attention)

    def close(self) -> None:
        """Frees the sessions and the weights now. Not while another thread is in classify; the model cannot be used afterwards."""
        with self._lock:
            for session in self._sessions.values():
                session.handle.close()
            self._sessions.clear()
            self._max_sessions = 0
        self._handle.close()

    def _images(self, images: Any) -> np.ndarray:
        info, found = self.info, host_array("images", images)
        expected = (info.channels, info.image_size, info.image_size)
        if found.dtype.kind != "f" or found.ndim != 4 or found.shape[1:] != expected:
            raise invalid(f"images are {found.dtype} {list(found.shape)}; expected [B, {', '.join(map(str, expected))}], "
                          f"normalised floating point")
        try:
            with np.errstate(over="raise"):
                return np.ascontiguousarray(found, np.float32)
        except FloatingPointError as error:
            raise invalid("images have a value that float32 does not hold; expected normalised ones") from error

    def _mask(self, mask: Any, stages: int, n_images: int) -> np.ndarray:
        if mask is None:
            raise invalid(f"the policy is 'mask', but no mask is given; expected [{n_images}, {self.info.tokens}]")
        mask = host_array("mask", mask)
        wanted = (stages, n_images, self.info.tokens)
        if mask.shape != wanted and (stages != 1 or mask.shape != wanted[1:]):
            expected = list(wanted if stages != 1 else wanted[1:])
            raise invalid(f"the mask is {list(mask.shape)}; expected {expected}, tokens with the {self.info.n_prefix} of the prefix first")
        if mask.dtype.kind not in "biuf":
            raise invalid(f"the mask is {mask.dtype}; expected numbers or bools")
        if mask.dtype.kind == "f" and np.isnan(mask).any():
            raise invalid("the mask has NaN; expected 0 for what is dropped, another number for what is kept")
        return np.ascontiguousarray(mask != 0, np.uint8)

    def _session(self, key: Any) -> _Session:
        with self._lock:
            if not self._max_sessions:
                raise invalid("the model is closed")
            session = self._sessions.get(key)
            if session is None:
                session = self._sessions[key] = _Session(self._create(*key))
                while len(self._sessions) > self._max_sessions:
                    self._sessions.popitem(last=False)
            self._sessions.move_to_end(key)
            return session

    def _create(self, n_images: int, policy: str, keep: Any, blocks: Any, threshold: Any, mass: Any, n_samples: Any, merges: Any,
                seed: Any, features: bool, cls_attention: bool) -> Handle:
        kind = ctypes.c_int()
        self._lib.rvit_prune_from_name(policy.encode(), ctypes.byref(kind))
        outputs = features * CONSTANTS["RVIT_OUTPUT_FEATURES"] + cls_attention * CONSTANTS["RVIT_OUTPUT_CLS_ATTENTION"]
        # The batch size is known, so the dense kernels may take what is not ragged.
        desc = new("rvit_session_desc", max_images=max(1, n_images), fixed_batch=int(n_images > 0), outputs=outputs)
        prune = desc.prune
        prune.type = kind.value
        for name, value in (("keep", keep), ("threshold", threshold), ("mass", mass), ("n_samples", n_samples), ("merges", merges),
                            ("seed", seed)):
            if value is not None:
                setattr(prune, name, value)
        if blocks is not None:
            prune.n_blocks, prune.blocks = len(blocks), blocks
        return self._lib.own("session", self._handle, ctypes.byref(desc), keeps=(self._handle,))

    def _result(self, session: Handle, logits: np.ndarray | None, stages: int, n: int, features: bool, cls_attention: bool) -> Result:
        lib, result = self._lib, Result(logits)
        for stage in range(stages):
            cu = copied(lib.rvit_session_cu_seqlens(session, stage), (n + 1,), np.int32)
            lengths = np.diff(cu).tolist()
            result.cu_seqlens.append(cu)
            result.kept.append([copied(lib.rvit_session_kept(session, stage, i), (length,), np.int32)
                                for i, length in enumerate(lengths)])
            if n and lib.rvit_session_sizes(session, stage, 0):
                result.sizes.append([copied(lib.rvit_session_sizes(session, stage, i), (length,), np.float32)
                                     for i, length in enumerate(lengths)])

        def rows(stage: int) -> int:
            return int(result.cu_seqlens[stage][-1]) if stage >= 0 else n * self.info.tokens

        if features:
            result.features = copied(lib.rvit_session_features(session), (rows(stages - 1), self.info.dim), np.float32)
        if cls_attention:
            laid_out_by = ctypes.c_int32(-1)
            address = lib.rvit_session_cls_attention(session, ctypes.byref(laid_out_by))
            result.cls_attention = copied(address, (rows(laid_out_by.value), self.info.n_heads), np.float32)
        return result
