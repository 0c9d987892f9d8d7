"""The inputs of cpu_baselines.py: DeiT models with random weights in the format of each baseline, images, and the expected logits.

A model's folder holds model.safetensors (float16 values, so that all read the same), images.npy, PyTorch's logits.npy in float32, and the
converted models: .onnx files, and OpenVINO's .xml and .bin. made.json has a sentence for each file that could not be made."""

import json
import pathlib
import struct
import time

import numpy as np

MAX_IMAGES = 32


def write_weights(shape, path, seed=1):
    """Weights like timm's initialisation: normal with standard deviation 0.02, norms around 1. Unlike timm's, biases are not 0."""
    random, d, tensors = np.random.default_rng(seed), shape.dim, {}

    def add(name, *dims, mean=0.0):
        tensors[name] = (mean + 0.02 * random.standard_normal(dims, np.float32)).astype(np.float16)

    def layer(name, out, *inputs):
        add(name + ".weight", out, *inputs, mean=0.0 if inputs else 1.0)
        add(name + ".bias", out)

    add("cls_token", 1, 1, d)
    add("pos_embed", 1, shape.tokens, d)
    layer("patch_embed.proj", d, 3, shape.patch, shape.patch)
    for i in range(shape.depth):
        block = f"blocks.{i}."
        layer(block + "norm1", d)
        layer(block + "attn.qkv", 3 * d, d)
        layer(block + "attn.proj", d, d)
        layer(block + "norm2", d)
        layer(block + "mlp.fc1", 4 * d, d)
        layer(block + "mlp.fc2", d, 4 * d)
    layer("norm", d)
    layer("head", shape.classes, d)
    config = {"architecture": "vit" if shape.name == "tiny" else shape.name, "model_args": {"num_heads": shape.heads}}
    header, at = {"__metadata__": {"config": json.dumps(config)}}, 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": "F16", "shape": list(tensor.shape), "data_offsets": [at, at + tensor.nbytes]}
        at += tensor.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())


def read_weights(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__")
    body = memoryview(data)[8 + length :]
    return {name: np.frombuffer(body[slice(*row["data_offsets"])], np.float16).reshape(row["shape"]) for name, row in header.items()}


def timm_model(shape, folder, fused=True):
    """timm's model in float32. fused: attention by scaled_dot_product_attention, else by GEMMs and a softmax."""
    import torch
    from timm.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size=shape.size, patch_size=shape.patch, embed_dim=shape.dim, depth=shape.depth, num_heads=shape.heads,
                              num_classes=shape.classes)
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in read_weights(folder / "model.safetensors").items()})
    for block in model.blocks:
        block.attn.fused_attn = fused
    return model.eval()


def reference(shape, folder, images):
    import torch

    with torch.inference_mode():
        return timm_model(shape, folder)(torch.from_numpy(images)).numpy()


def prepare(shape, folder, parts):
    """Makes the folder of a model, but keeps files that exist. parts: name -> function(shape, folder, images) that makes a baseline's files."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    made_path = folder / "made.json"
    made = json.loads(made_path.read_text()) if made_path.exists() else {}
    images = np.random.default_rng(2).standard_normal((MAX_IMAGES, 3, shape.size, shape.size), np.float32)

    def logits():
        np.save(folder / "logits.npy", reference(shape, folder, images))

    steps = {"weights": lambda: write_weights(shape, folder / "model.safetensors"), "images": lambda: np.save(folder / "images.npy", images),
             "logits": logits}
    steps |= {name: (lambda make=make: make(shape, folder, images)) for name, make in parts.items()}
    for name, step in steps.items():
        if "seconds" in made.get(name, {}):
            continue
        begin = time.monotonic()
        try:
            step()
            made[name] = {"seconds": round(time.monotonic() - begin, 1)}
        except Exception as error:
            made[name] = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
        made_path.write_text(json.dumps(made, indent=1) + "\n")
        print(f"  {shape.name} {name}: {made[name]}", flush=True)
    return made
