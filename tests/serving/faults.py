#!/usr/bin/env python3
"""A long fault test of the Triton backend in a real server: invalid requests and disconnecting clients among valid ones, loading and
unloading of models and SIGTERM under load, and the server's memory over many requests; also with a backend built with the address
sanitizer. Every valid answer must equal that of the command line tool bit for bit.

    tests/serving/faults.py --build build/release [--asan-build build/cpu-debug] [--server build/triton-server] [--json FILE] [--share N]

Takes minutes on two cores. Exits with 1 after lost requests, wrong answers or leaks."""
from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import os
import pathlib
import platform
import random
import re
import socket
import struct
import subprocess
import tempfile
import time
from typing import Any, NamedTuple

import numpy as np

from server import Array, Server, body_of, encoded, image, logits_of, png, read_pixels, tensor
from server_test import Samples, add_model, check, ends_in_order, parameters

SOURCE = pathlib.Path(__file__).resolve().parents[2]
CONFIG = parameters(policy="l2", blocks="0", settings="none")
WORKERS = 4


class Case(NamedTuple):
    """A valid request, with the last bytes of its answer."""
    request: bytes
    logits: bytes


class RawClient:
    """A connection that sends raw bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.rest = b""

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Closes the connection with a reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def exchange(self, request: bytes) -> tuple[int, bytes]:
        self.socket.sendall(request)
        return self.receive()

    def receive(self) -> tuple[int, bytes]:
        data = self.rest
        while b"\r\n\r\n" not in data:
            data += self._more()
        head, _, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
        n = int(length.group(1)) if length else 0
        while len(body) < n:
            body += self._more()
        self.rest = body[n:]
        return int(head.split(b" ", 2)[1]), body[:n]

    def _more(self) -> bytes:
        data = self.socket.recv(1 << 16)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data


def http(model: str, body: bytes, n_json: object, length: object = None) -> bytes:
    """A request whose header may be wrong."""
    return (f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {n_json}\r\n"
            f"Content-Length: {len(body) if length is None else length}\r\n\r\n").encode() + body


def good_cases(build: pathlib.Path, folder: pathlib.Path) -> list[Case]:
    """Requests with images of many sizes, as pixels and as files, dense and pruned, one or three per request."""
    generator = np.random.default_rng(5)
    samples, files = [], []
    for i in range(25):
        height, width = (int(generator.integers(1, 300)) for _ in range(2))
        samples.append(generator.integers(0, 256, (height, width, 3), np.uint8))
        files.append(folder / f"{i}.png")
        files[-1].write_bytes(png(samples[-1]))
    jpegs = folder / "jpegs"
    jpegs.mkdir()
    subprocess.run([str(build / "tools/jpeg_files"), str(files[0]), str(jpegs)], check=True)
    tool, checkpoint = str(build / "tools/raggedvit"), SOURCE / "tests/data/reference/model.safetensors"
    files += sorted(path for path in jpegs.iterdir() if not path.name.startswith("bad_"))
    pruned = logits_of(tool, checkpoint, files, ["--prune", "l2", "--blocks", "0", "--keep", "0.5"])
    dense = logits_of(tool, checkpoint, files)
    check(len(dense) == len(files) == len(pruned), "the tool refused an image")
    cases = []

    def add(inputs: tuple[dict[str, Any], bytes], logits: Array, settings: dict[str, Any] | None = None) -> None:
        body, n_json = body_of([inputs], ["LOGITS"], settings)
        cases.append(Case(http("small", body, n_json), logits.tobytes()))
    for i, pixels in enumerate(samples):
        add(image(pixels[None]), pruned[i])
        add(image(pixels[None]), dense[i], {"policy": "none"})
        add(image(np.stack([pixels] * 3)), np.stack([pruned[i]] * 3))
    for i, path in enumerate(files):
        add(encoded([path.read_bytes()]), pruned[i])
    add(encoded([path.read_bytes() for path in files[:25]]), pruned[:25])
    return cases


class Counts:
    """State shared by the workers."""

    def __init__(self) -> None:
        self.right, self.wrong, self.refused = (multiprocessing.Value("q", 0) for _ in range(3))
        self.stop = multiprocessing.Event()
        self.first_wrong: multiprocessing.SimpleQueue[str] = multiprocessing.SimpleQueue()

    def note_wrong(self, text: str) -> None:
        with self.wrong.get_lock():
            self.wrong.value += 1
            if self.wrong.value == 1:
                self.first_wrong.put(text[:400])


def work(port: int, cases: list[Case], counts: Counts, seed: int, limit: int, may_be_refused: bool) -> None:
    """Sends valid requests and checks the answers, until `stop` is set or after `limit` requests."""
    generator = random.Random(seed)
    client = RawClient(port)
    done = 0
    while not counts.stop.is_set() and (limit == 0 or done < limit):
        case = generator.choice(cases)
        try:
            status, body = client.exchange(case.request)
        except OSError as error:
            counts.note_wrong(f"no answer: {error}")
            return
        done += 1
        if status == 200 and body.endswith(case.logits):
            with counts.right.get_lock():
                counts.right.value += 1
        elif may_be_refused and status in (400, 404, 503) and b" no" in body:  # "not ready", "no available versions"
            with counts.refused.get_lock():
                counts.refused.value += 1
        else:
            counts.note_wrong(f"status {status}: {body[:300]!r}")
    client.close()


class Load:
    """A context manager that sends valid requests from several processes; at the end every answer must have been correct."""

    def __init__(self, server: Server, cases: list[Case], n: int = WORKERS, limit: int = 0, may_be_refused: bool = False) -> None:
        self.counts = Counts()
        self.processes = [multiprocessing.Process(target=work, args=(server.port, cases, self.counts, i, limit, may_be_refused))
                          for i in range(n)]

    def __enter__(self) -> Load:
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.counts.stop.set()
        for process in self.processes:
            process.join()
        if kind is None:
            check(self.counts.wrong.value == 0, f"{self.counts.wrong.value} valid requests failed or got wrong answers; the first: "
                  f"{self.counts.wrong.value and self.counts.first_wrong.get()}")

    def is_running(self) -> bool:
        return any(process.is_alive() for process in self.processes)


def fixed_faults(cases: list[Case]) -> list[tuple[str, bytes]]:
    pixels = bytes(32 * 32 * 3)
    inputs = [("channels", tensor("IMAGE", "UINT8", [1, 8, 8, 4], bytes(256))), ("no lines", tensor("IMAGE", "UINT8", [1, 0, 8, 3], b"")),
              ("wide", tensor("IMAGE", "UINT8", [1, 1, 70000, 3], bytes(210000))),
              ("huge", tensor("IMAGE", "UINT8", [1, 2**62, 2**62, 3], bytes(48))),
              ("overflow", tensor("IMAGE", "UINT8", [2**31, 2**31, 2**31, 3], bytes(48))),
              ("negative", tensor("IMAGE", "UINT8", [1, -32, -32, 3], pixels)),
              ("none", tensor("IMAGE", "UINT8", [0, 32, 32, 3], b"")), ("type", tensor("IMAGE", "INT8", [1, 32, 32, 3], pixels)),
              ("rank", tensor("IMAGE", "UINT8", [32, 32, 3], pixels)), ("many", tensor("IMAGE", "UINT8", [65, 1, 1, 3], bytes(195))),
              ("NaN", tensor("PIXELS", "FP32", [1, 3, 32, 56], np.full(3 * 32 * 56, np.nan, "<f4").tobytes())),
              ("large", tensor("PIXELS", "FP32", [1, 3, 32, 56], np.full(3 * 32 * 56, 3e38, "<f4").tobytes())),
              ("length", tensor("ENCODED", "BYTES", [1, 1], struct.pack("<I", 2**32 - 1) + b"1234")),
              ("empty", encoded([b""])), ("text", encoded([b"no image"]))]
    faults = [(name, http("small", *body_of([value], ["LOGITS"]))) for name, value in inputs]
    body, n_json = body_of([tensor("IMAGE", "UINT8", [1, 32, 32, 3], pixels)], ["LOGITS"])
    return faults + [("output", http("small", *body_of([tensor("IMAGE", "UINT8", [1, 32, 32, 3], pixels)], ["MASKS"]))),
                     ("parameter", http("small", *body_of([tensor("IMAGE", "UINT8", [1, 32, 32, 3], pixels)], ["LOGITS"], {"keep": 7}))),
                     ("model", http("nobody", body, n_json)), ("JSON", http("small", b"}{", 2)),
                     ("JSON's length", http("small", body, 2**40)), ("JSON's negative length", http("small", body, -5)),
                     ("JSON's length is not a number", http("small", body, "many"))]


def broken_file(generator: random.Random, files: list[bytes]) -> bytes:
    """A file truncated in its first half, or with a changed byte in its header."""
    data = bytearray(generator.choice(files))
    if generator.random() < 0.5:
        return bytes(data[:generator.randrange(1, len(data) // 2)])
    data[generator.randrange(0, min(len(data), 160))] ^= 1 << generator.randrange(8)
    return bytes(data)


def send_fault(port: int, generator: random.Random, fixed: list[tuple[str, bytes]], files: list[bytes], cases: list[Case],
               counts: dict[str, int]) -> None:
    """Sends an invalid request, or disconnects early. Each answer must be an error, except for a changed byte of a file, which may be
    harmless."""
    client = RawClient(port)
    kind = generator.randrange(6)
    status = 0
    try:
        if kind == 0:
            name, request = generator.choice(fixed)
            status, body = client.exchange(request)
            check(status >= 400 and body, f"the fault '{name}' was answered with {status}: {body[:200]!r}")
        elif kind == 1:
            status, body = client.exchange(http("small", *body_of([encoded([broken_file(generator, files)])], ["LOGITS"])))
            check(status in (200, 400), f"a broken file was answered with {status}: {body[:200]!r}")
        elif kind == 2:  # a tensor with a wrong size
            size = 3 * 20 * 30
            sent = max(0, size + generator.choice((-1, 1, -size, 500, -700)))
            claimed = generator.choice((sent, size, 10**9, 0))
            if sent == claimed == size:
                sent = 0
            body, n_json = body_of([tensor("IMAGE", "UINT8", [1, 20, 30, 3], bytes(sent), claimed)], ["LOGITS"])
            status, answer = client.exchange(http("small", body, n_json))
            check(status >= 400 and answer, f"{sent} bytes with the size {claimed} were answered with {status}")
        elif kind == 3:  # a Content-Length that is too large, and the client disconnects
            request = generator.choice(cases).request
            client.socket.sendall(request.replace(b"Content-Length: ", b"Content-Length: 9", 1) if generator.random() < 0.5 else
                                  request[:generator.randrange(1, len(request))])
        elif kind == 4:  # a Content-Length that is too small: the rest is read as another request
            body, n_json = body_of([tensor("IMAGE", "UINT8", [1, 20, 30, 3], bytes(1800))], ["LOGITS"])
            status, answer = client.exchange(http("small", body, n_json, len(body) - generator.randrange(1, 1800)))
            check(status >= 400 and answer, f"a Content-Length that is too small was answered with {status}")
        else:  # a valid request whose client does not wait
            client.socket.sendall(generator.choice(cases).request)
        key = f"{('fixed', 'broken file', 'wrong size', 'disconnected early', 'length too small', 'disconnected before the answer')[kind]}"
        counts[f"{key}: {status or 'did not wait for an answer'}"] = counts.get(f"{key}: {status or 'did not wait for an answer'}", 0) + 1
    finally:
        if generator.random() < 0.5:
            client.reset()
        else:
            client.close()


def malformed(server: Server, cases: list[Case], files: list[bytes], n: int) -> dict[str, Any]:
    generator = random.Random(11)
    fixed = fixed_faults(cases)
    counts: dict[str, int] = {}
    with Load(server, cases, 2) as load:
        for _ in range(n):
            send_fault(server.port, generator, fixed, files, cases, counts)
        check(server.process.poll() is None, "the server has exited")
        right = load.counts.right
    return {"faults": n, "good_requests_beside_them": right.value, "answers": dict(sorted(counts.items()))}


def loads(server: Server, cases: list[Case], n: int) -> dict[str, Any]:
    """Unloads and loads the model under load. Requests get correct answers or are rejected by the server; memory does not grow."""
    sizes = []
    with Load(server, cases, 2, may_be_refused=True) as load:
        for _ in range(n):
            check(server.unload("small")[0] == 200, "unload")
            time.sleep(0.02)
            status, text = server.load("small")
            check(status == 200, f"load: {text}")
            time.sleep(0.1)
            sizes.append(server.resident_kib())
        counts = load.counts
    check(counts.right.value > 0 and counts.refused.value > 0, "no request ran while the model was unloaded or loaded")
    check(n < 50 or sizes[-1] - sizes[n // 2] < 8192, f"memory grew in the second half of the loads: {sizes}")
    return {"loads": n, "right": counts.right.value, "refused_by_the_server": counts.refused.value, "rss_kib_at_tenths": sizes[::max(1, n // 10)],
            "rss_kib_last": sizes[-1]}


def memory(server: Server, cases: list[Case], n: int) -> dict[str, Any]:
    """The server's resident memory over n requests. After the first tenth it may grow by 4 MiB, or by 16 MiB with few requests."""
    sizes: list[int] = []
    started = time.monotonic()
    with Load(server, cases, limit=-(-n // WORKERS)) as load:
        while load.is_running():
            if load.counts.right.value >= len(sizes) * n // 10:
                sizes.append(server.resident_kib())
                print(f"  {load.counts.right.value} requests: {sizes[-1]} KiB", flush=True)
            time.sleep(0.02)
        counts = load.counts
    seconds = time.monotonic() - started
    sizes.append(server.resident_kib())
    growth = sizes[-1] - sizes[1]
    check(counts.right.value >= n, f"{counts.right.value} of {n} requests")
    check(growth < (4096 if n >= 10000 else 16384), f"memory grew by {growth} KiB after the first tenth: {sizes}")
    return {"requests": counts.right.value, "seconds": round(seconds, 1), "rss_kib": sizes, "growth_kib_after_a_tenth": growth}


# Libraries are never unloaded, so that leak reports have function names. Leaks are checked before the destructors of libraries run, because
# with the sanitizer the server hangs in one of them (p11-kit's) after clients have disconnected, also with tests/serving/noop.c.
SHIM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int dlclose(void *library);
void __lsan_do_leak_check(void);
static void at_exit(int status, void *unused)
{
    (void)unused;
    __lsan_do_leak_check();
    fprintf(stderr, "leaks were checked\n");
    _exit(status);
}
int dlclose(void *library)
{
    static int is_set;
    (void)library;
    if (!is_set)
        on_exit(at_exit, NULL);
    is_set = 1;
    return 0;
}
"""


def sanitized_environment(folder: pathlib.Path) -> dict[str, str]:
    """Preloads the sanitizer into the server, which is built without it."""
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    (folder / "shim.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_DEFAULT_SOURCE", "-o", str(folder / "shim.so"), str(folder / "shim.c")], check=True)
    return {**os.environ, "LD_PRELOAD": f"{library} {folder / 'shim.so'}",
            "ASAN_OPTIONS": "detect_leaks=1:exitcode=0:allocator_may_return_null=1:alloc_dealloc_mismatch=0:new_delete_type_mismatch=0:"
                            "detect_odr_violation=0:fast_unwind_on_malloc=0:malloc_context_size=40",
            "UBSAN_OPTIONS": "print_stacktrace=1"}


def read_report(log: str) -> dict[str, int]:
    """Fails after a sanitizer error, or a leak whose stack contains the backend or the library. Counts the leaks of the server itself."""
    check("leaks were checked" in log, "the server ended before leaks were checked")
    error = re.search(r"(?:ERROR: AddressSanitizer: (?!detected)|runtime error: ).*", log)
    check(error is None, f"the sanitizer: {error and log[error.start():][:4000]}")
    leaks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", log)[1:]
    sources = rf"{re.escape(str(SOURCE))}/(?!build/)|libtriton_raggedvit|<unknown module>"
    ours = [leak for leak in leaks if re.search(sources, leak.split("\n\n")[0])]
    check(not ours, f"{len(ours)} leaks of the backend; the first: {ours and ours[0][:4000]}")
    return {"leaks_of_the_server": len(leaks), "leaks_of_the_backend": 0}


def end_of(server: Server) -> None:
    server.terminate()
    code = server.wait(120)
    check(code == 0, f"the server's exit code is {code}:\n{server.log()[-2000:]}")


def terminations(start: Any, samples: Samples, n: int) -> dict[str, Any]:
    for _ in range(n):
        with start("plain") as server:
            ends_in_order(server, samples)
    return {"terminations": n, "requests_in_flight": 13 * n, "lost": 0}


def versions(arguments: argparse.Namespace) -> dict[str, str]:
    cpu = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    tool = subprocess.run([str(arguments.build / "tools/raggedvit"), "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    commit = subprocess.run(["git", "-C", str(SOURCE), "rev-parse", "--short", "HEAD"], stdout=subprocess.PIPE, text=True).stdout
    release = re.search(r'PRETTY_NAME="(.*)"', pathlib.Path("/etc/os-release").read_text())
    return {"machine": f"{cpu.group(1) if cpu else platform.machine()}, {os.cpu_count()} processors",
            "system": release.group(1) if release else "Linux", "python": platform.python_version(),
            "version": tool.split()[-1], "commit": commit.strip(), "server": "tritonserver 2.51.0 (24.10), of nvidia-pytriton 0.7.0"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=SOURCE / "build/release")
    parser.add_argument("--asan-build", type=pathlib.Path)
    parser.add_argument("--server", type=pathlib.Path, default=SOURCE / "build/triton-server")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--share", type=int, default=1, help="50 runs a fiftieth of each test")
    arguments = parser.parse_args()
    arguments.source = SOURCE
    share = arguments.share
    report: dict[str, Any] = {"benchmark": "serving_faults", "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                              **versions(arguments), "models": {"small": "tests/data/reference, 32 x 56 pixels, l2 and none",
                                                                "plain": "deit_tiny_cifar10, none"}}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        repository = folder / "repository"
        reference = SOURCE / "tests/data/reference"
        add_model(repository, "small", CONFIG, reference / "model.safetensors")
        (repository / "small/1/config.json").symlink_to(reference / "config.json")
        (folder / "tiles").mkdir()
        samples = Samples(arguments, folder / "tiles")
        add_model(repository, "plain", 'backend: "raggedvit"\n', samples.checkpoint)
        cases = good_cases(arguments.build, folder)
        photo = read_pixels(str(arguments.build / "tools/raw_pixels"), SOURCE / "examples/data/chelsea.png")
        files = [path.read_bytes() for path in sorted((folder / "jpegs").iterdir())] + [png(photo[:60, :80])]
        command = [str(SOURCE / "tools/triton_server.sh"), "run", str(arguments.server)]
        n_started = 0

        def start(model: str, build: pathlib.Path = arguments.build, environment: dict[str, str] | None = None) -> Server:
            nonlocal n_started
            n_started += 1
            return Server(command, repository, build / "serving/backends", folder / f"log{n_started}",
                          ["--model-control-mode=explicit", f"--load-model={model}"], environment, 120)

        def step(key: str, result: dict[str, Any]) -> None:
            report[key] = result
            print(f"{key}: {json.dumps(result)}", flush=True)
        with start("small") as server:
            try:
                step("memory", memory(server, cases, 100000 // share))
                step("malformed", malformed(server, cases, files, 10000 // share))
                step("memory_after_faults", memory(server, cases, 10000 // share))
                step("loads", loads(server, cases, 100 // share))
                end_of(server)
            except BaseException:
                print(server.log()[-6000:])
                raise
        step("sigterm", terminations(start, samples, max(1, 10 // share)))
        if arguments.asan_build:
            environment = sanitized_environment(folder)
            with start("small", arguments.asan_build, environment) as server:
                try:
                    sanitized: dict[str, Any] = {"malformed": malformed(server, cases, files, max(50, 2000 // share)),
                                                 "loads": loads(server, cases, max(2, 20 // share))}
                    end_of(server)
                    step("address_sanitizer", {**sanitized, **read_report(server.log())})
                except BaseException:
                    print(server.log()[-6000:])
                    raise
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
