"""raggedvit.attention as a PyTorch operator: `import raggedvit.torch`, then torch.ops.raggedvit.attention, in torch.compile too.

    torch.ops.raggedvit.attention(qkv, cu_seqlens, max_len=None, scale=None) -> Tensor

Arguments as raggedvit.attention documents them. It has no gradient. Needs PyTorch 2.4 or later.
"""

from __future__ import annotations

from typing import Optional

import torch

from ._attention import attention as _run

# The registrations last as long as this object.
_library = torch.library.Library("raggedvit", "DEF")
_library.define("attention(Tensor qkv, Tensor cu_seqlens, SymInt? max_len=None, float? scale=None) -> Tensor")


def _attention(qkv: torch.Tensor, cu_seqlens: torch.Tensor, max_len: Optional[int] = None,
               scale: Optional[float] = None) -> torch.Tensor:
    return _run(qkv, cu_seqlens, scale, max_len)


def _shape(qkv: torch.Tensor, cu_seqlens: torch.Tensor, max_len: Optional[int] = None, scale: Optional[float] = None) -> torch.Tensor:
    return qkv.new_empty((qkv.shape[0], qkv.shape[2], qkv.shape[3]))


for _key in ("CPU", "CUDA"):
    _library.impl("attention", _attention, _key)
torch.library.register_fake("raggedvit::attention", _shape, lib=_library)

attention = torch.ops.raggedvit.attention
