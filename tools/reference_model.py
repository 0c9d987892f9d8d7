"""What a model of timm or transformers computes, in float64, for `raggedvit verify MODEL --reference DUMP`. Used by dump_reference.py.

A dump is a .safetensors file of float32 tensors, the outputs rounded from float64:
  images    [n, channels, height, width], normalised
  logits    [n, classes], what the head gives; of attention pooling without a head, and of a projection, the vectors
  pooled    [n, width], what the head reads (timm)
  features  [n, tokens, width], all rows after the final norm
Its metadata tells the source, the model, and for each output the largest error of PyTorch itself in float32, float16 and bfloat16 on the
CPU, relative to the largest value: verify allows twice that. The same in the root mean square, relative to that of the values. Where
torchao is installed, of int8, too: rows of activations by channels of the blocks' weights, the rest bfloat16.
"""
import copy
import json
import pathlib
import sys
import zlib

from output_file import output_file

PRECISIONS = ("f32", "f16", "bf16")


def add_arguments(parser):
    group = parser.add_argument_group("a model of one's own, for raggedvit verify --reference")
    group.add_argument("--timm", metavar="NAME", help="a timm model; --out is the dump's file")
    group.add_argument("--transformers", metavar="DIR", type=pathlib.Path, help="a folder that transformers reads (config.json and weights)")
    group.add_argument("--checkpoint", metavar="FILE", type=pathlib.Path, help="its weights, with the config.json beside them, if any "
                       "(timm's pretrained ones, which it downloads)")
    group.add_argument("--model-args", metavar="JSON", type=json.loads, default={}, help="further arguments of timm's create_model")
    group.add_argument("--image-size", metavar="N", type=int, help="run the model at N x N pixels (its own)")
    group.add_argument("--images", metavar="FILE.npy", type=pathlib.Path, help="float32 [n, channels, height, width], normalised (noise)")
    group.add_argument("--n-images", metavar="N", type=int, default=4, help="images of noise (4)")
    group.add_argument("--seed", metavar="N", type=int, default=0, help="of the noise (0)")


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
    TOWERS = {"CLIPModel": "CLIPVisionModelWithProjection", "SiglipModel": "SiglipVisionModel"}

    def __init__(self, options):
        import torch
        import transformers

        folder, self.source = options.transformers, f"transformers {transformers.__version__}"
        architecture = json.loads((folder / "config.json").read_text()).get("architectures", [None])[0]
        if not architecture:
            sys.exit(f"dump_reference.py: {folder}/config.json: architectures is missing")
        self.name = self.TOWERS.get(architecture, architecture)
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
            tower = getattr(model, "vision_model", model)
            outputs["features"] = tower.post_layernorm(rows)  # it gives them before its norm
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
    """The model in bfloat16 with the linears of its blocks in int8; None without torchao."""
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
    """Of PyTorch, for each output and precision: the largest difference relative to the largest value, and the root mean squares."""
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


def write(options):
    import safetensors.torch
    import torch

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
