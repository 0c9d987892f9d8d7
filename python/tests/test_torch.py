"""Tests the operators on CPU tensors: gradients, compilers, refusals. test_torch_cuda.py is for GPUs."""

import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import RaggedVitError

try:
    import torch

    import gradients
    import raggedvit.torch
    from raggedvit._torch import operators
    from raggedvit._torch import eager
except ImportError:
    torch = None

LENGTHS = [[], [0], [1], [63], [64], [65], [197], [577], [20, 0, 197, 1, 64], [0, 0, 3]]


def tensors(lengths, heads=2, dim=32, padding=0, dtype=None, seed=1):
    qkv, cu = support.batch(lengths, heads, dim, seed=seed, padding=padding)
    return torch.from_numpy(qkv).to(dtype or torch.float32), torch.from_numpy(cu)


@unittest.skipUnless(torch, "PyTorch is not here")
class GradientTest(unittest.TestCase):
    def compare(self, lengths, heads, dim, dtype=None, bias=True, strided=False, padding=2, probs=True):
        """The error of every gradient against float64 is at most twice that of PyTorch in the same precision."""
        dtype = dtype or torch.float32
        generator = torch.Generator().manual_seed(sum(lengths) + dim)
        rows, live, scale = sum(lengths) + padding, sum(lengths), dim**-0.5
        cu = torch.tensor([0, *np.cumsum(lengths)], dtype=torch.int32)
        base = torch.randn(rows, 5 if strided else 3, heads, dim, generator=generator).to(dtype)
        base[live:] = float("nan")
        base.requires_grad_()
        key_bias = torch.randn(rows, generator=generator).requires_grad_() if bias else None
        weights = [torch.randn(rows, heads, dim, generator=generator).to(dtype)]
        weights += [torch.randn(rows, heads, generator=generator) for _ in range(2)] if probs else [None, None]
        outs = raggedvit.attention(base[:, 1:4] if strided else base, cu, key_bias=key_bias, lse=probs, cls_probs=probs)
        outs = outs if probs else (outs,)
        torch.autograd.backward(outs, [weight for weight in weights if weight is not None])
        qkv = base.detach()[:live, 1:4] if strided else base.detach()[:live]
        q, k, v = qkv.unbind(1)
        arguments = (
            q,
            k,
            v,
            key_bias.detach()[:live] if bias else None,
            *[None if w is None else w[:live] for w in weights],
            lengths,
            scale,
        )
        found = (base.grad[:, 1:4] if strided else base.grad).unbind(1)
        gradients.judge(self, [*found, key_bias.grad if bias else None], arguments, dtype, live)
        for out in outs:
            self.assertTrue((out[live:] == 0).all())

    def test_lengths(self):
        for lengths in LENGTHS:
            with self.subTest(lengths=lengths):
                self.compare(lengths, 2, 64)
                self.compare(lengths, 2, 64, bias=False, probs=False)

    def test_head_dims(self):
        for dim in (32, 40, 64, 96, 128):
            with self.subTest(dim=dim):
                self.compare([20, 65, 1], 2, dim, bias=dim != 64)

    def test_strided_and_half(self):
        self.compare([20, 65, 1], 2, 32, strided=True)
        self.compare([197, 65, 1], 2, 64, dtype=torch.float16)

    def test_separate_operands(self):
        cu, lengths = torch.tensor([0, 20, 33], dtype=torch.int32), [20, 13]
        leaves = [torch.randn(33, 2, 32, requires_grad=True) for _ in range(3)]
        raggedvit.attention(leaves[0], cu, k=leaves[1], v=leaves[2]).square().sum().backward()
        exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
        gradients.attention(*exact, None, lengths, 32**-0.5)[0].square().sum().backward()
        for a, b in zip(leaves, exact):
            self.assertLess((a.grad.double() - b.grad).abs().max(), 1e-5)

    def test_bits_and_threads(self):
        qkv, cu = tensors([20, 197, 1, 64])
        key_bias = torch.randn(len(qkv))

        def gradient():
            x, b = qkv.clone().requires_grad_(), key_bias.clone().requires_grad_()
            raggedvit.attention(x, cu, key_bias=b).square().sum().backward()
            return x.grad, b.grad

        wanted, failures = gradient(), []

        def work():
            for _ in range(5):
                if not all(torch.equal(a, b) for a, b in zip(gradient(), wanted)):
                    failures.append(1)

        support.in_threads(*(work for _ in range(8)))
        self.assertEqual(failures, [])

    def test_padding_rows_do_not_affect_weight_gradients(self):
        """Rows past the last image must not affect the gradient of the weight of a linear layer before the op."""
        qkv, cu = tensors([20, 5], padding=7)
        layer = torch.nn.Linear(192, 192)
        x = torch.nan_to_num(qkv.reshape(32, 192))
        raggedvit.attention(layer(x).reshape(32, 3, 2, 32), cu).sum().backward()
        self.assertTrue(torch.isfinite(layer.weight.grad).all())

    def test_rows(self):
        src, cu = torch.tensor([1, 3, 4, 9, 7, 7], dtype=torch.int32), torch.tensor([0, 2, 4], dtype=torch.int32)
        live, w = [1, 3, 4, 9], torch.randn(6, 8)
        x = torch.randn(12, 8, requires_grad=True)
        out = raggedvit.pack(x, src, cu)
        (out * w).sum().backward()
        wanted = torch.zeros(12, 8)
        wanted[live] = w[:4]
        self.assertTrue(torch.equal(out[:4], x[live]) and (out[4:] == 0).all())
        self.assertTrue(torch.equal(x.grad, wanted))
        x.grad = None
        (raggedvit.gather(x, torch.tensor([3, 3, 1, 0, 99, 99], dtype=torch.int32)[:4]) * w[:4]).sum().backward()
        wanted = torch.zeros(12, 8).index_put_((torch.tensor([3, 3, 1, 0]),), w[:4], accumulate=True)
        self.assertTrue(torch.equal(x.grad, wanted))
        part, base, w = (
            torch.randn(6, 8, requires_grad=True),
            torch.randn(12, 8, requires_grad=True),
            torch.randn(12, 8),
        )
        (raggedvit.unpack(part, src, cu, base=base) * w).sum().backward()
        wanted, taken = w.clone(), torch.zeros(6, 8)
        wanted[live], taken[:4] = 0, w[live]
        self.assertTrue(torch.equal(base.grad, wanted) and torch.equal(part.grad, taken))
        self.assertTrue(
            torch.autograd.gradcheck(
                lambda t: raggedvit.pack(t, src, cu), (x.detach().requires_grad_(),), eps=1e-2, atol=1e-2
            )
        )


@unittest.skipUnless(torch, "PyTorch is not here")
class OperatorTest(unittest.TestCase):
    def test_opcheck(self):
        qkv, cu = tensors([20, 0, 11])
        ops, bias, asc = torch.ops.raggedvit, torch.randn(31), torch.arange(0, 31, 2, dtype=torch.int32)
        part = torch.tensor([0, 10, 16], dtype=torch.int32)
        for x in (qkv, qkv.clone().requires_grad_()):
            torch.library.opcheck(ops.attention.default, (x, cu), {"max_len": 20})
            torch.library.opcheck(ops.attention_forward.default, (x, None, None, cu, bias, 0.3, 20, True))
            torch.library.opcheck(ops.pack.default, (x, asc, part))
            torch.library.opcheck(ops.gather.default, (x, asc, part))
            torch.library.opcheck(ops.unpack.default, (x[:16].detach().requires_grad_(x.requires_grad), asc, part, 31))
        counts = torch.arange(32, dtype=torch.int32)  # keeps all rows, so that no output is undefined
        arguments = (cu, 31, 0, 1, 31, 1, False, 0.0, 0, 1, 0.0, qkv.reshape(31, -1), None, None, None, None, counts)
        torch.library.opcheck(ops.select.default, arguments)

    def test_compile(self):
        qkv, cu = tensors([20, 0, 11])

        def pipeline(x, cu):
            out, _, probs = raggedvit.attention(x * 2, cu, max_len=20, cls_probs=True)
            kept = raggedvit.select(cu, cls_probs=probs.detach(), keep=0.5, max_len=20)
            few = raggedvit.pack(out, kept.src_rows, kept.cu_seqlens)
            grid = raggedvit.unpack(few, kept.src_rows, kept.cu_seqlens, rows=31)
            return grid.sum() + raggedvit.attention(x, cu, max_len=20).square().sum()

        results = []
        for function in (pipeline, torch.compile(pipeline, backend="aot_eager", fullgraph=True)):
            x = qkv.clone().requires_grad_()
            value = function(x, cu)
            value.backward()
            results.append((value.detach(), x.grad))
        for a, b in zip(*results):
            torch.testing.assert_close(a, b)

    def test_dynamic_rows_are_one_graph(self):
        graphs = []

        def backend(graph, inputs):
            graphs.append(graph)
            return graph.forward

        compiled = torch.compile(
            lambda x, cu: raggedvit.attention(x, cu, max_len=64) + 1, backend=backend, fullgraph=True, dynamic=True
        )
        for lengths in ([20, 5], [31, 7], [64, 2]):
            qkv, cu = tensors(lengths)
            self.assertTrue(torch.equal(compiled(qkv, cu), raggedvit.attention(qkv, cu) + 1))
        self.assertEqual(len(graphs), 1)

    def test_export(self):
        class Block(torch.nn.Module):
            def forward(self, x, cu):
                return torch.ops.raggedvit.attention(x, cu, None, 20) * 2

        qkv, cu = tensors([20, 5])
        program = torch.export.export(Block(), (qkv, cu))
        self.assertTrue(torch.equal(program.module()(qkv, cu), raggedvit.attention(qkv, cu) * 2))

    def test_vmap_and_func(self):
        a, cu = tensors([20, 5])
        b, _ = tensors([20, 5], seed=2)
        found = torch.vmap(lambda x: raggedvit.attention(x, cu))(torch.stack([a, b]))
        self.assertTrue(torch.equal(found, torch.stack([raggedvit.attention(x, cu) for x in (a, b)])))
        with self.assertRaisesRegex(RaggedVitError, "torch.func .* does not reach the gradient"):
            torch.func.grad(lambda x: raggedvit.attention(x, cu).sum())(a)

    def test_modes_and_subclasses(self):
        qkv, cu = tensors([20, 5])
        wanted = raggedvit.attention(qkv, cu)
        with torch.inference_mode():
            self.assertTrue(torch.equal(raggedvit.attention(qkv, cu), wanted))
            self.assertTrue(torch.equal(torch.ops.raggedvit.attention(qkv, cu), wanted))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode() as mode:
            fake = raggedvit.attention(mode.from_tensor(qkv), mode.from_tensor(cu))
            self.assertEqual(fake.shape, wanted.shape)
        self.assertEqual(raggedvit.attention(qkv.to("meta"), cu.to("meta")).device.type, "meta")

        class Mine(torch.Tensor):
            pass

        self.assertIsInstance(raggedvit.attention(qkv.as_subclass(Mine), cu), Mine)
        seen = []

        class Watch(torch.utils._python_dispatch.TorchDispatchMode):
            def __torch_dispatch__(self, function, types, arguments=(), named=None):
                seen.append(str(function))
                return function(*arguments, **(named or {}))

        with Watch():
            self.assertTrue(torch.equal(raggedvit.attention(qkv, cu), wanted))
        self.assertTrue(any("raggedvit" in name for name in seen), seen)

    def test_kernels_in_python(self):
        """The Python kernels for an older PyTorch give the same results as those in C."""
        qkv, cu = tensors([20, 0, 11], padding=2)
        bias, wanted = torch.randn(33), raggedvit.attention(qkv, cu)
        self.assertTrue(torch.equal(operators._attention_python(qkv, cu)[:31], wanted[:31]))
        in_c = torch.ops.raggedvit._attention_forward(qkv, None, None, cu, bias, None, None, True, True)
        for a, b in zip(in_c, operators._forward_python(qkv, None, None, cu, bias, None, None, True, True)):
            self.assertTrue(torch.equal(a, b))
        arguments = (
            torch.randn(33, 2, 32),
            qkv,
            None,
            None,
            in_c[0],
            in_c[1],
            cu,
            bias,
            in_c[2],
            torch.randn(33, 2),
            torch.randn(33, 2),
            None,
            None,
            True,
        )
        for a, b in zip(torch.ops.raggedvit._attention_backward(*arguments), operators._backward_python(*arguments)):
            self.assertTrue(torch.equal(a, b))

    def test_tensors_that_the_core_cannot_read(self):
        """Tensors that the core cannot read, as in a PyTorch without DLPack's exchange API, give the same results."""
        qkv, cu = tensors([20, 0, 11], padding=2)
        x, src, asc = (
            torch.randn(31, 8),
            torch.tensor([0, 2, 30], dtype=torch.int32),
            torch.tensor([0, 3], dtype=torch.int32),
        )

        def all_of_them():
            named = operators._named(qkv, None, None, cu, None, True, True)
            packed = eager.rows("pack", {"x": x, "src_rows": src, "cu_seqlens": asc, "out": None}, {})
            spread = eager.rows(
                "unpack",
                {"x": packed, "src_rows": src, "cu_seqlens": asc, "base": None, "out": None},
                {"rows": 31, "fill": 2.0},
            )
            chosen = raggedvit.select(cu, x=qkv.reshape(33, -1), keep=0.5)
            return [t[:31] for t in eager.attention(named, None, None)] + [
                packed,
                spread,
                chosen.cu_seqlens,
                chosen.keep[:31],
            ]

        wanted = all_of_them()
        with mock.patch.object(eager, "READS_TENSORS", False):
            for a, b in zip(all_of_them(), wanted):
                self.assertTrue(torch.equal(a, b))

    def test_flash_attention(self):
        qkv, cu = tensors([20, 0, 11])
        q, k, v = qkv.unbind(1)
        flash, wanted = raggedvit.torch.flash_attn_varlen_func, raggedvit.attention(qkv, cu, scale=0.3)
        self.assertTrue(torch.equal(flash(q, k, v, cu, cu, 20, 20, softmax_scale=0.3), wanted))
        self.assertTrue(
            torch.equal(flash(q, k, v, cu, cu.clone(), 20, 25, 0.0, 0.3, False, [-1, -1], deterministic=True), wanted)
        )
        leaf = q.clone().requires_grad_()
        flash(leaf, k, v, cu, cu, 20, 20).sum().backward()
        self.assertEqual(leaf.grad.shape, q.shape)
        for words, named in [
            ("^dropout_p is 0.1", {"dropout_p": 0.1}),
            ("^causal is True", {"causal": True}),
            ("^softcap is 5.0", {"softcap": 5.0}),
            (r"^window_size is \(3, 3\)", {"window_size": (3, 3)}),
            ("^alibi_slopes is given", {"alibi_slopes": torch.ones(2)}),
            ("^return_attn_probs is True", {"return_attn_probs": True}),
            ("^block_table is given", {"block_table": cu}),
            ("^cu_seqlens_k is another", {"cu_seqlens_k": torch.tensor([0, 20, 20, 30], dtype=torch.int32)}),
            ("^k is float32 .*; expected float32", {"k": k[:, :1]}),
            ("^v is float16", {"v": v.half()}),
        ]:
            arguments = {
                "q": q,
                "k": k,
                "v": v,
                "cu_seqlens_q": cu,
                "cu_seqlens_k": cu,
                "max_seqlen_q": 20,
                "max_seqlen_k": 20,
                **named,
            }
            with self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                flash(**arguments)


@unittest.skipUnless(torch, "PyTorch is not here")
class RefusalTest(unittest.TestCase):
    def test_arguments(self):
        qkv, cu = tensors([20, 11])
        leaf, x = qkv.clone().requires_grad_(), torch.randn(31, 8)
        src = torch.arange(31, dtype=torch.int32)
        attention, select, out = raggedvit.attention, raggedvit.select, torch.zeros(31, 2, 32)
        for words, function, arguments, named in [
            ("^qkv is float64", attention, (qkv.double(), cu), {}),
            ("^qkv is int32", attention, (qkv.int(), cu), {}),
            (r"^qkv is float32 \[31, 2, 32\]; expected \[rows, 3", attention, (qkv[:, 0], cu), {}),
            ("^cu_seqlens is float32", attention, (qkv, cu.float()), {}),
            (r"^cu_seqlens is int32 \[1, 3\]", attention, (qkv, cu[None]), {}),
            ("^cu_seqlens is on meta, qkv on cpu", attention, (qkv, cu.to("meta")), {}),
            ("longer|max_len is 5", attention, (qkv, cu), {"max_len": 5}),
            ("^scale is 0", attention, (qkv, cu, 0.0), {}),
            ("^max_len is -1", attention, (qkv, cu, None, -1), {}),
            ("^a stream is given", attention, (qkv, cu), {"stream": 3}),
            (r"^out is float32 \[30, 2, 32\]; expected \[31, 2, 32\]", attention, (qkv, cu, None, None, out[:30]), {}),
            ("^out is float16", attention, (qkv, cu, None, None, out.half()), {}),
            ("^out is given, but a tensor requires grad", attention, (leaf, cu, None, None, out), {}),
            ("^lse is given, but a tensor requires grad", attention, (leaf, cu), {"lse": torch.zeros(31, 2)}),
            ("^out is a ndarray in host memory", attention, (qkv, cu, None, None, out.numpy()), {}),
            ("^k and v are given together", attention, (qkv[:, 0], cu), {"k": qkv[:, 1]}),
            (
                r"^key_bias is float32 \[30\]; expected contiguous float32 \[31\]",
                attention,
                (qkv, cu),
                {"key_bias": torch.zeros(30)},
            ),
            ("^key_bias is float16", attention, (qkv, cu), {"key_bias": torch.zeros(31).half()}),
            ("^x is float64", raggedvit.pack, (x.double(), src), {}),
            ("^src_rows is int64|^src_rows is float32", raggedvit.pack, (x, src.float()), {}),
            (r"^src_rows\[30\] is 30; expected a row from 0 to 29", raggedvit.pack, (x[:30], src), {}),
            (
                "^out is given, but a tensor requires grad",
                raggedvit.pack,
                (x.requires_grad_(), src, None, torch.zeros(31, 8)),
                {},
            ),
            ("^rows is not given", raggedvit.unpack, (x.detach(), src), {}),
            ("ascending", raggedvit.unpack, (x.detach(), src.flip(0)), {"rows": 31}),
            (
                "^x requires grad, but a selection has no gradient",
                select,
                (cu,),
                {"x": x.detach().requires_grad_(), "keep": 0.5},
            ),
            ("^nothing of keep, counts", select, (cu,), {"x": x.detach()}),
            ("^keep and threshold of", select, (cu,), {"x": x.detach(), "keep": 0.5, "threshold": 1.0}),
            ("^keep is 2|keep is", select, (cu,), {"x": x.detach(), "keep": 2.0}),
            ("^rows is not given", select, (cu,), {"position_scores": torch.rand(31), "keep": 0.5}),
            ("^mask is float32", select, (cu,), {"mask": torch.ones(31)}),
            ("image 0 has a NaN score", select, (cu,), {"scores": torch.full((31,), float("nan")), "keep": 0.5}),
        ]:
            with self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                function(*arguments, **named)

    def test_operators(self):
        qkv, cu = tensors([20, 11])
        leaf, op = qkv.clone().requires_grad_(), torch.ops.raggedvit.attention
        for words, arguments in [
            ("^cu_seqlens is int64", (qkv, cu.long())),
            ("^qkv is float64", (qkv.double(), cu)),
            ("^scale is 0", (qkv, cu, 0.0)),
            ("^max_len is -1", (qkv, cu, None, -1)),
            ("^qkv is not contiguous within a row", (tensors([20, 11], 32)[0].requires_grad_().transpose(2, 3), cu)),
        ]:
            with self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                op(*arguments)
            with torch.inference_mode(), self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                op(*arguments)
        with self.assertRaisesRegex(RaggedVitError, "has no second derivative"):
            first = torch.autograd.grad(op(leaf, cu).square().sum(), leaf, create_graph=True)[0]
            first.sum().backward()


if __name__ == "__main__":
    unittest.main()
