"""Compiled FlexAttention over the packed rows of a whole batch. A block mask separates the images; building it needs the lengths and is
not timed."""

import torch


def attention(batch):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    p = batch.point
    owner = torch.repeat_interleave(torch.arange(p.batch, device=batch.device), torch.tensor(p.lengths, device=batch.device))

    def same_image(b, h, q_index, k_index):
        return owner[q_index] == owner[k_index]

    mask = create_block_mask(same_image, None, None, p.rows, p.rows, device=batch.device, _compile=batch.device.type == "cuda")
    compiled = torch.compile(flex_attention, dynamic=False)
    q, k, v = (t.transpose(0, 1)[None] for t in (batch.q, batch.k, batch.v))

    @torch.no_grad()
    def call():
        return compiled(q, k, v, block_mask=mask)

    call()
    return call, lambda: call()[0].transpose(0, 1)
