#!/usr/bin/env python3
"""Writes the outputs of timm's transforms and transformers' processors for small images, for tests/test_preprocess.c.

  make_preprocess_vectors.py > tests/preprocess_vectors.h

Needs torch, torchvision, timm, transformers, numpy and Pillow 13 from PyPI, and a processor with AVX2, for which PyTorch has its own 8-bit
resize. An image of w x h has the values of the generator x = 1664525 x + 1013904223 (mod 2^32) with the seed 12345, each shifted right by 24
bits. An output is given as the CRC-32 of its float32 values; if all of its computation is in float32, every 97th value is given instead.
"""
import json
import pathlib
import sys
import tempfile
import textwrap
import zlib

import numpy
import PIL
import PIL.Image
import timm
import timm.data
import torch
import torchvision
import transformers

SIZES = [(45, 31), (23, 58), (11, 9), (160, 6), (20, 90), (28, 28)]  # width, height


def image(width, height):
    values, x = numpy.empty(width * height * 3, numpy.uint8), 12345
    for i in range(values.size):
        x = (x * 1664525 + 1013904223) & 0xFFFFFFFF
        values[i] = x >> 24
    return PIL.Image.fromarray(values.reshape(height, width, 3))


def of_timm(name, height=28, width=28, **changes):
    cfg = {**timm.get_pretrained_cfg(name).to_dict(), "input_size": [3, height, width], **changes}
    kept = ("input_size", "mean", "std", "interpolation", "crop_pct", "crop_mode")
    cfg = {key: cfg[key] for key in kept if cfg.get(key) is not None}
    transform = timm.data.create_transform(**timm.data.resolve_data_config(pretrained_cfg=cfg))
    files = {"config.json": {"architecture": name.split(".")[0], "pretrained_cfg": cfg}}
    return name, files, height, width, lambda image: transform(image).numpy()


def of_transformers(name, config, model_type=None, height=28, width=28):
    files = {"preprocessor_config.json": config}
    if model_type:
        files["config.json"] = {"model_type": model_type}
    with tempfile.TemporaryDirectory() as folder:
        for file, text in files.items():
            pathlib.Path(folder, file).write_text(json.dumps(text))
        processor = transformers.AutoImageProcessor.from_pretrained(folder)
    return name, files, height, width, lambda image: processor(image, return_tensors="np")["pixel_values"][0]


def cases():
    yield of_timm("vit_base_patch16_224.augreg_in21k")
    yield of_timm("deit3_small_patch16_384.fb_in1k")
    yield of_timm("vit_base_patch16_clip_224.openai")
    yield of_timm("vit_large_patch14_clip_336.openai")
    yield of_timm("vit_base_patch16_siglip_224.webli")
    yield of_timm("vit_small_patch14_dinov2.lvd142m")
    yield of_timm("eva02_base_patch14_448.mim_in22k_ft_in1k")
    yield of_timm("deit_tiny_patch16_224.fb_in1k", crop_pct=0.8, interpolation="bilinear")
    yield of_timm("deit_tiny_patch16_224.fb_in1k", crop_pct=0.875, crop_mode="squash")
    yield of_timm("deit_tiny_patch16_224.fb_in1k", crop_pct=None, crop_mode="border")
    yield of_timm("deit_tiny_patch16_224.fb_in1k", 24, 40)
    yield of_timm("deit_tiny_patch16_224.fb_in1k", 40, 24, crop_mode="border", crop_pct=1.0)
    yield of_timm("deit_tiny_patch16_224.fb_in1k", 17, 40, crop_mode="squash", crop_pct=0.95, interpolation="bilinear")
    clip = {"size": {"shortest_edge": 28}, "crop_size": {"height": 28, "width": 28}}
    yield of_transformers("CLIP", {"image_processor_type": "CLIPImageProcessor", **clip})
    yield of_transformers("CLIP, old", {"feature_extractor_type": "CLIPFeatureExtractor", "size": 28, "crop_size": 28})
    yield of_transformers("CLIP, unnamed", {"size": 28, "crop_size": 28, "resample": 3}, "clip")
    yield of_transformers("CLIP, beyond the edges", {"image_processor_type": "CLIPImageProcessorFast", **clip, "size": {"shortest_edge": 19}})
    yield of_transformers("CLIP, not square", {"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 33},
                                               "crop_size": {"height": 20, "width": 35}}, height=20, width=35)
    yield of_transformers("DINOv2", {"image_processor_type": "BitImageProcessor", **clip, "size": {"shortest_edge": 32},
                                     "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})
    yield of_transformers("SigLIP", {"image_processor_type": "SiglipImageProcessor", "size": {"height": 28, "width": 28}})
    yield of_transformers("SigLIP2", {"image_processor_type": "SiglipImageProcessor", "size": {"height": 20, "width": 36}, "resample": 2},
                          height=20, width=36)
    yield of_transformers("ViT", {"image_processor_type": "ViTImageProcessor", "size": {"height": 28, "width": 28}})
    yield of_transformers("ViT, unnamed", {"size": 28, "do_resize": True}, "vit")
    yield of_transformers("DeiT", {"feature_extractor_type": "DeiTFeatureExtractor", "size": 32, "crop_size": 28,
                                   "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]})
    yield of_transformers("not normalised", {"image_processor_type": "ViTImageProcessor", "size": 28, "do_normalize": False})
    yield of_transformers("DINOv3", {"image_processor_type": "DINOv3ViTImageProcessorFast", "size": {"height": 28, "width": 28}})


def quoted(value):
    """Returns a C string in pieces that fit a line."""
    if value is None:
        return "NULL"
    return "\n     ".join(json.dumps(value[i:i + 80]) for i in range(0, len(value), 80))


def number(value):
    text = f"{float(value):.9g}"
    return (text if "." in text else text + ".0") + "f"


def main():
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX"):
        sys.exit("make_preprocess_vectors.py: needs AVX2, because PyTorch's 8-bit resize does")
    torch_version, torchvision_version = (library.__version__.split("+")[0] for library in (torch, torchvision))
    print(f"""/* Made by tests/make_preprocess_vectors.py with Pillow {PIL.__version__}, torchvision {torchvision_version}, torch
   {torch_version}, timm {timm.__version__} and transformers {transformers.__version__}. */
/* clang-format off */
#define N_IMAGES {len(SIZES)}
static const int32_t image_sizes[N_IMAGES][2] = {{{", ".join(f"{{{w}, {h}}}" for w, h in SIZES)}}};
static const struct vector {{
    const char *name, *config, *preprocessor;
    int32_t height, width;
    uint32_t crc[N_IMAGES];
    int32_t n_values; /* 0: crc is that of all values */
    float values[N_IMAGES][25];
}} vectors[] = {{""")
    for name, files, height, width, prepare in cases():
        outputs = [numpy.ascontiguousarray(prepare(image(*size)), dtype="<f4") for size in SIZES]
        assert all(output.shape == (3, height, width) for output in outputs), name
        config, preprocessor = (json.dumps(files[file]) if file in files else None for file in ("config.json", "preprocessor_config.json"))
        print(f"    {{{quoted(name)},\n     {quoted(config)},\n     {quoted(preprocessor)},\n     {height}, {width},")
        if name == "DINOv3":
            rows = ("{" + textwrap.fill(", ".join(map(number, output.reshape(-1)[::97])), 125, subsequent_indent="       ") + "}"
                    for output in outputs)
            print("     {0}, %d,\n     {%s}}," % (len(outputs[0].reshape(-1)[::97]), ",\n      ".join(rows)))
        else:
            print("     {%s},\n     0, {{0}}}," % ", ".join(f"0x{zlib.crc32(output.tobytes()):08x}" for output in outputs))
    print("};\n/* clang-format on */")


if __name__ == "__main__":
    main()
