"""Compares raggedvit.attention on host arrays with float64."""

import unittest

import numpy as np

import support
import raggedvit
from raggedvit import RaggedVitError, Status

try:
    import torch
except ImportError:
    torch = None

LENGTHS = [[7], [20, 0, 197, 1], [0, 0], [], [33] * 9]


class AttentionTest(unittest.TestCase):
    def close(self, out, qkv, cu, tolerance, scale=None):
        live = cu[-1]
        error = np.abs(out[:live].astype(np.float64) - support.reference_attention(qkv, cu, scale)[:live])
        self.assertLess(error.max(initial=0), tolerance)

    def test_against_float64(self):
        for lengths in LENGTHS:
            for heads, dim in ((3, 64), (2, 8), (1, 128)):
                with self.subTest(lengths=lengths, heads=heads, dim=dim):
                    qkv, cu = support.batch(lengths, heads, dim, padding=3)
                    self.close(raggedvit.attention(qkv, cu), qkv, cu, 1e-5)
                    half = qkv.astype(np.float16)
                    out = raggedvit.attention(half, cu)
                    self.assertEqual(out.dtype, np.float16)
                    self.close(out, half, cu, 4e-3)

    def test_options(self):
        qkv, cu = support.batch([20, 0, 50], padding=2)
        self.close(raggedvit.attention(qkv, cu, scale=0.3, max_len=60), qkv, cu, 1e-5, scale=0.3)
        out = np.full((72, 3, 64), 7, np.float32)
        self.assertIs(raggedvit.attention(qkv, cu, out=out), out)
        self.close(out, qkv, cu, 1e-5)
        self.assertTrue((out[70:] == 7).all())
        spread = np.zeros((72, 5, 3, 64), np.float32)
        spread[:, 1:4] = qkv
        wide = np.zeros((72, 3, 128), np.float32)
        raggedvit.attention(spread[:, 1:4], cu, out=wide[:, :, 64:])
        np.testing.assert_array_equal(wide[:70, :, 64:], out[:70])
        self.assertTrue((wide[:, :, :64] == 0).all())
        np.testing.assert_array_equal(raggedvit.attention(qkv, cu.astype(np.int64))[:70], out[:70])
        np.testing.assert_array_equal(raggedvit.attention(qkv, cu.tolist())[:70], out[:70])

    def test_errors(self):
        qkv, cu = support.batch([20, 30])
        for words, arguments, named in [
            ("cu_seqlens decreases at image 1", (qkv, [0, 20, 10]), {}),
            ("capacity is 50 rows", (qkv, [0, 60]), {}),
            ("cu_seqlens", (qkv, [1, 20]), {}),
            ("cu_seqlens is float64", (qkv, [0.0, 20.0]), {}),
            ("not an int32", (qkv, [0, 2**40]), {}),
            ("cu_seqlens is", (qkv, np.zeros(0, np.int32)), {}),
            ("longer|max_len|30", (qkv, cu), {"max_len": 20}),
            ("head_dim is 60", (np.ascontiguousarray(qkv[..., :60]), cu), {}),
            (r"expected \[rows, 3, heads, head_dim\]", (qkv[:, 0], cu), {}),
            ("qkv is float64", (qkv.astype(np.float64), cu), {}),
            ("out is", (qkv, cu), {"out": np.zeros((50, 192), np.float32)}),
            ("out is not a numpy array of qkv's type", (qkv, cu), {"out": np.zeros((50, 3, 64), np.float16)}),
            ("scale is 0", (qkv, cu), {"scale": 0.0}),
            ("stream", (qkv, cu), {"stream": 0}),
        ]:
            with self.subTest(words):
                with self.assertRaisesRegex(RaggedVitError, words) as caught:
                    raggedvit.attention(*arguments, **named)
                self.assertEqual(caught.exception.status, Status.INVALID_ARGUMENT)
        self.close(raggedvit.attention(qkv, cu), qkv, cu, 1e-5)

    def test_threads(self):
        qkv, cu = support.batch([20, 60, 5])
        wanted, failures = raggedvit.attention(qkv, cu), []

        def work():
            for _ in range(50):
                if not np.array_equal(raggedvit.attention(qkv, cu), wanted):
                    failures.append(1)

        support.in_threads(*(work for _ in range(4)))
        self.assertEqual(failures, [])


@unittest.skipUnless(torch, "PyTorch is not here")
class TorchTest(unittest.TestCase):
    def test_tensors(self):
        qkv, cu = support.batch([20, 0, 50])
        wanted = raggedvit.attention(qkv, cu)
        tensor, lengths = torch.from_numpy(qkv), torch.from_numpy(cu)
        out = raggedvit.attention(tensor, lengths)
        self.assertIsInstance(out, torch.Tensor)
        np.testing.assert_array_equal(out.numpy(), wanted)
        buffer = torch.zeros(70, 3, 64)
        self.assertIs(raggedvit.attention(tensor, lengths, out=buffer), buffer)
        np.testing.assert_array_equal(buffer.numpy(), wanted)
        half = raggedvit.attention(tensor.bfloat16(), lengths)
        self.assertIs(half.dtype, torch.bfloat16)
        np.testing.assert_allclose(half.float().numpy(), wanted, atol=0.02 * np.abs(wanted).max())
        with self.assertRaisesRegex(RaggedVitError, "qkv is float64; expected one of float32, float16, bfloat16"):
            raggedvit.attention(tensor.double(), lengths)

    def test_operator(self):
        import raggedvit.torch

        qkv, cu = support.batch([20, 0, 50])
        tensor, lengths = torch.from_numpy(qkv), torch.from_numpy(cu)
        out = torch.ops.raggedvit.attention(tensor, lengths, max_len=50)
        np.testing.assert_array_equal(out.numpy(), raggedvit.attention(qkv, cu))
        torch.library.opcheck(
            torch.ops.raggedvit.attention.default,
            (tensor, lengths),
            {"max_len": 50, "scale": 0.3},
            test_utils=("test_schema", "test_faketensor"),
        )
        compiled = torch.compile(
            lambda a, b: raggedvit.torch.attention(a * 2, b, None, 50) + 1, backend="aot_eager", fullgraph=True
        )
        np.testing.assert_allclose(compiled(tensor, lengths), raggedvit.attention(qkv * 2, cu) + 1)


if __name__ == "__main__":
    unittest.main()
