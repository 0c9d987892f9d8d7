#!/usr/bin/env python3
"""Writes the float64 outputs of a timm or transformers model, for `raggedvit verify MODEL --reference DUMP` with the same weights.

  dump_reference.py --timm NAME [--checkpoint FILE] --out DUMP.safetensors
  dump_reference.py --transformers DIR --out DUMP.safetensors

DUMP has float32 tensors, with outputs rounded from float64:
  images    [n, channels, height, width], normalised
  logits    [n, classes], the head's output; the embeddings of a model with a projection or with attention pooling and no head
  pooled    [n, width], the input of the head (timm)
  features  [n, tokens, width], all rows after the final norm
Its metadata has the source, the model, and for each output the largest error of PyTorch itself on the CPU in float32, float16 and bfloat16,
relative to the largest value (verify allows twice that), and the relative root mean square error. With torchao also in int8: activations
scaled per row, block weights scaled per channel, and the rest in bfloat16.

Needs torch, numpy, safetensors, and timm or transformers from PyPI.
"""
import argparse
import copy
import json
import pathlib
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from output_file import output_file  # noqa: E402

PRECISIONS = ("f32", "f16", "bf16")


def read_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True, help="the dump to write")
    model = parser.add_mutually_exclusive_group(required=True)
    model.add_argument("--timm", metavar="NAME", help="a timm model")
    model.add_argument("--transformers", metavar="DIR", type=pathlib.Path, help="a folder that transformers reads (config.json and weights)")
    parser.add_argument("--checkpoint", metavar="FILE", type=pathlib.Path, help="weights of the timm model, with config.json beside them if "
                        "there is one (default: timm's pretrained weights, which it downloads)")
    parser.add_argument("--model-args", metavar="JSON", type=json.loads, default={}, help="further arguments of timm's create_model")
    parser.add_argument("--image-size", metavar="N", type=int, help="run the model at N x N pixels (default: the model's size)")
    parser.add_argument("--images", metavar="FILE.npy", type=pathlib.Path, help="float32 [n, channels, height, width], normalised "
                        "(default: noise)")
    parser.add_argument("--n-images", metavar="N", type=int, default=4, help="number of noise images (default: 4)")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="seed of the noise (default: 0)")
    return parser.parse_args(arguments)


class TimmModel:
    def __init__(self, options):
        import timm

        self.name, self.source, kwargs = options.timm, f"timm {timm.__version__}", dict(options.model_args)
        config = options.checkpoint and options.checkpoint.parent / "config.json"
        if config and config.exists():
            text = json.loads(config.read_text())
            kwargs = {**text.get("model_args", {}), **{k: text[k] for k in ("num_classes", "global_pool") if k in text}, **kwargs}
        if options.image_size:
            kwargs["img_size"] = options.image_size
        weights = {"checkpoint_path": str(options.checkpoint)} if options.checkpoint else {"pretrained": True}
        self.model = timm.create_model(self.name, **weights, **kwargs).eval().double()
        size = getattr(self.model.patch_embed, "img_size", None) or self.model.pretrained_cfg["input_size"][1:]
        self.input_shape = (self.model.patch_embed.proj.in_channels, *size)
        self.weights = options.checkpoint

    def outputs(self, model, images):
        rows = model.forward_features(images)
        outputs = {"features": rows, "pooled": model.forward_head(rows, pre_logits=True)}
        if model.num_classes > 0:
            outputs["logits"] = model.forward_head(rows)
        elif getattr(model, "global_pool", "") == "map":
            outputs["logits"] = outputs["pooled"]
        return outputs


class TransformersModel:
    VISION_ENCODERS = {"CLIPModel": "CLIPVisionModelWithProjection", "SiglipModel": "SiglipVisionModel"}

    def __init__(self, options):
        import torch
        import transformers

        folder, self.source = options.transformers, f"transformers {transformers.__version__}"
        architecture = json.loads((folder / "config.json").read_text()).get("architectures", [None])[0]
        if not architecture:
            sys.exit(f"dump_reference.py: {folder}/config.json: architectures is missing")
        self.name = self.VISION_ENCODERS.get(architecture, architecture)
        self.model = getattr(transformers, self.name).from_pretrained(folder, dtype=torch.float64).eval()
        config = getattr(self.model.config, "vision_config", self.model.config)
        size = options.image_size or config.image_size
        self.input_shape = (config.num_channels, *(size if isinstance(size, (list, tuple)) else (size, size)))
        self.resized = {"interpolate_pos_encoding": True} if options.image_size and "dino" not in self.name.lower() else {}
        files = list(folder.glob("*.safetensors"))
        self.weights = files[0] if len(files) == 1 else None

    def outputs(self, model, images):
        out, outputs = model(images, **self.resized), {}
        for name in ("logits", "image_embeds"):
            if getattr(out, name, None) is not None:
                outputs["logits"] = getattr(out, name)
        if self.name == "SiglipVisionModel":
            outputs["logits"] = out.pooler_output
        if self.name.startswith("CLIPVision"):
            rows = (out if out.get("last_hidden_state") is not None else model.vision_model(images, **self.resized)).last_hidden_state
            encoder = getattr(model, "vision_model", model)
            outputs["features"] = encoder.post_layernorm(rows)  # transformers returns the rows before this norm
        elif not self.name.startswith("CLIP"):
            rows = out if out.get("last_hidden_state") is not None else model.base_model(images, **self.resized)
            outputs["features"] = rows.last_hidden_state
        return outputs


def read_images(options, shape):
    import numpy

    if not options.images:
        generator = numpy.random.default_rng(options.seed)
        return generator.standard_normal((options.n_images, *shape)).astype(numpy.float32)
    images = numpy.load(options.images)
    if images.dtype != numpy.float32 or images.ndim != 4 or images.shape[1:] != tuple(shape):
        sys.exit(f"dump_reference.py: {options.images}: {images.dtype} {list(images.shape)}, expected float32 [n, {shape[0]}, {shape[1]}, "
                 f"{shape[2]}]")
    return images


def run(source, model, images):
    import torch

    with torch.no_grad():
        return {name: value.double() for name, value in source.outputs(model, images).items()}


def in_int8(model):
    """Returns the model in bfloat16 with the linear layers of its blocks in int8, or None without torchao."""
    import torch

    try:
        from torchao.quantization import Int8DynamicActivationInt8WeightConfig, quantize_
    except ImportError:
        return None
    model = copy.deepcopy(model).to(torch.bfloat16)
    quantize_(model, Int8DynamicActivationInt8WeightConfig(),
              lambda module, name: isinstance(module, torch.nn.Linear) and ("blocks." in name or "layers." in name or "layer." in name))
    return model


def own_errors(source, images, truth):
    """PyTorch's errors for each output and precision: the largest relative to the largest value, and the relative root mean square."""
    import torch

    errors = {}
    types = dict(zip(PRECISIONS, (torch.float32, torch.float16, torch.bfloat16)))
    for precision in (*PRECISIONS, "int8"):
        dtype = types.get(precision, torch.bfloat16)
        model = copy.deepcopy(source.model).to(dtype) if precision in types else in_int8(source.model)
        if model is None:
            continue
        outputs = run(source, model, images.to(dtype))
        for name, value in outputs.items():
            difference = value - truth[name]
            figures = {"error": difference.abs().max() / truth[name].abs().max(), "rms": difference.norm() / truth[name].norm()}
            for figure, error in figures.items():
                if error == error and error != float("inf"):
                    errors[f"{figure}.{name}.{precision}"] = f"{error.item():.3e}"
    return errors


def checksum(path):
    crc = 0
    with open(path, "rb") as file:
        while data := file.read(1 << 24):
            crc = zlib.crc32(data, crc)
    return f"{crc:08x}"


def main(arguments=None):
    import safetensors.torch
    import torch

    options = read_arguments(arguments)
    source = TimmModel(options) if options.timm else TransformersModel(options)
    images = torch.from_numpy(read_images(options, source.input_shape))
    truth = run(source, source.model, images.double())
    metadata = {"format": "raggedvit reference 1", "source": f"{source.source}, torch {torch.__version__}", "model": source.name,
                "computed_in": "float64", **own_errors(source, images, truth)}
    if source.weights:
        metadata["weights.crc32"] = checksum(source.weights)
    tensors = {"images": images, **{name: value.float().contiguous() for name, value in truth.items()}}
    if not all(torch.isfinite(value).all() for value in tensors.values()):
        sys.exit("dump_reference.py: the model's outputs are not all finite")
    with output_file(options.out) as temporary:
        safetensors.torch.save_file({name: value.clone() for name, value in tensors.items()}, temporary, metadata)
    shapes = ", ".join(f"{name} {list(value.shape)}" for name, value in tensors.items())
    print(f"{options.out}: {source.name} of {source.source}: {shapes}")


if __name__ == "__main__":
    main()
