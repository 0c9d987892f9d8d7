"""Fine-tunes a pruned Vision Transformer on the CPU with PyTorch and timm.

EViT keeps half of the tokens at each of three blocks. It trains on 800 of the demo's 1000 tiles and holds out 200. It
takes two minutes on two cores.

    PYTHONPATH=python RAGGEDVIT_LIBRARY=build/release/libraggedvit.so python3 examples/finetune.py
"""

import pathlib
import sys

import numpy as np
import timm
import torch
from PIL import Image
from safetensors import safe_open
from torch.nn.functional import cross_entropy

import raggedvit

DATA = pathlib.Path(__file__).resolve().parent / "data"
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
TILE, COLUMNS, SIZE, N_TRAIN, BATCH, STEPS = 32, 40, 224, 800, 32, 24


def tile(sheet, i):
    """Tile i of the sheet, enlarged and normalised as in the checkpoint's training."""
    x, y = i % COLUMNS * TILE, i // COLUMNS * TILE
    pixels = sheet.crop((x, y, x + TILE, y + TILE)).resize((SIZE, SIZE), Image.Resampling.BICUBIC)
    return ((torch.from_numpy(np.array(pixels)) / 255 - MEAN) / STD).permute(2, 0, 1)


@torch.no_grad()
def evaluate(model, images, labels):
    """Top-1 and loss. In eval mode without gradients a patched model runs the library's recorded forward."""
    model.eval()
    logits = torch.cat([model(part) for part in images.split(50)])
    return (logits.argmax(1) == labels).float().mean().item(), cross_entropy(logits, labels).item()


def main():
    with safe_open(DATA / "deit_tiny_cifar10.safetensors", "pt") as file:
        weights = {
            name: file.get_tensor(name).float() for name in file.keys() if not name.startswith("score_predictor.")
        }
        classes = file.metadata()["classes"].split(",")
    labels = torch.tensor([classes.index(name) for name in (DATA / "cifar10_test_1000.txt").read_text().split()])
    sheet = Image.open(DATA / "cifar10_test_1000.png").convert("RGB")
    held_out = torch.stack([tile(sheet, i) for i in range(N_TRAIN, len(labels))]), labels[N_TRAIN:]
    model = timm.create_model("deit_tiny_patch16_224", num_classes=len(classes))
    model.load_state_dict(weights)
    raggedvit.patch.timm(model, raggedvit.Policy("evit", keep=0.5))

    before = evaluate(model, *held_out)
    print(f"held out, before: top-1 {before[0]:.3f}, loss {before[1]:.4f}")
    head = [p for name, p in model.named_parameters() if name.startswith(("head.", "norm."))]
    rest = [p for name, p in model.named_parameters() if not name.startswith(("head.", "norm."))]
    optimizer = torch.optim.AdamW([{"params": head, "lr": 3e-3}, {"params": rest, "lr": 3e-6}], weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, STEPS)
    torch.manual_seed(0)
    model.train()  # the same pruning in PyTorch, with gradients
    for step, chosen in enumerate(torch.randperm(N_TRAIN)[: STEPS * BATCH].split(BATCH)):
        loss = cross_entropy(model(torch.stack([tile(sheet, int(i)) for i in chosen])), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    after = evaluate(model, *held_out)
    print(f"held out, after:  top-1 {after[0]:.3f}, loss {after[1]:.4f}")
    sys.exit(0 if after[1] < before[1] - 0.01 and after[0] >= before[0] else "the held-out loss has not fallen")


if __name__ == "__main__":
    main()
