"""Starts a real Triton server on free loopback ports and sends requests over HTTP with binary tensors. Requires only numpy."""
from __future__ import annotations

import http.client
import json
import pathlib
import signal
import socket
import struct
import subprocess
import time
import zlib
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    try:
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [int(s.getsockname()[1]) for s in sockets]
    finally:
        for s in sockets:
            s.close()


class Answer(NamedTuple):
    status: int
    outputs: dict[str, Array]
    error: str


class Server:
    """A running server, as a context manager that always stops it."""

    def __init__(self, command: list[str], repository: pathlib.Path, backends: pathlib.Path, log: pathlib.Path,
                 arguments: list[str] | None = None, environment: dict[str, str] | None = None, patience: float = 60) -> None:
        self.log_path = log
        self.command = [*command, f"--model-repository={repository}", f"--backend-directory={backends}", *(arguments or [])]
        self.environment = environment
        self.patience = patience
        for attempt in range(3):  # a port may be taken meanwhile
            self.port, grpc, self.metrics_port = free_ports(3)
            with open(log, "wb") as output:
                self.process = subprocess.Popen(
                    [*self.command, f"--http-port={self.port}", f"--grpc-port={grpc}", f"--metrics-port={self.metrics_port}"],
                    stdout=output, stderr=subprocess.STDOUT, env=environment)
            if self._is_ready():
                return
            self.kill()
            if not any(text in self.log() for text in ("already in use", "failed to start", "failed to bind")):
                break
        raise RuntimeError(f"the server did not start; the end of {log}:\n{self.log()[-3000:]}")

    def _is_ready(self) -> bool:
        end = time.monotonic() + self.patience
        while time.monotonic() < end and self.process.poll() is None:
            try:
                # The metrics port opens last.
                if self.get("/v2/health/ready")[0] == 200 and self.get("/metrics", self.metrics_port)[0] == 200:
                    return True
            except OSError:
                pass
            time.sleep(0.1)
        return False

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def terminate(self) -> None:
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float = 40) -> int:
        return self.process.wait(seconds)

    def resident_kib(self) -> int:
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
        raise RuntimeError("no VmRSS")

    def connect(self, timeout: float = 60) -> Client:
        return Client(self.port, timeout)

    def get(self, path: str, port: int | None = None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=self.patience)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def post(self, path: str, body: object) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.patience)
        try:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def load(self, name: str) -> tuple[int, str]:
        return self.post(f"/v2/repository/models/{name}/load", {})

    def unload(self, name: str) -> tuple[int, str]:
        return self.post(f"/v2/repository/models/{name}/unload", {})

    def reason(self, name: str) -> str:
        """The reason why a model is not available."""
        for entry in json.loads(self.post("/v2/repository/index", {})[1]):
            if entry["name"] == name:
                return str(entry.get("reason", ""))
        return ""

    def metric(self, family: str, **labels: str) -> float:
        """The sum over all lines of a family with these labels."""
        total = 0.0
        for line in self.get("/metrics", self.metrics_port)[1].splitlines():
            name, _, rest = line.partition("{")
            if name == family and all(f'{key}="{value}"' in rest for key, value in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total


def strings(values: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(value)) + value for value in values)


def tensor(name: str, datatype: str, shape: list[int], data: bytes, size: int | None = None) -> tuple[dict[str, Any], bytes]:
    """An input of a request. size: the number of bytes in its header, if it should be wrong."""
    return {"name": name, "datatype": datatype, "shape": shape,
            "parameters": {"binary_data_size": len(data) if size is None else size}}, data


def image(pixels: Array) -> tuple[dict[str, Any], bytes]:
    return tensor("IMAGE", "UINT8", list(pixels.shape), pixels.tobytes())


def encoded(files: list[bytes]) -> tuple[dict[str, Any], bytes]:
    return tensor("ENCODED", "BYTES", [len(files), 1], strings(files))


def body_of(inputs: list[tuple[dict[str, Any], bytes]], outputs: list[str], parameters: dict[str, Any] | None = None) -> tuple[bytes, int]:
    """The body of a request, and the size of its JSON part."""
    request: dict[str, Any] = {"inputs": [entry for entry, _ in inputs],
                               "outputs": [{"name": name, "parameters": {"binary_data": True}} for name in outputs]}
    if parameters:
        request["parameters"] = parameters
    header = json.dumps(request).encode()
    return header + b"".join(data for _, data in inputs), len(header)


def parse(header: bytes, data: bytes) -> dict[str, Array]:
    types = {"FP32": "<f4", "INT32": "<i4", "UINT8": "u1"}
    outputs: dict[str, Array] = {}
    at = 0
    for entry in json.loads(header)["outputs"]:
        size = int(entry["parameters"]["binary_data_size"])
        part = data[at:at + size]
        at += size
        if entry["datatype"] == "BYTES":
            texts = []
            i = 0
            while i < size:
                n, = struct.unpack_from("<I", part, i)
                texts.append(part[i + 4:i + 4 + n])
                i += 4 + n
            array: Array = np.array(texts, dtype=object)
        else:
            array = np.frombuffer(part, types[entry["datatype"]])
        outputs[entry["name"]] = array.reshape(entry["shape"])
    if at != len(data):
        raise ValueError(f"{len(data)} bytes of outputs, but {at} are described")
    return outputs


class Client:
    """One connection."""

    def __init__(self, port: int, timeout: float) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def close(self) -> None:
        self.connection.close()

    def send(self, model: str, body: bytes, n_json: int, headers: dict[str, str] | None = None) -> None:
        self.connection.request("POST", f"/v2/models/{model}/infer", body,
                                {"Inference-Header-Content-Length": str(n_json), "Content-Type": "application/octet-stream", **(headers or {})})

    def receive(self) -> Answer:
        response = self.connection.getresponse()
        data = response.read()
        if response.status != 200:
            try:
                error = str(json.loads(data)["error"])
            except (ValueError, KeyError):
                error = data.decode(errors="replace")
            return Answer(response.status, {}, error)
        n = int(response.headers["Inference-Header-Content-Length"])
        return Answer(200, parse(data[:n], data[n:]), "")

    def infer(self, model: str, inputs: list[tuple[dict[str, Any], bytes]], outputs: list[str],
              parameters: dict[str, Any] | None = None) -> Answer:
        self.send(model, *body_of(inputs, outputs, parameters))
        return self.receive()


def png(pixels: Array) -> bytes:
    """An RGB image as a file."""
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(lines, 1)) + chunk(b"IEND", b""))


def read_pixels(raw_pixels: str, path: pathlib.Path) -> Array:
    """The pixels of a PNG file, read with the test program raw_pixels."""
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    data = subprocess.run([raw_pixels, str(path)], check=True, stdout=subprocess.PIPE).stdout
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def logits_of(raggedvit: str, checkpoint: pathlib.Path, images: list[pathlib.Path], arguments: list[str] | None = None) -> npt.NDArray[np.float32]:
    """Results of the command line tool for images. The nine digits in its JSON represent every float32 exactly."""
    output = subprocess.run([raggedvit, "classify", str(checkpoint), *map(str, images), "--backend", "cpu", "--json", *(arguments or [])],
                            check=True, stdout=subprocess.PIPE).stdout
    return np.array([image["logits"] for image in json.loads(output)["images"]], np.float32)
