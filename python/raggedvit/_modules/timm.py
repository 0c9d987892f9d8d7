"""Reads timm's Vision Transformers: checks each part, and writes the facts that weights do not show as a config.json.

A part that the library may compute differently is refused by name."""

from __future__ import annotations

from typing import Any

from .reader import HEAD_DIM, Facts, Reader, config_text

ACTIVATIONS = {"GELU": "gelu", "GELUTanh": "gelu_tanh", "QuickGELU": "quick_gelu", "SiLU": "silu"}
POOLS = ("token", "avg", "map")


def read(r: Reader, m: Any, eva: bool, distilled: bool) -> Facts:
    r.expect(
        m.global_pool in POOLS, "global_pool", f"is {m.global_pool!r}; expected one of {', '.join(map(repr, POOLS))}"
    )
    r.expect(
        not distilled or m.global_pool == "token",
        "global_pool",
        f"is {m.global_pool!r}; expected 'token' of a distilled model",
    )
    _embedding(r, m)
    heads: set[int] = set()
    activations: set[str] = set()
    gates: set[bool] = set()
    r.part("blocks", m.blocks, "torch", "ModuleList" if eva else "Sequential")
    for i, block in enumerate(m.blocks):
        where = f"blocks.{i}"
        r.part(where, block, "timm", "EvaBlock" if eva else "Block")
        r.norm(f"{where}.norm1", block.norm1)
        r.norm(f"{where}.norm2", block.norm2)
        for scale in () if eva else ("ls1", "ls2"):
            r.nothing(f"{where}.{scale}", getattr(block, scale, None), "LayerScale")
        for drop in ("drop_path1", "drop_path2"):
            r.nothing(f"{where}.{drop}", getattr(block, drop, None), "DropPath")
        heads.add(_attention(r, f"{where}.attn", block.attn, m))
        activation, gated = _mlp(r, f"{where}.mlp", block.mlp)
        activations.add(activation)
        gates.add(gated)
    several: tuple[tuple[Any, str], ...] = (
        (heads, "have several numbers of heads"),
        (activations, "have several activations"),
        (gates, "are gated in part"),
    )
    for values, what in several:
        r.expect(len(values) == 1, "its blocks", f"{what}: {sorted(values)}")
    args: dict[str, Any] = {
        "num_heads": heads.pop(),
        "act_layer": activations.pop(),
        "img_size": [int(n) for n in m.patch_embed.img_size],
        "class_token": m.cls_token is not None,
        "reg_tokens": m.num_prefix_tokens - (m.cls_token is not None) - distilled,
        "global_pool": m.global_pool,
    }
    gated = gates.pop()
    if gated:
        args["swiglu_mlp"] = True
        del args["act_layer"]
    args["position"] = _positions(r, m, args)
    _pooling(r, m, eva, args)
    classes = r.heads(m, *(("head", "head_dist") if distilled else ("head",)))
    args["norm_layer"], args["norm_eps"] = r.norm_kind(), r.eps()
    if not classes and m.global_pool == "map":
        classes = m.embed_dim
    odd = _odd_part(r, m, eva, args)
    height, width = args["img_size"]
    return Facts(
        "timm",
        config_text(**args),
        height,
        width,
        m.num_prefix_tokens,
        args["num_heads"],
        len(m.blocks),
        classes,
        distilled and classes > 0,
        odd,
    )


def _odd_part(r: Reader, m: Any, eva: bool, args: dict[str, Any]) -> str:
    """Returns the part that makes a module more than a plain Vision Transformer; "" if it is plain."""
    if eva:
        return "it is an Eva"
    odd_blocks = (
        b.attn.qkv.bias is None or any(r.is_norm(getattr(part, "norm", None)) for part in (b.attn, b.mlp))
        for b in m.blocks
    )
    odd = {
        "dynamic_img_size is set": m.dynamic_img_size,
        "global_pool": m.global_pool != "token",
        "act_layer": args.get("act_layer") != "gelu",
        "norm_layer": args["norm_layer"] != "layernorm",
        "num_heads": m.embed_dim != HEAD_DIM * args["num_heads"],
        "norm_pre": r.is_norm(getattr(m, "norm_pre", None)),
        "norm": not r.is_norm(m.norm) or r.is_norm(m.fc_norm),
        "cls_token": m.cls_token is None,
        "patch_embed": r.is_norm(m.patch_embed.norm) or m.patch_embed.proj.bias is None,
        "its blocks": any(odd_blocks),
    }
    return next((part for part, is_odd in odd.items() if is_odd), "")


def _embedding(r: Reader, m: Any) -> None:
    r.part("patch_embed", m.patch_embed, "timm", "PatchEmbed")
    r.patches("patch_embed.proj", m.patch_embed.proj)
    r.optional_norm("patch_embed.norm", m.patch_embed.norm)
    flattens = m.patch_embed.flatten or m.dynamic_img_size  # the latter does so later
    r.expect(not m.patch_embed.dynamic_img_pad and flattens, "patch_embed", "pads images, or does not flatten")
    r.expect(
        m.patch_embed.img_size is not None, "patch_embed.img_size", "is None; the recorded forward has one image size"
    )
    r.nothing("patch_drop", m.patch_drop, "PatchDropout", "PatchDropoutWithIndices")
    for where in ("pos_drop", "head_drop"):
        r.nothing(where, getattr(m, where, None))
    for where in ("norm_pre", "norm", "fc_norm"):
        r.optional_norm(where, getattr(m, where, None))


def attention_itself(r: Reader, where: str, attention: Any, dim: int) -> int:
    """Checks an attention except for its linear layers, and returns the number of heads."""
    r.part(where, attention, "timm", "Attention", "EvaAttention", "AttentionRope")
    r.expect(getattr(attention, "gate", None) is None, f"{where}.gate", "is given; gated attention is not supported")
    for part in ("q_norm", "k_norm", "attn_drop"):
        r.nothing(f"{where}.{part}", getattr(attention, part, None))
    n = int(attention.num_heads)
    r.expect(
        abs(attention.scale - (dim / n) ** -0.5) < 1e-9,
        where,
        f"scales by {attention.scale}; expected 1 / sqrt({dim // n})",
    )
    return n


def _attention(r: Reader, where: str, attention: Any, m: Any) -> int:
    n, dim = attention_itself(r, where, attention, m.embed_dim), m.embed_dim
    r.nothing(f"{where}.proj_drop", getattr(attention, "proj_drop", None))
    r.optional_norm(f"{where}.norm", getattr(attention, "norm", None))
    for part in ("qkv", "q_proj", "k_proj", "v_proj", "proj"):
        if getattr(attention, part, None) is not None:
            r.linear(f"{where}.{part}", getattr(attention, part), needs_bias=False)
    r.expect(getattr(attention, "num_kv_heads", n) == n, where, "shares keys and values among heads")
    r.expect(attention.proj.in_features == dim, where, f"has {n} heads that are not {dim} columns together")
    return n


def _activation(r: Reader, where: str, part: Any) -> str:
    nn = r.torch.nn
    if type(part) is nn.GELU:
        return "gelu" if part.approximate == "none" else "gelu_tanh"
    name = ACTIVATIONS.get(type(part).__name__)
    r.expect(
        name is not None and (type(part) is nn.SiLU or r.is_a(part, "timm", *ACTIVATIONS)),
        where,
        f"is {part}; expected GELU, its tanh form, quick GELU or SiLU",
    )
    return str(name)


def _mlp(r: Reader, where: str, mlp: Any) -> tuple[str, bool]:
    r.part(where, mlp, "timm", "Mlp", "GluMlp", "SwiGLU")
    kind = type(mlp).__name__
    for part in ("fc1", "fc1_g", "fc1_x", "fc2"):
        if getattr(mlp, part, None) is not None:
            r.linear(f"{where}.{part}", getattr(mlp, part), needs_bias=False)
    for part in ("drop1", "drop2", "drop"):
        r.nothing(f"{where}.{part}", getattr(mlp, part, None))
    r.optional_norm(f"{where}.norm", getattr(mlp, "norm", None))
    activation = _activation(r, f"{where}.act", mlp.act)
    if kind != "Mlp":
        r.expect(
            activation == "silu" and not getattr(mlp, "gate_last", False),
            where,
            f"has a gate of {mlp.act}{', the last half' if getattr(mlp, 'gate_last', False) else ''}; expected SiLU"
            " of the first half",
        )
    return activation, kind != "Mlp"


def _positions(r: Reader, m: Any, args: dict[str, Any]) -> str:
    """Returns the kind of positions, and stores the parameters of rotary positions in args."""
    rope, table = getattr(m, "rope", None), m.pos_embed is not None
    r.expect(table or rope is not None, "pos_embed", "is missing, and so is rope")
    if rope is None:
        return "table"
    r.part("rope", rope, "timm", "RotaryEmbeddingCat", "RotaryEmbeddingDinoV3")
    index, reference = type(rope).__name__ == "RotaryEmbeddingCat", None
    if index:
        r.expect(
            getattr(rope, "grid_type", "index") == "index" and not rope.in_pixels,
            "rope",
            "has frequencies of pixels, or no index grid",
        )
        reference = rope.ref_feat_shape
    else:
        r.expect(
            rope.normalize_coords == "separate" and rope.min_period is None and rope.max_period is None,
            "rope",
            "normalises its coordinates otherwise, or has periods of its own",
        )
    halves = bool(getattr(rope, "rotate_half", False))  # older timm always rotates neighbouring columns
    for i, block in enumerate(m.blocks):
        attention = block.attn
        r.expect(
            bool(attention.rotate_half) == halves and attention.num_prefix_tokens == m.num_prefix_tokens,
            f"blocks.{i}.attn",
            "turns its columns otherwise than rope does",
        )
    r.expect(
        rope.dim == m.embed_dim // args["num_heads"], "rope", f"turns {rope.dim} columns; expected those of a head"
    )
    args.update(
        rope_temperature=float(rope.temperature),
        rope_grid_offset=float(rope.grid_offset),
        rope_rotate_half=halves,
        rope_grid_indexing=rope.grid_indexing,
        rope_type="cat" if index else "dinov3",
        ref_feat_shape=None if reference is None else [int(n) for n in reference],
    )
    return "both" if table else "rope"


def _pooling(r: Reader, m: Any, eva: bool, args: dict[str, Any]) -> None:
    args["fc_norm"] = r.is_norm(m.fc_norm)
    args["final_norm"] = r.is_norm(m.norm) or args["fc_norm"]
    args["pool_include_prefix"] = bool(getattr(m, "pool_include_prefix", eva and m.global_pool == "map"))
    pool = getattr(m, "attn_pool", None)
    r.expect((pool is not None) == (m.global_pool == "map"), "attn_pool", "and global_pool do not agree")
    if pool is None:
        return
    r.part("attn_pool", pool, "timm", "AttentionPoolLatent")
    r.expect(
        pool.pos_embed is None and pool.pool == "token" and pool.latent_len == 1 and pool.mlp is not None,
        "attn_pool",
        "is not of one query with an MLP",
    )
    for part in ("q", "kv", "proj"):
        r.linear(f"attn_pool.{part}", getattr(pool, part))
    for part in ("q_norm", "k_norm", "proj_drop"):
        r.nothing(f"attn_pool.{part}", getattr(pool, part, None))
    r.norm("attn_pool.norm", pool.norm)
    activation, gated = _mlp(r, "attn_pool.mlp", pool.mlp)
    r.expect(not gated and not r.is_norm(pool.mlp.norm), "attn_pool.mlp", "has a gate or a norm")
    args.update(attn_pool_num_heads=int(pool.num_heads), attn_pool_act_layer=activation)
