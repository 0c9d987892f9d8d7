"""Invalid arguments are refused with a message that names them. No value wraps around or is truncated."""

import copy
import ctypes
import dataclasses
import itertools
import os
import pickle
import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status
from raggedvit._c import layouts
from raggedvit._c.constants import CONSTANTS
from raggedvit._c import library
from raggedvit._arrays.core_loader import ready
from raggedvit._arrays.arrays import DeviceArray, from_dlpack, from_interface

NAN, INF = float("nan"), float("inf")


class Refusals(unittest.TestCase):
    def refused(self, words, function, *arguments, **named):
        with self.subTest(words, given=list(named)):
            with self.assertRaisesRegex(RaggedVitError, words) as caught:
                function(*arguments, **named)
            self.assertEqual(caught.exception.status, Status.INVALID_ARGUMENT)


class StructTest(Refusals):
    """Tests every field of every struct, and the arguments of every function."""

    def test_every_integer_field_keeps_its_range(self):
        tried = 0
        for name, kind in layouts.TYPES.items():
            for field, of in kind._fields_:
                if getattr(of, "_type_", None) not in tuple("bBhHiIlLqQP") or issubclass(of, ctypes.Array):
                    continue
                struct, bits, signed = kind(), 8 * ctypes.sizeof(of), of(-1).value == -1
                low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
                for value in (low, high, True):
                    setattr(struct, field, value)
                    self.assertEqual(getattr(struct, field) or 0, value)
                for value in (low - 1, high + 1, 2**200):
                    self.refused(
                        f"{field} is .*; expected an integer from {low} to {high}", setattr, struct, field, value
                    )
                tried += 1
        self.assertGreater(tried, 150)

    def test_types(self):
        new = layouts.new
        for words, values in [
            ("max_images is 1.5; expected an integer", {"max_images": 1.5}),
            ("max_images is '1'; expected an integer", {"max_images": "1"}),
            ("max_images is None; expected an integer", {"max_images": None}),
            ("max_images is an integer of 16610 bits", {"max_images": 10**5000}),
            ("offset is 'a'; expected an integer", {"logits": {"offset": "a"}}),
            ("logits is 3; expected a rvit_view", {"logits": 3}),
        ]:
            self.refused(words, new, "rvit_session_desc", **values)
        for words, values in [
            ("keep is 'a'; expected a number", {"keep": "a"}),
            ("keep is nan; expected a number", {"keep": NAN}),
            (r"blocks\[1\] is 4294967297; expected an integer", {"blocks": [0, 2**32 + 1]}),
            ("blocks is 3; expected a sequence, of 64 entries at most", {"blocks": 3}),
            ("blocks is .*; expected a sequence, of 64 entries at most", {"blocks": itertools.count()}),
        ]:
            self.refused(words, new, "rvit_prune_desc", **values)
        prune = new("rvit_prune_desc", seed=np.int64(7), blocks=np.array([3, 5]), keep=np.float32(0.5))
        self.assertEqual((list(prune.blocks[:3]), prune.keep, prune.merges), ([3, 5, 0], 0.5, -1))
        self.refused("an entry of .* is 4294967297", prune.blocks.__setitem__, 0, 2**32 + 1)
        self.refused("an entry of .* is 4294967297", prune.blocks.__setitem__, slice(0, 1), [2**32 + 1])
        self.assertEqual(prune.blocks[0], 3)
        for value in (1e-60, 1e39):
            self.refused(
                "scale is .*; expected a number in the range of float32", new, "rvit_attention_args", scale=value
            )
        for function in (lambda: new("rvit_session_desc", nonsense=1), lambda: setattr(prune, "nonsense", 1)):
            with self.assertRaisesRegex(AttributeError, "nonsense"):
                function()

    def test_functions(self):
        lib, info, kind = raggedvit._c.library.library(), layouts.new("rvit_prune_info"), ctypes.c_int32()
        self.refused("argument 1 of rvit_prune_list is 4294967296", lib.rvit_prune_list, 2**32, ctypes.byref(info))
        self.refused("argument 1 of rvit_dtype_size is 4294967296", lib.rvit_dtype_size, 2**32)
        self.refused(
            "argument 1 of rvit_stream_synchronize is 18446744073709551616", lib.rvit_stream_synchronize, 2**64
        )
        self.refused(
            "argument 2 of rvit_enum_from_name is .*NUL",
            lib.rvit_enum_from_name,
            CONSTANTS["RVIT_ENUM_PRUNE"],
            b"l2\0x",
            ctypes.byref(kind),
        )

    def test_library_path(self):
        name = library.library().path + "\0junk"
        with mock.patch.object(os, "environ", {"RAGGEDVIT_LIBRARY": name}):
            self.refused("RAGGEDVIT_LIBRARY.*NUL", lambda: library.Library(library.find()))


class ModelTest(Refusals):
    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.images = np.random.default_rng(1).standard_normal((2, 3, 224, 224)).astype(np.float32)

    def test_model_options(self):
        for name in ("n_threads", "poll_us", "image_size", "max_sessions"):
            for value in (2**32, 2**32 + 224, -(2**32), "8", 1.5, [1], "", NAN):
                self.refused(
                    f"^{name} is .*; expected an integer from",
                    raggedvit.Model,
                    support.CHECKPOINT,
                    **{"device": "cpu", name: value},
                )
        for name in ("device", "dtype", "tier", "resample", "activation", "pooling", "position"):
            for value in (5, ["cpu"], {}, "cpu\0", b"cpu", self.images):
                self.refused(f"^{name} is .*; expected one of", raggedvit.Model, support.CHECKPOINT, **{name: value})
        for name in ("device", "dtype", "tier"):
            self.refused(f"^{name} is None; expected one of", raggedvit.Model, support.CHECKPOINT, **{name: None})
        self.refused("^architecture is 7; expected a string", raggedvit.Model, support.CHECKPOINT, architecture=7)
        self.refused(
            "architecture 'vit_of_nobody' is not", raggedvit.Model, support.CHECKPOINT, architecture="vit_of_nobody"
        )
        self.refused("cannot be split into 5 heads", raggedvit.Model, support.CHECKPOINT, n_heads=5)
        for name, value, words in [
            ("lenient", "no", "True or False"),
            ("lenient", 2, "True or False"),
            ("eps", "x", "a number"),
            ("eps", NAN, "a number"),
            ("eps", 1e-60, "range of float32"),
            ("eps", 1e300, "range of float32"),
            ("max_sessions", 0, "from 1"),
        ]:
            self.refused(
                f"^{name} is .*; expected .*{words}",
                raggedvit.Model,
                support.CHECKPOINT,
                **{"device": "cpu", name: value},
            )

    def test_checkpoint_path(self):
        for path in (str(support.CHECKPOINT) + "\0junk", os.fsencode(support.CHECKPOINT) + b"\0"):
            self.refused("^path is .*NUL byte", raggedvit.Model, path, device="cpu")
        for path in (None, 3, [support.CHECKPOINT], "\ud800"):
            self.refused("^path is .*; expected a path", raggedvit.Model, path, device="cpu")
        raggedvit.Model(os.fsencode(support.CHECKPOINT), device="cpu", lenient=np.True_, image_size=np.int32(160))

    def test_parameters(self):
        classify, images = self.model.classify, self.images[:1]
        for policy, name, values in [
            ("l2", "keep", ("a", NAN, [0.5], np.array([0.5, 0.6]), 10**400, 1j, -1)),
            ("l2-threshold", "threshold", ("x", NAN, (1.0,))),
            ("ats-paper", "mass", ("x", NAN, -0.1)),
            ("ats", "n_samples", (2**32 + 5, -1, 5.0, "5")),
            ("tome", "merges", (2**40, 2**31, -1, 8.0, "8", [8])),
            ("random", "seed", (2**64, 2**64 + 7, -1, 1.5, "1")),
            ("hiprune", "alpha", ("x", NAN, -0.1)),
            ("hiprune", "object_block", (-1, 2**31, 1.5, "1")),
            ("pixelprune", "tau", ("x", NAN, -0.1)),
        ]:
            for value in values:
                self.refused(f"^{name} is .*; expected a", Policy, policy, **{name: value})
        for value in ([2**32 + 1], [3, -1], [1.0], [[3]], [None], ["3"], np.array([[3]])):
            self.refused(r"^blocks\[\d\] is .*; expected an integer from 0", Policy, "l2", blocks=value)
        for value in (3, "3", itertools.count(), np.array(3), range(65)):
            self.refused("^blocks is .*; expected a sequence, of 64 entries at most", Policy, "l2", blocks=value)
        self.refused("^blocks has 0 entries", Policy, "l2", blocks=())
        for name in ("features", "cls_attention", "pooled", "projected", "normalized"):
            for value in ("no", 2, None, np.array([1, 2])):
                self.refused(f"^{name} is .*; expected True or False", classify, images, **{name: value})
        self.refused("^normalized is True, but projected is False", classify, images, normalized=True)
        for name in ("block_features", "received_attention"):
            for value in ("3", 12, -13, 2**32, 1.0, [1]):
                self.refused(f"^{name} is .*; expected an integer from -12 to 11", classify, images, **{name: value})
            self.refused(f"^{name} is True; expected the number of a block", classify, images, **{name: True})
        for policy in (3, ["l2"], b"l2", ("l2", 0.5)):
            self.refused(r"^policy is .*; expected a name.* or a raggedvit\.Policy", classify, images, policy)
        self.refused("^policy is 3; expected a string", Policy, 3)
        self.assertRaisesRegex(TypeError, "keep", classify, images, "l2", keep=0.5)
        self.refused("^policy is .*NUL byte", classify, images, "l2\0x")
        self.refused("^policy is .*UTF-8", classify, images, "l2\ud800")

    def test_policies_compare_by_value(self):
        policy = Policy("evit", keep=np.float32(0.5), blocks=np.array([3, 6]))
        same = [
            Policy("evit", blocks=[3, 6], keep=0.5),
            pickle.loads(pickle.dumps(policy)),
            copy.deepcopy(policy),
            eval(repr(policy)),
            dataclasses.replace(Policy("evit", keep=0.5), blocks=(3, 6)),
        ]
        self.assertEqual(repr(policy), "Policy('evit', keep=0.5, blocks=(3, 6))")
        self.assertEqual({policy, *same}, {policy})
        self.assertNotEqual(policy, Policy("evit", keep=0.5))
        self.assertNotEqual(policy, Policy("evit-fused", keep=0.5, blocks=(3, 6)))
        self.assertIs(Policy.of("l2"), Policy.of("l2"))
        self.assertRaises(dataclasses.FrozenInstanceError, setattr, policy, "keep", 0.7)
        self.assertRaises(TypeError, Policy, "evit", 0.7)
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2, policy=policy)
        np.testing.assert_array_equal(model(self.images), self.model.classify(self.images, policy).logits)
        np.testing.assert_array_equal(
            model.classify(self.images, "none").logits, self.model.classify(self.images).logits
        )

    def test_equivalent_arguments(self):
        wanted, sessions = (
            self.model.classify(self.images, Policy("l2", keep=0.5, blocks=[2, 5])).logits,
            len(self.model._sessions),
        )
        for keep, blocks in (
            (np.float64(0.5), np.array([2, 5])),
            (np.array(0.5), (b for b in (2, 5))),
            (0.5, range(2, 6, 3)),
        ):
            result = self.model.classify(self.images, Policy("l2", keep=keep, blocks=blocks), features=np.False_)
            np.testing.assert_array_equal(result.logits, wanted)
        self.assertEqual(len(self.model._sessions), sessions)
        self.model.classify(self.images[:1], Policy("random", seed=2**64 - 1))

    def test_images(self):
        classify, images = self.model.classify, self.images
        self.refused("^images: None is given; expected an array", classify, None)
        self.refused("^images: 'abc' is given; expected an array", classify, "abc")
        self.refused("^images cannot be read as an array", classify, [[1], [2, 3]])
        self.refused("^images: a masked array", classify, np.ma.masked_equal(images, 0))
        for other in (images.astype(object), images[0], images.astype(complex), images[:, :2], images > 0):
            self.refused(r"^images are .*; expected \[B, 3, 224, 224\], normalised floating point", classify, other)
        self.refused("^images have a value that float32 does not hold", classify, images.astype(np.float64) + 1e300)
        for value in (NAN, INF):
            broken = images.copy()
            broken[1, 0, 100, 100] = value
            self.refused("^image 1: its logits are not finite: its pixels are NaN, infinite", classify, broken)

    def test_masks(self):
        classify, images, mask = self.model.classify, self.images[:1], np.ones((1, 197))
        for other in (mask.astype(object), mask.astype(str), mask * 1j):
            self.refused("^the mask is .*; expected numbers or bools", classify, images, "mask", mask=other)
        self.refused("^the mask has NaN", classify, images, "mask", mask=np.where(np.arange(197) == 9, NAN, mask))
        self.refused("^mask cannot be read as an array", classify, images, "mask", mask=[[1], [2, 3]])
        self.refused("^mask: a masked array", classify, images, "mask", mask=np.ma.masked_equal(mask, 1))
        self.refused("CLS|prefix", classify, images, "mask", mask=np.arange(197)[None] > 0)

    def test_result_without_logits(self):
        with self.assertRaisesRegex(RaggedVitError, "no head"):
            np.asarray(raggedvit.Result(None))


class AttentionTest(Refusals):
    def test_options(self):
        qkv, cu = support.batch([20, 30], heads=2)
        for value in ("a", "", NAN, [1.0], np.array([1.0, 2.0])):
            self.refused("^scale is .*; expected a number", raggedvit.attention, qkv, cu, scale=value)
        for value in (1e-60, 1e300):
            self.refused(
                "^scale is .*; expected a number in the range of float32", raggedvit.attention, qkv, cu, scale=value
            )
        self.refused("^scale is inf; expected another number", raggedvit.attention, qkv, cu, scale=INF)
        for value in (2**32 + 30, 2**31, -1, "30", 30.0):
            self.refused("^max_len is .*; expected an integer from 0", raggedvit.attention, qkv, cu, max_len=value)
        for value in (-1, 2**64, "x"):
            self.refused("^stream is .*; expected an integer from 0", raggedvit.attention, qkv, cu, stream=value)
        np.testing.assert_array_equal(
            raggedvit.attention(qkv, cu, np.float32(0.125), np.int64(30)), raggedvit.attention(qkv, cu)
        )

    def test_arrays(self):
        qkv, cu = support.batch([20, 30], heads=2)
        attention = raggedvit.attention
        self.refused("^qkv: None is given; expected an array", attention, None, cu)
        self.refused("^qkv: <class .* is given; expected an array", attention, np.ndarray, cu)
        self.refused("^qkv cannot be read as an array", attention, [[1], [1, 2]], cu)
        self.refused("^qkv: a masked array", attention, np.ma.masked_equal(qkv, 0), cu)
        self.refused("^n_heads is 4294967299", attention, np.empty((0, 3, 2**32 + 3, 8), np.float32), [0])
        self.refused("^cu_seqlens: None is given; expected an array", attention, qkv, None)
        self.refused("^cu_seqlens cannot be read as an array", attention, qkv, [[0], [1, 2]])
        self.refused("^cu_seqlens: a masked array", attention, qkv, np.ma.array(cu, mask=[0, 1, 0]))
        self.refused("^cu_seqlens is bool", attention, qkv, np.array([False, True]))
        out = np.zeros((50, 2, 64), np.float32)
        self.refused("^out is not a numpy array of qkv's type: it is 'x'", attention, qkv, cu, out="x")
        self.refused("^out is not a numpy array of qkv's type: it is >f4", attention, qkv, cu, out=out.astype(">f4"))
        self.refused("^out: a masked array", attention, qkv, cu, out=np.ma.array(out))
        shared = np.lib.stride_tricks.as_strided(out, out.shape, (0, 256, 4))
        self.refused("^out has rows, heads or numbers that share", attention, qkv, cu, out=shared)
        out.flags.writeable = False
        self.refused("^out is read-only", attention, qkv, cu, out=out)
        self.assertTrue((out == 0).all())


class Interface:
    def __init__(self, **interface):
        self.__cuda_array_interface__ = interface


class DeviceArrayTest(Refusals):
    """Tests checks of CUDA arrays that need no driver."""

    GOOD = {"typestr": "<f4", "shape": (4,), "data": (4096, False)}

    def test_interfaces(self):
        self.assertEqual(from_interface(dict(self.GOOD, strides=(8,)), None, "qkv").strides, (2,))
        for words, change in [
            ("malformed: KeyError", None),
            ("malformed", {"data": None}),
            (r"qkv.shape is 3; expected a sequence", {"shape": 3}),
            (r"qkv.shape\[0\] is -4", {"shape": (-4,)}),
            ("address of qkv is 18446744073709551616", {"data": (2**64, False)}),
            ("stream of qkv is -1", {"stream": -1}),
            (r"qkv.strides\[0\] is 1.5", {"strides": (1.5,)}),
            (r"strides of qkv are \(6,\); expected 1 multiples", {"strides": (6,)}),
            ("strides of qkv", {"strides": ()}),
        ]:
            interface = {} if change is None else dict(self.GOOD, **change)
            self.refused(words, from_interface, interface, None, "qkv")
        self.refused("malformed", raggedvit.attention, Interface(), Interface(), out=Interface())
        self.refused("capsule", from_dlpack, None, "qkv")

    def arrays(self, rows=4, step=48, out=(1 << 16, 16), **changes):
        """Describes host memory of this test; with `cuda` as memory of a CUDA device."""
        memory = self.memory
        qkv = DeviceArray(
            memory + 4096, (rows, 3, 2, 8), (step, 16, 8, 1), "float32", 0, None, 0, host="cuda" not in changes
        )
        lengths = DeviceArray(
            memory, (2,), (1,), "int32", 0, None, changes.get("lengths_on", 0), host="cuda" not in changes
        )
        result = DeviceArray(
            memory + out[0],
            (rows, 2, 8),
            (out[1], 8, 1),
            "float32",
            0,
            None,
            changes.get("out_on", 0),
            "read" in changes,
            host="cuda" not in changes,
        )
        return qkv, lengths, None, None, result

    def test_strides_and_devices(self):
        memory = np.zeros(1 << 18, np.uint8)
        self.memory = memory.ctypes.data + -memory.ctypes.data % 4096
        check = ready().strict_attention
        for good in (
            self.arrays(),
            self.arrays(1, 0, (4096 + 192, 0)),
            self.arrays(4, 64, (4096 + 192, 64)),
            self.arrays(4, 64, (4096 - 64, 64)),
            self.arrays(4, 48, (4096 + 4 * 192, 16)),
            self.arrays(out_on=None),
        ):
            self.assertIs(check(*good), good[4])
        for words, bad in [
            ("rows of qkv are 0 elements apart; expected 48", self.arrays(4, 0)),
            ("rows of qkv are -48 elements apart", self.arrays(4, -48)),
            ("rows of out are 0 elements apart; expected 16", self.arrays(out=(1 << 16, 0))),
            ("out overlaps [qkv]", self.arrays(out=(4096, 48))),
            ("out overlaps [qkv]", self.arrays(4, 64, (4096 + 128, 64))),
            ("out overlaps [qkv]", self.arrays(4, 48, (4096 + 4 * 192 - 16, 16))),
            ("out overlaps [qkv]", self.arrays(1, 48, (4096 + 128, 16))),
            ("out is read-only", self.arrays(read=1)),
            ("cu_seqlens is on cuda:1, qkv on cuda:0", self.arrays(cuda=1, lengths_on=1)),
            ("out is on cuda:1, qkv on cuda:0", self.arrays(cuda=1, out_on=1)),
        ]:
            self.refused(words, check, *bad)


if __name__ == "__main__":
    unittest.main()
