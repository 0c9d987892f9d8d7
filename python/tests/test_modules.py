"""Tests models from modules of timm and Hugging Face: logits, tensors as inputs and outputs, batches of any size,
refusals."""

import inspect
import unittest
import warnings
import weakref
from unittest import mock

import numpy as np

import support
import modules
from modules import POLICIES, SIZE, difference, hf_module, images, logits_of, timm_module, torch
import raggedvit
import raggedvit.patch
from raggedvit import Policy, Status


BACKENDS = ["cpu"] + ["cuda"] * any(d.backend == "cuda" and d.index >= 0 for d in raggedvit.devices())


def model_of(module, **options):
    return raggedvit.Model.from_module(module, **{"n_threads": 2, **options})


class ModuleTest(support.Case):
    def test_logits_of_every_module(self):
        x = images()
        for name, make in modules.MODULES.items():
            with self.subTest(name):
                module = make()
                model = model_of(module)
                logits = model(x)
                self.assertIsInstance(logits, torch.Tensor)
                self.assertLess(difference(logits, logits_of(module, x)), 2e-5)
                self.assertEqual(model.device.backend, "cpu")

    def test_logits_of_every_family(self):
        for what, options in modules.FAMILIES.items():
            with self.subTest(what):
                module = modules.timm_family(**options)
                x = images(3, size=tuple(module.patch_embed.img_size))
                wanted = logits_of(module, x)
                model = model_of(module)
                largest = float(wanted.abs().max())
                self.assertLess(difference(model(x), wanted), 1e-5 * max(1, largest))
                self.assertEqual((model.info.image_height, model.info.image_width), tuple(module.patch_embed.img_size))
                if model.info.n_prefix > 0:
                    self.assertEqual(model(x, Policy("l2", keep=0.5, blocks=[1])).shape, wanted.shape)
                if what != "rectangular":
                    self.fails(
                        Status.UNSUPPORTED,
                        "only a plain Vision Transformer",
                        raggedvit.patch.timm,
                        module,
                        Policy("l2", keep=0.5, blocks=[1]),
                    )

    def test_rectangular_images(self):
        module = modules.timm_family("vit_base_patch16_224", img_size=(32, 48), num_heads=2)
        model, x = model_of(module), images(3, size=(32, 48))
        for given in (x, x.numpy(), x.double().numpy()):
            self.assertLess(difference(model(given), logits_of(module, x)), 2e-5)
        result = model.classify(x, Policy("l2", keep=0.5, blocks=[1]), features=True)
        self.assertEqual(len(result.kept[0]), 3)
        self.assertEqual((model.info.image_size, model.info.image_shape), (0, (3, 32, 48)))
        for bad in (images(3), images(3, size=(48, 32)), images(3, size=48)):
            for function in (model, model.classify):
                self.fails(Status.INVALID_ARGUMENT, r"expected \[B, 3, 32, 48\]", function, bad)

    def test_names_of_the_labels(self):
        self.assertEqual(model_of(hf_module()).class_names[:2], ["LABEL_0", "LABEL_1"])
        self.assertIsNone(model_of(timm_module()).class_names)

    def test_weights_of_any_float_type(self):
        x = images()
        for dtype, stored, error in (
            (torch.float16, "f16", 2e-2),
            (torch.bfloat16, "bf16", 2e-1),
            (torch.float64, "f32", 1e-5),
        ):
            module = timm_module().to(dtype)
            model = model_of(module)
            self.assertEqual(raggedvit._modules.modules.storage_of(module), stored)
            self.assertLess(difference(model(x), logits_of(module.float(), x)), error)

    def test_pytorch_devices_and_dtypes(self):
        module = timm_module().half()
        for options, stored in (
            ({}, "f16"),
            ({"dtype": torch.float32}, "f32"),
            ({"device": torch.device("cpu"), "dtype": torch.bfloat16}, "bf16"),
        ):
            model = model_of(module, **options)
            self.assertEqual((model.dtype, str(model.device)), (stored, "cpu"))
        for options in ({"dtype": torch.int8}, {"device": torch.device("meta")}, {"device": torch.float16}):
            self.fails(
                Status.INVALID_ARGUMENT, f"{next(iter(options))} is .*; expected one of", model_of, module, **options
            )

    def test_arrays_and_tensors(self):
        model, x = model_of(timm_module()), images()
        wanted = model.classify(x.numpy(), Policy("evit", keep=0.6, blocks=[1, 2])).logits
        forward = model.prepare(Policy("evit", keep=0.6, blocks=[1, 2]))
        for inputs, kind in (
            (x.numpy(), np.ndarray),
            (x, torch.Tensor),
            (x.double().numpy(), np.ndarray),
            (x[:, :, :, :], torch.Tensor),
            (torch.nn.Parameter(x, requires_grad=False), torch.Tensor),
            (x.to(memory_format=torch.channels_last), torch.Tensor),
        ):
            for found in (
                model(inputs, Policy("evit", keep=0.6, blocks=(1, 2))),
                model(inputs, Policy("evit", keep=0.6, blocks=[1, 2])),
                forward(inputs),
            ):
                self.assertIsInstance(found, kind)
                self.assertEqual(str(found.dtype)[-7:], "float32")
                np.testing.assert_array_equal(np.asarray(found), wanted)
        for dtype, error in ((torch.float16, 2e-2), (torch.bfloat16, 2e-1)):
            self.assertLess(difference(forward(x.to(dtype)), wanted), error)
        result = model.classify(x, Policy("evit", keep=0.6, blocks=[1, 2]), features=True, cls_attention=True)
        self.assertTrue(
            all(isinstance(t, torch.Tensor) for t in (result.logits, result.features, result.cls_attention))
        )
        self.assertIsInstance(result.kept[0][0], np.ndarray)
        np.testing.assert_array_equal(np.asarray(result), wanted)
        self.assertEqual(forward(x[:0]).shape, (0, 7))

    def test_forward_equals_classify_for_every_policy(self):
        model, x = model_of(timm_module()), images()
        for policy, values in POLICIES.items():
            np.testing.assert_array_equal(
                model(x, Policy(policy, **values)), model.classify(x, Policy(policy, **values)).logits
            )

    def test_any_batch_size_with_few_sessions(self):
        model, x = model_of(timm_module()), images(40)
        wanted = model_of(timm_module(), max_batch=64)(x, Policy("evit", blocks=[1]))
        for n in (3, 8, 1, 17, 2, 40, 3, 33):
            found = model(x[:n], Policy("evit", blocks=[1]))
            self.assertLess(difference(found, wanted[:n]), 1e-5)
        self.assertEqual([(s.capacity, s.fixed) for s in model._sessions], [(8, True), (3, True), (64, False)])
        bounded = model_of(timm_module(), max_batch=8)
        for n in (1, 8, 5):
            bounded(x[:n])
        self.assertEqual([(s.capacity, s.fixed) for s in bounded._sessions], [(8, False)])
        self.fails(Status.INVALID_ARGUMENT, "images are 9, more than max_batch, 8", bounded, x[:9])

    def test_map(self):
        for backend in BACKENDS:
            with self.subTest(backend):
                self.maps(model_of(timm_module(), device=backend))

    def maps(self, model):
        forward, cpu = (
            model.prepare(Policy("evit", keep=0.6, blocks=[1])),
            model_of(timm_module()).prepare(Policy("evit", keep=0.6, blocks=[1])),
        )
        batches = [images(n, n) for n in (4, 4, 0, 3, 9, 4, 1)]
        for inputs, kind in (
            (batches, torch.Tensor),
            ([x.numpy() for x in batches], np.ndarray),
            ([np.asfortranarray(x.double().numpy()) for x in batches], np.ndarray),
            ([x.bfloat16() for x in batches], torch.Tensor),
        ):
            found = list(forward.map(inputs))
            self.assertEqual(len(found), len(batches))
            for logits, x in zip(found, inputs):
                self.assertIsInstance(logits, kind)
                if len(x):
                    self.assertLess(difference(logits, cpu(x)), 1e-5)
                    self.assertLess(difference(forward(x), cpu(x)), 1e-5)
        inside = []
        for logits in forward.map(iter(batches[:4])):  # the model can be used in between
            inside.append(difference(forward(batches[0]), cpu(batches[0])))
        self.assertLess(max(inside), 1e-5)
        iterator = forward.map(batches)
        next(iterator)
        iterator.close()
        self.fails(Status.INVALID_ARGUMENT, "expected", list, forward.map([batches[0], batches[0][:, :, :8]]))
        self.fails(
            Status.INVALID_ARGUMENT, "float32 does not hold", list, forward.map([batches[0].double().numpy() * 1e300])
        )
        bad = batches[0].clone()
        bad[2, 0, 3, 3] = float("nan")
        self.fails(Status.INVALID_ARGUMENT, "image 2: a score is NaN", list, forward.map([batches[0], bad, batches[0]]))
        self.assertLess(difference(forward(batches[0]), cpu(batches[0])), 1e-5)
        model.update(timm_module())
        self.assertLess(difference(next(forward.map(batches)), cpu(batches[0])), 1e-5)

    def test_model_is_freed_after_its_last_use(self):
        model, x = model_of(timm_module()), images()
        model(x, Policy("evit", blocks=[1]))
        forward = model.prepare(Policy("evit", blocks=[1]))
        gone = weakref.ref(model)
        del model
        forward(x)  # holds the model
        del forward
        self.assertIsNone(gone())

    def test_update(self):
        module, other, x = timm_module(), timm_module(seed=7), images()
        model = model_of(module)
        before = model(x, Policy("evit", blocks=[1]))
        sessions = set(model._sessions)
        model.update(other)
        self.assertLess(difference(model(x), logits_of(other, x)), 2e-5)
        self.assertGreater(difference(model(x, Policy("evit", blocks=[1])), before), 1e-2)
        self.assertLessEqual(sessions, set(model._sessions))
        model.update(module)
        np.testing.assert_array_equal(model(x, Policy("evit", blocks=[1])), before)
        self.fails(Status.INVALID_ARGUMENT, "n_classes", model.update, timm_module(num_classes=8))
        self.fails(
            Status.INVALID_ARGUMENT,
            "eps",
            model.update,
            timm_module(norm_layer=lambda n, **k: torch.nn.LayerNorm(n, eps=1e-5, **k)),
        )
        np.testing.assert_array_equal(model(x, Policy("evit", blocks=[1])), before)

    def test_refused_modules(self):
        class Own(torch.nn.LayerNorm):
            pass

        def hooked():
            module = timm_module()
            module.blocks[2].mlp.register_forward_hook(lambda *_: None)
            return module

        def replaced(path, part):
            module = timm_module()
            parent, _, name = path.rpartition(".")
            setattr(module.get_submodule(parent), name, part)
            return module

        def with_forward():
            module = timm_module()
            module.head.forward = lambda x: x
            return module

        def subclass():
            module = timm_module()
            module.__class__ = type("Mine", (type(module),), {})
            return module

        def turned():
            module = modules.timm_family("vit_small_patch16_dinov3")
            module.blocks[1].attn.rotate_half = False
            return module

        def rms_norm(dim):
            from timm.layers import RmsNorm

            return RmsNorm(dim)

        cases = {
            "Linear; expected": lambda: torch.nn.Linear(2, 2),
            "Mine; expected": subclass,
            "blocks.2.mlp has forward hooks": hooked,
            "head has a forward of its own": with_forward,
            "global_pool is 'avgmax'": lambda: timm_module(global_pool="avgmax"),
            "prefix tokens that its attention pooling does not read": lambda: timm_module(global_pool="map"),
            "a mean that includes prefix tokens": lambda: timm_module(global_pool="avg", pool_include_prefix=True),
            "blocks.0 is a .*EvaBlockPostNorm": lambda: modules.timm_family(
                "eva02_enormous_patch14_clip_224", mlp_ratio=2
            ),
            "rope is a .*RotaryEmbeddingMixed": lambda: modules.timm_family("vit_small_patch16_rope_mixed_224"),
            "patch_embed is a .*HybridEmbed|is a .*; expected": lambda: replaced("patch_embed", torch.nn.Identity()),
            "blocks.1.attn turns its columns otherwise": turned,
            "its blocks have several activations": lambda: replaced("blocks.1.mlp.act", torch.nn.SiLU()),
            "its norms are LayerNorm and RmsNorm": lambda: replaced("norm", rms_norm(128)),
            "heads whose width is not a multiple of 8": lambda: timm_module(num_heads=32),
            "expected GELU, its tanh form": lambda: timm_module(act_layer=torch.nn.Mish),
            "q_norm": lambda: timm_module(qk_norm=True),
            "pos_embed": lambda: timm_module(pos_embed="none"),
            "blocks.1.norm1 is a .*Own": lambda: replaced("blocks.1.norm1", Own(128)),
            "several eps": lambda: replaced("blocks.1.norm1", torch.nn.LayerNorm(128, eps=1e-3)),
            "cls_token is on the meta device": lambda: timm_module().to("meta"),
            "hidden_act": lambda: hf_module(hidden_act="quick_gelu"),
            "has no bias": lambda: hf_module(qkv_bias=False),
        }

        def quantized():
            warnings.simplefilter("ignore")
            return torch.ao.quantization.quantize_dynamic(timm_module(), {torch.nn.Linear})

        def weight(make):
            module = timm_module()
            module.blocks[1].mlp.fc1.weight = torch.nn.Parameter(make(module.blocks[1].mlp.fc1.weight.detach()))
            return module

        def of_another_family():
            from timm.models.beit import Block

            return replaced("blocks.0", Block(128, 2))

        def pruned():
            from torch.nn.utils import prune

            module = timm_module()
            prune.l1_unstructured(module.blocks[0].attn.qkv, "weight", 0.5)
            return module

        def spectral():
            module = timm_module()
            torch.nn.utils.parametrizations.spectral_norm(module.blocks[0].attn.qkv)
            return module

        class Linear(torch.nn.Linear):
            pass

        class Weight(torch.Tensor):
            pass

        cases |= {
            "blocks.0.attn.qkv is a torch.ao.nn.quantized.*; expected Linear of torch": quantized,
            "blocks.1.mlp.fc1.weight is sparse_csr; expected dense": lambda: weight(torch.Tensor.to_sparse_csr),
            "blocks.1.mlp.fc1.weight is a .*Weight; expected a plain tensor": lambda: weight(
                lambda w: w.as_subclass(Weight)
            ),
            "blocks.0 is a timm.models.beit.Block": of_another_family,
            "blocks.0.attn.qkv has forward hooks": pruned,
            "blocks.0.attn.qkv is a .*ParametrizedLinear": spectral,
            "blocks.1.mlp.fc1 is a .*Linear; expected": lambda: replaced("blocks.1.mlp.fc1", Linear(128, 512)),
            "blocks.1.mlp.fc1 has a forward of its own": lambda: replaced(
                "blocks.1.mlp.fc1", torch.compile(torch.nn.Linear(128, 512))
            ),
            "OptimizedModule, which wraps one; give module._orig_mod": lambda: torch.compile(timm_module()),
            "DataParallel, which wraps one; give module.module": lambda: torch.nn.DataParallel(timm_module()),
            "blocks is a .*; expected Sequential": lambda: replaced(
                "blocks", torch.nn.ModuleList(timm_module().blocks)
            ),
        }
        from timm.models.eva import Eva

        if "qk_norm" in inspect.signature(Eva).parameters:  # only newer timm has it
            cases["blocks.0.attn.q_norm is a"] = lambda: modules.timm_family("vit_small_patch16_dinov3", qk_norm=True)
        for words, make in cases.items():
            with self.subTest(words):
                self.fails(Status.UNSUPPORTED, words, model_of, make())
        self.fails(Status.INVALID_ARGUMENT, "module is a str", model_of, "vit")
        self.fails(Status.BAD_FILE, "module: .*extra", model_of, self.with_extra())

    def test_replaced_functions_are_refused(self):
        """Replaced functions of a class, PyTorch or transformers are refused: the model would ignore them."""
        import functools

        from timm.layers import Attention, AttentionRope
        from timm.models import vision_transformer
        from transformers import AttentionInterface
        from transformers.models.vit.modeling_vit import ViTAttention

        def own(*arguments, **named):
            raise AssertionError("it is not called here")

        def decorated(function):
            return functools.wraps(function)(lambda *arguments, **named: 2 * function(*arguments, **named))

        places = (
            (timm_module, Attention, "forward", own),
            (timm_module, Attention, "forward", decorated(Attention.forward)),
            (timm_module, Attention, "forward", AttentionRope.forward),
            (timm_module, Attention, "__call__", own),
            (timm_module, Attention, "forward", functools.partial(own)),
            (timm_module, Attention, "forward", mock.Mock()),
            (timm_module, torch.nn.Linear, "forward", own),
            (timm_module, vision_transformer.VisionTransformer, "_pos_embed", own),
            (timm_module, vision_transformer, "global_pool_nlc", own),
            (timm_module, torch.nn.functional, "layer_norm", own),
            (timm_module, torch.nn.functional, "scaled_dot_product_attention", own),
            (hf_module, ViTAttention, "forward", own),
            (hf_module, torch.nn.Module, "_call_impl", own),
        )
        for make, owner, name, function in places:
            with self.subTest(f"{owner.__name__}.{name}"):
                module = make()
                with mock.patch.object(owner, name, function):
                    self.fails(Status.UNSUPPORTED, f"{owner.__name__}.{name}, which is replaced by", model_of, module)
                model_of(module)
        registered = dict(AttentionInterface._global_mapping)
        try:
            AttentionInterface.register("mine", own)
            self.fails(
                Status.UNSUPPORTED,
                "attn_implementation 'mine', which is .*own",
                model_of,
                hf_module(attn_implementation="mine"),
            )
            module = hf_module(attn_implementation="sdpa")
            model_of(module)
            AttentionInterface.register("sdpa", own)
            self.fails(Status.UNSUPPORTED, "attn_implementation 'sdpa'", model_of, module)
        finally:
            AttentionInterface._global_mapping.clear()
            AttentionInterface._global_mapping.update(registered)

    def test_changes_without_effect_are_accepted(self):
        x, timm, hf = images(), timm_module(), hf_module()
        timm.blocks[0].compile(backend="eager")
        hf(x, output_hidden_states=True)  # adds hooks of transformers
        forward = type(timm.blocks[0].attn).forward
        with mock.patch.object(type(timm.blocks[0].attn), "forward", torch.no_grad()(forward)):
            for module in (timm, hf):
                self.assertLess(difference(model_of(module)(x), logits_of(module, x)), 2e-5)

    @staticmethod
    def with_extra():
        module = timm_module()
        module.extra = torch.nn.Linear(3, 3)
        return module

    def test_bad_images(self):
        model, x = model_of(timm_module()), images()
        for words, given in (
            (r"\[5, 3, 16, 16\]; expected \[B, 3, 32, 32\]", x[:, :, :16, :16].contiguous()),
            ("int64", x.long()),
            (r"\[3, 32, 32\]", x[0]),
            ("images require a gradient", x.clone().requires_grad_()),
            ("images are on meta, the model on cpu", x.to("meta")),
        ):
            self.fails(Status.INVALID_ARGUMENT, words, model, given)
            self.fails(Status.INVALID_ARGUMENT, words, model.classify, given)
        with torch.no_grad():
            model(x.clone().requires_grad_())
        self.fails(Status.INVALID_ARGUMENT, "mask", model, x, "mask")
        self.fails(Status.INVALID_ARGUMENT, "keep is 2", model, x, Policy("evit", keep=2))
        headless = model_of(timm_module(num_classes=0))
        self.fails(Status.UNSUPPORTED, "no head.*pooled=True", headless, x)
        self.assertEqual(headless.classify(x, features=True).features.shape, (5 * modules.TOKENS, 128))
        self.assertEqual(model.info.image_size, SIZE)
        model.close()
        self.fails(Status.INVALID_ARGUMENT, "closed", model, x)


if __name__ == "__main__":
    unittest.main()
