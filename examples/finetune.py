"""Fine-tunes a pruned Vision Transformer on the CPU, with PyTorch and timm: EViT keeps half of the tokens at each of three blocks, and
training wins back some of what that costs. The demo's 1000 tiles are split: 800 to train on, 200 held out.

    PYTHONPATH=python RAGGEDVIT_LIBRARY=build/release/libraggedvit.so.0 python3 examples/finetune.py     # --steps 24
"""

import argparse
import pathlib

import numpy as np
import raggedvit
import timm
import torch
from PIL import Image
from safetensors import safe_open

DATA = pathlib.Path(__file__).resolve().parent / "data"
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
TILE, COLUMNS, SIZE, HELD_OUT = 32, 40, 224, 200


def tile(sheet, i):
    """Tile i of the sheet as the checkpoint was trained on it: enlarged, normalised."""
    x, y = i % COLUMNS * TILE, i // COLUMNS * TILE
    pixels = sheet.crop((x, y, x + TILE, y + TILE)).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return ((torch.from_numpy(np.array(pixels)) / 255 - MEAN) / STD).permute(2, 0, 1)


@torch.no_grad()
def evaluate(model, images, labels):
    """Top-1 and loss by the recorded forward: in eval mode, without gradients, a patched model runs the library's."""
    model.eval()
    logits = torch.cat([model(part) for part in images.split(50)])
    return (logits.argmax(1) == labels).float().mean().item(), torch.nn.functional.cross_entropy(logits, labels).item()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--steps", type=int, default=24)
    options.add_argument("--batch", type=int, default=16)
    options.add_argument("--rate", type=float, default=2e-5)
    options = options.parse_args()
    sheet = Image.open(DATA / "cifar10_test_1000.png").convert("RGB")
    with safe_open(DATA / "deit_tiny_cifar10.safetensors", "pt") as file:
        weights = {name: file.get_tensor(name).float() for name in file.keys() if not name.startswith("score_predictor.")}
        classes = file.metadata()["classes"].split(",")
    labels = torch.tensor([classes.index(name) for name in (DATA / "cifar10_test_1000.txt").read_text().split()])
    model = timm.create_model("deit_tiny_patch16_224", num_classes=len(classes))
    model.load_state_dict(weights)
    raggedvit.patch.timm(model, policy="evit", keep=0.5)

    first = len(labels) - HELD_OUT
    held_out = torch.stack([tile(sheet, i) for i in range(first, len(labels))]), labels[first:]
    before = evaluate(model, *held_out)
    print(f"held out, before: top-1 {before[0]:.3f}, loss {before[1]:.4f}")
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, options.steps)
    model.train()  # the same pruning in PyTorch, with gradients
    for step, chosen in enumerate(torch.randperm(first)[: options.steps * options.batch].split(options.batch)):
        loss = torch.nn.functional.cross_entropy(model(torch.stack([tile(sheet, int(i)) for i in chosen])), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    after = evaluate(model, *held_out)
    print(f"held out, after:  top-1 {after[0]:.3f}, loss {after[1]:.4f}")
    return before, after


if __name__ == "__main__":
    main()
