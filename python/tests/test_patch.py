"""Patched modules of timm and Hugging Face: what they compute in eval and in training, how they are copied and changed, what they refuse."""

import copy
import io
import pickle
import unittest

import numpy as np

import support
import modules
from modules import POLICIES, difference, hf_module, images, logits_of, timm_module, torch
import raggedvit
from raggedvit import RaggedVitError, Status

PATCHES = {"timm": raggedvit.patch.timm, "hf": raggedvit.patch.hf}


def patched(module, policy="evit", **values):
    return PATCHES[raggedvit._modules.kind_of(module)](module, policy, n_threads=2, **values)


class PatchTest(unittest.TestCase):
    def fails(self, status, words, function, *arguments, **named):
        with self.assertRaises(RaggedVitError) as caught:
            function(*arguments, **named)
        self.assertEqual(caught.exception.status, status)
        self.assertRegex(str(caught.exception), words)

    def test_without_pruning_it_is_the_module(self):
        x = images()
        for name, make in modules.MODULES.items():
            with self.subTest(name):
                module = make()
                plain = logits_of(module, x)
                names, cls = list(module.state_dict()), type(module)
                patched(module, "none")
                self.assertIsInstance(module, cls)
                self.assertEqual(list(module.state_dict()), names)
                self.assertLess(difference(logits_of(module, x), plain), 1e-5)
                raggedvit.patch.undo(module)
                self.assertIs(type(module), cls)
                self.assertEqual(difference(logits_of(module, x), plain), 0)

    def test_every_policy_is_classify_in_eval_and_the_same_in_training(self):
        x = images()
        for name, make in modules.MODULES.items():
            module = make()
            model = raggedvit.Model.from_module(module, n_threads=2)
            some = POLICIES if name in ("timm", "timm distilled") else ("evit-fused", "tome")
            for policy, values in ((policy, POLICIES[policy]) for policy in some):
                with self.subTest(f"{name}: {policy}"):
                    wanted = model.classify(x, policy, **values).logits
                    patched(module, policy, **values)
                    self.assertLess(difference(logits_of(module, x), wanted), 1e-5)
                    module.train()
                    trained = module(x)
                    trained = trained if isinstance(trained, torch.Tensor) else trained.logits
                    module.eval()
                    self.assertTrue(trained.requires_grad)
                    self.assertLess(difference(trained.detach(), wanted), 1e-4)

    def test_choices_from_equal_scores(self):
        """Ties, infinities and few distinct values: what the library keeps of a mask of scores is what PyTorch keeps."""
        from raggedvit import _pruned

        generator = np.random.default_rng(5)
        for n in (2, 3, 17, 64):
            for spread in (2, 5, 1000):
                scores = (generator.integers(0, spread, n) / 7).astype(np.float32)
                scores[int(generator.integers(n))] = 3.5
                for k in (1, n // 2, n):
                    order = sorted(range(n), key=lambda i: (-scores[i], i))[:k]
                    kept = _pruned.top_k(torch.from_numpy(scores)[None], k, torch.ones(1, n, dtype=torch.bool))[0]
                    self.assertEqual(sorted(order), kept.nonzero()[:, 0].tolist())

    def test_gradients_reach_what_the_methods_reach(self):
        x = images(3)
        for policy, values in POLICIES.items():
            with self.subTest(policy):
                module = patched(timm_module(), policy, **values).train()
                module(x).square().sum().backward()
                self.assertTrue(all(p.grad is not None and torch.isfinite(p.grad).all() for p in module.parameters()))

    def test_the_fused_token_has_a_gradient_through_its_scores(self):
        module = patched(timm_module(depth=2), "evit-fused", keep=0.5, blocks=[0]).train().double()
        bias, step, x, values = module.blocks[0].attn.qkv.bias, 1e-5, images(3).double(), []
        module(x).square().sum().backward()
        for sign in (1, -1):
            with torch.no_grad():
                bias[3] += sign * step
                values.append(float(module(x).square().sum()))
                bias[3] -= sign * step
        numeric = (values[0] - values[1]) / (2 * step)
        self.assertGreater(abs(numeric), 1e-3)
        self.assertLess(abs(float(bias.grad[3]) - numeric), 1e-6 * max(1, abs(numeric)))

    def test_hugging_face_outputs(self):
        module, x = patched(hf_module(), "evit", blocks=[1]), images()
        labels = torch.arange(5) % 7
        with torch.no_grad():
            out = module(x, labels=labels)
            self.assertAlmostEqual(float(out.loss), float(torch.nn.functional.cross_entropy(out.logits, labels)), places=5)
            self.assertEqual(len(module(x, return_dict=False)), 1)
        module.train()(pixel_values=x, labels=labels).loss.backward()
        teacher = patched(hf_module("DeiTForImageClassificationWithTeacher"), "evit", blocks=[1]).train()
        out = teacher(x)
        self.assertLess(difference(out.logits.detach(), (out.cls_logits + out.distillation_logits).detach() / 2), 1e-6)
        for name in ("output_attentions", "output_hidden_states", "interpolate_pos_encoding"):
            self.fails(Status.UNSUPPORTED, name, module, x, **{name: True})
        self.fails(Status.UNSUPPORTED, "attention_mask", module, x, attention_mask=torch.ones(5, 17))
        self.fails(Status.INVALID_ARGUMENT, "pixel_values", module)

    def test_changed_weights_are_seen(self):
        x, other = images(), timm_module(seed=3)

        def load(module):
            module.load_state_dict(other.state_dict())

        def in_a_parent(module):
            torch.nn.Sequential(module).load_state_dict({f"0.{k}": v for k, v in other.state_dict().items()})

        def in_place(module):
            with torch.no_grad():
                module.blocks[1].mlp.fc1.weight.mul_(1.5)

        def step(module):
            optimizer = torch.optim.SGD(module.parameters(), 0.1)
            module(x).square().sum().backward()
            optimizer.step()

        def by_data(module):
            module.train()
            module.head.weight.data.mul_(2)
            module.eval()

        def assign(module):
            module.head = torch.nn.Linear(128, 9)

        for change in (load, in_a_parent, in_place, step, by_data, assign, lambda m: m.float().double().float(), lambda m: m.bfloat16()):
            module = patched(timm_module(), "none")
            before = logits_of(module, x)
            change(module)
            after = logits_of(module, x)
            plain = raggedvit.patch.undo(module)
            self.assertLess(difference(after.float(), logits_of(plain.float(), x)), 2e-2 if after.dtype == torch.bfloat16 else 3e-5)
            self.assertEqual(after.dtype, torch.bfloat16 if after.dtype != before.dtype else torch.float32)
        module = patched(timm_module(), "none")
        model = module._raggedvit.model
        module.train().eval()
        logits_of(module, x)
        load(module)
        logits_of(module, x)
        self.assertIs(module._raggedvit.model, model)  # its weights were replaced, nothing was recorded again

    def test_half(self):
        module, x = timm_module(), images()
        wanted = raggedvit.Model.from_module(module, n_threads=2).classify(x, "evit", blocks=[1]).logits
        patched(module, "evit", blocks=[1]).half()
        found = logits_of(module, x.half())
        self.assertEqual(found.dtype, torch.float16)
        self.assertLess(difference(found.float(), wanted), 5e-2)
        raggedvit.patch.undo(module.float())
        patched(module, "evit", blocks=[1]).bfloat16()
        found = logits_of(module, x.bfloat16())
        self.assertEqual((found.dtype, module._raggedvit.place[1]), (torch.bfloat16, "bf16"))
        self.assertLess(difference(found.float(), wanted), 4e-1)
        raggedvit.patch.undo(module.float())
        stored = patched(module, "evit", blocks=[1], dtype="f16")
        self.assertEqual((logits_of(stored, x).dtype, stored._raggedvit.place[1]), (torch.float32, "f16"))

    def test_copies(self):
        x = images()
        for make in (timm_module, hf_module):
            module = patched(make(), "evit", keep=0.5, blocks=[1])
            wanted = logits_of(module, x)
            file = io.BytesIO()
            torch.save(module, file)
            file.seek(0)
            for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), torch.load(file, weights_only=False)):
                self.assertIs(type(other), type(module))
                self.assertIsNot(other._raggedvit, module._raggedvit)
                np.testing.assert_array_equal(logits_of(other, x), wanted)
            fresh = make(seed=9)
            fresh.load_state_dict(module.state_dict())
            self.assertLess(difference(logits_of(patched(fresh, "evit", keep=0.5, blocks=[1]), x), wanted), 1e-6)

    def test_around_it(self):
        module, x = timm_module(), images()
        wanted = logits_of(patched(module, "evit", blocks=[1]), x)
        compiled = torch.compile(torch.nn.Sequential(module, torch.nn.Softmax(-1)), backend="eager")
        with torch.no_grad():
            self.assertLess(difference(compiled(x), wanted.softmax(-1)), 1e-6)
        with torch.inference_mode():
            np.testing.assert_array_equal(module(x).clone().numpy(), wanted.numpy())
        seen = []
        handle = module.register_forward_hook(lambda *_: seen.append(1))  # of the module itself: it runs
        np.testing.assert_array_equal(logits_of(module, x), wanted)
        self.assertEqual(seen, [1])
        handle.remove()
        failures = []

        def work():
            for _ in range(3):
                if not np.array_equal(logits_of(module, x), wanted):
                    failures.append(1)

        support.in_threads(*(work for _ in range(8)))
        self.assertEqual(failures, [])

    def test_patched_again(self):
        module, x = timm_module(), images()
        first = logits_of(patched(module, "evit", keep=0.9, blocks=[1]), x)
        second = logits_of(patched(module, "tome", merges=4), x)
        self.assertGreater(difference(first, second), 1e-4)
        raggedvit.patch.undo(module)
        self.fails(Status.INVALID_ARGUMENT, "not patched", raggedvit.patch.undo, module)

    def test_refusals(self):
        module, x = timm_module(), images()
        fails = self.fails
        fails(Status.UNSUPPORTED, "predictors", patched, module, "dynamicvit", blocks=[1])
        fails(Status.INVALID_ARGUMENT, "mask", patched, module, "mask")
        fails(Status.INVALID_ARGUMENT, "no pruning policy", patched, module, "best")
        fails(Status.UNSUPPORTED, "'hiprune' cannot be trained", patched, module, "hiprune")
        fails(Status.INVALID_ARGUMENT, "keep", patched, module, "evit", keep=7, blocks=[1])
        fails(Status.INVALID_ARGUMENT, "block 6", patched, module)
        fails(Status.INVALID_ARGUMENT, "use raggedvit.patch.timm", raggedvit.patch.hf, module)
        fails(Status.UNSUPPORTED, "global_pool", patched, timm_module(global_pool="avg"))
        fails(Status.UNSUPPORTED, "no head", patched, timm_module(num_classes=0), blocks=[1])
        self.assertFalse(hasattr(module, "_raggedvit"))
        patched(module, "evit", blocks=[1])
        fails(Status.UNSUPPORTED, "attn_mask", module, x, attn_mask=torch.ones(1))
        fails(Status.UNSUPPORTED, "forward_features", module.forward_features, x)
        fails(Status.UNSUPPORTED, "DataParallel", module._replicate_for_data_parallel)
        with torch.no_grad():
            fails(Status.INVALID_ARGUMENT, r"expected \[B, 3, 32, 32\]", module, x[:, :, :16])
            fails(Status.INVALID_ARGUMENT, "images are on meta, the module on cpu", module, x.to("meta"))
            fails(Status.INVALID_ARGUMENT, "images are int64", module, x.long())
            fails(Status.INVALID_ARGUMENT, "images are a ndarray", module, x.numpy())
            module.blocks[0].register_forward_hook(lambda *_: None)
            fails(Status.UNSUPPORTED, "blocks.0 has forward hooks", module, x)


if __name__ == "__main__":
    unittest.main()
