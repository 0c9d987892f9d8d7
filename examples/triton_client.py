"""Classifies an image on a server with raggedvit's backend: as a file, as pixels, and with half of the patches dropped.

usage: triton_client.py HOST:PORT MODEL IMAGE      needs pip install 'tritonclient[http]' pillow

The server decodes, resizes and normalises, and batches the request with those of other clients. The config.pbtxt of
MODEL must declare the setting "l2 keep=0.5" (docs/serving.md)."""

import sys

import numpy as np
import tritonclient.http as triton
from PIL import Image


def ask(client, model, tensor, **parameters):
    """The names and probabilities of the most likely classes, and the number of kept tokens."""
    outputs = [triton.InferRequestedOutput(name) for name in ("LABELS", "SCORES", "TOKENS")]
    try:
        answer = client.infer(model, [tensor], outputs=outputs, parameters=parameters)
    except triton.InferenceServerException as error:
        sys.exit(f"the server refuses the request: {error.message()}")
    labels, scores, tokens = (answer.as_numpy(output.name()) for output in outputs)
    return [label.decode() for label in labels[0]], scores[0], int(tokens[0, 0])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    address, model, path = sys.argv[1:]
    client = triton.InferenceServerClient(address)

    # The bytes of the file: BYTES [1, 1], one image per row.
    with open(path, "rb") as file:
        encoded = np.array([[file.read()]], dtype=np.object_)
    tensor = triton.InferInput("ENCODED", list(encoded.shape), "BYTES")
    tensor.set_data_from_numpy(encoded)
    labels, scores, all_tokens = ask(client, model, tensor, policy="none")
    print(f"{path}: {labels[0]} {scores[0]:.1%}, {all_tokens} tokens")

    # Pixels: UINT8 [1, height, width, 3], of any size.
    pixels = np.asarray(Image.open(path).convert("RGB"))[np.newaxis]
    tensor = triton.InferInput("IMAGE", list(pixels.shape), "UINT8")
    tensor.set_data_from_numpy(pixels)
    again, again_scores, _ = ask(client, model, tensor, policy="none")
    if again != labels or not np.array_equal(scores, again_scores):
        # They differ for a file with EXIF orientation, which the server applies and PIL.Image.open does not.
        sys.exit("the file and its pixels give different answers")
    pruned, pruned_scores, tokens = ask(client, model, tensor, policy="l2", keep=0.5)
    print(f"half of the patches dropped: {pruned[0]} {pruned_scores[0]:.1%}, {tokens} tokens")
    if tokens >= all_tokens:
        sys.exit("nothing was pruned")


if __name__ == "__main__":
    main()
