"""Whole forwards: compares the library with PyTorch's CUDA graph of the same forward, torch.compile, and the eager ragged pipeline."""

import json
import os
import pathlib
import time

import torch

from . import shapes, vit
from .clock import first_line
from .points import error
from .sessions import Call, Graph, Model, Sessions, measure

# The points for torch.compile: model, batch, kept fraction (None: dense).
COMPILE_POINTS = [
    ("deit_base_patch16_224", 1, None), ("deit_base_patch16_224", 1, 0.5), ("deit_base_patch16_224", 64, None),
    ("deit_base_patch16_224", 64, 0.5), ("deit_base_patch16_224", 64, 0.2), ("deit_base_patch16_224", 256, None),
    ("deit_base_patch16_224", 256, 0.5), ("deit_tiny_patch16_224", 1, None), ("deit_tiny_patch16_224", 1, 0.5),
    ("deit_tiny_patch16_224", 64, None), ("deit_tiny_patch16_224", 64, 0.5),
]
# The points for the paper's pipeline, at batch 1 and larger. None: images of different lengths.
EAGER_POINTS = [("deit_base_patch16_224", b, keep) for keep in (0.5, 0.2) for b in (1, 4, 16, 64)] + [
    ("deit_base_patch16_224", b, None) for b in (1, 16, 64)] + [("deit_tiny_patch16_224", 1, keep) for keep in (0.5, 0.2)]


class Zoo:
    """Checkpoints with random weights, each written once, and the models loaded from the current one."""

    def __init__(self, context, clock, folder, tiny=False):
        self.context, self.clock, self.folder, self.tiny = context, clock, pathlib.Path(folder), tiny
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dtype = torch.float16 if context.torch_device.type == "cuda" else torch.float32
        self.name = None

    def shape(self, name):
        return shapes.TINY if self.tiny else shapes.SHAPES[name]

    def use(self, name):
        """Loads a model for both sides and releases the previous one."""
        if name == self.name:
            return self
        self.release()
        self.name, shape = name, self.shape(name)
        self.weights, self.origin = vit.random_weights(shape)
        path = self.folder / f"{shape.name}.safetensors"
        if not path.exists():
            from safetensors.torch import save_file

            own = path.with_suffix(f".{os.getpid()}")  # several processes may write it at the same time
            config = {"architecture": "vit" if self.tiny else name, "model_args": {"num_heads": shape.heads}}
            save_file(self.weights, str(own), {"config": json.dumps(config)})
            own.replace(path)
        self.ours = Model(self.context, path)
        self.theirs = vit.Vit(shape, self.weights, self.context.torch_device, self.dtype)
        return self

    def release(self):
        if self.name is not None:
            self.ours.close()
            self.name = self.theirs = self.weights = None

    def images(self, batch):
        """The same images as float32 for the library and in PyTorch's own type, both on the device."""
        size = self.shape(self.name).size
        images = self.context.empty(batch, 3, size, size, dtype=torch.float32)
        images.normal_()
        return images, images.to(self.dtype)

    def forward(self, images, keep):
        theirs = self.theirs
        return (lambda: theirs.dense(images)) if keep is None else (lambda: theirs.gather(images, keep))


def _depth(context, batch):
    """Sessions enqueued at once: more if a forward is short."""
    return 2 if context.torch_device.type != "cuda" else 8 if batch <= 16 else 4 if batch <= 64 else 2


def accuracy(zoo, names, batch=8):
    """float16 logits of the library against float64."""
    rows = []
    for name in names:
        zoo.use(name)
        images, _ = zoo.images(batch)
        wanted, who = vit.reference_logits(zoo.shape(name), zoo.weights, images)
        ours = Sessions(zoo.ours, images)
        ours.logits[0].fill_(float("nan"))
        ours.enqueue()
        ours.wait()
        torch_error = error(zoo.theirs.dense(images.to(zoo.dtype)), wanted)
        rows.append({"model": name, "images": batch, "reference": who, "weights": zoo.origin, "logits_norm": float(wanted.norm()),
                     "raggedvit_f16": error(ours.logits[0], wanted), "pytorch": torch_error})
        ours.close()
        print(f"  {name}: largest difference of a logit {rows[-1]['raggedvit_f16']['largest']:.2e}, PyTorch's {torch_error['largest']:.2e}",
              flush=True)
    return rows


def _stats_change(ours):
    """What the enqueue of one run adds to the session's counters, and all launches."""
    before = ours.stats()
    ours.enqueue()
    enqueued = ours.stats()
    ours.wait()
    return {"enqueue": {k: enqueued[k] - before[k] for k in before}, "launches_in_all": enqueued["launches"]}


def graphs(zoo, names, batches, keeps, budget, seconds=0.25, rows=None):
    """Compares with PyTorch's forward in one CUDA graph."""
    rows = [] if rows is None else rows
    for name in names:
        for batch in batches:
            for keep in keeps:
                if budget.is_spent():
                    rows.append({"model": name, "batch": batch, "keep": keep, "skipped": "out of time"})
                    continue
                try:
                    zoo.use(name)
                    images, theirs_images = zoo.images(batch)
                    ours = Sessions(zoo.ours, images, keep, _depth(zoo.context, batch))
                    theirs = Graph("pytorch graph", zoo.forward(theirs_images, keep), zoo.clock)
                    result = measure([ours, theirs], zoo.clock, batch, seconds)
                    row = {"model": name, "batch": batch, "keep": keep, "rows": ours.rows(),
                           "pytorch_rows": None if keep is None else batch * zoo.theirs.kept(keep), "stats": _stats_change(ours)}
                    rows.append(row | result)
                    print(f"  {_label(name, batch, keep)}  {_pair(result, 'pytorch graph')}", flush=True)
                    ours.close()
                    del ours, theirs
                except Exception as failure:
                    rows.append({"model": name, "batch": batch, "keep": keep, "skipped": first_line(failure)})
                    print(f"  {_label(name, batch, keep)}  failed: {first_line(failure)}", flush=True)
                _collect(zoo)
    return rows


def compile_points(points, share):
    """The share "i/n" of the points, so that several processes can fill the compiler's cache."""
    i, n = (int(part) for part in share.split("/"))
    return points[i::n]


def compiled(zoo, points, budget, warm_only=False, rows=None):
    """Compares with torch.compile(mode="reduce-overhead")."""
    rows = [] if rows is None else rows
    for name, batch, keep in points:
        if budget.is_spent():
            rows.append({"model": name, "batch": batch, "keep": keep, "skipped": "out of time"})
            continue
        try:
            zoo.use(name)
            torch._dynamo.reset()
            images, theirs_images = zoo.images(batch)
            # Images and weights stay at their addresses. Unless marked so, each call would copy them into the graph's own memory.
            for tensor in [theirs_images, *zoo.theirs.w.values()]:
                torch._dynamo.mark_static_address(tensor)
            forward = zoo.forward(theirs_images, keep)
            begin = time.perf_counter()
            fast = torch.compile(forward, mode="reduce-overhead", dynamic=False)
            with torch.no_grad():
                fast()
            took = time.perf_counter() - begin
            print(f"  {_label(name, batch, keep)}  compiled in {took:.1f} s", flush=True)
            if warm_only:
                continue
            theirs = Call("torch.compile", torch.no_grad()(fast), zoo.clock)
            ours = Sessions(zoo.ours, images, keep, _depth(zoo.context, batch))
            result = measure([ours, theirs], zoo.clock, batch, 0.25)
            rows.append({"model": name, "batch": batch, "keep": keep, "compile_seconds": took} | result)
            print(f"  {_label(name, batch, keep)}  {_pair(result, 'torch.compile')}", flush=True)
            ours.close()
            del ours, theirs
        except Exception as failure:
            rows.append({"model": name, "batch": batch, "keep": keep, "skipped": first_line(failure)})
            print(f"  {_label(name, batch, keep)}  failed: {first_line(failure)}", flush=True)
        _collect(zoo)
    return rows


def eager(zoo, points, budget, rows=None):
    """Compares with the paper's ragged pipeline in eager mode, with the Triton kernel and with FA2, and with a graph that pads with a key
    mask. points: model, batch, kept fraction. None as the fraction: images get different lengths by a threshold that half of the tokens
    reach."""
    rows = [] if rows is None else rows
    for name, batch, keep in points:
        if budget.is_spent():
            rows.append({"model": name, "batch": batch, "keep": keep, "skipped": "out of time"})
            continue
        zoo.use(name)
        images, theirs_images = zoo.images(batch)
        threshold = zoo.theirs.median_norm(theirs_images) if keep is None else None
        ours = Sessions(zoo.ours, images, keep, 2, threshold=threshold)
        baselines = [ours]
        row = {"model": name, "batch": batch, "keep": keep, "threshold": threshold}
        makers = {label: lambda a=attention, l=label: Call(l, lambda: zoo.theirs.ragged_eager(theirs_images, keep, a, threshold), zoo.clock)
                  for label, attention in _eager_attentions(zoo).items()}
        makers["padded graph, key mask"] = lambda: Graph("padded graph, key mask",
                                                         lambda: zoo.theirs.padded(theirs_images, keep, threshold), zoo.clock)
        for label, make in makers.items():
            try:
                baselines.append(make())
            except Exception as failure:
                row[label] = {"skipped": first_line(failure)}
                print(f"  {_label(name, batch, keep, threshold)}  {label}: skipped: {first_line(failure)}", flush=True)
        result = measure(baselines, zoo.clock, batch, 0.25)
        rows.append(row | {"rows": ours.rows()} | result)
        for r in baselines[1:]:
            print(f"  {_label(name, batch, keep, threshold)}  {_pair(result, r.name, 'latency')}", flush=True)
        ours.close()
        del ours, baselines, makers
        _collect(zoo)
    return rows


def stages(zoo, names, batches, keep, budget, rows=None):
    """Times the parts of PyTorch's pruned forward, each in its own graph; bench/stages.c times the library's."""
    rows = [] if rows is None else rows
    for name in names:
        for batch in batches:
            if budget.is_spent():
                rows.append({"model": name, "batch": batch, "keep": keep, "skipped": "out of time"})
                continue
            zoo.use(name)
            _, images = zoo.images(batch)
            theirs = zoo.theirs
            full = theirs.front(images)
            kept = theirs.prune(full, keep)
            calls = {"front": lambda: theirs.front(images), "prune": lambda: theirs.prune(full, keep), "late": lambda: theirs.late(kept),
                     "head": lambda: theirs.head(kept), "whole": lambda: theirs.gather(images, keep)}
            times = zoo.clock.gpu_us(calls, **({} if zoo.clock.stream is None else {"calls": 1, "turns": 50}))
            rows.append({"model": name, "batch": batch, "keep": keep} | times)
            print(f"  {_label(name, batch, keep)}  " + ", ".join(f"{n} {t['median']:.1f} us" for n, t in times.items() if "median" in t),
                  flush=True)
            _collect(zoo)
    return rows


def _eager_attentions(zoo):
    shape = zoo.shape(zoo.name)
    head_dim = shape.dim // shape.heads

    def triton_kernel(qkv, cu_seqlens, longest):
        from . import triton_varlen

        out = torch.empty(qkv.shape[0], shape.dim, device=qkv.device, dtype=qkv.dtype)
        triton_varlen.launch(qkv, out, cu_seqlens, cu_seqlens.shape[0] - 1, longest, shape.heads, head_dim, triton_varlen.PAPER_TILE)
        return out

    def flash_kernel(qkv, cu_seqlens, longest):
        q, k, v = qkv.view(-1, 3, shape.heads, head_dim).unbind(1)
        return torch.ops.aten._flash_attention_forward(q, k, v, cu_seqlens, cu_seqlens, longest, longest, 0.0, False, False)[0].flatten(1)

    def plain(qkv, cu_seqlens, longest):  # one image at a time, on any device
        q, k, v = qkv.view(-1, 3, shape.heads, head_dim).permute(1, 2, 0, 3)
        return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0].transpose(0, 1).flatten(1)

    if zoo.context.torch_device.type != "cuda":
        return {"eager, plain": plain}
    return {"eager, Triton varlen": triton_kernel, "eager, FA2 varlen": flash_kernel}


def _collect(zoo):
    import gc

    gc.collect()
    zoo.context.forget()
    if zoo.context.torch_device.type == "cuda":
        torch.cuda.empty_cache()


def _label(name, batch, keep, threshold=None):
    return f"{name:<22} B={batch:<4} {'ragged ' if threshold is not None else 'dense  ' if keep is None else f'keep {keep}'}"


def _pair(result, baseline, what="throughput"):
    a, b = result["raggedvit"][what]["median"], result[baseline][what]["median"]
    return f"{what}: raggedvit {a:9.1f} us, {baseline} {b:9.1f} us: {b / a:.2f}x"
