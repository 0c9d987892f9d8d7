"""Tests the functions and operators on CUDA tensors: types, streams, graphs, devices, threads, compilers. Needs a GPU
and PyTorch."""

import ctypes
import gc
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import RaggedVitError

try:
    import torch

    import gradients
    import raggedvit.torch
except ImportError:
    torch = None

LENGTHS = [[], [0], [1], [63], [64], [65], [197], [577], [20, 0, 197, 1, 64], [33] * 40]


def why_not():
    if torch is None:
        return "PyTorch is not here"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    cuda = [d for d in raggedvit.devices() if d.backend == "cuda" and d.index >= 0]
    return "" if cuda else "the library has no CUDA device"


def tensors(lengths, dtype=None, heads=3, dim=64, padding=0, device="cuda", seed=1):
    qkv, cu = support.batch(lengths, heads, dim, seed=seed, padding=padding)
    return torch.from_numpy(qkv).to(device, dtype or torch.float16), torch.from_numpy(cu).to(device)


@unittest.skipIf(why_not(), why_not())
class ForwardTest(unittest.TestCase):
    def test_against_float64(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            for lengths in LENGTHS:
                for heads, dim in ((3, 64), (2, 32), (1, 128)):
                    with self.subTest(dtype=dtype, lengths=lengths, dim=dim):
                        qkv, cu = tensors(lengths, dtype, heads, dim, padding=3)
                        live, scale = sum(lengths), dim**-0.5
                        bias = torch.randn(live + 3, device="cuda")
                        longest = max(lengths, default=0)
                        out, lse, cls = raggedvit.attention(
                            qkv, cu, max_len=longest, key_bias=bias, lse=True, cls_probs=True
                        )
                        exact = gradients.attention(
                            *qkv[:live].double().unbind(1), bias[:live].double(), lengths, scale
                        )
                        for found, wanted in zip((out, lse, cls), exact):
                            if live:
                                self.assertLess((found[:live].double() - wanted).abs().max(), tolerance)
                        packed = raggedvit.attention(qkv, cu)
                        q, k, v = qkv.unbind(1)
                        self.assertTrue(
                            torch.equal(raggedvit.attention(q.contiguous(), cu, k=k, v=v)[:live], packed[:live])
                        )
                        op = torch.ops.raggedvit.attention(qkv, cu, None, None)
                        self.assertTrue(torch.equal(op[:live], packed[:live]))
                        flash = raggedvit.torch.flash_attn_varlen_func(q, k, v, cu, cu, live, live)
                        self.assertTrue(torch.equal(flash[:live], packed[:live]))

    def test_pipeline(self):
        """The GPU and the CPU device keep the same rows, bit for bit."""
        qkv, cu = tensors([20, 0, 197, 1], torch.float32, padding=5)
        rows, live = len(qkv), 218
        _, _, probs = raggedvit.attention(qkv, cu, max_len=197, cls_probs=True)
        x = qkv.reshape(rows, -1)
        choices = [
            {"keep": 0.5},
            {"keep": 0.3, "rule": "ceil", "k_min": 2},
            {"threshold": 0.004},
            {"n_samples": 50},
            {"mass": 0.7},
        ]
        for options in choices:
            for score in (
                {"cls_probs": probs},
                {"x": x},
                {"scores": torch.rand(rows, device="cuda")},
                {"position_scores": torch.rand(197, device="cuda"), "rows": rows},
            ):
                with self.subTest(options=options, score=list(score)):
                    found = raggedvit.select(cu, **score, **options, max_len=197)
                    wanted = raggedvit.select(
                        cu.cpu(),
                        **{k: v.cpu() if torch.is_tensor(v) else v for k, v in score.items()},
                        **options,
                        max_len=197,
                    )
                    kept = int(found.cu_seqlens[-1])
                    self.assertEqual(int(found.error), 0)
                    self.assertTrue(torch.equal(found.cu_seqlens.cpu(), wanted.cu_seqlens))
                    self.assertTrue(torch.equal(found.src_rows[:kept].cpu(), wanted.src_rows[:kept]))
                    self.assertTrue(torch.equal(found.keep[:live].cpu(), wanted.keep[:live]))
        packed = raggedvit.pack(x, found.src_rows, found.cu_seqlens)
        self.assertTrue(torch.equal(packed[:kept], x[found.src_rows[:kept].long()]))
        spread = raggedvit.unpack(packed, found.src_rows, found.cu_seqlens, rows, fill=-1.0)
        wanted = torch.full_like(x, -1.0).index_copy_(0, found.src_rows[:kept].long(), packed[:kept])
        self.assertTrue(torch.equal(spread, wanted))

    def test_side_streams(self):
        qkv, cu = tensors([20, 197, 50])
        wanted, chosen = (
            raggedvit.attention(qkv, cu, max_len=197),
            raggedvit.select(cu, x=qkv.reshape(267, -1), keep=0.5),
        )
        torch.cuda.synchronize()
        results = []
        for stream in [torch.cuda.Stream() for _ in range(4)] * 5:
            with torch.cuda.stream(stream):
                results.append(
                    (raggedvit.attention(qkv, cu, max_len=197), raggedvit.select(cu, x=qkv.reshape(267, -1), keep=0.5))
                )
        torch.cuda.synchronize()
        for out, selection in results:
            self.assertTrue(torch.equal(out, wanted))
            self.assertTrue(torch.equal(selection.cu_seqlens, chosen.cu_seqlens))

    def test_enqueues_without_waiting(self):
        qkv, cu = tensors([20, 197])
        src, probs = torch.arange(217, dtype=torch.int32, device="cuda"), torch.rand(217, 3, device="cuda")

        def work():
            out = raggedvit.attention(qkv, cu, max_len=197)
            raggedvit.unpack(raggedvit.pack(out, src), src, rows=217)
            raggedvit.select(cu, cls_probs=probs, keep=0.5, max_len=197)

        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            # the first launch of a kernel loads it, which waits for the device; the first select uploads its table
            work()
            stream.synchronize()
            torch.cuda._sleep(500_000_000)
            work()
        self.assertFalse(stream.query())
        stream.synchronize()

    def test_tensors_freed_at_once(self):
        """The next call on the stream reuses memory that is freed right after a call. The results must not change."""
        qkv, cu = tensors([20, 197, 50])
        wanted = raggedvit.attention(qkv, cu, max_len=197)
        outs = []
        for i in range(200):
            x, c = qkv.clone(), cu.clone()
            outs.append(raggedvit.attention(x, c, max_len=197))
            del x, c
            torch.full((267, 3, 3, 64), float("nan"), dtype=torch.float16, device="cuda")
            if i % 3:
                outs.pop()
        torch.cuda.synchronize()
        self.assertTrue(all(torch.equal(out, wanted) for out in outs))

    def test_inference_mode(self):
        qkv, cu = tensors([20, 197])
        wanted = raggedvit.attention(qkv, cu, max_len=197)
        with torch.inference_mode():
            for out in (raggedvit.attention(qkv, cu, max_len=197), torch.ops.raggedvit.attention(qkv, cu, None, 197)):
                self.assertTrue(torch.equal(out, wanted))

    def test_threads(self):
        qkv, cu = tensors([20, 197, 50])
        wanted, failures = raggedvit.attention(qkv, cu, max_len=197), []
        leaf = qkv.clone().requires_grad_()
        raggedvit.attention(leaf, cu, max_len=197).sum().backward()
        torch.cuda.synchronize()

        def work():
            with torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(20):
                    x = qkv.clone().requires_grad_()
                    out = raggedvit.attention(x, cu, max_len=197)
                    out.sum().backward()
                    raggedvit.select(cu, x=qkv.reshape(267, -1), keep=0.5)
                    torch.cuda.current_stream().synchronize()
                    if not torch.equal(out, wanted) or not torch.equal(x.grad, leaf.grad):
                        failures.append(1)

        support.in_threads(*(work for _ in range(8)))
        self.assertEqual(failures, [])

    @unittest.skipIf(not why_not() and torch.cuda.device_count() < 2, "one GPU")
    def test_two_devices(self):
        qkv, cu = tensors([20, 197, 50])
        wanted = raggedvit.attention(qkv, cu, max_len=197)
        there, lengths = qkv.to("cuda:1"), cu.to("cuda:1")
        for _ in range(3):
            for x, c in ((there, lengths), (qkv, cu)):  # the current device is always 0
                for out in (raggedvit.attention(x, c, max_len=197), torch.ops.raggedvit.attention(x, c, None, 197)):
                    self.assertEqual(out.device, x.device)
                    self.assertTrue(torch.equal(out.to("cuda:0"), wanted))
        leaf = there.clone().requires_grad_()
        raggedvit.attention(leaf, lengths, max_len=197).sum().backward()
        here = qkv.clone().requires_grad_()
        raggedvit.attention(here, cu, max_len=197).sum().backward()
        self.assertTrue(torch.equal(leaf.grad.cpu(), here.grad.cpu()))
        with self.assertRaisesRegex(RaggedVitError, "cu_seqlens is on cuda:1, qkv on cuda:0"):
            raggedvit.attention(qkv, lengths)

    def test_refusals(self):
        qkv, cu = tensors([20, 50])
        q = qkv[:, 0]
        for words, function, arguments, named in [
            ("^cu_seqlens is on cpu, qkv on cuda:0", raggedvit.attention, (qkv, cu.cpu()), {}),
            ("^cu_seqlens is on cpu, qkv on cuda:0", torch.ops.raggedvit.attention, (qkv, cu.cpu()), {}),
            ("^cu_seqlens is int64", raggedvit.attention, (qkv, cu.long()), {}),
            ("^cu_seqlens is int64", torch.ops.raggedvit.attention, (qkv, cu.long()), {}),
            ("^qkv is not contiguous within a row", raggedvit.attention, (qkv.mT.contiguous().mT, cu), {}),
            ("^out is on cpu", raggedvit.attention, (qkv, cu, None, None, torch.zeros(70, 3, 64).half()), {}),
            ("out overlaps [qkv]", raggedvit.attention, (qkv, cu, None, None, qkv[:, 1]), {}),
            ("multiple of 16", raggedvit.attention, (qkv.reshape(-1)[4:-572].reshape(69, 3, 3, 64), cu), {}),
            ("^k is float16 .*; expected float16", raggedvit.attention, (q, cu), {"k": q[:, :1], "v": q}),
            (
                "^x is on cuda:0, cu_seqlens on cpu",
                raggedvit.select,
                (cu.cpu(),),
                {"x": q.reshape(70, -1), "keep": 0.5},
            ),
            ("^src_rows is on cpu, x on cuda:0", raggedvit.pack, (q, cu.cpu()), {}),
        ]:
            with self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                function(*arguments, **named)


@unittest.skipIf(why_not(), why_not())
class GraphTest(unittest.TestCase):
    def capture(self, work):
        """A graph captures on a new stream after a warm-up on another one."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            results = work()
        return graph, results

    def test_replay(self):
        qkv, cu = tensors([20, 197, 50], torch.float32)

        def work():
            out, _, probs = raggedvit.attention(qkv, cu, max_len=197, cls_probs=True)
            chosen = raggedvit.select(cu, cls_probs=probs, keep=0.5, max_len=197)
            packed = raggedvit.pack(out, chosen.src_rows, chosen.cu_seqlens)
            spread = raggedvit.unpack(packed, chosen.src_rows, chosen.cu_seqlens, 267)
            return out, chosen, spread, torch.ops.raggedvit.attention(qkv, cu, None, 197)

        graph, (out, chosen, spread, op) = self.capture(work)
        for seed, lengths in ((2, [20, 197, 50]), (3, [197, 50, 20]), (4, [10, 0, 100])):
            other, lengths_of = tensors(lengths, torch.float32, seed=seed)
            qkv.zero_()[: len(other)] = other
            cu.copy_(lengths_of)
            graph.replay()
            torch.cuda.synchronize()
            wanted, live = work(), sum(lengths)
            kept = int(wanted[1].cu_seqlens[-1])
            self.assertTrue(torch.equal(out[:live], wanted[0][:live]) and torch.equal(op[:live], wanted[0][:live]))
            self.assertTrue(torch.equal(chosen.cu_seqlens, wanted[1].cu_seqlens))
            self.assertTrue(torch.equal(chosen.src_rows[:kept], wanted[1].src_rows[:kept]))
            self.assertTrue(torch.equal(spread, wanted[2]))

    def test_forward_and_backward(self):
        qkv, cu = tensors([20, 197, 50])
        leaf = qkv.clone().requires_grad_()

        def work():
            leaf.grad = None
            raggedvit.attention(leaf, cu, max_len=197).square().sum().backward()
            return leaf.grad

        graph, grad = self.capture(work)
        with torch.no_grad():
            leaf.mul_(0.5)
        graph.replay()
        torch.cuda.synchronize()
        found = grad.clone()
        self.assertTrue(torch.equal(found, work()))


@unittest.skipIf(why_not(), why_not())
class GradientTest(unittest.TestCase):
    def compare(self, lengths, dtype, heads=3, dim=64, bias=True, strided=False, padding=2, probs=True):
        generator = torch.Generator("cuda").manual_seed(sum(lengths) + dim)
        rows, live, scale = sum(lengths) + padding, sum(lengths), dim**-0.5
        cu = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32, device="cuda")
        base = torch.randn(rows, 5 if strided else 3, heads, dim, generator=generator, device="cuda").to(dtype)
        base[live:] = float("nan")
        base.requires_grad_()
        key_bias = torch.randn(rows, generator=generator, device="cuda").requires_grad_() if bias else None
        weights = [torch.randn(rows, heads, dim, generator=generator, device="cuda").to(dtype)]
        weights += (
            [torch.randn(rows, heads, generator=generator, device="cuda") for _ in range(2)] if probs else [None, None]
        )
        outs = raggedvit.attention(
            base[:, 1:4] if strided else base,
            cu,
            max_len=max(lengths, default=0),
            key_bias=key_bias,
            lse=probs,
            cls_probs=probs,
        )
        outs = outs if probs else (outs,)
        torch.autograd.backward(outs, [weight for weight in weights if weight is not None])
        qkv = base.detach()[:live, 1:4] if strided else base.detach()[:live]
        arguments = (
            *qkv.unbind(1),
            key_bias.detach()[:live] if bias else None,
            *[None if w is None else w[:live] for w in weights],
            lengths,
            scale,
        )
        found = (base.grad[:, 1:4] if strided else base.grad).unbind(1)
        gradients.judge(self, [*found, key_bias.grad if bias else None], arguments, dtype, live)
        for out in outs:
            self.assertTrue((out[live:] == 0).all())

    def test_against_float64(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for lengths in LENGTHS:
                for probs in (True, False):
                    with self.subTest(dtype=dtype, lengths=lengths, probs=probs):
                        self.compare(lengths, dtype, probs=probs, bias=probs)
            for dim in (32, 40, 96, 128):
                with self.subTest(dtype=dtype, dim=dim):
                    self.compare([20, 65, 1], dtype, dim=dim)
            with self.subTest(dtype=dtype, strided=True):
                self.compare([20, 65, 1], dtype, strided=True)

    def test_gradients_repeat_bit_for_bit(self):
        qkv, cu = tensors([20, 197, 1, 64])
        grads = []
        for _ in range(5):
            leaf, bias = qkv.clone().requires_grad_(), torch.linspace(-1, 1, 282, device="cuda").requires_grad_()
            raggedvit.attention(leaf, cu, max_len=197, key_bias=bias).float().square().sum().backward()
            grads.append((leaf.grad, bias.grad))
        self.assertTrue(all(torch.equal(a, b) for pair in grads for a, b in zip(pair, grads[0])))

    def test_compile(self):
        qkv, cu = tensors([20, 197, 50], torch.float32)

        def block(x, cu):
            out, _, probs = raggedvit.attention(x * 2, cu, max_len=197, cls_probs=True)
            chosen = raggedvit.select(cu, cls_probs=probs.detach(), keep=0.5, max_len=197)
            few = raggedvit.pack(out, chosen.src_rows, chosen.cu_seqlens)
            return raggedvit.unpack(few, chosen.src_rows, chosen.cu_seqlens, rows=267).square().sum()

        results = []
        for function in (block, torch.compile(block, fullgraph=True)):
            leaf = qkv.clone().requires_grad_()
            value = function(leaf, cu)
            value.backward()
            results.append((value.detach(), leaf.grad))
        for a, b in zip(*results):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)

    def test_opcheck(self):
        qkv, cu = tensors([20, 0, 11], torch.float32)
        for x in (qkv, qkv.clone().requires_grad_()):
            torch.library.opcheck(torch.ops.raggedvit.attention.default, (x, cu), {"max_len": 20})
            arguments = (x, None, None, cu, torch.randn(31, device="cuda"), 0.3, 20, True)
            torch.library.opcheck(torch.ops.raggedvit.attention_forward.default, arguments)


@unittest.skipIf(why_not(), why_not())
class MemoryTest(unittest.TestCase):
    def test_no_allocations_and_no_leaks(self):
        """After a warm-up no call allocates in the library, waits, or leaks PyTorch memory."""
        from raggedvit._arrays.core_loader import ready
        from raggedvit._c.layouts import new
        from raggedvit._c.library import library

        qkv, cu = tensors([20, 197])
        leaf, stats, counts = qkv.clone().requires_grad_(), new("rvit_stats"), []
        for _ in range(4):
            for _ in range(50):
                raggedvit.attention(qkv, cu, max_len=197, lse=True)
                raggedvit.select(cu, x=qkv.reshape(217, -1), keep=0.5)
                raggedvit.attention(leaf, cu, max_len=197).sum().backward()
                leaf.grad = None
            torch.cuda.synchronize()
            gc.collect()
            library().rvit_stream_get_stats(ready().last_stream(), ctypes.byref(stats))
            counts.append(
                (
                    stats.host_allocations,
                    stats.device_allocations,
                    stats.synchronizations,
                    torch.cuda.memory_allocated(),
                )
            )
        self.assertEqual(counts[1:], counts[1:2] * 3)


if __name__ == "__main__":
    unittest.main()
