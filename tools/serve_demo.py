"""Sends every tile of a sheet to a running server by HTTP and gRPC, dense and pruned, from concurrent clients, for tools/serve_demo.sh.
Compares each answer bit for bit with `raggedvit classify --json` and prints a table."""

import argparse
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tritonclient.grpc
import tritonclient.http
from PIL import Image

CLIENTS = 16


def tiles_of(path, edge):
    """uint8 [n, edge, edge, 3], row by row."""
    sheet = np.asarray(Image.open(path).convert("RGB"))
    lines, columns = sheet.shape[0] // edge, sheet.shape[1] // edge
    return sheet.reshape(lines, edge, columns, edge, 3).swapaxes(1, 2).reshape(-1, edge, edge, 3)


def classified(path):
    """The tool's output: logits [n, classes], expected classes [n], top-1 accuracy, policy and kept fraction."""
    with open(path) as file:
        run = json.load(file)
    logits, classes = (np.array([image[name] for image in run["images"]]) for name in ("logits", "expected"))
    return logits.astype(np.float32), classes, run["top1"], run["prune"], run["keep"]


def counts(client, model):
    """The numbers of images and of runs that the server has processed so far."""
    of_model = client.get_inference_statistics(model)["model_stats"][0]
    return int(of_model.get("inference_count", 0)), int(of_model.get("execution_count", 0))


def measure(api, address, http, model, tiles, parameters):
    """Sends one request per tile. Returns the logits, the seconds per request and in total, and the number of images and runs."""
    wanted = [api.InferRequestedOutput("LOGITS")]
    of_thread = threading.local()

    def connect():
        of_thread.client = api.InferenceServerClient(address)

    def ask(tile):
        tensor = api.InferInput("IMAGE", [1, *tile.shape], "UINT8")
        tensor.set_data_from_numpy(tile[np.newaxis])
        begin = time.perf_counter()
        answer = of_thread.client.infer(model, [tensor], outputs=wanted, parameters=parameters)
        return answer.as_numpy("LOGITS")[0], time.perf_counter() - begin

    before, begin = counts(http, model), time.perf_counter()
    with ThreadPoolExecutor(CLIENTS, initializer=connect) as clients:
        answers = list(clients.map(ask, tiles))
    elapsed, after = time.perf_counter() - begin, counts(http, model)
    return (np.array([logits for logits, _ in answers]), np.array([seconds for _, seconds in answers]), elapsed,
            after[0] - before[0], after[1] - before[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--http", required=True, help="HOST:PORT")
    parser.add_argument("--grpc", required=True, help="HOST:PORT")
    parser.add_argument("--model", required=True, help="name in the server's repository")
    parser.add_argument("--tiles", required=True, help="PNG, a sheet of tiles of 32 x 32")
    parser.add_argument("classified", nargs="+", help="output of classify --json for these tiles, one file per policy")
    given = parser.parse_args()

    http = tritonclient.http.InferenceServerClient(given.http)
    apis = {"HTTP": (tritonclient.http, given.http), "gRPC": (tritonclient.grpc, given.grpc)}
    tiles = tiles_of(given.tiles, 32)
    failures = 0
    print(f"{'by':<6} {'pruning':<14} {'tiles':>5}  {'top-1':<7} {'classify':<9} {'equal bits':<11} {'images/s':>8}  {'p50 ms':>6}  {'p99 ms':>6}"
          "  images/run")
    for transport, (api, address) in apis.items():
        for path in given.classified:
            expected, classes, top1, policy, keep = classified(path)
            parameters = {"policy": policy} if keep is None else {"policy": policy, "keep": str(keep)}
            logits, seconds, elapsed, n, runs = measure(api, address, http, given.model, tiles[: len(expected)], parameters)
            equal = int((logits == expected).all(axis=1).sum())
            right = float((logits.argmax(axis=1) == classes).mean())
            p50, p99 = np.percentile(1000 * seconds, [50, 99])
            pruning = policy if keep is None else f"{policy} keep {keep:g}"
            print(f"{transport:<6} {pruning:<14} {len(logits):>5}  {right:<7.1%} {top1:<9.1%} {f'{equal}/{len(expected)}':<11} "
                  f"{len(logits) / elapsed:>8.1f}  {p50:>6.1f}  {p99:>6.1f}  {n / max(1, runs):.1f}")
            if equal != len(expected) or abs(right - top1) > 1e-9:
                failures += 1
    if failures:
        sys.exit(f"{failures} of the rows above differ from classify")


if __name__ == "__main__":
    main()
