"""raggedvit on the CPU: rvit_session_run, called through the package's ctypes, from pictures in the caller's memory to logits there."""

import ctypes

import numpy as np

from raggedvit._constants import CONSTANTS
from raggedvit._layouts import new
from raggedvit._library import library

PARTS = {}
KEEP = 0.2
# What a device is asked for beside the default, so that a processor with AMX shows what one without it does.
PLAIN = " without AMX"


def rivals(point):
    names = [f"raggedvit {dtype}{keep}{plain}" for plain in ("", PLAIN) for dtype in ("f32", "bf16", "int8")
             for keep in ("", f" keep {KEEP}")]
    return {name: ["session"] for name in names if not (PLAIN in name and ("f32" in name or "keep" in name))}


def more(point, name, best):
    return []


class Session:
    """A device, a model and a session of one batch size."""

    def __init__(self, point, dtype, keep, plain):
        if f"RVIT_{dtype.upper()}" not in CONSTANTS:
            raise RuntimeError(f"this version has no {dtype} models")
        self.lib = lib = library()
        desc = new("rvit_device_desc", backend=CONSTANTS["RVIT_BACKEND_CPU"], n_threads=point.cores)
        if plain:
            _without_amx(desc)
        self.device = lib.own("device", ctypes.byref(desc))
        checkpoint = lib.own("checkpoint", str(point.folder / "model.safetensors").encode(), None, create="rvit_checkpoint_open")
        self.model = lib.own("model", self.device, checkpoint, ctypes.byref(_model_desc(self.device, dtype)), keeps=(self.device,))
        checkpoint.close()
        session = new("rvit_session_desc", max_images=point.batch, fixed_batch=1)
        if keep is not None:
            session.prune.type, session.prune.keep = CONSTANTS["RVIT_PRUNE_L2"], keep
        self.session = lib.own("session", self.model, ctypes.byref(session), keeps=(self.model,))
        self.logits = np.empty((point.batch, point.shape.classes), np.float32)
        self.images = point.images
        self.run = new("rvit_run_args", n_images=point.batch, images=self.images.ctypes.data)
        self.arguments = self.session.pointer, ctypes.addressof(self.run), self.logits.ctypes.data

    def __call__(self):
        self.lib.check(self.lib.raw.rvit_session_run(*self.arguments))
        return [self.logits]


def _without_amx(desc):
    raise RuntimeError("this version does not use AMX")


def _model_desc(device, dtype):
    return new("rvit_model_desc", dtype=CONSTANTS[f"RVIT_{dtype.upper()}"])


def start(point, name, setting):
    return Session(point, name.split()[1], KEEP if "keep" in name else None, PLAIN in name)


def versions():
    return {"raggedvit": library().version()}
