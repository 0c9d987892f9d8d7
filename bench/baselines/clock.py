"""Two clocks. GPU: captures calls in a CUDA graph and times its replays between two events. The baselines take turns, so that a change of
clock or load affects all alike. Host: times consecutive calls while the queue is not full, without the wait."""

import contextlib
import time

import torch


SLOW = 0.05  # seconds: the limit of a turn of eager calls; after ten times as long, there are no more turns


def summarize(samples):
    ordered = sorted(samples)
    n = len(ordered)
    return {"median": ordered[n // 2], "p10": ordered[n // 10], "p90": ordered[n - 1 - n // 10], "minimum": ordered[0], "count": n}


class GpuClock:
    def __init__(self):
        self.stream = torch.cuda.Stream()

    def on_stream(self):
        """A context in which everything is allocated and runs on one stream."""
        return torch.cuda.stream(self.stream)

    def synchronize(self):
        torch.cuda.synchronize()

    def _capture(self, call, calls):
        for _ in range(3):
            call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            for _ in range(calls):
                call()
        return graph

    def _time_once(self, work, ahead=False):
        """ahead: enqueues the work once more before the events, so that the GPU does not wait for a launch between them."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if ahead:
            work()
        begin.record()
        work()
        end.record()
        end.synchronize()
        return 1e3 * begin.elapsed_time(end)

    def gpu_us(self, baselines, calls=20, turns=20):
        """baselines: name -> call. Returns microseconds per call: name -> summary, or {"skipped": reason}."""
        works, results, spent = {}, {}, {}
        for name, call in baselines.items():
            try:
                works[name] = (self._capture(call, calls).replay, "graph", calls)
            except Exception as error:  # not capturable: timed eagerly, with its host work; "how" reports that
                torch.cuda.synchronize()
                try:
                    took = self._time_once(call) * 1e-6
                    fit = max(1, min(calls, int(SLOW / took)))
                    works[name] = ((lambda c=call, n=fit: [c() for _ in range(n)]), f"events, not captured: {first_line(error)}", fit)
                except Exception as second:
                    results[name] = {"skipped": first_line(second)}
        samples = {name: [] for name in works}
        for turn in range(turns + 2):
            for name, (work, how, n) in works.items():
                if len(samples[name]) >= 3 and spent.get(name, 0) > 10 * SLOW:
                    continue
                took = self._time_once(work, ahead=how == "graph" and spent.get(name, 0) < SLOW)
                spent[name] = spent.get(name, 0) + took * 1e-6
                if turn >= 2:
                    samples[name].append(took / n)
        for name, (_, how, _) in works.items():
            results[name] = summarize(samples[name]) | {"how": how}
        return results

    def host_us(self, call, calls=100, repeats=30):
        return _host_us(call, calls, repeats, torch.cuda.synchronize)


class HostClock:
    """The same interface without a GPU, to try the programs, not for results."""

    stream = None

    def __init__(self, synchronize):
        self.synchronize = synchronize

    def on_stream(self):
        return contextlib.nullcontext()

    def gpu_us(self, baselines, calls=2, turns=3):
        results, samples = {}, {name: [] for name in baselines}
        for _ in range(turns):
            for name, call in baselines.items():
                if name in results:
                    continue
                try:
                    begin = time.perf_counter_ns()
                    for _ in range(calls):
                        call()
                    self.synchronize()
                    samples[name].append((time.perf_counter_ns() - begin) / 1e3 / calls)
                except Exception as error:
                    results[name] = {"skipped": first_line(error)}
        for name in baselines:
            if name not in results:
                results[name] = summarize(samples[name]) | {"how": "host clock"}
        return results

    def host_us(self, call, calls=2, repeats=3):
        return _host_us(call, calls, repeats, self.synchronize)


def _host_us(call, calls, repeats, synchronize):
    samples = []
    for repeat in range(repeats + 2):
        synchronize()
        begin = time.perf_counter_ns()
        for _ in range(calls):
            call()
        took = time.perf_counter_ns() - begin
        synchronize()
        if repeat >= 2:
            samples.append(took / 1e3 / calls)
    return summarize(samples)


def first_line(error):
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]
