"""Compares the optional outputs (pooled rows, projections, block features, received attention) with timm and Hugging
Face."""

import pathlib
import tempfile
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status


class DemoTest(unittest.TestCase):
    """Tests with the demo's DeiT, which need no other library."""

    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.images = support.tiles(3)

    def test_outputs_that_are_not_requested(self):
        result = self.model.classify(self.images[:1])
        for name in (
            "features",
            "cls_attention",
            "pooled",
            "projected",
            "block_features",
            "block_stage",
            "received_attention",
        ):
            self.assertIsNone(getattr(result, name))
        self.assertEqual(self.model.info.embedding_dim, 0)

    def test_layouts(self):
        result = self.model.classify(
            self.images,
            Policy("evit", keep=0.5, blocks=[3, 6]),
            features=True,
            pooled=True,
            block_features=-2,
            received_attention=3,
        )
        self.assertEqual((result.block_stage, result.received_stage), (1, -1))
        self.assertEqual(result.block_features.shape, (result.cu_seqlens[1][-1], 192))
        self.assertEqual(result.received_attention.shape, (3 * 197, 3))
        np.testing.assert_allclose(result.received_attention.reshape(3, 197, 3).sum(1), 1, atol=1e-5)
        np.testing.assert_allclose(result.pooled, result.features[result.cu_seqlens[1][:-1]], atol=1e-5)
        sessions = len(self.model._sessions)
        again = self.model.classify(
            self.images,
            Policy("evit", keep=0.5, blocks=[3, 6]),
            features=True,
            pooled=True,
            block_features=10,
            received_attention=-9,
        )
        np.testing.assert_array_equal(again.block_features, result.block_features)
        self.assertEqual(len(self.model._sessions), sessions)
        other = self.model.classify(self.images, Policy("evit", keep=0.5, blocks=[3, 6]), block_features=2)
        self.assertEqual((other.block_stage, other.block_features.shape), (-1, (3 * 197, 192)))

    def test_refusals(self):
        with self.assertRaisesRegex(RaggedVitError, "neither a CLIP with its projection nor a SigLIP") as caught:
            self.model.classify(self.images[:1], projected=True)
        self.assertEqual(caught.exception.status, Status.UNSUPPORTED)


class EncoderTest(unittest.TestCase):
    """Tiny random models of timm and Hugging Face, in float32."""

    @classmethod
    def setUpClass(cls):
        import modules  # skips without PyTorch

        cls.modules, cls.torch = modules, modules.torch
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def saved(self, name, config):
        """Returns a model of transformers, and the Model of its saved files."""
        try:
            import transformers
        except ImportError:
            raise unittest.SkipTest("transformers is not installed")
        encoder = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=2)
        vision = dict(encoder, image_size=32, patch_size=8)
        text = dict(encoder, vocab_size=50, max_position_embeddings=16, bos_token_id=1, eos_token_id=2, pad_token_id=0)
        made = getattr(transformers, config)(
            text_config=text, vision_config=vision, **({"projection_dim": 24} if name == "CLIPModel" else {})
        )
        made._attn_implementation = "eager"
        module = self.modules.randomize(getattr(transformers, name)(made))
        folder = pathlib.Path(self.folder.name) / name
        module.save_pretrained(folder)
        return module, raggedvit.Model(folder / "model.safetensors", device="cpu", n_threads=2)

    def close(self, found, wanted, most=2e-5):
        wanted = wanted.detach()
        self.assertEqual(tuple(found.shape), tuple(wanted.shape))
        self.assertLess(float((found - wanted).abs().max()), most * (1 + float(wanted.abs().max())))

    def test_clip(self):
        module, model = self.saved("CLIPModel", "CLIPConfig")
        x = self.modules.images(3)
        with self.torch.no_grad():
            vision = module.vision_model(x, output_hidden_states=True, output_attentions=True)
            projection = module.visual_projection(vision.pooler_output)
        self.assertEqual(model.info.embedding_dim, 24)
        result = model.classify(x, pooled=True, projected=True, block_features=-2, received_attention=1)
        self.close(result.pooled, vision.pooler_output)
        self.close(result.projected, projection)
        self.close(result.logits, projection)
        # LLaVA's: the patches of hidden_states[-2].
        self.close(result.block_features.reshape(3, 17, 64)[:, 1:], vision.hidden_states[-2][:, 1:])
        self.close(result.received_attention.reshape(3, 17, 2), vision.attentions[1].mean(2).transpose(1, 2))
        result = model.classify(x, projected=True, normalized=True)
        self.close(result.projected, self.torch.nn.functional.normalize(projection, dim=-1), 1e-6)

    def test_siglip(self):
        module, model = self.saved("SiglipModel", "SiglipConfig")
        x = self.modules.images(2)
        with self.torch.no_grad():
            vision = module.vision_model(x, output_hidden_states=True)
        result = model.classify(x, pooled=True, projected=True, block_features=-1)
        self.assertEqual(model.info.embedding_dim, 64)
        self.close(result.pooled, vision.pooler_output)
        self.close(result.projected, vision.pooler_output)
        self.close(result.block_features.reshape(2, 16, 64), vision.hidden_states[-1])

    def test_pooled_rows_of_timm(self):
        from safetensors.torch import save_file

        x = self.modules.images(2)
        for pooling, options in (
            ("cls", {}),
            ("cls", dict(distilled=True)),
            ("mean_norm", dict(global_pool="avg")),
            ("mean", dict(global_pool="avg", fc_norm=False)),
        ):
            module = self.modules.timm_module(**options)
            path = pathlib.Path(self.folder.name) / "timm.safetensors"
            save_file(module.state_dict(), path)
            model = raggedvit.Model(path, device="cpu", n_threads=2, architecture="vit", n_heads=2, pooling=pooling)
            with self.subTest(pooling, **options), self.torch.no_grad():
                rows = module.forward_features(x)
                wanted = (
                    rows[:, :2].flatten(1) if options.get("distilled") else module.forward_head(rows, pre_logits=True)
                )
                self.close(model.classify(x, pooled=True).pooled, wanted)

    def test_pruned(self):
        """Each image has the same outputs in a batch of one, and tensors give tensors."""
        _, model = self.saved("CLIPModel", "CLIPConfig")
        x = self.modules.images(3)
        self.alone_as_in_a_batch(model, x)

    def test_cuda(self):
        """CUDA tensors are read in place, and the outputs on the device are those of the CPU."""
        if (
            not any(d.backend == "cuda" and d.index >= 0 for d in raggedvit.devices())
            or not self.torch.cuda.is_available()
        ):
            self.skipTest("no CUDA device")
        self.saved("CLIPModel", "CLIPConfig")
        path = pathlib.Path(self.folder.name) / "CLIPModel" / "model.safetensors"
        model, cpu = raggedvit.Model(path, device="cuda"), raggedvit.Model(path, device="cpu")
        x = self.modules.images(3)
        ask = dict(
            policy=Policy("evit", keep=0.5, blocks=[1]),
            pooled=True,
            projected=True,
            normalized=True,
            block_features=0,
            received_attention=0,
        )
        found, wanted = model.classify(x.cuda(), **ask), cpu.classify(x, **ask)
        for name in ("logits", "pooled", "projected", "block_features", "received_attention"):
            self.assertTrue(getattr(found, name).is_cuda)
            self.close(getattr(found, name).cpu(), getattr(wanted, name), 1e-4)

    def alone_as_in_a_batch(self, model, x):
        ask = dict(
            policy=Policy("evit", keep=0.5, blocks=[1]),
            pooled=True,
            projected=True,
            block_features=-1,
            received_attention=-1,
        )
        whole = model.classify(x, **ask)
        self.assertEqual((whole.block_stage, whole.received_stage), (0, 0))
        cu = whole.cu_seqlens[0]
        for i in range(3):
            one = model.classify(x[i : i + 1], **ask)
            self.close(one.projected, whole.projected[i : i + 1], 1e-6)
            self.close(one.pooled, whole.pooled[i : i + 1], 1e-6)
            self.close(one.block_features, whole.block_features[cu[i] : cu[i + 1]], 1e-6)
            self.close(one.received_attention, whole.received_attention[cu[i] : cu[i + 1]], 1e-6)
        for name in ("pooled", "projected", "block_features", "received_attention"):
            self.assertIsInstance(getattr(whole, name), self.torch.Tensor)


if __name__ == "__main__":
    unittest.main()
