"""Tests exceptions of signal handlers at any point of a call, models closed while they run, exit of the interpreter,
and forked children."""

import contextlib
import importlib.util
import itertools
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import numpy as np

import support
import raggedvit
from raggedvit import Policy, RaggedVitError, Status
from raggedvit._session import staging
from raggedvit._session import pipeline
from test_ray import tiny

PACKAGE = (str(pathlib.Path(raggedvit.__file__).parent), contextlib.__file__)
IMAGES = np.random.default_rng(0).standard_normal((4, 3, 64, 64)).astype(np.float32)
ROWS = np.random.default_rng(1).standard_normal((24, 768)).astype(np.float32)
GRIDS = [(4, 4), (2, 3), (1, 2)]
RAW_IMAGES = [np.full((40 + i, 60, 3), 20 * i, np.uint8)[:, ::-1] for i in range(4)]


def small():
    return raggedvit.Model(LifetimesTest.path, device="cpu", n_threads=1)


class Interrupt(BaseException):
    """Replaces KeyboardInterrupt, because no other code raises it."""


def interrupted(work, after):
    """Calls a function and raises an exception at the (after + 1)-th point in the package where the interpreter could
    run a signal handler: the start of a function, or the return of a C function. Returns False if there are fewer
    points."""
    left = after

    def event(frame, kind, argument):
        nonlocal left
        code = frame.f_code
        # exceptions in _end are ignored
        if kind in ("call", "c_return") and code.co_filename.startswith(PACKAGE) and code.co_name != "_end":
            left -= 1
            if left < 0:
                raise Interrupt  # this also ends profiling

    sys.setprofile(event)
    try:
        work()
    except Interrupt:
        pass
    finally:
        sys.setprofile(None)
    return left < 0


def child(work):
    """Calls a function in a forked child. Returns whether it returned True there."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(20)
            code = int(not work())
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1] == 0


class LifetimesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.path = tiny(folder.name)

    def setUp(self):
        def late(number, frame):
            raise TimeoutError("a call does not return")

        before = signal.signal(signal.SIGALRM, late)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.alarm, 0)
        signal.alarm(60)

    def works(self, model):
        """Returns the ways to run a model: names, and functions that return logits."""
        by_patches = model.prepare(inputs="patches", max_images=4)
        slots = [model.prepare(inputs="slot", max_images=4) for _ in range(2)]
        prepared = model.prepare(Policy("l2", keep=0.5, blocks=[0]))

        def double_buffered():
            left = [RAW_IMAGES[:2], RAW_IMAGES[2:]]
            for slot in slots:
                slot.abandon()

            def fill(slot):
                for raw_image in left[0] if left else ():
                    slot.add(*raw_image.shape[:2])[:] = raw_image
                return bool(left and left.pop(0))

            return np.concatenate([result.logits for result in raggedvit.double_buffer(slots, fill)])

        def updated():
            checkpoint = model._lib.own("checkpoint", os.fsencode(self.path), None, create="rvit_checkpoint_open")
            model._update(checkpoint)
            return model(IMAGES)

        return {
            "classify": lambda: model.classify(IMAGES, Policy("l2", keep=0.5, blocks=[0])).logits,
            "images": lambda: model.classify(RAW_IMAGES).logits,
            "forward": lambda: prepared(IMAGES),
            "map": lambda: np.concatenate(list(prepared.map([IMAGES, IMAGES[:2]]))),
            "map of images": lambda: np.concatenate(
                [r.logits for r in prepared._overlapped([RAW_IMAGES, IMAGES, RAW_IMAGES[:2]], True)]
            ),
            "patches": lambda: by_patches(ROWS, GRIDS).logits,
            "slots": double_buffered,
            "update": updated,
        }

    def test_signal_exceptions_release_all_locks(self):
        # Small chunks make several threads copy a batch, as with large batches.
        with mock.patch.object(staging, "CHUNK", 1 << 10), mock.patch.object(pipeline, "CHUNK", 1 << 10):
            for name, work in self.works(small()).items():
                with self.subTest(name):
                    wanted = work()
                    points = next(
                        after
                        for after in itertools.count()
                        if not interrupted(work, after) or self.same(work(), wanted)
                    )
                    self.assertGreater(points, 30)

    def same(self, found, wanted):
        np.testing.assert_array_equal(found, wanted)

    def test_closing_a_running_model(self):
        model = small()
        lib, destroyed = model._lib, []
        destroy = lib.raw.rvit_session_destroy
        with mock.patch.object(
            lib.raw, "rvit_session_destroy", lambda pointer: (destroyed.append(pointer.value), destroy(pointer))
        ):
            wanted = model.classify(IMAGES, Policy("l2", blocks=[0]), features=True)
            run = lib.rvit_session_run

            def closing(session, *arguments):
                support.in_threads(model.close)
                self.assertEqual(destroyed, [])
                return run(session, *arguments)

            with mock.patch.object(lib, "rvit_session_run", closing):
                found = model.classify(IMAGES, Policy("l2", blocks=[0]), features=True)
        np.testing.assert_array_equal(found.features, wanted.features)
        self.assertEqual(len(destroyed), 1)

    def test_threads_and_close(self):
        seen = []

        def until_closed(work):
            with self.assertRaisesRegex(RaggedVitError, "the model is closed"):
                while True:
                    seen.append(work())

        for turn in range(6):
            model = small()
            works = self.works(model)

            def close():
                time.sleep(0.01 * turn)
                model.close()

            del works["slots"]  # only one thread at a time may use a slot
            support.in_threads(
                close, *[lambda work=work: until_closed(work) for work in works.values() for _ in range(2)]
            )
            slot = model._slots.pop()
            del model, works
        self.assertGreater(len(seen), 10)
        del slot

    def test_use_after_close(self):
        model = small()
        slot, by_patches = model.prepare(inputs="slot", max_images=4), model.prepare(inputs="patches")
        place, memory, mapped = slot.add(40, 60), slot.memory, model.prepare().map([IMAGES, IMAGES])
        next(mapped)
        model.close()
        for work in (
            slot.start,
            lambda: by_patches(ROWS[:16], GRIDS[:1]),
            lambda: next(mapped),
            lambda: model.prepare(inputs="patches"),
            lambda: model.prepare(inputs="slot"),
            lambda: model._update(None),
        ):
            with self.assertRaisesRegex(RaggedVitError, "the model is closed") as raised:
                work()
            self.assertEqual(raised.exception.status, Status.INVALID_ARGUMENT)
        del model, slot, by_patches
        memory[:] = 7
        self.assertTrue((place == 7).all())

    def test_interpreter_exit_with_running_threads(self):
        code = (
            "import atexit, sys, threading, numpy as np\n"
            "x = np.zeros((4, 3, 64, 64), np.float32)\n"
            "atexit.register(lambda: print(m.classify(x).logits.shape))\n"  # runs after the package's own exit handlers
            "import raggedvit\n"
            "m = raggedvit.Model(sys.argv[1], device='cpu', n_threads=2)\n"
            "def work():\n"
            "    while True: m.classify(x, raggedvit.Policy('l2', keep=.5, blocks=[0]))\n"
            "m.classify(x)\n"
            "for _ in range(int(sys.argv[2])): threading.Thread(target=work, daemon=True).start()\n"
        )
        environment = dict(os.environ, PYTHONPATH=str(support.ROOT / "python"))
        for threads in (0, 3, 3, 3):
            run = subprocess.run(
                [sys.executable, "-c", code, self.path, str(threads)],
                env=environment,
                capture_output=True,
                text=True,
                timeout=60,
            )
            self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "(4, 10)\n", ""))

    def test_forked_child(self):
        model, prepared = small(), raggedvit.images.prepare
        by_patches, slot = model.prepare(inputs="patches"), model.prepare(inputs="slot", max_images=4)
        wanted = (
            model.classify(RAW_IMAGES).logits,
            prepared(model.recipe, RAW_IMAGES),
            by_patches(ROWS[:16], GRIDS[:1]).logits,
        )
        session = next(iter(model._sessions))
        with contextlib.ExitStack() as held:
            # A lock that another thread holds is never released in the child.
            locks = [
                model._sessions.lock,
                model._lock,
                session.lock,
                by_patches.lock,
                slot.lock,
                raggedvit.images.workers._lock,
                staging.copiers._lock,
            ]
            taken, done = threading.Event(), threading.Event()

            def holder():
                for lock in locks:
                    held.enter_context(lock)
                taken.set()
                done.wait()
                held.close()

            thread = threading.Thread(target=holder)
            thread.start()
            taken.wait()
            works = {
                "prepare": lambda: prepared(model.recipe, RAW_IMAGES).tobytes() == wanted[1].tobytes(),
                "classify": lambda: model.classify(RAW_IMAGES).logits.tobytes() == wanted[0].tobytes(),
                "a model of its own": lambda: small().classify(RAW_IMAGES).logits.tobytes() == wanted[0].tobytes(),
                "patches": lambda: by_patches(ROWS[:16], GRIDS[:1]).logits.tobytes() == wanted[2].tobytes(),
            }
            if importlib.util.find_spec("PIL"):
                works["files"] = lambda: len(model.classify([support.DATA / "chelsea.png"] * 2).logits) == 2
            try:
                for name, work in works.items():
                    with self.subTest(name):
                        self.assertTrue(child(work))
            finally:
                done.set()
                thread.join()


if __name__ == "__main__":
    unittest.main()
