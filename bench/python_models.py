#!/usr/bin/env python3
"""Whole forwards from Python: compares raggedvit.Model and a patched timm model on CUDA tensors with the C session through ctypes and with
PyTorch's forward in a CUDA graph; then batches from the host with PyTorch's pinned copy and graph.

    bench/python_models.py --library build/libraggedvit.so --out results [--models deit_tiny_patch16_224,...] [--seconds 0.3]
    bench/python_models.py --library build/libraggedvit.so --out results --dry-run       # tiny, on the CPU: its figures mean nothing

Writes OUT/python_models.json. Images per second: calls enqueued one after another, one wait. host_us: a call that returns
while the GPU is busy. At the end, PyTorch's profiler and the library count the waits in 20 calls.
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
WAITS = ("Synchronize", "cudaEventQuery", "cudaStreamQuery")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench", help="folder for checkpoints")
    parser.add_argument("--models", default="deit_tiny_patch16_224,deit_small_patch16_224,deit_base_patch16_224,deit_base_patch16_384")
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement")
    parser.add_argument("--sections", default="device,host,waits")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def rate(call, wait, batch, seconds):
    """Images per second: the best of three windows."""
    for _ in range(5):
        call()
    wait()
    best = 0.0
    for _ in range(3):
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds / 3:
            for _ in range(10):
                call()
            n += 10
        wait()
        best = max(best, n * batch / (time.perf_counter() - begin))
    return best


def host_us(call, wait, calls=4, windows=100):
    """Time per call, median over windows. A window has so few calls that the queue is never full."""
    samples = []
    for _ in range(windows):
        wait()
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        samples.append((time.perf_counter() - begin) / calls * 1e6)
    wait()
    return sorted(samples)[len(samples) // 2]


def waits(torch, call, wait):
    """Counts waiting calls of the CUDA runtime in 20 calls with PyTorch's profiler."""
    call()
    wait()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(20):
            call()
        # The profiler's own waits come after this mark.
        with torch.profiler.record_function("raggedvit_end"):
            pass
    end = min((e.time_range.start for e in profile.events() if e.name == "raggedvit_end"), default=float("inf"))
    return sum(1 for e in profile.events() if any(word in e.name for word in WAITS) and e.time_range.start < end)


def library_waits(model, call):
    from raggedvit._c.layouts import new

    def total():
        found = 0
        for session in model._sessions:
            stats = new("rvit_stats")
            model._lib.rvit_session_get_stats(session.handle, ctypes.byref(stats))
            found += stats.synchronizations
        return found

    before = total()
    for _ in range(20):
        call()
    return total() - before


def timm_model(torch, shape, weights, policy):
    """A patched timm model with the same weights; its recorded forward runs in float16."""
    import timm

    import raggedvit

    model = timm.models.vision_transformer.VisionTransformer(
        img_size=shape.size, patch_size=shape.patch, embed_dim=shape.dim, depth=shape.depth, num_heads=shape.heads,
        num_classes=shape.classes)
    model.load_state_dict(weights)
    model.eval()
    if torch.cuda.is_available():
        model.cuda()
    return raggedvit.patch.timm(model, policy, dtype="f16")


OURS = ("Model.prepare", "Model.forward", "patched timm")


def device_calls(torch, bench, name, batch, keep):
    """Returns the ways to run one point as label -> call, a function that waits, the open model, and a function that closes everything."""
    from baselines.sessions import Graph, Sessions

    import raggedvit

    zoo, clock = bench["zoo"], bench["clock"]
    zoo.use(name)
    images, theirs = zoo.images(batch)
    policy = raggedvit.Policy("none") if keep is None else raggedvit.Policy("l2", keep=keep)
    session = Sessions(zoo.ours, images, keep, 1)
    path = zoo.folder / f"{zoo.shape(name).name}.safetensors"
    model = raggedvit.Model(path, "cuda" if torch.cuda.is_available() else "cpu", "f16")
    forward = model.prepare(policy)
    patched = timm_model(torch, zoo.shape(name), {k: v.float().cpu() for k, v in zoo.weights.items()}, policy)
    graph = Graph("pytorch graph", zoo.forward(theirs, keep), clock)
    wait = clock.synchronize if hasattr(clock, "synchronize") else (lambda: None)
    calls = {"C session": session.enqueue, "Model.prepare": lambda: forward(images), "Model.forward": lambda: model(images, policy),
             "patched timm": lambda: patched(images), "pytorch graph": graph.enqueue}
    if not torch.cuda.is_available():  # a session on the CPU allows one pending run
        calls["C session"] = lambda: (session.enqueue(), session.wait())
    return calls, wait, model, lambda: (session.close(), model.close())


def device_row(torch, bench, name, batch, keep, seconds):
    row = {"model": name, "batch": batch, "keep": keep}
    calls, wait, _, close = device_calls(torch, bench, name, batch, keep)
    with torch.inference_mode():
        wanted = calls["Model.prepare"]().float().cpu()
        row["largest_difference"] = {label: float((calls[label]().float().cpu() - wanted).abs().max()) for label in OURS[1:]}
        for label, call in calls.items():
            row[label] = {"images_per_second": rate(call, wait, batch, seconds), "host_us": host_us(call, wait)}
    for label in OURS:
        for theirs, key in (("C session", "of_c_session"), ("pytorch graph", "of_pytorch_graph")):
            row[label][key] = row[label]["images_per_second"] / row[theirs]["images_per_second"]
    close()
    return row


def waits_row(torch, bench, name, batch, keep, seconds):
    """Counts waits. Must follow all timing, because PyTorch's profiler slows every later launch of the process."""
    row = {"model": name, "batch": batch, "keep": keep}
    calls, wait, model, close = device_calls(torch, bench, name, batch, keep)
    with torch.inference_mode():
        calls["Model.prepare"]()  # the first call creates the session
        row["library_waits"] = library_waits(model, calls["Model.prepare"])
        if torch.cuda.is_available():
            row["profiler_waits"] = {label: waits(torch, calls[label], wait) for label in OURS}
    close()
    return row


def host_row(torch, bench, name, batch, keep, seconds):
    """Measures from float32 images in pageable and pinned host memory to logits in host memory."""
    import numpy as np

    import raggedvit
    from baselines.sessions import Graph

    zoo, clock = bench["zoo"], bench["clock"]
    zoo.use(name)
    cuda = torch.cuda.is_available()
    model = raggedvit.Model(zoo.folder / f"{zoo.shape(name).name}.safetensors", "cuda" if cuda else "cpu", "f16")
    policy = raggedvit.Policy("none") if keep is None else raggedvit.Policy("l2", keep=keep)
    forward = model.prepare(policy)
    size = zoo.shape(name).size
    pageable = [np.random.default_rng(i).standard_normal((batch, 3, size, size), np.float32) for i in range(4)]
    tensors = [torch.from_numpy(x).pin_memory() if cuda else torch.from_numpy(x) for x in pageable]
    pinned = [t.numpy() for t in tensors]
    device, theirs = zoo.images(batch)
    graph = Graph("pytorch graph", zoo.forward(theirs, keep), clock)

    def ours(batches):
        def run(n):
            for _ in forward.map(batches[i % 4] for i in range(n)):
                pass
        return run

    def one_by_one(source):
        def run(n):
            for i in range(n):
                forward(source[i % 4])
        return run

    def classified(source):
        def run(n):
            for i in range(n):
                model.classify(source[i % 4], policy)
        return run

    def pytorch(source, pin):
        out = torch.empty((batch, zoo.shape(name).classes), pin_memory=cuda) if cuda else None
        staging = torch.empty(source[0].shape, pin_memory=cuda) if pin else None

        def run(n):
            for i in range(n):
                given = source[i % 4]
                if pin:
                    staging.copy_(given)
                    given = staging
                device.copy_(given, non_blocking=True)
                theirs.copy_(device)
                graph.enqueue()
                if cuda:
                    out.copy_(graph.logits, non_blocking=True)
                    if pin:  # before the staging memory is overwritten
                        clock.synchronize()
            if cuda:
                clock.synchronize()
        return run

    # Checks that map gives the bits of a single call: it never splits a batch.
    whole = next(iter(forward.map(pageable[:1])))
    row = {"model": name, "batch": batch, "keep": keep, "largest_difference": float(np.abs(forward(pageable[0]) - whole).max())}
    runs = {"map, pageable": ours(pageable), "map, pinned": ours(pinned), "forward, pageable": one_by_one(pageable),
            "forward, pinned": one_by_one(pinned), "classify, pageable": classified(pageable), "classify, pinned": classified(pinned),
            "PyTorch, pinned copy and graph": pytorch(tensors, False), "PyTorch, copy to pinned, copy and graph":
            pytorch([torch.from_numpy(x) for x in pageable], True)}
    with torch.inference_mode():
        for label, run in runs.items():
            run(8)
            best = 0.0
            for _ in range(3):
                begin, n = time.perf_counter(), 0
                while n == 0 or time.perf_counter() - begin < seconds:
                    run(32 if cuda else 4)
                    n += 32 if cuda else 4
                best = max(best, n * batch / (time.perf_counter() - begin))
            row[label] = {"images_per_second": best}
    model.close()
    return row


def main():
    options = parse()
    sys.path[:0] = [str(HERE), str(HERE.parent / "python")]
    os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)
    import torch

    from baselines import forwards
    from baselines.clock import GpuClock, HostClock
    from baselines.library import GpuContext, HostContext, Library

    library = Library(options.library)
    torch.manual_seed(1)
    dry = options.dry_run
    if dry:
        context = HostContext(library, "cpu")
        clock = HostClock(context.synchronize)
    else:
        clock = GpuClock()
        context = GpuContext(library, clock.stream)
    zoo = forwards.Zoo(context, clock, pathlib.Path(options.work) / ("tiny" if dry else "models"), tiny=dry)
    bench = {"zoo": zoo, "clock": clock, "context": context}
    names = ["tiny"] if dry else options.models.split(",")
    batches = [1, 2] if dry else [int(b) for b in options.batches.split(",")]
    report = {"benchmark": "python_models", "dry_run": dry, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "version": library.version(), "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"),
              "device": {"name": context.info().name.decode(), "driver": context.info().driver.decode()}, "cpu": platform.processor() or
              platform.machine(), "cores": os.cpu_count(), "torch": torch.__version__, "compiled_core": _has_core(), "device_rows": [],
              "host_rows": [], "waits_rows": []}
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    with clock.on_stream():
        for section, measure, chosen in (("device", device_row, batches), ("host", host_row, batches[-1:]), ("waits", waits_row, batches[:1])):
            for name in names if section in options.sections else []:
                for batch in chosen:
                    for keep in (None, 0.5) if section == "host" else (None, 0.5, 0.2):
                        try:
                            row = measure(torch, bench, name, batch, keep, 0.02 if dry else options.seconds)
                        except Exception as failure:
                            if dry:
                                raise
                            row = {"model": name, "batch": batch, "keep": keep, "failed": f"{type(failure).__name__}: {failure}"}
                        report[f"{section}_rows"].append(row)
                        print(json.dumps(row), flush=True)
                        (out / "python_models.json").write_text(json.dumps(report, indent=1) + "\n")
    return 0


def _has_core():
    from raggedvit._arrays import core_loader

    return core_loader.core is not None


if __name__ == "__main__":
    sys.exit(main())
