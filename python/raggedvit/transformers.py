"""Hugging Face's vision encoders on raggedvit's attention: attn_implementation="raggedvit".

    raggedvit.transformers.register()
    AutoModel.from_pretrained(name, attn_implementation="raggedvit")       # an encoder by itself: ViT, DINOv2, SigLIP, SigLIP 2
    model.set_attn_implementation({"vision_config": "raggedvit"})          # the vision tower of a larger model: Qwen2.5-VL, Qwen3-VL

Encoders that pack their images (PACKED) make one call a layer, with their cu_seqlens. A batch that is padded under a mask is packed before
each attention and padded again after it: padding costs no attention, and its rows come back as zeros. What raggedvit's attention does not
do (causal or other masks, dropout, grouped heads, cross-attention) raises RaggedVitError; nothing else computes it in silence.

It is tested with transformers 5.23 and refuses others, whose internals may differ.
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

#: Families of models whose encoders ask is_flash_attention_requested, and if so call attention once with cu_seqlens in place of once for
#: each image. Others that ask it do something else then.
PACKED = frozenset((
    "cohere_compass", "cosmos3_edge", "dots3_note", "ernie4_5_vl_moe", "exaone4_5", "glm4v", "glm4v_moe", "glm5_next", "glm_image", "glm_ocr",
    "hunyuan_vl", "inkling2", "kimi_k25", "lfm3_vl", "minicpm_ocr", "minicpmv4_6", "minicpmv4_7", "minimax_m3_vl", "muse_glimmer",
    "muse_spark", "paddleocr_vl", "qwen2_5_omni", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe", "qwen3_asr", "qwen3_omni_moe",
    "qwen3_vl", "qwen3_vl_moe", "qwen4_exp", "radio", "video_llama_3"))

#: What attention may be asked for beside, and this one does not do.
REFUSED = ("cache", "head_mask", "output_attentions", "position_bias", "s_aux", "sliding_window", "softcap")

_ALONE = 'give it to the vision tower alone: set_attn_implementation({"vision_config": "raggedvit"})'


def register(*, untested: bool = False) -> None:
    """Makes attn_implementation="raggedvit" known to transformers. untested: with another version than the tested one, too. May be called
    again."""
    import transformers
    from transformers.masking_utils import AttentionMaskInterface
    from transformers.modeling_utils import AttentionInterface
    from transformers.utils import generic

    if transformers.__version__.split(".")[:2] != TESTED.split(".") and not untested:
        raise _unsupported(f"transformers is {transformers.__version__}; raggedvit.transformers is tested with {TESTED}. "
                           "register(untested=True) tries it nevertheless")
    AttentionInterface.register(NAME, attention)
    AttentionMaskInterface.register(NAME, padding_mask)  # without it transformers drops the masks of padding in silence
    requested = generic.is_flash_attention_requested
    if not hasattr(requested, "_raggedvit"):
        ours = _with_packed_encoders(requested)
        # Modules that were imported have the name in them; those that will be take it from `generic`.
        for module in list(sys.modules.values()):
            if getattr(module, "__dict__", {}).get("is_flash_attention_requested") is requested:
                setattr(module, "is_flash_attention_requested", ours)


def _with_packed_encoders(requested: Callable[..., bool]) -> Callable[..., bool]:
    """is_flash_attention_requested, which says yes to packed encoders too that have this attention."""

    @functools.wraps(requested)
    def is_flash_attention_requested(config: Any = None, *arguments: Any, **named: Any) -> bool:
        if config is None or arguments or named or config._attn_implementation != NAME:
            return requested(config, *arguments, **named)
        return any(kind.__module__.startswith("transformers.models.") and kind.__module__.split(".")[2] in PACKED
                   for kind in type(config).__mro__)

    setattr(is_flash_attention_requested, "_raggedvit", True)
    return is_flash_attention_requested


def padding_mask(batch_size: int, q_length: int, kv_length: int, q_offset: int = 0, kv_offset: int = 0,
                 mask_function: Optional[Callable[..., Any]] = None, attention_mask: Optional[torch.Tensor] = None,
                 allow_is_bidirectional_skip: bool = False, device: Any = None, **named: Any) -> Optional[torch.Tensor]:
    """What transformers makes of a mask of padding [B, tokens] for attention: bool [B, 1, 1, tokens], or None."""
    from transformers.masking_utils import bidirectional_mask_function

    if mask_function is not bidirectional_mask_function or kv_offset != 0:
        raise _unsupported(f"a causal or a patterned mask is wanted, which raggedvit's attention does not have; {_ALONE}")
    if attention_mask is None:
        if allow_is_bidirectional_skip:
            return None
        return torch.ones((batch_size, 1, 1, kv_length), dtype=torch.bool, device=device)
    if attention_mask.shape[-1] < kv_length:  # as transformers does it: what the mask does not reach is padding
        attention_mask = torch.nn.functional.pad(attention_mask, (0, kv_length - attention_mask.shape[-1]))
    return attention_mask[:, None, None, :kv_length].to(torch.bool)


def attention(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, attention_mask: Optional[torch.Tensor],
              scaling: Optional[float] = None, dropout: float = 0.0, is_causal: Optional[bool] = None,
              cu_seq_lens_q: Optional[torch.Tensor] = None, cu_seq_lens_k: Optional[torch.Tensor] = None,
              max_length_q: Optional[int] = None, max_length_k: Optional[int] = None, **named: Any) -> tuple[torch.Tensor, None]:
    """An attention function as AttentionInterface takes it. query, key, value: [B, heads, tokens, head_dim]; returns [B, tokens, heads,
    head_dim] and no probabilities."""
    _check(module, query, key, value, dropout, is_causal, named)
    n, heads, tokens, head_dim = query.shape
    q, k, v = (t.transpose(1, 2).reshape(n * tokens, heads, head_dim) for t in (query, key, value))
    if cu_seq_lens_q is not None:
        if n != 1 or attention_mask is not None:
            raise invalid(f"cu_seq_lens_q is given with query {list(query.shape)} and {'a' if attention_mask is not None else 'no'} mask; "
                          "expected a batch of 1 and no mask")
        cu_q = cu_seq_lens_q.to(torch.int32)
        cu_k = cu_q if cu_seq_lens_k is None or cu_seq_lens_k is cu_seq_lens_q else cu_seq_lens_k.to(torch.int32)
        out = _attend(q, k, v, cu_q, tokens if max_length_q is None else max_length_q, scaling, cu_k)
    elif attention_mask is not None:
        out = _padded(q, k, v, _checked_mask(module, attention_mask, n, tokens), tokens, scaling)
    else:
        out = _attend(q, k, v, _even_lengths(query, n, tokens), tokens, scaling)
    return out.view(n, tokens, heads, head_dim), None


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, cu_seqlens: torch.Tensor, max_len: int, scale: Optional[float],
            cu_seqlens_k: Optional[torch.Tensor] = None) -> torch.Tensor:
    cu_k = cu_seqlens if cu_seqlens_k is None else cu_seqlens_k
    return flash_attn_varlen_func(q, k, v, cu_seqlens, cu_k, max_len, max_len, softmax_scale=scale)


def _padded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, tokens: int, scale: Optional[float]) -> torch.Tensor:
    """Attention of the rows that the mask [B, 1, 1, tokens] keeps. Lengths stay on the device: as many rows as there are with padding are
    packed, those of padding last, where no sequence reaches."""
    order, places, kept, cu_seqlens = _packing(mask)
    out = _attend(q[order], k[order], v[order], cu_seqlens, tokens, scale)
    return torch.where(kept, out, 0.0)[places]


def _packing(mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The rows, those that are kept first: their numbers, the place of each row among them, whether each is kept [rows, 1, 1]; cu_seqlens.
    All layers of a forward have one mask, which carries this."""
    compiling = torch.compiler.is_compiling()
    known: Optional[tuple[torch.Tensor, ...]] = None if compiling else getattr(mask, "_raggedvit_packing", None)
    if known is None:
        kept, order = torch.sort(mask.reshape(-1).to(torch.uint8), descending=True, stable=True)
        lengths = mask.sum((1, 2, 3), dtype=torch.int32)
        known = (order, torch.argsort(order), kept.to(torch.bool)[:, None, None],
                 torch.nn.functional.pad(lengths.cumsum(0, dtype=torch.int32), (1, 0)))
        if not compiling:
            setattr(mask, "_raggedvit_packing", known)
    return known


def _multiples(n: int, length: int, device: torch.device) -> torch.Tensor:
    return torch.arange(n + 1, dtype=torch.int32, device=device) * length


@functools.lru_cache(maxsize=None)  # not forgotten: a recorded CUDA graph may still read them
def _lasting_multiples(n: int, length: int, device: torch.device) -> torch.Tensor:
    with torch.inference_mode(False):
        return _multiples(n, length, device)


def _even_lengths(query: torch.Tensor, n: int, length: int) -> torch.Tensor:
    """cu_seqlens of sequences of one length."""
    lasting = not torch.compiler.is_compiling() and type(query) in (torch.Tensor, torch.nn.Parameter)
    if lasting and query.is_cuda and torch.cuda.is_current_stream_capturing():  # nothing is computed while a graph is recorded
        lasting = False
    return (_lasting_multiples if lasting else _multiples)(n, length, query.device)


def _unsupported(sentence: str) -> RaggedVitError:
    return RaggedVitError(Status.UNSUPPORTED, sentence)


def _check(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, dropout: float,
           is_causal: Optional[bool], named: dict[str, Any]) -> None:
    layer = type(module).__name__
    if is_causal is None:
        is_causal = getattr(module, "is_causal", None)
    if is_causal is None:
        raise _unsupported(f"{layer} does not say whether it is causal (is_causal); raggedvit's attention is bidirectional")
    if is_causal:
        raise _unsupported(f"{layer} is causal, raggedvit's attention is bidirectional; {_ALONE}")
    if dropout:
        raise _unsupported(f"{layer} has an attention dropout of {dropout:g}, which raggedvit's attention does not have; set it to 0 in the "
                           "model's config, or call model.eval()")
    for name in REFUSED:
        if named.get(name) is not None and named[name] is not False:
            raise _unsupported(f"{layer} asks attention for {name}, which raggedvit does not have")
    if key.shape != query.shape or value.shape != query.shape:
        raise _unsupported(f"{layer} has query {list(query.shape)}, key {list(key.shape)}, value {list(value.shape)}; raggedvit's attention "
                           "is that of tokens with themselves, with as many heads of one size in each")
    if query.dtype not in (torch.float32, torch.float16, torch.bfloat16):
        raise _unsupported(f"{layer} has a query of {query.dtype}; expected float32, float16 or bfloat16")
    head_dim = query.shape[-1]
    if head_dim % 8 or not 8 <= head_dim <= 128:
        raise _unsupported(f"{layer} has a head_dim of {head_dim}; expected a multiple of 8 up to 128")


def _checked_mask(module: torch.nn.Module, mask: torch.Tensor, n: int, tokens: int) -> torch.Tensor:
    layer = type(module).__name__
    if mask.dtype != torch.bool or tuple(mask.shape) != (n, 1, 1, tokens):
        raise _unsupported(f"{layer} has a mask of {mask.dtype} {list(mask.shape)}; raggedvit's attention takes one of padding alone, bool "
                           f"{[n, 1, 1, tokens]}")
    if getattr(module, "is_cross_attention", False) or "cross" in layer.lower():
        raise _unsupported(f"{layer} is cross-attention, which raggedvit's attention does not have")
    return mask
