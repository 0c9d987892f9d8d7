"""User code (typed_user.py) passes mypy --strict with the package's types."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import support  # noqa: F401, finds the package
import raggedvit


class TypingTest(unittest.TestCase):
    def test_typed_user(self):
        if subprocess.run([sys.executable, "-c", "import mypy"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no mypy here (python/run_tests.sh --torch has it)")
        user = pathlib.Path(__file__).with_name("typed_user.py")
        with tempfile.TemporaryDirectory() as cache:
            # As with an installed package, errors in its own files are ignored. Without PyTorch its tensors have any
            # type.
            run = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "mypy",
                    "--strict",
                    "--follow-imports=silent",
                    "--ignore-missing-imports",
                    "--cache-dir",
                    cache,
                    str(user),
                ],
                env={**os.environ, "MYPYPATH": str(pathlib.Path(raggedvit.__file__).parents[1])},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        self.assertEqual(run.returncode, 0, run.stdout)


if __name__ == "__main__":
    unittest.main()
