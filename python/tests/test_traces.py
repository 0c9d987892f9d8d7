"""PyTorch's traces, tangents, transforms and negated views give right results or are refused."""

import copy
import io
import pickle
import unittest
import warnings

import support
import raggedvit
from raggedvit import Policy, RaggedVitError

try:
    import torch
    from torch.autograd import forward_ad
    from torch.fx.experimental.proxy_tensor import make_fx

    import raggedvit.torch
except ImportError:
    torch = None


class Called(torch.nn.Module if torch is not None else object):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def by_jit(function, x):
    """Returns a trace after saving and loading it, as exporters do."""
    file = io.BytesIO()
    torch.jit.save(torch.jit.trace(Called(function), (x,), check_trace=False), file)
    file.seek(0)
    return torch.jit.load(file)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class TraceTest(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")
        self.addCleanup(warnings.resetwarnings)
        torch.manual_seed(0)
        cu, qkv, q, x = (
            torch.tensor([0, 8, 20], dtype=torch.int32),
            torch.randn(20, 3, 2, 16),
            torch.randn(20, 2, 16),
            torch.randn(20, 16),
        )
        rows, kept = torch.arange(0, 20, 2, dtype=torch.int32), torch.tensor([0, 4, 10], dtype=torch.int32)
        flash = raggedvit.torch.flash_attn_varlen_func
        self.differentiable = {
            "attention": (lambda a: raggedvit.attention(a, cu, max_len=12), qkv),
            "attention with lse": (lambda a: raggedvit.attention(a, cu, max_len=12, lse=True)[1], qkv),
            "attention, apart": (lambda a: raggedvit.attention(a, cu, k=a, v=a, max_len=12), q),
            "key_bias": (lambda a: raggedvit.attention(qkv, cu, max_len=12, key_bias=a), torch.randn(20)),
            "flash_attn_varlen_func": (lambda a: flash(a, a, a, cu, cu, 12, 12), q),
            "the operator": (lambda a: torch.ops.raggedvit.attention(a, cu, None, 12), qkv),
            "pack": (lambda a: raggedvit.pack(a, rows, kept), x),
            "gather": (lambda a: raggedvit.gather(a, rows), x),
            "unpack": (lambda a: raggedvit.unpack(a, rows, kept, rows=20), x[:10].clone()),
            "unpack's base": (lambda a: raggedvit.unpack(x[:10], rows, kept, base=a), x.clone()),
        }
        self.all = self.differentiable | {
            "select": (lambda a: raggedvit.select(cu, x=a, keep=0.5, max_len=12).keep, x),
            "select by samples": (
                lambda a: raggedvit.select(cu, x=x, cls_probs=a.abs(), n_samples=3, max_len=12).keep,
                torch.randn(20, 2),
            ),
        }

    def test_traces(self):
        """Every trace contains the call and not its result."""
        ways = {
            "torch.jit.trace": by_jit,
            "torch.fx": lambda f, x: torch.fx.symbolic_trace(Called(f)),
            "make_fx": lambda f, x: make_fx(f)(x),
            "torch.export": lambda f, x: torch.export.export(Called(f), (x,)).module(),
            "torch.compile": lambda f, x: torch.compile(f, fullgraph=True, backend="eager"),
        }
        for name, (function, x) in self.all.items():
            other = torch.randn_like(x)
            for way, trace in ways.items():
                with self.subTest(name, way=way):
                    self.assertTrue(torch.equal(trace(function, x)(other), function(other)))
        self.assertIn(
            "raggedvit::gather", str(by_jit(*self.all["gather"]).graph)
        )  # its gradient differs from that of pack

    def test_tangents(self):
        for name, (function, x) in self.all.items():
            along = torch.randn_like(x)

            def dual():
                with forward_ad.dual_level():
                    function(forward_ad.make_dual(x, along))

            for call in (
                lambda: torch.func.jvp(function, (x,), (along,)),
                lambda: torch.func.jacfwd(function)(x),
                dual,
            ):
                with (
                    self.subTest(name),
                    self.assertRaisesRegex(RaggedVitError, "no forward-mode derivative|has a tangent"),
                ):
                    call()
            with forward_ad.dual_level():  # tangents of another tensor
                self.assertTrue(torch.equal(function(x), function(x)))

    def test_transforms(self):
        for name, (function, x) in self.all.items():
            with self.subTest(name):
                if name.startswith("select"):
                    self.assertRaisesRegex(
                        RaggedVitError, "outside the transform", torch.vmap(function), torch.stack([x, x])
                    )
                    self.assertRaisesRegex(
                        RaggedVitError, "outside the transform", torch.func.functionalize(function), x
                    )
                    continue
                self.assertTrue(
                    torch.equal(torch.vmap(function)(torch.stack([x, -x])), torch.stack([function(x), function(-x)]))
                )
                self.assertRaisesRegex(
                    RaggedVitError, "use torch.autograd", torch.func.grad(lambda a: function(a).sum()), x
                )

    def test_views_that_negate(self):
        for name, (function, x) in self.all.items():
            for view in (torch._neg_view(x), torch.complex(x, x).conj().imag):
                with self.subTest(name):
                    self.assertTrue(view.is_neg() and torch.equal(function(view), function(-x)))
                    if name in self.differentiable:
                        a, b = view.detach().requires_grad_(), (-x).requires_grad_()
                        (function(a).sum() + function(b).sum()).backward()
                        torch.testing.assert_close(a.grad, b.grad)
        qkv, cu = self.all["attention"][1], torch.tensor([0, 20], dtype=torch.int32)
        negated = torch._neg_view(torch.zeros(20, 2, 16))
        self.assertRaisesRegex(RaggedVitError, "^out is a view that negates", raggedvit.attention, qkv, cu, out=negated)
        self.assertRaisesRegex(
            RaggedVitError, "^out is a view that negates", raggedvit.pack, negated, cu[:1], out=negated[:1]
        )

    def test_a_model(self):
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        forward, x = model.prepare(Policy("l2", keep=0.5)), torch.randn(1, 3, 224, 224)
        for call in (
            forward,
            lambda a: model.classify(a, Policy("l2", keep=0.5)).logits,
            lambda a: next(iter(forward.map([a]))),
        ):
            for trace in (
                lambda f: by_jit(f, x),
                lambda f: torch.fx.symbolic_trace(Called(f)),
                lambda f: make_fx(f)(x),
                lambda f: torch.export.export(Called(f), (x,)),
            ):
                self.assertRaisesRegex(RaggedVitError, "record its result as a constant", trace, call)
            self.assertRaisesRegex(RaggedVitError, "have a tangent", torch.func.jvp, call, (x,), (x,))
            self.assertRaisesRegex(RaggedVitError, "outside the transform", torch.vmap(call), x[None])
            self.assertRaisesRegex(RaggedVitError, "expected a dense one", call, x.to_sparse())
            self.assertTrue(torch.equal(call(torch._neg_view(x)), forward(-x)))
        for attempt, made in (
            (pickle.dumps, model),
            (copy.copy, model),
            (copy.deepcopy, model),
            (pickle.dumps, forward),
        ):
            self.assertRaisesRegex(RaggedVitError, "cannot be pickled or copied", attempt, made)
        pairs = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, torch.zeros(1)))
        self.assertRaisesRegex(RaggedVitError, r"map\(images for images, \*_ in loader\)", list, forward.map(pairs))
        self.assertEqual(len(list(forward.map(images for images, *_ in pairs))), 1)

    def test_arguments_of_other_kinds(self):
        q, flash = torch.randn(8, 2, 16), raggedvit.torch.flash_attn_varlen_func
        lengths = torch.tensor([0, 8], dtype=torch.int32)
        for words, arguments, named in [
            (r"^cu_seqlens_q is \[0, 8\]; expected a tensor", ([0, 8], [0, 8], 8, 8), {}),
            ("^cu_seqlens: None", (None, None, 8, 8), {}),
            ("^cu_seqlens_k is None", (lengths, None, 8, 8), {}),
            ("^max_seqlen_k is None", (lengths, lengths, 8, None), {}),
            ("^window_size is 3", (lengths, lengths, 8, 8), {"window_size": 3}),
            ("^causal is", (lengths, lengths, 8, 8), {"causal": "yes"}),
        ]:
            with self.subTest(words):
                self.assertRaisesRegex(RaggedVitError, words, flash, q, q, q, *arguments, **named)
        self.assertRaisesRegex(RaggedVitError, "k and v are given together", flash, q, q, None, lengths, lengths, 8, 8)
        self.assertRaisesRegex(RaggedVitError, "^src_rows: None", raggedvit.pack, q, None)
        self.assertRaisesRegex(RaggedVitError, "^x is a sparse_coo tensor", raggedvit.pack, q.to_sparse(), lengths)
        self.assertRaisesRegex(
            RaggedVitError, "^out is .*; expected a Selection", raggedvit.select, lengths, x=q, keep=0.5, out=3
        )


if __name__ == "__main__":
    unittest.main()
