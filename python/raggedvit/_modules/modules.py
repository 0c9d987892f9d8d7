"""Reads Vision Transformers of timm and Hugging Face: their weights, and the facts that the weights do not show.

It refuses whatever the library may not compute as the module does. It imports neither timm nor transformers, because
the library of a module is already loaded."""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Iterable, Iterator

from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError
from .._c.layouts import new
from .._c.library import Handle, Library
from .reader import HEAD_DIM, HF, Facts, Reader, config_text, kind_of, original_class, unsupported
from .shipped import LIBRARIES, foreign_to, functions_of, hook_runs

FLOATS = {"torch.float32": "RVIT_F32", "torch.float16": "RVIT_F16", "torch.bfloat16": "RVIT_BF16"}


def refuse_odd(facts: Facts) -> None:
    """Refuses to patch modules that are not plain, because their pruned training is not implemented."""
    if facts.odd:
        raise unsupported(
            f"module: {facts.odd}: only a plain Vision Transformer (head on the CLS token, exact GELU, LayerNorm, heads"
            f" of {HEAD_DIM} columns) can be patched; Model.from_module runs this one"
        )
    if not facts.n_classes:
        raise unsupported(
            "module has no head, and a patched module gives logits; raggedvit.Model.from_module(module) gives what it"
            " returns, as classify(images, pooled=True).pooled"
        )


def _replaced(torch: Any, parts: Iterable[tuple[str, Any]], hooks: Iterable[tuple[str, Any]]) -> Iterator[str]:
    everywhere = torch.nn.modules.module
    if hook_runs(everywhere._global_forward_hooks) or hook_runs(everywhere._global_forward_pre_hooks):
        yield "PyTorch has global forward hooks"
    for where, part in hooks:
        if hook_runs(part._forward_hooks) or hook_runs(part._forward_pre_hooks):
            yield f"module: {where or 'the module itself'} has forward hooks"
    known: dict[Any, Any] = {}
    for where, part in parts:
        cls = original_class(part)
        if cls.__module__.partition(".")[0] not in LIBRARIES:
            continue  # reading the part refuses its class
        if cls not in known:
            known[cls] = functions_of(cls)
            for function in known[cls].values():
                foreign = function.foreign()
                if foreign is not None:
                    yield f"module: {where or 'the module itself'} runs {function}, which is replaced by {foreign}"
        for owner, name in known[cls]:
            if owner is cls and name in vars(part):
                yield f"module: {where or 'the module itself'} has a {name} of its own instance"


def refuse_replaced(
    parts: Iterable[tuple[str, Any]], inside_only: bool = False, skips: str = "the recorded forward"
) -> None:
    """Refuses hooks, and functions that are not the original library's.

    inside_only: allows hooks of the module itself (the one without a name), which still run because it is called.
    """
    parts = list(parts)
    for sentence in _replaced(sys.modules["torch"], parts, [part for part in parts if part[0] or not inside_only]):
        raise unsupported(f"{sentence}, which {skips} would skip; remove it")


def read(module: Any, inside_only: bool = False) -> Facts:
    """Returns the facts of a module. The error UNSUPPORTED names a part that the library computes differently."""
    kind = kind_of(module)
    refuse_replaced(module.named_modules(), inside_only)
    if kind == "hf":
        return _read_hf(Reader(module), module)
    from . import timm as timm_modules

    name = original_class(module).__name__
    return timm_modules.read(Reader(module), module, name == "Eva", name == "VisionTransformerDistilled")


def expect_heads(r: Reader, where: str, dim: int, heads: int, scale: float) -> None:
    r.expect(
        heads * HEAD_DIM == dim, where, f"has {heads} heads of {dim // heads} columns; expected {HEAD_DIM} columns each"
    )
    r.expect(abs(scale - HEAD_DIM**-0.5) < 1e-9, where, f"scales by {scale}; expected 1 / sqrt({HEAD_DIM})")


def backbone(m: Any) -> Any:
    """The ViTModel or DeiTModel inside one of Hugging Face's classifiers."""
    return getattr(m, HF[original_class(m).__name__])


def expect_attention(r: Reader, where: str, attention: Any) -> None:
    """Expects that the attention function of a layer is one of transformers', or ours."""
    home, name = sys.modules[type(attention).__module__], attention.config._attn_implementation
    try:
        function: Any = home.ALL_ATTENTION_FUNCTIONS.get_interface(name, home.eager_attention_forward)
    except KeyError:
        function = None
    foreign = "nothing" if function is None else foreign_to(function)
    r.expect(
        foreign is None,
        where,
        f"runs attn_implementation {name!r}, which is {foreign}; set_attn_implementation('sdpa')",
    )


def _read_hf(r: Reader, m: Any) -> Facts:
    config, inner = m.config, backbone(m)
    r.expect(hasattr(inner, "layers"), "its backbone", "has no layers of the kind that transformers 5 has")
    act = config.hidden_act
    r.expect(act in ("gelu", "gelu_python"), "config.hidden_act", f"is {act!r}; expected the exact 'gelu'")
    r.part("its backbone", inner, "transformers", "ViTModel", "DeiTModel")
    r.part("embeddings", inner.embeddings, "transformers", "ViTEmbeddings", "DeiTEmbeddings")
    r.part(
        "embeddings.patch_embeddings",
        inner.embeddings.patch_embeddings,
        "transformers",
        "ViTPatchEmbeddings",
        "DeiTPatchEmbeddings",
    )
    r.patches("embeddings.patch_embeddings.projection", inner.embeddings.patch_embeddings.projection)
    r.nothing("embeddings.dropout", inner.embeddings.dropout)
    r.norm("layernorm", inner.layernorm)
    r.part("layers", inner.layers, "torch", "ModuleList")
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
        expect_attention(r, f"{where}.attention", attention)
        expect_heads(r, f"{where}.attention", config.hidden_size, attention.num_attention_heads, attention.scaling)
        r.part(f"{where}.mlp", layer.mlp, "transformers", "ViTMLP", "DeiTMLP")
        r.part(f"{where}.mlp.activation_fn", layer.mlp.activation_fn, "transformers", "GELUActivation")
        gelu = getattr(layer.mlp.activation_fn.act, "__name__", "")
        r.expect(
            gelu in ("gelu", "_gelu_python"),
            f"{where}.mlp.activation_fn.act",
            f"is {gelu or 'no function'}; expected gelu",
        )
        r.linear(f"{where}.mlp.fc1", layer.mlp.fc1)
        r.linear(f"{where}.mlp.fc2", layer.mlp.fc2)
    teacher = original_class(m).__name__.endswith("WithTeacher")
    classes = r.heads(m, *(("cls_classifier", "distillation_classifier") if teacher else ("classifier",)))
    n_prefix = 2 if hasattr(inner.embeddings, "distillation_token") else 1
    size = r.square("config.image_size", config.image_size)
    text = config_text(
        norm_eps=r.eps(),
        num_heads=config.num_attention_heads,
        act_layer="gelu",
        img_size=[size, size],
        class_token=True,
        reg_tokens=0,
        global_pool="token",
        norm_layer="layernorm",
        position="table",
    )
    return Facts(
        "hf",
        text,
        size,
        size,
        n_prefix,
        config.num_attention_heads,
        len(inner.layers),
        classes,
        teacher and classes > 0,
    )


def label_names(module: Any) -> list[str] | None:
    """Returns the class names of Hugging Face's config or timm's pretrained_cfg, or None."""
    labels = getattr(getattr(module, "config", None), "id2label", None)
    if isinstance(labels, dict):
        return [str(labels[i]) for i in sorted(labels)]
    names = pretrained_cfg(module).get("label_names")
    fits = isinstance(names, (list, tuple)) and len(names) == getattr(module, "num_classes", None)
    return [str(name) for name in names] if fits else None


def pretrained_cfg(module: Any) -> dict[str, Any]:
    """Returns timm's pretrained_cfg, or {} if there is none."""
    found = getattr(module, "pretrained_cfg", None)
    return dict(found) if isinstance(found, dict) else found.to_dict() if hasattr(found, "to_dict") else {}


def weights(module: Any) -> dict[str, Any]:
    """Returns the parameters and buffers of a module's state by their names."""
    torch, found = sys.modules["torch"], {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, tensor in [*part._parameters.items(), *part._buffers.items()]:
            where = f"module: {prefix}{'.' if prefix else ''}{name}"
            if tensor is None or name in part._non_persistent_buffers_set:
                continue
            if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
                raise unsupported(
                    f"{where} is a {type(tensor).__module__}.{type(tensor).__qualname__}; expected a plain tensor"
                )
            if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
                raise unsupported(f"{where} is a tensor of a transform of torch.func, which has no values of its own")
            if tensor.is_meta:
                raise unsupported(f"{where} is on the meta device, where it has no values")
            if tensor.layout is not torch.strided:
                raise unsupported(f"{where} is {str(tensor.layout)[6:]}; expected dense weights (to_dense())")
            if not tensor.is_floating_point():
                raise unsupported(f"{where} is {str(tensor.dtype)[6:]}; expected floating-point weights")
            found[where[len("module: ") :]] = tensor
    return found


def drops(module: Any) -> bool:
    """Whether a part of a module with dropout is in training mode."""
    return any(
        part.training and any(getattr(part, name, 0) for name in ("p", "drop_prob", "prob", "attention_dropout"))
        for part in module.modules()
    )


def tensors(module: Any) -> dict[str, Any]:
    """Returns the weights by name, contiguous on the CPU, without a copy where possible."""
    torch, found = sys.modules["torch"], {}
    for name, tensor in weights(module).items():
        tensor = tensor.detach()
        if str(tensor.dtype) not in FLOATS:
            tensor = tensor.to(torch.float32)
        found[name] = tensor.to("cpu").resolve_neg().contiguous()
    return found


def checkpoint(lib: Library, module: Any, facts: Facts) -> Handle:
    """Creates a checkpoint from a module's tensors, and keeps them alive."""
    held = tensors(module)
    descs = (type(new("rvit_tensor_desc")) * len(held))()
    shapes = [(ctypes.c_int64 * max(1, t.ndim))(*t.shape) for t in held.values()]
    for desc, (name, tensor), shape in zip(descs, held.items(), shapes):
        desc.struct_size = ctypes.sizeof(desc)
        desc.name, desc.dtype = name.encode(), CONSTANTS[FLOATS[str(tensor.dtype)]]
        desc.rank, desc.shape, desc.data = tensor.ndim, ctypes.addressof(shape), tensor.data_ptr()
    desc = new(
        "rvit_checkpoint_desc", config=facts.config.encode(), tensors=ctypes.addressof(descs), n_tensors=len(held)
    )
    try:
        made = lib.own("checkpoint", None, ctypes.byref(desc), create="rvit_checkpoint_open", keeps=(held, descs))
    except RaggedVitError as error:
        raise RaggedVitError(error.status, f"module: {error}") from None
    info = new("rvit_model_info")
    lib.rvit_checkpoint_get_model_info(made, ctypes.byref(info))
    for field in ("image_height", "image_width", "n_prefix", "n_heads", "depth", "n_classes", "distilled"):
        if getattr(info, field) != getattr(facts, field):
            raise unsupported(
                f"module: its {field} is {getattr(facts, field)}, its weights read as a model of {getattr(info, field)}"
            )
    return made


def device_of(module: Any) -> tuple[str, int]:
    """Returns the backend and the index of a module's device."""
    devices = {tensor.device for tensor in weights(module).values()}
    if len(devices) != 1:
        raise unsupported(f"module is on {len(devices)} devices: {', '.join(sorted(map(str, devices)))}; expected one")
    device = devices.pop()
    if device.type not in ("cpu", "cuda"):
        raise unsupported(f"module is on {device}; expected a CPU or a CUDA device")
    return device.type, device.index if device.type == "cuda" else -1


def storage_of(module: Any) -> str:
    """Returns the dtype of a module's weights; "f32" for mixed and wider types."""
    kinds = {str(tensor.dtype) for tensor in weights(module).values()}
    return "f16" if kinds == {"torch.float16"} else "bf16" if kinds == {"torch.bfloat16"} else "f32"
