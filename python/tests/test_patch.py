"""Tests patched modules of timm and Hugging Face: results in eval and training mode, copies, changes, refusals."""

import copy
import io
import pickle
import unittest
import warnings
from unittest import mock

import numpy as np

import support
import modules
from modules import POLICIES, difference, hf_module, images, logits_of, timm_module, torch
import raggedvit
from raggedvit import Policy, RaggedVitError, Status

PATCHES = {"timm": raggedvit.patch.timm, "hf": raggedvit.patch.hf}


def patched(module, policy="evit", **options):
    return PATCHES[raggedvit._modules.modules.kind_of(module)](module, policy, n_threads=2, **options)


class PatchTest(support.Case):
    def test_without_pruning_equals_the_module(self):
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

    def test_every_policy_equals_classify_in_eval_and_training(self):
        x = images()
        for name, make in modules.MODULES.items():
            module = make()
            model = raggedvit.Model.from_module(module, n_threads=2)
            some = POLICIES if name in ("timm", "timm distilled") else ("evit-fused", "tome")
            for policy, values in ((policy, POLICIES[policy]) for policy in some):
                with self.subTest(f"{name}: {policy}"):
                    wanted = model.classify(x, Policy(policy, **values)).logits
                    patched(module, Policy(policy, **values))
                    self.assertLess(difference(logits_of(module, x), wanted), 1e-5)
                    module.train()
                    trained = module(x)
                    trained = trained if isinstance(trained, torch.Tensor) else trained.logits
                    module.eval()
                    self.assertTrue(trained.requires_grad)
                    self.assertLess(difference(trained.detach(), wanted), 1e-4)

    def test_ties(self):
        """The lower index wins a tie."""
        from raggedvit._modules import pruned

        generator = np.random.default_rng(5)
        for n in (2, 3, 17, 64):
            for spread in (2, 5, 1000):
                scores = (generator.integers(0, spread, n) / 7).astype(np.float32)
                scores[int(generator.integers(n))] = 3.5
                for k in (1, n // 2, n):
                    order = sorted(range(n), key=lambda i: (-scores[i], i))[:k]
                    kept = pruned.top_k(torch.from_numpy(scores)[None], k, torch.ones(1, n, dtype=torch.bool))[0]
                    self.assertEqual(sorted(order), kept.nonzero()[:, 0].tolist())

    def test_every_parameter_has_a_gradient(self):
        x = images(3)
        for policy, values in POLICIES.items():
            with self.subTest(policy):
                module = patched(timm_module(), Policy(policy, **values)).train()
                module(x).square().sum().backward()
                self.assertTrue(all(p.grad is not None and torch.isfinite(p.grad).all() for p in module.parameters()))

    def test_the_fused_token_has_a_gradient_through_its_scores(self):
        module = patched(timm_module(depth=2), Policy("evit-fused", keep=0.5, blocks=[0])).train().double()
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
        module, x = patched(hf_module(), Policy("evit", blocks=[1])), images()
        labels = torch.arange(5) % 7
        with torch.no_grad():
            out = module(x, labels=labels)
            self.assertAlmostEqual(
                float(out.loss), float(torch.nn.functional.cross_entropy(out.logits, labels)), places=5
            )
            self.assertEqual(len(module(x, return_dict=False)), 1)
        module.train()(pixel_values=x, labels=labels).loss.backward()
        teacher = patched(hf_module("DeiTForImageClassificationWithTeacher"), Policy("evit", blocks=[1])).train()
        out = teacher(x)
        self.assertLess(difference(out.logits.detach(), (out.cls_logits + out.distillation_logits).detach() / 2), 1e-6)
        for name in ("output_attentions", "output_hidden_states", "interpolate_pos_encoding"):
            self.fails(Status.UNSUPPORTED, name, module, x, **{name: True})
        self.fails(Status.UNSUPPORTED, "attention_mask", module, x, attention_mask=torch.ones(5, 17))
        self.fails(Status.INVALID_ARGUMENT, "pixel_values", module)

    def test_changed_weights_are_detected(self):
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

        for change in (
            load,
            in_a_parent,
            in_place,
            step,
            by_data,
            assign,
            lambda m: m.float().double().float(),
            lambda m: m.bfloat16(),
        ):
            module = patched(timm_module(), "none")
            before = logits_of(module, x)
            change(module)
            after = logits_of(module, x)
            plain = raggedvit.patch.undo(module)
            self.assertLess(
                difference(after.float(), logits_of(plain.float(), x)), 2e-2 if after.dtype == torch.bfloat16 else 3e-5
            )
            self.assertEqual(after.dtype, torch.bfloat16 if after.dtype != before.dtype else torch.float32)
        module = patched(timm_module(), "none")
        model = module._raggedvit.model
        module.train().eval()
        logits_of(module, x)
        load(module)
        logits_of(module, x)
        self.assertIs(module._raggedvit.model, model)  # the weights were updated, and nothing was recorded again

    def test_changes_in_submodules_are_detected(self):
        """After each change, the logits in eval mode without gradients equal those of PyTorch's operators, which use
        the current module in each call."""
        import torch.nn.utils.parametrizations as parametrizations
        from torch.nn.utils import prune
        from timm.layers import Attention

        x = images(3)
        warnings.simplefilter("ignore")  # PyTorch warns about sparse tensors

        def linear(m, path, value):
            setattr(m.get_submodule(path.rpartition(".")[0]), path.rpartition(".")[2], value)

        def eps(m):
            for part in m.modules():
                if isinstance(part, torch.nn.LayerNorm):
                    part.eps = 0.1

        def swap(m):
            a, b = m.blocks[0].mlp.fc1, m.blocks[3].mlp.fc1
            a.weight, b.weight = b.weight, a.weight

        def transpose(m):
            m.blocks[1].attn.proj.weight.data = m.blocks[1].attn.proj.weight.data.t()

        class Adapter(torch.nn.Linear):
            def forward(self, x):
                return 2 * super().forward(x)

        seen = {
            "a parameter": lambda m: linear(
                m, "blocks.0.mlp.fc1.weight", torch.nn.Parameter(2 * m.blocks[0].mlp.fc1.weight.detach())
            ),
            "assigned state": lambda m: m.blocks.load_state_dict(
                {k: 1.1 * v for k, v in m.blocks.state_dict().items()}, assign=True
            ),
            "a part": lambda m: linear(m, "blocks.0.mlp.fc1", torch.nn.Linear(128, 512)),
            "a block": lambda m: linear(m, "blocks.0", copy.deepcopy(m.blocks[1])),
            "a block less": lambda m: m.blocks.__delitem__(3),
            "two weights swapped": swap,
            "a transposed weight": transpose,
            "another eps": eps,
            "rounded, at perhaps the same address": lambda m: [block.half().float() for block in m.blocks],
            "in place": lambda m: m.blocks[2].norm1.bias.mul_(2),
        }
        for what, change in seen.items():
            with self.subTest(what):
                module = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2]))
                before = logits_of(module, x)
                with torch.no_grad():
                    change(module)
                after = logits_of(module, x)
                self.assertLess(difference(after, module(x).detach()), 1e-4)
                self.assertGreater(difference(after, before), 1e-6)
        refused = {
            "blocks.0.attn.qkv is a .*Adapter": lambda m: linear(m, "blocks.0.attn.qkv", Adapter(128, 384)),
            "blocks.1.mlp.fc1 is a .*Adapter": lambda m: setattr(m.blocks[1].mlp.fc1, "__class__", Adapter),
            "blocks.1.mlp.act is ReLU": lambda m: linear(m, "blocks.1.mlp.act", torch.nn.ReLU()),
            "several eps": lambda m: setattr(m.blocks[2].norm1, "eps", 0.1),
            "ParametrizedLinear": lambda m: parametrizations.weight_norm(m.blocks[0].mlp.fc1),
            "blocks.0.mlp.fc2 has forward hooks": lambda m: prune.l1_unstructured(m.blocks[0].mlp.fc2, "weight", 0.5),
            "head has a forward of its own": lambda m: setattr(m.head, "forward", torch.nn.functional.relu),
            "the module itself has a forward_head of its own": lambda m: setattr(m, "forward_head", lambda x: x),
            "sparse_csr": lambda m: linear(
                m, "blocks.0.mlp.fc1.weight", torch.nn.Parameter(m.blocks[0].mlp.fc1.weight.to_sparse_csr())
            ),
            "scales by 2": lambda m: setattr(m.blocks[0].attn, "scale", 2),
        }
        for words, change in refused.items():
            with self.subTest(words):
                module = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2]))
                with torch.no_grad():
                    module(x)
                    change(module)
                    self.fails(Status.UNSUPPORTED, words, module, x)
        module = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2]))
        wanted = logits_of(module, x)
        for owner, name in (
            (Attention, "forward"),
            (torch.nn.Linear, "forward"),
            (torch.nn.functional, "scaled_dot_product_attention"),
        ):
            with self.subTest(name), mock.patch.object(owner, name, lambda *arguments, **named: None), torch.no_grad():
                self.fails(Status.UNSUPPORTED, f"{name}, which is replaced by", module, x)
            np.testing.assert_array_equal(logits_of(module, x), wanted)

    def test_detecting_changes_reads_no_weights(self):
        module, x = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2])), images(3)
        wanted = logits_of(module, x)
        with mock.patch.object(raggedvit._modules.modules, "read", side_effect=AssertionError("it was read again")):
            np.testing.assert_array_equal(logits_of(module, x), wanted)
            torch.nn.Linear(2, 2).register_forward_hook(lambda *_: None)  # of another module
            np.testing.assert_array_equal(logits_of(module, x), wanted)
        with mock.patch.object(
            raggedvit._modules.modules, "checkpoint", side_effect=AssertionError("the weights were read again")
        ):
            module.label = "mine"
            module.blocks[0].attn.attn_drop.eval()
            np.testing.assert_array_equal(logits_of(module, x), wanted)

    def test_undetected_changes_need_refresh(self):
        module, x = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2])), images(3)
        before = logits_of(module, x)
        module.head.weight.data.mul_(2)  # PyTorch does not count such changes
        module.blocks[0].norm1.bias.detach().numpy()[:] = 3
        raggedvit.patch.refresh(module)
        after = logits_of(module, x)
        self.assertGreater(difference(after, before), 1e-3)
        self.assertLess(difference(after, module(x).detach()), 1e-4)

    def test_functional_call(self):
        module, x = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2])), images(3)
        weights = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in module.state_dict().items()}
        own = logits_of(module, x)
        warnings.simplefilter("ignore")  # vmap warns about operators that it runs one after another
        with torch.no_grad():
            found = torch.func.functional_call(module, weights, (x,))
        self.assertLess(difference(found, torch.func.functional_call(module, weights, (x,)).detach()), 1e-4)
        np.testing.assert_array_equal(logits_of(module, x), own)
        with torch.no_grad():
            two = torch.vmap(lambda w: torch.func.functional_call(module, w, (x,)))(
                {k: torch.stack([v, weights[k]]) for k, v in module.state_dict().items()}
            )
        self.assertLess(difference(two[0], own), 1e-4)
        self.assertLess(difference(two[1], found), 1e-4)

    def test_dropout_in_a_submodule(self):
        module, x = patched(timm_module(proj_drop_rate=0.5), Policy("evit", keep=0.6, blocks=[1, 2])), images(3)
        np.testing.assert_array_equal(logits_of(module, x), logits_of(module, x))
        module.blocks[3].train()
        self.assertGreater(difference(logits_of(module, x), logits_of(module, x)), 1e-3)

    def test_training_runs_changed_submodules(self):
        class Adapter(torch.nn.Module):
            def __init__(self, inner):
                super().__init__()
                self.inner = inner

            def forward(self, x):
                return 2 * self.inner(x)

        x = images(3)
        module = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2])).train()
        before = module(x).detach()
        module.head = Adapter(module.head)
        module.blocks[0].mlp.fc1.register_forward_hook(lambda *_: None)
        self.assertLess(difference(module(x).detach(), 2 * before), 1e-4)
        for words, change in {
            "blocks.2 has forward hooks": lambda m: m.blocks[2].register_forward_pre_hook(lambda *_: None),
            "blocks.1.attn has forward hooks": lambda m: m.blocks[1].attn.register_forward_hook(lambda *_: None),
            "its blocks has forward hooks": lambda m: m.blocks.register_forward_hook(lambda *_: None),
            "blocks.1.attn has a forward of its own": lambda m: setattr(m.blocks[1].attn, "forward", lambda x: x),
            "blocks.0 is a .*Adapter": lambda m: m.blocks.__setitem__(0, Adapter(m.blocks[0])),
            "global_pool is 'avg'": lambda m: setattr(m, "global_pool", "avg"),
            "norm_pre is given": lambda m: setattr(m, "norm_pre", torch.nn.LayerNorm(128)),
            "blocks.0.attn.q_norm": lambda m: setattr(m.blocks[0].attn, "q_norm", torch.nn.LayerNorm(64)),
        }.items():
            with self.subTest(words):
                module = patched(timm_module(), Policy("evit", keep=0.6, blocks=[1, 2])).train()
                module(x)
                change(module)
                self.fails(Status.UNSUPPORTED, words, module, x)
        module = patched(hf_module(), Policy("evit", blocks=[1])).train()
        module(x)
        module.vit.layers[1].attention.register_forward_hook(lambda *_: None)
        self.fails(Status.UNSUPPORTED, "layers.1.attention has forward hooks", module, x)

    def test_modes_and_exporters(self):
        """Modes, torch.export and torch.jit.trace see PyTorch's operators; torch.fx cannot."""
        from torch.utils.flop_counter import FlopCounterMode

        x, more, operations = images(3), images(5, 7), {}
        for policy in ("none", "evit", "evit-fused", "tome", "l2", "ats"):
            with self.subTest(policy):
                module = patched(timm_module(), Policy(policy, **POLICIES[policy])).requires_grad_(False)
                wanted = logits_of(module, x)
                with FlopCounterMode(display=False) as counter, torch.no_grad():
                    self.assertLess(difference(module(x), wanted), 1e-4)
                operations[policy] = counter.get_total_flops()
                with torch.no_grad(), warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # tracing warns about sizes that become constants
                    try:
                        exported = torch.export.export(
                            module, (x,), dynamic_shapes=({0: torch.export.Dim("batch")},)
                        ).module()
                        traced = torch.jit.trace(module, (x,), check_trace=False)
                    except RaggedVitError as refused:
                        self.assertIn(policy, ("l2", "ats"))
                        self.assertRegex(
                            str(refused), f"policy '{policy}' keeps as many tokens as the images' values say"
                        )
                        self.fails(
                            Status.UNSUPPORTED,
                            "as the images' values say",
                            torch.jit.trace,
                            module,
                            (x,),
                            check_trace=False,
                        )
                        continue
                    for function in (exported, traced):
                        self.assertLess(difference(function(more), logits_of(module, more)), 1e-4)
        self.assertGreater(operations["none"], operations["evit"])
        module = patched(timm_module(), Policy("evit", blocks=[1]))
        self.fails(Status.UNSUPPORTED, "torch.fx", torch.fx.symbolic_trace, module)

    def test_half(self):
        module, x = timm_module(), images()
        wanted = raggedvit.Model.from_module(module, n_threads=2).classify(x, Policy("evit", blocks=[1])).logits
        patched(module, Policy("evit", blocks=[1])).half()
        found = logits_of(module, x.half())
        self.assertEqual(found.dtype, torch.float16)
        self.assertLess(difference(found.float(), wanted), 5e-2)
        raggedvit.patch.undo(module.float())
        patched(module, Policy("evit", blocks=[1])).bfloat16()
        found = logits_of(module, x.bfloat16())
        self.assertEqual((found.dtype, module._raggedvit.home[1]), (torch.bfloat16, "bf16"))
        self.assertLess(difference(found.float(), wanted), 4e-1)
        raggedvit.patch.undo(module.float())
        stored = patched(module, Policy("evit", blocks=[1]), dtype="f16")
        self.assertEqual((logits_of(stored, x).dtype, stored._raggedvit.home[1]), (torch.float32, "f16"))

    def test_copies(self):
        x = images()
        for make in (timm_module, hf_module):
            module = patched(make(), Policy("evit", keep=0.5, blocks=[1]))
            wanted = logits_of(module, x)
            file = io.BytesIO()
            torch.save(module, file)
            file.seek(0)
            for other in (
                copy.deepcopy(module),
                pickle.loads(pickle.dumps(module)),
                torch.load(file, weights_only=False),
            ):
                self.assertIs(type(other), type(module))
                self.assertIsNot(other._raggedvit, module._raggedvit)
                np.testing.assert_array_equal(logits_of(other, x), wanted)
            fresh = make(seed=9)
            fresh.load_state_dict(module.state_dict())
            self.assertLess(
                difference(logits_of(patched(fresh, Policy("evit", keep=0.5, blocks=[1])), x), wanted), 1e-6
            )

    def test_compiled_parent_hooks_and_threads(self):
        module, x = timm_module(), images()
        wanted = logits_of(patched(module, Policy("evit", blocks=[1])), x)
        compiled = torch.compile(torch.nn.Sequential(module, torch.nn.Softmax(-1)), backend="eager")
        with torch.no_grad():
            self.assertLess(difference(compiled(x), wanted.softmax(-1)), 1e-6)
        with torch.inference_mode():
            np.testing.assert_array_equal(module(x).clone().numpy(), wanted.numpy())
        seen = []
        handle = module.register_forward_hook(lambda *_: seen.append(1))  # hooks of the module itself are called
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
        first = logits_of(patched(module, Policy("evit", keep=0.9, blocks=[1])), x)
        second = logits_of(patched(module, Policy("tome", merges=4)), x)
        self.assertGreater(difference(first, second), 1e-4)
        raggedvit.patch.undo(module)
        self.fails(Status.INVALID_ARGUMENT, "not patched", raggedvit.patch.undo, module)

    def test_refusals(self):
        module, x = timm_module(), images()
        fails = self.fails
        fails(Status.UNSUPPORTED, "predictors", patched, module, Policy("dynamicvit", blocks=[1]))
        fails(Status.INVALID_ARGUMENT, "mask", patched, module, "mask")
        fails(Status.INVALID_ARGUMENT, "no pruning policy", patched, module, "best")
        fails(Status.UNSUPPORTED, "'hiprune' cannot be trained", patched, module, "hiprune")
        fails(Status.INVALID_ARGUMENT, "keep", patched, module, Policy("evit", keep=7, blocks=[1]))
        fails(Status.INVALID_ARGUMENT, "block 6", patched, module)
        fails(Status.INVALID_ARGUMENT, "use raggedvit.patch.timm", raggedvit.patch.hf, module)
        fails(Status.UNSUPPORTED, "global_pool", patched, timm_module(global_pool="avg"))
        headless = timm_module(num_classes=0)
        fails(
            Status.UNSUPPORTED,
            "has no head.*classify.images, pooled=True",
            patched,
            headless,
            Policy("evit", blocks=[1]),
        )
        pooled = raggedvit.Model.from_module(headless, n_threads=2).classify(x, pooled=True).pooled
        self.assertLess(difference(pooled, logits_of(headless, x)), 2e-5)
        self.assertFalse(hasattr(module, "_raggedvit"))
        patched(module, Policy("evit", blocks=[1]))
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
