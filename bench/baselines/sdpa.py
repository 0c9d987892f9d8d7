"""PyTorch's scaled_dot_product_attention on padded batches: without a mask (a lower bound: it attends to padding, so it is wrong on
ragged batches), with a key mask, and by cuDNN."""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def padded(batch):
    q, k, v = batch.padded()

    def call():
        return F.scaled_dot_product_attention(q, k, v)

    full = batch.point.rows == batch.point.batch * batch.point.capacity
    return call, (lambda: batch.pack(call())) if full else None


def key_mask(batch):
    q, k, v = batch.padded()
    mask = batch.live[:, None, None, :]

    def call():
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return call, lambda: batch.pack(call())


def cudnn(batch):
    """Dense attention at the kept length, for batches of equal lengths."""
    p = batch.point
    if p.rows != p.batch * p.longest:
        raise ValueError("cuDNN's dense attention needs images of one length")
    q, k, v = (t.view(p.batch, p.longest, batch.heads, batch.head_dim).transpose(1, 2) for t in (batch.q, batch.k, batch.v))

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return F.scaled_dot_product_attention(q, k, v)

    return call, lambda: call().transpose(1, 2).reshape(p.rows, batch.heads, batch.head_dim)


def cudnn_varlen(batch):
    """cuDNN with ragged offsets, if this PyTorch has it."""
    p = batch.point

    def call():
        return torch.ops.aten._cudnn_attention_forward(
            batch.q, batch.k, batch.v, None, batch.cu_seqlens, batch.cu_seqlens, p.longest, p.longest, False, 0.0, False, False,
            scale=batch.scale)[0]

    return call, call


def nested(batch):
    """SDPA on jagged NestedTensors."""
    parts = [torch.nested.nested_tensor_from_jagged(t.contiguous(), batch.cu_seqlens.long(), max_seqlen=batch.point.longest)
             for t in (batch.q, batch.k, batch.v)]
    q, k, v = (t.transpose(1, 2) for t in parts)

    def call():
        return F.scaled_dot_product_attention(q, k, v)

    return call, lambda: call().transpose(1, 2).values()
