"""Tests models and patched modules on CUDA tensors, on a GPU with PyTorch: results equal the CPU's, without waiting, on
any stream and device."""

import functools
import gc
import unittest

import support
import modules
from modules import POLICIES, difference, hf_module, images, logits_of, timm_module, torch
import raggedvit
from raggedvit import Policy, Status

if not torch.cuda.is_available():
    raise unittest.SkipTest("there is no GPU that PyTorch can use")

torch.backends.cudnn.allow_tf32 = False  # the patch embedding of training would be rounded


class CudaModelTest(support.Case):
    def test_every_policy_gives_the_results_of_the_cpu(self):
        x = images(6)
        cpu, cuda = raggedvit.Model.from_module(timm_module()), raggedvit.Model.from_module(timm_module().cuda())
        self.assertEqual((cuda.device.backend, cuda.cuda_index), ("cuda", 0))
        for policy, values in POLICIES.items():
            for n in (6, 3, 1, 4, 0, 6):
                with self.subTest(f"{policy}, {n}"):
                    wanted = cpu(x[:n], Policy(policy, **values))
                    found = cuda(x[:n].cuda(), Policy(policy, **values))
                    self.assertEqual(
                        (found.device.type, found.shape, found.dtype), ("cuda", wanted.shape, torch.float32)
                    )
                    if n:
                        self.assertLess(difference(found.cpu(), wanted), 1e-4)
                        result = cuda.classify(x[:n].cuda(), Policy(policy, **values))
                        self.assertTrue(result.logits.is_cuda)
                        self.assertLess(difference(result.logits.cpu(), wanted), 1e-4)
                        self.assertLess(difference(cuda(x[:n].numpy(), Policy(policy, **values)), wanted), 1e-4)
                        self.assertEqual(cuda(x[:n], Policy(policy, **values)).device.type, "cpu")
        mask = torch.rand(6, modules.TOKENS, device="cuda") > 0.5
        mask[:, 0] = True
        wanted = cpu.classify(x, Policy("mask", blocks=[1]), mask=mask.cpu())
        self.assertLess(
            difference(cuda.classify(x.cuda(), Policy("mask", blocks=[1]), mask=mask).logits.cpu(), wanted.logits), 1e-4
        )

    def test_any_layout_and_type_of_images(self):
        x = images(4).cuda()
        forward = raggedvit.Model.from_module(timm_module().cuda()).prepare(Policy("evit", blocks=[1]))
        wanted = forward(x)
        spaced, shifted = torch.empty(8, 3, 32, 32, device="cuda"), torch.empty(x.numel() + 1, device="cuda")
        spaced[::2] = x
        shifted[1:] = x.flatten()
        for given in (
            spaced[::2],
            shifted[1:].view_as(x),
            x.to(memory_format=torch.channels_last),
            torch.nn.Parameter(x, False),
            x.as_subclass(type("Image", (torch.Tensor,), {})),
        ):
            self.assertEqual(difference(forward(given).cpu(), wanted.cpu()), 0)
        for dtype, error in ((torch.float16, 2e-2), (torch.bfloat16, 2e-1)):
            self.assertLess(difference(forward(x.to(dtype)).cpu(), wanted.cpu()), error)

    def test_no_wait_and_no_allocation(self):
        x = images(5).cuda()
        for dtype in ("f32", "f16"):
            model = raggedvit.Model.from_module(timm_module().cuda(), dtype=dtype)
            forward = model.prepare(Policy("evit", blocks=[1, 2]))
            for n in (5, 3, 2):
                forward(x[:n])
            before = support.counts(model)
            torch.cuda.set_sync_debug_mode("error")
            try:
                for n in (5, 3, 2, 1) * 5:
                    forward(x[:n])
            finally:
                torch.cuda.set_sync_debug_mode("default")
            after = support.counts(model)
            self.assertGreater(after["launches"], before["launches"])
            self.assertEqual(after["synchronizations"], before["synchronizations"])
            self.assertEqual(after["device_allocations"], before["device_allocations"])
            self.assertEqual(
                after["copies"] - before["copies"], 20
            )  # the results of the stages, copied within the program
            self.assertEqual(after["submits"] - before["submits"], 20)  # one dispatch per forward
            torch.cuda.synchronize()

    def test_large_host_batch_in_parts(self):
        x = torch.from_numpy(support.tiles(64))
        for dtype, error in (("f32", 1e-4), ("f16", 4e-2)):
            model = raggedvit.Model(support.CHECKPOINT, "cuda", dtype, max_sessions=16)
            for policy in ("none", "l2"):
                forward = model.prepare(policy)
                wanted = next(iter(forward.map([x])))  # the batch in one part
                for source in (x, x.pin_memory(), x.double(), x.numpy()):
                    for _ in range(2):
                        # Sessions may choose different GEMMs if the host knows all row counts.
                        self.assertLess(difference(torch.as_tensor(forward(source)), wanted), error)
                result, whole = model.classify(x, policy), model.classify(x.cuda(), policy)
                self.assertLess(difference(result.logits, whole.logits.cpu()), error)
                for ours, theirs in zip(result.cu_seqlens, whole.cu_seqlens):
                    self.assertEqual(ours.tolist(), theirs.tolist())
            self.assertEqual(sorted(s.capacity for s in model._sessions if s.policy.name == "none"), [32, 32, 64, 64])

    def test_streams(self):
        x = images(4).cuda()
        model = raggedvit.Model.from_module(timm_module().cuda())
        forward = model.prepare(Policy("evit", blocks=[1]))
        wanted = forward(x).cpu()
        streams = [torch.cuda.Stream() for _ in range(3)]
        torch.cuda.synchronize()
        for _ in range(10):
            found = []
            for stream in streams:
                with torch.cuda.stream(stream):
                    torch.cuda._sleep(200000)
                    late = x * 1.0  # computed on this stream after its sleep, and freed right after the call
                    found.append(forward(late))
                    del late
                    torch.empty_like(x).fill_(float("nan"))
            for stream, logits in zip(streams, found):
                stream.synchronize()
                # the sessions of different streams may choose different GEMMs
                self.assertLess(difference(logits.cpu(), wanted), 1e-5)
        self.assertEqual(len(model._streams), 4)

    def test_tensors_freed_right_after_the_call(self):
        forward = raggedvit.Model.from_module(timm_module().cuda()).prepare(Policy("evit", blocks=[1]))
        batches = [images(4, seed) for seed in range(20)]
        wanted = [forward(x.cuda()).cpu() for x in batches]
        found = []
        for x in batches:
            found.append(forward(x.cuda(non_blocking=True)))
            torch.full((4, 3, 32, 32), float("nan"), device="cuda")
        for a, b in zip(found, wanted):
            self.assertEqual(difference(a.cpu(), b), 0)

    def test_threads(self):
        x = images(8).cuda()
        model = raggedvit.Model.from_module(timm_module().cuda())
        wanted = {n: model(x[:n], Policy("evit", blocks=[1])).cpu() for n in (1, 2, 3, 4, 8)}
        failures = []

        def work(own_stream):
            stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
            with torch.cuda.stream(stream):
                for n in (1, 2, 3, 4, 8) * 6:
                    found = model(x[:n], Policy("evit", blocks=[1]))
                    stream.synchronize()
                    if difference(found.cpu(), wanted[n]) > 1e-5:
                        failures.append(n)

        support.in_threads(*(functools.partial(work, i % 2 == 1) for i in range(8)))
        self.assertEqual(failures, [])

    def test_max_sessions(self):
        x = images(4).cuda()
        model = raggedvit.Model.from_module(timm_module().cuda(), max_sessions=2)
        wanted = {keep: model(x, Policy("evit", keep=keep, blocks=[1])).cpu() for keep in (0.2, 0.5, 0.8)}
        for keep in (0.2, 0.5, 0.8, 0.5, 0.2):
            self.assertLess(difference(model(x, Policy("evit", keep=keep, blocks=[1])).cpu(), wanted[keep]), 1e-5)
        self.assertEqual([session.policy.keep for session in model._sessions], [0.5, 0.2])

    def test_memory_is_released(self):
        x = images(4).cuda()

        def use():
            model = raggedvit.Model.from_module(timm_module().cuda())
            for n in (4, 3, 2):
                model(x[:n], Policy("evit", blocks=[1]))

        use()
        gc.collect()
        torch.cuda.synchronize()
        free = torch.cuda.mem_get_info()[0]
        for _ in range(5):
            use()
        gc.collect()
        torch.cuda.synchronize()
        self.assertGreater(torch.cuda.mem_get_info()[0], free - (64 << 20))

    def test_patched(self):
        x = images(5)
        for make in (timm_module, hf_module):
            module = make()
            patch = raggedvit.patch.timm if make is timm_module else raggedvit.patch.hf
            wanted = logits_of(patch(module, Policy("evit", keep=0.5, blocks=[1])), x)
            module.cuda()
            self.assertLess(difference(logits_of(module, x.cuda()).cpu(), wanted), 1e-4)
            self.assertEqual(module._raggedvit.model.device.backend, "cuda")
            with torch.inference_mode():
                out = module(x.cuda())
                self.assertLess(difference((out if torch.is_tensor(out) else out.logits).cpu(), wanted), 1e-4)
            module.train()
            out = module(x.cuda())
            self.assertLess(difference((out if torch.is_tensor(out) else out.logits).detach().cpu(), wanted), 1e-3)
            module.eval()
            other = make(seed=5)
            module.load_state_dict(other.state_dict())
            self.assertLess(
                difference(
                    logits_of(module, x.cuda()).cpu(), logits_of(patch(other, Policy("evit", keep=0.5, blocks=[1])), x)
                ),
                1e-4,
            )
            half = logits_of(module.half(), x.cuda().half())
            self.assertEqual((half.dtype, half.device.type), (torch.float16, "cuda"))
            self.assertLess(difference(half.float().cpu(), logits_of(other, x)), 5e-2)
            module.cpu().float()
            self.assertLess(difference(logits_of(module, x), logits_of(other, x)), 5e-2)

    def test_a_patched_module_refuses_other_devices(self):
        module = raggedvit.patch.timm(timm_module().cuda(), Policy("evit", blocks=[1]))
        with torch.no_grad():
            for _ in range(2):
                self.fails(Status.INVALID_ARGUMENT, "images are on cpu, the module on cuda:0", module, images(2))
                module(images(2).cuda())

    def test_compiled_parent_module(self):
        module, x = timm_module().cuda(), images(4).cuda()
        wanted = logits_of(raggedvit.patch.timm(module, Policy("evit", blocks=[1])), x).softmax(-1)
        compiled = torch.compile(torch.nn.Sequential(module, torch.nn.Softmax(-1)), backend="eager")
        with torch.no_grad():
            self.assertLess(difference(compiled(x).cpu(), wanted.cpu()), 1e-6)

    def test_errors_that_are_returned(self):
        x = images(4).cuda()
        model = raggedvit.Model.from_module(timm_module().cuda())
        wanted = model.classify(x, Policy("l2", keep=0.5, blocks=[1]), pooled=True, features=True)
        broken = x.clone()
        broken[2, 0, 0, 0] = torch.nan
        self.fails(
            Status.NOT_FINITE, "^image 2: a score is NaN", model.classify, broken, Policy("l2", keep=0.5, blocks=[1])
        )
        self.fails(Status.NOT_FINITE, "^image 2: its logits are not finite", model.classify, broken)
        found = model.classify(broken, Policy("l2", keep=0.5, blocks=[1]), pooled=True, features=True, errors="return")
        self.assertEqual(list(found.errors), [2])
        self.assertRegex(str(found.errors[2]), "^image 2: a score is NaN")
        for one, other in ((found.logits, wanted.logits), (found.pooled, wanted.pooled)):
            self.assertTrue(one.is_cuda)
            self.assertTrue(torch.isnan(one[2]).all())
            self.assertEqual(difference(one[[0, 1, 3]].cpu(), other[[0, 1, 3]].cpu()), 0)
        self.assertEqual(len(found.features), sum(len(wanted.kept[0][image]) for image in (0, 1, 3)))
        self.assertEqual(len(found.kept[0][2]), 0)

    def test_refusals(self):
        x = images(2).cuda()
        model = raggedvit.Model.from_module(timm_module().cuda())
        fails, forward = self.fails, model.prepare(Policy("evit", blocks=[1]))
        for _ in range(2):  # without a session and with one
            fails(Status.INVALID_ARGUMENT, r"\[2, 3, 16, 32\]; expected \[B, 3, 32, 32\]", forward, x[:, :, :16])
            fails(Status.INVALID_ARGUMENT, r"\[3, 32, 32\]", forward, x[0])
            fails(Status.INVALID_ARGUMENT, "images are int64", forward, x.long())
            fails(Status.INVALID_ARGUMENT, "images are float64", forward, x.double())
            fails(Status.INVALID_ARGUMENT, "images require a gradient", forward, x.clone().requires_grad_())
            with torch.no_grad():
                forward(x.clone().requires_grad_())
        fails(
            Status.INVALID_ARGUMENT,
            "images are on cuda:0, the model on cpu",
            raggedvit.Model.from_module(timm_module()),
            x,
        )
        torch.cuda.synchronize()
        with self.assertRaises(Exception) as caught:
            with torch.cuda.graph(torch.cuda.CUDAGraph()):
                forward(x)
        self.assertIsInstance(caught.exception, RuntimeError)
        torch.cuda.synchronize()
        self.assertTrue(torch.isfinite(forward(x)).all())

    @unittest.skipIf(torch.cuda.device_count() < 2, "there is only one GPU")
    def test_two_devices(self):
        x = images(4)
        cpu = raggedvit.Model.from_module(timm_module())(x, Policy("evit", blocks=[1]))
        models = [raggedvit.Model.from_module(timm_module().to(f"cuda:{i}")) for i in range(2)]
        for _ in range(3):
            for current in range(2):
                with torch.cuda.device(current):
                    for i, model in enumerate(models):
                        found = model(x.to(f"cuda:{i}"), Policy("evit", blocks=[1]))
                        self.assertEqual(found.device.index, i)
                        self.assertLess(difference(found.cpu(), cpu), 1e-4)
        self.fails(Status.INVALID_ARGUMENT, "images are on cuda:1, the model on cuda:0", models[0], x.to("cuda:1"))
        module = raggedvit.patch.timm(timm_module().to("cuda:1"), Policy("evit", blocks=[1]))
        self.assertLess(difference(logits_of(module, x.to("cuda:1")).cpu(), cpu), 1e-4)
        module.to("cuda:0")
        self.assertLess(difference(logits_of(module, x.to("cuda:0")).cpu(), cpu), 1e-4)
        with torch.no_grad():
            self.fails(Status.INVALID_ARGUMENT, "images are on cuda:1", module, x.to("cuda:1"))


if __name__ == "__main__":
    unittest.main()
