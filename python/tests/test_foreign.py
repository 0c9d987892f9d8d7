"""Tests arrays with unusual or invalid descriptions from numpy, DLPack and __cuda_array_interface__, and overlapping
outputs."""

import ctypes
import unittest
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_void_p

import numpy as np

import support
import raggedvit
from raggedvit import RaggedVitError
from raggedvit._arrays import arrays
from raggedvit._arrays.arrays import DeviceArray, _DLTensor
from raggedvit._arrays.core_loader import ready

try:
    import torch
except ImportError:
    torch = None


def aligned(values, ahead=0):
    """Copies values to an address `ahead` bytes past a multiple of 16."""
    memory = np.zeros(values.nbytes + 32, np.uint8)
    begin = -memory.ctypes.data % 16 + ahead
    found = memory[begin : begin + values.nbytes].view(values.dtype).reshape(values.shape)
    found[...] = values
    return found


class NumpyTest(unittest.TestCase):
    def setUp(self):
        self.qkv, self.cu = support.batch([5, 7], heads=2, dim=8)
        self.x, self.rows = self.qkv[:, 0, 0].copy(), np.arange(12, dtype=np.int32)
        self.calls = {
            "qkv": (self.qkv, lambda a: raggedvit.attention(a, self.cu)),
            "key_bias": (self.x[:, 0].copy(), lambda a: raggedvit.attention(self.qkv, self.cu, key_bias=a)),
            "cu_seqlens": (self.cu, lambda a: raggedvit.attention(self.qkv, a)),
            "k": (self.x[:, None], lambda a: raggedvit.attention(self.x[:, None], self.cu, k=a, v=self.x[:, None])),
            "x": (self.x, lambda a: raggedvit.pack(a, self.rows)),
            "src_rows": (self.rows, lambda a: raggedvit.unpack(self.x, a, rows=12)),
            "base": (self.x, lambda a: raggedvit.unpack(self.x[:3], self.rows[:3], base=a)),
            "scores": (self.x[:, 0].copy(), lambda a: raggedvit.select(self.cu, scores=a, keep=0.5).keep),
            "select's x": (self.x, lambda a: raggedvit.select(self.cu, x=a, keep=0.5).keep),
            "cls_probs": (self.x, lambda a: raggedvit.select(self.cu, cls_probs=a, keep=0.5).keep),
            "position_scores": (
                self.x[:, 0].copy(),
                lambda a: raggedvit.select(self.cu, position_scores=a, keep=0.5, rows=12).keep,
            ),
            "mask": (np.ones(12, bool), lambda a: raggedvit.select(self.cu, mask=a).keep),
        }

    def test_items_that_are_not_numbers(self):
        tried = 0
        for name, (good, call) in self.calls.items():
            for dtype in ("V0", "S0", "U0", "V4", "O", "M8[s]", [("a", np.float32)], np.complex64):
                odd = np.zeros(good.shape, dtype)
                with self.subTest(name, dtype=dtype), self.assertRaises(RaggedVitError):
                    call(odd)
                tried += 1
            with self.subTest(name, shape=()), self.assertRaises(RaggedVitError):
                call(np.array(good.flat[0]))
        self.assertEqual(tried, 96)

    def test_other_layouts_give_the_same_results(self):
        for name, (good, call) in self.calls.items():
            wanted = call(good)
            for kind, odd in (
                ("odd address", aligned(good, 1)),
                ("another byte order", good.astype(good.dtype.newbyteorder(">"))),
                ("backwards", good[::-1].copy()[::-1]),
                ("columns first", np.asfortranarray(good)),
            ):
                with self.subTest(name, kind=kind):
                    np.testing.assert_array_equal(call(odd), wanted)

    def test_read_only_outputs(self):
        fixed = np.zeros((12, 8), np.float32)
        fixed.flags.writeable = False
        for call in (
            lambda: raggedvit.pack(self.x, self.rows, out=fixed),
            lambda: raggedvit.unpack(self.x, self.rows, out=fixed),
            lambda: raggedvit.select(self.cu, scores=self.x[:, 0].copy(), keep=0.5, fuse_x=fixed),
        ):
            with self.assertRaisesRegex(RaggedVitError, "read-only|can be written"):
                call()
        self.assertFalse(fixed.any())


class DescribedTest(unittest.TestCase):
    """Descriptions are checked before any memory is read."""

    def test_impossible_shapes_and_addresses(self):
        memory = np.zeros(1 << 12, np.uint8)
        at = memory.ctypes.data + -memory.ctypes.data % 16
        good = {
            "address": at,
            "shape": (2, 3, 1, 8),
            "strides": (24, 8, 8, 1),
            "dtype": "float32",
            "stream": 0,
            "owner": None,
            "device": 0,
            "host": True,
        }
        cu, out = (
            DeviceArray(at + 1024, (2,), (1,), "int32", 0, None, 0, host=True),
            DeviceArray(**dict(good, address=at + 2048, shape=(2, 1, 8), strides=(8, 8, 1))),
        )
        attention = ready().strict_attention
        self.assertIs(attention(DeviceArray(**good), cu, None, None, out), out)
        for words, change in [
            ("address 0x.*expected a multiple of 4", {"address": at + 2}),
            ("has no memory", {"address": 0}),
            ("no memory has", {"address": 2**64 - 4}),
            ("no memory has", {"shape": (2**62, 3, 1, 8)}),
            ("no memory has", {"shape": (2, -3, 1, 8)}),
            ("no memory has", {"strides": (2**61, 8, 8, 1)}),
            ("no memory has", {"strides": (-(2**61), 8, 8, 1)}),
            ("no memory has", {"strides": (-(2**58), 8, 8, 1)}),
            ("9 dimensions", {"shape": (1,) * 9, "strides": (1,) * 9}),
            ("cannot be described", {"strides": (1,)}),
            ("cannot be described", {"shape": (2**64, 3, 1, 8)}),
            ("^qkv is ", {"dtype": "float64"}),
            ("^qkv is ", {"dtype": None}),
        ]:
            with self.subTest(words, **change), self.assertRaisesRegex(RaggedVitError, words):
                attention(DeviceArray(**dict(good, **change)), cu, None, None, out)
        for shape, words in (((2,), "expected a multiple of 4"), ((), "expected contiguous int32")):
            bad = DeviceArray(at + 1024 + len(shape), shape, (1,) * len(shape), "int32", 0, None, 0, host=True)
            with self.assertRaisesRegex(RaggedVitError, "^cu_seqlens.*" + words):
                attention(DeviceArray(**good), bad, None, None, out)

    def test_capsules(self):
        numbers = (c_int64 * 2)(3, 4)
        good = {"data": 4096, "device_type": 2, "ndim": 2, "code": 2, "bits": 32, "lanes": 1, "shape": numbers}
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        for words, change in [
            ("", {}),
            ("vectors", {"lanes": 0}),
            ("dimensions", {"ndim": -1}),
            ("dimensions", {"ndim": 2**31 - 1}),
            ("dimensions", {"shape": None}),
            ("no memory is", {"byte_offset": 2**64 - 1}),
            ("no memory is", {"shape": (c_int64 * 2)(3, -4)}),
        ]:
            tensor = dl_tensor(**dict(good, **change))
            capsule = new(ctypes.addressof(tensor), b"dltensor", None)
            with self.subTest(**change):
                if not words:
                    self.assertEqual(arrays.from_dlpack(capsule, "x").strides, (4, 1))
                    continue
                with self.assertRaisesRegex(RaggedVitError, words):
                    arrays.from_dlpack(capsule, "x")

    def test_arrays_that_raise(self):
        class Raises:
            __dlpack_device__ = None

            def __array__(self, *arguments, **named):
                raise KeyError("no")

            @property
            def __cuda_array_interface__(self):
                raise ZeroDivisionError("no")

        class Nowhere(np.ndarray):
            def __dlpack_device__(self):
                return None

        qkv, cu = support.batch([4], heads=1, dim=8)
        for call in (
            lambda a: raggedvit.attention(a, cu),
            lambda a: raggedvit.attention(qkv, cu, key_bias=a),
            lambda a: raggedvit.pack(a, cu),
            lambda a: raggedvit.select(a, x=qkv[:, 0, 0], keep=0.5),
        ):
            for value in (Raises(), qkv.view(Nowhere)):
                self.assertRaisesRegex(RaggedVitError, "does not give its address", call, value)


def dl_tensor(code=2, bits=32, lanes=1, device_type=1, shape=None, strides=None, **fields):
    tensor = _DLTensor(**fields)
    tensor.device.device_type, tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes = device_type, code, bits, lanes
    for name, numbers in (("shape", shape), ("strides", strides)):
        if numbers is not None:
            setattr(tensor, name, ctypes.cast(numbers, POINTER(c_int64)))
    return tensor


class Foreign:
    """A tensor of a framework that exists only in this test. It has DLPack's exchange API in C; the test sets the
    fields of its struct."""

    requires_grad = False

    def __init__(self, **fields):
        self.tensor = dl_tensor(**fields)

    def is_neg(self):
        return False

    @classmethod
    def offer(cls):
        def borrow(value, out):
            out[0] = ctypes.cast(value, ctypes.py_object).value.tensor
            return 0

        def fail(*arguments):
            return -1

        kinds = [ctypes.PYFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))] * 3 + [
            ctypes.PYFUNCTYPE(c_int, c_void_p, POINTER(_DLTensor)),
            ctypes.PYFUNCTYPE(c_int, c_int32, c_int32, c_void_p),
        ]
        cls.functions = [kind(function) for kind, function in zip(kinds, (fail, fail, fail, borrow, fail))]
        cls.table = (c_void_p * 7)(
            ctypes.c_uint64(1).value, None, *[ctypes.cast(f, c_void_p).value for f in cls.functions]
        )
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
        cls.__dlpack_c_exchange_api__ = new(ctypes.addressof(cls.table), b"dlpack_exchange_api", None)
        return ready().tensor_type(cls)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class ExchangeTest(unittest.TestCase):
    """Tests structs with invalid values. Nothing is computed: after all checks of the struct, PyTorch's hook refuses
    foreign tensors."""

    def test_invalid_structs(self):
        import raggedvit._torch.eager  # noqa: F401 (sets the hooks)

        self.assertTrue(Foreign.offer())
        memory = np.zeros(1 << 12, np.uint8)
        at = memory.ctypes.data + -memory.ctypes.data % 16
        kept = []

        def numbers(*values):
            kept.append((c_int64 * len(values))(*values))
            return kept[-1]

        lengths = Foreign(data=at + 1024, ndim=1, code=0, shape=numbers(2))
        good = {"data": at, "ndim": 4, "shape": numbers(2, 3, 1, 8), "strides": numbers(24, 8, 8, 1)}
        core = ready()
        with self.assertRaisesRegex(RaggedVitError, "negates"):  # refused only by the hook
            core.strict_attention(Foreign(**good), lengths, None, None, None)
        for words, change in [
            ("4 dimensions", {"shape": None}),
            ("-1 dimensions", {"ndim": -1}),
            ("9 dimensions", {"ndim": 9}),
            ("2147483647 dimensions", {"ndim": 2**31 - 1}),
            ("no memory has", {"shape": numbers(-2, 3, 1, 8)}),
            ("no memory has", {"shape": numbers(2**62, 2**62, 1, 8)}),
            ("no memory has", {"strides": numbers(2**62, 8, 8, 1)}),
            ("no memory has", {"strides": numbers(-(2**63), 8, 8, 1)}),
            ("no memory has", {"strides": None, "shape": numbers(2**40, 2**40, 1, 8)}),
            ("multiple of 4", {"byte_offset": 2}),
            ("no memory", {"byte_offset": 2**64 - at}),
            ("no memory has", {"byte_offset": 2**64 - at - 4}),
            ("^qkv is ", {"lanes": 4}),
            ("^qkv is ", {"lanes": 0}),
            ("^qkv is ", {"bits": 0}),
            ("^qkv is ", {"code": 77}),
            ("neither a CPU nor CUDA", {"device_type": 9}),
        ]:
            fields = dict(good, **change)
            with (
                self.subTest(words, **{name: str(value) for name, value in change.items()}),
                self.assertRaisesRegex(RaggedVitError, words),
            ):
                core.strict_attention(Foreign(**fields), lengths, None, None, None)
        for function in (core.strict_pack, core.strict_unpack):
            with self.assertRaisesRegex(RaggedVitError, "no memory has"):
                function(Foreign(**dict(good, shape=numbers(2, -3, 1, 8))), lengths)
        with self.assertRaisesRegex(RaggedVitError, "multiple of 4"):
            core.strict_attention(
                Foreign(**dict(good, code=0, bits=32)),
                Foreign(data=at + 1025, ndim=1, code=0, shape=numbers(2)),
                None,
                None,
                None,
            )


class OverlapTest(unittest.TestCase):
    def setUp(self):
        self.qkv, self.cu = (aligned(a) for a in support.batch([14, 26], heads=2, dim=16))

    def kinds(self):
        return (("numpy", lambda a: a),) + ((("torch", torch.from_numpy),) if torch is not None else ())

    def test_overlapping_outputs(self):
        for kind, of in self.kinds():
            qkv, cu, same = of(self.qkv), of(self.cu), aligned(np.zeros((40, 2), np.float32))
            out, big = aligned(np.zeros((40, 2, 16), np.float32)), aligned(np.zeros((41, 2), np.float32))
            for words, named in [
                ("overlaps", {"lse": of(same), "cls_probs": of(same)}),
                ("overlaps", {"lse": of(big[:40]), "cls_probs": of(big[1:])}),
                ("overlaps", {"out": of(out), "lse": of(out.reshape(-1)[:80].reshape(40, 2))}),
                ("overlaps", {"lse": of(big[1:]), "cls_probs": of(big[:40])}),
            ]:
                with self.subTest(kind, named=list(named)), self.assertRaisesRegex(RaggedVitError, words):
                    raggedvit.attention(qkv, cu, **named)

    def test_outputs_over_inputs(self):
        """Outputs are written after all inputs have been read."""
        for kind, of in self.kinds():
            bias, x, rows = (
                aligned(np.random.default_rng(1).standard_normal(40).astype(np.float32)),
                self.qkv[:, 0, 0],
                np.arange(0, 40, 2),
            )
            qkv, cu = of(self.qkv), of(self.cu)
            wanted = np.array(raggedvit.attention(qkv, cu, key_bias=of(bias)))
            with self.subTest(kind, over="key_bias"):
                memory = aligned(np.zeros((40, 2, 16), np.float32))
                memory.reshape(-1)[8:48] = bias
                found = raggedvit.attention(qkv, cu, key_bias=of(memory.reshape(-1)[8:48]), out=of(memory))
                np.testing.assert_array_equal(np.array(found), wanted)
            with self.subTest(kind, over="q"):
                copy = aligned(self.qkv)
                np.testing.assert_array_equal(
                    np.array(raggedvit.attention(of(copy), cu, key_bias=of(bias), out=of(copy)[:, 1])), wanted
                )
            with self.subTest(kind, over="cu_seqlens"):
                memory = aligned(np.zeros((40, 2, 16), np.float32))
                lengths = memory.reshape(-1)[4:7].view(np.int32)
                lengths[:] = self.cu
                found = raggedvit.attention(qkv, of(lengths), key_bias=of(bias), out=of(memory))
                np.testing.assert_array_equal(np.array(found), wanted)
            rows = aligned(rows.astype(np.int32))
            for name, call in (
                ("pack", lambda m: raggedvit.pack(of(m[:40]), of(rows), out=of(m[1:21]))),
                ("gather", lambda m: raggedvit.gather(of(m[:40]), of(rows), out=of(m[1:21]))),
                ("unpack", lambda m: raggedvit.unpack(of(m[:20]), of(rows), rows=40, out=of(m[1:]))),
                (
                    "unpack's base",
                    lambda m: raggedvit.unpack(of(m[:20].copy()), of(rows), base=of(m[:40]), out=of(m[1:])),
                ),
            ):
                with self.subTest(kind, over=name):
                    memory = aligned(np.concatenate([x, x[:1]]))
                    plain = memory[:40].copy()
                    wanted_rows = (
                        plain[rows]
                        if name in ("pack", "gather")
                        else (np.zeros_like if name == "unpack" else np.copy)(plain)
                    )
                    if name.startswith("unpack"):
                        wanted_rows[rows] = plain[:20]
                    np.testing.assert_array_equal(np.array(call(memory)), wanted_rows)

    def test_select(self):
        scores = aligned(np.random.default_rng(1).standard_normal(40).astype(np.float32))
        for kind, of in self.kinds():
            whole = aligned(np.zeros(256, np.int32))
            out = raggedvit.Selection(
                of(whole[:3]), of(whole[4:44]), of(whole[40:].view(bool)[:40]), of(scores), of(whole[3:4])
            )
            with self.subTest(kind), self.assertRaisesRegex(RaggedVitError, "overlaps"):
                raggedvit.select(of(self.cu), scores=of(scores), keep=0.5, max_len=26, out=out)


if __name__ == "__main__":
    unittest.main()
