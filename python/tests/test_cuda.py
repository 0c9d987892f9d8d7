"""Tests raggedvit.attention on CUDA arrays: tensors if there are a GPU and PyTorch, else memory of the library with
__cuda_array_interface__ and DLPack, which also works on the emulated driver of tests/cuda_emulation
(RVIT_TEST_CUDA_EMULATED=1)."""

import ctypes
import os
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import RaggedVitError
from raggedvit._arrays.arrays import from_dlpack
from raggedvit._c.constants import CONSTANTS
from raggedvit._arrays.core_loader import ready
from raggedvit._c.layouts import new
from raggedvit._c.library import library

try:
    import torch
except ImportError:
    torch = None

EMULATED = os.environ.get("RVIT_TEST_CUDA_EMULATED") == "1"


def why_not_torch():
    if torch is None:
        return "PyTorch is not here"
    if not torch.cuda.is_available():
        return "PyTorch finds no GPU"
    return why_not_plain()


def why_not_plain():
    cuda = [d for d in raggedvit.devices() if d.backend == "cuda" and d.index >= 0]
    return (
        ""
        if cuda
        else "there is no CUDA device: "
        + next(
            (d.note for d in raggedvit.devices(unusable=True) if d.backend == "cuda"), "the library has no CUDA backend"
        )
    )


@unittest.skipIf(why_not_torch(), why_not_torch())
class TorchTest(unittest.TestCase):
    def batch(self, lengths, dtype, **options):
        qkv, cu = support.batch(lengths, **options)
        return torch.from_numpy(qkv).to("cuda", dtype), torch.from_numpy(cu).cuda()

    def close(self, out, qkv, cu, tolerance, scale=None):
        wanted = support.reference_attention(qkv.double().cpu().numpy(), cu.tolist(), scale)
        live = int(cu[-1])
        self.assertLess(np.abs(out.double().cpu().numpy() - wanted)[:live].max(initial=0), tolerance)

    def test_against_float64(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            for lengths in ([7], [20, 0, 197, 1], [0, 0], [33] * 9):
                with self.subTest(dtype=dtype, lengths=lengths):
                    qkv, cu = self.batch(lengths, dtype, padding=3)
                    self.close(raggedvit.attention(qkv, cu, max_len=197), qkv, cu, tolerance)
                    self.close(raggedvit.attention(qkv, cu), qkv, cu, tolerance)

    def test_works_in_place_on_the_current_stream(self):
        qkv, cu = self.batch([20, 197], torch.float16)
        out, stream = torch.zeros_like(qkv[:, 0]), torch.cuda.Stream()
        # the first launch loads the kernel, which waits for the device
        raggedvit.attention(qkv.clone().mul_(0.5), cu, max_len=197, out=out)
        torch.cuda.synchronize()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(2_000_000_000)  # a second: the first call may load kernels
            qkv.mul_(0.5)  # must finish before the attention reads it
            self.assertIs(raggedvit.attention(qkv, cu, max_len=197, out=out), out)
        self.assertFalse(stream.query())  # the call did not wait
        stream.synchronize()
        self.close(out, qkv, cu, 4e-3)

    def test_streams_in_turn(self):
        qkv, cu = self.batch([20, 197, 50], torch.float16)
        wanted = raggedvit.attention(qkv, cu, max_len=197)
        torch.cuda.synchronize()
        outs = []
        for stream in [torch.cuda.Stream() for _ in range(4)] * 5:
            with torch.cuda.stream(stream):
                outs.append(raggedvit.attention(qkv, cu, max_len=197))
        torch.cuda.synchronize()
        self.assertTrue(all(torch.equal(out, wanted) for out in outs))

    def test_slices(self):
        qkv, cu = self.batch([20, 50], torch.float16)
        packed = torch.zeros(3, dtype=torch.int32, device="cuda")
        lengths = torch.cat([packed[:1], cu])[1:]  # aligned to only 4 bytes
        wide = torch.zeros(70, 5, 3, 64, dtype=torch.float16, device="cuda")
        wide[:, 1:4] = qkv
        self.close(raggedvit.attention(wide[:, 1:4], lengths, max_len=50), qkv, cu, 4e-3)
        with self.assertRaises(RaggedVitError):
            raggedvit.attention(qkv.transpose(2, 3), cu)
        with self.assertRaisesRegex(RaggedVitError, "cu_seqlens is on cpu"):
            raggedvit.attention(qkv, cu.cpu())
        with self.assertRaisesRegex(RaggedVitError, "cu_seqlens is int64"):
            raggedvit.attention(qkv, cu.long())

    def test_operator(self):
        import raggedvit.torch

        qkv, cu = self.batch([20, 50], torch.float16)
        wanted = raggedvit.attention(qkv, cu, max_len=50)
        self.assertTrue(torch.equal(torch.ops.raggedvit.attention(qkv, cu, None, 50), wanted))
        compiled = torch.compile(
            lambda a, b: torch.ops.raggedvit.attention(a, b, None, 50) + 1, backend="aot_eager", fullgraph=True
        )
        self.assertTrue(torch.equal(compiled(qkv, cu), wanted + 1))


class Interface:
    """Device memory with __cuda_array_interface__."""

    def __init__(self, address, shape, typestr, stream):
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": typestr,
            "strides": None,
            "version": 3,
            "stream": stream,
        }


@unittest.skipIf(why_not_plain(), why_not_plain())
class InterfaceTest(unittest.TestCase):
    """Tests arrays in memory of the library, in its own context and on its own stream."""

    @classmethod
    def setUpClass(cls):
        lib = cls.lib = library()
        desc = new("rvit_device_desc", backend=CONSTANTS["RVIT_BACKEND_CUDA"])
        cls.device = lib.own("device", ctypes.byref(desc))
        cls.stream = lib.own("stream", cls.device)
        cls.context = lib.make("rvit_cuda_device_context", cls.device)
        cls.cu_stream = lib.make("rvit_stream_handle", cls.stream).value
        cls.driver = ctypes.CDLL("libcuda.so.1")
        cls.view = type(new("rvit_copy_args").source)

    def setUp(self):
        self.assertEqual(self.driver.cuCtxSetCurrent(self.context), 0)

    def upload(self, array):
        array = np.ascontiguousarray(array)
        size = max(16, (array.nbytes + 15) // 16 * 16)
        buffer = self.lib.own("buffer", self.device, size, CONSTANTS["RVIT_BUFFER_DEVICE"])
        if array.nbytes:
            self.lib.rvit_stream_write(self.stream, self.view(buffer.pointer, 0), array.ctypes.data, array.nbytes)
        self.addCleanup(lambda: buffer)  # keeps the buffer alive until the cleanup
        return buffer, Interface(self.lib.address(buffer), array.shape, array.dtype.str, self.cu_stream)

    def download(self, buffer, like):
        out = np.empty_like(like)
        self.lib.rvit_stream_read(self.stream, self.view(buffer.pointer, 0), out.ctypes.data, out.nbytes)
        return out

    def test_against_float64(self):
        for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 4e-3)):
            for lengths in ([20, 0, 50, 1], [7], [33] * 4):
                with self.subTest(dtype=dtype, lengths=lengths):
                    qkv, cu = support.batch(lengths, heads=2, dtype=dtype, padding=2)
                    out = np.full_like(qkv[:, 0], 7)
                    memory = [self.upload(a) for a in (qkv, cu, out)]
                    result = raggedvit.attention(memory[0][1], memory[1][1], max_len=max(lengths), out=memory[2][1])
                    self.assertIs(result, memory[2][1])
                    found, live = self.download(memory[2][0], out), cu[-1]
                    error = np.abs(found.astype(np.float64) - support.reference_attention(qkv, cu))[:live]
                    self.assertLess(error.max(), tolerance)
                    self.assertTrue((found[live:] == 7).all())

    def test_repeated_calls_allocate_nothing(self):
        qkv, cu = support.batch([20, 50], heads=2, dtype=np.float16)
        memory = [self.upload(a) for a in (qkv, cu, qkv[:, 0])]
        stats, counts = new("rvit_stats"), []
        for _ in range(4):
            raggedvit.attention(memory[0][1], memory[1][1], max_len=50, out=memory[2][1])
            self.lib.rvit_stream_get_stats(ready().last_stream(), ctypes.byref(stats))
            counts.append((stats.host_allocations, stats.device_allocations, stats.synchronizations))
        self.assertEqual(counts[1:], counts[:1] * 3)

    def test_pipeline(self):
        """Scores, selection, packing and unpacking give the CPU's results."""
        qkv, cu = support.batch([20, 0, 50], heads=2, padding=2)
        n, rows, live, dim = len(cu) - 1, len(qkv), cu[-1], 128
        wide = np.float32
        out, _, probs = raggedvit.attention(qkv, cu, cls_probs=True)
        wanted = raggedvit.select(cu, cls_probs=probs, keep=0.5, rows=rows, max_len=50)
        counts = np.floor(np.arange(51) * 0.5).astype(np.int32)
        shapes = {
            "qkv": qkv,
            "cu": cu,
            "out": np.zeros_like(out),
            "lse": np.zeros((rows, 2), wide),
            "cls": np.zeros((rows, 2), wide),
            "counts": counts,
            "new_cu": np.zeros(n + 1, np.int32),
            "src": np.zeros(rows, np.int32),
            "keep": np.zeros(rows, np.uint8),
            "scores": np.zeros(rows, wide),
            "error": np.full(1, 7, np.int32),
            "packed": np.zeros((rows, dim), wide),
            "spread": np.zeros((rows, dim), wide),
        }
        memory = {name: self.upload(array) for name, array in shapes.items()}
        on = {name: described for name, (_, described) in memory.items()}
        raggedvit.attention(on["qkv"], on["cu"], max_len=50, out=on["out"], lse=on["lse"], cls_probs=on["cls"])
        selection = raggedvit.Selection(on["new_cu"], on["src"], on["keep"], on["scores"], on["error"])
        flat = Interface(on["out"].__cuda_array_interface__["data"][0], (rows, dim), "<f4", self.cu_stream)
        found = raggedvit.select(
            on["cu"], cls_probs=on["cls"], counts=on["counts"], max_len=50, out=selection, rows=rows
        )
        self.assertIs(found, selection)
        raggedvit.pack(flat, on["src"], on["new_cu"], out=on["packed"])
        raggedvit.unpack(on["packed"], on["src"], on["new_cu"], fill=-1.0, out=on["spread"])
        names = ("new_cu", "src", "keep", "error", "packed", "spread", "out")
        back = {name: self.download(memory[name][0], shapes[name]) for name in names}
        np.testing.assert_array_equal(back["new_cu"], wanted.cu_seqlens)
        kept = back["new_cu"][-1]
        np.testing.assert_array_equal(back["src"][:kept], wanted.src_rows[:kept])
        np.testing.assert_array_equal(back["keep"][:live], wanted.keep[:live])
        self.assertEqual(back["error"][0], 0)
        mine = back["out"].reshape(rows, dim)
        np.testing.assert_array_equal(back["packed"][:kept], mine[back["src"][:kept]])
        spread = np.full((rows, dim), -1, wide)
        spread[back["src"][:kept]] = mine[back["src"][:kept]]
        np.testing.assert_array_equal(back["spread"], spread)

    def test_errors(self):
        qkv, cu = support.batch([20, 50], heads=2, dtype=np.float16)
        (_, q), (_, c), (_, out) = [self.upload(a) for a in (qkv, cu, qkv[:, 0])]
        odd = Interface(q.__cuda_array_interface__["data"][0] + 8, (69, 3, 2, 64), "<f2", self.cu_stream)
        short = Interface(out.__cuda_array_interface__["data"][0], (69, 2, 64), "<f2", self.cu_stream)
        double = Interface(q.__cuda_array_interface__["data"][0], (1, 3, 2, 64), "<f8", self.cu_stream)
        for words, arguments, named in [
            ("out is not given", (q, c), {}),
            ("host memory", (q, cu), {"out": out}),
            ("16", (odd, c), {"out": short}),
            ("out is", (q, c), {"out": short}),
            ("qkv is <f8", (double, c), {"out": out}),
            ("cu_seqlens is float16", (q, out), {"out": out}),
        ]:
            with self.subTest(words), self.assertRaisesRegex(RaggedVitError, words):
                raggedvit.attention(*arguments, **named)
        self.driver.cuCtxSetCurrent(None)
        with self.assertRaisesRegex(RaggedVitError, "no CUDA context is current"):
            raggedvit.attention(q, c, out=out)

    def test_logits_equal_the_reference(self):
        if EMULATED:
            self.skipTest("slow on the emulated driver")
        for dtype, tolerance in (("f32", 1e-4), ("f16", 4e-2)):
            logits = (
                raggedvit.Model(support.CHECKPOINT, device="cuda", dtype=dtype)
                .classify(support.tiles(64), "none")
                .logits
            )
            self.assertLess(np.abs(logits - support.reference_logits()).max(), tolerance)


class DLPackTest(unittest.TestCase):
    def test_capsules(self):
        """Reads numpy's capsules."""
        array = np.arange(48, dtype=np.float32).reshape(4, 3, 4)
        for wanted in (array, array[1:, :, ::2], array.astype(np.float16), array.astype(np.int32)[0, 0]):
            found = from_dlpack(wanted.__dlpack__(), "x")
            steps = tuple(step // wanted.itemsize for step in wanted.strides)
            self.assertEqual(
                (found.address, found.shape, found.strides, found.dtype),
                (wanted.ctypes.data, wanted.shape, steps, str(wanted.dtype)),
            )
        self.assertIn("DLPack type", from_dlpack(array.astype(np.float64).__dlpack__(), "x").dtype)


if __name__ == "__main__":
    unittest.main()
