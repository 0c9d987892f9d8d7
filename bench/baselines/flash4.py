"""FlashAttention-4's varlen kernel (pip flash-attn-4, written in CuTe DSL) through its public function. The first call for a head_dim
compiles it."""

import torch


def attention(batch):
    from flash_attn.cute.interface import flash_attn_varlen_func

    p = batch.point

    @torch.no_grad()
    def call():
        out = flash_attn_varlen_func(batch.q, batch.k, batch.v, cu_seqlens_q=batch.cu_seqlens, cu_seqlens_k=batch.cu_seqlens,
                                     max_seqlen_q=p.longest, max_seqlen_k=p.longest, softmax_scale=batch.scale)
        return out[0] if isinstance(out, tuple) else out

    return call, call
