"""Small modules of timm and Hugging Face with random weights. A test is skipped if the library that it needs is not
installed."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")

torch.set_num_threads(1)  # small operations are slower with more threads
SIZE, PATCH, TOKENS = 32, 8, 17
HF_SIZES = dict(
    hidden_size=128,
    num_attention_heads=2,
    intermediate_size=256,
    num_hidden_layers=4,
    image_size=SIZE,
    patch_size=PATCH,
)
# A policy and parameters for a model of 4 blocks.
POLICIES = {
    "none": {},
    "l2": dict(keep=0.6, blocks=(1,)),
    "l2-threshold": dict(threshold=11.0, blocks=(1,)),
    "evit": dict(keep=0.6, blocks=(1, 2)),
    "evit-fused": dict(keep=0.5, blocks=(0, 2)),
    "evit-paper": dict(keep=0.5, blocks=(1,)),
    "ats": dict(n_samples=8, blocks=(1, 2)),
    "ats-paper": dict(mass=0.7, blocks=(1,)),
    "tome": dict(merges=3),
    "random": dict(keep=0.5, blocks=(1,), seed=3),
    "received": dict(keep=0.6, blocks=(1, 2)),
    "fastervlm": dict(keep=0.5),
}


def randomize(module, seed=0):
    """Sets random weights that make scores differ; the libraries' initial ones are nearly zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in module.named_parameters():
            spread = torch.randn(p.shape, generator=generator)
            if "norm" in name or "gamma" in name:
                p.copy_(0.2 * spread + (1 if name.endswith("weight") or "gamma" in name else 0))
            elif p.ndim < 2:
                p.copy_(0.2 * spread)
            elif p.shape[0] == 1:
                p.copy_(0.5 * spread)
            else:
                p.copy_(1.2 * spread / p[0].numel() ** 0.5)
    return module.eval()


def timm_module(distilled=False, seed=0, **options):
    try:
        from timm.models.deit import VisionTransformerDistilled
        from timm.models.vision_transformer import VisionTransformer
    except ImportError:
        raise unittest.SkipTest("timm is not installed")
    defaults = dict(img_size=SIZE, patch_size=PATCH, embed_dim=128, depth=4, num_heads=2, num_classes=7)
    return randomize((VisionTransformerDistilled if distilled else VisionTransformer)(**{**defaults, **options}), seed)


def timm_family(name, seed=0, **options):
    """Returns a small model of timm's architecture of this name."""
    try:
        import timm
    except ImportError:
        raise unittest.SkipTest("timm is not installed")
    defaults = dict(img_size=SIZE, patch_size=PATCH, embed_dim=128, depth=2, num_heads=4, num_classes=7)
    return randomize(timm.create_model(name, **{**defaults, **options}), seed)


# Architectures of timm that differ in properties that the weights do not show.
FAMILIES = {
    "one of several sizes": dict(name="vit_base_patch16_224", dynamic_img_size=True),
    "clip": dict(name="vit_base_patch16_clip_224"),
    "clip, quick gelu": dict(name="vit_base_patch16_clip_quickgelu_224"),
    "siglip": dict(name="vit_base_patch16_siglip_224", num_classes=0),
    "siglip, head": dict(name="vit_base_patch16_siglip_224"),
    "siglip, tanh": dict(name="vit_base_patch32_siglip_256", num_classes=0),
    "siglip, mean": dict(name="vit_base_patch16_siglip_gap_224"),
    "mean, fc_norm": dict(name="vit_base_patch16_224", global_pool="avg"),
    "mean, norm": dict(name="vit_base_patch16_224", global_pool="avg", fc_norm=False),
    "mean, no norm": dict(name="vit_base_patch16_224", global_pool="avg", final_norm=False),
    "mean, registers, no cls": dict(name="vit_so150m_patch16_reg4_gap_256", reg_tokens=3, mlp_ratio=2),
    "rms norm, silu": dict(name="vit_base_patch16_224", norm_layer="rmsnorm", act_layer="silu"),
    "no biases": dict(name="vit_base_patch16_224", qkv_bias=False),
    "dinov2, gated": dict(name="vit_giant_patch14_dinov2", mlp_ratio=1.34375),
    "dinov3": dict(name="vit_small_patch16_dinov3"),
    "dinov3, cls, biases": dict(name="vit_small_patch16_dinov3_qkvb", global_pool="token"),
    "dinov3, gated": dict(name="vit_small_plus_patch16_dinov3", mlp_ratio=2),
    "eva02, norms inside": dict(name="eva02_base_patch14_224", mlp_ratio=2),
    "eva02": dict(name="eva02_tiny_patch14_224", mlp_ratio=2),
    "rope and table": dict(name="vit_small_patch16_rope_ape_224"),
    "pe core": dict(name="vit_pe_core_base_patch16_224"),
    "pe core, no cls": dict(name="vit_pe_core_gigantic_patch14_448", mlp_ratio=2, num_classes=0),
    "aimv2": dict(name="aimv2_large_patch14_224", mlp_ratio=2, num_heads=1),
    "rectangular": dict(name="vit_base_patch16_224", img_size=(SIZE, 3 * SIZE // 2), num_heads=2),
    "rectangular, dinov3": dict(name="vit_small_patch16_dinov3", img_size=(3 * SIZE // 2, SIZE)),
}


def hf_module(name="ViTForImageClassification", seed=0, **options):
    try:
        import transformers
    except ImportError:
        raise unittest.SkipTest("transformers is not installed")
    config = (transformers.ViTConfig if name.startswith("ViT") else transformers.DeiTConfig)(
        **{**HF_SIZES, "num_labels": 7, **options}
    )
    return randomize(getattr(transformers, name)(config), seed)


MODULES = {
    "timm": timm_module,
    "timm layer scale, registers": lambda: timm_module(init_values=0.5, reg_tokens=2, no_embed_class=True),
    "timm distilled": lambda: timm_module(distilled=True),
    "hf vit": hf_module,
    "hf deit": lambda: hf_module("DeiTForImageClassification"),
    "hf deit with teacher": lambda: hf_module("DeiTForImageClassificationWithTeacher"),
}


def images(n=5, seed=1, size=SIZE):
    height, width = size if isinstance(size, tuple) else (size, size)
    return torch.randn(n, 3, height, width, generator=torch.Generator().manual_seed(seed))


def logits_of(module, x):
    with torch.no_grad():
        out = module(x)
    return out if isinstance(out, torch.Tensor) else out.logits


def difference(a, b):
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())
