"""If one image of a batch fails, the others have the same results as without it."""

import dataclasses
import tempfile
import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status
from raggedvit._session import failures as kept_failures
from raggedvit._session import pipeline
from test_raw_images import noise

SIZES = ((48, 64), (101, 30), (33, 33), (90, 90), (7, 90), (60, 33), (40, 40), (20, 80))
BAD = {
    "shape": np.zeros((5, 5), np.uint8),
    "size 0": np.zeros((0, 5, 3), np.uint8),
    "dtype": np.zeros((5, 5, 3), np.float32),
    "thin": np.zeros((1, 70000, 3), np.uint8),
    "thin on the device": np.zeros((1, 9000, 3), np.uint8),
    "file": "/nowhere.png",
}
MASK = np.arange(8 * 197).reshape(8, 197) % 197 % 3 == 0
OUTPUTS = {"features": True, "cls_attention": True, "pooled": True, "block_features": 1, "received_attention": -1}


class FailuresTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.model.recipe = dataclasses.replace(cls.model.recipe, fit="border")  # this recipe refuses thin images
        cls.images = support.tiles(8)
        cls.broken = cls.images.copy()
        cls.broken[5, 1, 100, 100] = np.nan
        cls.raw_images = noise(*SIZES)

    def check(self, found, wanted, bad, words):
        """Expects the rows of `wanted` in `found`, except for those of image `bad`."""
        self.assertEqual(list(found.errors), [bad])
        self.assertIsInstance(found.errors[bad], RaggedVitError)
        self.assertRegex(str(found.errors[bad]), words)
        self.assertEqual(wanted.errors, {})
        good = [image for image in range(len(wanted.logits)) if image != bad]
        for name in ("logits", "pooled", "projected"):
            one, other = getattr(found, name), getattr(wanted, name)
            self.assertEqual(one is None, other is None)
            if one is not None:
                self.assertTrue(np.isnan(one[bad]).all())
                np.testing.assert_array_equal(one[good], other[good])
        for stage, (cu, all_cu) in enumerate(zip(found.cu_seqlens, wanted.cu_seqlens)):
            np.testing.assert_array_equal(np.diff(cu)[good], np.diff(all_cu)[good])
            self.assertEqual(cu[bad + 1], cu[bad])
            self.assertEqual(cu.dtype, np.int32)
            for image in good:
                np.testing.assert_array_equal(found.kept[stage][image], wanted.kept[stage][image])
            self.assertEqual(found.kept[stage][bad].shape, (0,))
        last = len(wanted.cu_seqlens) - 1
        for name, stage in (
            ("features", last),
            ("cls_attention", last),
            ("block_features", wanted.block_stage),
            ("received_attention", wanted.received_stage),
        ):
            one, other = getattr(found, name), getattr(wanted, name)
            self.assertEqual(one is None, other is None)
            if one is None:
                continue
            if stage >= 0:
                mine = np.repeat(np.arange(len(wanted.logits)) != bad, np.diff(wanted.cu_seqlens[stage]))
                np.testing.assert_array_equal(one, other[mine])
            else:
                rows = lambda of: of.reshape(len(wanted.logits), -1)
                np.testing.assert_array_equal(rows(one)[good], rows(other)[good])
                self.assertTrue(np.isnan(rows(one)[bad]).all())

    def raises(self, words, function, *arguments, **named):
        with self.assertRaisesRegex(RaggedVitError, words):
            function(*arguments, **named)

    def test_nan_in_one_image(self):
        for policy in (
            {"policy": Policy("l2", keep=0.5, blocks=[1, 4])},
            {"policy": Policy("evit", keep=0.7)},
            {"policy": Policy("ats", blocks=[3])},
            {"policy": Policy("ats", blocks=[3, 7], n_samples=20)},
        ):
            for outputs in ({}, OUTPUTS):
                with self.subTest(**policy, outputs=bool(outputs)):
                    wanted = self.model.classify(self.images, **policy, **outputs)
                    found = self.model.classify(self.broken, **policy, **outputs, errors="return")
                    self.check(found, wanted, 5, "^image 5: .* at prune stage 0 ")
                    self.assertEqual(found.errors[5].status, Status.INVALID_ARGUMENT)
                    self.raises("^image 5: ", self.model.classify, self.broken, **policy)
        self.assertEqual(self.model.classify(self.images, "l2", errors="return").errors, {})

    def test_policies_that_do_not_check_scores(self):
        for policy in (
            {},
            {"policy": Policy("random", keep=0.5)},
            {"policy": Policy("tome", blocks=[2])},
            {"policy": Policy("mask", blocks=[2]), "mask": MASK},
        ):
            with self.subTest(**policy):
                wanted = self.model.classify(self.images, **policy, **OUTPUTS)
                found = self.model.classify(self.broken, **policy, **OUTPUTS, errors="return")
                self.check(found, wanted, 5, "^image 5: its logits are not finite: its pixels are NaN")
                self.assertEqual(found.errors[5].status, Status.INVALID_ARGUMENT)
                self.raises("^image 5: its logits", self.model.classify, self.broken, **policy)
                if "mask" not in policy:
                    self.raises("^image 5: its logits", self.model, self.broken, **policy)

    def test_float16_overflow(self):
        with tempfile.TemporaryDirectory() as folder:
            path = support.overflowing_checkpoint(folder)
            model = raggedvit.Model(path, device="cpu", n_threads=2, dtype="f16")
            self.assertEqual(raggedvit.Model(path, device="cpu", n_threads=2).classify(self.images[:2]).errors, {})
        words = "the model overflows float16; use bf16 or f32$"
        for policy in ("none", "tome", "l2"):
            for batch in (self.images[:3], self.raw_images[:3]):
                found = model.classify(batch, policy, features=True, errors="return")
                self.assertEqual(list(found.errors), [0, 1, 2])
                for error in found.errors.values():
                    self.assertEqual(error.status, Status.NOT_FINITE)
                    self.assertRegex(str(error), words)
                self.assertTrue(np.isnan(found.logits).all())
                self.raises(words, model.classify, batch, policy)
                self.raises(words, model, batch, policy)
                for one in model.prepare(policy).map([batch], errors="return"):
                    self.assertEqual(list(one.errors), [0, 1, 2])

    def test_logits_that_no_session_checked(self):
        logits, failures = np.ones((4, 10), np.float32), {6: None}
        kept_failures.check(logits, "f32", None)
        logits[2, 3], logits[3, 9] = np.inf, np.nan
        kept_failures.check(logits, "f16", failures, 4)
        self.assertEqual(list(failures), [6, 7])
        self.assertRegex(
            str(failures[7]), "^image 7: its logits are not finite: .* overflows f16, where bf16 or f32 helps"
        )
        self.raises("^image 2: its logits .* overflows bf16, or weights", kept_failures.check, logits, "bf16", None)

    def test_only_bad_images(self):
        found = self.model.classify(
            np.full_like(self.images[:3], np.nan), Policy("l2", keep=0.5), features=True, errors="return"
        )
        self.assertEqual(list(found.errors), [0, 1, 2])
        self.assertEqual(found.features.shape, (0, self.model.info.dim))
        self.assertTrue(np.isnan(found.logits).all())
        found = self.model.classify(list(BAD.values()), Policy("l2", keep=0.5), errors="return")
        self.assertEqual(list(found.errors), list(range(len(BAD))))
        self.assertEqual(found.cu_seqlens[0].tolist(), [0] * (len(BAD) + 1))

    def test_errors_of_the_whole_call_are_raised(self):
        self.raises(
            "errors is 'ignore'; expected one of raise, return", self.model.classify, self.images, errors="ignore"
        )
        self.raises(r"expected \[B, 3, 224, 224\]", self.model.classify, self.images[0], errors="return")
        self.raises("keep is 1.5", self.model.classify, self.images, Policy("l2", keep=1.5), errors="return")
        mask = np.ones((8, self.model.info.tokens))
        mask[2, 0] = 0
        self.raises(
            "drops prefix token 0 of image 2",
            self.model.classify,
            self.images,
            Policy("mask", blocks=[2]),
            mask=mask,
            errors="return",
        )
        self.raises("keep is 1.5", self.model.prepare(Policy("l2", keep=1.5)).map, [self.images], errors="return")
        with mock.patch.object(
            self.model._lib, "rvit_session_run", side_effect=RaggedVitError(Status.DEVICE_LOST, "gone")
        ):
            self.raises("gone", self.model.classify, self.images, "l2", errors="return")

    def test_one_bad_image(self):
        for recipe in (
            self.model.recipe,
            dataclasses.replace(self.model.recipe, processor="hf_float", fit="squash", resize=(224, 224)),
            dataclasses.replace(self.model.recipe, fit="squash", resize=(224, 224), max_patches=50),
        ):
            self.addCleanup(setattr, self.model, "recipe", self.model.recipe)
            self.model.recipe = recipe
            outputs = {"features": True, "pooled": True} if recipe.max_patches else OUTPUTS
            wanted = self.model.classify(self.raw_images, Policy("l2", keep=0.5), **outputs)
            for name, bad in BAD.items():
                if name.startswith("thin") and (
                    recipe.processor == "hf_float" or (recipe.max_patches and name != "thin")
                ):
                    continue  # these recipes accept the image
                for number in (0, 3, 7):
                    with self.subTest(name, recipe=recipe, number=number):
                        batch = [*self.raw_images[:number], bad, *self.raw_images[number + 1 :]]
                        found = self.model.classify(batch, Policy("l2", keep=0.5), **outputs, errors="return")
                        self.check(found, wanted, number, f"^image {number}[: ]")
                        self.raises("", self.model.classify, batch, Policy("l2", keep=0.5))

    def test_without_pruning(self):
        batch = [*self.raw_images[:3], BAD["size 0"], *self.raw_images[4:]]
        self.check(
            self.model.classify(batch, **OUTPUTS, errors="return"),
            self.model.classify(self.raw_images, **OUTPUTS),
            3,
            "^image 3 is uint8",
        )
        found = self.model.classify(np.zeros((2, 0, 5, 3), np.uint8), errors="return")
        self.assertEqual(list(found.errors), [0, 1])

    def test_failures_do_not_need_another_session(self):
        self.model.classify(self.raw_images, "tome", errors="return")
        with mock.patch.object(self.model._sessions, "_create", side_effect=AssertionError):
            found = self.model.classify([*self.raw_images[:7], "/nowhere.png"], "tome", errors="return")
        self.assertEqual(list(found.errors), [7])
        self.assertEqual([len(rows) > 0 for rows in found.sizes[0]], [True] * 7 + [False])

    def test_other_images_are_prepared_on_the_device(self):
        with mock.patch.object(raggedvit.images, "prepare_all", side_effect=AssertionError):
            found = self.model.classify([*self.raw_images[:7], BAD["thin on the device"]], errors="return")
        self.assertRegex(str(found.errors[7]), "^image 7: 9000 x 1 pixels are too thin")

    def test_wide_images_on_the_host(self):
        wide = [*self.raw_images[:2], np.zeros((300, 70000, 3), np.uint8)]
        self.model.recipe, before = (
            dataclasses.replace(self.model.recipe, fit="squash", resize=(224, 224)),
            self.model.recipe,
        )
        self.addCleanup(setattr, self.model, "recipe", before)
        wanted = self.model.classify(wide, "l2")
        found = self.model.classify([*wide, BAD["dtype"]], "l2", errors="return")
        self.assertEqual(list(found.errors), [3])
        np.testing.assert_array_equal(found.logits[:3], wanted.logits)

    def test_batch_in_parts(self):
        batch = self.raw_images * 4
        with mock.patch.multiple(pipeline, PART_RAW=1 << 12, PART_IMAGES=4):
            self.assertEqual(pipeline.n_parts_of(batch), 8)
            wanted = self.model.classify(batch, Policy("l2", keep=0.5), **OUTPUTS)
            for number in (0, 13, 31):
                broken = [*batch[:number], BAD["thin on the device"], *batch[number + 1 :]]
                found = self.model.classify(broken, Policy("l2", keep=0.5), **OUTPUTS, errors="return")
                self.check(found, wanted, number, f"^image {number}: 9000 x 1 pixels are too thin")

    def test_map(self):
        forward = self.model.prepare(Policy("l2", keep=0.5))
        wanted = [self.model.classify(batch, Policy("l2", keep=0.5)) for batch in (self.images, self.raw_images)]
        batches = [
            self.images,
            self.broken,
            self.images[:, :, 1:],
            [*self.raw_images[:2], BAD["size 0"], *self.raw_images[3:]],
            self.images[:0],
            self.raw_images,
        ]
        found = list(forward.map(batches, errors="return"))
        self.assertEqual([list(result.errors) for result in found], [[], [5], list(range(8)), [2], [], []])
        self.check(found[1], wanted[0], 5, "^image 5: a score is NaN")
        self.check(found[3], wanted[1], 2, "^image 2 is uint8")
        self.assertTrue(np.isnan(found[2].logits).all())
        self.assertRegex(str(found[2].errors[7]), r"expected \[B, 3, 224, 224\]")
        for result, other in ((found[0], wanted[0]), (found[5], wanted[1])):
            np.testing.assert_array_equal(result, other)
            np.testing.assert_array_equal(result.kept[0][4], other.kept[0][4])
        self.raises("^image 5: ", list, forward.map(batches))

    def test_slots(self):
        for options in ({}, {"fixed_batch": True}):
            slots = [
                self.model.prepare(Policy("l2", keep=0.5), inputs="slot", max_images=8, max_bytes=1 << 20, **options)
                for _ in range(2)
            ]
            wanted = self.model.classify(self.raw_images, Policy("l2", keep=0.5))
            thin = [None, (1, 9000, "rgb"), (9000, 2, "gray"), (2, 9000, "nv12"), None]
            rounds = iter(thin)

            def fill(slot):
                bad = next(rounds, 0)
                for number, raw_image in enumerate(self.raw_images if bad != 0 else ()):
                    if number == 3 and bad is not None:
                        slot.add(*bad)[:] = 7
                    else:
                        slot.add(*raw_image.shape[:2])[:] = raw_image
                return bad != 0

            found = list(raggedvit.double_buffer(slots, fill, errors="return"))
            self.assertEqual([list(result.errors) for result in found], [[], [3], [3], [3], []])
            for result in found[1:4]:
                self.check(result, wanted, 3, "^image 3: .* too thin")
            np.testing.assert_array_equal(found[4].logits, wanted.logits)
            rounds = iter(thin)
            self.raises("^image 3: .* too thin", list, raggedvit.double_buffer(slots, fill))
            slot = slots[0]  # failed images remain in the slot
            rounds = iter(thin[1:])
            fill(slot)
            for _ in range(2):
                slot.start(errors="return")
                self.assertEqual(list(slot.finish().errors), [3])
                self.raises("^image 3: ", slot.start)

    def test_variable_resolution(self):
        by_patches = self.model.prepare(Policy("l2", keep=0.5), inputs="patches", max_images=4, features=True)
        patches = np.random.default_rng(1).standard_normal((4 * 20, 768)).astype(np.float32)
        wanted = by_patches(patches, [(4, 5)] * 4)
        patches[25] = np.nan
        self.check(by_patches(patches, [(4, 5)] * 4, errors="return"), wanted, 1, "^image 1: a score is NaN")
        self.raises("^image 1: ", by_patches, patches, [(4, 5)] * 4)


if __name__ == "__main__":
    unittest.main()
