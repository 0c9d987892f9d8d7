"""Images of different grids in one batch."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status


def patches_of(image, size):
    """Returns the patches [n, size * size * channels] of an image [channels, height, width], each in the order (y, x,
    channel)."""
    channels, height, width = image.shape
    cut = image.reshape(channels, height // size, size, width // size, size)
    return cut.transpose(1, 3, 2, 4, 0).reshape(-1, size * size * channels)


class DemoTest(unittest.TestCase):
    """Tests with the demo's DeiT, which need no other library."""

    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.images = support.tiles(2)
        cls.patches = [patches_of(image, 16) for image in cls.images]

    def test_grid_of_the_position_table(self):
        """On the grid of the position table, results equal those of classify up to rounding."""
        by_patches = self.model.prepare(Policy("evit", keep=0.6), inputs="patches", max_images=2, features=True)
        result = by_patches(np.concatenate(self.patches), [(14, 14)] * 2)
        wanted = self.model.classify(self.images, Policy("evit", keep=0.6), features=True)
        np.testing.assert_allclose(result.logits, wanted.logits, atol=1e-3)
        np.testing.assert_array_equal(result.cu_seqlens, wanted.cu_seqlens)
        np.testing.assert_array_equal(np.concatenate(result.kept[-1]), np.concatenate(wanted.kept[-1]))
        self.assertEqual(result.features.shape, wanted.features.shape)

    def test_batch_of_one_equals_batch(self):
        by_patches = self.model.prepare(
            "l2", inputs="patches", max_images=3, max_tokens=400, max_len=300, block_features=0
        )
        grids = [(3, 5), (14, 14), (1, 9)]
        parts = [self.patches[0][:15], self.patches[1], self.patches[0][:9]]
        result = by_patches(np.concatenate(parts), np.array(grids))
        self.assertEqual((result.block_stage, len(result.block_features)), (-1, 3 + 15 + 196 + 9))
        for i, (patches, grid) in enumerate(zip(parts, grids)):
            one = by_patches(patches, [grid])
            np.testing.assert_array_equal(one.logits[0], result.logits[i])
            np.testing.assert_array_equal(one.kept[0][0], result.kept[0][i])
            self.assertEqual(len(one.kept[0][0]), max(1, (1 + len(patches)) // 2))

    def test_pixelprune(self):
        info = next(policy for policy in raggedvit.policies() if policy.name == "pixelprune")
        self.assertEqual((info.parameters, info.tau, info.blocks), (("tau",), 0.0, (0,)))
        first, step = self.patches[0][:1], np.float32(0.01)
        patches = np.concatenate(
            [first] * 6 + [np.repeat(first, 12, 0) + step * (np.arange(12) % 2)[:, None].astype(np.float32)]
        )
        for tau, kept in ((0, [0, 1, 2, 3, 4]), (0.01, [0, 1])):  # columns alternate between two patches
            result = self.model.prepare(Policy("pixelprune", tau=tau), inputs="patches", max_images=2)(
                patches, [(2, 3), (3, 4)]
            )
            self.assertEqual([rows.tolist() for rows in result.kept[0]], [[0, 1], kept])
        exact = self.model.prepare("pixelprune", inputs="patches", max_images=1, max_len=13)(
            np.repeat(first, 12, 0), [(3, 4)]
        )
        self.assertEqual(exact.kept[0][0].tolist(), [0, 1])
        with self.assertRaisesRegex(RaggedVitError, "tau is 1.5, expected 0..1"):
            self.model.prepare(Policy("pixelprune", tau=1.5), inputs="patches")
        with self.assertRaisesRegex(RaggedVitError, "tau is given, but the policy l2"):
            self.model.prepare(Policy("l2", tau=0.1), inputs="patches")

    def test_refusals(self):
        by_patches = self.model.prepare(inputs="patches", max_images=2, max_tokens=60, max_len=40)
        row = self.patches[0]
        for patches, grids, word in (
            (row[:20], [(0, 4), (4, 5)], "image 0 has 0 x 4 patches"),
            (row[:49], [(7, 7)], "image 0 has 7 x 7 patches and so 50 tokens, the session's max_len is 40"),
            (row[:60], [(5, 6), (5, 6)], "with image 1, of 5 x 6 patches, the batch has 62 tokens"),
            (row[:3], [(1, 1)] * 3, "n_images is 3"),
            (row[:3], [(2, 2)], "3 rows, but the grids are of 4 patches"),
            (row[:4, :9], [(2, 2)], "expected floating point"),
            (row[:4], [2, 2], "expected integers"),
            (row[:4], [(2**40, 2)], "x 2 patches, expected 1 to 32767 a side"),
        ):
            with self.subTest(word), self.assertRaisesRegex(RaggedVitError, word) as caught:
                by_patches(patches, grids)
            self.assertEqual(caught.exception.status, Status.INVALID_ARGUMENT)
        for options in (
            dict(max_tokens=9),
            dict(features=True),
            dict(inputs="patches", max_bytes=9),
            dict(inputs="slot", max_len=9),
        ):
            with self.subTest(options), self.assertRaises(TypeError):
                self.model.prepare(**options)
        for options, word in (
            (dict(inputs="patches", max_len=1), "max_len is 1"),
            (dict(inputs="patches", policy="mask"), "not supported with inputs"),
            (dict(inputs="pixels"), "inputs is 'pixels'; expected one of images, patches, slot"),
        ):
            with self.subTest(word), self.assertRaisesRegex(RaggedVitError, word):
                self.model.prepare(**options)


class NaFlexTest(unittest.TestCase):
    """Compares with transformers' NaFlex SigLIP2, which pads."""

    def test_siglip2(self):
        import modules  # skips without PyTorch

        torch = modules.torch
        try:
            from transformers import Siglip2VisionConfig, Siglip2VisionModel
        except ImportError:
            raise unittest.SkipTest("transformers has no Siglip2VisionModel")
        config = Siglip2VisionConfig(
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            patch_size=4,
            num_patches=16,
        )
        module = modules.randomize(Siglip2VisionModel(config))
        grids = torch.tensor([(3, 5), (4, 4), (7, 2)])
        rows, mask = torch.randn(3, 16, 48), torch.arange(16) < grids.prod(1)[:, None]
        with torch.no_grad():
            wanted = module(pixel_values=rows, pixel_attention_mask=mask.int(), spatial_shapes=grids).pooler_output
        with tempfile.TemporaryDirectory() as folder:
            module.save_pretrained(folder)
            model = raggedvit.Model(pathlib.Path(folder) / "model.safetensors", device="cpu", n_threads=2)
        result = model.prepare(inputs="patches", max_images=3)(rows[mask], grids)
        np.testing.assert_allclose(result.logits, wanted, atol=2e-5 * (1 + float(wanted.abs().max())))


def qwen3_encoder(folder):
    """Writes a small Qwen3-VL encoder with random weights, and the names and shapes of a dump; returns its path."""
    with open(support.ROOT / "tests/model/dumps.jsonl") as lines:
        dump = next(dump for dump in map(json.loads, lines) if dump["name"] == "qwen3_vl")
    random, header, data = np.random.default_rng(1), {}, b""
    for name, shape, mean, *_ in dump["tensors"]:
        values = (mean + 0.2 * random.standard_normal(shape)).astype(np.float32)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + values.nbytes]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    path = pathlib.Path(folder, "model.safetensors")
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    path.with_name("config.json").write_text(json.dumps(dump["config"]))
    return path


class EncoderTest(support.Case):
    """Tests that need no other library."""

    grids, asked = (
        [(4, 6), (2, 2), (10, 6)],
        dict(inputs="patches", max_images=4, max_tokens=100, max_len=60, merged=True, deepstack=True),
    )

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.model = raggedvit.Model(qwen3_encoder(folder), device="cpu", n_threads=2)
        cls.rows = np.random.default_rng(2).standard_normal((88, 96), np.float32)

    def test_output_arrays(self):
        by_patches = self.model.prepare(**self.asked)
        wanted = by_patches(self.rows, self.grids)
        out, stacked = np.full((23, 12), 7, np.float32), np.full((2, 22, 12), 7, np.float32)
        found = by_patches(self.rows, self.grids, out=out, deepstack_out=stacked)
        self.assertTrue(np.shares_memory(found.merged, out))
        np.testing.assert_array_equal(out[:22], wanted.merged)
        np.testing.assert_array_equal(stacked, wanted.deepstack)
        self.assertTrue((out[22:] == 7).all())
        self.assertEqual((found.merged.shape, [part.shape for part in found.deepstack]), ((22, 12), [(22, 12)] * 2))
        np.testing.assert_array_equal(
            by_patches(self.rows, self.grids, deepstack_out=[None, stacked[0]]).deepstack[0], wanted.deepstack[0]
        )
        pruned = self.model.prepare(Policy("l2", keep=0.5, blocks=[1]), **self.asked)
        found = pruned(self.rows, self.grids, out=out[:11])
        np.testing.assert_array_equal(found.merged, pruned(self.rows, self.grids).merged)

    def test_refusals(self):
        status, by_patches = Status.INVALID_ARGUMENT, self.model.prepare(**self.asked)
        for words, out in (
            ("out has 21 rows, but the batch has 22 merge groups", np.zeros((21, 12), np.float32)),
            (r"out is \[22, 11\]; expected \[rows, 12\]", np.zeros((22, 11), np.float32)),
            ("out is ndarray; expected a writable, contiguous", np.zeros((22, 12))),
            ("out is ndarray; expected a writable, contiguous", np.zeros((22, 24), np.float32)[:, ::2]),
        ):
            self.fails(status, f"^{words}", by_patches, self.rows, self.grids, out=out)
        self.fails(
            status, "deepstack_out has 1 arrays; expected 2", by_patches, self.rows, self.grids, deepstack_out=[None]
        )
        self.fails(
            status,
            r"deepstack_out\[1\] is \[22\]",
            by_patches,
            self.rows,
            self.grids,
            deepstack_out=[None, np.zeros(22, np.float32)],
        )
        bare = self.model.prepare(**{**self.asked, "merged": False})
        self.fails(
            status,
            "out is given, but prepare was not asked",
            bare,
            self.rows,
            self.grids,
            out=np.zeros((22, 12), np.float32),
        )
        self.fails(
            status, "on_device is True, but the model is on cpu", self.model.prepare, on_device=True, **self.asked
        )
        self.assertRaisesRegex(TypeError, "on_device", self.model.prepare, on_device=True)
        raw_image = np.zeros((40, 40, 3), np.uint8)
        for call in (
            lambda: self.model.classify([raw_image]),
            lambda: self.model([raw_image]),
            self.model.prepare,
            lambda: self.model.prepare(inputs="slot"),
        ):
            self.fails(Status.UNSUPPORTED, r"model.prepare\(inputs=.patches., merged=True\) returns a function", call)


class QwenTest(unittest.TestCase):
    """Vision encoders of transformers that merge groups of patches."""

    sizes = dict(patch_size=4, hidden_size=32, num_heads=2, depth=3, out_hidden_size=12, intermediate_size=44)

    def encoder(self, name, **more):
        import modules  # skips without PyTorch

        try:
            import transformers.models.qwen2_5_vl.modeling_qwen2_5_vl as old
            import transformers.models.qwen3_vl.modeling_qwen3_vl as new
        except ImportError:
            raise unittest.SkipTest("transformers has not the encoders of Qwen2.5-VL and Qwen3-VL")
        kind = getattr(old if hasattr(old, name) else new, name)
        module = modules.randomize(kind(kind.config_class(**self.sizes, **more)))
        with tempfile.TemporaryDirectory() as folder:
            module.save_pretrained(folder)
            return module, raggedvit.Model(pathlib.Path(folder) / "model.safetensors", device="cpu", n_threads=2)

    def check(self, module, model):
        import torch

        grids = torch.tensor([(1, 4, 6), (2, 6, 4), (1, 2, 10)])
        rows = torch.randn(int(grids.prod(1).sum()), 3 * 2 * 4 * 4)
        with torch.no_grad():
            wanted = module(rows, grid_thw=grids)
        found = dict(merged=True, deepstack=model.info.n_deepstack > 0, features=True)
        by_patches = model.prepare(inputs="patches", max_images=4, max_tokens=92, max_len=24, **found)
        result = by_patches(rows, [(4, 6), (6, 4), (6, 4), (2, 10)])  # the second is a video
        np.testing.assert_allclose(
            result.merged, wanted.pooler_output, atol=2e-5 * (1 + float(wanted.pooler_output.abs().max()))
        )
        self.assertEqual(result.features.shape, (92, 32))
        return wanted, result

    def test_qwen2_5(self):
        module, model = self.encoder(
            "Qwen2_5_VisionTransformerPretrainedModel", window_size=16, fullatt_block_indexes=[1]
        )
        self.assertEqual((model.info.merge, model.info.window, model.info.patch_frames), (2, 2, 2))
        self.check(module, model)
        for options, word in (
            (dict(inputs="patches", deepstack=True), "the model has no deepstack mergers"),
            (dict(inputs="patches", policy=Policy("evit", blocks=[1])), "evit drops single patches"),
            (dict(inputs="patches", policy=Policy("received", blocks=[0])), "whose attention is within windows"),
        ):
            with self.subTest(word), self.assertRaisesRegex(RaggedVitError, word):
                model.prepare(**options)
        with self.assertRaisesRegex(RaggedVitError, "image 0 has 3 x 4 patches, expected multiples of 2 a side"):
            model.prepare(inputs="patches")(np.zeros((12, 96), np.float32), [(3, 4)])
        with self.assertRaisesRegex(RaggedVitError, "returns a row for each merge group of patches, and no logits"):
            model.classify(np.zeros((1, *model.info.image_shape), np.float32))

    def test_qwen3(self):
        module, model = self.encoder("Qwen3VLVisionModel", num_position_embeddings=25, deepstack_visual_indexes=[0, 1])
        wanted, result = self.check(module, model)
        for ours, theirs in zip(result.deepstack, wanted.deepstack_features, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5 * (1 + float(theirs.abs().max())))
        rows = np.random.default_rng(1).standard_normal((40, 3 * 2 * 4 * 4), np.float32)
        pruned = model.prepare(
            Policy("l2", keep=0.5, blocks=[0]),
            inputs="patches",
            max_images=2,
            max_tokens=40,
            max_len=24,
            merged=True,
            deepstack=True,
        )
        result = pruned(rows, [(4, 6), (4, 4)])
        self.assertEqual([len(kept) for kept in result.kept[0]], [12, 8])
        for kept in result.kept[0]:  # whole merge groups
            np.testing.assert_array_equal(kept.reshape(-1, 4), kept[::4, None] // 4 * 4 + np.arange(4))
        self.assertEqual(
            (result.merged.shape, [len(part) for part in result.deepstack], result.deepstack_stages),
            ((5, model.info.merged_dim), [10, 5], [-1, 0]),
        )

    def test_tome_of_merge_groups(self):
        encoders = (
            self.encoder("Qwen2_5_VisionTransformerPretrainedModel", window_size=16, fullatt_block_indexes=[1]),
            self.encoder("Qwen3VLVisionModel", num_position_embeddings=25, deepstack_visual_indexes=[0, 1]),
        )
        rows = np.random.default_rng(1).standard_normal((44, 3 * 2 * 4 * 4), np.float32)
        for _, model in encoders:
            merging = model.prepare(
                Policy("tome", merges=2, blocks=[0, 1]),
                inputs="patches",
                max_images=3,
                max_tokens=44,
                max_len=24,
                merged=True,
            )
            result = merging(rows, [(4, 6), (4, 4), (2, 2)])
            sides = [(2, 3), (2, 2), (1, 1)]
            for kept, sizes, (height, width) in zip(result.kept[-1], result.sizes[-1], sides, strict=True):
                groups = kept[::4] // 4
                np.testing.assert_array_equal(kept.reshape(-1, 4), groups[:, None] * 4 + np.arange(4))
                np.testing.assert_array_equal(sizes.reshape(-1, 4), np.repeat(sizes[::4, None], 4, 1))
                self.assertEqual(sizes.sum(), 4 * height * width)
                self.assertTrue((np.diff(groups) > 0).all())
            self.assertEqual(len(result.merged), sum(map(len, result.kept[-1])) // 4)
            self.assertEqual([len(kept) // 4 for kept in result.kept[-1]], [2, 1, 1])


if __name__ == "__main__":
    unittest.main()
