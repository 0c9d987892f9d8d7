"""Batches with one bad image, for every policy and type. The other images must have the same bits as without it. Runs a
selection of batches; 10,000 with RVIT_TEST_CASES=all."""

import os
import unittest

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError

N_BATCHES = 10_000 if os.environ.get("RVIT_TEST_CASES") == "all" else 240
POOL, MOST, ROUNDS = 8, 5, 20
POLICIES = (
    {},
    {"policy": Policy("l2", keep=0.5)},
    {"policy": Policy("evit", keep=0.7)},
    {"policy": Policy("evit-fused", keep=0.6)},
    {"policy": "ats"},
    {"policy": "tome"},
    {"policy": Policy("random", keep=0.5)},
    {"policy": Policy("received", keep=0.5)},
    {"policy": Policy("fastervlm", keep=0.5)},
    {"policy": Policy("hiprune", keep=0.5)},
    {"policy": Policy("l2-threshold", threshold=20)},
    {"policy": Policy("evit-paper", keep=0.7)},
)


def spoilt(image, kind, random):
    """Returns a copy with one bad pixel, or with only bad ones."""
    image = image.copy()
    if kind < 5:
        image.flat[random.integers(image.size)] = (np.nan, np.inf, -np.inf, 1e30, 7e4)[kind]
    elif kind == 5:
        image[:] = np.nan
    else:
        image *= 1e18
    return image


class NeighboursTest(unittest.TestCase):
    def test_other_images_keep_their_bits(self):
        backend, random = os.environ.get("RVIT_TEST_BACKEND", "cpu"), np.random.default_rng(4)
        images = random.standard_normal((POOL, 3, 32, 32), np.float32)
        names = ["f32", "f16", "bf16", "fp8" if backend == "cuda" else "int8"]
        models = {
            dtype: raggedvit.Model(support.CHECKPOINT, device=backend, dtype=dtype, image_size=32, n_threads=2)
            for dtype in names
        }
        n = n_failed = 0
        while n < N_BATCHES:
            for dtype, model in models.items():
                for policy in POLICIES:
                    for _ in range(ROUNDS if N_BATCHES > 1000 else 5):
                        n_failed += self.one_batch(model, policy, images, random, f"{dtype}, {policy}")
                        n += 1
        self.assertGreater(n_failed, n // 3)
        print(f"{n} batches; the bad image failed in {n_failed} of them", flush=True)

    def one_batch(self, model, policy, images, random, what):
        numbers = random.integers(POOL, size=random.integers(2, MOST + 1))
        bad = int(random.integers(len(numbers)))
        batch = images[numbers]
        wanted = model.classify(batch, **policy, features=True)
        kind = int(random.integers(7))
        batch[bad] = spoilt(batch[bad], kind, random)
        found = model.classify(batch, **policy, features=True, errors="return")
        self.assertIn(list(found.errors), ([], [bad]) if kind in (3, 4, 6) else ([bad],), what)
        self.assertEqual(
            np.isfinite(found.logits).all(1).tolist(), [not found.errors or i != bad for i in range(len(numbers))], what
        )
        ends = [
            x.cu_seqlens[-1] if x.cu_seqlens else np.arange(len(numbers) + 1) * (len(x.features) // len(numbers))
            for x in (found, wanted)
        ]
        for i in range(len(numbers)):
            if i == bad:
                continue
            self.assertEqual(found.logits[i].tobytes(), wanted.logits[i].tobytes(), what)
            rows, expected = (x.features[end[i] : end[i + 1]] for x, end in zip((found, wanted), ends))
            self.assertEqual(rows.tobytes(), expected.tobytes(), what)
            for kept, one in zip(found.kept, wanted.kept):
                self.assertEqual(kept[i].tobytes(), one[i].tobytes(), what)
        if found.errors:
            with self.assertRaisesRegex(RaggedVitError, f"^image {bad}: "):
                model(batch, **policy)
        return len(found.errors)


if __name__ == "__main__":
    unittest.main()
