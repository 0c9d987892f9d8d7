"""Saves modules as .safetensors files. The facts that the weights do not show go to the metadata."""

from __future__ import annotations

import ctypes
import json
import os
import secrets
import stat
import struct
from typing import TYPE_CHECKING, Any

from .._c import checks
from .._c.errors import RaggedVitError, Status, invalid
from .._c.layouts import new
from .._c.library import Handle, Library, library
from . import modules
from .reader import Facts

if TYPE_CHECKING:
    import torch

#: Files that override the metadata of a checkpoint beside them.
OVERRIDES = (
    "config.json",
    "preprocessor_config.json",
    "processor_config.json",
    "open_clip_config.json",
    "hf_quant_config.json",
)
#: The keys of a pretrained_cfg for preprocessing.
PREPROCESSING = ("mean", "std", "interpolation", "crop_pct", "crop_mode")
NAMES = {"torch.float32": ("F32", 4), "torch.float16": ("F16", 2), "torch.bfloat16": ("BF16", 2)}
#: Facts in which a file must agree with its module.
SAME = (
    "family",
    "image_height",
    "image_width",
    "patch_size",
    "channels",
    "dim",
    "n_heads",
    "depth",
    "mlp_dim",
    "n_prefix",
    "tokens",
    "n_classes",
    "eps",
    "n_parameters",
    "distilled",
    "n_registers",
    "activation",
    "pooling",
    "position",
    "rms_norm",
    "gated",
    "final_norm",
    "norm_pre",
    "resample",
)


def save(module: torch.nn.Module, path: str | os.PathLike[str], *, processor: Any = None) -> None:
    """Writes a module as a .safetensors file.

    Model, the command line tool and C read it as the same model, bit for bit, as Model.from_module. The file has the
    weights in the module's types. Its metadata has every fact that they do not show (heads, activation, eps, pooling,
    positions) and, if the module has them, the image preprocessing and the class names.

    The file is written under a temporary name in the folder of `path`, and renamed when it is complete.

    Args:
        module: A module that Model.from_module accepts.
        path: Name of a .safetensors file.
        processor: Hugging Face's image processor of the model, which its modules do not contain. timm's modules have
            these settings in their pretrained_cfg.

    Raises:
        RaggedVitError: UNSUPPORTED names the part that from_module refuses. INVALID_ARGUMENT: path does not end in
            .safetensors, is not a regular file, or has a config.json (or similar file) beside it that would override
            the metadata. BAD_FILE: the file cannot be written, or the processor's settings contradict the module.
    """
    target = os.path.realpath(os.fsdecode(checks.path("path", path)))
    folder, base = os.path.split(target)
    if not base.endswith(".safetensors"):
        raise invalid(f"path is {target}; expected a name that ends in .safetensors")
    if os.path.lexists(target) and not os.path.isfile(target):
        raise invalid(f"path is {target}, which exists and is not a file")
    for name in OVERRIDES:
        if os.path.lexists(os.path.join(folder, name)):
            raise invalid(
                f"path is {target}, but {name} is next to it and would override the file's metadata; choose another"
                " folder"
            )
    lib, facts = library(), modules.read(module)
    wanted = _facts_of(lib, modules.checkpoint(lib, module, facts))
    metadata = _metadata(module, facts, processor)
    part = os.path.join(folder, f".{base[:64]}.{secrets.token_hex(8)}.safetensors")
    try:
        _write(
            part,
            modules.tensors(module),
            metadata,
            stat.S_IMODE(os.stat(target).st_mode) if os.path.exists(target) else None,
        )
        found = _facts_of(lib, lib.own("checkpoint", os.fsencode(part), None, create="rvit_checkpoint_open"))
        for name in SAME:
            if found[name] != wanted[name]:
                raise RaggedVitError(
                    Status.INTERNAL,
                    f"module: its {name} is {wanted[name]}, but reads as {found[name]} once it is saved",
                )
        os.replace(part, target)
    except OSError as error:
        raise RaggedVitError(Status.BAD_FILE, f"{target}: cannot be written: {error.strerror or error}") from error
    except RaggedVitError as error:
        raise RaggedVitError(error.status, str(error).replace(part, target)) from None
    finally:
        try:
            os.unlink(part)
        except OSError:
            pass


def _metadata(module: Any, facts: Facts, processor: Any) -> dict[str, str]:
    config, cfg, names = json.loads(facts.config), modules.pretrained_cfg(module), modules.label_names(module)
    settings = {key: cfg[key] for key in PREPROCESSING if cfg.get(key) is not None}
    if processor is not None:
        if not hasattr(processor, "to_dict"):
            raise invalid(f"processor is {checks.shown(processor)}; expected an image processor of Hugging Face's")
        # to_json_string also converts values that json cannot.
        config["preprocessor_config"] = json.loads(processor.to_json_string())
    elif "mean" in settings and "std" in settings:
        config["pretrained_cfg"] = {**settings, "input_size": [3, facts.image_height, facts.image_width]}
    metadata = {"format": "pt"}
    if names:
        config["label_names"] = names
        if not any("," in name for name in names):
            metadata["classes"] = ",".join(names)
    metadata["config"] = json.dumps(config, allow_nan=False)
    return metadata


def _facts_of(lib: Library, checkpoint: Handle) -> dict[str, Any]:
    info, files = new("rvit_model_info"), new("rvit_checkpoint_info")
    lib.rvit_checkpoint_get_model_info(checkpoint, ctypes.byref(info))
    lib.rvit_checkpoint_get_info(checkpoint, ctypes.byref(files))
    return {name: getattr(info if hasattr(info, name) else files, name) for name in SAME}


def _write(path: str, tensors: dict[str, Any], metadata: dict[str, str], mode: int | None) -> None:
    """Writes the file. mode: the mode of the file that it replaces."""
    header: dict[str, Any] = {"__metadata__": metadata}
    # Larger types first, as safetensors does, so that all tensors are aligned.
    order = sorted(tensors, key=lambda name: (-NAMES[str(tensors[name].dtype)][1], name))
    end = 0
    for name in order:
        tensor = tensors[name]
        kind, size = NAMES[str(tensor.dtype)]
        begin, end = end, end + size * tensor.numel()
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "xb") as file:
        if mode is not None:
            os.chmod(file.fileno() if os.chmod in os.supports_fd else path, mode)
        file.write(struct.pack("<Q", len(text)) + text)
        for name in order:
            tensor = tensors[name]
            file.write(
                memoryview((ctypes.c_char * (tensor.numel() * tensor.element_size())).from_address(tensor.data_ptr()))
                if tensor.numel()
                else b""
            )
        file.flush()
        os.fsync(file.fileno())
