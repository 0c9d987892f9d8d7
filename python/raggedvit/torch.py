"""PyTorch operators: `import raggedvit.torch` registers torch.ops.raggedvit.attention and the others.

    torch.ops.raggedvit.attention(qkv, cu_seqlens, scale=None, max_len=None) -> Tensor
    torch.ops.raggedvit.attention_forward(q, k, v, cu_seqlens, key_bias=None, scale=None, max_len=None, cls_probs=False)
        -> (out, lse, cls_probs)

The arguments are those of raggedvit.attention; if k and v are None, q is a packed qkv. Both operators have gradients.
flash_attn_varlen_func has the arguments of FlashAttention's function. Needs PyTorch 2.4 or later.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from ._c.checks import INT32_MAX, integer, shown
from ._c.errors import RaggedVitError, Status, invalid
from ._torch import operators
from ._torch import rows as torch_rows  # noqa: F401 (it registers operators)
from ._torch import select as torch_select  # noqa: F401 (the same)
from .ops import attention as _run

attention, attention_forward = operators.OPERATOR, operators.FORWARD_OPERATOR

_ANYWHERE, _GIVEN = (-1, -1), "given"


def flash_attn_varlen_func(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: Optional[float] = None,
    causal: bool = False,
    window_size: Any = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Optional[torch.Tensor] = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Optional[torch.Tensor] = None,
) -> torch.Tensor:
    """Has the signature of FlashAttention's function; computes self-attention without a mask.

    The result is always deterministic. Arguments that are not listed must have their default values.

    Args:
        q, k, v: [rows, heads, head_dim], all of one shape.
        cu_seqlens_q, cu_seqlens_k: The same layout; on CUDA the same tensor.
        max_seqlen_q, max_seqlen_k: Upper bounds of the sequence lengths.
        softmax_scale: Factor of the logits; None: 1 / sqrt(head_dim).
        deterministic: Ignored.

    Returns:
        [rows, heads, head_dim].

    Raises:
        RaggedVitError: UNSUPPORTED for all other uses of the arguments.
    """
    if (
        cu_seqlens_k is not cu_seqlens_q
        or max_seqlen_k != max_seqlen_q
        or dropout_p
        or causal
        or softcap
        or window_size != _ANYWHERE
        or alibi_slopes is not None
        or return_attn_probs
        or block_table is not None
    ):
        _refuse(
            cu_seqlens_q,
            cu_seqlens_k,
            dropout_p,
            causal,
            softcap,
            window_size,
            alibi_slopes,
            return_attn_probs,
            block_table,
        )
        max_seqlen_q = max(
            integer("max_seqlen_q", max_seqlen_q, 0, INT32_MAX), integer("max_seqlen_k", max_seqlen_k, 0, INT32_MAX)
        )
    return _run(q, cu_seqlens_q, softmax_scale, max_seqlen_q, k=k, v=v)


def _refuse(
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    dropout_p: float,
    causal: bool,
    softcap: float,
    window_size: Any,
    alibi_slopes: Any,
    return_attn_probs: bool,
    block_table: Any,
) -> None:
    """Raises for arguments that flash_attn_varlen_func does not support."""
    for name, value, same in (
        ("dropout_p", dropout_p, _is(dropout_p, 0)),
        ("causal", causal, _is(causal, False)),
        ("softcap", softcap, _is(softcap, 0)),
        ("window_size", window_size, isinstance(window_size, (tuple, list)) and tuple(window_size) == _ANYWHERE),
        ("alibi_slopes", _GIVEN, alibi_slopes is None),
        ("return_attn_probs", return_attn_probs, _is(return_attn_probs, False)),
        ("block_table", _GIVEN, block_table is None),
    ):
        if not same:
            raise RaggedVitError(
                Status.UNSUPPORTED,
                f"{name} is {value if value is _GIVEN else shown(value)}, which this library's attention does not"
                " support",
            )
    if not _same(cu_seqlens_q, cu_seqlens_k):
        raise RaggedVitError(
            Status.UNSUPPORTED,
            "cu_seqlens_k is another tensor than cu_seqlens_q: queries and keys must have the same sequences, "
            "and on a CUDA device the lengths are not read back to compare them: pass one tensor twice",
        )


def _is(value: Any, wanted: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float)) and value == wanted


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    for name, lengths in (("cu_seqlens_q", a), ("cu_seqlens_k", b)):
        if not isinstance(lengths, torch.Tensor):
            raise invalid(f"{name} is {shown(lengths)}; expected a tensor, as q is")
    if a.shape != b.shape or a.dtype != b.dtype or a.device != b.device:
        return False
    if a.device.type == "cpu":
        return torch.equal(a, b)
    return a.data_ptr() == b.data_ptr() and a.stride() == b.stride()
