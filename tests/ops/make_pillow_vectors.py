#!/usr/bin/env python3
"""Resizes images with Pillow and torchvision, before normalisation, for tests/ops/preprocess.c.

  make_pillow_vectors.py > tests/ops/pillow_vectors.h

Needs torch, torchvision, numpy and Pillow 13 from PyPI, and a processor with AVX2, on which PyTorch resizes 8-bit values by itself. Byte i
of an image is the upper byte of a hash of i (below). The result is given as the CRC-32 of its bytes, [height, width, 3].
"""
import itertools
import sys
import zlib

import numpy
import PIL
import PIL.Image
import torch
import torchvision
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as F

FORMATS = {"RGB8": 3, "BGR8": 3, "RGBA8": 4, "GRAY8": 1}
FILTERS = ["BILINEAR", "BICUBIC", "LANCZOS", "BOX", "HAMMING", "NEAREST"]
# Sizes of an image and of its target: width, height, target width, target height.
SMALL = [(1, 1, 28, 28), (1, 7, 16, 32), (9, 1, 28, 14), (3, 5, 4, 6), (16, 16, 16, 16), (17, 33, 32, 16), (45, 31, 28, 28), (23, 58, 28, 56),
         (160, 6, 32, 16), (20, 90, 28, 28), (64, 40, 64, 20), (33, 400, 32, 16), (249, 732, 64, 64), (300, 20, 16, 16)]
LARGE = [(640, 480, 224, 224), (1277, 1920, 224, 224), (500, 375, 384, 384)]


def content(size):
    i = numpy.arange(size, dtype=numpy.uint32)
    i *= numpy.uint32(2654435761)
    i ^= i >> numpy.uint32(15)
    i *= numpy.uint32(2246822519)
    return (i >> numpy.uint32(24)).astype(numpy.uint8)


def make_image(form, width, height):
    """An RGB image of Pillow."""
    values = content(width * height * FORMATS[form]).reshape(height, width, FORMATS[form])
    if form == "BGR8":
        return PIL.Image.fromarray(numpy.ascontiguousarray(values[:, :, ::-1]))
    if form == "GRAY8":
        return PIL.Image.fromarray(values[:, :, 0]).convert("RGB")
    return PIL.Image.fromarray(values).convert("RGB")


def of_pillow(image, filter, fit, width, height, edge):
    mode = InterpolationMode[filter]
    if fit == "SQUASH":
        return numpy.asarray(F.resize(image, [height, width], mode))
    return numpy.asarray(F.center_crop(F.resize(image, edge, mode), [height, width]))


def of_torch(image, filter, fit, width, height, edge):
    """As transformers' processors call it."""
    tensor = torch.from_numpy(numpy.asarray(image).copy()).permute(2, 0, 1)
    mode = InterpolationMode[filter]
    if fit == "SQUASH":
        made = F.resize(tensor, [height, width], mode, antialias=True)
    else:
        made = F.resize(tensor, [edge], mode, antialias=True)
        top, left = (made.shape[1] - height) // 2, (made.shape[2] - width) // 2
        made = made[:, top:top + height, left:left + width]
    return made.permute(1, 2, 0).contiguous().numpy()


def cases():
    """processor, format, filter, fit, width, height, target width, target height, edge"""
    for size, filter in itertools.product(SMALL, FILTERS):
        yield "TIMM", "RGB8", filter, "SQUASH", *size, 0
    for i, (size, filter) in enumerate(itertools.product(SMALL, FILTERS[:3])):
        width, height, target, _ = size
        yield "TIMM", list(FORMATS)[i % 4], filter, "CROP", width, height, target, target, target + (0, 3, 4, 9)[i % 4]
    for i, (size, filter) in enumerate(itertools.product(SMALL[4:], FILTERS[:2])):
        width, height, target, _ = size
        if i % 3:
            yield "HF", list(FORMATS)[i % 4], filter, "SQUASH", *size, 0
        else:
            yield "HF", list(FORMATS)[i % 4], filter, "CROP", width, height, target, target, target + (0, 3, 4, 9)[i % 4]
    for form, filter in zip(FORMATS, FILTERS):
        yield "TIMM", form, filter, "SQUASH", 50, 41, 28, 42, 0
    # A crop that is larger than what it is cut from.
    yield "TIMM", "RGB8", "BICUBIC", "CROP", 31, 20, 40, 40, 30
    yield "TIMM", "RGB8", "BICUBIC", "CROP", 20, 31, 40, 40, 25
    for size in LARGE:
        yield "TIMM", "RGB8", "BICUBIC", "CROP", *size, size[2] * 10 // 9
        yield "TIMM", "RGB8", "BILINEAR", "SQUASH", *size, 0
        yield "HF", "RGBA8", "BICUBIC", "CROP", *size, size[2] + 32
    yield "TIMM", "RGB8", "BICUBIC", "CROP", 8000, 6000, 224, 224, 248
    yield "TIMM", "GRAY8", "LANCZOS", "SQUASH", 8000, 6000, 64, 64, 0
    yield "TIMM", "RGB8", "BILINEAR", "SQUASH", 60000, 3, 64, 64, 0


def main():
    if int(PIL.__version__.split(".")[0]) < 13:
        sys.exit("make_pillow_vectors.py: needs Pillow 13, which resizes tall images differently than 12")
    PIL.Image.MAX_IMAGE_PIXELS = None
    print(f"/* Made by tests/ops/make_pillow_vectors.py with Pillow {PIL.__version__}, torchvision {torchvision.__version__}, torch\n"
          f"   {torch.__version__}. */")
    print("static const pillow_case pillow_cases[] = {")
    for processor, form, filter, fit, width, height, target_width, target_height, edge in cases():
        of = of_pillow if processor == "TIMM" else of_torch
        made = of(make_image(form, width, height), filter, fit, target_width, target_height, edge)
        assert made.shape == (target_height, target_width, 3) and made.dtype == numpy.uint8
        print(f"    {{RVIT_PROCESSOR_{processor}, RVIT_IMAGE_{form}, RVIT_FILTER_{filter}, RVIT_FIT_{fit}, {width}, {height}, {target_width}, "
              f"{target_height}, {edge}, 0x{zlib.crc32(made.tobytes()):08x}u}},")
    print("};")


if __name__ == "__main__":
    main()
