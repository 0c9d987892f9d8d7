"""raggedvit on the CPU: rvit_session_run, called through the package's ctypes, from images in the caller's memory to logits there."""

import ctypes
import pathlib

import numpy as np

from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new
from raggedvit._c.library import library

PARTS = {}
KEEP = 0.2
# On a processor with AMX, also measures the kernels that the library uses on Intel processors without it.
PLAIN, PLAIN_KERNELS = " without AMX", b"avx512_vnni"


def baselines(point):
    """The layers of int8 models that are not quantized are in bf16 or f32, whichever is faster."""
    names = [f"raggedvit {dtype}{keep}" for dtype in ("f32", "bf16", "int8") for keep in ("", f" keep {KEEP}")]
    if " amx_tile " in pathlib.Path("/proc/cpuinfo").read_text():
        names += [f"raggedvit {dtype}{PLAIN}" for dtype in ("bf16", "int8")]
    return {name: ["bf16", "f32"] if "int8" in name else [name.split()[1]] for name in names}


def more(point, name, best):
    return []


class Session:
    """A device, a model and a session of one batch size."""

    def __init__(self, point, dtype, int8, keep, kernels):
        self.lib = lib = library()
        device, model = new("rvit_device_desc", backend=CONSTANTS["RVIT_BACKEND_CPU"], n_threads=point.cores), new(
            "rvit_model_desc", dtype=CONSTANTS[f"RVIT_{dtype.upper()}"])
        if kernels:
            device.kernels = kernels
        if int8:
            model.quantization = CONSTANTS["RVIT_QUANTIZATION_INT8"]
        self.device = lib.own("device", ctypes.byref(device))
        checkpoint = lib.own("checkpoint", str(point.folder / "model.safetensors").encode(), None, create="rvit_checkpoint_open")
        self.model = lib.own("model", self.device, checkpoint, ctypes.byref(model), keeps=(self.device,))
        session = new("rvit_session_desc", max_images=point.batch, fixed_batch=1)
        if keep is not None:
            prune = new("rvit_prune_desc", type=CONSTANTS["RVIT_PRUNE_L2"], keep=keep)
            session.prune = ctypes.addressof(prune)
        self.session = lib.own("session", self.model, ctypes.byref(session), keeps=(self.model,))
        self.logits, self.images = np.empty((point.batch, point.shape.classes), np.float32), point.images
        self.run = new("rvit_run_args", n_images=point.batch, input={"data": self.images.ctypes.data})
        self.arguments = self.session.pointer, ctypes.addressof(self.run), self.logits.ctypes.data

    def __call__(self):
        self.lib.check(self.lib.raw.rvit_session_run(*self.arguments))
        return [self.logits]


def start(point, name, setting):
    int8, plain = " int8" in name, PLAIN in name
    if int8 and "RVIT_QUANTIZATION_INT8" not in CONSTANTS:
        raise RuntimeError("this version has no int8 models")
    if plain and "kernels" not in dict(new("rvit_device_desc")._fields_):
        raise RuntimeError("this version does not use AMX")
    return Session(point, setting, int8, KEEP if "keep" in name else None, PLAIN_KERNELS if plain else None)


def versions():
    return {"raggedvit": library().version()}
