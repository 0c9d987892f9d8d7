"""Devices, policies, and the geometry of a model, as the library reports them."""

from __future__ import annotations

import ctypes
import re
from dataclasses import dataclass
from typing import Any

from . import checks
from .constants import CONSTANTS
from .errors import RaggedVitError, Status, invalid
from .layouts import new
from .library import library


def named(prefix: str) -> dict[str, int]:
    """Returns an enum's values by their names in lower case: "cuda" is RVIT_BACKEND_CUDA."""
    return {name[len(prefix) :].lower(): value for name, value in CONSTANTS.items() if name.startswith(prefix)}


BACKENDS = named("RVIT_BACKEND_")
PRECISIONS = named("RVIT_PRECISION_")
TIERS = named("RVIT_TIER_")
KINDS = named("RVIT_DEVICE_KIND_")
PARAMETERS = {
    name: CONSTANTS["RVIT_PRUNE_" + name.removeprefix("n_").upper()]
    for name in ("keep", "blocks", "threshold", "mass", "n_samples", "merges", "seed", "alpha", "object_block", "tau")
}
TORCH_DTYPES = {"torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}


def name_of(table: dict[str, int], value: int) -> str:
    return next((name for name, number in table.items() if number == value), str(value))


def device_of(argument: str, device: Any) -> tuple[int, int]:
    """Returns the backend and the index of "cuda", "cuda:1" or a torch.device; index -1: the library chooses."""
    text = str(device) if isinstance(device, str) or type(device).__module__ == "torch" else ""
    name, colon, number = text.partition(":")
    if name not in BACKENDS or (colon and (name == "auto" or not re.fullmatch("[0-9]{1,9}", number))):
        raise invalid(
            f"{argument} is {checks.shown(device)}; expected one of {', '.join(BACKENDS)}, one with an index, such as"
            " 'cuda:0', or a torch.device"
        )
    return BACKENDS[name], int(number) if colon else -1


def precision_of(argument: str, dtype: Any) -> str:
    """Returns the name of a precision: "f16" for "f16" and for torch.float16."""
    name = TORCH_DTYPES.get(str(dtype), dtype) if type(dtype).__module__ == "torch" else dtype
    checks.choice(argument, name, PRECISIONS)
    return str(name)


@dataclass(frozen=True)
class DeviceInfo:
    """A device, or a backend that cannot be used. str() is its name in PyTorch's style: "cpu", "cuda:0", "vulkan:0".

    Attributes:
        backend: "cpu", "cuda" or "vulkan".
        index: Number of the device within its backend; -1 for a backend that cannot be used.
        name: Name of the device.
        driver: Name and version of the driver.
        tier: The tier of Vulkan kernels that "auto" selects.
        is_software: Whether the processor emulates the device.
        memory_size: Bytes of device memory; 0 if unknown.
        uuid: Identifies a GPU; the same through CUDA and Vulkan.
        note: Why the backend, or a higher tier, is not used; else empty.
        kind: "discrete", "integrated", "virtual", "other", "cpu" or "unknown".
        memory_free: Free bytes of device memory; 0 if unknown, as for CUDA before a model is on the device.
        pci_address: Identifies a GPU, as uuid does.
    """

    backend: str
    index: int
    name: str
    driver: str
    tier: str
    is_software: bool
    memory_size: int
    uuid: bytes
    note: str
    kind: str
    memory_free: int
    pci_address: str

    def __str__(self) -> str:
        return self.backend if self.backend == "cpu" else f"{self.backend}:{self.index}"

    @classmethod
    def of(cls, info: Any) -> DeviceInfo:
        text = {
            field: getattr(info, field).decode(errors="replace") for field in ("name", "driver", "note", "pci_address")
        }
        return cls(
            backend=name_of(BACKENDS, info.backend),
            index=info.index,
            tier=name_of(TIERS, info.tier),
            is_software=bool(info.is_software),
            memory_size=info.memory_size,
            uuid=bytes(info.uuid),
            kind=name_of(KINDS, info.kind),
            memory_free=info.memory_free,
            **text,
        )


@dataclass(frozen=True)
class PolicyInfo:
    """A pruning policy and the defaults of its parameters. None: no default.

    Attributes:
        name: Name of the policy.
        summary: What it does.
        source: Where it is published.
        site: Where in a block it prunes.
        parameters: The parameters of Policy that it uses.
        keep, threshold, mass, n_samples, merges, alpha, tau: Defaults of these parameters.
        blocks: The blocks that prune; one below 0 counts from the end of the model (-1 is its last).
        to_last_block: Whether every block from blocks[0] to the last one prunes.
        object_part: The default of object_block as a fraction of the model's blocks (include/raggedvit/prune.h).
    """

    name: str
    summary: str
    source: str
    site: str
    parameters: tuple[str, ...]
    keep: float | None
    blocks: tuple[int, ...]
    to_last_block: bool
    threshold: float | None
    mass: float | None
    n_samples: int
    merges: int
    alpha: float | None
    object_part: float | None
    tau: float | None


@dataclass(frozen=True)
class ModelInfo:
    """A model's geometry, and properties from its files. include/raggedvit/model.h documents the fields."""

    architecture: str
    family: str
    image_size: int
    patch_size: int
    channels: int
    dim: int
    n_heads: int
    head_dim: int
    depth: int
    mlp_dim: int
    n_prefix: int
    tokens: int
    n_classes: int
    eps: float
    n_parameters: int
    distilled: bool
    n_registers: int
    n_predictors: int
    trained_size: int
    embedding_dim: int
    image_height: int
    image_width: int
    merge: int
    merged_dim: int
    n_deepstack: int
    window: int
    patch_frames: int
    min_pixels: int
    max_pixels: int

    @property
    def image_shape(self) -> tuple[int, int, int]:
        """Channels, lines and columns of one image."""
        return self.channels, self.image_height, self.image_width

    @classmethod
    def of(cls, info: Any, files: Any, recipe: Any) -> ModelInfo:
        """Joins a rvit_model_info, a rvit_checkpoint_info and a rvit_image_recipe."""
        structs = (info, files, recipe)
        values = {
            field: getattr(next(struct for struct in structs if hasattr(struct, field)), field)
            for field in cls.__dataclass_fields__
        }
        values["architecture"], values["family"] = info.architecture.decode(), info.family.decode()
        values["distilled"] = bool(info.distilled)
        return cls(**values)


def devices(unusable: bool = False) -> list[DeviceInfo]:
    """Lists the devices of all built-in backends, in order of preference.

    Args:
        unusable: Also list each backend that cannot be used, with index -1 and the reason in `note`.

    Returns:
        A list of DeviceInfo.
    """
    lib, n = library(), ctypes.c_int32()
    lib.rvit_device_list(None, 0, ctypes.byref(n))
    kind = type(new("rvit_device_info"))
    infos = (kind * n.value)()
    for info in infos:
        info.struct_size = ctypes.sizeof(kind)
    lib.rvit_device_list(infos, len(infos), ctypes.byref(n))
    return [DeviceInfo.of(info) for info in infos[: n.value] if unusable or info.index >= 0]


def policies() -> list[PolicyInfo]:
    """Lists all pruning policies, including "none".

    Returns:
        A list of PolicyInfo.
    """
    lib, info = library(), new("rvit_prune_info")
    found: list[PolicyInfo] = []

    def default(value: float) -> float | None:
        return None if value < 0 else value

    while True:
        try:
            lib.rvit_prune_list(len(found), ctypes.byref(info))
        except RaggedVitError as error:
            if error.status != Status.INVALID_ARGUMENT:
                raise
            return found
        text = {field: getattr(info, field).decode() for field in ("name", "summary", "source", "site")}
        n = info.n_default_blocks
        found.append(
            PolicyInfo(
                **text,
                parameters=tuple(name for name, bit in PARAMETERS.items() if info.parameters & bit),
                keep=default(info.default_keep),
                blocks=tuple(info.default_blocks[: 1 if n < 0 else n]),
                to_last_block=n < 0,
                threshold=default(info.default_threshold),
                mass=default(info.default_mass),
                n_samples=info.default_samples,
                merges=info.default_merges,
                alpha=default(info.default_alpha),
                object_part=default(info.default_object_part),
                tau=default(info.default_tau),
            )
        )
