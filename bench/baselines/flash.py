"""FlashAttention-2's varlen kernel as PyTorch ships it: the operator from Python, the public function, and the operator from C++, whose
host time has no Python in it."""

import pathlib

import torch


def operator(batch):
    p, forward = batch.point, torch.ops.aten._flash_attention_forward

    def call():
        return forward(batch.q, batch.k, batch.v, batch.cu_seqlens, batch.cu_seqlens, p.longest, p.longest, 0.0, False, False,
                       scale=batch.scale)[0]

    return call, call


def varlen_attn(batch):
    from torch.nn.attention.varlen import varlen_attn as function

    p = batch.point

    @torch.no_grad()
    def call():
        return function(batch.q, batch.k, batch.v, batch.cu_seqlens, batch.cu_seqlens, p.longest, p.longest)

    return call, call


def build_extension(folder):
    """Compiles host_calls.cpp, which takes about half a minute; the folder caches the result."""
    from torch.utils.cpp_extension import load

    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return load("rvit_bench_host_calls", [str(pathlib.Path(__file__).with_name("host_calls.cpp"))], build_directory=str(folder),
                extra_cflags=["-O2"])
