#!/usr/bin/env python3
"""Common ViT families from Python: compares raggedvit.Model on CUDA tensors with PyTorch's forward of the same timm model in a CUDA graph,
dense and pruned by the same policy.

    bench/families.py --library build/libraggedvit.so --out results [--models clip_b16,...] [--batches 1,16,64] [--dtypes f16,bf16]
    bench/families.py --library build/libraggedvit.so --out results --dry-run       # two blocks, on the CPU: its figures mean nothing

Weights are random. Writes OUT/families.json. Each row first compares logits: `error` is the difference from timm's in float32, relative to
the largest logit, `pytorch_error` that of PyTorch in the row's dtype. Logits of pruned rows are not compared, because a score that differs
in its last bits may choose another row. images_per_second: enqueues calls one after another and waits once; the two sides take turns.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent

# name -> timm's architecture, arguments
MODELS = {
    "clip_b16": ("vit_base_patch16_clip_quickgelu_224", {"num_classes": 512}),
    "clip_l14": ("vit_large_patch14_clip_quickgelu_224", {"num_classes": 768}),
    "siglip_so400m_224": ("vit_so400m_patch14_siglip_224", {"num_classes": 1000, "act_layer": "gelu_tanh"}),  # as in its paper's code
    "siglip_so400m_384": ("vit_so400m_patch14_siglip_384", {"num_classes": 1000, "act_layer": "gelu_tanh"}),
    "siglip_so400m_224_timm": ("vit_so400m_patch14_siglip_224", {"num_classes": 1000}),  # timm uses the exact GELU
    "siglip_so400m_384_timm": ("vit_so400m_patch14_siglip_384", {"num_classes": 1000}),
    "dinov2_b14_518": ("vit_base_patch14_dinov2", {"num_classes": 1000}),
    "dinov3_b16_224": ("vit_base_patch16_dinov3", {"num_classes": 1000, "img_size": 224}),
    "dinov3_b16_512": ("vit_base_patch16_dinov3", {"num_classes": 1000, "img_size": 512}),
}
POLICIES = {"dense": {"name": "none"}, "l2": {"name": "l2", "keep": 0.5}, "evit": {"name": "evit", "keep": 0.5},
            "received": {"name": "received", "keep": 0.5}}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/families", help="folder for checkpoints")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--dtypes", default="f16,bf16")
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def make(torch, timm, name, folder, device, dry):
    """timm's model in float32 with random weights, and its checkpoint's path."""
    from safetensors.torch import save_file

    architecture, arguments = MODELS[name]
    torch.manual_seed(1)
    with torch.device(device):
        model = timm.create_model(architecture, **arguments, **({"depth": 2} if dry else {})).eval()
        for key, value in model.named_parameters():
            if "gamma" in key or "ls" in key.split(".")[-2:-1] or key.endswith((".ls1.gamma", ".ls2.gamma")):
                value.data.uniform_(0.5, 1.0)
            elif key.endswith("bias") or key == "head.weight":
                value.data.normal_(0, 0.02)
    path = folder / name / "model.safetensors"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        save_file({key: value.half().contiguous().cpu() for key, value in model.state_dict().items()}, str(path))
        config = {"architecture": architecture, "num_classes": arguments["num_classes"], "global_pool": model.global_pool,
                  "pretrained_cfg": {"input_size": [3, *model.patch_embed.img_size], "num_classes": arguments["num_classes"]}}
        config["model_args"] = {key: value for key, value in (arguments | ({"depth": 2} if dry else {})).items() if key != "num_classes"}
        (path.parent / "config.json").write_text(json.dumps(config))
    for value in model.state_dict().values():  # what the file holds
        value.copy_(value.half().float())
    return model, path


def keep_rope(model):
    """Keeps the rotary table for one image size. timm computes it in each forward, partly on the CPU."""
    rope = getattr(model, "rope", None)
    if rope is not None:
        if "get_embed" in vars(rope):
            del rope.get_embed
        table = rope.get_embed(shape=model.patch_embed.grid_size)
        rope.get_embed = lambda shape=None: table


class Pruned:
    """timm's forward, block by block, with prune stages after the same blocks as in raggedvit. All counts are known in advance, so that the
    forward can be captured."""

    def __init__(self, torch, model, policy):
        self.torch, self.model, self.policy = torch, model, policy
        self.prefix = model.num_prefix_tokens
        self.blocks = {"l2": (3,), "received": (3,), "evit": (3, 6, 9)}[policy] if len(model.blocks) > 3 else (0,)

    def queries(self, attn, x, rope):
        from timm.layers import apply_rot_embed_cat

        torch = self.torch
        batch, n, _ = x.shape
        bias = attn.qkv.bias
        if getattr(attn, "q_bias", None) is not None:
            bias = torch.cat((attn.q_bias, attn.k_bias, attn.v_bias))
        qkv = torch.nn.functional.linear(x, attn.qkv.weight, bias)
        q, k, v = qkv.reshape(batch, n, 3, attn.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        if rope is not None:
            p, half = self.prefix, attn.rotate_half
            q = torch.cat([q[:, :, :p], apply_rot_embed_cat(q[:, :, p:], rope, half=half)], dim=2).type_as(v)
            k = torch.cat([k[:, :, :p], apply_rot_embed_cat(k[:, :, p:], rope, half=half)], dim=2).type_as(v)
        return q, k, v

    def select(self, score, x, rope):
        torch = self.torch
        rows = score.shape[1]
        keep = max(1, int(rows * 0.5))
        chosen = score.topk(keep, dim=1).indices.sort(dim=1).values
        patches = torch.gather(x[:, self.prefix:], 1, chosen[..., None].expand(-1, -1, x.shape[2]))
        if rope is not None:
            whole = rope if rope.ndim == 4 else rope[None, None].expand(x.shape[0], 1, -1, -1)
            rope = torch.gather(whole, 2, chosen[:, None, :, None].expand(-1, -1, -1, whole.shape[3]))
        return torch.cat([x[:, :self.prefix], patches], 1), rope

    def block(self, block, x, rope, here):
        torch, functional = self.torch, self.torch.nn.functional
        if not here:
            return (block(x, rope=rope) if rope is not None else block(x)), rope
        scales = (block.ls1, block.ls2) if hasattr(block, "ls1") else tuple(
            (lambda y, g=g: y if g is None else g * y) for g in (block.gamma_1, block.gamma_2))
        score = None
        if self.policy == "l2":
            x = x + scales[0](block.attn(block.norm1(x), rope=rope) if rope is not None else block.attn(block.norm1(x)))
        else:
            q, k, v = self.queries(block.attn, block.norm1(x), rope)
            scale = q.shape[-1] ** -0.5
            if self.policy == "evit":
                score = torch.softmax(q[:, :, :1] @ k.transpose(-2, -1) * scale, -1, dtype=torch.float32).mean((1, 2))
            else:
                score = torch.softmax(q @ k.transpose(-2, -1) * scale, -1, dtype=torch.float32).mean((1, 2))
            out = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
            x = x + scales[0](block.attn.proj(block.attn.norm(out)))
        if self.policy == "evit":
            x, rope = self.select(score[:, self.prefix:], x, rope)
        x = x + scales[1](block.mlp(block.norm2(x)))
        if self.policy != "evit":
            if score is None:
                score = x.float().square().sum(-1)
            x, rope = self.select(score[:, self.prefix:], x, rope)
        return x, rope

    def __call__(self, images):
        model = self.model
        x = model.patch_embed(images)
        x = model._pos_embed(x)
        x, rope = x if isinstance(x, tuple) else (x, None)
        x = model.norm_pre(x)
        for index, block in enumerate(model.blocks):
            x, rope = self.block(block, x, rope, index in self.blocks)
        return model.forward_head(model.norm(x))


def turns(clock_wait, calls, batch, seconds):
    """Images per second of each call: the best of three windows, which take turns."""
    best = {label: 0.0 for label in calls}
    for call in calls.values():
        for _ in range(3):
            call()
        clock_wait()
    for _ in range(3):
        for label, call in calls.items():
            begin, n = time.perf_counter(), 0
            while n == 0 or time.perf_counter() - begin < seconds / 3:
                for _ in range(4):
                    call()
                n += 4
                if n % 32 == 0:
                    clock_wait()
            clock_wait()
            best[label] = max(best[label], n * batch / (time.perf_counter() - begin))
    return best


def relative(got, wanted):
    return float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())


def row_of(torch, raggedvit, clock, name, path, theirs, opened, wanted, batch, dtype, policy, seconds):
    from baselines.sessions import Graph

    kind = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[dtype]
    row = {"model": name, "batch": batch, "dtype": dtype, "policy": policy}
    images, reference = wanted
    given = images.to(kind)
    forward = opened.prepare(raggedvit.Policy(**POLICIES[policy], **({"blocks": (0,)} if len(theirs.blocks) < 4 and policy != "dense" else {})))
    graph = Graph("pytorch graph", (lambda: theirs(given)) if policy == "dense" else (lambda pruned=Pruned(torch, theirs, policy): pruned(given)),
                  clock)
    logits = forward(given)
    if policy == "dense":
        row["error"] = relative(logits, reference)
        row["pytorch_error"] = relative(theirs(given).float(), reference)
    wait = clock.synchronize if hasattr(clock, "synchronize") else (lambda: None)
    rates = turns(wait, {"raggedvit": lambda: forward(given), "pytorch": graph.enqueue}, batch, seconds)
    row["images_per_second"] = rates
    row["of_pytorch_graph"] = rates["raggedvit"] / rates["pytorch"]
    return row


def main():
    options = parse()
    sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
    os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)
    import timm
    import torch

    import raggedvit
    from baselines.clock import GpuClock, HostClock
    from baselines.library import GpuContext, HostContext, Library

    library = Library(options.library)
    dry = options.dry_run
    clock = HostClock(lambda: None) if dry else GpuClock()
    context = HostContext(library, "cpu") if dry else GpuContext(library, clock.stream)
    device = "cpu" if dry else "cuda"
    report = {"benchmark": "families", "dry_run": dry, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "version": library.version(),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "device": {"name": context.info().name.decode(),
              "driver": context.info().driver.decode()}, "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(),
              "torch": torch.__version__, "timm": timm.__version__, "rows": []}
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    folder = pathlib.Path(options.work) / ("tiny" if dry else "full")

    def add(row):
        report["rows"].append(row)
        print(json.dumps(row), flush=True)
        (out / "families.json").write_text(json.dumps(report, indent=1) + "\n")

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with clock.on_stream(), torch.inference_mode():
        for name in options.models.split(","):
            model, path = make(torch, timm, name, folder, device, dry)
            wanted = {}
            for batch in (1, 2) if dry else [int(b) for b in options.batches.split(",")]:
                images = torch.randn((batch, 3, *model.patch_embed.img_size), generator=torch.Generator().manual_seed(batch)).half().to(device)
                wanted[batch] = images.float(), torch.cat([model(part) for part in images.float().split(16)])
            for dtype in ("f32",) if dry else options.dtypes.split(","):
                theirs = model.to({"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[dtype])
                keep_rope(theirs)
                try:
                    opened = raggedvit.Model(path, device, dtype)
                except raggedvit.RaggedVitError as failure:
                    add({"model": name, "dtype": dtype, "failed": str(failure)})
                    continue
                for batch, reference in wanted.items():
                    for policy in options.policies.split(","):
                        if policy == "evit" and not getattr(model, "cls_token", None) is not None:
                            continue
                        try:
                            add(row_of(torch, raggedvit, clock, name, path, theirs, opened, reference, batch, dtype, policy, options.seconds))
                        except (raggedvit.RaggedVitError, RuntimeError) as failure:
                            add({"model": name, "batch": batch, "dtype": dtype, "policy": policy, "failed": str(failure)[:300]})
                opened.close()
            del model, theirs
            if not dry:
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
