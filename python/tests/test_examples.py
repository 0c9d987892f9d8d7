"""Runs the examples that need only numpy. Each checks its own result."""

import os
import pathlib
import subprocess
import sys
import unittest

import support
import raggedvit


class ExamplesTest(unittest.TestCase):
    def test_several_devices(self):
        environment = {**os.environ, "PYTHONPATH": str(pathlib.Path(raggedvit.__file__).parents[1])}
        run = subprocess.run(
            [sys.executable, support.ROOT / "examples" / "several_devices.py", "cpu", "2"],
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=300,
        )
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertRegex(run.stdout, r"^1 cpu device: [0-9.]+ images/s; 2: .*; logits equal$")


if __name__ == "__main__":
    unittest.main()
