"""Runs the demo checkpoint with the package: compares logits with timm, and tests results, ownership, threads and
errors."""

import functools
import gc
import json
import os
import pathlib
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status
from raggedvit._arrays import core_loader
from raggedvit._c.constants import CONSTANTS
from raggedvit._c.layouts import rvit_view


class ModelTest(support.Case):
    @classmethod
    def setUpClass(cls):
        cls.model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        cls.images = support.tiles(4)

    def test_logits_equal_timm(self):
        images, wanted = support.tiles(64), support.reference_logits()
        logits = np.concatenate([self.model.classify(images[i : i + 16], "none").logits for i in range(0, 64, 16)])
        self.assertLess(np.abs(logits - wanted).max(), 1e-4)

    def test_16_bits(self):
        for dtype, least, most in (("f16", 0, 4e-3), ("bf16", 1e-3, 3.2e-2)):
            model = raggedvit.Model(support.CHECKPOINT, device="cpu", dtype=dtype, n_threads=2)
            difference = np.abs(model.classify(self.images, "none").logits - support.reference_logits()[:4]).max()
            self.assertTrue(least < difference < most, (dtype, difference))

    def test_8_bits(self):
        for dtype, least, most in (("int8", 4e-3, 0.2), ("fp8", 8e-3, 0.4)):
            model = raggedvit.Model(support.CHECKPOINT, device="cpu", dtype=dtype, n_threads=2)
            difference = np.abs(model.classify(self.images, "none").logits - support.reference_logits()[:4]).max()
            self.assertTrue(least < difference < most, (dtype, difference))
            self.assertEqual((model.dtype, model.dtype_reason), (dtype, ""))
        self.fails(
            Status.INVALID_ARGUMENT, "dtype is 'int4'", raggedvit.Model, support.CHECKPOINT, device="cpu", dtype="int4"
        )

    @unittest.skipUnless(any(d.backend == "vulkan" and d.index >= 0 for d in raggedvit.devices()), "no Vulkan device")
    def test_8_bits_on_vulkan(self):
        model = raggedvit.Model(support.CHECKPOINT, device="vulkan", dtype="int8")
        difference = np.abs(model.classify(self.images, "none").logits - support.reference_logits()[:4]).max()
        self.assertTrue(4e-3 < difference < 0.2, difference)
        self.fails(
            Status.UNSUPPORTED,
            "int8 rows, but not e4m3",
            raggedvit.Model,
            support.CHECKPOINT,
            device="vulkan",
            dtype="fp8",
        )

    def test_auto_selects_a_supported_type(self):
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", dtype="auto", n_threads=2)
        self.assertIn(model.dtype, ("f32", "bf16", "int8"))
        self.assertTrue(model.dtype_reason)
        same = raggedvit.Model(support.CHECKPOINT, device="cpu", dtype=model.dtype, n_threads=2)
        np.testing.assert_array_equal(
            model.classify(self.images, "none").logits, same.classify(self.images, "none").logits
        )

    def test_kept_tokens(self):
        result = self.model.classify(self.images, Policy("l2", keep=0.5))
        self.assertEqual(result.logits.shape, (4, 10))
        self.assertEqual(len(result.kept), 1)
        for image, kept in enumerate(result.kept[0]):
            self.assertIn(len(kept), (98, 99))
            self.assertEqual(kept[0], 0)
            self.assertTrue((np.diff(kept) > 0).all() and kept[-1] < 197)
            self.assertEqual(len(kept), np.diff(result.cu_seqlens[0])[image])
        self.assertEqual(
            [len(k[0]) for k in self.model.classify(self.images, Policy("evit", keep=0.7)).kept], [139, 98, 69]
        )
        self.assertTrue((np.argmax(result, axis=1) == result.logits.argmax(1)).all())

    def test_every_policy(self):
        policies, masks = {"l2-threshold": Policy("l2-threshold", threshold=1.0)}, {"mask": np.ones((4, 197))}
        for policy in raggedvit.policies():
            with self.subTest(policy.name):
                if policy.name == "map-probe":
                    self.fails(
                        Status.UNSUPPORTED, "does not pool by attention", self.model.classify, self.images, policy.name
                    )
                    continue
                if policy.name == "pixelprune":
                    self.fails(
                        Status.UNSUPPORTED, "variable_resolution is 0", self.model.classify, self.images, policy.name
                    )
                    continue
                result = self.model.classify(
                    self.images, policies.get(policy.name, policy.name), mask=masks.get(policy.name)
                )
                self.assertTrue(np.isfinite(result.logits).all())

    def test_hiprune(self):
        info = next(policy for policy in raggedvit.policies() if policy.name == "hiprune")
        self.assertEqual(info.parameters, ("keep", "blocks", "alpha", "object_block"))
        self.assertEqual((info.keep, info.blocks, info.alpha, info.object_part), (0.5, (-2,), 0.1, 0.375))
        wanted = self.model.classify(self.images, "hiprune")
        self.assertEqual([len(kept) for kept in wanted.kept[0]], [99] * 4)
        settings = dict(keep=0.5, blocks=[10], alpha=0.1, object_block=4)
        np.testing.assert_array_equal(
            self.model.classify(self.images, Policy("hiprune", **settings)).logits, wanted.logits
        )
        for other in (dict(alpha=0), dict(alpha=0.9), dict(alpha=0.9, object_block=0)):
            settings.update(other)
            found = self.model.classify(self.images, Policy("hiprune", **settings)).logits
            self.assertGreater(np.abs(found - wanted.logits).max(), 1e-4)
            np.testing.assert_array_equal(self.model(self.images, Policy("hiprune", **settings)), found)
            np.testing.assert_array_equal(self.model.prepare(Policy("hiprune", **settings))(self.images), found)
            wanted = self.model.classify(self.images, Policy("hiprune", **settings))
        self.fails(
            Status.INVALID_ARGUMENT, "alpha is 1.5", self.model.classify, self.images, Policy("hiprune", alpha=1.5)
        )
        self.fails(
            Status.INVALID_ARGUMENT,
            "object_block is 11, expected 0..10",
            self.model.classify,
            self.images,
            Policy("hiprune", object_block=11),
        )
        self.fails(
            Status.INVALID_ARGUMENT,
            "one block, n_blocks is 2",
            self.model.classify,
            self.images,
            Policy("hiprune", blocks=[5, 10]),
        )
        self.fails(
            Status.INVALID_ARGUMENT,
            "alpha is given, but the policy l2",
            self.model.classify,
            self.images,
            Policy("l2", alpha=0.2),
        )

    def test_mask(self):
        mask = np.ones((4, 197), bool)
        mask[2, 5:100] = False
        result = self.model.classify(self.images, "mask", mask=mask)
        for image in range(4):
            np.testing.assert_array_equal(result.kept[0][image], np.flatnonzero(mask[image]))
        dense = self.model.classify(self.images, "none").logits
        np.testing.assert_allclose(result.logits[[0, 1, 3]], dense[[0, 1, 3]], atol=1e-4)
        self.assertGreater(np.abs(result.logits[2] - dense[2]).max(), 1e-3)
        self.fails(
            Status.INVALID_ARGUMENT, "expected \\[4, 197", self.model.classify, self.images, "mask", mask=mask[:, :9]
        )
        self.fails(Status.INVALID_ARGUMENT, "no mask", self.model.classify, self.images, "mask")
        self.fails(Status.INVALID_ARGUMENT, "'mask'", self.model.classify, self.images, mask=mask)

    def test_features_attention_and_sizes(self):
        result = self.model.classify(self.images, Policy("l2", keep=0.2), features=True, cls_attention=True)
        rows = result.cu_seqlens[-1][-1]
        self.assertEqual(result.features.shape, (rows, 192))
        self.assertEqual(result.cls_attention.shape, (rows, 3))
        sums = np.add.reduceat(result.cls_attention, result.cu_seqlens[-1][:-1])
        np.testing.assert_allclose(sums, 1, atol=1e-5)
        merged = self.model.classify(self.images, Policy("tome", merges=8))
        for sizes in merged.sizes[-1]:
            self.assertAlmostEqual(float(sizes.sum()), 197, places=3)
        self.assertEqual(self.model.classify(self.images, "none", features=True).features.shape, (4 * 197, 192))

    def test_results_are_owned_by_the_caller(self):
        first = self.model.classify(self.images, "l2", features=True)
        copies = first.logits.copy(), first.kept[0][1].copy(), first.features.copy()
        self.model.classify(self.images[::-1], "l2", features=True)
        for now, before in zip((first.logits, first.kept[0][1], first.features), copies):
            np.testing.assert_array_equal(now, before)

    def test_any_layout_of_images(self):
        wanted = self.model.classify(self.images).logits
        spread = np.asfortranarray(self.images.astype(np.float64))
        np.testing.assert_array_equal(self.model.classify(spread).logits, wanted)
        self.assertEqual(self.model.classify(self.images[:0]).logits.shape, (0, 10))
        np.testing.assert_array_equal(self.model.classify(self.images, "none").logits, wanted)

    def test_errors(self):
        fails, classify = self.fails, self.model.classify
        fails(Status.INVALID_ARGUMENT, "no pruning policy is called 'best'", classify, self.images, "best")
        fails(Status.INVALID_ARGUMENT, "tome has no such parameter", classify, self.images, Policy("tome", keep=0.5))
        fails(Status.INVALID_ARGUMENT, "keep is 1.5", classify, self.images, Policy("l2", keep=1.5))
        fails(Status.INVALID_ARGUMENT, "keep is -1", Policy, "l2", keep=-1)
        fails(Status.INVALID_ARGUMENT, "block 99", classify, self.images, Policy("l2", blocks=[99]))
        fails(Status.INVALID_ARGUMENT, "uint8", classify, np.zeros((1, 3, 224, 224), np.uint8))
        fails(Status.INVALID_ARGUMENT, r"expected \[B, 3, 224, 224\]", classify, self.images[0])
        broken = self.images.copy()
        broken[2, 0, 100, 100] = np.nan
        fails(Status.INVALID_ARGUMENT, "image 2: a score is NaN", classify, broken, "l2")
        self.assertTrue(np.isfinite(classify(self.images).logits).all())
        fails(Status.BAD_FILE, "no such file", raggedvit.Model, "/nonexistent.safetensors", device="cpu")
        fails(Status.BAD_FILE, "README.md", raggedvit.Model, support.DATA / "README.md", device="cpu")
        fails(Status.INVALID_ARGUMENT, "device is 'tpu'", raggedvit.Model, support.CHECKPOINT, device="tpu")
        fails(Status.INVALID_ARGUMENT, "patch", raggedvit.Model, support.CHECKPOINT, device="cpu", image_size=225)
        error = pickle.loads(pickle.dumps(RaggedVitError(Status.BAD_FILE, "x")))
        self.assertEqual((error.status, str(error)), (Status.BAD_FILE, "x"))

    def test_another_resolution(self):
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", image_size=160, n_threads=2)
        self.assertEqual((model.info.tokens, model.info.trained_size), (101, 224))
        self.assertEqual(model.classify(self.images[:, :, :160, :160]).logits.shape, (4, 10))

    def test_devices_and_a_context(self):
        with raggedvit.Model(support.CHECKPOINT, "cpu:0", n_threads=2) as model:
            self.assertEqual((str(model.device), model.cuda_index), ("cpu", -1))
            np.testing.assert_array_equal(model(self.images[:1]), self.model(self.images[:1]))
        self.fails(Status.INVALID_ARGUMENT, "closed", model, self.images)
        for device in ("cuda:x", "cuda:-1", "auto:0", "cpu:", "cuda:1:2", "gpu"):
            self.fails(
                Status.INVALID_ARGUMENT,
                f"device is '{device}'; expected one of auto, cpu,",
                raggedvit.Model,
                support.CHECKPOINT,
                device,
            )

    def test_sessions_are_cached_and_released(self):
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2, max_sessions=2)
        for keep in (0.2, 0.5, 0.8, 0.8):
            last = model.classify(self.images[:1], Policy("l2", keep=keep)).logits
        self.assertEqual([session.policy.keep for session in model._sessions], [0.5, 0.8])
        np.testing.assert_array_equal(model.classify(self.images[:1], Policy("l2", keep=0.8)).logits, last)
        model.close()
        model.close()
        self.fails(Status.INVALID_ARGUMENT, "closed", model.classify, self.images)
        other = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        other.classify(self.images[:1])
        other.itself = other  # garbage that only a cycle collection finds
        del other, model
        gc.collect()

    def test_threads_share_a_model(self):
        wanted = {n: self.model.classify(self.images[:n], "l2").logits for n in (1, 2)}
        failures = []

        def work(n):
            for _ in range(4):
                if not np.array_equal(self.model.classify(self.images[:n], "l2").logits, wanted[n]):
                    failures.append(n)

        support.in_threads(*(functools.partial(work, n) for n in (1, 1, 2, 2)))
        self.assertEqual(failures, [])

    def test_extra_capacity_is_optional(self):
        """The shared forward has extra capacity, unless the device has no memory for it."""
        model = raggedvit.Model(support.CHECKPOINT, device="cpu", n_threads=2)
        self.addCleanup(model.close)
        create, capacities = model._sessions._create, []

        def limited(prune, capacity, *rest):
            capacities.append(capacity)
            if capacity > 3:
                raise RaggedVitError(Status.UNSUPPORTED, "too large")
            return create(prune, capacity, *rest)

        images = np.zeros((4, *model.info.image_shape), np.float32)
        with unittest.mock.patch.object(model._sessions, "_create", limited):
            for n in (1, 2, 3):
                model.classify(images[:n], "l2")
            self.fails(Status.UNSUPPORTED, "too large", model.classify, images, "l2")
        self.assertEqual(capacities[:4], [1, 2, 4, 3])

    def test_lists(self):
        devices = raggedvit.devices()
        self.assertIn("cpu", [device.backend for device in devices])
        cpu = next(device for device in devices if device.backend == "cpu")
        self.assertEqual((cpu.kind, cpu.pci_address), ("cpu", ""))
        self.assertGreater(cpu.memory_free, 0)
        every = raggedvit.devices(unusable=True)
        self.assertEqual([d.backend for d in devices], [d.backend for d in every if d.index >= 0])
        self.assertEqual(self.model.device.backend, "cpu")
        self.assertEqual(self.model.info.depth, 12)
        self.assertIn("cat", self.model.class_names)
        l2 = next(p for p in raggedvit.policies() if p.name == "l2")
        self.assertEqual((l2.keep, l2.blocks, l2.parameters), (0.5, (3,), ("keep", "blocks")))

    def test_class_names_of_a_config(self):
        reference = support.ROOT / "tests" / "data" / "reference"
        config = json.loads((reference / "config.json").read_text())
        for field, names in (
            ("label_names", ["tench, Tinca", *"bcdefg"]),
            ("id2label", {str(i): name for i, name in enumerate("abcdefg")}),
        ):
            with tempfile.TemporaryDirectory() as folder:
                model = pathlib.Path(folder, "model.safetensors")
                shutil.copy(reference / "model.safetensors", model)
                model.with_name("config.json").write_text(json.dumps({**config, field: names}))
                wanted = list(names.values()) if isinstance(names, dict) else names
                self.assertEqual(raggedvit.Model(model, device="cpu").class_names, wanted)

    def test_missing_library(self):
        code = (
            "import raggedvit\ntry: raggedvit.version()\nexcept raggedvit.RaggedVitError as e: print(e.status.name, e)"
        )
        for name in ("/nonexistent.so", support.CHECKPOINT):
            environment = dict(os.environ, RAGGEDVIT_LIBRARY=str(name), PYTHONPATH=str(support.ROOT / "python"))
            out = subprocess.run(
                [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
            ).stdout
            self.assertTrue(out.startswith(f"UNAVAILABLE {name}"), out)

    def test_forked_child_does_not_destroy_handles(self):
        read, write = os.pipe()
        handle = raggedvit._c.library.Handle(None, lambda pointer: os.write(write, b"ended"))
        child = os.fork()
        if child == 0:
            del handle
            os._exit(0)
        os.waitpid(child, 0)
        del handle
        os.close(write)
        self.assertEqual(os.read(read, 64), b"ended")
        os.close(read)

    def test_staging(self):
        # Several threads copy batches in several chunks, also in a forked child.
        lib, device, core = self.model._lib, self.model._device, core_loader.ready()

        def staged(seed, n):
            stream = lib.own("stream", device)
            buffers = [
                lib.own("buffer", device, 4 * n, CONSTANTS[f"RVIT_BUFFER_{kind}"]) for kind in ("UPLOAD", "DEVICE")
            ]
            source, found, view = (
                np.random.default_rng(seed).random(n + 1, np.float32)[1:],
                np.empty(n, np.float32),
                rvit_view(),
            )
            for _ in range(3):
                core.stage(
                    stream.pointer.value,
                    *(b.pointer.value for b in buffers),
                    lib.rvit_buffer_host(buffers[0]),
                    source.ctypes.data,
                    source.nbytes,
                )
            view.buffer = buffers[1].pointer
            lib.rvit_stream_read(stream, view, found.ctypes.data, found.nbytes)
            return bool((found == source).all())

        found = []
        support.in_threads(*[lambda seed=seed: found.append(staged(seed, 1000003 + seed)) for seed in range(4)])
        self.assertEqual(found, [True] * 4)
        source = np.zeros(4, np.float32)
        self.fails(
            Status.INVALID_ARGUMENT,
            "copy: ",
            core.stage,
            lib.own("stream", device).pointer.value,
            0,
            0,
            source.ctypes.data,
            np.ones(4, np.float32).ctypes.data,
            16,
        )
        child = os.fork()
        if child == 0:
            code = 1
            try:
                signal.alarm(20)
                memory, ones = np.zeros(1 << 20, np.float32), np.ones(1 << 20, np.float32)
                try:
                    core.stage(0, 0, 0, memory.ctypes.data, ones.ctypes.data, ones.nbytes)
                except RaggedVitError:  # the child has no stream, but starts its own copying threads
                    code = int(not (memory == 1).all())
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_interpreter_exit_with_live_objects(self):
        code = (
            "import support, raggedvit, numpy as np\n"
            "m = raggedvit.Model(support.CHECKPOINT, device='cpu', n_threads=2)\n"
            "r = m.classify(support.tiles(1))\n"
            "raggedvit.attention(np.ones((4, 3, 1, 8), np.float32), [0, 4])\n"
            "print('done')"
        )
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=support.ROOT / "python" / "tests", capture_output=True, text=True
        )
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "done\n", ""))


if __name__ == "__main__":
    unittest.main()
