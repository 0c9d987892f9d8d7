"""Checkpoints of saved modules give the same models."""

import functools
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np

import support
import modules
from modules import hf_module, images, timm_family, timm_module, torch
import raggedvit
from raggedvit import Status
from raggedvit._modules import save

#: Options that the tensors do not show, or that contradict the architecture's name.
OTHERS = {
    "silu": dict(act_layer="silu"),
    "tanh": dict(act_layer="gelu_tanh"),
    "8 heads": dict(num_heads=8),
    "eps": dict(norm_layer=functools.partial(torch.nn.LayerNorm, eps=1e-3)),
    "mean": dict(global_pool="avg"),
    "mean of norms": dict(global_pool="avg", fc_norm=False),
    "CLS, fc_norm": dict(fc_norm=True),
    "registers": dict(reg_tokens=2, no_embed_class=True),
    "no CLS": dict(class_token=False, global_pool="avg"),
    "scales": dict(init_values=0.1),
    "no bias": dict(qkv_bias=False),
    "norm before": dict(pre_norm=True),
    "headless": dict(num_classes=0),
}


class SaveTest(support.Case):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "model.safetensors"

    def check(self, module, **options):
        """Checks that a saved module gives the same bits as from_module."""
        size = module.patch_embed.img_size if hasattr(module, "patch_embed") else modules.SIZE
        raggedvit.save(module, self.path, **options)
        wanted, found = (
            raggedvit.Model.from_module(module, n_threads=1),
            raggedvit.Model(self.path, "cpu", wanted_type(module), n_threads=1),
        )
        x = images(3, size=tuple(size) if isinstance(size, (tuple, list)) else size).numpy()
        outputs = dict(features=True, pooled=wanted.info.n_classes > 0)
        one, other = found.classify(x, **outputs), wanted.classify(x, **outputs)
        for name in ("logits", "features", "pooled"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        self.assertEqual(found.class_names, wanted.class_names)
        self.assertEqual([file.name for file in self.path.parent.iterdir()], [self.path.name])
        return found

    def test_every_module(self):
        for what, make in modules.MODULES.items():
            with self.subTest(what):
                self.check(make())
        for what, options in modules.FAMILIES.items():
            with self.subTest(what):
                self.check(timm_family(**options))
        for what, options in OTHERS.items():
            with self.subTest(what):
                self.check(timm_family("vit_base_patch16_224", **options))

    def test_types(self):
        safetensors = __import__("safetensors.torch").torch
        for dtype in (torch.float16, torch.bfloat16, torch.float64):
            with self.subTest(dtype):
                module = timm_module().to(dtype)
                module.head.float()  # a mix of types: the larger ones are stored first
                self.check(module)
                for name, tensor in safetensors.load_file(self.path).items():
                    self.assertTrue((tensor == module.state_dict()[name].to(tensor.dtype)).all())

    def test_images_and_labels(self):
        module = timm_family("vit_base_patch16_clip_224")
        names = [f"kind {i}, or so" for i in range(7)]
        module.pretrained_cfg = {
            **module.pretrained_cfg,
            "crop_mode": "squash",
            "crop_pct": 0.8,
            "interpolation": "bilinear",
            "label_names": names,
        }
        model = self.check(module)
        self.assertEqual(model.class_names, names)
        self.assertEqual((model.recipe.fit, model.recipe.filter, model.recipe.resize), ("squash", "bilinear", (40, 40)))
        np.testing.assert_allclose(model.recipe.mean, module.pretrained_cfg["mean"], rtol=1e-6)
        module = hf_module(id2label={i: f"kind {i}" for i in range(7)})
        self.assertEqual(self.check(module).class_names[6], "kind 6")
        from transformers import ViTImageProcessor

        processor = ViTImageProcessor(
            size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3], image_std=[0.4, 0.5, 0.6], resample=3
        )
        recipe = self.check(module, processor=processor).recipe
        self.assertEqual(
            (recipe.fit, recipe.filter, recipe.processor, recipe.resize), ("squash", "bicubic", "hf", (32, 32))
        )
        np.testing.assert_allclose((*recipe.mean, *recipe.std), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), rtol=1e-6)

    def test_a_name_that_contradicts_the_tensors(self):
        """The file contains only an architecture's name, but the module has other arguments."""
        module = timm_family(
            "vit_tiny_patch16_224", embed_dim=192, depth=12, num_heads=3, patch_size=16, global_pool="avg"
        )
        save._write(str(self.path), module.state_dict(), {"architecture": "vit_tiny_patch16_224"}, None)
        self.fails(
            Status.BAD_FILE,
            "'fc_norm.weight' is present, .*metadata: architecture",
            raggedvit.Model,
            self.path,
            "cpu",
        )

    def test_failed_writes_keep_the_old_file(self):
        module = timm_module()
        raggedvit.save(module, self.path)
        os.chmod(self.path, 0o640)
        before = self.path.read_bytes()
        for failing in ("fsync", "replace"):
            with mock.patch.object(os, failing, side_effect=OSError(28, "No space left on device")):
                self.fails(
                    Status.BAD_FILE,
                    "model.safetensors: cannot be written: No space left on device",
                    raggedvit.save,
                    timm_module(seed=1),
                    self.path,
                )
        self.assertEqual(self.path.read_bytes(), before)
        raggedvit.save(timm_module(seed=1), self.path)
        self.assertNotEqual(self.path.read_bytes(), before)
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o640)
        self.assertEqual(len(list(self.path.parent.iterdir())), 1)
        fails, folder = self.fails, self.path.parent
        fails(Status.INVALID_ARGUMENT, "ends in .safetensors", raggedvit.save, module, folder / "model.pt")
        fails(Status.BAD_FILE, "cannot be written", raggedvit.save, module, folder / "nowhere" / "a.safetensors")
        os.mkfifo(folder / "pipe.safetensors")
        fails(Status.INVALID_ARGUMENT, "exists and is not a file", raggedvit.save, module, folder / "pipe.safetensors")
        fails(Status.INVALID_ARGUMENT, "expected an image processor", raggedvit.save, module, self.path, processor=3)
        fails(Status.UNSUPPORTED, "module: blocks.0.attn.q_norm", raggedvit.save, timm_module(qk_norm=True), self.path)
        (folder / "config.json").write_text("{}")
        fails(Status.INVALID_ARGUMENT, "config.json is next to it", raggedvit.save, module, self.path)


def wanted_type(module):
    return raggedvit._modules.modules.storage_of(module)


if __name__ == "__main__":
    unittest.main()
