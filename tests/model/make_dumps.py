#!/usr/bin/env python3
"""Computes float64 reference outputs of the Vision Transformers of timm, Hugging Face and torchvision, for reproducible weights and images.
Needs torch, torchvision, timm, transformers, safetensors and numpy from PyPI.

  make_dumps.py --out FILE
      Writes a line of JSON for each small model: the library's tensor names, their shapes, how each tensor is filled, the outputs, and the
      errors of the library itself in float16 and bfloat16. Lines of other models stay. This made tests/model/dumps.jsonl, which test_dumps
      reads.
  make_dumps.py --errors FILE
      Measures the float16 and bfloat16 errors again, and updates the dumps in FILE.
  make_dumps.py --full PROGRAM [--only TEXT] [--keep DIR]
      Writes checkpoints of full-size models with safetensors and transformers, and runs PROGRAM (test_dumps) on each; it prints the
      largest differences. Takes some minutes and 6 GB of memory. The files are temporary unless --keep names a folder.

Values: noise(stream, i) = ((mix(stream * 2^32 + i) >> 53) - 1024) / 1024, where mix is the finaliser of splitmix64. The k-th tensor of a
model is offset + 2^-shift * noise(k, i), in float32, rounded to the file's type. Image n is 2 * noise(2^20 + n, i). A variable-resolution
image is filled patch by patch, each in the order (y, x, channel); a Qwen image in the order of pixel_values.
"""
import argparse
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import reference_pruned
    import reference_pruned_qwen
    import reference_qwen
    import safetensors.torch
    import timm
    import torch
    import torchvision
    import transformers
    from timm.models.vision_transformer import checkpoint_filter_fn
except ImportError as error:
    sys.exit(f"make_dumps.py: {error}; it needs torch, torchvision, timm, transformers, safetensors and numpy from PyPI")

OWN, BICUBIC, BILINEAR = 0, 1, 2  # rvit_resample; OWN: the model's own method
IMAGE_STREAM = 1 << 20
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
NARROW = {"f16": torch.float16, "bf16": torch.bfloat16}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="write the small dumps to this file")
    parser.add_argument("--errors", type=pathlib.Path, metavar="FILE", help="measure the 16-bit errors of the small dumps there")
    parser.add_argument("--full", metavar="PROGRAM", help="make large models and run test_dumps over them")
    parser.add_argument("--only", default="", help="only models with this text in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the large files in this folder")
    options = parser.parse_args()
    if not (options.out or options.full or options.errors):
        parser.error("nothing to do: --out, --errors or --full")
    return options


def noise(stream, n):
    x = numpy.arange(n, dtype=numpy.uint64) + numpy.uint64(stream << 32)
    with numpy.errstate(over="ignore"):
        x += numpy.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        x ^= x >> numpy.uint64(31)
    return ((x >> numpy.uint64(53)).astype(numpy.float32) - 1024) / 1024


def filling(name, shape):
    """offset and shift of a tensor, chosen to keep activations near 1 and to make the logits of images differ."""
    if "gamma" in name or "lambda1" in name:
        return 0.5, 1
    if ("norm" in name or "ln_" in name or ".ln." in name) and name.endswith("weight"):
        return 1.0, 2
    if len(shape) == 1:
        return 0.0, 3
    if "token" in name or "pos" in name or "latent" in name or "probe" in name:
        return 0.0, 1
    fan_in = math.prod(shape[1:])
    last = ("head" in name or "classifier" in name) and "head.attention" not in name and "head.mlp" not in name
    return 0.0, max(0, round(math.log2(fan_in / 3) / 2) - last)


def fill(shapes, dtype):
    """Returns the tensors by name, and a list of how each was filled."""
    tensors, described = {}, []
    for index, (name, shape) in enumerate(shapes.items()):
        offset, shift = filling(name, shape)
        values = numpy.float32(offset) + numpy.float32(2.0**-shift) * noise(index, math.prod(shape))
        tensors[name] = torch.from_numpy(values).reshape(shape).to(TYPES[dtype])
        described.append([name, list(shape), offset, shift])
    return tensors, described


def images_of(n, size, channels=3):
    """size: the edge of a square image, or (height, width)."""
    height, width = size if isinstance(size, (tuple, list)) else (size, size)
    values = [2 * noise(IMAGE_STREAM + i, channels * height * width) for i in range(n)]
    return torch.from_numpy(numpy.stack(values)).reshape(n, channels, height, width).double()


def patches_of(grids, patch_size, channels=3):
    """The patches of each image, [lines * columns, patch_size^2 * channels]; each patch in the order (y, x, channel)."""
    width = patch_size * patch_size * channels
    return [torch.from_numpy(2 * noise(IMAGE_STREAM + i, h * w * width)).reshape(h * w, width).double() for i, (h, w) in enumerate(grids)]


def pixels_of(i, size):
    """The 8-bit pixels of image i, [height, width, 3]."""
    values = numpy.floor((noise(IMAGE_STREAM + 1000 + i, 3 * size[0] * size[1]) + 1) * 128)
    return values.astype(numpy.uint8).reshape(*size, 3)


def image_of(patches, grid, patch_size):
    """Assembles patches to an image [1, channels, height, width]."""
    cut = patches.reshape(*grid, patch_size, patch_size, -1)
    return cut.permute(4, 0, 2, 1, 3).reshape(1, -1, grid[0] * patch_size, grid[1] * patch_size)


def padded(patches, grids):
    """The patches of several images, padded to one tensor, and the mask of the valid ones."""
    longest = max(len(p) for p in patches)
    rows = torch.stack([torch.nn.functional.pad(p, (0, 0, 0, longest - len(p))) for p in patches])
    return rows, torch.tensor([[j < h * w for j in range(longest)] for h, w in grids])


class Dump:
    """A model to dump. Subclasses set shapes (tensor name -> shape, as in a checkpoint) and trained_size, and define run(model, images) and
    build(tensors, images), which returns the float64 model."""

    features = False
    config = None
    preprocessor = None  # the content of preprocessor_config.json
    grids = ()  # with variable resolution: (lines, columns) of each image
    prunes = ()  # prune settings as in rvit_prune_desc: policy, blocks, keep, merges

    def __init__(self, name, source, n_images=2, dtype="F32", run_at=0, resample=OWN):
        self.name, self.source, self.n_images, self.dtype = name, source, n_images, dtype
        self.run_at, self.resample = run_at, resample

    def with_grids(self, *grids, prunes=(), preprocessor=None):
        self.grids, self.prunes, self.n_images, self.preprocessor = grids, prunes, len(grids), preprocessor
        return self

    def run_grids(self, tensors, dtype):
        """Runs each image in a batch of its own."""
        rows = []
        for patches, grid in zip(patches_of(self.grids, self.patch_size), self.grids):
            image = image_of(patches, grid, self.patch_size)
            rows.append(self.run(self.build(tensors, image).to(dtype), image.to(dtype)))
        return torch.cat(rows)

    def evaluate(self, tensors):
        """The float64 outputs, and the largest errors of the same model in each 16-bit type."""
        if self.grids:
            tensors = {key: value.double() for key, value in tensors.items()}
            with torch.no_grad():
                outputs = self.run_grids(tensors, torch.float64)
                return outputs, {name: float(f"{(self.run_grids(tensors, dtype).double() - outputs).abs().max():.3g}")
                                 for name, dtype in NARROW.items()}
        images = images_of(self.n_images, self.run_at or self.trained_size)
        with torch.no_grad():
            model = self.build({k: v.double() for k, v in tensors.items()}, images)
            outputs = self.run(model, images)
            errors = {}
            for name, dtype in NARROW.items():
                got = self.run(copy.deepcopy(model).to(dtype), images.to(dtype))
                errors[name] = float(f"{(got.double() - outputs).abs().max():.3g}")
        return outputs, errors

    def describe(self, tensors):
        outputs, errors = self.evaluate(tensors)
        text = {"name": self.name, "made_with": self.source, "dtype": self.dtype, "image_size": self.run_at,
                "resample": self.resample, "n_images": self.n_images, "features": int(self.features)}
        text["config"] = self.config
        if self.preprocessor:
            text["preprocessor"] = self.preprocessor
        text["torch_errors"] = errors
        if self.grids:
            text["grids"] = self.grids
        if self.prunes:
            with torch.no_grad():
                text["pruned"] = [{**prune, **self.run_pruned(tensors, prune)} for prune in self.prunes]
        text["outputs"] = outputs.double().tolist()
        return text

    def save(self, tensors, folder):
        """Writes the checkpoint and returns its path."""
        path = folder / f"{self.name}.safetensors"
        safetensors.torch.save_file(tensors, path, {"format": "pt", "config": json.dumps(self.config)})
        return path


def resampled(table, n_prefix, size, mode):
    """Resamples a position table [1, n_prefix + n, dim] to a grid of size x size."""
    old = math.isqrt(table.shape[1] - n_prefix)
    grid = table[:, n_prefix:].reshape(1, old, old, -1).permute(0, 3, 1, 2)
    grid = torch.nn.functional.interpolate(grid, size=(size, size), mode=mode, align_corners=False)
    return torch.cat([table[:, :n_prefix], grid.flatten(2).transpose(1, 2)], 1)


class Timm(Dump):
    """arch: timm's name of the architecture. rename: pairs (timm's name, name in the file). extra: shapes that the file adds or replaces.
    """

    def __init__(self, name, arch, rename=(), extra=None, n_images=2, dtype="F32", run_at=0, resample=OWN, **kwargs):
        super().__init__(name, f"timm {timm.__version__}, torch {torch.__version__}", n_images, dtype, run_at, resample)
        self.arch, self.rename, self.kwargs = arch, rename, kwargs
        model = self.create()
        self.patch_size, size = model.patch_embed.patch_size[0], model.patch_embed.img_size
        self.trained_size = size[0] if size[0] == size[1] else tuple(size)
        self.features = model.num_classes == 0 and model.global_pool != "map"
        self.config = {"architecture": arch, "num_classes": model.num_classes, "model_args": kwargs}
        self.shapes = {}
        for key, value in model.state_dict().items():
            for ours, theirs in rename:
                key = key.replace(ours, theirs)
            self.shapes[key] = tuple(value.shape)
        self.shapes.update(extra or {})

    def create(self, **more):
        return timm.create_model(self.arch, **{**self.kwargs, **more}).eval()

    def build(self, tensors, images):
        model = self.create(img_size=tuple(images.shape[-2:])).double()
        if "register_tokens" not in tensors:  # timm's own filter renames DINOv2's tensors
            for ours, theirs in self.rename:
                tensors = {key.replace(theirs, ours): value for key, value in tensors.items()}
        if self.resample != OWN:
            size = images.shape[-1] // model.patch_embed.patch_size[0]
            mode = "bilinear" if self.resample == BILINEAR else "bicubic"
            tensors["pos_embed"] = resampled(tensors["pos_embed"], model.num_prefix_tokens, size, mode)
        model.load_state_dict(checkpoint_filter_fn(tensors, model))
        return model

    def run(self, model, images):
        return model.forward_features(images)[:, 0] if self.features else model(images)


class TimmNaFlex(Timm):
    """timm's NaFlexViT, which runs all images in one padded batch."""

    def __init__(self, name, arch, **kwargs):
        Dump.__init__(self, name, f"timm {timm.__version__}, torch {torch.__version__}")
        self.arch, self.kwargs = arch, kwargs
        model = self.create()
        self.patch_size = model.embeds.patch_size[0]
        self.config = {"architecture": arch, "num_classes": model.num_classes, "model_args": kwargs}
        self.shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}

    def run_grids(self, tensors, dtype):
        model = self.create().double()
        model.load_state_dict(tensors)
        rows, valid = padded(patches_of(self.grids, self.patch_size), self.grids)
        coords = torch.zeros((*valid.shape, 2), dtype=torch.int64)
        for i, (height, width) in enumerate(self.grids):
            coords[i, : height * width] = torch.tensor([(y, x) for y in range(height) for x in range(width)])
        return model.to(dtype)({"patches": rows.to(dtype), "patch_coord": coords, "patch_valid": valid})


CONFIGS = ("Siglip2Vision", "Siglip2", "ViT", "DeiT", "Dinov2WithRegisters", "Dinov2", "DINOv3ViT", "CLIPVision", "CLIP", "SiglipVision", "Siglip", "Aimv2Vision",
           "Aimv2")
JOINT = ("CLIPModel", "SiglipModel", "Siglip2Model", "Aimv2Model")  # image and text
POOLED = ("SiglipVisionModel", "Siglip2VisionModel", "Aimv2VisionModel")  # return a pooled vector if they have a head


class HuggingFace(Dump):
    """kind: a class of transformers. shard_size: the largest file; saves shards with an index. memory: use the tensor names of the
    state_dict, not of files. kwargs go to the config."""

    def __init__(self, name, kind, n_images=2, dtype="F32", run_at=0, shard_size=None, memory=False, **kwargs):
        super().__init__(name, f"transformers {transformers.__version__}, torch {torch.__version__}", n_images, dtype, run_at, OWN)
        config = next(getattr(transformers, f"{name}Config") for name in CONFIGS if kind.startswith(name))
        self.kind, self.shard_size, self.memory = getattr(transformers, kind), shard_size, memory
        self.model_config = config(**kwargs)
        vision = getattr(self.model_config, "vision_config", self.model_config)
        self.trained_size, self.patch_size = getattr(vision, "image_size", None), vision.patch_size
        self.pooled = kind in POOLED and getattr(vision, "vision_use_head", True) and getattr(vision, "use_head", True)
        self.features = kind.endswith("Model") and not self.pooled and kind not in JOINT
        with tempfile.TemporaryDirectory() as folder:
            self.kind(self.model_config).save_pretrained(folder)
            with safetensors.safe_open(f"{folder}/model.safetensors", "pt") as file:
                self.shapes = {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}
            config = json.loads(pathlib.Path(folder, "config.json").read_text())
        if memory:
            self.shapes = {key: tuple(value.shape) for key, value in self.kind(self.model_config).state_dict().items()}
        ignored = ("id2label", "label2id", "transformers_version", "dtype", "initializer_range", "text_config")
        self.config = {key: value for key, value in config.items() if key not in ignored}

    def load(self, tensors):
        """Loads with from_pretrained, which maps the tensor names of files to those in memory."""
        if self.memory:
            model = self.kind(self.model_config).to(next(iter(tensors.values())).dtype).eval()
            model.load_state_dict(tensors)
            return model
        with tempfile.TemporaryDirectory() as folder:
            self.model_config.save_pretrained(folder)
            safetensors.torch.save_file(tensors, f"{folder}/model.safetensors", {"format": "pt"})
            return self.kind.from_pretrained(folder, dtype=next(iter(tensors.values())).dtype).eval()

    def build(self, tensors, images):
        model = self.load(tensors)
        assert all(p.dtype == torch.float64 for p in model.parameters())
        return model

    def run(self, model, images):
        # DINOv2 always interpolates, AIMv2 never does.
        kind = self.kind.__name__
        choice = {} if "dino" in kind.lower() or "Aimv2" in kind else {"interpolate_pos_encoding": bool(self.run_at or self.grids)}
        if kind in JOINT:
            return model.get_image_features(images, **choice).pooler_output
        out = model(images, **choice)
        if self.pooled:
            return out.pooler_output
        if "CLIPVision" in self.kind.__name__:
            return out.pooler_output if self.features else out.image_embeds
        return out.last_hidden_state[:, 0] if self.features else out.logits

    def save(self, tensors, folder):
        folder = folder / self.name
        self.load(tensors).save_pretrained(folder, **({"max_shard_size": self.shard_size} if self.shard_size else {}))
        index = folder / "model.safetensors.index.json"
        assert index.exists() == bool(self.shard_size)
        return index if self.shard_size else folder / "model.safetensors"


class HuggingFaceNaFlex(HuggingFace):
    """SigLIP2 NaFlex, which runs all images in one padded batch."""

    def run_grids(self, tensors, dtype):
        rows, valid = padded(patches_of(self.grids, self.patch_size), self.grids)
        inputs = {"pixel_values": rows.to(dtype), "pixel_attention_mask": valid.int(), "spatial_shapes": torch.tensor(self.grids)}
        model = self.load(tensors).to(dtype)
        if self.kind.__name__ in JOINT:
            return model.get_image_features(**inputs).pooler_output
        out = model(**inputs)
        return out.pooler_output if self.pooled else out.logits

    def run_pruned(self, tensors, prune):
        model = self.load({key: value.double() for key, value in tensors.items()})
        images = zip(patches_of(self.grids, self.patch_size), self.grids)
        rows, left = zip(*(reference_pruned.siglip2(model, patches, grid, prune) for patches, grid in images))
        return {"left": left, "outputs": rows}


class HuggingFaceQwen(Dump):
    """A vision encoder of Qwen. kind: its class in transformers. prefix: of its tensors in a file; such a file also has tensors of the
    language model and the config of a published file. rows: also dump every third row of the last block. sizes: (height, width) of 8-bit
    images, dumped with their outputs."""

    def __init__(self, name, kind, prefix="", dtype="F32", rows=False, sizes=(), **kwargs):
        super().__init__(name, f"transformers {transformers.__version__}, torch {torch.__version__}", dtype=dtype)
        import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl as old, transformers.models.qwen3_vl.modeling_qwen3_vl as new
        self.kind = getattr(old if hasattr(old, kind) else new, kind)
        self.prefix, self.rows, self.sizes = prefix, rows, sizes
        self.model_config = self.kind.config_class(**kwargs)
        self.patch_size = kwargs["patch_size"]
        self.shapes = {prefix + key: tuple(value.shape) for key, value in self.kind(self.model_config).state_dict().items()}
        model_type = self.model_config.model_type.removesuffix("_vision")
        self.config = {"model_type": model_type, "vision_config": {"model_type": model_type, "in_chans": 3, **kwargs}}
        if not prefix:
            ignored = ("transformers_version", "dtype", "initializer_range")
            self.config = {key: value for key, value in json.loads(self.model_config.to_json_string()).items() if key not in ignored}
        elif prefix == "visual.":
            self.shapes.update({"model.embed_tokens.weight": (3, 4), "lm_head.weight": (3, 4)})
        else:
            self.shapes.update({"model.language_model.embed_tokens.weight": (3, 4), "lm_head.weight": (3, 4)})

    def load(self, tensors):
        model = self.kind(self.model_config).to(next(iter(tensors.values())).dtype).eval()
        model.load_state_dict({key[len(self.prefix):]: value for key, value in tensors.items()
                               if key.startswith(self.prefix) and key[len(self.prefix):] in model.state_dict()})
        return model

    def run_encoder(self, tensors, dtype):
        model = self.load(tensors)
        patches = torch.cat(patches_of(self.grids, self.patch_size, 3 * self.model_config.temporal_patch_size))
        return reference_qwen.run(model.to(dtype), patches.to(dtype), self.grids)

    def run_grids(self, tensors, dtype):
        return self.run_encoder(tensors, dtype)[0]

    def effect_of(self, mistake, model, prune, merged):
        """The largest difference that a mistake causes, or None if it changes the number of rows."""
        images = zip(patches_of(self.grids, self.patch_size, 3 * self.model_config.temporal_patch_size), self.grids)
        wrong = [reference_pruned_qwen.encoder(model, patches, grid, prune, mistake)[0] for patches, grid in images]
        if any(len(a) != len(b) for a, b in zip(wrong, merged)):
            return None
        return round(float((torch.cat(wrong) - torch.cat(merged)).abs().max()), 4)

    def run_pruned(self, tensors, prune):
        model = self.load({key: value.double() for key, value in tensors.items()})
        images = zip(patches_of(self.grids, self.patch_size, 3 * self.model_config.temporal_patch_size), self.grids)
        merged, deepstack, kept, sizes = zip(*(reference_pruned_qwen.encoder(model, patches, grid, prune) for patches, grid in images))
        group_size = self.model_config.spatial_merge_size**2
        found = {"left": [group_size * len(groups) for groups in kept], "kept": kept, "sizes": sizes, "outputs": torch.cat(merged).tolist()}
        if prune["policy"] != "tome":
            found.pop("sizes")
        else:
            found["mistakes"] = {mistake: self.effect_of(mistake, model, prune, merged) for mistake in reference_pruned_qwen.MISTAKES
                                 if mistake != "windows" or hasattr(self.model_config, "window_size")}
        if deepstack[0]:
            found["deepstack"] = [[[round(value, 7) for value in row] for row in torch.cat(one).tolist()] for one in zip(*deepstack)]
        return found

    def describe(self, tensors):
        text = super().describe(tensors)
        with torch.no_grad():
            _, deepstack, rows = self.run_encoder({key: value.double() for key, value in tensors.items()}, torch.float64)
        outputs = text.pop("outputs")
        text["merged"] = 1
        if deepstack:
            text["deepstack"] = [[[round(value, 7) for value in row] for row in one.tolist()] for one in deepstack]
        if self.sizes:
            colours = {"mean": [0.4814, 0.4578, 0.4082], "std": [0.2686, 0.2613, 0.2757]}
            images = [pixels_of(i, size) for i, size in enumerate(self.sizes)]
            values, grids, processor = reference_qwen.prepare(images, self.patch_size, **colours, least=256, most=2048)
            with torch.no_grad():
                merged = reference_qwen.run(self.load({key: value.double() for key, value in tensors.items()}), values.double(), grids)[0]
            text["images"] = {"sizes": self.sizes, "grids": grids, "processor": processor, "outputs": merged.tolist()}
        if self.rows:
            text["rows"] = [[round(value, 7) for value in row] for row in rows.tolist()[::3]]
        text["outputs"] = outputs
        return text


class OpenClip(Timm):
    """An encoder with open_clip's tensor names, which timm's own filter reads."""

    def __init__(self, name, arch, **kwargs):
        super().__init__(name, arch, **kwargs)
        self.timm_shapes, self.shapes = self.shapes, {}
        swaps = [("patch_embed.proj.", "conv1."), ("pos_embed", "positional_embedding"), ("blocks.", "transformer.resblocks."),
                 ("norm_pre", "ln_pre"), ("norm1", "ln_1"), ("norm2", "ln_2"), ("attn.qkv.", "attn.in_proj_"),
                 ("attn.proj", "attn.out_proj"), ("mlp.fc1", "mlp.c_fc"), ("mlp.fc2", "mlp.c_proj"), ("cls_token", "class_embedding"),
                 ("head.weight", "proj")]
        for key, shape in self.timm_shapes.items():
            key = "ln_post" + key[4:] if key.startswith("norm.") else key
            for ours, theirs in swaps:
                key = key.replace(ours, theirs)
            if key != "head.bias":
                flat = {"class_embedding": shape[-1:], "positional_embedding": shape[1:], "proj": shape[::-1]}
                self.shapes["visual." + key] = flat.get(key, shape)
        model = self.create()
        width, heads = model.embed_dim, model.blocks[0].attn.num_heads
        vision = {"layers": len(model.blocks), "width": width, "head_width": width // heads, "mlp_ratio": 4.0,
                  "patch_size": model.patch_embed.patch_size[0], "image_size": self.trained_size}
        self.config = {"model_cfg": {"embed_dim": model.num_classes, "quick_gelu": "quickgelu" in arch, "vision_cfg": vision}}


class OpenClipTrunk(Timm):
    """An encoder of timm in an open_clip checkpoint."""

    def __init__(self, name, arch, **kwargs):
        super().__init__(name, arch, **kwargs)
        self.shapes = {"visual.trunk." + key: shape for key, shape in self.shapes.items()}
        # Tensors of the text model in an open_clip file.
        self.shapes.update({"text.token_embedding.weight": (3, 4), "logit_scale": ()})
        vision = {"timm_model_name": arch, "timm_model_pretrained": False, "timm_pool": "map", "timm_proj": "none",
                  "image_size": self.trained_size}
        self.config = {"model_cfg": {"embed_dim": 64, "vision_cfg": vision}}

    def build(self, tensors, images):
        prefix = "visual.trunk."
        return super().build({key[len(prefix):]: value for key, value in tensors.items() if key.startswith(prefix)}, images)


class Torchvision(Dump):
    """torchvision's VisionTransformer. Its files have no config."""

    def __init__(self, name, **kwargs):
        super().__init__(name, f"torchvision {torchvision.__version__}, torch {torch.__version__}")
        self.kwargs, self.trained_size = kwargs, kwargs["image_size"]
        self.config = {"architecture": "vit", "model_args": {"num_heads": kwargs["num_heads"]}}
        self.shapes = {key: tuple(value.shape) for key, value in self.create().state_dict().items()}

    def create(self):
        return torchvision.models.VisionTransformer(**self.kwargs).eval()

    def build(self, tensors, images):
        model = self.create().double()
        model.load_state_dict(tensors)
        return model

    def run(self, model, images):
        return model(images)


DEIT3 = [("ls1.gamma", "gamma_1"), ("ls2.gamma", "gamma_2")]
DINOV2 = [("reg_token", "register_tokens")]
DINOV2_GATED = [*DINOV2, ("mlp.fc1", "mlp.w12"), ("mlp.fc2", "mlp.w3")]


def small_models():
    small = {"embed_dim": 64, "depth": 2, "num_heads": 1, "num_classes": 10}
    larger = {"embed_dim": 128, "depth": 3, "num_heads": 2}
    hf = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 256, "image_size": 48,
          "patch_size": 16, "num_labels": 10}
    clip = {key: value for key, value in hf.items() if key != "num_labels"}
    dinov2 = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "mlp_ratio": 2, "image_size": 56, "patch_size": 14}
    dinov2_128, dinov2_64 = ({"pos_embed": (1, 1 + 16, dim), "mask_token": (1, dim)} for dim in (128, 64))
    dinov3 = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128, "image_size": 64,
              "patch_size": 16}
    rotary = {**small, "num_heads": 2, "img_size": 64}
    clip_64 = {**clip, "hidden_size": 64, "intermediate_size": 128}
    text = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "vocab_size": 7,
            "max_position_embeddings": 3}
    aimv2 = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 86, "image_size": 56,
             "patch_size": 14}
    naflex = {**clip_64, "patch_size": 4, "num_patches": 25}
    naflex.pop("image_size")
    naflex_small = {"patch_size": 4, "pos_embed_grid_size": [5, 5], **small, "num_heads": 2}
    qwen = {"patch_size": 4, "hidden_size": 32, "num_heads": 2, "depth": 3, "out_hidden_size": 12}
    qwen2_5 = {**qwen, "intermediate_size": 44, "window_size": 16, "fullatt_block_indexes": [1]}
    qwen3 = {**qwen, "intermediate_size": 44, "num_position_embeddings": 25, "deepstack_visual_indexes": [0, 1]}
    encoder2_5, encoder3 = "Qwen2_5_VisionTransformerPretrainedModel", "Qwen3VLVisionModel"
    sizes = ((30, 50), (7, 40), (90, 61))
    mixed = ((4, 6), (2, 2), (10, 6), (2, 14))
    by_groups = ({"policy": "l2", "blocks": [0], "keep": 0.6}, {"policy": "l2", "blocks": [0, 1], "keep": 0.7},
                 {"policy": "received", "blocks": [1], "keep": 0.5},
                 {"policy": "tome", "blocks": [0, 1], "merges": 2}, {"policy": "tome", "blocks": [0, 1, 2], "merges": 9},
                 {"policy": "pixelprune", "blocks": [], "tau": 0.0, "std": 0.5, "tile": [2, 2], "step": 0.0},
                 {"policy": "pixelprune", "blocks": [], "tau": 0.005, "std": 0.5, "tile": [2, 3], "step": 2**-7})
    prunes = ({"policy": "l2", "blocks": [0], "keep": 0.6}, {"policy": "received", "blocks": [1], "keep": 0.5},
              {"policy": "tome", "blocks": [0, 1], "merges": 3},
              {"policy": "pixelprune", "blocks": [], "tau": 0.0, "std": 0.5, "tile": [2, 3], "step": 0.0},
              {"policy": "pixelprune", "blocks": [], "tau": 0.005, "std": 0.5, "tile": [2, 3], "step": 2**-7})
    return [
        HuggingFaceNaFlex("naflex_siglip2", "Siglip2VisionModel", **naflex).with_grids(
            (2, 7), (5, 5), (8, 3), (1, 1), (6, 9), prunes=prunes, preprocessor={"image_mean": [0.5] * 3, "image_std": [0.5] * 3}),
        HuggingFaceNaFlex("naflex_siglip2_joint", "Siglip2Model", text_config={**text, "projection_size": 64}, vision_config=naflex
                          ).with_grids((3, 4), (7, 6)),
        HuggingFaceNaFlex("naflex_siglip2_classifier", "Siglip2ForImageClassification", vision_config=naflex, num_labels=10
                          ).with_grids((3, 4), (7, 6)),
        TimmNaFlex("naflex_timm_siglip", "naflexvit_base_patch16_siglip", **{**naflex_small, "num_classes": 0}).with_grids((2, 7), (5, 5), (8, 3)),
        TimmNaFlex("naflex_timm_gap", "naflexvit_base_patch16_gap", reg_tokens=3, **naflex_small).with_grids((2, 7), (5, 5), (8, 3)),
        HuggingFaceQwen("qwen2_5_vl", encoder2_5, prefix="visual.", rows=True, sizes=sizes, **qwen2_5).with_grids(*mixed, prunes=by_groups),
        HuggingFaceQwen("qwen2_5_vl_bare", encoder2_5, dtype="BF16", **{**qwen2_5, "window_size": 24}).with_grids((14, 4), (2, 6)),
        HuggingFaceQwen("qwen2_5_vl_heads_80", encoder2_5, prefix="model.visual.", **{**qwen2_5, "num_heads": 1, "hidden_size": 80, "depth": 2,
                        "fullatt_block_indexes": [0]}).with_grids((6, 4), (2, 4)),
        HuggingFaceQwen("qwen3_vl", encoder3, prefix="model.visual.", rows=True, sizes=sizes, **qwen3).with_grids(*mixed, prunes=by_groups),
        HuggingFaceQwen("qwen3_vl_bare", encoder3, dtype="F16", **{**qwen3, "deepstack_visual_indexes": [1]}).with_grids((14, 4), (2, 6)),
        HuggingFaceQwen("qwen3_vl_heads_72", encoder3, prefix="visual.", **{**qwen3, "num_heads": 1, "hidden_size": 72, "depth": 2}
                        ).with_grids((6, 4), (2, 4)),
        Timm("native_timm_distilled", "deit_tiny_distilled_patch16_224", img_size=64, **small).with_grids((2, 3), (4, 4), (6, 5)),
        Timm("native_timm_eva02", "eva02_base_patch14_224", mlp_ratio=2.671875, **{**rotary, "img_size": 56}).with_grids((2, 3), (4, 4), (5, 3)),
        HuggingFace("native_hf_vit", "ViTForImageClassification", **hf).with_grids((2, 3), (3, 3), (5, 4)),
        HuggingFace("native_hf_clip", "CLIPVisionModelWithProjection", projection_dim=24, **clip_64).with_grids((2, 3), (3, 3), (5, 4)),
        HuggingFace("native_hf_dinov2", "Dinov2WithRegistersModel", num_register_tokens=3, **dinov2).with_grids((2, 3), (4, 4), (6, 5)),
        HuggingFace("native_hf_dinov3", "DINOv3ViTModel", num_register_tokens=3, **dinov3).with_grids((2, 3), (4, 4), (6, 5)),
        Timm("timm_plain", "deit_tiny_patch16_224", img_size=64, num_classes=10, **larger),
        Timm("timm_distilled", "deit_tiny_distilled_patch16_224", dtype="F16", img_size=64, **small),
        Timm("timm_patch32", "vit_base_patch32_224", dtype="BF16", img_size=96, **small),
        Timm("timm_tiny_224", "deit_tiny_patch16_224", n_images=1, num_classes=100),
        Timm("timm_resampled", "deit_tiny_distilled_patch16_224", run_at=112, img_size=64, **small),
        Timm("timm_resampled_down", "deit_tiny_patch16_224", run_at=48, img_size=112, **small),
        Timm("timm_bicubic", "deit_tiny_patch16_224", run_at=96, resample=BICUBIC, img_size=64, **small),
        Timm("timm_bilinear", "deit_tiny_distilled_patch16_224", run_at=96, resample=BILINEAR, img_size=64, **small),
        Timm("timm_registers", "vit_small_patch14_reg4_dinov2", img_size=56, **larger),
        Timm("timm_registers_resampled", "vit_small_patch14_reg4_dinov2", run_at=84, img_size=56, num_classes=7, **larger),
        Timm("deit3", "deit3_small_patch16_224", rename=DEIT3, img_size=64, **small),
        Timm("deit3_timm_names", "deit3_small_patch16_224", run_at=80, img_size=64, **small),
        Timm("dinov2", "vit_small_patch14_dinov2", img_size=56, **larger),
        Timm("dinov2_registers", "vit_small_patch14_reg4_dinov2", rename=DINOV2, extra=dinov2_128, img_size=56, **larger),
        Timm("timm_heads_32", "deit_tiny_patch16_224", img_size=64, num_classes=10, **{**larger, "num_heads": 4}),
        Timm("timm_heads_72", "vit_so150m_patch16_reg4_gap_256", img_size=64, num_classes=10, class_token=True, global_pool="token",
             embed_dim=144, depth=2, num_heads=2, mlp_ratio=2.5, reg_tokens=1),
        Timm("timm_heads_104", "vit_huge_patch14_224", img_size=56, num_classes=10, embed_dim=208, depth=2, num_heads=2),
        Timm("timm_no_qkv_bias", "vit_base_patch16_224", img_size=64, qkv_bias=False, **small),
        Timm("timm_clip", "vit_base_patch16_clip_224", img_size=64, **small),
        Timm("timm_clip_bare", "vit_base_patch32_clip_224", img_size=96, **{**small, "num_classes": 0}),
        Timm("timm_eva_biases", "eva_giant_patch14_clip_224", img_size=56, mlp_ratio=4, **{**small, "num_heads": 2}),
        Timm("timm_quick_gelu", "vit_base_patch16_clip_quickgelu_224", img_size=64, **small),
        Timm("timm_gelu_tanh", "deit_tiny_patch16_224", img_size=64, act_layer="gelu_tanh", **small),
        Timm("timm_silu", "deit_tiny_patch16_224", img_size=64, act_layer="silu", **small),
        Timm("timm_gated", "vit_giant_patch14_dinov2", img_size=56, mlp_ratio=1.34375, **small),
        Timm("timm_gated_apart", "eva_giant_patch14_clip_224", img_size=56, swiglu_mlp=True, swiglu_align_to=2, qkv_fused=False,
             mlp_ratio=1.34375, **{**small, "num_heads": 2}),
        Timm("dinov2_gated", "vit_giant_patch14_reg4_dinov2", rename=DINOV2_GATED, extra=dinov2_64, img_size=56,
             mlp_ratio=1.5, **{**small, "depth": 1}),
        Timm("timm_rms_norm", "deit_tiny_patch16_224", img_size=64, norm_layer="rmsnorm", **small),
        Timm("timm_inner_norms", "eva_giant_patch14_clip_224", img_size=56, swiglu_mlp=True, scale_mlp=True, scale_attn_inner=True,
             qkv_fused=False, mlp_ratio=1.34375, **{**small, "num_heads": 2}),
        Timm("timm_inner_norms_plain", "eva_giant_patch14_clip_224", img_size=56, scale_mlp=True, mlp_ratio=1.34375,
             **{**small, "num_heads": 2}),
        OpenClip("open_clip_quick_gelu", "vit_base_patch16_clip_quickgelu_224", img_size=64, **small),
        Timm("timm_dinov3", "vit_small_patch16_dinov3", global_pool="token", **rotary),
        Timm("timm_dinov3_biases", "vit_small_patch16_dinov3_qkvb", dtype="F16", run_at=80, **{**rotary, "num_classes": 0}),
        Timm("timm_rope", "vit_small_patch16_rope_224", **rotary),
        Timm("timm_rope_ape", "vit_small_patch16_rope_ape_224", run_at=80, **rotary),
        Timm("timm_rope_reference", "vit_small_patch16_rope_ape_224", rope_grid_offset=1.0, ref_feat_shape=(6, 6), rope_temperature=10000.0,
             **rotary),
        OpenClip("open_clip", "vit_base_patch16_clip_224", img_size=64, **small),
        HuggingFace("hf_clip", "CLIPVisionModelWithProjection", hidden_act="gelu", projection_dim=24, **clip),
        HuggingFace("hf_clip_quick_gelu", "CLIPVisionModelWithProjection", projection_dim=24, **clip),
        HuggingFace("hf_clip_bare", "CLIPVisionModel", hidden_act="gelu", **clip),
        HuggingFace("hf_dinov2", "Dinov2Model", **dinov2),
        HuggingFace("hf_dinov2_resampled", "Dinov2Model", run_at=84, **dinov2),
        HuggingFace("hf_dinov2_registers", "Dinov2WithRegistersModel", num_register_tokens=3, **dinov2),
        HuggingFace("hf_dinov2_registers_resampled", "Dinov2WithRegistersModel", run_at=84, **dinov2),
        HuggingFace("hf_dinov2_gated", "Dinov2Model", use_swiglu_ffn=True, **dinov2),
        HuggingFace("hf_dinov2_gated_memory", "Dinov2Model", memory=True, use_swiglu_ffn=True, **dinov2),
        HuggingFace("hf_dinov2_memory", "Dinov2WithRegistersModel", memory=True, **dinov2),
        Timm("timm_mean", "vit_base_patch16_224", img_size=64, global_pool="avg", fc_norm=False, **small),
        Timm("timm_mean_fc_norm", "vit_base_patch16_224", img_size=64, global_pool="avg", **small),
        Timm("timm_mean_no_norm", "vit_base_patch16_224", img_size=64, global_pool="avg", final_norm=False, **small),
        Timm("timm_cls_no_norm", "vit_base_patch16_224", img_size=64, final_norm=False, **small),
        Timm("timm_gap", "vit_base_patch16_siglip_gap_224", img_size=64, **small),
        Timm("timm_gap_registers", "vit_so150m_patch16_reg4_gap_256", img_size=64, reg_tokens=3, mlp_ratio=2, **small),
        Timm("timm_map", "vit_base_patch16_siglip_224", img_size=64, **{**small, "num_heads": 2, "num_classes": 0}),
        Timm("timm_map_head", "vit_base_patch16_siglip_224", dtype="F16", run_at=80, img_size=64, **small),
        Timm("timm_wide", "vit_base_patch16_224", img_size=[32, 80], global_pool="avg", **small),
        Timm("timm_high", "vit_base_patch16_siglip_224", img_size=[70, 48], **{**small, "num_heads": 2, "num_classes": 0}),
        Timm("timm_cropped", "vit_base_patch16_siglip_224", img_size=70, **{**small, "num_heads": 2, "num_classes": 0}),
        HuggingFace("hf_siglip", "SiglipVisionModel", hidden_act="gelu", **{**clip, "num_attention_heads": 4, "hidden_size": 96}),
        HuggingFace("hf_siglip_classifier", "SiglipForImageClassification", vision_config={"hidden_act": "gelu", **clip}, num_labels=10),
        HuggingFace("hf_clip_classifier", "CLIPForImageClassification", vision_config={"hidden_act": "gelu", **clip}, num_labels=10),
        HuggingFace("hf_dinov2_classifier", "Dinov2ForImageClassification", num_labels=10, **dinov2),
        HuggingFace("hf_dinov2_registers_classifier", "Dinov2WithRegistersForImageClassification", num_register_tokens=3, num_labels=10,
                    **dinov2),
        HuggingFace("hf_dinov3", "DINOv3ViTModel", num_register_tokens=3, **dinov3),
        HuggingFace("hf_dinov3_gated", "DINOv3ViTModel", use_gated_mlp=True, hidden_act="silu", num_register_tokens=3, **dinov3),
        HuggingFace("hf_siglip_tanh", "SiglipVisionModel", **{**clip, "intermediate_size": 250}),
        Timm("timm_map_rms", "vit_base_patch16_siglip_224", img_size=64, norm_layer="rmsnorm", act_layer="gelu_tanh", **small),
        Timm("timm_mean_rms", "vit_base_patch16_224", img_size=64, norm_layer="rmsnorm", global_pool="avg", **small),
        Timm("timm_eva02", "eva02_base_patch14_224", mlp_ratio=2.671875, **{**rotary, "img_size": 56}),
        Timm("timm_eva02_wide", "eva02_tiny_patch14_224", mlp_ratio=2, **{**rotary, "img_size": [28, 70]}),
        Timm("timm_rope_gap", "vit_medium_patch16_rope_reg1_gap_256", mlp_ratio=2, **{**rotary, "img_size": [64, 100]}),
        HuggingFace("hf_dinov3_key_bias", "DINOv3ViTModel", key_bias=True, rope_theta=50.0, run_at=80, **dinov3),
        Timm("timm_pe_core", "vit_pe_core_base_patch16_224", img_size=64, **{**small, "embed_dim": 96, "num_heads": 3}),
        Timm("timm_pe_core_bare", "vit_pe_core_gigantic_patch14_448", mlp_ratio=2, **{**small, "img_size": [56, 84], "num_classes": 0}),
        Timm("timm_pe_lang", "vit_pe_lang_large_patch14_448", mlp_ratio=2, **{**rotary, "img_size": 56, "num_classes": 0}),
        Timm("timm_pe_spatial", "vit_pe_spatial_gigantic_patch14_448", mlp_ratio=2, **{**rotary, "img_size": 56, "num_classes": 0}),
        Timm("timm_aimv2", "aimv2_large_patch14_224", img_size=56, mlp_ratio=1.34375, **{**small, "embed_dim": 128}),
        HuggingFace("hf_aimv2", "Aimv2VisionModel", **aimv2),
        HuggingFace("hf_aimv2_no_head", "Aimv2VisionModel", use_head=False, qkv_bias=True, mlp_bias=True, **aimv2),
        HuggingFace("hf_aimv2_joint", "Aimv2Model", dtype="F16", vision_config=aimv2, projection_dim=10,
                    text_config=text),
        HuggingFace("hf_clip_joint", "CLIPModel", projection_dim=10, text_config=text, vision_config=clip_64),
        HuggingFace("hf_siglip_joint", "SiglipModel", text_config={**text, "projection_size": 64}, vision_config=clip_64),
        HuggingFace("hf_siglip_no_head", "SiglipVisionModel", vision_use_head=False, **clip_64),
        OpenClipTrunk("open_clip_trunk", "test_vit3", num_classes=0),
        Torchvision("torchvision", image_size=64, patch_size=16, num_layers=2, num_heads=2, hidden_dim=64, mlp_dim=128, num_classes=10),
        HuggingFace("hf_vit", "ViTForImageClassification", **hf),
        HuggingFace("hf_vit_eps", "ViTForImageClassification", layer_norm_eps=0.01, **hf),
        HuggingFace("hf_vit_bare", "ViTModel", **hf),
        HuggingFace("hf_vit_resampled", "ViTForImageClassification", run_at=80, **hf),
        HuggingFace("hf_deit", "DeiTForImageClassification", **hf),
        HuggingFace("hf_deit_bare", "DeiTModel", **hf),
        HuggingFace("hf_deit_teacher", "DeiTForImageClassificationWithTeacher", dtype="F16", **hf),
    ]


def full_models():
    """Yields functions that make the models, because one large model at a time fits in memory."""
    tiny = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768, "num_labels": 1000}
    small = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536, "num_labels": 1000}
    for size in ("tiny", "small", "base"):
        yield lambda s=size: Timm(f"deit_{s}", f"deit_{s}_patch16_224")
        yield lambda s=size: Timm(f"deit_{s}_distilled", f"deit_{s}_distilled_patch16_224")
    yield lambda: Timm("vit_base_patch32", "vit_base_patch32_224")
    yield lambda: Timm("vit_large", "vit_large_patch16_224", n_images=1)
    yield lambda: Timm("deit_base_384", "deit_base_patch16_384", n_images=1)
    yield lambda: Timm("deit_tiny_to_384", "deit_tiny_patch16_224", run_at=384)
    yield lambda: Timm("deit_small_distilled_to_384", "deit_small_distilled_patch16_224", run_at=384)
    yield lambda: Timm("deit_base_384_to_224", "deit_base_patch16_384", run_at=224)
    yield lambda: Timm("deit_small_to_384_bicubic", "deit_small_patch16_224", run_at=384, resample=BICUBIC)
    yield lambda: Timm("deit_small_to_384_bilinear", "deit_small_patch16_224", run_at=384, resample=BILINEAR)
    yield lambda: Timm("deit3_small", "deit3_small_patch16_224", rename=DEIT3)
    yield lambda: Timm("vit_small_reg4_dinov2_518", "vit_small_patch14_reg4_dinov2", n_images=1)
    yield lambda: Timm("vit_base_reg4_dinov2_to_224", "vit_base_patch14_reg4_dinov2", run_at=224, num_classes=1000)
    yield lambda: Timm("dinov2_small_reg4", "vit_small_patch14_reg4_dinov2", rename=DINOV2, run_at=224,
                       extra={"pos_embed": (1, 1370, 384), "mask_token": (1, 384)})
    yield lambda: HuggingFace("hf_vit_tiny", "ViTForImageClassification", **tiny)
    yield lambda: HuggingFace("hf_vit_base_sharded", "ViTForImageClassification", shard_size="100MB", num_labels=1000)
    yield lambda: HuggingFace("hf_vit_small_to_384", "ViTForImageClassification", run_at=384, **small)
    yield lambda: HuggingFace("hf_vit_base_f16", "ViTModel", dtype="F16")
    yield lambda: HuggingFace("hf_deit_tiny", "DeiTForImageClassification", **tiny)
    yield lambda: HuggingFace("hf_deit_small_teacher", "DeiTForImageClassificationWithTeacher", **small)


def short(value):
    """Rounds numbers to 9 digits, which are enough for float32."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, (list, tuple)):
        return [short(one) for one in value]
    return {key: short(one) for key, one in value.items()} if isinstance(value, dict) else value


def read_dumps(path):
    dumps = map(json.loads, path.read_text().splitlines() if path.exists() else ())
    return {dump["name"]: dump for dump in dumps}


def write_dumps(path, dumps):
    path.write_text("".join(json.dumps(short(dump), separators=(",", ":")) + "\n" for _, dump in sorted(dumps.items())))


def measure_errors(path, only):
    dumps = read_dumps(path)
    for dump in small_models():
        if only not in dump.name:
            continue
        text = dumps[dump.name]
        outputs, text["torch_errors"] = dump.evaluate(fill(dump.shapes, dump.dtype)[0])
        difference = float(abs(outputs.numpy() - numpy.array(text["outputs"])).max())
        assert difference < 1e-7, f"{dump.name}: the outputs now differ by {difference}"
        print(f"{dump.name}: {text['torch_errors']}, outputs differ by {difference:.1g}", flush=True)
    write_dumps(path, dumps)


def dump_small(path, only):
    dumps = read_dumps(path)
    for dump in small_models():
        if only not in dump.name:
            continue
        tensors, described = fill(dump.shapes, dump.dtype)
        dumps[dump.name] = text = {**dump.describe(tensors), "tensors": described}
        print(f"{dump.name}: {len(json.dumps(short(text)))} bytes, standard deviation of the outputs {numpy.std(text['outputs']):.3f}")
    write_dumps(path, dumps)


def run_full(program, only, folder):
    failures = 0
    for make in full_models():
        dump = make()
        if only not in dump.name:
            continue
        tensors, _ = fill(dump.shapes, dump.dtype)
        text = dump.describe(tensors)
        path = dump.save(tensors, folder)
        del tensors
        text["file"] = str(path)
        text.pop("config")  # test_dumps reads the one of the checkpoint
        one = folder / f"{dump.name}.jsonl"
        write_dumps(one, {dump.name: text})
        print(f"{dump.name}: standard deviation of the outputs {numpy.std(text['outputs']):.3f}", flush=True)
        failures += subprocess.run([program, "--dumps", str(one), "--backend", "cpu"], check=False).returncode != 0
    return failures


def main():
    options = arguments()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    if options.out:
        dump_small(options.out, options.only)
    if options.errors:
        measure_errors(options.errors, options.only)
    if options.full and options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        sys.exit(run_full(options.full, options.only, options.keep) != 0)
    if options.full:
        with tempfile.TemporaryDirectory() as folder:
            sys.exit(run_full(options.full, options.only, pathlib.Path(folder)) != 0)


if __name__ == "__main__":
    main()
