"""User code, which mypy --strict checks (test_typing.py). A line that ignores an error must have that error."""

import dataclasses
import pathlib
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import raggedvit
from raggedvit import Policy
import raggedvit.ray

version: str = raggedvit.__version__
backends: list[str] = [device.backend for device in raggedvit.devices()]


def of_arrays(qkv: NDArray[np.float16], cu_seqlens: NDArray[np.int32]) -> NDArray[np.float16]:
    out, lse, _ = raggedvit.attention(qkv, cu_seqlens, lse=True)
    raggedvit.attention(qkv, cu_seqlens, max_len="197")  # type: ignore[call-overload]
    text: str = raggedvit.attention(qkv, cu_seqlens)  # type: ignore[assignment]
    text = raggedvit.pack(out, cu_seqlens)  # type: ignore[assignment]
    text = raggedvit.unpack(out, cu_seqlens, rows=5)  # type: ignore[assignment]
    text = raggedvit.gather(out, cu_seqlens)  # type: ignore[assignment]
    return raggedvit.pack(out, cu_seqlens) if text else raggedvit.attention(qkv, cu_seqlens, None, 197)


def of_tensors(qkv: torch.Tensor, cu_seqlens: torch.Tensor) -> torch.Tensor:
    raggedvit.attention("qkv", cu_seqlens)  # type: ignore[call-overload]
    return raggedvit.attention(qkv, cu_seqlens, out=torch.empty_like(qkv[:, 0])).relu()


def of_models(model: raggedvit.Model, images: NDArray[np.float32]) -> tuple[float, torch.Tensor]:
    result = model.classify(images, Policy("evit", keep=0.7))
    assert result.logits is not None
    best: NDArray[np.intp] = result.logits.argmax(1)
    tokens: int = len(result.kept[0][int(best[0])])
    model.classify(images, Policy("evit", keep="0.7"))  # type: ignore[arg-type]
    model.classify(images, "evit", keep=0.7)  # type: ignore[call-overload]
    raw_images: list[raggedvit.images.RawImage] = [
        "cat.jpg",
        pathlib.Path("dog.png"),
        np.zeros((480, 640, 3), np.uint8),
    ]
    of_files = model.classify(raw_images)
    assert of_files.logits is not None
    best = model(raw_images).argmax(1)
    frames: NDArray[np.float32] = raggedvit.images.prepare(model.recipe, [raggedvit.images.load("cat.jpg")])
    model.recipe = dataclasses.replace(model.recipe, mean=(0.5, 0.5, 0.5), fit=frames)  # type: ignore[arg-type]
    result.logits.relu()  # type: ignore[attr-defined]
    failures: dict[int, raggedvit.RaggedVitError] = model.classify(raw_images, errors="return").errors
    model.classify(raw_images, errors="ignore" if failures else "raise")  # type: ignore[call-overload]
    frames_there = [torch.zeros(480, 640, 3, dtype=torch.uint8, device="cuda")]
    of_frames = model.classify(frames_there)
    assert of_frames.logits is not None
    on_device: bool = of_frames.logits.is_cuda
    for_tensors = model.classify(torch.from_numpy(images))
    assert for_tensors.logits is not None
    return float(model(images)[0, tokens]) if on_device else 0.0, for_tensors.logits.relu() + model.prepare("l2")(
        torch.from_numpy(images)
    )


def under_ray(raw_images: list[bytes]) -> list[dict[str, Any]]:
    classifier = raggedvit.ray.Classifier(
        "model.safetensors", outputs=["class", "top"], policy=Policy("l2", keep=0.5), recipe={"fit": "squash"}
    )
    raggedvit.ray.Classifier("model.safetensors", capacity="64")  # type: ignore[arg-type]
    batch: dict[str, Any] = classifier(raggedvit.ray.decode({"image": raw_images}))
    return classifier.rows(raw_images) if batch else []


def failed(error: raggedvit.RaggedVitError) -> bool:
    details: dict[str, Any] = {"status": error.status.name}
    return error.status == raggedvit.Status.INVALID_ARGUMENT and bool(details)
