#!/usr/bin/env python3
"""From uint8 images in host memory to logits in host memory: compares raggedvit.Model as a user calls it, and with images in place, with
the same forward from device memory and with PyTorch with torchvision's transforms on the GPU.

    bench/input_pipeline.py --library build/libraggedvit.so --out results [--models deit_tiny,...] [--batches 1,16,64] [--seconds 0.3]
    bench/input_pipeline.py --library build/libraggedvit.so --out results --dry-run       # tiny, on the CPU: its figures mean nothing

Weights are random, in float16. Writes OUT/input_pipeline.json after each row. Images per second of
  classify   Model.classify(list of numpy arrays), one call after another
  map        Model.prepare().map(batches): the same arrays, the next batch copied while one runs
  in_place   three image slots in turn that already hold the images, as a decoder would leave them
  tensors    Model.classify(list of uint8 CUDA tensors), each with its own memory. `tensors_same`: the logits equal those of the host's
             images, bit for bit. `whole`: the same for one tensor [batch, height, width, 3]
  device     the same forward from device memory: float32 images (NaFlex: patches); calls enqueued one after another, one wait
  pytorch    pinned uint8, a copy on a stream of its own, torchvision v2 (resize with antialiasing, crop, float16, normalise), timm's or
             transformers' model in float16 with SDPA in a CUDA graph, logits to pinned memory; two batches in flight
`bound` is the limit by the bus: host_to_device / bytes of an image.
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
TIMM = {"deit_tiny": "deit_tiny_patch16_224", "deit_base": "deit_base_patch16_224"}
MAX_PATCHES, PATCH = 256, 16
SIZES = {"640x480": (480, 640), "1280x720": (720, 1280), "1920x1080": (1080, 1920)}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--work", default="/tmp/raggedvit-bench/input_pipeline", help="folder for checkpoints")
    parser.add_argument("--models", default="deit_tiny,deit_base,siglip2_naflex")
    parser.add_argument("--sizes", default=",".join(SIZES))
    parser.add_argument("--batches", default="1,16,64")
    parser.add_argument("--ways", default="classify,map,in_place,tensors,device,pytorch")
    parser.add_argument("--slots", type=int, default=3, help="image slots that take turns")
    parser.add_argument("--seconds", type=float, default=0.3, help="time per measurement")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


def make(torch, name, folder, dry):
    """Returns PyTorch's model in float32 on the CPU, and the path of its checkpoint in float16."""
    from safetensors.torch import save_file

    torch.manual_seed(1)
    if name in TIMM:
        import timm

        model = timm.create_model(TIMM[name], **({"depth": 2} if dry else {})).eval()
        config = {"architecture": TIMM[name], "num_classes": 1000, "model_args": {"depth": 2} if dry else {},
                  "pretrained_cfg": {"input_size": [3, 224, 224], "num_classes": 1000, "mean": MEAN, "std": STD, "crop_pct": 0.9,
                                     "interpolation": "bicubic", "crop_mode": "center"}}
        extra = {}
    else:
        from transformers import Siglip2VisionConfig, Siglip2VisionModel

        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 2, "num_hidden_layers": 2} if dry else {}
        model = Siglip2VisionModel(Siglip2VisionConfig(num_patches=MAX_PATCHES, attn_implementation="sdpa", **sizes)).eval()
        config = model.config.to_dict() | {"model_type": "siglip2_vision_model", "architectures": ["Siglip2VisionModel"]}
        extra = {"preprocessor_config.json": {"image_processor_type": "Siglip2ImageProcessor", "max_num_patches": MAX_PATCHES,
                                              "patch_size": PATCH}}
    for key, value in model.named_parameters():
        if key.endswith("bias") or key in ("head.weight", "pos_embed"):
            value.data.normal_(0, 0.02)
    for value in model.state_dict().values():  # round to float16, as in the file
        value.copy_(value.half().float())
    path = folder / name / "model.safetensors"
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content in {"config.json": config, **extra}.items():
        (path.parent / file).write_text(json.dumps(content, default=str))
    save_file({key: value.half().contiguous() for key, value in model.state_dict().items()}, str(path))
    return model, path


def rate(run, batch, seconds):
    """Images per second: the best of three windows. run(n) runs n batches and waits for the last."""
    run(4)
    begin = time.perf_counter()
    run(4)
    step = max(4, int(seconds / 3 / max(1e-9, (time.perf_counter() - begin) / 4)))
    best = 0.0
    for _ in range(3):
        begin = time.perf_counter()
        run(step)
        best = max(best, step * batch / (time.perf_counter() - begin))
    return best


def in_place(raggedvit, model, images, fixed, n_slots, seconds):
    """Uses slots in turn, which are filled once. Returns the logits of the batch, and images per second."""
    batch = len(images)
    slots = [model.prepare(inputs="slot", max_images=batch, max_bytes=sum(p.nbytes + 64 for p in images), fixed_batch=fixed) for _ in range(n_slots)]
    for slot in slots:
        for image in images:
            slot.add(*image.shape[:2])[:] = image

    def run(n):
        for i in range(n):
            slot = slots[i % n_slots]
            if slot.pending:
                slot.finish()
            slot.start()
        for slot in slots:
            if slot.pending:
                slot.finish()

    slots[0].start()
    logits = slots[0].finish().logits
    return logits, rate(run, batch, seconds)


def patches_on_device(torch, model, grid, batch, cuda, seconds):
    """Images per second from patches on the device, through two variable-resolution sessions in turn."""
    import numpy
    from raggedvit._c.constants import CONSTANTS
    from raggedvit._c.layouts import new

    tokens = grid[0] * grid[1]
    grids = numpy.ascontiguousarray(numpy.tile(numpy.array(grid, numpy.int32), (batch, 1)))
    patches = torch.randn(batch * MAX_PATCHES, 3 * PATCH * PATCH, device="cuda" if cuda else "cpu")
    lib, sessions = model._lib, []
    wrapped = lib.wrap(model._device, patches.data_ptr(), patches.nbytes, cuda)
    for _ in range(2):
        desc = new("rvit_session_desc", variable_resolution=1, input=CONSTANTS["RVIT_INPUT_PATCHES"],
                   input_memory=CONSTANTS["RVIT_INPUT_FIXED"], max_images=batch, max_len=model.info.n_prefix + MAX_PATCHES)
        desc.input_view.buffer = wrapped.pointer.value
        sessions.append(lib.own("session", model._handle, ctypes.byref(desc), keeps=(model._handle, wrapped)))
    args = new("rvit_run_args", n_images=batch, input={"kind": CONSTANTS["RVIT_INPUT_PATCHES"], "grids": grids.ctypes.data})
    assert tokens <= MAX_PATCHES

    def run(n):
        for i in range(n):
            if i >= 2:
                lib.rvit_session_wait(sessions[i % 2])
            lib.rvit_session_enqueue(sessions[i % 2], ctypes.byref(args))
        for i in range(max(0, n - 2), n):
            lib.rvit_session_wait(sessions[i % 2])

    return rate(run, batch, seconds)


def device_rate(torch, model, batch, cuda, seconds):
    """Images per second from float images on the device."""
    images = torch.randn(batch, 3, 224, 224, device="cuda" if cuda else "cpu")
    forward = model.prepare()

    def run(n):
        for i in range(n):
            forward(images)
            if cuda and i % 64 == 63:
                torch.cuda.synchronize()
        if cuda:
            torch.cuda.synchronize()

    return rate(run, batch, seconds)


class Pytorch:
    """The baseline, for one model and one image size."""

    def __init__(self, torch, name, theirs, batch, shape, cuda):
        from torchvision.transforms.v2 import functional as F

        self.torch, self.F, self.cuda, self.batch = torch, F, cuda, batch
        self.where = "cuda" if cuda else "cpu"
        height, width = shape
        self.half = torch.float16 if cuda else torch.float32
        if name in TIMM:
            self.edge = [248, int(248 * width / height)] if height <= width else [int(248 * height / width), 248]
            self.given = torch.zeros(batch, 3, 224, 224, dtype=self.half, device=self.where)
            call = lambda: theirs(self.given)
        else:
            from transformers.models.siglip2.image_processing_siglip2 import get_image_size_for_max_num_patches

            self.edge = list(get_image_size_for_max_num_patches(height, width, PATCH, MAX_PATCHES))
            grid = [edge // PATCH for edge in self.edge]
            self.given = torch.zeros(batch, grid[0] * grid[1], 3 * PATCH * PATCH, dtype=self.half, device=self.where)
            shapes = torch.tensor([grid] * batch)
            embeddings = theirs.embeddings
            kind = type(embeddings)
            with torch.inference_mode():
                side = embeddings.position_embedding_size
                table = kind.resize_positional_embeddings(embeddings.position_embedding.weight.reshape(side, side, -1), shapes[:1],
                                                          max_length=grid[0] * grid[1])
            # All images of the batch have the same patches: resize the position table only once, and use no mask.
            embeddings.resize_positional_embeddings = lambda *_, **__: table
            call = lambda: theirs(pixel_values=self.given, pixel_attention_mask=None, spatial_shapes=shapes).pooler_output
        self.crop = name in TIMM
        self.call, self.captured = call, False
        if not cuda:
            return
        self.upload, self.stream = torch.cuda.Stream(), torch.cuda.Stream()
        with torch.cuda.stream(self.stream):
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        try:
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, stream=self.stream):
                self.logits = call()
            self.call, self.captured = graph.replay, True
        except Exception as failure:
            torch.cuda.synchronize()
            self.captured = f"{type(failure).__name__}: {str(failure)[:200]}"

    def prepare(self, pixels):
        """Converts uint8 [batch, 3, height, width] on the device to the model's input."""
        F, torch = self.F, self.torch
        how = F.InterpolationMode.BICUBIC if self.crop else F.InterpolationMode.BILINEAR
        made = F.resize(pixels, self.edge, how, antialias=True)
        if self.crop:
            made = F.center_crop(made, [224, 224])
        mean, std = (MEAN, STD) if self.crop else ((0.5,) * 3, (0.5,) * 3)
        made = F.normalize(F.to_dtype(made, self.half, scale=True), mean, std)
        if self.crop:
            self.given.copy_(made)
        else:
            n, _, height, width = made.shape
            cut = made.view(n, 3, height // PATCH, PATCH, width // PATCH, PATCH).permute(0, 2, 4, 3, 5, 1)
            self.given.copy_(cut.reshape(self.given.shape))

    def forward(self, pixels):
        self.prepare(pixels)
        out = self.call()
        return self.logits if self.captured is True else out

    def run(self, pinned, n):
        """Runs n batches from pinned memory, in HWC order like a decoder's output."""
        torch = self.torch
        if not self.cuda:
            for _ in range(n):
                self.forward(pinned.permute(0, 3, 1, 2))
            return
        if not hasattr(self, "buffers"):
            self.buffers = [torch.empty_like(pinned, device="cuda") for _ in range(2)]
            self.outs = [torch.empty(self.forward(self.buffers[0].permute(0, 3, 1, 2)).shape, dtype=self.half, pin_memory=True) for _ in range(2)]
            self.uploaded, self.used, self.done = ([torch.cuda.Event() for _ in range(2)] for _ in range(3))
        for i in range(n):
            k = i % 2
            if i >= 2:
                self.done[k].synchronize()  # its logits have arrived
            with torch.cuda.stream(self.upload):
                self.upload.wait_event(self.used[k])
                self.buffers[k].copy_(pinned, non_blocking=True)
                self.uploaded[k].record()
            with torch.cuda.stream(self.stream):
                self.stream.wait_event(self.uploaded[k])
                self.prepare(self.buffers[k].permute(0, 3, 1, 2))
                self.used[k].record()
                out = self.call()
                self.outs[k].copy_(self.logits if self.captured is True else out, non_blocking=True)
                self.done[k].record()
        torch.cuda.synchronize()


def copy_rate(torch, size, seconds):
    """Bytes per second from pinned memory to the device."""
    pinned, there = torch.empty(size, dtype=torch.uint8, pin_memory=True), torch.empty(size, dtype=torch.uint8, device="cuda")

    def run(n):
        for _ in range(n):
            there.copy_(pinned, non_blocking=True)
        torch.cuda.synchronize()

    return rate(run, size, seconds)


def main():
    options = parse()
    os.environ["RAGGEDVIT_LIBRARY"] = os.path.realpath(options.library)
    sys.path.insert(0, str(HERE.parent / "python"))
    import numpy
    import torch
    import torchvision

    import raggedvit
    from raggedvit._session.staging import grid_of

    dry, cuda = options.dry_run, torch.cuda.is_available()
    seconds = 0.02 if dry else options.seconds
    folder, out = pathlib.Path(options.work) / ("tiny" if dry else "full"), pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    rows, ways = [], options.ways.split(",")
    report = {"benchmark": "input_pipeline", "dry_run": dry, "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "version": raggedvit.version(),
              "commit": os.environ.get("RVIT_BENCH_COMMIT", "unknown"), "cpu": platform.processor() or platform.machine(),
              "cores": len(os.sched_getaffinity(0)), "device": torch.cuda.get_device_name(0) if cuda else "cpu", "torch": torch.__version__,
              "torchvision": torchvision.__version__, "slots": options.slots, "host_to_device": copy_rate(torch, 64 * 640 * 480 * 3, 0.3) if cuda else None, "rows": rows}
    random = numpy.random.default_rng(1)
    batches = [1, 3] if dry else [int(b) for b in options.batches.split(",")]

    def add(row):
        rows.append(row)
        print(json.dumps(row), flush=True)
        (out / "input_pipeline.json").write_text(json.dumps(report, indent=1) + "\n")

    for name in options.models.split(","):
        theirs, path = make(torch, name, folder, dry)
        theirs = theirs.to("cuda" if cuda else "cpu", torch.float16 if cuda else torch.float32)
        model = raggedvit.Model(path, "cuda" if cuda else "cpu", "f16" if cuda else "f32")
        variable = model.recipe.max_patches > 0
        for batch in batches:
            device = None if variable or "device" not in ways else device_rate(torch, model, batch, cuda, seconds)
            for size in options.sizes.split(","):
                height, width = SIZES[size] if not dry else tuple(edge // 8 for edge in SIZES[size])
                whole = random.integers(0, 256, (batch, height, width, 3), numpy.uint8)
                images = list(whole)
                row = {"model": name, "size": size, "batch": batch, "bytes": whole[0].nbytes}
                found = {}
                try:
                    if variable and "device" in ways:
                        grid = grid_of(model._lib, height, width, PATCH, MAX_PATCHES)
                        device = patches_on_device(torch, model, grid, batch, cuda, seconds)
                    found["device"] = device
                    wanted = model.classify(images).logits
                    scale = float(numpy.abs(wanted).max())
                    if "classify" in ways:
                        found["classify"] = rate(lambda n: [model.classify(images) for _ in range(n)], batch, seconds)
                    if "map" in ways:
                        forward = model.prepare()
                        found["map"] = rate(lambda n: [None for _ in forward.map(images for _ in range(n))], batch, seconds)
                    if "in_place" in ways:
                        logits, found["in_place"] = in_place(raggedvit, model, images, not variable, options.slots, seconds)
                        row["in_place_difference"] = float(numpy.abs(logits - wanted).max()) / scale
                    if "tensors" in ways and cuda:
                        there = [torch.from_numpy(image).cuda() for image in images]
                        row["tensors_same"] = bool((model.classify(there).logits.cpu().numpy() == wanted).all())
                        found["tensors"] = rate(lambda n: [model.classify(there) for _ in range(n)], batch, seconds)
                        there = torch.stack(there)
                        row["tensors_same"] &= bool((model.classify(there).logits.cpu().numpy() == wanted).all())
                        found["whole"] = rate(lambda n: [model.classify(there) for _ in range(n)], batch, seconds)
                        del there
                    if "pytorch" in ways:
                        with torch.inference_mode():
                            baseline = Pytorch(torch, name, theirs, batch, (height, width), cuda)
                            pinned = torch.from_numpy(whole).pin_memory() if cuda else torch.from_numpy(whole)
                            got = baseline.forward(pinned.to(baseline.where).permute(0, 3, 1, 2)).float().cpu().numpy()
                            row["pytorch_difference"] = float(numpy.abs(got - wanted).max()) / scale
                            row["pytorch_captured"] = baseline.captured
                            found["pytorch"] = rate(lambda n: baseline.run(pinned, n), batch, seconds)
                            del baseline, pinned
                except Exception as failure:
                    if dry:
                        raise
                    row["failed"] = f"{type(failure).__name__}: {str(failure)[:300]}"
                row["images_per_second"] = {way: None if value is None else round(value, 1) for way, value in found.items()}
                if cuda:
                    row["bound"] = round(report["host_to_device"] / whole[0].nbytes, 1)
                for method in ("classify", "map", "in_place", "tensors", "whole"):
                    for baseline in ("device", "pytorch"):
                        if found.get(method) and found.get(baseline):
                            row[f"{method}_of_{baseline}"] = round(found[method] / found[baseline], 3)
                add(row)
        model.close()
        del theirs, model
        if cuda:
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
