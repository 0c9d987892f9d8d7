#!/usr/bin/env python3
"""Compares rvit_preprocess on CUDA with torchvision's v2 transforms on the GPU: from batches of uint8 images to patch rows.

    bench/preprocess.py --library build/libraggedvit.so --out results [--seconds 0.5] [--backend cuda]
    bench/preprocess.py --library build/libraggedvit.so --out results --backend cpu --dry-run      # small: its figures mean nothing

Writes OUT/preprocess.json. `device_us`: the op, recorded and replayed, with its input in device memory and one wait at the end.
`staged_us`: the op copies its input from mapped host memory, as in a session. `write_us`: rvit_images_write on the host. torchvision:
resize (antialias), crop and normalisation of images on the GPU; `from_host` copies them there from pinned memory first. `differ`: the
share of 8-bit values in which torchvision differs from Pillow (rvit_preprocess does not).
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
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SIZES = {"640x480": [(640, 480)], "1280x720": [(1280, 720)], "1920x1080": [(1920, 1080)],
         "mixed": [(640, 480), (500, 375), (375, 500), (1280, 720), (320, 240), (1024, 1024), (1920, 1080), (64, 48)]}
PATCH, SIDE, EDGE = 16, 224, 248


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "vulkan", "cpu"))
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--seconds", type=float, default=0.5, help="time per measurement")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def best_us(call, wait, seconds):
    """Microseconds of a call: the best of five windows."""
    for _ in range(3):
        call()
    wait()
    best = float("inf")
    for _ in range(5):
        begin, n = time.perf_counter(), 0
        while time.perf_counter() - begin < seconds / 5:
            for _ in range(5):
                call()
            n += 5
        wait()
        best = min(best, (time.perf_counter() - begin) / n * 1e6)
    return round(best, 2)


class Op:
    """rvit_preprocess of a batch, recorded."""

    def __init__(self, library, backend, arrays):
        from raggedvit._c.constants import CONSTANTS
        from raggedvit._c.layouts import TYPES, new

        self.library, self.new, self.constants, self.types = library, new, CONSTANTS, TYPES
        self.device = library.own("device", ctypes.byref(new("rvit_device_desc", backend=CONSTANTS[f"RVIT_BACKEND_{backend.upper()}"])))
        self.stream = library.own("stream", self.device, keeps=(self.device,))
        n = len(arrays)
        rows = n * (SIDE // PATCH) ** 2
        self.recipe = new("rvit_image_recipe", fit=CONSTANTS["RVIT_FIT_CROP"], filter=CONSTANTS["RVIT_FILTER_BICUBIC"],
                          processor=CONSTANTS["RVIT_PROCESSOR_TIMM"], height=SIDE, width=SIDE, resize_height=EDGE, resize_width=EDGE,
                          mean=MEAN, std=STD)
        self.images = (TYPES["rvit_image"] * n)()
        for image, array in zip(self.images, arrays):
            filled = new("rvit_image", data=array.ctypes.data, height=array.shape[0], width=array.shape[1])
            ctypes.memmove(ctypes.byref(image), ctypes.byref(filled), ctypes.sizeof(filled))
        self.args = new("rvit_images_args", n_images=n, max_images=n, max_rows=rows, patch_size=PATCH)
        self.args.recipe, self.args.images = ctypes.addressof(self.recipe), ctypes.addressof(self.images)
        size = ctypes.c_int64()
        library.rvit_images_write(ctypes.byref(self.args), None, 0, ctypes.byref(size))
        self.size, self.rows = size.value, rows
        self.mapped = self.buffer(self.size, "UPLOAD")
        self.region = ctypes.c_void_p(library.rvit_buffer_host(self.mapped))
        self.write()
        self.inside, self.staging = self.buffer(self.size, "DEVICE"), self.buffer(self.size, "DEVICE")
        self.out = self.buffer(rows * 3 * PATCH * PATCH * 2, "DEVICE")
        copy = new("rvit_copy_args", size=self.size, source=self.view(self.mapped), destination=self.view(self.inside))
        library.rvit_copy(self.stream, ctypes.byref(copy))
        library.rvit_stream_synchronize(self.stream)
        self.device_program = self.record(self.inside, None)
        self.staged_program = self.record(self.mapped, self.staging)

    def buffer(self, size, kind):
        kind = self.constants[f"RVIT_BUFFER_{kind}"]
        return self.library.own("buffer", self.device, size, kind, keeps=(self.device,))

    def view(self, buffer):
        view = self.types["rvit_view"]()
        if buffer is not None:
            view.buffer = buffer.pointer.value
        return view

    def write(self):
        size = ctypes.c_int64()
        self.library.rvit_images_write(ctypes.byref(self.args), self.region, self.size, ctypes.byref(size))

    def record(self, source, staging):
        op = self.new("rvit_preprocess_args", dtype=self.constants["RVIT_F16"], n_images=self.args.n_images, rows=self.rows,
                      patch_size=PATCH, source=self.view(source), source_size=self.size, staging=self.view(staging),
                      out=self.view(self.out))
        self.library.rvit_record_begin(self.stream)
        self.library.rvit_preprocess(self.stream, ctypes.byref(op))
        return self.library.own("program", self.stream, create="rvit_record_end", keeps=(self.stream, self.out, self.inside, self.mapped, self.staging))

    def wait(self):
        self.library.rvit_stream_synchronize(self.stream)


def torchvision_us(arrays, seconds, half):
    import torch
    from torchvision.transforms.v2 import functional as F

    def of(tensor):
        height, width = tensor.shape[-2:]
        edge = [EDGE, EDGE * width // height] if height <= width else [EDGE * height // width, EDGE]
        made = F.center_crop(F.resize(tensor, edge, F.InterpolationMode.BICUBIC, antialias=True), [SIDE, SIDE])
        return F.normalize(F.to_dtype(made, torch.float16 if half else torch.float32, scale=True), MEAN, STD)

    def rows(batch):
        return batch.unfold(2, PATCH, PATCH).unfold(3, PATCH, PATCH).permute(0, 2, 3, 1, 4, 5).reshape(-1, 3 * PATCH * PATCH)

    where = "cuda" if torch.cuda.is_available() else "cpu"
    pinned = [torch.from_numpy(p).permute(2, 0, 1) for p in arrays]
    pinned = [p.pin_memory() for p in pinned] if where == "cuda" else pinned
    there = [p.to(where) for p in pinned]
    same = len({p.shape for p in arrays}) == 1
    stacked, whole = (torch.stack(there), torch.stack(pinned)) if same else (None, None)
    whole = whole.pin_memory() if same and where == "cuda" else whole
    wait = torch.cuda.synchronize if where == "cuda" else lambda: None
    if same:
        found = {"device_us": best_us(lambda: rows(of(stacked)), wait, seconds),
                 "from_host_us": best_us(lambda: rows(of(whole.to(where, non_blocking=True))), wait, seconds)}
    else:
        found = {"device_us": best_us(lambda: rows(torch.stack([of(p) for p in there])), wait, seconds),
                 "from_host_us": best_us(lambda: rows(torch.stack([of(p.to(where, non_blocking=True)) for p in pinned])), wait, seconds)}
    return found


def differ(array):
    """The share of values in which torchvision's resize on the GPU differs from Pillow's."""
    import numpy
    import PIL.Image
    import torch
    from torchvision.transforms.v2 import functional as F

    height, width = array.shape[:2]
    edge = [EDGE, EDGE * width // height] if height <= width else [EDGE * height // width, EDGE]
    wanted = numpy.asarray(PIL.Image.fromarray(array).resize(edge[::-1], PIL.Image.Resampling.BICUBIC))
    where = "cuda" if torch.cuda.is_available() else "cpu"
    got = F.resize(torch.from_numpy(array).permute(2, 0, 1).to(where), edge, F.InterpolationMode.BICUBIC, antialias=True)
    return float((got.permute(1, 2, 0).cpu().numpy() != wanted).mean())


def main():
    options = parse()
    os.environ["RAGGEDVIT_LIBRARY"] = options.library
    sys.path.insert(0, str(HERE.parent / "python"))
    import numpy
    import torch
    import torchvision
    from raggedvit._c.library import library

    random, results = numpy.random.default_rng(1), []
    batches = [2] if options.dry_run else [int(b) for b in options.batches.split(",")]
    report = {"benchmark": "preprocess", "backend": options.backend, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": platform.processor() or platform.machine(),
              "device": torch.cuda.get_device_name(0) if torch.cuda.is_available() else "cpu", "torch": torch.__version__,
              "torchvision": torchvision.__version__, "results": results}
    pathlib.Path(options.out).mkdir(parents=True, exist_ok=True)
    for name, sizes in SIZES.items():
        for batch in batches:
            arrays = [numpy.ascontiguousarray(random.integers(0, 256, (*sizes[i % len(sizes)][::-1], 3), numpy.uint8)) for i in range(batch)]
            op = Op(library(), options.backend, arrays)
            call = {where: lambda program=program: op.library.rvit_program_launch(program, op.stream)
                    for where, program in (("device_us", op.device_program), ("staged_us", op.staged_program))}
            found = {where: best_us(launch, op.wait, options.seconds) for where, launch in call.items()}
            found["write_us"] = best_us(op.write, op.wait, options.seconds)
            row = {"images": name, "batch": batch, "bytes": sum(p.nbytes for p in arrays), "region_bytes": op.size, "raggedvit": found,
                   "torchvision": torchvision_us(arrays, options.seconds, True), "differ": differ(arrays[0])}
            results.append(row)
            print(json.dumps(row), flush=True)
            pathlib.Path(options.out, "preprocess.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
