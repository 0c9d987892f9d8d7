"""Model: a checkpoint on a device, and the ways to run images through it."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, Literal, Sequence, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._arrays.typing import TensorT
from ._c import checks
from ._c.constants import CONSTANTS
from ._c.info import device_of, named
from ._c.layouts import new
from ._c.library import refuse_copy
from ._modules import modules
from ._session.base import ModelBase
from ._session.failures import Errors, wanted
from ._session.outputs import Outputs
from ._session.patches import VariableResolution
from ._session.policy import Policy
from ._session.prepared import Prepared, refuse_encoder
from ._session.result import Result
from ._session.slots import InputSlot
from .images import RawImage

if TYPE_CHECKING:
    import torch

RESAMPLES = {
    name: CONSTANTS["RVIT_RESAMPLE_" + name.upper()] for name in ("timm", "bicubic", "bilinear", "bilinear_antialias")
}
ACTIVATIONS, POOLINGS, POSITIONS = (
    {name: value for name, value in named(prefix).items() if value != 0}
    for prefix in ("RVIT_ACTIVATION_", "RVIT_POOLING_", "RVIT_POSITION_")
)
PREPARED: dict[str, Any] = {"images": Prepared, "patches": VariableResolution, "slot": InputSlot}


def _choice(argument: str, value: str | None, table: dict[str, int]) -> int:
    """The value of a choice; 0 for None."""
    return 0 if value is None else checks.choice(argument, value, table)


class Model(ModelBase):
    """A Vision Transformer on a device.

    There are three ways to run it: `model(images)` returns logits, `model.classify(images)` returns a Result with
    everything else, and `model.prepare(...)` returns an object that runs one policy repeatedly at the least cost.

    The model records a forward the first time that a policy runs with a batch size, and keeps it with its memory.
    Each policy has separate forwards for its first two batch sizes, which is fastest. All other sizes share one,
    which doubles its capacity when necessary.

    Threads may share a model; calls that use the same recorded forward wait for one another. A forked child may
    use only models on the CPU, which then compute on one core. A model is a context manager that closes itself.

    Args:
        path: A .safetensors file, or a *.safetensors.index.json.
        device: "auto" (CUDA, then a Vulkan GPU, then the CPU), "cpu", "cuda", "cuda:1", "vulkan", "vulkan:0", or a
            torch.device.
        dtype: Storage of weights and activations: "f32", "f16", "bf16", or the torch.dtype of these. "int8" (CPU
            and Vulkan) and "fp8" (CUDA) use 8-bit GEMMs in the blocks. "auto" chooses the fastest of these that
            is accurate enough (rvit_precision in raggedvit/session.h); the attribute `dtype` has the choice.
        image_size: Side of the images, if it is not the checkpoint's; the position table is then resampled.
        policy: The default policy of calls.
        tier: Vulkan kernels: "auto", "scalar", "subgroup" or "matrix".
        n_threads: Threads of the CPU backend; 0: as many as the process may use.
        resample: How the position table is resampled: "timm", "bicubic", "bilinear" or "bilinear_antialias"; None: as
            the code base that the tensor names come from does it.
        lenient: Ignore tensors that nothing uses.
        max_sessions: Total number of recorded forwards to keep. The least recently used is dropped first; each CUDA
            stream has its own.
        max_batch: Largest batch. Each policy then has one forward of this capacity.
        poll_us: Microseconds that a thread polls a Vulkan device before it sleeps; 0: 2000; -1: it never polls, also
            not on CUDA (on the library's own streams).
        architecture: Name of the architecture in timm, which implies the five below; "vit" is a plain model. These
            six set properties that the weights do not show. They override a config.json beside the file and the
            file's metadata; rvit_checkpoint_open in raggedvit/session.h has the rule.
        n_heads: Number of attention heads.
        activation: "gelu", "gelu_tanh", "quick_gelu" or "silu".
        pooling: Input of the head: "cls", "mean", ...
        position: Kind of positions: "table", "rope", ...
        eps: Epsilon of the norms.

    Attributes:
        info (ModelInfo): The model's geometry.
        device (DeviceInfo): The device; str() of it is "cuda:0", as PyTorch names it.
        dtype (str): The type that the model computes in.
        dtype_reason (str): Why "auto" chose it.
        class_names (list[str] | None): Names of the classes, as the file or a config.json beside it lists them.
        cuda_index (int): PyTorch's index of the CUDA device; -1 for other devices.

    Raises:
        RaggedVitError: BAD_FILE, UNSUPPORTED, UNAVAILABLE (no such device) or INVALID_ARGUMENT.
    """

    class_names: list[str] | None

    def __init__(
        self,
        path: str | os.PathLike[str],
        device: str | torch.device = "auto",
        dtype: str | torch.dtype = "f32",
        image_size: int | None = None,
        *,
        policy: str | Policy = "none",
        tier: str = "auto",
        n_threads: int = 0,
        resample: str | None = None,
        lenient: bool = False,
        max_sessions: int = 8,
        max_batch: int | None = None,
        poll_us: int = 0,
        architecture: str | None = None,
        n_heads: int = 0,
        activation: str | None = None,
        pooling: str | None = None,
        position: str | None = None,
        eps: float = 0.0,
    ) -> None:
        encoded = checks.path("path", path)
        self._configure(policy, device_of("device", device), dtype, tier, n_threads, poll_us, max_sessions, max_batch)
        desc = new(
            "rvit_checkpoint_desc",
            lenient=checks.flag("lenient", lenient),
            image_size=0 if image_size is None else image_size,
            resample=_choice("resample", resample, RESAMPLES),
            eps=eps,
            n_heads=n_heads,
            activation=_choice("activation", activation, ACTIVATIONS),
            pooling=_choice("pooling", pooling, POOLINGS),
            position=_choice("position", position, POSITIONS),
            architecture=None if architecture is None else checks.text("architecture", architecture).encode(),
        )
        checkpoint = self._lib.own("checkpoint", encoded, ctypes.byref(desc), create="rvit_checkpoint_open")
        self._open(checkpoint)
        names = self._lib.rvit_checkpoint_metadata(checkpoint, b"classes")
        self.class_names = names.decode().split(",") if names else self._config_names(checkpoint)

    def _config_names(self, checkpoint: object) -> list[str] | None:
        info = new("rvit_checkpoint_info")
        self._lib.rvit_checkpoint_get_info(checkpoint, ctypes.byref(info))
        if info.n_class_names == 0:
            return None
        return [name.decode() for name in (ctypes.c_char_p * info.n_class_names).from_address(info.class_names)]

    @classmethod
    def from_module(
        cls,
        module: torch.nn.Module,
        device: str | torch.device | None = None,
        dtype: str | torch.dtype | None = None,
        *,
        policy: str | Policy = "none",
        tier: str = "auto",
        n_threads: int = 0,
        max_sessions: int = 8,
        max_batch: int | None = None,
        poll_us: int = 0,
        _inside_only: bool = False,
    ) -> Model:
        """Returns a model with the weights of a PyTorch module, which computes what the module does in eval mode.

        Args:
            module: A VisionTransformer, VisionTransformerDistilled or Eva of timm, or a ViTForImageClassification or
                DeiTForImageClassification(WithTeacher) of Hugging Face. The weights are copied: see update.
            device: As for Model; None: the module's.
            dtype: As for Model; None: "f16" for a float16 module, "bf16" for a bfloat16 one where the device computes
                in bf16, else "f32".
            policy, tier, n_threads, max_sessions, max_batch, poll_us: As for Model.

        Raises:
            RaggedVitError: UNSUPPORTED names the part (or hook) that the library does not compute as the module does.
        """
        facts = modules.read(module, _inside_only)
        backend, index = modules.device_of(module)
        chosen = device_of("device", backend if device is None else device)
        if device is None or (chosen[1] < 0 and str(device) == backend):
            chosen = chosen[0], index
        self = cls.__new__(cls)
        self._configure(
            policy,
            chosen,
            modules.storage_of(module) if dtype is None else dtype,
            tier,
            n_threads,
            poll_us,
            max_sessions,
            max_batch,
        )
        self._open(modules.checkpoint(self._lib, module, facts), widens=dtype is None)
        self.class_names = modules.label_names(module)
        return self

    def update(self, module: torch.nn.Module) -> None:
        """Copies the weights of a module of the same geometry. Nothing is recorded again.

        It waits for running forwards.

        Args:
            module: As for from_module.

        Raises:
            RaggedVitError: INVALID_ARGUMENT if the geometry or the eps differs; the model is then unchanged.
        """
        self._update(modules.checkpoint(self._lib, module, modules.read(module)))

    @property
    def policy(self) -> Policy:
        """The default policy of calls."""
        return self._policy

    def __reduce__(self) -> Any:
        refuse_copy("a Model")

    def __repr__(self) -> str:
        return f"<raggedvit.Model {self.info.architecture} on {self.device.name} ({self.device.backend})>"

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the sessions and the weights.

        It waits for running calls of other threads. Objects returned by prepare, and iterators of their map, keep
        the weights until they are freed. Later calls raise INVALID_ARGUMENT.
        """
        self._sessions.close()
        self._forwards.clear()
        self._streams.clear()
        self._own = None
        self._idle.clear()

    @overload
    def __call__(self, images: TensorT | Sequence[TensorT], policy: str | Policy | None = None) -> TensorT: ...

    @overload
    def __call__(
        self, images: ArrayLike | Sequence[RawImage], policy: str | Policy | None = None
    ) -> NDArray[np.float32]: ...

    def __call__(self, images: Any, policy: str | Policy | None = None) -> Any:
        """Returns the logits of a batch, float32 [B, n_classes].

        CUDA tensors (float32, float16, bfloat16; on the model's device) are read in place: the forward is enqueued on
        PyTorch's current stream, nothing is copied, and nothing waits. Such a call reports no errors of single
        images: NaN in an image, or a model that overflows its dtype, makes the logits of that image NaN. classify
        names the image. Your own streams must outlive the model. The forward cannot be captured into another CUDA
        graph. For all other images, including raw images on the device, the call waits.

        Args:
            images: As for classify.
            policy: As for classify, but not "mask".

        Returns:
            An array for arrays, a tensor on the same device for a PyTorch tensor.

        Raises:
            RaggedVitError: As classify; also INVALID_ARGUMENT for images that require a gradient (raggedvit.patch has
                gradients).
        """
        policy = self._policy_of(policy)
        prepared = self._forwards.get(policy)
        if prepared is None:
            # The proxy avoids a reference cycle, which would keep the model until the next collection.
            prepared = Prepared(self._proxy, policy)
            if len(self._forwards) >= 64:
                self._forwards.clear()
            self._forwards[policy] = prepared
        return prepared(images)

    @overload
    def classify(
        self,
        images: TensorT | Sequence[TensorT],
        policy: str | Policy | None = None,
        *,
        mask: Any = None,
        features: bool = False,
        cls_attention: bool = False,
        pooled: bool = False,
        projected: bool = False,
        normalized: bool = False,
        block_features: int | None = None,
        received_attention: int | None = None,
        errors: Errors = "raise",
    ) -> Result[TensorT]: ...

    @overload
    def classify(
        self,
        images: ArrayLike | Sequence[RawImage],
        policy: str | Policy | None = None,
        *,
        mask: Any = None,
        features: bool = False,
        cls_attention: bool = False,
        pooled: bool = False,
        projected: bool = False,
        normalized: bool = False,
        block_features: int | None = None,
        received_attention: int | None = None,
        errors: Errors = "raise",
    ) -> Result[NDArray[np.float32]]: ...

    def classify(
        self,
        images: Any,
        policy: str | Policy | None = None,
        *,
        mask: Any = None,
        features: bool = False,
        cls_attention: bool = False,
        pooled: bool = False,
        projected: bool = False,
        normalized: bool = False,
        block_features: int | None = None,
        received_attention: int | None = None,
        errors: Errors = "raise",
    ) -> Result[Any]:
        """Returns the logits of a batch, the kept tokens, and further outputs on request.

        It waits for the results. The first call with a batch size and a policy records a forward and allocates its
        memory; later calls run it.

        Args:
            images: One of

                * A normalised batch: floating point [B, channels, image_height, image_width], an array (or a value
                  that numpy converts to one) or a PyTorch tensor, on the CPU or on the model's CUDA device. A
                  contiguous float32 batch is read in place.
                * Raw images: a list of files, Pillow images and uint8 arrays [height, width, 3] of any sizes, or a
                  uint8 array [B, height, width, 3]. Threads read the files. The device resizes, crops and normalises by
                  model.recipe, with the bits of raggedvit.images.prepare; the host does it where the device cannot.
                  With recipe.max_patches (NaFlex) each image keeps its own shape.
                * Raw images in the memory of the model's CUDA device: uint8 PyTorch tensors, or arrays with
                  __cuda_array_interface__ or DLPack. The pixels of a line must be contiguous; lines may have any
                  stride. The device copies them to memory of the session, after the work on PyTorch's current stream
                  or on the streams that the arrays name; nothing goes through the host.
            policy: A Policy, or the name of one; None: the model's.
            mask: For the policy "mask": numbers or bools [B, tokens], or [n_stages, B, tokens] with several blocks.
                Nonzero keeps a token. The first info.n_prefix tokens (CLS, ...) must be kept.
            features: Also return the rows after the final norm.
            cls_attention: Also return the CLS row of the last block's attention.
            pooled: Also return the input of the head.
            projected: Also return the embeddings to compare with those of texts (CLIP, SigLIP).
            normalized: Divide the projection by its L2 norm.
            block_features: Also return the rows after this block, before any norm; below 0 counts from the end (-2:
                the last block but one).
            received_attention: Also return the attention that each row receives in this block.
            errors: "raise" raises for the first image that fails, and names it. "return" returns the results of the
                others, and Result.errors has the failed images and why they failed: images that cannot be prepared,
                scores that are NaN or cannot be added up, and results that are not finite.

        Returns:
            A Result. For PyTorch tensors its logits and optional outputs are tensors on the same device.

        Raises:
            RaggedVitError: INVALID_ARGUMENT for wrong arguments and for pixels without a result; NOT_FINITE if the
                model overflows; UNSUPPORTED for a policy that the checkpoint has no weights for, and for an output
                that the model does not have.
        """
        outputs = Outputs.of(
            self.info.depth, features, cls_attention, pooled, projected, normalized, block_features, received_attention
        )
        policy = self._policy_of(policy)
        refuse_encoder(self)
        return self._classify(images, policy, mask, outputs, wanted(errors))

    @overload
    def prepare(self, policy: str | Policy | None = None, *, inputs: Literal["images"] = "images") -> Prepared: ...

    @overload
    def prepare(
        self,
        policy: str | Policy | None = None,
        *,
        inputs: Literal["patches"],
        max_images: int = 1,
        max_tokens: int | None = None,
        max_len: int | None = None,
        on_device: bool = False,
        features: bool = False,
        cls_attention: bool = False,
        pooled: bool = False,
        projected: bool = False,
        normalized: bool = False,
        block_features: int | None = None,
        received_attention: int | None = None,
        merged: bool = False,
        deepstack: bool = False,
    ) -> VariableResolution: ...

    @overload
    def prepare(
        self,
        policy: str | Policy | None = None,
        *,
        inputs: Literal["slot"],
        max_images: int = 1,
        max_bytes: int = 1 << 24,
        device_bytes: int = 0,
        fixed_batch: bool = False,
        features: bool = False,
        cls_attention: bool = False,
        pooled: bool = False,
        projected: bool = False,
        normalized: bool = False,
        block_features: int | None = None,
        received_attention: int | None = None,
    ) -> InputSlot: ...

    def prepare(self, policy: str | Policy | None = None, *, inputs: str = "images", **options: Any) -> Any:
        """Returns an object that runs one policy repeatedly, at the least cost per call.

        Args:
            policy: As for classify, but not "mask".
            inputs: The inputs of each run:

                * "images": whole batches. Returns a Prepared, a function of images with a method `map` that overlaps
                  batches. It takes no further options.
                * "patches": patches and grids, for images of different shapes in one batch. Returns a
                  VariableResolution, a function with its own session and memory.
                * "slot": images that the caller writes into memory that the device reads. Returns an InputSlot. With
                  two of them, raggedvit.double_buffer fills one while the other runs.
            **options: Outputs, as for classify, and

                * max_images (patches, slot): Largest number of images in a batch.
                * max_tokens (patches): Largest number of tokens in a batch; None: max_images * max_len. It
                  determines the memory.
                * max_len (patches): Largest number of tokens of an image, prefix tokens included; None: info.tokens.
                * on_device (patches): Patches, merged rows and deepstack rows are PyTorch tensors on the model's CUDA
                  device, and do not pass through the host.
                * merged, deepstack (patches): Also return these rows of the vision encoders of Qwen2.5-VL and
                  Qwen3-VL, which run only in this way.
                * max_bytes (slot): Bytes of host memory for the images of a batch.
                * device_bytes (slot): Bytes for images on the CUDA device (InputSlot.add_device_image).
                * fixed_batch (slot): Every batch has exactly max_images, which makes the forward faster.

        Raises:
            RaggedVitError: As classify. A TypeError names an option that `inputs` does not take.
        """
        checks.choice("inputs", inputs, dict.fromkeys(PREPARED, 0))
        return PREPARED[inputs](self, self._policy_of(policy), **options)
