#!/usr/bin/env python3
"""Compares the gradient of ragged attention with FlashAttention-2's as PyTorch ships it (aten._flash_attention_backward with cu_seqlens):
both take turns as CUDA graphs on the same random data. Also reports the largest errors against float64 of the library, of
FlashAttention-2 and of PyTorch's own softmax(q k^T) v in the same type.

    bench/baselines/backward.py --library build/libraggedvit.so --out backward.json [--heads 3,6,12] [--images 16,64,256]
                                  [--tokens 197,138,97,68,40,20,577] [--dtypes float16] [--deadline 300]
    bench/baselines/backward.py --library build/libraggedvit.so --out backward.json --dry-run [--backend cuda]

--dry-run runs tiny sizes without a GPU, on the library's CPU device or on whatever libcuda.so.1 is found; its times mean nothing. Exits 1
if an error of the library is more than twice that of PyTorch's own.
"""

import argparse
import ctypes
import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "python")]

import torch  # noqa: E402

from baselines.clock import GpuClock, HostClock, first_line  # noqa: E402
from baselines.library import DTYPES, GpuContext, HostContext  # noqa: E402
from raggedvit._c.constants import CONSTANTS  # noqa: E402
from raggedvit._c.layouts import new  # noqa: E402
from raggedvit._c.library import Library  # noqa: E402

OURS, FLASH, PLAIN = "raggedvit", "FA2 varlen", "PyTorch"
GRADIENTS = ("d_q", "d_k", "d_v")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="JSON")
    parser.add_argument("--heads", default="3,6,12")
    parser.add_argument("--images", default="16,64,256")
    parser.add_argument("--tokens", default="197,138,97,68,40,20,577")
    parser.add_argument("--dtypes", default="float16", help="some of: float16, bfloat16, float32 (without FlashAttention-2)")
    parser.add_argument("--head-dim", type=int, default=64)
    parser.add_argument("--ragged", action="store_true", help="lengths between a tenth and all of --tokens")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no new point starts")
    parser.add_argument("--dry-run", action="store_true")
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu", help="backend of the dry run")
    return parser.parse_args()


class Batch:
    """Random qkv [rows, 3, heads, head_dim] and the gradient of the output, with the lengths on the device."""

    def __init__(self, context, lengths, heads, head_dim, dtype):
        self.context, self.lengths, self.heads, self.head_dim, self.dtype = context, lengths, heads, head_dim, dtype
        self.rows, self.longest, self.scale = sum(lengths), max(lengths), head_dim**-0.5
        self.qkv = context.empty(self.rows, 3, heads, head_dim, dtype=dtype)
        self.qkv.normal_()
        self.d_out = context.empty(self.rows, heads, head_dim, dtype=dtype)
        self.d_out.normal_()
        self.q, self.k, self.v = self.qkv.unbind(1)
        self.cu_seqlens = context.empty(len(lengths) + 1, dtype=torch.int32)
        self.cu_seqlens.copy_(torch.tensor([0] + lengths).cumsum(0).to(torch.int32))

    def gradients(self, dtype, images=4):
        """The gradients of the first images by PyTorch's autograd through softmax(q k^T) v in this type: {name: tensor}."""
        n, parts = min(images, len(self.lengths)), {name: [] for name in GRADIENTS}
        begin = 0
        for length in self.lengths[:n]:
            rows = slice(begin, begin + length)
            q, k, v = (t[rows].transpose(0, 1).detach().to(dtype).requires_grad_() for t in (self.q, self.k, self.v))
            out = torch.softmax(q @ k.transpose(1, 2) * self.scale, dim=-1) @ v
            out.backward(self.d_out[rows].transpose(0, 1).to(dtype))
            for name, tensor in zip(GRADIENTS, (q, k, v)):
                parts[name].append(tensor.grad.transpose(0, 1))
            begin += length
        return {name: torch.cat(tensors) for name, tensors in parts.items()}


def ours(batch):
    """Returns (call, gradients). Runs the forward once, for out and lse."""
    context, b = batch.context, batch
    out = context.empty(b.rows, b.heads, b.head_dim, dtype=b.dtype)
    lse = context.empty(b.rows, b.heads, dtype=torch.float32)
    d_qkv = context.empty(b.rows, 3, b.heads, b.head_dim, dtype=b.dtype)
    sizes = {"dtype": CONSTANTS[DTYPES[b.dtype]], "n_images": len(b.lengths), "n_heads": b.heads, "head_dim": b.head_dim,
             "max_len": b.longest, "rows": b.rows, "cu_seqlens": context.view(b.cu_seqlens), "out": context.view(out), "lse": context.view(lse)}
    packed = 3 * b.heads * b.head_dim
    inputs = {name: context.view(tensor) for name, tensor in zip("qkv", (b.q, b.k, b.v))}
    inputs |= {f"{name}_stride": packed for name in "qkv"}
    forward = new("rvit_attention_args", **sizes, **inputs)
    context.library.rvit_attention(context.stream, ctypes.byref(forward))
    outputs = {name: context.view(d_qkv.select(1, i)) for i, name in enumerate(GRADIENTS)}
    outputs |= {f"{name}_stride": packed for name in GRADIENTS}
    args = new("rvit_attention_backward_args", **sizes, **inputs, **outputs, d_out=context.view(b.d_out))
    pointer = ctypes.addressof(args)
    size = context.library.raw.rvit_attention_backward_workspace(pointer)
    workspace = context.empty(size, dtype=torch.uint8)
    args.workspace = context.view(workspace)
    context.library.rvit_attention_backward(context.stream, pointer)  # raises with the reason if the call is refused
    function, stream = context.library.raw.rvit_attention_backward, context.stream

    def call(_keep=(args, workspace, out, lse, d_qkv)):
        if function(stream, pointer):
            raise RuntimeError(context.library.raw.rvit_status_detail().decode())

    def gradients():
        d_qkv.fill_(float("nan"))
        call()
        return dict(zip(GRADIENTS, d_qkv.unbind(1)))

    return call, gradients


def flash(batch):
    b, longest = batch, batch.longest
    forward = torch.ops.aten._flash_attention_forward
    backward = torch.ops.aten._flash_attention_backward
    out, lse, seed, offset, _ = forward(b.q, b.k, b.v, b.cu_seqlens, b.cu_seqlens, longest, longest, 0.0, False, False, scale=b.scale)

    def call():
        return backward(b.d_out, b.q, b.k, b.v, out, lse, b.cu_seqlens, b.cu_seqlens, longest, longest, 0.0, False, seed, offset,
                        scale=b.scale)

    return call, lambda: dict(zip(GRADIENTS, call()))


def errors_of(found, exact):
    """For each gradient, the largest difference and the relative error in the Euclidean norm."""
    result = {}
    for name, wanted in exact.items():
        difference = found[name][: len(wanted)].double() - wanted
        result[name] = {"largest": float(difference.abs().max()), "relative": float(difference.norm() / wanted.norm())}
    return result


def measure(clock, batch):
    makers, baselines, reasons = {OURS: ours}, {}, {}
    if batch.dtype != torch.float32:
        makers[FLASH] = flash
    for name, make in makers.items():
        try:
            baselines[name] = make(batch)
        except Exception as failure:
            if name == OURS:
                raise
            reasons[name] = first_line(failure)
    exact = batch.gradients(torch.float64)
    errors = {name: errors_of(gradients(), exact) for name, (_, gradients) in baselines.items()}
    errors[PLAIN] = errors_of(batch.gradients(batch.dtype), exact)
    large = batch.rows * batch.longest * batch.heads > 64 * 197 * 197 * 12
    times = clock.gpu_us({name: call for name, (call, _) in baselines.items()}, **({"calls": 5, "turns": 10} if large else {}))
    times |= {name: {"skipped": reason} for name, reason in reasons.items()}
    worst = max(errors[OURS][name]["largest"] / errors[PLAIN][name]["largest"] for name in GRADIENTS)
    return {"gpu_us": times, "errors": errors, "error_ratio": worst}


def lengths_of(images, tokens, ragged):
    if not ragged:
        return [tokens] * images
    generator = torch.Generator().manual_seed(images * 1000 + tokens)
    return torch.randint(max(1, tokens // 10), tokens + 1, (images,), generator=generator).tolist()


def describe(row):
    us = {name: t["median"] for name, t in row["gpu_us"].items() if "median" in t}
    text = f"{row['dtype']} H={row['heads']} B={row['images']} S={row['tokens']}: raggedvit {us[OURS]:.2f} us"
    text += f", error {row['error_ratio']:.2f}x PyTorch's"
    if FLASH in us:
        text += f"; FA2 {us[FLASH]:.2f} us: ours takes {us[OURS] / us[FLASH]:.3f}x"
    return text


def main():
    options = parse()
    library = Library(str(options.library))
    if options.dry_run:
        context = HostContext(library, options.backend)
        clock = HostClock(context.synchronize)
        points = [(heads, images, tokens) for heads in (1, 2) for images in (1, 3) for tokens in (5, 40)]
    else:
        clock = GpuClock()
        context = GpuContext(library, clock.stream)
        numbers = {name: [int(n) for n in getattr(options, name).split(",")] for name in ("heads", "images", "tokens")}
        points = [(h, b, s) for s in numbers["tokens"] for h in numbers["heads"] for b in numbers["images"]]
    end, rows = time.monotonic() + options.deadline, []
    report = {"benchmark": "backward", "version": library.version(), "torch": torch.__version__,
              "device": context.info().name.decode(), "results": rows}
    with clock.on_stream():
        for name in options.dtypes.split(","):
            for heads, images, tokens in points:
                if time.monotonic() > end:
                    report["left_out"] = "out of time"
                    break
                batch = Batch(context, lengths_of(images, tokens, options.ragged), heads, options.head_dim, getattr(torch, name))
                rows.append({"dtype": name, "heads": heads, "head_dim": options.head_dim, "images": images, "tokens": tokens,
                             "ragged": options.ragged} | measure(clock, batch))
                print(describe(rows[-1]), flush=True)
                del batch
                context.forget()
    pathlib.Path(options.out).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if any(row["error_ratio"] > 2 for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
