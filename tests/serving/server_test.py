#!/usr/bin/env python3
"""Tests the backend in a real Triton server: loading, results equal to the command line tool's bit for bit, errors, and shutdown."""
from __future__ import annotations

import argparse
import json
import os
import pathlib
import struct
import tempfile
import threading
import time
from typing import Any, Callable

import numpy as np

from server import Answer, Array, Server, body_of, encoded, image, logits_of, png, read_pixels, tensor

N_TILES = 200
# Batches with one invalid request: policies, types, and the number of batches of four requests for each pair of them.
POLICIES = ("none", "l2", "evit", "evit-fused", "evit-paper", "ats", "ats-paper", "tome", "random", "received", "hiprune")
BACKEND = os.environ.get("RVIT_TEST_BACKEND", "cpu")
DTYPES = ("f32", "f16", "bf16", "fp8" if BACKEND == "cuda" else "int8")
N_BATCHES = 228 if os.environ.get("RVIT_TEST_CASES") == "all" else 6


def check(condition: object, what: str) -> None:
    if not condition:
        raise AssertionError(what)


def add_model(repository: pathlib.Path, name: str, config: str, checkpoint: pathlib.Path) -> None:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").symlink_to(checkpoint.resolve())
    (folder.parent / "config.pbtxt").write_text(config)


def parameters(**values: str) -> str:
    entries = ", ".join(f'{{ key: "{key}" value {{ string_value: "{value}" }} }}' for key, value in values.items())
    return f'backend: "raggedvit"\nparameters [{entries}]\n'


class Samples:
    """A photo and 200 tiles, with the command line tool's results, dense and pruned."""

    def __init__(self, arguments: argparse.Namespace, folder: pathlib.Path) -> None:
        data = arguments.source / "examples/data"
        tools = arguments.build / "tools"
        self.checkpoint = data / "deit_tiny_cifar10.safetensors"
        photo = data / "chelsea.png"
        sheet = read_pixels(str(tools / "raw_pixels"), data / "cifar10_test_1000.png")
        columns = sheet.shape[1] // 32
        self.tiles = np.stack([sheet[32 * (i // columns):, 32 * (i % columns):][:32, :32] for i in range(N_TILES)])
        files = []
        for i, tile in enumerate(self.tiles):
            files.append(folder / f"{i}.png")
            files[-1].write_bytes(png(tile))
        self.photo = read_pixels(str(tools / "raw_pixels"), photo)
        self.photo_file = photo.read_bytes()
        logits = logits_of(str(tools / "raggedvit"), self.checkpoint, [photo, *files])
        self.photo_logits, self.tile_logits = logits[0], logits[1:]
        few = logits_of(str(tools / "raggedvit"), self.checkpoint, [photo, *files[:8]], ["--prune", "l2", "--keep", "0.5"])
        self.photo_pruned, self.tiles_pruned = few[0], few[1:]


def expect(answer: Answer, logits: Array, what: str) -> None:
    check(answer.status == 200, f"{what}: status {answer.status}: {answer.error}")
    check(answer.outputs["LOGITS"].tobytes() == logits.tobytes(), f"{what}: the logits differ from the tool's")


def answers(server: Server, samples: Samples) -> None:
    """A one-line configuration; the photo and the tiles in requests of one and eight images, as pixels and as files."""
    config = json.loads(server.get("/v2/models/plain/config")[1])
    check(config["max_batch_size"] == 64 and "dynamic_batching" in config, f"the one-line config became {config}")
    client = server.connect()
    expect(client.infer("plain", [image(samples.photo[None])], ["LOGITS"]), samples.photo_logits, "the photo")
    expect(client.infer("plain", [encoded([samples.photo_file])], ["LOGITS"]), samples.photo_logits, "the photo's file")
    for i in range(0, N_TILES, 8):
        tiles = samples.tiles[i:i + 8]
        inputs = encoded([png(tile) for tile in tiles]) if i % 16 == 0 else image(tiles)
        expect(client.infer("plain", [inputs], ["LOGITS"]), samples.tile_logits[i:i + 8], f"tiles from {i}")
    everything = client.infer("plain", [image(samples.photo[None])], ["CLASSES", "SCORES", "LABELS", "TOKENS", "MASK"])
    check(everything.status == 200, everything.error)
    best = np.argsort(-samples.photo_logits, kind="stable")[:5]
    check(everything.outputs["CLASSES"].tolist() == [best.tolist()], "the photo's classes")
    check(everything.outputs["LABELS"][0, 0] == b"cat", "the photo's label")
    check(everything.outputs["TOKENS"].tolist() == [[197]] and everything.outputs["MASK"].sum() == 197, "the photo's tokens")
    # A policy chosen by the request.
    half = client.infer("plain", [image(samples.photo[None])], ["LOGITS", "TOKENS"], {"policy": "l2", "keep": 0.5})
    check(half.status == 400 and "none" in half.error, f"an undeclared policy was accepted: {half}")
    chosen = {"policy": "l2", "keep": "0.5"}
    expect(client.infer("choice", [image(samples.photo[None])], ["LOGITS"], chosen), samples.photo_pruned, "the pruned photo")
    expect(client.infer("choice", [image(samples.tiles[:8])], ["LOGITS"], chosen), samples.tiles_pruned, "the pruned tiles")
    expect(client.infer("choice", [image(samples.photo[None])], ["LOGITS"]), samples.photo_logits, "the photo, not pruned")
    client.close()


def load_errors(server: Server) -> None:
    for name, words in (("bad_policy", "l3"), ("bad_keep", "keep"), ("bad_name", "unknown parameter 'polcy', expected one of"),
                        ("bad_tokens", "max_tokens"), ("bad_file", "absent.safetensors")):
        status, text = server.load(name)
        check(status == 400, f"{name} was loaded: {text}")
        reason = server.reason(name) or text
        check(words in reason, f"{name}: the reason {reason!r} lacks {words!r}")
    check(server.get("/v2/models/plain/ready")[0] == 200, "not ready after bad models")


def bad_requests(samples: Samples) -> list[tuple[str, bytes, int]]:
    """Requests that must fail: the error, the body, the size of its JSON part."""
    tile = samples.tiles[:1]
    bad: list[tuple[str, list[tuple[dict[str, Any], bytes]]]] = [
        ("4 channels", [tensor("IMAGE", "UINT8", [1, 8, 8, 4], bytes(256))]),
        ("no height", [tensor("IMAGE", "UINT8", [1, 0, 8, 3], b"")]),
        ("70000 wide", [tensor("IMAGE", "UINT8", [1, 1, 70000, 3], bytes(210000))]),
        ("cut off", [tensor("IMAGE", "UINT8", [1, 32, 32, 3], tile.tobytes()[:-1])]),
        ("too long", [tensor("IMAGE", "UINT8", [1, 32, 32, 3], tile.tobytes() + b"\0")]),
        ("huge", [tensor("IMAGE", "UINT8", [1, 2**62, 2**62, 3], bytes(48))]),
        ("a wrong size", [tensor("IMAGE", "UINT8", [1, 32, 32, 3], tile.tobytes(), 10**9)]),
        ("a wrong type", [tensor("IMAGE", "FP32", [1, 32, 32, 3], bytes(4 * 3072))]),
        ("a wrong rank", [tensor("IMAGE", "UINT8", [32, 32, 3], tile.tobytes())]),
        ("too many", [tensor("IMAGE", "UINT8", [65, 1, 1, 3], bytes(195))]),
        ("NaN", [tensor("PIXELS", "FP32", [1, 3, 224, 224], np.full(3 * 224 * 224, np.nan, "<f4").tobytes())]),
        ("half a file", [encoded([samples.photo_file[:1000]])]),
        ("no file", [encoded([b"no image"])]),
        ("an empty file", [encoded([b""])]),
        ("a wrong length", [tensor("ENCODED", "BYTES", [1, 1], struct.pack("<I", 2**32 - 1) + b"1234")]),
        ("two inputs", [image(tile), encoded([samples.photo_file])]),
        ("no input", []),
        ("an unknown input", [tensor("IMAGES", "UINT8", [1, 32, 32, 3], tile.tobytes())]),
    ]
    requests = [(what, *body_of(inputs, ["LOGITS"])) for what, inputs in bad]
    requests.append(("an unknown output", *body_of([image(tile)], ["EMBEDDING"])))
    requests.append(("an unknown parameter", *body_of([image(tile)], ["LOGITS"], {"kep": 1})))
    requests.append(("no JSON", b"}{" + bytes(100), 50))
    requests.append(("JSON longer than the body", b"{}", 10**6))
    return requests


def bad_among_good(server: Server, samples: Samples) -> None:
    failures: list[str] = []
    stop = threading.Event()

    def good(start: int) -> None:
        client = server.connect()
        try:
            i = start
            while not stop.is_set():
                expect(client.infer("plain", [image(samples.tiles[i:i + 1])], ["LOGITS"]), samples.tile_logits[i:i + 1], f"tile {i}")
                i = (i + 7) % N_TILES
        except Exception as error:
            failures.append(f"a valid request failed among invalid ones: {error}")
        client.close()
    workers = [threading.Thread(target=good, args=(i,)) for i in range(3)]
    for worker in workers:
        worker.start()
    try:
        for what, body, n_json in bad_requests(samples):
            client = server.connect()
            client.send("plain", body, n_json)
            answer = client.receive()
            client.close()
            is_ours = what != "no JSON"  # the server's own answer to that is 500
            check(answer.error and 400 <= answer.status < (500 if is_ours else 600), f"{what}: {answer}")
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    check(not failures, "; ".join(failures))
    check(server.metric("raggedvit_failed_images_total", model="plain") > 0, "no failed images")


def bad_copy(pixels: Array, kind: int, at: int) -> Array:
    """A copy with one NaN or infinite value, or only with values whose sums overflow."""
    pixels = pixels.copy()
    if kind < 4:
        pixels.flat[at * 977 % pixels.size] = (np.nan, np.inf, 1e30, 7e4)[kind]
    else:
        pixels *= 1e18
    return pixels


def neighbours(server: Server) -> None:
    """Batches of four requests, one of them invalid, with every policy and type: the results of the others do not change."""
    good = np.random.default_rng(4).standard_normal((4, 1, 3, 32, 56)).astype("<f4")
    clients = [server.connect() for _ in good]
    n_failed = n_batches = 0
    n_runs = 0.0
    for policy, dtype in ((policy, dtype) for policy in POLICIES for dtype in DTYPES):
        model = f"{policy}_{dtype}"
        status, text = server.load(model)
        check(status == 200, f"{model}: {text}")

        def batch_of(images: list[Array]) -> list[Answer]:
            for client, one in zip(clients, images):
                client.send(model, *body_of([tensor("PIXELS", "FP32", list(one.shape), one.tobytes())], ["LOGITS"]))
            return [client.receive() for client in clients]
        wanted = [answer.outputs["LOGITS"] for answer in batch_of(list(good))]
        for batch in range(N_BATCHES):
            bad = batch % 4
            images = [bad_copy(one, batch // 4 % 5, batch) if i == bad else one for i, one in enumerate(good)]
            for i, answer in enumerate(batch_of(images)):
                if i != bad:
                    expect(answer, wanted[i], f"{model}: request {i} in a batch with an invalid one")
                elif answer.status == 200:
                    check(np.isfinite(answer.outputs["LOGITS"]).all(), f"{model}: {answer} of a bad request")
                else:
                    n_failed += 1
        n_runs += server.metric("raggedvit_runs_total", model=model) - 1
        n_batches += N_BATCHES
        server.unload(model)
    for client in clients:
        client.close()
    check(n_failed > n_batches / 3, f"{n_failed} bad requests of {n_batches} failed")
    check(n_runs < 1.5 * n_batches, f"{n_batches} batches took {n_runs} runs: the requests were not batched")
    print(f"{n_batches} batches on {BACKEND} in {n_runs:.0f} runs; {n_failed} bad requests failed")


def loads_under_requests(server: Server, samples: Samples) -> None:
    client = server.connect()
    for _ in range(5):
        check(server.unload("plain")[0] == 200, "unload")
        status, text = server.load("plain")
        check(status == 200, f"load: {text}")
        expect(client.infer("plain", [image(samples.tiles[:4])], ["LOGITS"]), samples.tile_logits[:4], "after a load")
    client.close()


def metrics(server: Server) -> None:
    images, runs = server.metric("raggedvit_images_total", model="choice"), server.metric("raggedvit_runs_total", model="choice")
    check(images == 10 and runs == 3, f"choice counted {images} images in {runs} runs, expected 10 images from 3 requests")
    kept, tokens = server.metric("raggedvit_tokens_kept_total", model="choice"), server.metric("raggedvit_tokens_total", model="choice")
    check(tokens == 10 * 197 and 9 * 98 + 197 <= kept <= 9 * 99 + 197, f"{kept} of {tokens} tokens kept")


def ends_in_order(server: Server, samples: Samples) -> None:
    """SIGTERM while a request of 64 images runs and others wait: all get answers."""
    ranges = [range(64), range(64)] + [range(64 + 8 * i, 72 + 8 * i) for i in range(11)]
    clients = [server.connect() for _ in ranges]
    before = server.metric("nv_inference_request_success", model="plain")

    def send(these: slice) -> None:
        """Sends requests, and waits until one runs and each of the others runs, waits or has been answered."""
        for client, tiles in zip(clients[these], ranges[these]):
            client.send("plain", *body_of([image(samples.tiles[tiles.start:tiles.stop])], ["LOGITS"]))
        while True:
            done = server.metric("nv_inference_request_success", model="plain") - before
            check(done < 2, "requests were answered before all had arrived")
            if server.metric("nv_inference_pending_request_count", model="plain") >= these.stop - 1 - done:
                return
    send(slice(0, 2))
    send(slice(2, len(ranges)))
    server.terminate()
    for client, tiles in zip(clients, ranges):
        expect(client.receive(), samples.tile_logits[tiles.start:tiles.stop], f"{tiles} requests in flight at the end")
        client.close()
    check(server.wait() == 0, f"the server's exit code is {server.process.returncode}")


def timed(server: Server, step: Callable[..., None], *arguments: object) -> None:
    started = time.monotonic()
    try:
        step(*arguments)
    except BaseException:
        print(server.log()[-4000:])
        raise
    print(f"{step.__name__}: {time.monotonic() - started:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("source", "build", "server"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--only-neighbours", action="store_true", help="only this step, with RVIT_TEST_BACKEND; the others require the CPU")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = folder / "repository"
        reference = arguments.source / "tests/data/reference"
        for policy, dtype in ((policy, dtype) for policy in POLICIES for dtype in DTYPES):
            name = f"{policy}_{dtype}"
            block = {} if policy == "none" else {"blocks": "1"}
            config = parameters(backend=BACKEND, policy=policy, dtype=dtype, **block)
            add_model(repository, name, config + "max_batch_size: 4\ndynamic_batching { preferred_batch_size: 4 "
                      "max_queue_delay_microseconds: 20000 }\n", reference / "model.safetensors")
            (repository / name / "1/config.json").symlink_to((reference / "config.json").resolve())
        command = [str(arguments.source / "tools/triton_server.sh"), "run", str(arguments.server)]
        if arguments.only_neighbours:
            with Server(command, repository, arguments.build / "serving/backends", folder / "log", ["--model-control-mode=explicit"]) as server:
                timed(server, neighbours, server)
            return
        samples = Samples(arguments, folder)
        for model, config in (("plain", 'backend: "raggedvit"\n'), ("choice", parameters(settings="l2 keep=0.5")),
                              ("bad_policy", parameters(policy="l3")), ("bad_keep", parameters(policy="l2", keep="2")),
                              ("bad_name", parameters(polcy="l2")), ("bad_tokens", parameters(max_tokens="100")),
                              ("bad_file", parameters(checkpoint="absent.safetensors"))):
            add_model(repository, model, config, samples.checkpoint)
        flags = ["--model-control-mode=explicit", "--load-model=plain", "--load-model=choice"]
        with Server(command, repository, arguments.build / "serving/backends", folder / "log", flags) as server:
            for step in (answers, bad_among_good, loads_under_requests):
                timed(server, step, server, samples)
            timed(server, neighbours, server)
            timed(server, load_errors, server)
            timed(server, metrics, server)
            timed(server, ends_in_order, server, samples)


if __name__ == "__main__":
    main()
