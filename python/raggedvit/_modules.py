"""Vision Transformers of timm and Hugging Face as the library reads them: the facts that no weight tells, the weights, and the refusal of
whatever is not certainly right. No library is imported here: a module brings its own."""

from __future__ import annotations

import ctypes
import sys
from dataclasses import dataclass
from typing import Any, Iterator

from ._constants import CONSTANTS
from ._errors import RaggedVitError, Status
from ._layouts import new
from ._library import Handle, Library

HEAD_DIM = 64
TIMM = {"VisionTransformer": "timm.models.vision_transformer", "VisionTransformerDistilled": "timm.models.deit"}
HF = {"ViTForImageClassification": "vit", "DeiTForImageClassification": "deit", "DeiTForImageClassificationWithTeacher": "deit"}
FLOATS = {"torch.float32": "RVIT_F32", "torch.float16": "RVIT_F16", "torch.bfloat16": "RVIT_BF16"}


@dataclass(frozen=True)
class Facts:
    """What the weights do not tell, and what they must turn out to tell."""

    kind: str  # "timm" or "hf"
    eps: float
    image_size: int
    n_prefix: int
    n_heads: int
    depth: int
    n_classes: int
    distilled: bool


def unsupported(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.UNSUPPORTED, sentence)


def original_class(module: Any) -> Any:
    """The class that a patched module had, or has."""
    return getattr(type(module), "_raggedvit_original", type(module))


def kind_of(module: Any) -> str:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(module, torch.nn.Module):
        raise RaggedVitError(Status.INVALID_ARGUMENT, f"module is a {type(module).__name__}; expected a torch.nn.Module")
    cls = original_class(module)
    name, home = cls.__name__, cls.__module__
    if TIMM.get(name) == home:
        return "timm"
    if name in HF and home == f"transformers.models.{HF[name]}.modeling_{HF[name]}":
        return "hf"
    raise unsupported(f"module is a {home}.{cls.__qualname__}; expected {' or '.join(TIMM)} of timm, or {', '.join(HF)} of Hugging Face")


class _Reader:
    """Looks at a module's parts; each check names the part that it refuses."""

    def __init__(self, module: Any) -> None:
        self.torch: Any = sys.modules["torch"]
        self.module, self.norms = module, set()  # type: Any, set[float]

    def refuse(self, where: str, what: str) -> RaggedVitError:
        return unsupported(f"module: {where} {what}")

    def expect(self, condition: Any, where: str, what: str) -> None:
        if not condition:
            raise self.refuse(where, what)

    def is_a(self, part: Any, home: str, *names: str) -> bool:
        return type(part).__name__ in names and type(part).__module__.split(".")[0] == home

    def part(self, where: str, part: Any, home: str, *names: str) -> None:
        self.expect(self.is_a(part, home, *names), where, f"is a {type(part).__module__}.{type(part).__qualname__}; expected "
                    f"{' or '.join(names)} of {home}")

    def linear(self, where: str, part: Any) -> None:
        self.part(where, part, "torch", "Linear")
        self.expect(part.bias is not None, where, "has no bias")

    def norm(self, where: str, part: Any) -> None:
        self.expect(type(part) is self.torch.nn.LayerNorm or self.is_a(part, "timm", "LayerNorm"), where,
                    f"is a {type(part).__qualname__}; expected LayerNorm")
        self.expect(part.weight is not None and part.bias is not None, where, "has no weight or no bias")
        self.norms.add(float(part.eps))

    def nothing(self, where: str, part: Any, *names: str) -> None:
        """A part that passes on what it is given when the module is evaluated."""
        passes = type(part) in (self.torch.nn.Identity, self.torch.nn.Dropout) or self.is_a(part, "timm", *names)
        self.expect(part is None or passes, where, f"is a {type(part).__qualname__}; expected none")

    def heads(self, module: Any, *names: str) -> int:
        """The number of classes; 0 without a head."""
        for where in names:
            part = getattr(module, where)
            if type(part) is not self.torch.nn.Identity:
                self.linear(where, part)
        return int(getattr(getattr(module, names[0]), "out_features", 0))

    def patches(self, where: str, projection: Any) -> None:
        self.part(where, projection, "torch", "Conv2d")
        p = projection
        plain = (p.stride == p.kernel_size and p.kernel_size[0] == p.kernel_size[1] and tuple(p.dilation) == (1, 1) and p.groups == 1
                 and p.padding in (0, (0, 0), "valid"))
        self.expect(plain, where, "is not a convolution of square patches that do not overlap")

    def square(self, where: str, size: Any) -> int:
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        self.expect(isinstance(height, int) and height == width, where, f"is {size}; expected a square")
        return int(height)

    def eps(self) -> float:
        self.expect(len(self.norms) == 1, "its LayerNorms", f"have several eps: {sorted(self.norms)}")
        return self.norms.pop()


def _hooked(torch: Any, module: Any, inside_only: bool) -> Iterator[str]:
    everywhere = torch.nn.modules.module
    if everywhere._global_forward_hooks or everywhere._global_forward_pre_hooks:
        yield "PyTorch has global forward hooks"
    for name, part in module.named_modules():
        where = f"module: {name or 'the module itself'}"
        if (part._forward_hooks or part._forward_pre_hooks) and (name or not inside_only):
            yield f"{where} has forward hooks"
        if "forward" in vars(part):
            yield f"{where} has a forward of its own instance"


def refuse_hooks(module: Any, inside_only: bool = False) -> None:
    """inside_only: hooks of the module itself run all the same, because it is still called as a module."""
    for sentence in _hooked(sys.modules["torch"], module, inside_only):
        raise unsupported(f"{sentence}, which the recorded forward would skip; remove them")


def read(module: Any, inside_only: bool = False) -> Facts:
    """The facts of a module that the library computes as the module does. UNSUPPORTED names what stands in the way."""
    kind = kind_of(module)
    refuse_hooks(module, inside_only)
    return _read_timm(_Reader(module), module) if kind == "timm" else _read_hf(_Reader(module), module)


def _read_timm(r: _Reader, m: Any) -> Facts:
    r.expect(m.global_pool == "token", "global_pool", f"is {m.global_pool!r}; expected 'token'")
    r.expect(not m.dynamic_img_size, "dynamic_img_size", "is set; the recorded forward has one image size")
    r.expect(m.cls_token is not None, "cls_token", "is missing")
    r.expect(m.pos_embed is not None, "pos_embed", "is missing")
    r.expect(getattr(m, "attn_pool", None) is None, "attn_pool", "is given; expected a head on the CLS token")
    r.part("patch_embed", m.patch_embed, "timm", "PatchEmbed")
    r.patches("patch_embed.proj", m.patch_embed.proj)
    r.expect(m.patch_embed.proj.bias is not None, "patch_embed.proj", "has no bias")
    r.nothing("patch_embed.norm", m.patch_embed.norm)
    r.expect(not m.patch_embed.dynamic_img_pad and m.patch_embed.flatten, "patch_embed", "pads images, or does not flatten")
    r.nothing("patch_drop", m.patch_drop, "PatchDropout")
    for where in ("pos_drop", "norm_pre", "fc_norm", "head_drop"):
        r.nothing(where, getattr(m, where, None))
    r.norm("norm", m.norm)
    dim = m.embed_dim
    for i, block in enumerate(m.blocks):
        where = f"blocks.{i}"
        r.part(where, block, "timm", "Block")
        r.norm(f"{where}.norm1", block.norm1)
        r.norm(f"{where}.norm2", block.norm2)
        for scale in ("ls1", "ls2"):
            r.nothing(f"{where}.{scale}", getattr(block, scale, None), "LayerScale")
        for drop in ("drop_path1", "drop_path2"):
            r.nothing(f"{where}.{drop}", getattr(block, drop, None), "DropPath")
        attention = block.attn
        r.part(f"{where}.attn", attention, "timm", "Attention")
        r.expect(getattr(attention, "gate", None) is None, f"{where}.attn.gate", "is given; gated attention is not supported")
        for part in ("q_norm", "k_norm", "norm", "attn_drop", "proj_drop"):
            r.nothing(f"{where}.attn.{part}", getattr(attention, part, None))
        r.linear(f"{where}.attn.qkv", attention.qkv)
        r.linear(f"{where}.attn.proj", attention.proj)
        _heads(r, f"{where}.attn", dim, attention.num_heads, attention.scale)
        r.part(f"{where}.mlp", block.mlp, "timm", "Mlp")
        r.nothing(f"{where}.mlp.norm", getattr(block.mlp, "norm", None))
        activation = block.mlp.act
        r.expect(type(activation) is r.torch.nn.GELU and activation.approximate == "none" or r.is_a(activation, "timm", "GELU"),
                 f"{where}.mlp.act", f"is {activation}; expected the exact GELU")
        r.linear(f"{where}.mlp.fc1", block.mlp.fc1)
        r.linear(f"{where}.mlp.fc2", block.mlp.fc2)
    distilled = original_class(m).__name__ == "VisionTransformerDistilled"
    classes = r.heads(m, *(("head", "head_dist") if distilled else ("head",)))
    return Facts("timm", r.eps(), r.square("patch_embed.img_size", m.patch_embed.img_size), m.num_prefix_tokens, dim // HEAD_DIM,
                 len(m.blocks), classes, distilled and classes > 0)


def _heads(r: _Reader, where: str, dim: int, heads: int, scale: float) -> None:
    r.expect(heads * HEAD_DIM == dim, where, f"has {heads} heads of {dim // heads} columns; expected {HEAD_DIM} columns each")
    r.expect(abs(scale - HEAD_DIM**-0.5) < 1e-9, where, f"scales by {scale}; expected 1 / sqrt({HEAD_DIM})")


def backbone(m: Any) -> Any:
    """The ViTModel or DeiTModel inside one of Hugging Face's classifiers."""
    return getattr(m, HF[original_class(m).__name__])


def _read_hf(r: _Reader, m: Any) -> Facts:
    config, inner = m.config, backbone(m)
    r.expect(hasattr(inner, "layers"), "its backbone", "has no layers of the kind that transformers 5 has")
    act = config.hidden_act
    r.expect(act in ("gelu", "gelu_python"), "config.hidden_act", f"is {act!r}; expected the exact 'gelu'")
    r.patches("embeddings.patch_embeddings.projection", inner.embeddings.patch_embeddings.projection)
    r.nothing("embeddings.dropout", inner.embeddings.dropout)
    r.norm("layernorm", inner.layernorm)
    for i, layer in enumerate(inner.layers):
        where = f"layers.{i}"
        r.part(where, layer, "transformers", "ViTLayer", "DeiTLayer")
        r.norm(f"{where}.layernorm_before", layer.layernorm_before)
        r.norm(f"{where}.layernorm_after", layer.layernorm_after)
        r.nothing(f"{where}.dropout", layer.dropout)
        attention = layer.attention
        r.part(f"{where}.attention", attention, "transformers", "ViTAttention", "DeiTAttention")
        for part in ("q_proj", "k_proj", "v_proj", "o_proj"):
            r.linear(f"{where}.attention.{part}", getattr(attention, part))
        _heads(r, f"{where}.attention", config.hidden_size, attention.num_attention_heads, attention.scaling)
        r.part(f"{where}.mlp", layer.mlp, "transformers", "ViTMLP", "DeiTMLP")
        r.part(f"{where}.mlp.activation_fn", layer.mlp.activation_fn, "transformers", "GELUActivation")
        r.linear(f"{where}.mlp.fc1", layer.mlp.fc1)
        r.linear(f"{where}.mlp.fc2", layer.mlp.fc2)
    teacher = original_class(m).__name__.endswith("WithTeacher")
    classes = r.heads(m, *(("cls_classifier", "distillation_classifier") if teacher else ("classifier",)))
    n_prefix = 2 if hasattr(inner.embeddings, "distillation_token") else 1
    return Facts("hf", r.eps(), r.square("config.image_size", config.image_size), n_prefix, config.num_attention_heads, len(inner.layers),
                 classes, teacher and classes > 0)


def tensors(module: Any) -> dict[str, Any]:
    """The weights by their names, on the CPU, contiguous: those of the module itself where they are."""
    torch, found = sys.modules["torch"], {}
    for name, tensor in module.state_dict().items():
        if tensor.is_meta:
            raise unsupported(f"module: {name} is on the meta device, where it has no values")
        if not tensor.is_floating_point():
            raise unsupported(f"module: {name} is {str(tensor.dtype)[6:]}; expected floating-point weights")
        tensor = tensor.detach()
        if str(tensor.dtype) not in FLOATS:
            tensor = tensor.to(torch.float32)
        found[name] = tensor.to("cpu").contiguous()
    return found


def checkpoint(lib: Library, module: Any, facts: Facts) -> Handle:
    """A checkpoint of a module's tensors, which live as long as it does."""
    held = tensors(module)
    n = len(held)
    descs = (type(new("rvit_tensor_desc")) * n)()
    shapes = [(ctypes.c_int64 * max(1, t.ndim))(*t.shape) for t in held.values()]
    for desc, (name, tensor), shape in zip(descs, held.items(), shapes):
        desc.struct_size = ctypes.sizeof(desc)
        desc.name, desc.dtype = name.encode(), CONSTANTS[FLOATS[str(tensor.dtype)]]
        desc.rank, desc.shape, desc.data = tensor.ndim, ctypes.addressof(shape), tensor.data_ptr()
    desc = new("rvit_checkpoint_desc", eps=facts.eps, n_heads=facts.n_heads, activation=CONSTANTS["RVIT_ACTIVATION_GELU"],
               pooling=CONSTANTS["RVIT_POOLING_CLS"], position=CONSTANTS["RVIT_POSITION_TABLE"])
    try:
        made = lib.own("checkpoint", ctypes.addressof(descs), n, ctypes.byref(desc), create="rvit_checkpoint_from_tensors",
                       keeps=(held, descs))
    except RaggedVitError as error:
        raise RaggedVitError(error.status, f"module: {error}") from None
    info = new("rvit_model_info")
    lib.rvit_checkpoint_get_info(made, ctypes.byref(info))
    for field in ("image_size", "n_prefix", "n_heads", "depth", "n_classes", "distilled"):
        if getattr(info, field) != getattr(facts, field):
            raise unsupported(f"module: its {field} is {getattr(facts, field)}, its weights read as a model of {getattr(info, field)}")
    return made


def place_of(module: Any) -> tuple[str, int]:
    """The backend and the index of the device that a module is on."""
    devices = {tensor.device for tensor in module.state_dict().values()}
    if len(devices) != 1:
        raise unsupported(f"module is on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}; expected one")
    device = devices.pop()
    if device.type not in ("cpu", "cuda"):
        raise unsupported(f"module is on {device}; expected a CPU or a CUDA device")
    return device.type, device.index if device.type == "cuda" else -1


def storage_of(module: Any) -> str:
    """The type of weights and activations that is the module's; "f32" for a mixture, and for those that are wider."""
    kinds = {str(tensor.dtype) for tensor in module.state_dict().values()}
    return "f16" if kinds == {"torch.float16"} else "bf16" if kinds == {"torch.bfloat16"} else "f32"
