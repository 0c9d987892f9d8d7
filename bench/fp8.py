#!/usr/bin/env python3
"""Compares fp8 with f16 forwards, of the library and of PyTorch. PyTorch runs float16, and torch._scaled_mm with a scale per row and
channel (bfloat16 outputs, the only type that it supports with row scales), both under torch.compile.

    bench/fp8.py --library build/libraggedvit.so --out results [--models deit_base_patch16_224,...] [--batches 16,64,256]
    bench/fp8.py --library build/libraggedvit.so --out results --dry-run       # a tiny model without a GPU: its figures mean nothing

Weights are random; images and logits are in device memory; all forwards are CUDA graphs that take turns, dense and with half of the
tokens kept after block 3. PyTorch's blocks are compiled one by one. Writes OUT/fp8.json: microseconds of a forward between two events
(`gpu`), and for dense forwards `error`: the root mean square of the difference from PyTorch's float32 logits, relative to their deviation.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import timm  # noqa: E402
import torch  # noqa: E402
from timm.models.vision_transformer import VisionTransformer  # noqa: E402

from baselines.clock import GpuClock, HostClock, first_line  # noqa: E402
from baselines.library import GpuContext, HostContext, Library  # noqa: E402
from baselines.sessions import Graph, Model, Sessions, measure  # noqa: E402

MODELS = "deit_base_patch16_224,deit_base_patch16_384,vit_large_patch16_224,vit_so400m_patch14_siglip_224"
PRUNE_AFTER, LARGEST = 3, 448.0


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--models", default=MODELS, help="timm's names")
    parser.add_argument("--batches", default="16,64,256")
    parser.add_argument("--keeps", default="1,0.5", help="1: dense")
    parser.add_argument("--baselines", default="16,64,256", help="batch sizes at which PyTorch is measured, too; each compiles for seconds")
    parser.add_argument("--seconds", type=float, default=0.25, help="time per point and forward")
    parser.add_argument("--deadline", type=float, default=1e9, help="seconds after which no new point starts")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


class ScaledLinear(torch.nn.Module):
    """A linear layer in e4m3, with a scale per row of x, computed at run time, and one per output channel."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.float()
        scale = weight.abs().amax(1, keepdim=True) / LARGEST
        self.weight = (weight / scale).to(torch.float8_e4m3fn)
        self.scale, self.bias = scale.t().contiguous(), linear.bias.to(torch.bfloat16)

    def forward(self, x):
        rows = x.reshape(-1, x.shape[-1])
        scale = rows.abs().amax(1, keepdim=True).float().clamp(min=1e-12) / LARGEST
        values = (rows.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
        y = torch._scaled_mm(values, self.weight.t(), scale_a=scale, scale_b=self.scale, bias=self.bias, out_dtype=torch.bfloat16,
                             use_fast_accum=True)
        return y.reshape(*x.shape[:-1], -1)


def quantized(module):
    """Quantizes qkv, fc1 and fc2, as the library does."""
    for block in module.blocks:
        block.attn.qkv = ScaledLinear(block.attn.qkv)
        block.mlp.fc1, block.mlp.fc2 = ScaledLinear(block.mlp.fc1), ScaledLinear(block.mlp.fc2)
    return module


def make(name, device):
    """Returns a module with random weights of the magnitude of trained ones, in float16 values."""
    torch.manual_seed(1)
    if name == "tiny":
        module = VisionTransformer(img_size=32, patch_size=8, embed_dim=128, depth=5, num_heads=2, num_classes=10)
    else:
        module = timm.create_model(name, num_classes=1000)
    module = module.to(device).eval()
    with torch.no_grad():
        for key, parameter in module.named_parameters():
            if parameter.ndim > 1 and key.endswith("weight"):
                parameter.normal_(0, 0.7 / parameter[0].numel() ** 0.5)
            elif parameter.ndim > 1:
                parameter.normal_(0, 0.02)
            elif "norm" in key and key.endswith("weight"):
                parameter.normal_(1, 0.2)
            else:
                parameter.normal_(0, 0.1)
            parameter.copy_(parameter.half())
    return module


def forward(module, run_block, keep):
    """The pruned forward, like the library's l2: gathers an equal number of the best rows of each image after block PRUNE_AFTER."""

    @torch.no_grad()
    def call(images):
        x = module.norm_pre(module.patch_drop(module._pos_embed(module.patch_embed(images))))
        n_prefix, n = module.num_prefix_tokens, x.shape[1]
        for i, block in enumerate(module.blocks):
            x = run_block(block, x)
            if i == PRUNE_AFTER and keep < 1:
                best = x[:, n_prefix:].float().square().sum(-1).topk(max(1, int(keep * n)) - n_prefix, sorted=False).indices
                rows = x[:, n_prefix:].gather(1, best[:, :, None].expand(-1, -1, x.shape[2]))
                x = torch.cat([x[:, :n_prefix], rows], 1)
        return module.forward_head(module.norm(x)).float()

    return call


def error(got, wanted):
    return float(f"{float((got.float() - wanted).pow(2).mean().sqrt() / wanted.std()):.3g}")


def ours(models, images, keep):
    found = []
    for name, model in models.items():
        sessions = Sessions(model, images, None if keep == 1 else keep, 2)
        sessions.name = name
        found.append(sessions)
    return found


def pytorch(name, batch, images, keep, clock, dtype, prepare):
    module = prepare(make(name, images.device).to(dtype))
    run_block = torch.compile(lambda block, x: block(x), dynamic=False) if clock.stream is not None else lambda block, x: block(x)
    call, typed = forward(module, run_block, keep), images.to(dtype)
    return Graph(f"pytorch {'e4m3' if prepare is quantized else 'f16'}", lambda: call(typed), clock)


def measure_point(name, module, models, batch, keep, context, clock, options):
    size = module.patch_embed.img_size[0]
    images = context.empty(batch, 3, size, size, dtype=torch.float32)
    images.normal_()
    baselines, skipped = ours(models, images, keep), {}
    if batch in options.baselines:
        kinds = {"pytorch f16": (torch.float16, lambda m: m), "pytorch e4m3": (torch.bfloat16, quantized)}
        for label, (dtype, prepare) in kinds.items():
            if options.dry_run:
                dtype = torch.float32
                prepare = (lambda m: m)
            try:
                baselines.append(pytorch(name, batch, images, keep, clock, dtype, prepare))
                baselines[-1].name = label
            except Exception as failure:
                skipped[label] = first_line(failure)
    row = {"model": name, "batch": batch, "keep": keep, "skipped": skipped, "us": measure(baselines, clock, batch, options.seconds)}
    if batch <= 16 and keep == 1:
        wanted = forward(module, lambda block, x: block(x), keep)(images)
        row["error"] = {r.name: error(r.logits[0] if isinstance(r, Sessions) else r.logits, wanted)
                        for r in baselines if hasattr(r, "logits")}
    for r in baselines:
        if isinstance(r, Sessions):
            r.close()
    kind = "gpu" if clock.stream is not None else "latency"
    print(f"  {name} {batch} keep {keep}: " + ", ".join(f"{n} {t[kind]['median']:.0f}" for n, t in row["us"].items())
          + (f", errors {row['error']}" if "error" in row else "") + (f", skipped {skipped}" if skipped else ""), flush=True)
    return row


def main():
    options = parse()
    batches = [int(b) for b in options.batches.split(",")]
    options.baselines = [int(b) for b in options.baselines.split(",") if b]
    library, end = Library(options.library), time.monotonic() + options.deadline
    if options.dry_run:
        context, batches = HostContext(library, "cpu"), batches[:1]
        clock = HostClock(context.synchronize)
    else:
        clock = GpuClock()
        context = GpuContext(library, clock.stream)
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    info = context.info()
    report = {"benchmark": "fp8", "dry_run": options.dry_run, "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
              "version": library.version(), "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
              "device": {"name": info.name.decode(), "driver": info.driver.decode()},
              "machine": {"cores": os.cpu_count(), "kernel": platform.release()},
              "versions": {"torch": torch.__version__, "timm": timm.__version__}, "results": []}
    print(f"{report['device']['name']}, {report['device']['driver']}; {report['versions']}", flush=True)
    with clock.on_stream():
        for name in ["tiny"] if options.dry_run else options.models.split(","):
            module = make(name, context.torch_device)
            with tempfile.TemporaryDirectory() as folder:
                from safetensors.torch import save_file

                path = pathlib.Path(folder) / f"{name}.safetensors"
                config = {"architecture": "vit" if name == "tiny" else name, "model_args": {"num_heads": 2} if name == "tiny" else {}}
                save_file({k: v.half().cpu().contiguous() for k, v in module.state_dict().items()}, str(path), {"config": json.dumps(config)})
                models = {"raggedvit f16": Model(context, path, "f32" if options.dry_run else "f16"),
                          "raggedvit e4m3": Model(context, path, "f32" if options.dry_run else "f16", "fp8")}
            for batch in batches:
                for keep in [float(k) for k in options.keeps.split(",")]:
                    if time.monotonic() > end:
                        report["results"].append({"model": name, "batch": batch, "keep": keep, "skipped": "out of time"})
                        continue
                    report["results"].append(measure_point(name, module, models, batch, keep, context, clock, options))
                    (out / "fp8.json").write_text(json.dumps(report, indent=1) + "\n")
                    context.forget()
                    torch.compiler.reset() if clock.stream is not None else None
            for model in models.values():
                model.close()
            del module, models
    (out / "fp8.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
