#!/usr/bin/env python3
"""SigLIP2 NaFlex on a batch of images of different sizes: compares one packed variable-resolution session with padding, with one call per
size, and with PyTorch's packed forward on FlashAttention-2's varlen kernel.

    bench/mixed.py --library build/libraggedvit.so --out results [--points photos_256,...] [--seconds 0.3]
    bench/mixed.py --library build/libraggedvit.so --out results --dry-run       # two blocks, on the CPU: its figures mean nothing

Weights are random, in f16, of the published size. Writes OUT/mixed.json after each row. A point is a list of image sizes and a rule for
their patch grids: NaFlex's, which gives all about the same number of patches, or the image's own size if that fits. tiny_347 is the case
of vit-pytorch's issue 347: 512 images 16 pixels high and 32 to 80 wide.

`from_images` starts from uint8 images in host memory: compares two sessions, with the images in their memory or copied by the run, with
torchvision's resize of pinned images on the GPU and the packed forward. `images_error` compares with the rows of transformers' processor,
whose values are ordered differently within a patch. `from_host_ms` is from float32 patches to logits, both on the host, by
Model.prepare(inputs="patches") from Python and by PyTorch's copy and forward; all other times are from patches in device memory.
`single_runs_equal`: each image has the same bits in the batch as by itself in the same session. `kernels`, with --kernels: microseconds of a
run by kernel.
"""

import argparse
import ctypes
import json
import os
import pathlib
import platform
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PATCH = 16
PHOTOS = ((640, 480), (500, 375), (375, 500), (1280, 720), (1024, 1024), (320, 240), (480, 640), (800, 600))
# name -> (sizes of images, most patches, whether small images keep their size, model)
BASE = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12}
TINY = {"hidden_size": 192, "intermediate_size": 768, "num_hidden_layers": 12, "num_attention_heads": 3}


def tiny_sizes():
    return [(32 + 16 * ((7 * i + i // 5) % 4), 16) for i in range(512)]


def different_sizes(n=64):
    """n different sizes, with sides of 96 to 603 pixels."""
    return [(96 + 16 * (5 * i % 31) + i % 12, 96 + 16 * (11 * i % 29) + i % 9) for i in range(n)]


POINTS = {
    "photos_256": ([PHOTOS[i % 8] for i in range(64)], 256, False, "base"),
    "photos_1024": ([PHOTOS[i % 8] for i in range(64)], 1024, False, "base"),
    "different_1024": (different_sizes(), 1024, True, "base"),
    "tiny_347": (tiny_sizes(), 256, True, "base"),
    "tiny_347_vit_tiny": (tiny_sizes(), 256, True, "tiny"),
}
DRY = {"photos_256": ([(64, 48), (50, 37), (37, 50), (160, 90)], 16, False, "base"),
       "tiny_347": (tiny_sizes()[:12], 256, True, "tiny")}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/mixed", help="folder for checkpoints")
    parser.add_argument("--points", default=",".join(POINTS))
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement")
    parser.add_argument("--kernels", action="store_true", help="also time each kernel, which disturbs all points after the first")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def make(torch, kind, folder, device, dry):
    """Returns transformers' model in float32 with random weights that float16 can represent, and its checkpoint's path."""
    from safetensors.torch import save_file
    from transformers import Siglip2VisionConfig, Siglip2VisionModel

    shape = {"base": BASE, "tiny": TINY}[kind]
    if dry:
        shape = {**shape, "num_hidden_layers": 2, "hidden_size": 128, "intermediate_size": 256, "num_attention_heads": 2}
    config = Siglip2VisionConfig(**shape, num_patches=256, patch_size=PATCH)
    config._attn_implementation = "sdpa"
    torch.manual_seed(1)
    model = Siglip2VisionModel(config).eval()
    for key, value in model.named_parameters():
        if key.endswith("bias"):
            value.data.normal_(0, 0.02)
        value.data.copy_(value.data.half().float())
    path = folder / kind / "model.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file({key: value.half().contiguous() for key, value in model.state_dict().items()}, str(path))
    (path.parent / "config.json").write_text(json.dumps({**config.to_dict(), "model_type": "siglip2_vision_model"}))
    return model.to(device), path


def grids_of(library, sizes, most, keeps):
    from raggedvit._layouts import new
    grid, found, recipe = (ctypes.c_int32 * 2)(), [], new("rvit_image_recipe", patch_size=PATCH, max_patches=most)
    for width, height in sizes:
        own = (-(-height // PATCH), -(-width // PATCH))
        if not keeps or own[0] * own[1] > most:
            library.rvit_image_recipe_grid(ctypes.byref(recipe), height, width, grid)
            own = tuple(grid)
        found.append(own)
    return found


def relative(got, wanted):
    return float((got.double() - wanted.double()).abs().max() / wanted.double().abs().max())


def single_runs(torch, naflex, model, batch):
    """Runs a batch, and each of its images by itself, in one session. Returns the logits of both."""
    given = model.context.empty(batch.bounds[-1], batch.patches.shape[1], dtype=torch.float32)
    given.copy_(batch.patches)
    session = naflex.PackedSession("", model, given, batch.grids)
    session.enqueue()
    session.wait()
    together, rows = session.logits[0].clone(), []
    session._run.n_images = 1
    for i, grid in enumerate(batch.grids):
        given[:batch.lengths[i]].copy_(batch.patches_of(i))
        session.grids[0] = grid
        session.enqueue()
        session.wait()
        rows.append(session.logits[0][:1].clone())
    session.close()
    return together, torch.cat(rows)


def kernels_of(torch, baseline, runs=5):
    """Microseconds of a run by kernel, longest first; empty without a GPU."""
    if not torch.cuda.is_available():
        return {}
    baseline.enqueue()
    baseline.wait()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(runs):
            baseline.enqueue()
            baseline.wait()
        torch.cuda.synchronize()
    found = {}
    for event in profile.key_averages():
        found[event.key[:120]] = found.get(event.key[:120], 0) + event.self_device_time_total / runs
    longest = sorted(found.items(), key=lambda item: -item[1])[:16]
    return {name: round(us, 1) for name, us in longest if us > 0} | {"all": round(sum(found.values()), 1)}


def host_rates(torch, raggedvit, batch, path, device, dtype, baseline, seconds):
    """Milliseconds from float32 patches to logits, both on the host: the fastest of a few calls. Also returns the logits."""
    opened = raggedvit.Model(path, device, dtype)
    forward = opened.prepare(inputs="patches", max_images=len(batch.grids), max_tokens=batch.bounds[-1], max_len=batch.longest)
    values = torch.from_numpy(batch.host)

    def theirs():
        return baseline(values.to(batch.device).to(batch.half.dtype)).float().cpu()

    found = {}
    for name, call in (("raggedvit", lambda: forward(batch.host, batch.grids)), ("pytorch packed eager", theirs)):
        best = float("inf")
        for _ in range(2):
            call()
        end, n = time.perf_counter() + seconds, 0
        while n < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            best, n = min(best, time.perf_counter() - begin), n + 1
        found[name] = round(best * 1e3, 4)
    logits = forward(batch.host, batch.grids).logits
    opened.close()
    return found, logits


def image_rates(torch, naflex, context, clock, model, packed, row, sizes, grids, kind, options):
    """Measures and checks the whole input pipeline, from uint8 images of these sizes on the host."""
    from baselines.sessions import Call, measure

    images = naflex.random_images(sizes)
    baselines = [naflex.ImageSessions("raggedvit, images in place", model, images, grids, PATCH, True),
                 naflex.ImageSessions("raggedvit, images copied", model, images, grids, PATCH, False)]
    made = naflex.patches_of_images(images, grids, PATCH)
    patches = context.empty(*made.shape, dtype=torch.float32)
    patches.copy_(made)
    wanted = naflex.PackedSession("", model, patches, grids)
    for session in (*baselines, wanted):
        session.enqueue()
        session.wait()
    row["images_error"] = [relative(baseline.logits(model.info.n_classes), wanted.logits[0].cpu()) for baseline in baselines]
    baselines.append(Call("torchvision, pytorch packed eager, positions prepared",
                          naflex.torchvision_packed(packed, context, images, grids, PATCH, kind), clock))
    times = measure(baselines, clock, len(grids), 0.05 if options.dry_run else options.seconds)
    row["from_images"] = {"bytes": sum(image.nbytes for image in images), "times": times,
                            "images_per_second": {name: found["images_per_second"] for name, found in times.items()}}
    row["images_per_second_from_images"] = row["from_images"]["images_per_second"]
    for session in (*baselines[:2], wanted):
        session.close()


def row_of(torch, raggedvit, context, clock, name, point, theirs, path, options):
    from baselines import naflex
    from baselines.sessions import Call, Graph, Model, measure

    sizes, most, keeps, _ = point
    dry = options.dry_run
    grids = grids_of(context.library, sizes, most, keeps)
    batch = naflex.Batch(context, grids, 3 * PATCH * PATCH)
    kind = torch.float32 if dry else torch.float16
    batch.half = batch.half.to(kind)
    row = {"point": name, "images": len(grids), "sizes": len(set(grids)), "tokens": batch.bounds[-1], "longest": batch.longest,
           "padded_tokens": len(grids) * batch.longest, "most_patches": most, "keeps_small": keeps}
    reference = naflex.padded(theirs.float(), batch, torch.float32)()
    theirs.to(kind)
    model = Model(context, path, "f32" if dry else "f16")
    ours = naflex.PackedSession("raggedvit", model, batch.patches, grids, 2)
    ours.enqueue()
    ours.wait()
    packed = naflex.Packed(theirs, batch)
    positions = packed.positions(batch)
    row["error"] = relative(ours.logits[0], reference)
    row["pytorch_error"] = relative(packed(batch.half, batch), reference)
    together, single = single_runs(torch, naflex, model, batch)
    row["single_runs_equal"] = bool(torch.equal(together, single)) and bool(torch.equal(together, ours.logits[0]))
    image_rates(torch, naflex, context, clock, model, packed, row, sizes, grids, kind, options)
    row["from_host_ms"], logits = host_rates(torch, raggedvit, batch, path, "cpu" if dry else "cuda", "f32" if dry else "f16",
                                             lambda half: packed(half, batch), options.seconds)
    row["from_host_equal"] = bool((torch.from_numpy(logits) == ours.logits[0].cpu()).all())
    longest = grids[batch.lengths.index(batch.longest)]
    all_long = context.empty(len(grids) * batch.longest, batch.patches.shape[1], dtype=torch.float32)
    all_long.zero_()
    baselines, row["failures"] = [ours], {}

    def add(kind_of, baseline, make_forward):
        """Adds a baseline, or records why it cannot run."""
        try:
            made = make_forward()
            baselines.append(made if kind_of is None else kind_of(baseline, made, clock))
        except Exception as failure:
            row["failures"][baseline] = str(failure)[:300]

    add(None, "raggedvit, padded", lambda: naflex.PackedSession("raggedvit, padded", model, all_long, [longest] * len(grids), 2))
    add(None, "raggedvit, one call per size", lambda: naflex.BySize(model, batch))
    add(Call, "pytorch packed eager", lambda: lambda: packed(batch.half, batch))
    add(Call, "pytorch packed eager, positions prepared", lambda: lambda: packed(batch.half, batch, positions))
    add(Graph, "pytorch packed graph, positions prepared", lambda: lambda: packed(batch.half, batch, positions))
    add(Call, "pytorch packed, one call per size, positions prepared", lambda: naflex.by_size(packed, context, batch))
    add(Call, "transformers padded", lambda: naflex.padded(theirs, batch, kind))
    add(Call, "transformers padded, positions prepared", lambda: naflex.padded(theirs, batch, kind, True))
    if not dry:
        fast = naflex.Packed(theirs, batch).compiled()
        add(Call, "pytorch packed compiled, positions prepared", lambda: lambda: fast(batch.half, batch, positions))
        add(Graph, "pytorch packed compiled graph, positions prepared", lambda: lambda: fast(batch.half, batch, positions))
    row["times"] = measure(baselines, clock, len(grids), 0.05 if dry else options.seconds)
    rates = {baseline: found["images_per_second"] for baseline, found in row["times"].items()}
    if options.kernels:  # last, because CUPTI stays active and slows later work
        row["kernels"] = {baseline.name: kernels_of(torch, baseline) for baseline in baselines if baseline.name in (
            "raggedvit", "pytorch packed eager, positions prepared", "pytorch packed compiled, positions prepared")}
    row["images_per_second"] = rates
    row["raggedvit_is_faster_by"] = {baseline: round(rates["raggedvit"] / rate, 3) for baseline, rate in rates.items() if baseline != "raggedvit"}
    for baseline in baselines:
        getattr(baseline, "close", lambda: None)()
    model.close()
    return row


def main():
    options = parse()
    sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
    os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)
    import torch
    import transformers

    import raggedvit
    from baselines.clock import GpuClock, HostClock
    from baselines.library import GpuContext, HostContext, Library

    library, dry = Library(options.library), options.dry_run
    clock = HostClock(lambda: None) if dry else GpuClock()
    context = HostContext(library, "cpu") if dry else GpuContext(library, clock.stream)
    report = {"benchmark": "mixed", "dry_run": dry, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "version": library.version(),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
              "device": {"name": context.info().name.decode(), "driver": context.info().driver.decode()},
              "cpu": platform.processor() or platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__,
              "transformers": transformers.__version__, "rows": []}
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    points = DRY if dry else {name: POINTS[name] for name in options.points.split(",")}
    models = {}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    with clock.on_stream(), torch.inference_mode():
        for name, point in points.items():
            begin = time.perf_counter()
            if point[3] not in models:
                models[point[3]] = make(torch, point[3], pathlib.Path(options.work) / ("dry" if dry else "full"), context.torch_device, dry)
            try:
                row = row_of(torch, raggedvit, context, clock, name, point, *models[point[3]], options)
            except (raggedvit.RaggedVitError, RuntimeError) as failure:
                row = {"point": name, "failed": str(failure)[:300]}
            row["took"] = round(time.perf_counter() - begin, 1)
            report["rows"].append(row)
            print(json.dumps({key: value for key, value in row.items() if key not in ("times", "kernels", "from_images")}), flush=True)
            (out / "mixed.json").write_text(json.dumps(report, indent=1) + "\n")
            if not dry:
                torch.cuda.synchronize()
                context.forget()
                torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
