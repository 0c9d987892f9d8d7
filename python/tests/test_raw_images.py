"""Raw images that the device prepares give the same bits as images that the host prepares, in classify, map and
slots."""

import dataclasses
import gc
import pathlib
import tempfile
import threading
import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status, images
from raggedvit._session import pipeline

try:
    from PIL import Image
except ImportError:
    Image = None

SIZES = ((48, 64), (101, 30), (33, 33), (224, 224), (7, 90), (260, 333))


def noise(*sizes, seed=1):
    random = np.random.default_rng(seed)
    return [random.integers(0, 256, (height, width, 3), np.uint8) for height, width in sizes]


class ImagesTest(support.Case):
    def setUp(self):
        self.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        self.raw_images = noise(*SIZES)

    def prepared(self, raw_images=None):
        return images.prepare(self.model.recipe, self.raw_images if raw_images is None else raw_images)

    def test_classify_gives_the_bits_of_the_host(self):
        good = self.model.recipe
        for change in (
            {},
            {"processor": "hf", "filter": "bilinear", "fit": "squash", "resize": (224, 224)},
            {"fit": "border", "fill": (3, 200, 90)},
            {"resize": (224, 280), "fit": "crop"},
            {"processor": "hf", "resize": (256, 256)},
        ):
            self.model.recipe = dataclasses.replace(good, **change)
            for policy in (
                {},
                {"policy": Policy("l2", keep=0.5), "features": True, "pooled": True},
                {"policy": "tome"},
            ):
                with self.subTest(change, **policy):
                    wanted, found = (
                        self.model.classify(self.prepared(), **policy),
                        self.model.classify(self.raw_images, **policy),
                    )
                    for name in ("logits", "features", "pooled", "cu_seqlens"):
                        np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
                    for stage, expected in zip(found.kept, wanted.kept):
                        for one, other in zip(stage, expected):
                            np.testing.assert_array_equal(one, other)

    def test_accepted_containers(self):
        same = np.stack(noise((40, 50), (40, 50)))
        wanted = self.model.classify(self.prepared(same)).logits
        for batch in (
            same,
            list(same),
            list(same[:, :, ::-1][:, :, ::-1]),
            [np.asfortranarray(one) for one in same],
            tuple(same),
        ):
            np.testing.assert_array_equal(self.model.classify(batch).logits, wanted)
        self.assertEqual(self.model.classify(same[:0]).logits.shape, (0, wanted.shape[1]))
        mask = np.ones((2, self.model.info.tokens))
        mask[1, 5:9] = 0
        found = self.model.classify(list(same), Policy("mask", blocks=[2]), mask=mask)
        np.testing.assert_array_equal(
            found.logits, self.model.classify(self.prepared(same), Policy("mask", blocks=[2]), mask=mask).logits
        )
        self.assertEqual(len(found.kept[0][1]), self.model.info.tokens - 4)

    @unittest.skipIf(Image is None, "no Pillow here")
    def test_files_and_pillows_images(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "one.png")
            Image.fromarray(self.raw_images[0]).save(path)
            found = self.model.classify([path, Image.fromarray(self.raw_images[1]), self.raw_images[2]])
            np.testing.assert_array_equal(found.logits, self.model.classify(self.raw_images[:3]).logits)
            np.testing.assert_array_equal(
                self.model.classify([Image.fromarray(self.raw_images[1])]).logits[0],
                self.model.classify(self.raw_images[1:2]).logits[0],
            )
            grey = Image.fromarray(self.raw_images[0]).convert("L")
            np.testing.assert_array_equal(
                self.model.classify([grey]).logits, self.model.classify([np.asarray(grey.convert("RGB"))]).logits
            )

    def test_in_parts_and_overlapped(self):
        batch = self.raw_images * 4
        wanted = self.model.classify(self.prepared(batch), Policy("l2", keep=0.5))
        with mock.patch.multiple(pipeline, PART_RAW=1 << 16, PART_IMAGES=4):
            self.assertEqual(pipeline.n_parts_of(batch), 4)
            found = self.model.classify(batch, Policy("l2", keep=0.5))
            np.testing.assert_array_equal(found.logits, wanted.logits)
            np.testing.assert_array_equal(found.cu_seqlens, wanted.cu_seqlens)
            bad = [*batch[:20], np.zeros((9, 70000, 3), np.uint8)[:, ::20000], *batch]
            self.assertEqual(len(self.model.classify(bad).logits), len(bad))
        with mock.patch.object(pipeline, "MOST_RAW", 1 << 16):
            np.testing.assert_array_equal(self.model.classify(batch, Policy("l2", keep=0.5)).logits, wanted.logits)
        forward = self.model.prepare(Policy("l2", keep=0.5))
        np.testing.assert_array_equal(forward(batch), wanted.logits)
        found = list(forward.map([batch[:6], self.prepared(batch[6:12]), np.stack([batch[3]] * 2), batch[12:]]))
        np.testing.assert_array_equal(np.concatenate([found[0], found[1], found[3]]), wanted.logits)
        np.testing.assert_array_equal(found[2], wanted.logits[[3, 3]])

    def test_copies_by_threads(self):
        from raggedvit._session import staging

        found = [
            *noise((700, 900), (1, 1), (333, 1001), (64, 64)),
            noise((500, 1200))[0][:, ::2],
            noise((400, 600))[0].transpose(1, 0, 2),
        ]
        copies = staging.Copies()
        for core in {staging.core, None}:
            for chunk in (1 << 20, 1 << 12, 1000):
                with (
                    self.subTest(core=core is not None, chunk=chunk),
                    mock.patch.multiple(staging, core=core, CHUNK=chunk),
                ):
                    for batch in (found, found[:4], found[1:2], []):
                        places = [np.zeros(raw_image.shape, np.uint8) for raw_image in batch]
                        staging.fill(copies, places, batch)
                        for place, raw_image in zip(places, batch):
                            np.testing.assert_array_equal(place, raw_image)

    def test_memory_grows_by_doubling_and_is_kept(self):
        rooms = lambda: sorted(session.room for session in self.model._sessions if session.staging is not None)
        self.model.classify(self.raw_images[:1])
        first = rooms()
        self.assertEqual(len(first), 1)
        self.assertEqual(first[0] & (first[0] - 1), 0)
        with mock.patch.object(self.model._sessions, "_create", side_effect=AssertionError):
            self.model.classify(noise((47, 64)))
        self.model.classify(noise((600, 800)))
        self.assertEqual(len(rooms()), 1)
        self.assertGreater(rooms()[0], first[0])
        for n in (2, 3, 5, 4, 9):
            self.model.classify(noise(*[(20, 30)] * n))
        self.assertEqual(len(rooms()), 3)  # sessions for one image, for two, and for all other numbers

    def test_fallback_to_the_host(self):
        float32 = dataclasses.replace(self.model.recipe, processor="hf_float", fit="squash", resize=(224, 224))
        self.model.recipe = float32
        np.testing.assert_array_equal(
            self.model.classify(self.raw_images).logits, self.model.classify(self.prepared()).logits
        )
        self.fails(Status.INVALID_ARGUMENT, "resize in float32", self.model.prepare, inputs="slot")
        self.model.recipe = dataclasses.replace(float32, processor="timm")
        wide = [*self.raw_images[:2], np.zeros((1, 70000, 3), np.uint8)]
        np.testing.assert_array_equal(self.model.classify(wide).logits, self.model.classify(self.prepared(wide)).logits)
        # PyTorch's resize of a long axis is not supported on the device
        self.model.recipe = dataclasses.replace(float32, processor="hf")
        with mock.patch.object(
            pipeline.Slot, "start_raw", side_effect=RaggedVitError(Status.OUT_OF_DEVICE_MEMORY, "image 0: no")
        ):
            np.testing.assert_array_equal(
                self.model.classify(self.raw_images).logits, self.model.classify(self.prepared()).logits
            )

    def test_errors_name_the_image(self):
        self.model.recipe = dataclasses.replace(self.model.recipe, fit="border")
        thin = [*self.raw_images[:2], np.zeros((40, 5000, 3), np.uint8), np.zeros((4000, 1, 3), np.uint8)]
        self.fails(Status.UNSUPPORTED, "^image 3: 1 x 4000 pixels are too thin", self.model.classify, thin)
        for bad in (self.raw_images[0].astype(np.float32), self.raw_images[0][:, :, 0], np.zeros((0, 5, 3), np.uint8)):
            self.fails(
                Status.INVALID_ARGUMENT,
                r"^image 1 is .*; expected a path, or uint8",
                self.model.classify,
                [self.raw_images[0], bad],
            )
        self.fails(
            Status.BAD_FILE if Image else Status.UNAVAILABLE,
            "^image 1: ",
            self.model.classify,
            [self.raw_images[0], "/nowhere.png"],
        )
        with mock.patch.multiple(pipeline, PART_RAW=1, PART_IMAGES=2):
            self.fails(
                Status.UNSUPPORTED,
                "^image 7: 1 x 4000 pixels are too thin",
                self.model.classify,
                self.raw_images[:4] + thin,
            )
        self.assertEqual(len(self.model.classify(self.raw_images).logits), len(self.raw_images))

    def test_max_patches(self):
        recipe = self.model.recipe
        self.model.recipe = dataclasses.replace(recipe, fit="squash", resize=(224, 224), max_patches=50)
        wanted, grids = [], []
        from raggedvit._session.staging import grid_of

        for raw_image in self.raw_images:
            grid = grid_of(self.model._lib, *raw_image.shape[:2], 16, 50)
            size = (16 * grid[0], 16 * grid[1])
            one = images.prepare(
                dataclasses.replace(recipe, height=size[0], width=size[1], fit="squash", resize=size), [raw_image]
            )[0]
            wanted.append(one.reshape(3, grid[0], 16, grid[1], 16).transpose(1, 3, 2, 4, 0).reshape(-1, 768))
            grids.append(grid)
            self.assertLessEqual(grid[0] * grid[1], 50)
        by_patches = self.model.prepare(Policy("l2", keep=0.5), inputs="patches", max_images=len(grids), max_len=51)
        expected = by_patches(np.concatenate(wanted), grids)
        found = self.model.classify(self.raw_images, Policy("l2", keep=0.5))
        np.testing.assert_allclose(found.logits, expected.logits, atol=1e-4)
        np.testing.assert_array_equal(found.cu_seqlens, expected.cu_seqlens)
        for i, raw_image in enumerate(self.raw_images):
            np.testing.assert_array_equal(
                self.model.classify([raw_image], Policy("l2", keep=0.5)).logits[0], found.logits[i]
            )
        slot = self.model.prepare(Policy("l2", keep=0.5), inputs="slot", max_images=8, max_bytes=1 << 20)
        for raw_image in self.raw_images:
            slot.add(*raw_image.shape[:2])[:] = raw_image
        slot.start()
        np.testing.assert_array_equal(slot.finish().logits, found.logits)
        self.fails(
            Status.INVALID_ARGUMENT,
            "the policy is 'mask', which",
            self.model.classify,
            self.raw_images,
            Policy("mask", blocks=[1]),
        )
        self.fails(Status.INVALID_ARGUMENT, "fixed_batch is True", self.model.prepare, inputs="slot", fixed_batch=True)
        self.fails(Status.UNSUPPORTED, "65535 pixels a side", self.model.classify, [np.zeros((1, 70000, 3), np.uint8)])


class SlotTest(unittest.TestCase):
    def setUp(self):
        self.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        self.raw_images = noise(*SIZES)

    fails = ImagesTest.fails

    def test_formats(self):
        wanted = self.model.classify(self.raw_images[:2]).logits
        grey = self.raw_images[0][:, :, 0]
        wanted_grey = self.model.classify([np.repeat(grey[:, :, None], 3, axis=2)]).logits
        slot = self.model.prepare(inputs="slot", max_images=6, max_bytes=1 << 17)
        for name, channels in (("rgb", [0, 1, 2]), ("bgr", [2, 1, 0]), ("rgba", [0, 1, 2, 0])):
            for raw_image in self.raw_images[:2]:
                slot.add(*raw_image.shape[:2], name)[:] = raw_image[:, :, channels]
        slot.start()
        np.testing.assert_array_equal(slot.finish().logits, np.concatenate([wanted] * 3))
        slot.clear()
        slot.add(*grey.shape, "gray")[:] = grey
        nv12 = slot.add(48, 64, "nv12")
        self.assertEqual(nv12.shape, (72, 64))
        nv12[:48], nv12[48:] = 16, 128  # black
        slot.add(48, 64)[:] = 0
        slot.start()
        logits = slot.finish().logits
        np.testing.assert_array_equal(logits[0], wanted_grey[0])
        np.testing.assert_array_equal(logits[1], logits[2])

    def test_double_buffer(self):
        batches = [self.raw_images, self.raw_images[:2], self.raw_images[::-1], self.raw_images[3:]]
        for n_slots in (1, 2, 3):
            slots = [
                self.model.prepare(Policy("l2", keep=0.5), inputs="slot", max_images=8, max_bytes=1 << 20)
                for _ in range(n_slots)
            ]
            waiting, seen = iter(batches), []

            def fill(slot):
                seen.append(len(slot))
                for raw_image in next(waiting, ()):
                    slot.add(*raw_image.shape[:2])[:] = raw_image
                return len(slot) > 0

            results = list(raggedvit.double_buffer(slots, fill))
            self.assertEqual(seen, [0] * 5)
            for result, batch in zip(results, batches):
                wanted = self.model.classify(batch, Policy("l2", keep=0.5))
                np.testing.assert_array_equal(result.logits, wanted.logits)
                np.testing.assert_array_equal(result.cu_seqlens, wanted.cu_seqlens)
            self.assertEqual(len(results), 4)
        waiting = iter(batches)
        for result in raggedvit.double_buffer(slots, fill):
            break
        self.assertFalse(any(slot.pending for slot in slots))
        with self.assertRaises(ZeroDivisionError):
            list(raggedvit.double_buffer(slots, lambda slot: slot.add(20, 20).fill(1) or len(slot) / (len(seen) and 0)))
        self.assertFalse(any(slot.pending or len(slot) for slot in slots))

    def test_slot_memory_belongs_to_the_session(self):
        slot = self.model.prepare(inputs="slot", max_images=3, max_bytes=1 << 20)
        first, second = slot.add(40, 50), slot.add(33, 21)
        address = slot.memory.ctypes.data
        self.assertEqual((first.ctypes.data - address, (second.ctypes.data - address) % 64), (0, 0))
        self.assertGreaterEqual(len(slot.memory), 1 << 20)
        self.assertGreaterEqual(second.ctypes.data, first.ctypes.data + first.nbytes)
        first[:], second[:] = 7, 9
        slot.start()
        slot.start_again = slot.finish()
        slot.start()  # the images stay
        np.testing.assert_array_equal(slot.finish().logits, slot.start_again.logits)
        self.assertTrue((first == 7).all() and (second == 9).all())
        del slot
        gc.collect()
        first[:] = 8  # valid as long as something refers to it

    def test_refusals(self):
        slot = self.model.prepare(inputs="slot", max_images=2, max_bytes=1 << 16)
        self.fails(Status.INVALID_ARGUMENT, "no batch of the slot is under way", slot.finish)
        self.fails(Status.INVALID_ARGUMENT, "the slot is full", slot.add, 300, 300)
        self.fails(Status.INVALID_ARGUMENT, "height is 0", slot.add, 0, 3)
        self.fails(Status.INVALID_ARGUMENT, "width is 65536", slot.add, 1, 65536)
        self.fails(Status.INVALID_ARGUMENT, "format is 'cmyk'; expected one of rgb", slot.add, 4, 4, "cmyk")
        self.fails(Status.INVALID_ARGUMENT, "nv12 5 x 4", slot.add, 5, 4, "nv12")
        slot.add(4, 4)
        slot.add(4, 4)
        self.fails(Status.INVALID_ARGUMENT, "the slot is full: image 2 of 2", slot.add, 4, 4)
        slot.start()
        for call in (slot.start, slot.clear, lambda: slot.add(1, 1)):
            self.fails(Status.INVALID_ARGUMENT, "the slot's batch is under way", call)
        self.assertTrue(slot.pending)
        slot.finish()
        self.fails(
            Status.INVALID_ARGUMENT,
            "the policy is 'mask'",
            self.model.prepare,
            Policy("mask", blocks=[1]),
            inputs="slot",
        )
        self.fails(Status.INVALID_ARGUMENT, "max_images is 0", self.model.prepare, inputs="slot", max_images=0)
        self.fails(Status.INVALID_ARGUMENT, "max_bytes is 0", self.model.prepare, inputs="slot", max_bytes=0)
        fixed = self.model.prepare(inputs="slot", max_images=2, fixed_batch=True)
        fixed.add(9, 9)[:] = 0
        self.fails(Status.INVALID_ARGUMENT, "n_images is 1", fixed.start)
        fixed.add(9, 9)[:] = 0
        fixed.start()
        fixed.finish()
        self.model.recipe = dataclasses.replace(self.model.recipe, fit="border")
        thin = self.model.prepare(inputs="slot", max_images=2)
        thin.add(20, 20)[:] = 0
        thin.add(4000, 1)[:] = 0
        self.fails(Status.UNSUPPORTED, "^image 1: 1 x 4000 pixels are too thin", thin.start)

    def test_threads(self):
        """Several threads classify images with one model, and others fill slots."""
        wanted, failures = self.model.classify(self.raw_images, Policy("l2", keep=0.5)).logits, []

        def work(number):
            try:
                for _ in range(6):
                    if number % 2:
                        found = self.model.classify(self.raw_images, Policy("l2", keep=0.5)).logits
                    else:
                        slot = self.model.prepare(
                            Policy("l2", keep=0.5), inputs="slot", max_images=8, max_bytes=1 << 20
                        )
                        for raw_image in self.raw_images:
                            slot.add(*raw_image.shape[:2])[:] = raw_image
                        slot.start()
                        found = slot.finish().logits
                    np.testing.assert_array_equal(found, wanted)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


if __name__ == "__main__":
    unittest.main()
