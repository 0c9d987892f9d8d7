"""Adds attn_implementation="raggedvit" to Hugging Face's vision encoders.

    raggedvit.transformers.register()
    AutoModel.from_pretrained(name, attn_implementation="raggedvit")  # an encoder: ViT, DINOv2, SigLIP, SigLIP 2
    model.set_attn_implementation({"vision_config": "raggedvit"})  # the encoder of a larger model: Qwen2.5-VL, Qwen3-VL

Encoders that pack their images (PACKED) make one call per layer, with their cu_seqlens. A padded batch with a mask is
packed before each attention and padded again after it: padding costs no attention, and its rows become zeros. There is
no silent fallback: cases that raggedvit's attention does not support (causal or other masks, dropout, grouped heads,
cross-attention) raise RaggedVitError.

It is tested with transformers 5.23 and refuses other versions, because their internals may differ.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, Optional

import torch

from ._c.errors import RaggedVitError, Status, invalid
from .torch import flash_attn_varlen_func

NAME = "raggedvit"
TESTED = "5.23"

#: Model families with encoders that call is_flash_attention_requested and, if it is true, call attention once with
#: cu_seqlens instead of once per image. Other families use it for other purposes.
PACKED = frozenset(
    (
        "cohere_compass",
        "cosmos3_edge",
        "dots3_note",
        "ernie4_5_vl_moe",
        "exaone4_5",
        "glm4v",
        "glm4v_moe",
        "glm5_next",
        "glm_image",
        "glm_ocr",
        "hunyuan_vl",
        "inkling2",
        "kimi_k25",
        "lfm3_vl",
        "minicpm_ocr",
        "minicpmv4_6",
        "minicpmv4_7",
        "minimax_m3_vl",
        "muse_glimmer",
        "muse_spark",
        "paddleocr_vl",
        "qwen2_5_omni",
        "qwen2_5_vl",
        "qwen2_vl",
        "qwen3_5",
        "qwen3_5_moe",
        "qwen3_asr",
        "qwen3_omni_moe",
        "qwen3_vl",
        "qwen3_vl_moe",
        "qwen4_exp",
        "radio",
        "video_llama_3",
    )
)

#: Arguments of attention functions that this one does not support.
REFUSED = ("cache", "head_mask", "output_attentions", "position_bias", "s_aux", "sliding_window", "softcap")

_ENCODER_ONLY = 'use it for the vision encoder only: set_attn_implementation({"vision_config": "raggedvit"})'


def register(*, untested: bool = False) -> None:
    """Registers attn_implementation="raggedvit" with transformers. May be called again.

    Args:
        untested: Also accept another version of transformers than the tested one.

    Raises:
        RaggedVitError: UNSUPPORTED for another version.
    """
    import transformers
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface
    from transformers.utils import generic

    if transformers.__version__.split(".")[:2] != TESTED.split(".") and not untested:
        raise _unsupported(
            f"transformers is {transformers.__version__}; raggedvit.transformers is tested with {TESTED}. "
            "register(untested=True) tries it nevertheless"
        )
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, padding_mask)  # without it transformers drops padding masks silently
    requested = generic.is_flash_attention_requested
    if not hasattr(requested, "_raggedvit"):
        ours = _with_packed_encoders(requested)
        # Modules that are already imported have their own reference; `generic`, one of them, serves later imports.
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get("is_flash_attention_requested") is requested:
                setattr(module, "is_flash_attention_requested", ours)


def _with_packed_encoders(requested: Callable[..., bool]) -> Callable[..., bool]:
    """Returns a version of is_flash_attention_requested that is also true for packed encoders with this attention."""

    @functools.wraps(requested)
    def is_flash_attention_requested(config: Any = None, *arguments: Any, **named: Any) -> bool:
        if config is None or arguments or named or config._attn_implementation != NAME:
            return requested(config, *arguments, **named)
        return any(
            kind.__module__.startswith("transformers.models.") and kind.__module__.split(".")[2] in PACKED
            for kind in type(config).__mro__
        )

    setattr(is_flash_attention_requested, "_raggedvit", True)
    return is_flash_attention_requested


def padding_mask(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: int = 0,
    kv_offset: int = 0,
    mask_function: Optional[Callable[..., Any]] = None,
    attention_mask: Optional[torch.Tensor] = None,
    allow_is_bidirectional_skip: bool = False,
    device: Any = None,
    **named: Any,
) -> Optional[torch.Tensor]:
    """A mask function of AttentionMaskInterface for padding masks [B, tokens].

    Returns:
        bool [B, 1, 1, tokens], or None if nothing is masked.

    Raises:
        RaggedVitError: UNSUPPORTED for causal and patterned masks.
    """
    from transformers.masking_utils import bidirectional_mask_function

    if mask_function is not bidirectional_mask_function or kv_offset != 0:
        raise _unsupported(
            f"a causal or a patterned mask is requested, which raggedvit's attention does not support; {_ENCODER_ONLY}"
        )
    if attention_mask is None:
        if allow_is_bidirectional_skip:
            return None
        return torch.ones((batch_size, 1, 1, kv_length), dtype=torch.bool, device=device)
    if attention_mask.shape[-1] < kv_length:  # as in transformers: tokens past the end of the mask are padding
        attention_mask = torch.nn.functional.pad(attention_mask, (0, kv_length - attention_mask.shape[-1]))
    return attention_mask[:, None, None, :kv_length].to(torch.bool)


def attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: Optional[torch.Tensor],
    scaling: Optional[float] = None,
    dropout: float = 0.0,
    is_causal: Optional[bool] = None,
    cu_seq_lens_q: Optional[torch.Tensor] = None,
    cu_seq_lens_k: Optional[torch.Tensor] = None,
    max_length_q: Optional[int] = None,
    max_length_k: Optional[int] = None,
    **named: Any,
) -> tuple[torch.Tensor, None]:
    """An attention function of AttentionInterface.

    Args:
        module: The attention layer.
        query, key, value: [B, heads, tokens, head_dim].
        attention_mask: A mask from padding_mask.
        scaling: Factor of the logits; None: 1 / sqrt(head_dim).
        dropout: Must be 0.
        is_causal: Must be False; None: the layer's.
        cu_seq_lens_q, cu_seq_lens_k: The layout of a packed batch, the same for both.
        max_length_q, max_length_k: Upper bounds of the sequence lengths.
        **named: Further arguments; those in REFUSED are refused.

    Returns:
        [B, tokens, heads, head_dim], and None for the probabilities.

    Raises:
        RaggedVitError: UNSUPPORTED for what raggedvit's attention does not compute.
    """
    _check(module, query, key, value, dropout, is_causal, named)
    n, heads, tokens, head_dim = query.shape
    q, k, v = (t.transpose(1, 2).reshape(n * tokens, heads, head_dim) for t in (query, key, value))
    if cu_seq_lens_q is not None:
        if n != 1 or attention_mask is not None:
            raise invalid(
                f"there is a cu_seq_lens_q with query {list(query.shape)} and"
                f" {'a' if attention_mask is not None else 'no'} mask; expected a batch of 1 and no mask"
            )
        cu_q = cu_seq_lens_q.to(torch.int32)
        cu_k = cu_q if cu_seq_lens_k is None or cu_seq_lens_k is cu_seq_lens_q else cu_seq_lens_k.to(torch.int32)
        out = _attend(q, k, v, cu_q, tokens if max_length_q is None else max_length_q, scaling, cu_k)
    elif attention_mask is not None:
        out = _padded(q, k, v, _checked_mask(module, attention_mask, n, tokens), tokens, scaling)
    else:
        out = _attend(q, k, v, _even_lengths(query, n, tokens), tokens, scaling)
    return out.view(n, tokens, heads, head_dim), None


def _attend(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens: torch.Tensor,
    max_len: int,
    scale: Optional[float],
    cu_seqlens_k: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    cu_k = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_k, max_len, max_len, softmax_scale=scale)


def _padded(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, tokens: int, scale: Optional[float]
) -> torch.Tensor:
    """Attention of the rows that the mask [B, 1, 1, tokens] keeps.

    Lengths stay on the device: all rows are packed, with padding rows after the last sequence.
    """
    order, inverse, kept, cu_seqlens = _packing(mask)
    out = _attend(q[order], k[order], v[order], cu_seqlens, tokens, scale)
    return torch.where(kept, out, 0.0)[inverse]


def _packing(mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Returns the order with kept rows first, its inverse, the mask of the ordered rows [rows, 1, 1], and cu_seqlens.

    They are stored on the mask, because all layers of a forward share it.
    """
    compiling = torch.compiler.is_compiling()
    known: Optional[tuple[torch.Tensor, ...]] = None if compiling else getattr(mask, "_raggedvit_packing", None)
    if known is None:
        kept, order = torch.sort(mask.reshape(-1).to(torch.uint8), descending=True, stable=True)
        lengths = mask.sum((1, 2, 3), dtype=torch.int32)
        known = (
            order,
            torch.argsort(order),
            kept.to(torch.bool)[:, None, None],
            torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)),
        )
        if not compiling:
            setattr(mask, "_raggedvit_packing", known)
    return known


def _multiples(n: int, length: int, device: torch.device) -> torch.Tensor:
    return torch.arange(n + 1, dtype=torch.int32, device=device) * length


@functools.lru_cache(maxsize=None)  # kept forever: a recorded CUDA graph may still read them
def _lasting_multiples(n: int, length: int, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return _multiples(n, length, device)


def _even_lengths(query: torch.Tensor, n: int, length: int) -> torch.Tensor:
    """Returns the cu_seqlens of n sequences of one length."""
    lasting = not torch.compiler.is_compiling() and type(query) in (torch.Tensor, torch.nn.Parameter)
    # while a graph is recorded, nothing is computed
    if lasting and query.is_cuda and torch.cuda.is_current_stream_capturing():
        lasting = False
    return (_lasting_multiples if lasting else _multiples)(n, length, query.device)


def _unsupported(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.UNSUPPORTED, sentence)


def _check(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    dropout: float,
    is_causal: Optional[bool],
    named: dict[str, Any],
) -> None:
    layer = type(module).__name__
    if is_causal is None:
        is_causal = getattr(module, "is_causal", None)
    if is_causal is None:
        raise _unsupported(
            f"{layer} does not say whether it is causal (is_causal); raggedvit's attention is bidirectional"
        )
    if is_causal:
        raise _unsupported(f"{layer} is causal, raggedvit's attention is bidirectional; {_ENCODER_ONLY}")
    if dropout:
        raise _unsupported(
            f"{layer} has an attention dropout of {dropout:g}, which raggedvit's attention does not support; set it to"
            " 0 in the model's config, or call model.eval()"
        )
    for name in REFUSED:
        if named.get(name) is not None and named[name] is not False:
            raise _unsupported(f"{layer} asks attention for {name}, which raggedvit does not support")
    if key.shape != query.shape or value.shape != query.shape:
        raise _unsupported(
            f"{layer} has query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}; raggedvit's"
            " attention is self-attention, with the same heads in each"
        )
    if query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise _unsupported(f"{layer} has a query of {query.dtype}; expected float32, float16 or bfloat16")
    head_dim = query.shape[-1]
    if head_dim % 8 or not 8 <= head_dim <= 128:
        raise _unsupported(f"{layer} has a head_dim of {head_dim}; expected a multiple of 8 up to 128")


def _checked_mask(module: torch.nn.Module, mask: torch.Tensor, n: int, tokens: int) -> torch.Tensor:
    layer = type(module).__name__
    if mask.dtype != torch.bool or tuple(mask.shape) != (n, 1, 1, tokens):
        raise _unsupported(
            f"{layer} has a mask of {mask.dtype} {list(mask.shape)}; raggedvit's attention takes only padding masks,"
            f" bool {[n, 1, 1, tokens]}"
        )
    if getattr(module, "is_cross_attention", False) or "cross" in layer.lower():
        raise _unsupported(f"{layer} is cross-attention, which raggedvit's attention does not support")
    return mask
