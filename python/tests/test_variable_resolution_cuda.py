"""VariableResolution with patches and merged rows that are PyTorch tensors on the device."""

import tempfile
import unittest

import numpy as np

import support
import test_variable_resolution
import raggedvit
from raggedvit import Policy, RaggedVitError
from test_cuda import why_not_torch

try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(why_not_torch(), why_not_torch())
class DeviceRowsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            cls.model = raggedvit.Model(test_variable_resolution.qwen3_encoder(folder), device="cuda")
        cls.rows = torch.from_numpy(np.random.default_rng(2).standard_normal((88, 96), np.float32))
        cls.grids, cls.asked = test_variable_resolution.EncoderTest.grids, test_variable_resolution.EncoderTest.asked

    def same(self, found, wanted):
        for ours, theirs in zip([found.merged, *found.deepstack], [wanted.merged, *wanted.deepstack], strict=True):
            self.assertTrue(ours.is_cuda)
            np.testing.assert_array_equal(ours.float().cpu(), theirs)
        self.assertEqual(found.deepstack_stages, wanted.deepstack_stages)

    def test_same_bits_as_on_the_host(self):
        for policy in ({}, dict(policy=Policy("l2", keep=0.5, blocks=[1]))):
            host, by_patches = (self.model.prepare(**policy, **self.asked, on_device=there) for there in (False, True))
            wanted = host(self.rows, self.grids)
            for rows in (self.rows.cuda(), self.rows, self.rows.numpy()):
                self.same(by_patches(rows, self.grids), wanted)
            half = self.rows.bfloat16()
            self.same(by_patches(half.cuda(), torch.tensor(self.grids)), host(half.float(), self.grids))
            self.same(by_patches(self.rows.cuda()[:24], self.grids[:1]), host(self.rows[:24], self.grids[:1]))

    def test_output_tensors(self):
        wanted = self.model.prepare(**self.asked)(self.rows, self.grids)
        by_patches, there = self.model.prepare(**self.asked, on_device=True), self.rows.cuda()
        out, stacked = torch.full((30, 12), 7.0, device="cuda"), torch.full((2, 22, 12), 7.0, device="cuda")
        found = by_patches(there, self.grids, out=out, deepstack_out=stacked)
        self.same(found, wanted)
        self.assertEqual(
            (found.merged.data_ptr(), found.deepstack[1].data_ptr()), (out.data_ptr(), stacked[1].data_ptr())
        )
        self.assertTrue((out[22:] == 7).all())
        half = by_patches(there, self.grids, out=torch.empty(22, 12, dtype=torch.bfloat16, device="cuda")).merged
        np.testing.assert_array_equal(half.float().cpu(), torch.from_numpy(wanted.merged).bfloat16().float())
        for words, place in (
            ("out is float32 on cpu", torch.empty(22, 12)),
            ("out is ndarray", wanted.merged),
            ("out has 21 rows", out[:21]),
            (r"out is \[22, 11\]", out[:22, 1:]),
            ("out is int32", out.int()),
        ):
            with self.assertRaisesRegex(RaggedVitError, words):
                by_patches(there, self.grids, out=place)

    def test_order_of_streams(self):
        wanted, by_patches = (
            self.model.prepare(**self.asked)(self.rows, self.grids),
            self.model.prepare(**self.asked, on_device=True),
        )
        other = self.model.prepare(**self.asked)(-self.rows, self.grids)
        for _ in range(3):
            found = []
            for sign, stream in ((1, torch.cuda.Stream()), (-1, torch.cuda.Stream()), (1, torch.cuda.default_stream())):
                with torch.cuda.stream(stream):
                    there = torch.zeros(88, 96, device="cuda")
                    torch.cuda._sleep(50_000_000)
                    there += sign * self.rows.cuda()
                    found.append(by_patches(there, self.grids))
            torch.cuda.synchronize()
            for one, expected in zip(found, (wanted, other, wanted)):
                self.same(one, expected)

    def test_images_of_other_models(self):
        model = raggedvit.Model(support.CHECKPOINT, device="cuda")
        patches = np.concatenate([test_variable_resolution.patches_of(image, 16) for image in support.tiles(2)])
        host, by_patches = (
            model.prepare(Policy("evit", keep=0.6), inputs="patches", max_images=2, on_device=there)
            for there in (False, True)
        )
        np.testing.assert_array_equal(
            by_patches(torch.from_numpy(patches).cuda(), [(14, 14)] * 2).logits, host(patches, [(14, 14)] * 2).logits
        )


if __name__ == "__main__":
    unittest.main()
