#!/usr/bin/env python3
"""Writes the embeddings of texts for raggedvit classify --text-embeddings, with the text encoder of a CLIP or SigLIP model.

  text_embeddings.py MODEL LABELS --out FILE.safetensors [--template TEXT]... [--open-clip PRETRAINED]

MODEL is a folder or name that transformers loads (CLIPModel, SiglipModel, Siglip2Model), or with --open-clip an open_clip name, and
PRETRAINED the tag or file of its weights. LABELS is a text file with one class per line. A template has {} in place of the label; several
templates are averaged. The file has text_embeddings, float32 [labels, width] with rows of length 1, and logit_scale and logit_bias if the
model has them.

Needs torch, safetensors, and transformers or open_clip_torch.
"""
import argparse
import pathlib
import sys


def features(output):
    """The embeddings in what transformers returns: a tensor, or an output object."""
    return output if hasattr(output, "shape") else output.pooler_output


def combined(embed, labels, templates):
    """The embedding of each label, of length 1: the mean over the templates. embed: texts -> tensor [texts, width]."""
    import torch

    with torch.no_grad():
        parts = [torch.nn.functional.normalize(embed([t.replace("{}", label) for label in labels]).float(), dim=-1) for t in templates]
        return torch.nn.functional.normalize(torch.stack(parts).mean(0), dim=-1)


def write(path, embeddings, model):
    """Writes the file, with logit_scale and logit_bias if the model has them."""
    from safetensors.torch import save_file

    from output_file import output_file

    tensors = {"text_embeddings": embeddings.detach().float().cpu().contiguous()}
    for name in ("logit_scale", "logit_bias"):
        value = getattr(model, name, None)
        if value is not None:
            tensors[name] = value.detach().float().cpu().reshape(())
    with output_file(path) as temporary:
        save_file(tensors, temporary)


def from_transformers(name):
    """A model and a function that embeds texts."""
    import transformers

    model = transformers.AutoModel.from_pretrained(name).eval()
    if not hasattr(model, "get_text_features"):
        sys.exit(f"text_embeddings.py: {name} is a {type(model).__name__}, which has no text encoder")
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    # SigLIP was trained with texts padded to the full length.
    padding = "max_length" if "siglip" in model.config.model_type else True
    length = getattr(model.config.text_config, "max_position_embeddings", None)

    def embed(texts):
        tokens = tokenizer(texts, padding=padding, truncation=True, max_length=length, return_tensors="pt")
        return features(model.get_text_features(**tokens))

    return model, embed


def from_open_clip(name, pretrained):
    import open_clip

    model = open_clip.create_model(name, pretrained=pretrained).eval()
    tokenizer = open_clip.get_tokenizer(name)
    return model, lambda texts: model.encode_text(tokenizer(texts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("labels", metavar="LABELS", type=pathlib.Path)
    parser.add_argument("--out", metavar="FILE", required=True)
    parser.add_argument("--template", metavar="TEXT", action="append", help='(default: "a photo of a {}.")')
    parser.add_argument("--open-clip", metavar="PRETRAINED")
    options = parser.parse_args()
    templates = options.template or ["a photo of a {}."]
    if not all("{}" in template for template in templates):
        parser.error("a template has no {}")
    labels = [line.strip() for line in options.labels.read_text().splitlines()]
    if not labels or not all(labels):
        parser.error(f"{options.labels}: expected a label on every line")
    try:
        model, embed = from_open_clip(options.model, options.open_clip) if options.open_clip else from_transformers(options.model)
    except ImportError as error:
        sys.exit(f"text_embeddings.py: {error}; it needs torch, safetensors, and transformers or open_clip_torch")
    write(options.out, combined(embed, labels, templates), model)
    print(f"{options.out}: {len(labels)} texts")


if __name__ == "__main__":
    main()
