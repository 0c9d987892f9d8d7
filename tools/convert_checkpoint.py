#!/usr/bin/env python3
"""Converts a PyTorch checkpoint (.pth, .pt, .bin) to a .safetensors file, which raggedvit reads.

Names and types of the tensors do not change. Wrappers such as {"model": ...} and {"state_dict": ...} are removed, also nested ones, and
other content (optimizer, epoch) is dropped. Nothing in the file is executed, because torch loads only weights. Needs torch and safetensors
from PyPI.
"""
import argparse
import os
import pathlib
import re
import sys

try:
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    from output_file import output_file
except ImportError as error:
    sys.exit(f"convert_checkpoint.py: {error}; install them with pip install torch safetensors")

WRAPPERS = ("model", "state_dict", "model_state_dict", "model_ema", "teacher")


def unwrap(content, key):
    """The dictionary of tensors, and the keys that led to it."""
    path = []
    while isinstance(content, dict) and not any(isinstance(value, torch.Tensor) for value in content.values()):
        names = [key] if key and not path else [name for name in WRAPPERS if isinstance(content.get(name), dict)]
        if not names or names[0] not in content:
            found = ", ".join(repr(name) for name in list(content)[:8]) or "nothing"
            wanted = f"{key!r}" if key and not path else f"tensors, or one of {', '.join(WRAPPERS)}"
            raise ValueError(f"expected {wanted} in it, found {found}")
        path.append(names[0])
        content = content[names[0]]
    if not isinstance(content, dict):
        raise ValueError(f"it contains a {type(content).__name__}, not a dictionary of tensors")
    return content, path


def load(source):
    """Loads the file without running code. Training scripts often leave their arguments in it, which are allowed."""
    torch.serialization.add_safe_globals([argparse.Namespace])
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except OSError:
        raise
    except Exception as error:  # torch raises many types
        kind = re.search(r"GLOBAL ([\w.]+)", str(error))
        if kind:
            raise ValueError(f"it contains an object of type {kind[1]}, but for safety only weights are loaded; save its"
                             " state_dict() instead") from error
        raise ValueError(f"it is not a PyTorch checkpoint, or it is damaged ({str(error).splitlines()[0]})") from error


def convert(source, key):
    content = load(source)
    weights, path = unwrap(content, key)
    tensors, others = {}, []
    for name, value in weights.items():
        if isinstance(value, torch.Tensor):
            # Copied, because the format does not support tensors that share memory.
            tensors[str(name)] = value.detach().clone().contiguous()
        else:
            others.append(str(name))
    return tensors, others, path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("target", type=pathlib.Path, nargs="?", help="(default: the source with the suffix .safetensors)")
    parser.add_argument("--key", help="the dictionary to convert, if the file has several (such as model_ema)")
    parser.add_argument("--force", action="store_true", help="replace an existing target")
    options = parser.parse_args()
    target = options.target or options.source.with_suffix(".safetensors")
    if target.suffix != ".safetensors":
        sys.exit(f"convert_checkpoint.py: {target}: the name must end with .safetensors")
    if os.path.lexists(target) and not options.force:
        sys.exit(f"convert_checkpoint.py: {target}: already exists (--force replaces it)")
    try:
        tensors, others, path = convert(options.source, options.key)
        with output_file(target) as temporary:
            save_file(tensors, temporary, {"format": "pt"})
    except OSError as error:
        sys.exit(f"convert_checkpoint.py: {error.filename or options.source}: {error.strerror or error}")
    except (ValueError, SafetensorError) as error:
        sys.exit(f"convert_checkpoint.py: {options.source}: {error}")
    where = "".join(f"[{key!r}]" for key in path)
    print(f"{target}: {len(tensors)} tensors" + (f" of {options.source.name}{where}" if where else ""))
    for name in others:
        print(f"  skipped: {name!r} is not a tensor")


if __name__ == "__main__":
    main()
