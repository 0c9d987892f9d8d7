"""Raw images in device memory give the same bits as on the host. They are PyTorch tensors if it is installed, else
memory of the library with __cuda_array_interface__ or DLPack, which also works on the emulated driver of
tests/cuda_emulation."""

import ctypes
import dataclasses
import pathlib
import tempfile
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status
from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import new
from test_cuda import EMULATED, why_not_plain, why_not_torch
from test_forward_cuda import PLAIN, checkpoint

try:
    import torch
except ImportError:
    torch = None

SIZES = (
    ((48, 64), (33, 33), (7, 20), (40, 64))
    if EMULATED
    else ((480, 640), (101, 30), (33, 33), (7, 90), (260, 333), (260, 333))
)


class Interface:
    def __init__(self, address, shape, strides, stream):
        self.__cuda_array_interface__ = {
            "data": (address, True),
            "shape": shape,
            "typestr": "|u1",
            "strides": strides,
            "version": 3,
            "stream": stream,
        }


@unittest.skipIf(why_not_plain(), why_not_plain())
class DeviceImagesTest(support.Case):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "model.safetensors")
            checkpoint(path)
            # one forward for batches of all sizes
            cls.model = raggedvit.Model(path, device="cuda", max_batch=8, **PLAIN)
            cls.on_cpu = raggedvit.Model(path, device="cpu", **PLAIN)
        cls.lib = cls.model._lib
        recipe = raggedvit.images.Recipe(32, 32, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), (36, 36))
        cls.model.recipe = cls.on_cpu.recipe = recipe
        cls.view = type(new("rvit_copy_args").source)
        cls.streams = [cls.lib.own("stream", cls.model._device) for _ in range(2)]
        random = np.random.default_rng(1)
        cls.raw_images = [random.integers(0, 256, (*size, 3), np.uint8) for size in SIZES]

    def upload(self, pixels, stream=None, at=0):
        """Copies bytes of the host to device memory, `at` bytes from its start, and returns their address."""
        buffer = self.lib.own("buffer", self.model._device, at + pixels.nbytes + 64, CONSTANTS["RVIT_BUFFER_DEVICE"])
        whole = np.concatenate(
            [np.zeros(at, np.uint8), pixels.reshape(-1), np.zeros(-(at + pixels.nbytes) % 4, np.uint8)]
        )
        self.lib.rvit_stream_write(
            stream or self.streams[0], self.view(buffer.pointer, 0), whole.ctypes.data, whole.nbytes
        )
        self.addCleanup(lambda: buffer)  # keeps the buffer alive until the cleanup
        return self.lib.address(buffer) + at

    def described(self, raw_image, stream=None, at=0):
        stream = stream or self.streams[0]
        handle = self.lib.make("rvit_stream_handle", stream).value
        return Interface(self.upload(raw_image, stream, at), raw_image.shape, None, handle)

    def same(self, found, wanted):
        for name in ("logits", "features", "pooled"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
        for stages in zip(found.kept, wanted.kept):
            for one, other in zip(*stages):
                np.testing.assert_array_equal(one, other)

    def test_same_bits_as_on_the_host(self):
        options = dict(policy=Policy("l2", keep=0.5, blocks=[1]), features=True, pooled=True)
        for recipe in (
            self.model.recipe,
            dataclasses.replace(self.model.recipe, fit="squash", resize=(32, 32), max_patches=12),
        ):
            self.addCleanup(setattr, self.model, "recipe", self.model.recipe)
            self.model.recipe = recipe
            wanted = self.model.classify(self.raw_images, **options)
            for odd in (0, 1, 6):  # addresses of any alignment, and two streams that write them
                there = [
                    self.described(one, self.streams[number % 2], odd) for number, one in enumerate(self.raw_images)
                ]
                self.same(self.model.classify(there, **options), wanted)
            self.same(self.model.classify(there[:1], **options), self.model.classify(self.raw_images[:1], **options))
            np.testing.assert_array_equal(self.model(there, Policy("l2", keep=0.5, blocks=[1])), wanted.logits)

    def test_parts_of_larger_images(self):
        wide, handle = self.raw_images[0], self.lib.make("rvit_stream_handle", self.streams[0]).value
        address, line = self.upload(wide), 3 * wide.shape[1]
        parts = [wide[3:20, 5:31], wide[:, :], wide[7:8, 2:9], wide[::2, 1:]]
        there = [
            Interface(address + 3 * line + 15, (17, 26, 3), (line, 3, 1), handle),
            Interface(address, wide.shape, (line, 3, 1), None),
            Interface(address + 7 * line + 6, (1, 7, 3), (line, 3, 1), handle),
            Interface(address + 3, (len(parts[3]), wide.shape[1] - 1, 3), (2 * line, 3, 1), handle),
        ]
        wanted = self.model.classify([np.ascontiguousarray(part) for part in parts]).logits
        np.testing.assert_array_equal(self.model.classify(there).logits, wanted)
        same = np.stack([wide, wide[::-1], wide[:, ::-1]])
        whole = Interface(self.upload(same), same.shape, None, handle)
        np.testing.assert_array_equal(self.model.classify(whole).logits, self.model.classify(same).logits)

    def test_dlpack(self):
        class Exporter:
            """Returns numpy's capsule, which claims a CUDA device."""

            def __init__(self, address, raw_image):
                self.host, self.address, self.streams = raw_image, address, []

            def __dlpack_device__(self):
                return 2, 0

            def __dlpack__(self, stream=None):
                self.streams.append(stream)
                capsule = self.host.__dlpack__()
                get = ctypes.pythonapi.PyCapsule_GetPointer
                get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
                fields = (ctypes.c_uint64 * 2).from_address(get(capsule, b"dltensor"))  # data; device type and number
                fields[0], fields[1] = self.address, 2
                return capsule

        addresses = [self.upload(one) for one in self.raw_images]
        self.lib.rvit_stream_synchronize(self.streams[0])
        there = [Exporter(address, one) for address, one in zip(addresses, self.raw_images)]
        np.testing.assert_array_equal(self.model.classify(there).logits, self.model.classify(self.raw_images).logits)
        # they order themselves before it
        self.assertEqual([one.streams for one in there], [[self.model._own_stream()]] * len(there))

    def test_memory_is_kept(self):
        made = []
        create = self.model._sessions._create
        self.model._sessions._create = lambda *arguments: made.append(arguments) or create(*arguments)
        self.addCleanup(lambda: self.model._sessions.__dict__.pop("_create"))
        there = [self.described(one) for one in self.raw_images]
        for _ in range(2):
            self.model.classify(there, features=True)
        self.model.classify(there[::-1], features=True)
        self.assertEqual(len(made), 1)

    def test_slots(self):
        slot = self.model.prepare(
            Policy("l2", keep=0.5, blocks=[1]), inputs="slot", max_images=4, max_bytes=1 << 20, device_bytes=1 << 21
        )
        wanted = self.model.classify(self.raw_images[:3], Policy("l2", keep=0.5, blocks=[1])).logits
        for turn in range(3):
            for number, one in enumerate(self.raw_images[:3]):
                if number == turn:  # an image in host memory
                    slot.add(*one.shape[:2])[:] = one
                else:
                    slot.add_device_image(self.described(one, self.streams[number % 2], turn))
            slot.start()
            with self.assertRaisesRegex(RaggedVitError, "under way"):
                slot.add_device_image(self.described(self.raw_images[0]))
            np.testing.assert_array_equal(slot.finish().logits, wanted)
            slot.clear()
        slot.add_device_image(self.described(self.raw_images[1]))
        self.fails(
            Status.INVALID_ARGUMENT,
            "^the image is in host memory; add returns",
            slot.add_device_image,
            self.raw_images[0],
        )
        large = Interface(self.upload(np.zeros((1024, 700, 3), np.uint8)), (1024, 700, 3), None, None)
        self.fails(Status.INVALID_ARGUMENT, "bytes of 2097152 on the device", slot.add_device_image, large)
        self.fails(
            Status.INVALID_ARGUMENT,
            "device_bytes=.* reserves it",
            self.model.prepare(inputs="slot").add_device_image,
            large,
        )
        self.fails(
            Status.INVALID_ARGUMENT,
            "device_bytes is 8, but the model is on cpu",
            self.on_cpu.prepare,
            inputs="slot",
            device_bytes=8,
        )

    def test_refusals(self):
        good = self.described(self.raw_images[0])
        address, stream = good.__cuda_array_interface__["data"][0], good.__cuda_array_interface__["stream"]
        status = Status.INVALID_ARGUMENT
        self.fails(status, "^image 1 is in host memory, and others", self.model.classify, [good, self.raw_images[0]])
        self.fails(status, "^images are on a CUDA device, the model on cpu", self.on_cpu.classify, [good])
        for shape, strides, words in (
            ((8, 9), None, r"^image 1 is uint8 \[8, 9\]"),
            ((8, 9, 4), None, r"expected uint8 \[height, width, 3\]"),
            ((8, 0, 3), None, "of 1 to 65535 pixels"),
            ((8, 9, 3), (27, 3, 2), "has the strides"),
            ((8, 9, 3), (-27, 3, 1), "has the strides"),
            ((8, 9, 3), (26, 3, 1), "expected 27 or more, 3, 1"),
            ((8, 9, 3), (36, 4, 1), "has the strides"),
        ):
            self.fails(status, words, self.model.classify, [good, Interface(address, shape, strides, stream)])
        self.fails(status, "^a batch of images is on a CUDA device", lambda: list(self.model.prepare().map([[good]])))
        self.fails(status, "^image 1: ", self.model.classify, [good, Interface(48, (8, 9, 3), None, stream)])
        self.fails(
            status, r"^images are uint8 \[8, 9, 3\]", self.model.classify, Interface(address, (8, 9, 3), None, stream)
        )
        thin = Interface(self.upload(np.zeros((4000, 1, 3), np.uint8)), (4000, 1, 3), None, stream)
        self.addCleanup(setattr, self.model, "recipe", self.model.recipe)
        self.model.recipe = dataclasses.replace(self.model.recipe, fit="border")
        self.fails(Status.UNSUPPORTED, "^image 1: 1 x 4000 pixels are too thin", self.model.classify, [good, thin])
        self.model.recipe = dataclasses.replace(self.model.recipe, processor="hf_float", fit="squash", resize=(32, 32))
        self.fails(Status.UNSUPPORTED, "resize in float32", self.model.classify, [good])

    def test_failures(self):
        self.addCleanup(setattr, self.model, "recipe", self.model.recipe)
        self.model.recipe = dataclasses.replace(self.model.recipe, fit="border")
        options = dict(policy=Policy("l2", keep=0.5, blocks=[1]), features=True, pooled=True)
        wanted = self.model.classify(self.raw_images, **options)
        there = [self.described(one) for one in self.raw_images]
        address, stream = there[1].__cuda_array_interface__["data"][0], there[1].__cuda_array_interface__["stream"]
        thin = Interface(self.upload(np.zeros((4000, 1, 3), np.uint8)), (4000, 1, 3), None, stream)
        for bad in (
            Interface(address, (8, 9), None, stream),
            Interface(address, (8, 0, 3), None, stream),
            Interface(48, (8, 9, 3), None, stream),
            Interface(address, (8, 9, 3), (36, 4, 1), stream),
            thin,
        ):
            for batch in (
                [there[0], bad, *there[2:]],
                [self.raw_images[0], np.zeros((5, 0, 3), np.uint8), *self.raw_images[2:]],
            ):
                found = self.model.classify(batch, **options, errors="return")
                self.assertEqual(list(found.errors), [1])
                self.assertRegex(str(found.errors[1]), "^image 1[: ]")
                good = [0, *range(2, len(there))]
                np.testing.assert_array_equal(found.logits[good], wanted.logits[good])
                np.testing.assert_array_equal(found.pooled[good], wanted.pooled[good])
                self.assertTrue(np.isnan(found.logits[1]).all() and np.isnan(found.pooled[1]).all())
                self.assertEqual(len(found.features), sum(len(wanted.kept[0][image]) for image in good))
                self.assertEqual(len(found.kept[0][1]), 0)
            self.assertEqual(list(self.model.classify([bad, bad], **options, errors="return").errors), [0, 1])
        self.fails(
            Status.INVALID_ARGUMENT,
            "^image 1 is in host memory, and others",
            self.model.classify,
            [there[0], self.raw_images[0]],
            errors="return",
        )

    @unittest.skipIf(why_not_torch(), why_not_torch())
    def test_tensors(self):
        wanted = self.model.classify(self.raw_images, Policy("l2", keep=0.5, blocks=[1]), features=True)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            there = [torch.from_numpy(one).cuda() for one in self.raw_images]
            torch.cuda._sleep(1_000_000_000)
            for one in there:
                one.bitwise_not_()
                one.bitwise_not_()
            found = self.model.classify(there, Policy("l2", keep=0.5, blocks=[1]), features=True)
        self.assertTrue(found.logits.is_cuda and found.features.is_cuda)
        np.testing.assert_array_equal(found.logits.cpu(), wanted.logits)
        np.testing.assert_array_equal(found.features.cpu(), wanted.features)
        batch = torch.stack([there[0], there[0].flip(0), there[0].flip(1)])
        wanted = self.model.classify(batch.cpu().numpy()).logits
        np.testing.assert_array_equal(self.model.classify(batch).logits.cpu(), wanted)
        np.testing.assert_array_equal(
            self.model.classify(batch[:, 3:, 5:-2]).logits.cpu(),
            self.model.classify(batch[:, 3:, 5:-2].contiguous().cpu().numpy()).logits,
        )
        planar = batch.permute(0, 3, 1, 2).contiguous().permute(0, 2, 3, 1)
        self.fails(Status.INVALID_ARGUMENT, "^image 0 has the strides", self.model.classify, planar)
        self.assertEqual(self.model.classify(batch[:0]).logits.shape, (0, wanted.shape[1]))


if __name__ == "__main__":
    unittest.main()
