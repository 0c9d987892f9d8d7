"""Tests prepared forwards on CUDA tensors without PyTorch, in Python and in the compiled core. A class of device memory
with DLPack's exchange API replaces PyTorch's tensors. Runs on any CUDA device, and without a GPU on the emulated driver
of tests/cuda_emulation."""

import ctypes
import gc
import json
import math
import os
import pathlib
import sys
import tempfile
import types
import unittest
from ctypes import POINTER, c_char_p, c_int, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p
from unittest import mock

import numpy as np

import support  # noqa: F401 (finds the package)
import raggedvit
from raggedvit import Policy, RaggedVitError
from raggedvit._arrays import core_loader
from raggedvit._session import prepared as prepared_module
from raggedvit._session import pipeline
from raggedvit._c.layouts import rvit_view

SIZE, DIM, DEPTH, CLASSES = 32, 64, 3, 5
PLAIN = {"architecture": "vit", "n_heads": 1}  # settings that the weights do not show
POLICIES = {
    "none": {},
    "l2": dict(keep=0.5, blocks=[1]),
    "evit-fused": dict(keep=0.5, blocks=[0, 1]),
    "ats": dict(blocks=[1]),
    "tome": dict(merges=2),
}


def checkpoint(path):
    """Writes a small random model with timm's names."""
    random, shapes = (
        np.random.default_rng(3),
        {"cls_token": [1, 1, DIM], "pos_embed": [1, 17, DIM], "head.weight": [CLASSES, DIM]},
    )
    shapes["patch_embed.proj.weight"], shapes["patch_embed.proj.bias"], shapes["head.bias"] = (
        [DIM, 3, 8, 8],
        [DIM],
        [CLASSES],
    )
    for norm in ["norm"] + [f"blocks.{i}.norm{j}" for i in range(DEPTH) for j in (1, 2)]:
        shapes[f"{norm}.weight"] = shapes[f"{norm}.bias"] = [DIM]
    for i in range(DEPTH):
        for name, out, width in (
            ("attn.qkv", 3 * DIM, DIM),
            ("attn.proj", DIM, DIM),
            ("mlp.fc1", 128, DIM),
            ("mlp.fc2", DIM, 128),
        ):
            shapes[f"blocks.{i}.{name}.weight"], shapes[f"blocks.{i}.{name}.bias"] = [out, width], [out]
    header, data, at = {}, b"", 0
    for name, shape in shapes.items():
        spread = 1.3 / math.sqrt(math.prod(shape[1:])) if len(shape) > 1 else 0.2
        values = (spread * random.standard_normal(shape) + (name.endswith("weight") and len(shape) == 1)).astype(
            np.float32
        )
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + values.nbytes]}
        data, at = data + values.tobytes(), at + values.nbytes
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class DlTensor(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("device_type", c_int32),
        ("device", c_int32),
        ("ndim", c_int32),
        ("code", c_uint8),
        ("bits", c_uint8),
        ("lanes", c_uint16),
        ("shape", POINTER(c_int64)),
        ("strides", POINTER(c_int64)),
        ("offset", c_uint64),
    ]


class DlManaged(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("context", c_void_p),
        ("deleter", c_void_p),
        ("flags", c_uint64),
        ("tensor", DlTensor),
    ]


class DlExchange(ctypes.Structure):
    _fields_ = [
        ("major", c_uint32),
        ("minor", c_uint32),
        ("previous", c_void_p),
        ("allocate", c_void_p),
        ("export", c_void_p),
        ("take", c_void_p),
        ("borrow", c_void_p),
        ("stream", c_void_p),
    ]


class Tensor:
    """A float32 tensor on the device."""

    model = stream = handle = None
    requires_grad, is_cuda, device, dtype = False, True, "cuda:0", "torch.float32"

    def __init__(self, shape, values=None):
        lib = self.model._lib
        self.shape, self.n = tuple(shape), math.prod(shape)
        self.dims = (c_int64 * max(1, len(self.shape)))(*self.shape)
        self.buffer = lib.own("buffer", self.model._device, max(16, 4 * self.n), 0, keeps=(self.model._device,))
        self.address, self.view = lib.address(self.buffer), rvit_view()
        self.view.buffer = self.buffer.pointer
        if values is not None and self.n:
            values = np.ascontiguousarray(values, np.float32)
            lib.rvit_stream_write(self.stream, self.view, values.ctypes.data, values.nbytes)

    def __del__(self):
        # enqueued work may still use the memory; PyTorch's allocator handles this
        self.model._lib.rvit_stream_synchronize(self.stream)

    def __len__(self):
        return self.shape[0]

    def data_ptr(self):
        return self.address

    def numel(self):
        return self.n

    def element_size(self):
        return 4

    def is_contiguous(self):
        return True

    def get_device(self):
        return self.model.cuda_index

    def numpy(self):
        values = np.empty(self.shape, np.float32)
        if self.n:
            self.model._lib.rvit_stream_read(self.stream, self.view, values.ctypes.data, values.nbytes)
        return values


def offer_exchange():
    """Gives Tensor DLPack's exchange API. The result must live as long as the process."""
    made = {}

    def allocate(prototype, out, context, set_error):
        tensor = Tensor([prototype.contents.shape[i] for i in range(prototype.contents.ndim)])
        managed = DlManaged(major=1, tensor=DlTensor(data=tensor.address, ndim=len(tensor.shape)))
        made[ctypes.addressof(managed)] = managed, tensor
        out[0] = ctypes.addressof(managed)
        return 0

    def take(managed, out):
        _, tensor = made.pop(managed)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(tensor))
        out[0] = id(tensor)
        return 0

    def borrow(value, out):
        tensor = ctypes.cast(value, ctypes.py_object).value
        out[0] = DlTensor(
            data=tensor.address,
            device_type=2,
            device=tensor.get_device(),
            ndim=len(tensor.shape),
            code=2,
            bits=32,
            lanes=1,
            shape=tensor.dims,
        )
        return 0

    def current_stream(kind, index, out):
        out[0] = Tensor.handle
        return 0

    function = ctypes.PYFUNCTYPE
    functions = [
        function(c_int, POINTER(DlTensor), POINTER(c_void_p), c_void_p, c_void_p)(allocate),
        function(c_int, c_void_p, POINTER(c_void_p))(take),
        function(c_int, c_void_p, POINTER(DlTensor))(borrow),
        function(c_int, c_int32, c_int32, POINTER(c_void_p))(current_stream),
    ]
    addresses = [ctypes.cast(f, c_void_p).value for f in functions]
    exchange = DlExchange(1, 3, None, addresses[0], None, *addresses[1:])
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [c_void_p, c_char_p, c_void_p]
    Tensor.__dlpack_c_exchange_api__ = capsule(ctypes.addressof(exchange), b"dlpack_exchange_api", None)
    return functions, exchange


def pytorch():
    """Returns a mock of the parts of PyTorch that the forward uses."""
    inner = types.SimpleNamespace(
        _cuda_getCurrentRawStream=lambda index: Tensor.handle, _cuda_isCurrentStreamCapturing=lambda: False
    )
    return types.SimpleNamespace(
        Tensor=Tensor,
        float32="torch.float32",
        float16="torch.float16",
        bfloat16="torch.bfloat16",
        _C=inner,
        is_grad_enabled=lambda: False,
        contiguous_format=None,
        empty_like=lambda other: Tensor(other.shape),
        empty=lambda shape, dtype, device: Tensor(shape),
    )


CHECKS = types.SimpleNamespace(
    is_tracing=lambda: False,
    has_tangent=lambda tensor: False,
    is_wrapped=lambda tensor: False,
    is_fake=lambda tensor: False,
    in_memory=lambda named: named,
    wants_grad=lambda tensor: tensor.requires_grad and sys.modules["torch"].is_grad_enabled(),
)
HAS_CUDA = any(d.backend == "cuda" and d.index >= 0 for d in raggedvit.devices())


@unittest.skipUnless(HAS_CUDA, "there is no CUDA device, real or emulated")
class ForwardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "small.safetensors"
            checkpoint(path)
            cls.cpu = raggedvit.Model(path, "cpu", n_threads=1, **PLAIN)
            cls.model = Tensor.model = raggedvit.Model(path, "cuda", max_sessions=4, **PLAIN)
            cls.small = raggedvit.Model(path, "cuda", max_batch=4, **PLAIN)
        Tensor.stream = cls.model._lib.own("stream", cls.model._device)
        handle = c_void_p()
        cls.model._lib.rvit_stream_handle(Tensor.stream, ctypes.byref(handle))
        Tensor.handle = handle.value
        cls.x = np.random.default_rng(1).standard_normal((6, 3, SIZE, SIZE)).astype(np.float32)
        cls.patches = [mock.patch.dict(sys.modules, {"torch": pytorch(), "raggedvit._torch.tracing": CHECKS})]
        core = core_loader.core
        cls.compiled = core is not None
        if cls.compiled:
            cls.exchange = offer_exchange()
            assert core_loader.ready().tensor_type(Tensor)
            for name, value in (
                ("grad_enabled", False),
                ("function_modes", 0),
                ("dispatch_modes", 0),
                ("tracing", False),
                ("capturing", False),
            ):
                core.hook(name, lambda value=value: value)
            core.hook("is_negative", lambda tensor: False)
            core.hook("forward_ad", types.SimpleNamespace(_current_level=-1))
        for patch in cls.patches:
            patch.start()

    @classmethod
    def tearDownClass(cls):
        for patch in cls.patches:
            patch.stop()

    def check(self, core):
        with mock.patch.object(prepared_module, "_reads_tensors", lambda: core):
            for policy, values in POLICIES.items():
                forward = self.model.prepare(Policy(policy, **values))
                for n in (4, 2, 3, 6, 4, 3, 0):
                    with self.subTest(f"{policy}, {n}"):
                        images = Tensor((n, 3, SIZE, SIZE), self.x[:n])
                        found = forward(images)
                        self.assertIsInstance(found, Tensor)
                        self.assertEqual(found.shape, (n, CLASSES))
                        np.testing.assert_allclose(
                            found.numpy(), self.cpu(self.x[:n], Policy(policy, **values)), atol=1e-4
                        )
                        if core and n:
                            self.assertIsNotNone(core_loader.core.forward(forward._state, images))
        return forward, images

    def test_without_compiled_core(self):
        self.check(False)

    def test_compiled_core(self):
        if not self.compiled:
            self.skipTest("the package has no compiled core")
        forward, _ = self.check(True)
        core, images = core_loader.core, Tensor((4, 3, SIZE, SIZE), self.x[:4])
        forward(images)
        self.assertIsNotNone(core.forward(forward._state, images))
        for other in (Tensor((4, 3, SIZE, 16)), Tensor((4, 3)), self.x, None):
            self.assertIsNone(core.forward(forward._state, other))
        session = next(s for s in self.model._sessions if s.policy == forward.policy and s.capacity == 4)
        with session.lock:  # as if another thread used the session
            self.assertIsNone(core.forward(forward._state, images))
        self.assertIsNotNone(core.forward(forward._state, images))
        self.model._forget(session)
        self.assertIsNone(core.forward(forward._state, images))

    def test_repeated_forwards_do_not_synchronize(self):
        gc.collect()  # destroys the sessions of other tests now, because that waits for the device
        images = [Tensor((n, 3, SIZE, SIZE), self.x[:n]) for n in (4, 2, 3)]
        for core in {False, self.compiled}:
            forward, seen, held = self.model.prepare(Policy("l2", keep=0.5, blocks=[1])), [], []
            with mock.patch.object(prepared_module, "_reads_tensors", lambda core=core: core):
                for _ in range(3):
                    for batch in images:
                        held.append(forward(batch))
                    seen.append(support.counts(self.model))
            self.assertGreater(seen[2]["launches"], seen[1]["launches"])
            self.assertEqual(seen[1]["synchronizations"], seen[2]["synchronizations"])

    def test_max_batch_and_refusals(self):
        forward = self.small.prepare("none")
        with (
            mock.patch.object(Tensor, "model", self.small),
            mock.patch.object(prepared_module, "_reads_tensors", lambda: False),
        ):
            for shape, words in (
                ((5, 3, SIZE, SIZE), "more than max_batch, 4"),
                ((2, 3, SIZE, 16), r"expected \[B, 3, 32, 32\]"),
                ((0, 3, 3, 3), r"expected \[B, 3, 32, 32\]"),
            ):
                self.assertRaisesRegex(RaggedVitError, words, forward, Tensor(shape))
            with (
                mock.patch.object(Tensor, "requires_grad", True),
                mock.patch.object(sys.modules["torch"], "is_grad_enabled", lambda: True),
            ):
                self.assertRaisesRegex(RaggedVitError, "require a gradient", forward, Tensor((1, 3, SIZE, SIZE)))
            with mock.patch.object(Tensor, "dtype", "torch.int64"):
                self.assertRaisesRegex(
                    RaggedVitError, "expected float32, float16 or bfloat16", forward, Tensor((1, 3, SIZE, SIZE))
                )
            with mock.patch.object(Tensor, "get_device", lambda self: 7):
                self.assertRaisesRegex(
                    RaggedVitError, "images are on cuda:0, the model on cuda:0", forward, Tensor((1, 3, SIZE, SIZE))
                )

    @unittest.skipIf(
        os.environ.get("RVIT_TEST_CUDA_EMULATED") == "1",
        "the emulation mistakes memory above a thread's stack for the stack",
    )
    def test_threads(self):
        wanted = self.cpu(self.x[:2])
        for core in {False, self.compiled}:
            forward, images = self.model.prepare("none"), Tensor((2, 3, SIZE, SIZE), self.x[:2])
            with mock.patch.object(prepared_module, "_reads_tensors", lambda core=core: core):
                forward(images)
                found = []
                support.in_threads(*[lambda: found.extend(forward(images) for _ in range(3))] * 4)
            self.assertEqual(len(found), 12)
            for logits in found:
                np.testing.assert_allclose(logits.numpy(), wanted, atol=1e-4)

    def test_host_batches(self):
        with mock.patch.dict(sys.modules):
            del sys.modules["torch"]
            batches = [
                self.x[:4],
                self.x[1:2],
                self.x[:0],
                np.asfortranarray(self.x[:3].astype(np.float64)),
                self.x[2:6],
            ]
            forward = self.model.prepare(Policy("evit-fused", keep=0.5, blocks=[0, 1]))
            for found, batch in zip(forward.map(batches), batches):
                np.testing.assert_allclose(
                    found, self.cpu(batch, Policy("evit-fused", keep=0.5, blocks=[0, 1])), atol=1e-4
                )
            np.testing.assert_allclose(
                forward(batches[0]), self.cpu(batches[0], Policy("evit-fused", keep=0.5, blocks=[0, 1])), atol=1e-4
            )

    def test_host_batch_in_parts(self):
        whole, parts = (
            mock.patch.object(pipeline, "PART", 1 << 40),
            mock.patch.multiple(pipeline, PART=1, PART_IMAGES=2),
        )
        with mock.patch.dict(sys.modules):
            del sys.modules["torch"]
            for policy, values in POLICIES.items():
                for n in (5, 6) if policy == "evit-fused" else (5,):
                    with self.subTest(f"{policy}, {n}"):
                        ask = dict(
                            policy=Policy(policy, **values),
                            features=True,
                            cls_attention=True,
                            pooled=True,
                            block_features=1,
                            received_attention=-1,
                        )
                        with whole:
                            wanted, logits = (
                                self.model.classify(self.x[:n], **ask),
                                self.model(self.x[:n], Policy(policy, **values)),
                            )
                        with parts:
                            found = self.model.classify(self.x[:n], **ask)
                            # On a GPU, sessions for different batches may choose different GEMMs.
                            np.testing.assert_allclose(
                                self.model(self.x[:n], Policy(policy, **values)), logits, atol=1e-4
                            )
                        self.assertEqual(
                            (found.block_stage, found.received_stage), (wanted.block_stage, wanted.received_stage)
                        )
                        for name in (
                            "logits",
                            "features",
                            "cls_attention",
                            "pooled",
                            "block_features",
                            "received_attention",
                        ):
                            np.testing.assert_allclose(
                                getattr(found, name), getattr(wanted, name), atol=1e-4, err_msg=name
                            )
                        np.testing.assert_array_equal(found.cu_seqlens, wanted.cu_seqlens)
                        for name in ("kept", "sizes"):
                            for ours, theirs in zip(getattr(found, name), getattr(wanted, name), strict=True):
                                for a, b in zip(ours, theirs, strict=True):
                                    np.testing.assert_array_equal(a, b, name)

    def test_errors_in_parts_of_a_batch(self):
        bad = self.x.copy()
        bad[3], bad[5] = np.nan, np.nan
        with mock.patch.dict(sys.modules), mock.patch.multiple(pipeline, PART=1, PART_IMAGES=2):
            del sys.modules["torch"]
            ask = dict(policy=Policy("l2", keep=0.5, blocks=[1]))
            good = self.model.classify(self.x, **ask).logits
            self.assertRaisesRegex(RaggedVitError, "^image 3: a score is NaN", self.model.classify, bad, **ask)
            np.testing.assert_array_equal(
                self.model.classify(self.x, **ask).logits, good
            )  # image 5 left no error behind
            bad[3] = 0
            self.assertRaisesRegex(RaggedVitError, "^image 5: a score is NaN", self.model, bad, **ask)

    def test_errors_that_are_returned(self):
        bad, others = self.x.copy(), [0, 1, 2, 4]
        bad[3], bad[5] = np.nan, np.nan
        with mock.patch.dict(sys.modules), mock.patch.multiple(pipeline, PART=1, PART_IMAGES=2):
            del sys.modules["torch"]
            ask = dict(policy=Policy("l2", keep=0.5, blocks=[1]))
            wanted = self.model.classify(self.x, **ask, features=True)
            found = self.model.classify(bad, **ask, features=True, errors="return")
            self.assertEqual(
                [(image, str(error)[:23]) for image, error in found.errors.items()],
                [(3, "image 3: a score is NaN"), (5, "image 5: a score is NaN")],
            )
            np.testing.assert_array_equal(found.logits[others], wanted.logits[others])
            self.assertTrue(np.isnan(found.logits[[3, 5]]).all())
            self.assertEqual([len(rows) > 0 for rows in found.kept[0]], [True, True, True, False, True, False])
            rows_of = np.repeat(np.arange(6), np.diff(wanted.cu_seqlens[0]))
            np.testing.assert_array_equal(found.features, wanted.features[np.isin(rows_of, others)])
            forward = self.model.prepare(Policy("l2", keep=0.5, blocks=[1]))
            batches = [self.x, bad, self.x[:, :, 1:], bad[:0], self.x[:2], self.x[:3]]
            found = list(forward.map(batches, errors="return"))
            self.assertEqual([list(result.errors) for result in found], [[], [3, 5], [0, 1, 2, 3, 4, 5], [], [], []])
            for result in found[:2]:
                for image in others:
                    np.testing.assert_array_equal(result.kept[0][image], wanted.kept[0][image])
            for result, batch in zip(found, batches):
                if batch.shape[2] == SIZE and not np.isnan(batch).any():
                    np.testing.assert_allclose(result, self.cpu(batch, **ask), atol=1e-4)
            np.testing.assert_allclose(found[1].logits[others], wanted.logits[others], atol=1e-4)
            self.assertRaisesRegex(RaggedVitError, "^image 3: ", list, forward.map(batches[:2]))
            with self.assertRaisesRegex(RaggedVitError, "more than max_batch, 4"):
                list(self.small.prepare().map([self.x]))
            found = list(self.small.prepare().map([self.x[:4], self.x, self.x[:3]], errors="return"))
            self.assertEqual([len(result.errors) for result in found], [0, 6, 0])


if __name__ == "__main__":
    unittest.main()
