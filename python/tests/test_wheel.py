"""The result of pip install: the package finds the library inside it."""

import email
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support
import raggedvit

BUILD = (
    pathlib.Path(os.environ["RAGGEDVIT_LIBRARY"]).resolve().parent
    if "RAGGEDVIT_LIBRARY" in os.environ
    else pathlib.Path("/nowhere")
)
CODE = "import raggedvit; from raggedvit._c.library import library; raggedvit.devices(); print(library().path)"


def run(*words, **options):
    """Returns a program's output; a failure shows it."""
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode:
        raise AssertionError(f"{words} ends with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


@unittest.skipUnless((support.ROOT / "pyproject.toml").exists(), "this is not the source tree")
class WheelTest(unittest.TestCase):
    def check_installed(self, site):
        run("sh", support.ROOT / "tests" / "check_runpath.sh", site)
        environment = {k: v for k, v in os.environ.items() if k != "RAGGEDVIT_LIBRARY"}
        environment["PYTHONPATH"] = str(site)
        out = run(sys.executable, "-c", CODE, env=environment, cwd=site)
        self.assertEqual(out.splitlines()[-1], str(site / "raggedvit" / "libraggedvit.so.0.4"))

    def test_version(self):
        cmake = (support.ROOT / "CMakeLists.txt").read_text()
        self.assertEqual(raggedvit.__version__, re.search(r"project\(raggedvit VERSION ([0-9.]+)", cmake)[1])
        # This must also work without the library.
        code = "import raggedvit; print(raggedvit.__version__)"
        environment = {
            **os.environ,
            "RAGGEDVIT_LIBRARY": "/nowhere",
            "PYTHONPATH": str(pathlib.Path(raggedvit.__file__).parents[1]),
        }
        self.assertEqual(run(sys.executable, "-c", code, env=environment).strip(), raggedvit.__version__)

    @unittest.skipUnless(
        shutil.which("cmake") and (BUILD / "CMakeCache.txt").exists(),
        "the library is not in a build folder, or cmake is not installed",
    )
    def test_component(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder).resolve()
            run("cmake", "--install", BUILD, "--component", "python", "--prefix", site)
            shutil.copytree(pathlib.Path(raggedvit.__file__).parent, site / "raggedvit", dirs_exist_ok=True)
            self.check_installed(site)

    def test_pip_wheel(self):
        try:
            import pip  # noqa: F401
            import scikit_build_core  # noqa: F401
        except ImportError as reason:
            self.skipTest(f"{reason} (python/run_tests.sh --torch has it)")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder).resolve()
            # Builds from the source distribution, which has only some files, with or without Triton's libraries.
            code = f"from scikit_build_core.build import build_sdist; print(build_sdist({os.fspath(folder)!r}))"
            source = folder / run(sys.executable, "-c", code, cwd=support.ROOT).splitlines()[-1]
            run(
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "--no-deps",
                "--no-build-isolation",
                "--wheel-dir",
                folder,
                source,
                "--config-settings=cmake.define.RVIT_VULKAN=OFF",
                "--config-settings=cmake.define.RVIT_CUDA=OFF",
            )
            (wheel,) = folder.glob("*.whl")
            self.assertRegex(wheel.name, rf"^raggedvit-{re.escape(raggedvit.__version__)}-cp310-abi3-linux_\w+\.whl$")
            with zipfile.ZipFile(wheel) as archive:
                names = archive.namelist()
                metadata = email.message_from_bytes(
                    archive.read(next(n for n in names if n.endswith(".dist-info/METADATA")))
                )
                archive.extractall(folder / "site")
            self.assertEqual(
                (metadata["Name"], metadata["License-Expression"], metadata["Requires-Python"]),
                ("raggedvit", "Apache-2.0 AND MIT", ">=3.10"),
            )
            inside = {n.split("/", 1)[1] for n in names if n.startswith("raggedvit/")}
            source = pathlib.Path(raggedvit.__file__).parent
            modules = {
                str(path.relative_to(source)) for path in source.rglob("*") if path.suffix in (".py", ".pyi", ".typed")
            }
            self.assertEqual({n for n in inside if not n.endswith(".so")} - {"libraggedvit.so.0.4"}, modules)
            self.assertIn("libraggedvit.so.0.4", inside)
            self.assertTrue(
                all(
                    any(n.endswith(f"dist-info/licenses/{file}") for n in names)
                    for file in ("LICENSE", "python/licenses/volk.txt")
                )
            )
            self.check_installed(folder / "site")


if __name__ == "__main__":
    unittest.main()
