"""Small modules of timm and Hugging Face with random weights, for the tests; each skips where its library is missing."""

import unittest

import numpy as np

try:
    import torch
except ImportError:
    raise unittest.SkipTest("PyTorch is not installed")

torch.set_num_threads(1)  # small products lose more than they gain
SIZE, PATCH, TOKENS = 32, 8, 17
HF_SIZES = dict(hidden_size=128, num_attention_heads=2, intermediate_size=256, num_hidden_layers=4, image_size=SIZE, patch_size=PATCH)
# A policy and parameters for a model of 4 blocks.
POLICIES = {
    "none": {}, "l2": dict(keep=0.6, blocks=(1,)), "l2-threshold": dict(threshold=11.0, blocks=(1,)), "evit": dict(keep=0.6, blocks=(1, 2)),
    "evit-fused": dict(keep=0.5, blocks=(0, 2)), "evit-paper": dict(keep=0.5, blocks=(1,)), "ats": dict(n_samples=8, blocks=(1, 2)),
    "ats-paper": dict(mass=0.7, blocks=(1,)), "tome": dict(merges=3), "random": dict(keep=0.5, blocks=(1,), seed=3),
    "received": dict(keep=0.6, blocks=(1, 2)), "fastervlm": dict(keep=0.5),
}


def randomize(module, seed=0):
    """Weights that make scores differ: the libraries' own are nearly zero."""
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
    given = dict(img_size=SIZE, patch_size=PATCH, embed_dim=128, depth=4, num_heads=2, num_classes=7)
    return randomize((VisionTransformerDistilled if distilled else VisionTransformer)(**{**given, **options}), seed)


def hf_module(name="ViTForImageClassification", seed=0, **options):
    try:
        import transformers
    except ImportError:
        raise unittest.SkipTest("transformers is not installed")
    config = (transformers.ViTConfig if name.startswith("ViT") else transformers.DeiTConfig)(**{**HF_SIZES, "num_labels": 7, **options})
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
    return torch.randn(n, 3, size, size, generator=torch.Generator().manual_seed(seed))


def logits_of(module, x):
    with torch.no_grad():
        out = module(x)
    return out if isinstance(out, torch.Tensor) else out.logits


def difference(a, b):
    return float(np.abs(np.asarray(a, np.float64) - np.asarray(b, np.float64)).max())
