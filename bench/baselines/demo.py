"""The demo checkpoint on the sheet of test tiles, preprocessed with Pillow: compares logits with timm's in float64, and measures top-1."""

import ctypes
import pathlib

import numpy
from PIL import Image

from raggedvit._c.layouts import new

from .sessions import Model

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def tiles(data, limit):
    sheet = Image.open(data / "cifar10_test_1000.png").convert("RGB")
    out = numpy.empty((limit, 3, 224, 224), numpy.float32)
    for n in range(limit):
        y, x = n // 40 * 32, n % 40 * 32
        tile = sheet.crop((x, y, x + 32, y + 32)).resize((224, 224), Image.BICUBIC)
        out[n] = ((numpy.asarray(tile, numpy.float32) / 255 - MEAN) / STD).transpose(2, 0, 1)
    return out


def run(context, data, dtype, limit=1000, batch=50):
    data = pathlib.Path(data)
    library = context.library
    model = Model(context, data / "deit_tiny_cifar10.safetensors", dtype)
    session = library.make("rvit_session_create", model.handle, ctypes.byref(new("rvit_session_desc", max_images=batch)))
    images, classes = tiles(data, limit), model.info.n_classes
    logits = numpy.full((limit, classes), numpy.nan, numpy.float32)
    for first in range(0, limit, batch):
        n = min(batch, limit - first)
        args = new("rvit_run_args", n_images=n, input={"data": images[first:].ctypes.data})
        library.rvit_session_run(session, ctypes.byref(args), logits[first:].ctypes.data)
    library.rvit_session_destroy(session)
    model.close()
    wanted = numpy.loadtxt(data / "cifar10_test_logits_64.txt").reshape(-1, classes)[:limit]
    from safetensors import safe_open

    with safe_open(str(data / "deit_tiny_cifar10.safetensors"), "np") as file:
        names = file.metadata()["classes"].split(",")
    labels = (data / "cifar10_test_1000.txt").read_text().split()[:limit]
    right = sum(names[best] == label for best, label in zip(logits.argmax(1), labels))
    largest = float(numpy.abs(logits[: len(wanted)] - wanted).max())
    return {"dtype": dtype, "largest_logit_difference": largest, "right": right, "tiles": limit, "top1_percent": 100 * right / limit}
