#!/usr/bin/env python3
"""Compares the vision encoders of Qwen2.5-VL and Qwen3-VL on CUDA with transformers, at their published sizes with random weights.

    bench/vision_encoders.py --library build/libraggedvit.so --out results [--dtype bf16] [--repeats 7]
    bench/vision_encoders.py --library build/libraggedvit.so --out results --only '^qwen3-vl 4 x'
    bench/vision_encoders.py --library build/libraggedvit.so --out results --backend cpu --dry-run      # tiny: its figures mean nothing

Writes OUT/vision_encoders.json. `device_ms`: patches in device memory, merged rows (and deepstack rows) in pinned host memory. `host_ms`:
from patches in host memory to new arrays there; `host_out_ms`: to existing arrays (out=). `tensors_ms`: patches and rows are PyTorch
tensors on the device (prepare's on_device). The same for transformers, which copies only merged rows to the host, with sdpa
and, if flash_attn can be imported, with flash_attention_2. All times are medians. `error`: the root mean square of the difference from
transformers in float32, relative to the deviation of its outputs.
"""

import argparse
import ctypes
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ENCODERS = {"qwen2.5-vl": ("Qwen2_5_VisionTransformerPretrainedModel", {
              "hidden_size": 1280, "depth": 32, "num_heads": 16, "intermediate_size": 3420, "out_hidden_size": 3584, "patch_size": 14,
              "window_size": 112, "fullatt_block_indexes": [7, 15, 23, 31]}),
          "qwen3-vl": ("Qwen3VLVisionModel", {
              "hidden_size": 1152, "depth": 27, "num_heads": 16, "intermediate_size": 4304, "out_hidden_size": 4096, "patch_size": 16,
              "deepstack_visual_indexes": [8, 16, 24]})}
TINY = {"hidden_size": 64, "depth": 4, "num_heads": 2, "intermediate_size": 44, "out_hidden_size": 24}
GRIDS = {"1 x 34x46": [(34, 46)], "4 x 52x94": [(52, 94)] * 4,
         "16 mixed": [(34, 46), (26, 26), (52, 30), (16, 40), (46, 34), (20, 20), (30, 40), (34, 60)] * 2}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True, help="libraggedvit.so")
    parser.add_argument("--package", default=HERE.parent / "python", help="the folder that holds the package raggedvit")
    parser.add_argument("--out", required=True, help="folder of the results")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--dtype", default="bf16", choices=("f32", "f16", "bf16"))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", default="", help="regular expression for 'ENCODER BATCH', such as '^qwen3-vl 4 x'")
    parser.add_argument("--dry-run", action="store_true")
    return parser.parse_args()


OPTIONS = parse()
os.environ["RAGGEDVIT_LIBRARY"] = str(pathlib.Path(OPTIONS.library).resolve())
sys.path.insert(0, str(OPTIONS.package))
import numpy as np
import torch
import transformers
import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl as qwen2_5
import transformers.models.qwen3_vl.modeling_qwen3_vl as qwen3

import raggedvit
from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new

WHERE = "cuda" if OPTIONS.backend == "cuda" else "cpu"
DTYPE = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[OPTIONS.dtype]


def median_ms(call):
    def wait():
        if WHERE == "cuda":
            torch.cuda.synchronize()

    times = []
    for _ in range(OPTIONS.repeats + 2):
        wait()
        begin = time.perf_counter()
        call()
        wait()
        times.append(time.perf_counter() - begin)
    return round(1e3 * sorted(times[2:])[OPTIONS.repeats // 2], 3)


def randomize(module):
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.7 / parameter[0].numel() ** 0.5)
            elif parameter.min() == 1:  # of a norm
                parameter.add_(0.2 * torch.randn_like(parameter))
            else:
                parameter.normal_(0, 0.1)
    return module.to(DTYPE).eval()


def merged(output):
    found = getattr(output, "pooler_output", output)
    return found[0] if isinstance(found, tuple) else found


class DeviceSession:
    """A session that reads patches from device memory; merged rows are copied to the host."""

    def __init__(self, model, rows, grids):
        lib, size = model._lib, rows.numel() * 4
        self.lib, self.bounds = lib, np.array(grids, np.int32)
        self.buffer = lib.own("buffer", model._device, size, CONSTANTS["RVIT_BUFFER_DEVICE"])
        stream = lib.own("stream", model._device)
        lib.rvit_stream_write(stream, new("rvit_view", buffer=self.buffer.pointer, offset=0), rows.data_ptr(), size)
        lib.rvit_stream_synchronize(stream)
        desc = new("rvit_session_desc", variable_resolution=1, input=CONSTANTS["RVIT_INPUT_PATCHES"],
                   input_memory=CONSTANTS["RVIT_INPUT_FIXED"], max_images=len(grids), max_tokens=len(rows), max_len=max(h * w for h, w in grids))
        desc.outputs = CONSTANTS["RVIT_OUTPUT_MERGED"] | (CONSTANTS["RVIT_OUTPUT_DEEPSTACK"] if model.info.n_deepstack else 0)
        desc.input_view.buffer = self.buffer.pointer
        self.session = lib.own("session", model._handle, ctypes.byref(desc), keeps=(model._handle, self.buffer))
        self.run = new("rvit_run_args")
        self.run.n_images, self.run.input.kind, self.run.input.grids = len(grids), desc.input, self.bounds.ctypes.data

    def __call__(self):
        self.lib.rvit_session_run(self.session, ctypes.byref(self.run), None)


def measure(name, label, grids, model, module, exact):
    n = sum(h * w for h, w in grids)
    rows = torch.randn(n, 3 * 2 * model.info.patch_size**2)
    thw = torch.tensor([(1, *grid) for grid in grids], device=WHERE)
    asked = dict(inputs="patches", max_images=len(grids), max_tokens=n, max_len=max(h * w for h, w in grids), merged=True,
                 deepstack=model.info.n_deepstack > 0)
    forward = model.prepare(**asked)
    places = {"out": np.zeros((n // 4, model.info.merged_dim), np.float32)}
    if model.info.n_deepstack:
        places["deepstack_out"] = np.zeros((model.info.n_deepstack, n // 4, model.info.merged_dim), np.float32)
    found = {"encoder": name, "batch": label, "patches": n, "host_ms": median_ms(lambda: forward(rows, grids)),
             "host_out_ms": median_ms(lambda: forward(rows, grids, **places)), "device_ms": median_ms(DeviceSession(model, rows, grids))}
    if WHERE == "cuda":
        on_device, there = model.prepare(**asked, on_device=True), rows.to(WHERE, DTYPE)
        found["tensors_ms"] = median_ms(lambda: on_device(there, grids))
        same = on_device(rows, grids)
        found["same_as_host"] = bool((same.merged.cpu().numpy() == forward(rows, grids).merged).all())
        del on_device, same
    with torch.no_grad():
        there = rows.to(WHERE, DTYPE)
        wanted = merged(exact(there.float(), grid_thw=thw))

        def error(got):
            return float(f"{float((got.float() - wanted).pow(2).mean().sqrt() / wanted.std()):.3g}")

        found["error"] = error(torch.from_numpy(forward(rows, grids).merged).to(WHERE))
        for attention in ("sdpa", "flash_attention_2"):
            if attention != "sdpa" and (WHERE == "cpu" or importlib.util.find_spec("flash_attn") is None):
                continue
            module.config._attn_implementation = attention
            found[f"transformers_{attention}"] = {
                "host_ms": median_ms(lambda: merged(module(rows.to(WHERE, DTYPE), grid_thw=thw)).cpu()),
                "device_ms": median_ms(lambda: merged(module(there, grid_thw=thw)).cpu()),
                "tensors_ms": median_ms(lambda: module(there, grid_thw=thw)),
                "error": error(merged(module(there, grid_thw=thw)))}
    print(json.dumps(found), flush=True)
    return found


def main():
    torch.manual_seed(0)
    grids = {"tiny": [(4, 6), (2, 8)]} if OPTIONS.dry_run else GRIDS
    results = []
    for name, (kind, sizes) in ENCODERS.items():
        chosen = {label: batch for label, batch in grids.items() if re.search(OPTIONS.only, f"{name} {label}")}
        if not chosen:
            continue
        kind = getattr(qwen2_5 if hasattr(qwen2_5, kind) else qwen3, kind)
        if OPTIONS.dry_run:
            sizes = {**sizes, **TINY, **{key: [1, 2] for key in ("fullatt_block_indexes", "deepstack_visual_indexes") if key in sizes}}
        with torch.device(WHERE):
            module = randomize(kind(kind.config_class(**sizes)))
            exact = kind(kind.config_class(**sizes)).eval()
        exact.load_state_dict(module.state_dict())
        with tempfile.TemporaryDirectory() as folder:
            module.save_pretrained(folder, max_shard_size="100GB")
            model = raggedvit.Model(pathlib.Path(folder) / "model.safetensors", device=OPTIONS.backend, dtype=OPTIONS.dtype)
        results += [measure(name, label, batch, model, module, exact) for label, batch in chosen.items()]
        del module, exact, model
    device = torch.cuda.get_device_name() if WHERE == "cuda" else "CPU"
    out = pathlib.Path(OPTIONS.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "vision_encoders.json").write_text(json.dumps({"device": device, "torch": torch.__version__, "transformers": transformers.__version__,
                                                 "dtype": OPTIONS.dtype, "results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
