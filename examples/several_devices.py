"""Uses several devices in one process: each has its own thread and model, which runs its part of the batches.

The threads hold the GIL only while a batch is handed over. Checks that all devices return the logits of the first.

    export PYTHONPATH=python RAGGEDVIT_LIBRARY=build/release/libraggedvit.so
    python3 examples/several_devices.py [BACKEND [DEVICES [ROUNDS]]]

Without BACKEND it uses all CUDA devices if there are two or more, else two CPU devices with one thread each.
"""

import concurrent.futures
import pathlib
import sys
import time

import numpy as np

import raggedvit

CHECKPOINT = pathlib.Path(__file__).resolve().parent / "data" / "deit_tiny_cifar10.safetensors"
BATCH, BATCHES = 8, 8


def open_models(backend, n):
    """A model on each of n devices; the CPU is one, which can be opened several times."""
    n_gpus = sum(device.backend == "cuda" and device.index >= 0 for device in raggedvit.devices())
    backend = backend or ("cuda" if n_gpus > 1 else "cpu")
    n = n or (n_gpus if backend == "cuda" else 2)
    return [
        raggedvit.Model(CHECKPOINT, backend if backend == "cpu" else f"{backend}:{i}", n_threads=1) for i in range(n)
    ]


def classify(models, batches):
    """The logits of all batches, which the devices process in turns, and images per second."""
    results = [None] * len(batches)

    def work(first):
        for i in range(first, len(batches), len(models)):
            results[i] = models[first].classify(batches[i], raggedvit.Policy("l2", keep=0.5)).logits

    with concurrent.futures.ThreadPoolExecutor(len(models)) as threads:
        begin = time.perf_counter()
        list(threads.map(work, range(len(models))))  # list() re-raises exceptions of the threads
        seconds = time.perf_counter() - begin
    return np.concatenate(results), sum(map(len, batches)) / seconds


def main(backend=None, n=0, rounds=1):
    models = open_models(backend, int(n))
    images = np.random.default_rng(1).standard_normal((BATCHES, BATCH, 3, 224, 224), np.float32)
    wanted, _ = classify(models[:1], list(images))
    found, _ = classify(models, list(images))
    _, one = classify(models[:1], list(images) * int(rounds))
    _, together = classify(models, list(images) * (int(rounds) * len(models)))
    equal = np.array_equal(wanted, found)
    print(
        f"1 {models[0].device.backend} device: {one:.1f} images/s; {len(models)}: {together:.1f} images/s,"
        f" {together / one:.2f} times as many; logits {'equal' if equal else 'DIFFERENT'}"
    )
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
