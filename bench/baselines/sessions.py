"""Whole forwards: the library's sessions and PyTorch's graphs with the same methods, and clocks for them."""

import ctypes
import time

import torch

from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new

from .clock import summarize


class Model:
    def __init__(self, context, path, dtype="f16", quantization="none"):
        library = context.library
        self.context, self.library = context, library
        checkpoint = library.make("rvit_checkpoint_open", str(path).encode(), None)
        desc = new("rvit_model_desc", dtype=CONSTANTS["RVIT_" + dtype.upper()],
                   quantization=CONSTANTS["RVIT_QUANTIZATION_" + quantization.upper()])
        self.handle = library.make("rvit_model_create", context.device, checkpoint, ctypes.byref(desc))
        library.rvit_checkpoint_destroy(checkpoint)
        self.info = new("rvit_model_info")
        library.rvit_model_get_info(self.handle, ctypes.byref(self.info))

    def close(self):
        self.library.rvit_model_destroy(self.handle)


class Sessions:
    """Several sessions of one model and batch size on one stream, so that one can be enqueued while another runs. Images and logits are the
    caller's tensors on the device."""

    name = "raggedvit"

    def __init__(self, model, images, keep=None, n=1, fixed_batch=True, threshold=None):
        self.model, self.library, context = model, model.library, model.context
        library, batch = self.library, images.shape[0]
        self.logits = [context.empty(batch, model.info.n_classes, dtype=torch.float32) for _ in range(n)]
        self.handles = []
        for logits in self.logits:
            desc = new("rvit_session_desc", max_images=batch, fixed_batch=int(fixed_batch), stream=context.stream,
                               input_memory=CONSTANTS["RVIT_INPUT_FIXED"], input_view=context.view(images), logits=context.view(logits))
            prune = new("rvit_prune_desc")
            desc.prune = ctypes.addressof(prune)
            if keep is not None:
                prune.type, prune.keep = CONSTANTS["RVIT_PRUNE_L2"], keep
            if threshold is not None:
                prune.type, prune.threshold = CONSTANTS["RVIT_PRUNE_L2_THRESHOLD"], threshold
            self.handles.append(library.make("rvit_session_create", model.handle, ctypes.byref(desc)))
        self._run = new("rvit_run_args", n_images=batch)
        self._pointer = ctypes.addressof(self._run)
        self._enqueue, self._wait = library.raw.rvit_session_enqueue, library.raw.rvit_session_wait

    def _check(self, status):
        if status:
            raise RuntimeError(self.library.raw.rvit_status_detail().decode())

    def enqueue(self, i=0):
        self._check(self._enqueue(self.handles[i], self._pointer))

    def wait(self, i=0):
        self._check(self._wait(self.handles[i]))

    def stats(self):
        stats = new("rvit_stats")
        self.library.rvit_session_get_stats(self.handles[0], ctypes.byref(stats))
        return {name: getattr(stats, name) for name, _ in stats._fields_[1:]}

    def rows(self):
        """Rows left after the last prune stage of the last run; None without stages."""
        info, view = new("rvit_session_info"), new("rvit_result_view")
        self.library.rvit_session_get_info(self.handles[0], ctypes.byref(info))
        if info.n_stages == 0:
            return None
        self.library.rvit_session_get(self.handles[0], CONSTANTS["RVIT_RESULT_KEPT"], info.n_stages - 1, ctypes.byref(view))
        return view.rows

    def close(self):
        for handle in self.handles:
            self.library.rvit_session_destroy(handle)


class Graph:
    """A PyTorch forward in one CUDA graph; without a GPU, the forward itself."""

    def __init__(self, name, forward, clock):
        self.name, self.clock = name, clock
        if clock.stream is None:
            self.enqueue = lambda i=0: forward()
            return
        for _ in range(3):
            forward()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=clock.stream):
            self.logits = forward()

    def enqueue(self, i=0):
        self.graph.replay()

    def wait(self, i=0):
        if self.clock.stream is not None:
            self.clock.stream.synchronize()


class Call(Graph):
    """A PyTorch forward called directly: eager, or under torch.compile."""

    def __init__(self, name, forward, clock):
        self.name, self.clock = name, clock
        self.enqueue = lambda i=0: forward()
        for _ in range(4):
            forward()
            self.wait()


def measure(baselines, clock, batch, seconds=0.3, least=5):
    """Times baselines in turns. Microseconds of one forward: throughput (several enqueued, then waits, divided by their number), latency
    (enqueue and wait), gpu (between two events), host (only the enqueue). Returns name -> kind -> summary, and images per second."""
    samples = {r.name: {"throughput": [], "latency": [], "host": [], "gpu": []} for r in baselines}
    deepest = min(len(getattr(r, "handles", range(8))) for r in baselines)
    for r in baselines:
        for _ in range(2):
            r.enqueue()
            r.wait()
    end, turn = time.perf_counter() + seconds * len(baselines), 0
    while turn < least or (time.perf_counter() < end and turn < 500):
        for r in baselines:
            s = samples[r.name]
            begin = time.perf_counter()
            for i in range(deepest):
                r.enqueue(i)
            for i in range(deepest):
                r.wait(i)
            s["throughput"].append((time.perf_counter() - begin) / deepest * 1e6)
            begin = time.perf_counter()
            r.enqueue()
            enqueued = time.perf_counter()
            r.wait()
            s["latency"].append((time.perf_counter() - begin) * 1e6)
            s["host"].append((enqueued - begin) * 1e6)
            if clock.stream is not None:
                events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
                events[0].record()
                r.enqueue()
                events[1].record()
                r.wait()
                s["gpu"].append(events[0].elapsed_time(events[1]) * 1e3)
        turn += 1
    results = {}
    for name, kinds in samples.items():
        results[name] = {kind: summarize(values) for kind, values in kinds.items() if values}
        results[name]["images_per_second"] = batch * 1e6 / results[name]["throughput"]["median"]
        results[name]["enqueued_at_once"] = deepest
    return results
