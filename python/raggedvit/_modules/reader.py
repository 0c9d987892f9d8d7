"""Checks the parts of a module of timm or Hugging Face, and collects their properties."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import Any

from .._c.errors import RaggedVitError, Status

HEAD_DIM = 64  # of the modules that can be patched
TIMM = {
    "VisionTransformer": "timm.models.vision_transformer",
    "VisionTransformerDistilled": "timm.models.deit",
    "Eva": "timm.models.eva",
}
HF = {
    "ViTForImageClassification": "vit",
    "DeiTForImageClassification": "deit",
    "DeiTForImageClassificationWithTeacher": "deit",
}
# Wrappers of modules, and how to reach the module inside.
WRAPPERS = {
    "OptimizedModule": "module._orig_mod",
    "DataParallel": "module.module",
    "DistributedDataParallel": "module.module",
    "PeftModel": "module.merge_and_unload()",
}


@dataclass(frozen=True)
class Facts:
    """Facts of a module that the weights do not show, and facts that the checkpoint must confirm."""

    kind: str  # "timm" or "hf"
    config: str  # these facts as the text of a config.json
    image_height: int
    image_width: int
    n_prefix: int
    n_heads: int
    depth: int
    n_classes: int
    distilled: bool
    odd: str = ""  # the part that makes the model more than plain; only plain models can be patched


def unsupported(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.UNSUPPORTED, sentence)


def original_class(module: Any) -> Any:
    """Returns the class of a module, or the original class of a patched one."""
    return getattr(type(module), "_raggedvit_original", type(module))


def kind_of(module: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise RaggedVitError(
            Status.INVALID_ARGUMENT, f"module is a {type(module).__name__}; expected a torch.nn.Module"
        )
    cls = original_class(module)
    name, home = cls.__name__, cls.__module__
    if TIMM.get(name) == home:
        return "timm"
    if name in HF and home == f"transformers.models.{HF[name]}.modeling_{HF[name]}":
        return "hf"
    wrapper = next((base.__name__ for base in cls.__mro__ if base.__name__ in WRAPPERS), None)
    if wrapper is not None:
        raise unsupported(f"module is a {home}.{cls.__qualname__}, which wraps one; give {WRAPPERS[wrapper]}")
    raise unsupported(
        f"module is a {home}.{cls.__qualname__}; expected {' or '.join(TIMM)} of timm, or {', '.join(HF)} of Hugging"
        " Face"
    )


class Reader:
    """Checks the parts of a module. Each check names the part that it refuses."""

    def __init__(self, module: Any) -> None:
        self.torch: Any = sys.modules["torch"]
        self.module, self.norms = module, set()  # type: Any, set[float]
        self.kinds: set[str] = set()  # of the norms

    def refuse(self, where: str, what: str) -> RaggedVitError:
        return unsupported(f"module: {where} {what}")

    def expect(self, condition: Any, where: str, what: str) -> None:
        if not condition:
            raise self.refuse(where, what)

    def is_a(self, part: Any, home: str, *names: str) -> bool:
        """Whether a part has one of these classes of `home`: torch, timm or transformers.

        These packages have other classes with the same names, which compute something else.
        """
        cls = original_class(part)
        if home == "torch":
            return cls in [getattr(self.torch.nn, name) for name in names]
        inside = cls.__module__.startswith("timm.layers.") or cls.__module__ in TIMM.values()
        return cls.__name__ in names and (inside if home == "timm" else cls.__module__.split(".")[0] == home)

    def part(self, where: str, part: Any, home: str, *names: str) -> None:
        self.expect(
            self.is_a(part, home, *names),
            where,
            f"is a {type(part).__module__}.{type(part).__qualname__}; expected {' or '.join(names)} of {home}",
        )

    def linear(self, where: str, part: Any, needs_bias: bool = True) -> None:
        self.part(where, part, "torch", "Linear")
        self.expect(part.bias is not None or not needs_bias, where, "has no bias")

    def is_norm(self, part: Any) -> bool:
        return type(part) is self.torch.nn.LayerNorm or self.is_a(part, "timm", "LayerNorm", "RmsNorm")

    def norm(self, where: str, part: Any) -> None:
        self.expect(self.is_norm(part), where, f"is a {type(part).__qualname__}; expected LayerNorm")
        rms = type(part).__name__ == "RmsNorm"
        self.expect(part.weight is not None and (rms or part.bias is not None), where, "has no weight or no bias")
        self.norms.add(float(part.eps))
        self.kinds.add("rmsnorm" if rms else "layernorm")

    def optional_norm(self, where: str, part: Any) -> None:
        if part is not None and type(part) is not self.torch.nn.Identity:
            self.norm(where, part)

    def norm_kind(self) -> str:
        self.expect(len(self.kinds) == 1, "its norms", "are LayerNorm and RmsNorm")
        return self.kinds.pop()

    def nothing(self, where: str, part: Any, *names: str) -> None:
        """Expects a part that is the identity in eval mode."""
        passes = type(part) in (self.torch.nn.Identity, self.torch.nn.Dropout) or self.is_a(part, "timm", *names)
        self.expect(part is None or passes, where, f"is a {type(part).__qualname__}; expected none")

    def heads(self, module: Any, *names: str) -> int:
        """Returns the number of classes; 0 without a head."""
        for where in names:
            part = getattr(module, where)
            if type(part) is not self.torch.nn.Identity:
                self.linear(where, part)
        return int(getattr(getattr(module, names[0]), "out_features", 0))

    def patches(self, where: str, projection: Any) -> None:
        self.part(where, projection, "torch", "Conv2d")
        p = projection
        plain = (
            p.stride == p.kernel_size
            and p.kernel_size[0] == p.kernel_size[1]
            and tuple(p.dilation) == (1, 1)
            and p.groups == 1
            and p.padding in (0, (0, 0), "valid")
        )
        self.expect(plain, where, "is not a convolution of square patches that do not overlap")

    def square(self, where: str, size: Any) -> int:
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        self.expect(isinstance(height, int) and height == width, where, f"is {size}; expected a square")
        return int(height)

    def eps(self) -> float:
        self.expect(len(self.norms) == 1, "its LayerNorms", f"have several eps: {sorted(self.norms)}")
        return self.norms.pop()


def config_text(**arguments: Any) -> str:
    """Returns a config.json in timm's style, with additional arguments for facts that timm's arguments do not have."""
    return json.dumps({"architecture": "a module", "model_args": arguments})
