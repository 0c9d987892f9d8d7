"""Hugging Face's encoders give the same results with attn_implementation "raggedvit" as with "eager". Unsupported
options are refused."""

import glob
import importlib
import os
import pathlib
import re
import unittest
import unittest.mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")
try:
    import torch
    import transformers

    # imported before register(), the other models after it
    from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl
except ImportError as reason:
    raise unittest.SkipTest(f"no PyTorch or no transformers here: {reason}")

import support  # noqa: F401, finds the package
import raggedvit
from raggedvit import Status
import raggedvit.transformers as ours

GRIDS = [[1, 8, 12], [1, 4, 4], [2, 6, 4], [1, 14, 2]]  # time, height, width of each image, in patches
VISION = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "image_size": 64,
    "patch_size": 8,
}


def names(model_type, name):
    return getattr(importlib.import_module(f"transformers.models.{model_type}"), name)


def randomised(model):
    """Sets random weights with which every part affects the outputs."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(0, 0.2 if parameter.ndim > 1 else 0.1, generator=generator)
    return model.eval()


def counted():
    return unittest.mock.patch.object(ours, "_attend", wraps=ours._attend)


@unittest.skipUnless(
    transformers.__version__.startswith(ours.TESTED + "."),
    f"transformers {transformers.__version__} is not the tested one",
)
class TransformersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        ours.register()
        ours.register()  # a second call changes nothing

    def refused(self, words, function, *arguments, status=Status.UNSUPPORTED, **named):
        with self.assertRaisesRegex(raggedvit.RaggedVitError, words) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.status, status)

    def same(self, a, b, tolerance=1e-5):
        a, b = a.detach(), b.detach()
        self.assertLess(float((a - b).abs().max()), tolerance * max(1.0, float(a.abs().max())))

    def outputs(self, model, *arguments, **named):
        """Returns the outputs of eager and of raggedvit, and the number of raggedvit's attention calls."""
        with torch.no_grad():
            model.set_attn_implementation("eager")
            eager = model(*arguments, **named)
            model.set_attn_implementation("raggedvit")
            with counted() as calls:
                return eager, model(*arguments, **named), calls.call_count

    def packed_encoder(self, encoder, layers, columns, grids=GRIDS):
        rows = sum(t * h * w for t, h, w in grids)
        pixels = torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))
        eager, found, calls = self.outputs(randomised(encoder), pixels, torch.tensor(grids))
        self.same(eager.last_hidden_state, found.last_hidden_state)
        self.same(eager.pooler_output, found.pooler_output)
        self.assertGreater(float(eager.last_hidden_state.std()), 0.01)
        self.assertEqual(calls, layers)  # one per layer, whatever the images

    def test_qwen2_5_vl_vision_encoder(self):
        config = names("qwen2_5_vl", "Qwen2_5_VLConfig")(
            vision_config={
                "depth": 4,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 32,
                "window_size": 56,
                "fullatt_block_indexes": [1, 3],
            }
        ).vision_config
        encoder = modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel._from_config(config)
        self.packed_encoder(encoder, 4, 3 * 2 * 14 * 14)

    def test_qwen3_vl_vision_encoder(self):
        config = names("qwen3_vl", "Qwen3VLConfig")(
            vision_config={
                "depth": 3,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 32,
                "num_position_embeddings": 64,
                "deepstack_visual_indexes": [1],
            }
        ).vision_config
        self.packed_encoder(names("qwen3_vl", "Qwen3VLVisionModel")._from_config(config), 3, 3 * 2 * 16 * 16)

    def test_glm4v_vision_encoder(self):
        config = names("glm4v", "Glm4vConfig")(
            vision_config={
                "depth": 2,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 64,
                "image_size": 112,
            }
        ).vision_config
        self.packed_encoder(
            names("glm4v", "Glm4vVisionModel")._from_config(config), 2, 3 * 2 * 14 * 14, [g for g in GRIDS if g[0] == 1]
        )

    def test_encoders_of_whole_images(self):
        pixels = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(2))
        for kind, config, model in (
            ("vit", "ViTConfig", "ViTModel"),
            ("deit", "DeiTConfig", "DeiTModel"),
            ("dinov2", "Dinov2Config", "Dinov2Model"),
            ("siglip", "SiglipVisionConfig", "SiglipVisionModel"),
            ("clip", "CLIPVisionConfig", "CLIPVisionModel"),
        ):
            with self.subTest(kind):
                model = randomised(names(kind, model)._from_config(names(kind, config)(**VISION)))
                eager, found, calls = self.outputs(model, pixels)
                self.same(eager.last_hidden_state, found.last_hidden_state)
                self.assertEqual(calls, VISION["num_hidden_layers"])

    def siglip2(self):
        config = names("siglip2", "Siglip2VisionConfig")(
            **{**VISION, "image_size": None, "patch_size": 4}, num_patches=64
        )
        return randomised(names("siglip2", "Siglip2VisionModel")._from_config(config))

    def padded_batch(self):
        """Returns inputs of siglip2(): pixels, their mask, their height and width in patches."""
        shapes = torch.tensor([[5, 4], [8, 8], [1, 3]])
        pixels = torch.randn(3, 64, 3 * 4 * 4, generator=torch.Generator().manual_seed(3))
        return pixels, (torch.arange(64) < shapes.prod(1)[:, None]).to(torch.int32), shapes

    def test_siglip2_with_padding(self):
        pixels, mask, shapes = self.padded_batch()
        eager, found, calls = self.outputs(self.siglip2(), pixels, mask, shapes)
        self.assertEqual(calls, VISION["num_hidden_layers"])
        for i, length in enumerate(shapes.prod(1).tolist()):
            self.same(eager.last_hidden_state[i, :length], found.last_hidden_state[i, :length])
        self.same(eager.pooler_output, found.pooler_output)
        # Without the mask the results differ.
        full = self.outputs(self.siglip2(), pixels, torch.ones_like(mask), shapes)[1]
        self.assertGreater(float((full.pooler_output - found.pooler_output).abs().max()), 1e-3)

    def gradients(self, model, implementation, keep, *arguments):
        """Returns the gradients of every parameter, through the rows of keep [B, tokens] and the pooled row."""
        model.set_attn_implementation(implementation)
        model.zero_grad()
        found = model(*arguments)
        hidden = found.last_hidden_state[keep] if keep is not None else found.last_hidden_state
        hidden.square().mean().backward(retain_graph=True)
        found.pooler_output.square().mean().backward()
        return {
            name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None
        }

    def test_gradients(self):
        generator = torch.Generator().manual_seed(6)
        config = names("qwen2_5_vl", "Qwen2_5_VLConfig")(
            vision_config={
                "depth": 2,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 32,
                "window_size": 56,
                "fullatt_block_indexes": [1],
            }
        ).vision_config
        padded = self.padded_batch()
        for kind, model, keep, arguments in (
            (
                "packed",
                modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel._from_config(config),
                None,
                (torch.randn(sum(t * h * w for t, h, w in GRIDS), 1176, generator=generator), torch.tensor(GRIDS)),
            ),
            ("padded", self.siglip2(), padded[1].bool(), padded),
            (
                "whole",
                names("vit", "ViTModel")._from_config(names("vit", "ViTConfig")(**VISION)),
                None,
                (torch.randn(2, 3, 64, 64, generator=generator),),
            ),
        ):
            with self.subTest(kind):
                model = randomised(model).train()
                wanted = self.gradients(model, "eager", keep, *arguments)
                found = self.gradients(model, "raggedvit", keep, *arguments)
                self.assertEqual(wanted.keys(), found.keys())
                self.assertTrue(any("attn" in name or "attention" in name for name in wanted))
                for name, gradient in wanted.items():
                    # The gradient of a key's bias is zero up to rounding, because softmax ignores it.
                    scale = max(float(gradient.abs().max()), 1e-3 * max(float(g.abs().max()) for g in wanted.values()))
                    self.assertLess(float((gradient - found[name]).abs().max()), 1e-4 * scale, name)

    def test_padding_anywhere(self):
        """Tests masks with holes, an image without tokens, and NaN padding."""
        generator = torch.Generator().manual_seed(4)
        q, k, v = torch.randn(3, 4, 2, 9, 16, generator=generator)
        keep = torch.rand(4, 9, generator=generator) < 0.6
        keep[2], keep[3] = False, True
        q, k, v = (t.masked_fill(~keep[:, None, :, None], float("nan")).requires_grad_(True) for t in (q, k, v))
        module = torch.nn.Module()
        module.is_causal = False
        found, _ = ours.attention(module, q, k, v, keep[:, None, None, :], scaling=0.3)
        gradients = torch.autograd.grad(found.square().sum(), (q, k, v))
        for i in (0, 1, 3):
            mine = [t[i][:, keep[i]].detach().requires_grad_(True) for t in (q, k, v)]
            wanted = torch.softmax(0.3 * mine[0] @ mine[1].mT, -1) @ mine[2]
            self.same(wanted.transpose(0, 1), found[i][keep[i]])
            for gradient, own in zip(gradients, torch.autograd.grad(wanted.square().sum(), mine)):
                self.same(own, gradient[i][:, keep[i]])
        for t in (found.transpose(1, 2), *gradients):
            self.assertTrue((t.masked_select(~keep[:, None, :, None]) == 0).all())

    def test_compiled(self):
        model = randomised(names("vit", "ViTModel")._from_config(names("vit", "ViTConfig")(**VISION)))
        model.set_attn_implementation("raggedvit")
        pixels = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(7))
        with torch.no_grad():
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            self.same(model(pixels).last_hidden_state, compiled(pixels).last_hidden_state)
            model, (pixels, mask, shapes) = self.siglip2(), self.padded_batch()
            model.set_attn_implementation("raggedvit")
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            self.same(model(pixels, mask, shapes).pooler_output, compiled(pixels, mask, shapes).pooler_output)

    def test_a_language_model_keeps_its_own_attention(self):
        text = {
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "vocab_size": 40,
            "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4},
        }
        vision = {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_heads": 2,
            "out_hidden_size": 32,
            "fullatt_block_indexes": [0],
        }
        config = names("qwen2_5_vl", "Qwen2_5_VLConfig")(vision_config=vision, text_config=text)
        model = modeling_qwen2_5_vl.Qwen2_5_VLModel._from_config(config).eval()
        tokens = torch.arange(6)[None]
        with torch.no_grad():
            model.set_attn_implementation("raggedvit")
            self.refused("vision_config", model, tokens)
            model.set_attn_implementation("sdpa")
            model.set_attn_implementation({"vision_config": "raggedvit"})
            model(tokens)
            with counted() as calls:
                model.visual(torch.randn(16, 1176), torch.tensor([[1, 4, 4]]))
            self.assertEqual(calls.call_count, 1)

    def test_refusals(self):
        module = torch.nn.Module()
        t = torch.zeros(2, 2, 5, 16)
        self.refused("does not say", ours.attention, module, t, t, t, None)
        module.is_causal = True
        self.refused("causal", ours.attention, module, t, t, t, None)
        module.is_causal = False
        attention = ours.attention
        self.refused("causal", attention, module, t, t, t, None, is_causal=True)
        self.refused("dropout of 0.1", attention, module, t, t, t, None, dropout=0.1)
        self.refused("head_dim of 12", attention, module, *[t[..., :12]] * 3, None)
        self.refused("head_dim of 136", attention, module, *[torch.zeros(1, 1, 2, 136)] * 3, None)
        self.refused("float64", attention, module, *[t.double()] * 3, None)
        self.refused("key \\[2, 1, 5, 16\\]", attention, module, t, t[:, :1], t[:, :1], None)
        self.refused("softcap", attention, module, t, t, t, None, softcap=3.0)
        self.refused("output_attentions", attention, module, t, t, t, None, output_attentions=True)
        self.refused("mask of torch.float32", attention, module, t, t, t, torch.zeros(2, 1, 5, 5))
        self.refused("mask of torch.bool", attention, module, t, t, t, torch.ones(2, 1, 5, 5, dtype=torch.bool))
        self.refused(
            "a batch of 1",
            attention,
            module,
            t,
            t,
            t,
            None,
            cu_seq_lens_q=torch.tensor([0, 5]),
            status=Status.INVALID_ARGUMENT,
        )
        self.refused("patterned", ours.padding_mask, 1, 4, 4)
        with unittest.mock.patch("transformers.__version__", "4.57.1"):
            self.refused("transformers is 4.57.1", ours.register)
            ours.register(untested=True)

    @unittest.skipUnless(torch.cuda.is_available(), "no CUDA device here")
    def test_on_cuda(self):
        config = names("qwen2_5_vl", "Qwen2_5_VLConfig")(
            vision_config={
                "depth": 2,
                "hidden_size": 64,
                "intermediate_size": 96,
                "num_heads": 4,
                "out_hidden_size": 32,
                "window_size": 56,
                "fullatt_block_indexes": [1],
            }
        ).vision_config
        encoder = randomised(modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel._from_config(config))
        pixels = torch.randn(sum(t * h * w for t, h, w in GRIDS), 1176, generator=torch.Generator().manual_seed(1))
        for dtype, tolerance in ((torch.float32, 1e-4), (torch.bfloat16, 0.1)):
            for model, arguments in ((encoder, (pixels, torch.tensor(GRIDS))), (self.siglip2(), self.padded_batch())):
                with self.subTest(model=type(model).__name__, dtype=str(dtype)):
                    inputs = [t.cuda().to(dtype) if t.is_floating_point() else t.cuda() for t in arguments]
                    eager, found, _ = self.outputs(model.to("cuda", dtype), *inputs)
                    self.same(eager.pooler_output.float(), found.pooler_output.float(), tolerance)
                model.to("cpu", torch.float32)

    @unittest.skipUnless(torch.cuda.is_available(), "no CUDA device here")
    def test_no_synchronisation(self):
        module = torch.nn.Module()
        module.is_causal = False
        q, k, v = torch.randn(3, 4, 2, 9, 64, device="cuda").unbind(0)
        keep = torch.arange(9, device="cuda") < torch.tensor([[9], [3], [0], [7]], device="cuda")
        packed = [t.transpose(0, 1).reshape(1, 2, 36, 64) for t in (q, k, v)]
        cu_seqlens = torch.tensor([0, 9, 12, 36], dtype=torch.int32, device="cuda")

        def calls():
            ours.attention(module, q, k, v, None)
            ours.attention(
                module, q, k, v, ours.padding_mask(4, 9, 9, mask_function=bidirectional, attention_mask=keep)
            )
            ours.attention(
                module,
                *packed,
                None,
                cu_seq_lens_q=cu_seqlens,
                cu_seq_lens_k=cu_seqlens,
                max_length_q=24,
                max_length_k=24,
            )

        bidirectional = importlib.import_module("transformers.masking_utils").bidirectional_mask_function
        calls()  # the first call creates lasting objects
        torch.cuda.set_sync_debug_mode("error")
        try:
            calls()
        finally:
            torch.cuda.set_sync_debug_mode("default")

    def test_packed_families(self):
        """PACKED lists exactly the families with encoders that split by lengths without flash attention."""
        found = set()
        for path in glob.glob(str(pathlib.Path(transformers.__file__).parent / "models" / "*" / "modeling_*.py")):
            text = pathlib.Path(path).read_text(encoding="utf-8")
            if "lengths.tolist()" in text:
                found.add(pathlib.Path(path).parent.name)
                self.assertRegex(
                    text, r"if is_flash_attention_requested\(self\.config\):(?:.|\n){0,700}?cu_seq_lens_q=cu_seqlens,"
                )
                self.assertIsNotNone(
                    re.search(r"import .*is_flash_attention_requested|^    is_flash_attention_requested,$", text, re.M)
                )
        self.assertEqual(found, set(ours.PACKED))


if __name__ == "__main__":
    unittest.main()
