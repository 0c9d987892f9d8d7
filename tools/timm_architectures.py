#!/usr/bin/env python3
"""Writes core/model/config/timm_architectures.def: the properties of timm's Vision Transformers that their weights do not show.

  timm_architectures.py            write the file
  timm_architectures.py --check    compare it with timm's models; exits 1 if it differs, 77 without timm

Each model is created on PyTorch's meta device, which takes no memory, and inspected. Needs torch and timm from PyPI.
"""
import argparse
import collections
import pathlib
import re
import sys
import textwrap
import warnings

try:
    import timm
    import torch
    from timm.models import _registry
except ImportError as error:
    print(f"timm_architectures.py: skipped: {error}")
    sys.exit(77 if "--check" in sys.argv else 1)

FILE = pathlib.Path(__file__).resolve().parent.parent / "core/model/config/timm_architectures.def"
MODULES = ("vision_transformer", "deit", "eva", "naflexvit", "vision_transformer_hybrid", "vision_transformer_relpos", "beit")
PLAIN_MODULES = MODULES[:4]
ACTIVATIONS = {"GELU": "GELU", "GELUTanh": "GELU_TANH", "QuickGELU": "QUICK_GELU", "SiLU": "SILU"}
POOLINGS = {"token": "CLS", "avg": "MEAN", "map": "MAP", "": "NONE"}
COLOURS = {((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)): "IMAGENET", ((0.5,) * 3, (0.5,) * 3): "HALF",
           ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)): "CLIP"}
HEAD = """/* Vision Transformers of timm {version}: the properties that their weights do not show. Made by tools/timm_architectures.py.

   TIMM(dim, depth, patch_size, heads, activation, eps, pooling, position, rms_norm, block, colours, names): architectures with these
   properties. patch_size 0: unknown. A name with @N has images with sides of N pixels, which its position table does not show.
   ROTARY(base, coordinates, order, offset, reference, layout, names): their rotary positions (rope_table.h), except for those with
   learned frequencies.
   PLAIN(dim, depth, mlp_dim, patch_size, distilled, n_registers, layer_scale, heads): all models in timm with these tensors, under timm's
   names, compute the same: exact GELU, eps 1e-6, a position table and a head on the CLS row.
   PART(fact, value, names): models that have a part which most lack (value 1) or lack a part which most have (0); or its number.
   NAFLEX(resample, aspect, names): how NaFlexViT position tables are resampled (rvit_resample); aspect 1: keeping their aspect ratio.
   PREFIX(names): models, in addition to those of MAP, whose attention pooling reads prefix tokens too.
   MAP(heads, names): models whose attention pooling, if present, has this number of heads (0: that of the blocks) and exact GELU; in all
   others it is like the blocks. */
"""


def colours(name):
    """The mean and standard deviation of images, if all published weights have the same."""
    found = {COLOURS.get((tuple(c.mean), tuple(c.std)), "UNKNOWN") for c in _registry._model_default_cfgs[name].cfgs.values()}
    return found.pop() if len(found) == 1 else "UNKNOWN"


def block_kind(module, block):
    kind, attention = type(block).__name__, type(getattr(block, "attn", None)).__name__
    if kind in ("Block", "EvaBlock") and module in PLAIN_MODULES and attention in ("Attention", "EvaAttention", "AttentionRope"):
        return "PRE_NORM"
    if "PostNorm" in kind or kind == "ResPostBlock":
        return "POST_NORM"
    return "PARALLEL" if kind in ("ParallelScalingBlock", "ParallelThingsBlock") else "OTHER"


def position(model):
    rope = getattr(model, "rope", None) is not None
    table = getattr(model, "pos_embed", None) is not None or hasattr(model, "embeds")
    return ("BOTH" if table else "ROPE") if rope else "TABLE" if table else "NONE"


def rotation(model):
    """The parameters of rotary positions, a row of ROTARY; None without them or for an unknown kind."""
    rope = getattr(model, "rope", None)
    kind = type(rope).__name__
    if kind not in ("RotaryEmbeddingCat", "RotaryEmbeddingDinoV3"):
        return None
    attention = model.blocks[0].attn
    assert rope.rotate_half == attention.rotate_half and rope.dim == model.embed_dim // attention.num_heads
    assert attention.num_prefix_tokens == model.num_prefix_tokens
    reference = (0, 0)
    if kind == "RotaryEmbeddingCat":
        assert rope.grid_type == "index" and not rope.in_pixels
        reference = rope.ref_feat_shape or reference
    else:
        assert rope.normalize_coords == "separate" and rope.min_period is None and rope.max_period is None
    assert reference[0] == reference[1]
    return (f"{rope.temperature:g}", "INDEX" if kind == "RotaryEmbeddingCat" else "CENTRED", {"ij": "YX", "xy": "XY"}[rope.grid_indexing],
            f"{rope.grid_offset:g}", f"{reference[0]:g}", "HALF" if rope.rotate_half else "INTERLEAVED")


def resampling(embeds):
    """How a NaFlexViT resamples its position table, a row of NAFLEX."""
    how = {("bicubic", True): "TIMM", ("bilinear", True): "BILINEAR_ANTIALIAS", ("bilinear", False): "BILINEAR"}
    aspect = int(embeds.pos_embed_ar_preserving)
    assert aspect or not embeds.pos_embed_align_corners  # tables that keep their aspect ratio are not supported
    return how[embeds.pos_embed_interp_mode, embeds.pos_embed_antialias], aspect


def pooling_heads(model, row):
    """Heads of an EVA model's attention pooling, which uses exact GELU; 0 without such pooling or if the blocks have as many."""
    pool = getattr(model, "attn_pool", None)
    if pool is None:
        return 0
    assert type(pool).__name__ == "AttentionPoolLatent" and type(pool.mlp.act).__name__ == "GELU" and pool.norm.eps == row[5]
    return 0 if pool.num_heads == row[3] else pool.num_heads


#: Values that PART does not list.
USUAL = {("CLS", 1), ("REGISTERS", 0), ("PATCH_NORM", 0), ("NORM_PRE", 0), ("FINAL_NORM", 1), ("FC_NORM", 0), ("LAYER_SCALE", 0), ("QKV_BIAS", 1)}


def parts_of(model, tokens):
    """Parts that the tensors usually show, but not if a file lacks them or the model was created with other arguments."""
    def norm(part, name):
        return not isinstance(getattr(part, name, None), (torch.nn.Identity, type(None)))

    registers, state = getattr(tokens, "reg_token", None), [re.sub(r"^.*?blocks\.\d+\.", "", key) for key in model.state_dict() if "blocks." in key]
    return {"CLS": int(getattr(tokens, "cls_token", None) is not None), "REGISTERS": 0 if registers is None else registers.shape[1],
            "PATCH_NORM": int(norm(getattr(model, "patch_embed", None), "norm")), "NORM_PRE": int(norm(model, "norm_pre")),
            "FINAL_NORM": int(norm(model, "norm") or norm(model, "fc_norm")), "FC_NORM": int(norm(model, "fc_norm")),
            "LAYER_SCALE": int(any(key in ("ls1.gamma", "gamma_1") for key in state)),
            "QKV_BIAS": int(any(key in ("attn.qkv.bias", "attn.q_bias", "attn.q_proj.bias") for key in state))}


def facts(name, module, model):
    block = model.blocks[0]
    kind = block_kind(module, block)
    attention = block.attns[0].attn if hasattr(block, "attns") else getattr(block, "attn", block)
    mlp = getattr(block, "mlp", None)
    norm = getattr(block, "norm1", None) or getattr(block, "in_norm", None) or block.attns[0].norm
    # If the parts of a block cannot be inspected, the library does not support the model anyway.
    activation = ACTIVATIONS.get(type(getattr(mlp, "act", None)).__name__, "GELU" if kind in ("PARALLEL", "OTHER") else None)
    patch = getattr(getattr(model, "embeds", getattr(model, "patch_embed", None)), "patch_size", None)
    patch = None if module == "vision_transformer_hybrid" else patch
    return (model.embed_dim, len(model.blocks), patch[0] if patch else 0, attention.num_heads, activation, norm.eps, POOLINGS[model.global_pool], position(model),
            int(type(norm).__name__.startswith("Rms")), kind, colours(name))


def signature(state):
    """The shapes of the tensors except head and position table; None if the model is not plain."""
    names = {re.sub(r"blocks\.\d+\.", "blocks.0.", key) for key in state}
    first = {key: tuple(value.shape) for key, value in state.items() if not key.startswith("head")}
    odd = [key for key in names if key.startswith(("norm_pre", "fc_norm", "attn_pool", "rope", "embeds", "patch_embed.backbone"))
           or ".q_norm" in key or "rel_pos" in key or ".q_bias" in key or "_g." in key or ".mlp.norm" in key or "relative" in key]
    wanted = ("cls_token", "pos_embed", "norm.weight", "norm.bias", "patch_embed.proj.bias", "blocks.0.attn.qkv.bias",
              "blocks.0.mlp.fc1.weight")
    if odd or any(key not in first for key in wanted) or len(first["patch_embed.proj.weight"]) != 4:
        return None
    depth = 1 + max(int(key.split(".")[1]) for key in state if key.startswith("blocks."))
    dim, patch = first["patch_embed.proj.weight"][0], first["patch_embed.proj.weight"][-1]
    if first["blocks.0.mlp.fc2.weight"][1] != first["blocks.0.mlp.fc1.weight"][0]:
        return None
    registers = first["reg_token"][1] if "reg_token" in first else 0
    scale = 2 if "blocks.0.gamma_1" in first else int("blocks.0.ls1.gamma" in first)
    return dim, depth, first["blocks.0.mlp.fc1.weight"][0], patch, int("dist_token" in first), registers, scale


def survey():
    groups, rotary, plain = collections.defaultdict(list), collections.defaultdict(list), collections.defaultdict(set)
    prefixed, parts = [], collections.defaultdict(list)
    naflex = collections.defaultdict(list)
    pools = collections.defaultdict(list)
    for name in sorted(timm.list_models()):
        module = _registry._model_entrypoints[name].__module__.rsplit(".", 1)[1]
        if module not in MODULES:
            continue
        with torch.device("meta"):
            model = timm.create_model(name)
        row = facts(name, module, model)
        turns = rotation(model)
        if turns is not None:
            rotary[turns].append(name)
        size, patch = model.patch_embed.img_size if hasattr(model, "patch_embed") else None, None
        if size is not None:
            patch = model.patch_embed.patch_size
        square = size is None or size[0] == size[1] and size[0] % patch[0] == 0
        groups[row].append(name if square else f"{name}@{size[0]}")
        tokens = getattr(model, "embeds", model)
        for part in parts_of(model, tokens).items():
            if part not in USUAL:
                parts[part].append(name)
        if tokens is not model:
            naflex[resampling(tokens)].append(name)
        if getattr(model, "pool_include_prefix", False) and getattr(model, "attn_pool", None) is not None:
            prefixed.append(name)
        if module == "eva":
            pools[pooling_heads(model, row)].append(name)
        shape = signature(model.state_dict())
        if shape is not None:
            plain[shape].add(row[3:10])
    # Not from timm: MoCo v3's small model has the tensors of a DeiT-S, but 12 heads.
    plain[384, 12, 1536, 16, 0, 0, 0].add((12,))
    # DeiT-III's original names are also those of timm's rotary models with a table.
    rows = {shape: found for shape, found in plain.items() if shape[6] != 2}
    numbered = {"PART": {f"{fact}, {value}": names for (fact, value), names in parts.items()}, "MAP": pools}
    return groups, rotary, rows, naflex, {"PREFIX": prefixed}, numbered


def wrapped(names):
    parts = textwrap.wrap(" ".join(names), 128, break_on_hyphens=False)
    return [f'     "{part} "' for part in parts[:-1]] + [f'     "{parts[-1]}")']


def text():
    warnings.filterwarnings("ignore")
    groups, rotary, plain, naflex, lists, numbered = survey()
    lines = [HEAD.format(version=timm.__version__)]
    for row, names in sorted(groups.items(), key=str):
        dim, depth, patch, heads, activation, eps, pooling, where, rms, kind, colour = row
        lines.append(f"TIMM({dim}, {depth}, {patch}, {heads}, {activation}, {eps:g}, {pooling}, {where}, {rms}, {kind}, {colour},")
        lines += wrapped(names)
    lines.append("")
    for row, names in sorted(rotary.items()):
        lines.append("ROTARY(" + ", ".join(row) + ",")
        lines += wrapped(names)
    lines.append("")
    for (how, aspect), names in sorted(naflex.items()):
        lines.append(f"NAFLEX({how}, {aspect},")
        lines += wrapped(names)
    lines.append("")
    for kind, names in lists.items():
        lines.append(f"{kind}(")
        lines += wrapped(names)
        lines.append("")
    for kind, rows in numbered.items():
        for number, names in sorted(rows.items()):
            lines.append(f"{kind}({number},")
            lines += wrapped(names)
        lines.append("")
    for shape, found in sorted(plain.items()):
        same = {f[1:7] for f in found} == {("GELU", 1e-6, "CLS", "TABLE", 0, "PRE_NORM")}
        if len(found) == 1 and same:
            lines.append("PLAIN(" + ", ".join(map(str, shape + (next(iter(found))[0],))) + ")")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare only")
    options = parser.parse_args()
    made = text()
    if not options.check:
        FILE.write_text(made)
        return 0
    held = FILE.read_text()
    version = re.search(r"of timm (\S+):", held)[1]
    if version != timm.__version__:
        print(f"timm_architectures.py: skipped: the file is from timm {version}, but timm is {timm.__version__}")
        return 77
    if made != held:
        print(f"{FILE} differs from timm {version}: run tools/timm_architectures.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
