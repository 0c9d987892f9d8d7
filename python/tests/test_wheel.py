"""A wheel packed from the library under test, installed into an empty folder, works without being told where the library is."""

import base64
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

import support


@unittest.skipUnless(shutil.which("objdump") and shutil.which("dpkg-query"), "objdump or dpkg-query is not here")
class WheelTest(unittest.TestCase):
    def test_wheel(self):
        spec = importlib.util.spec_from_file_location("pack_wheel", support.ROOT / "python" / "pack_wheel.py")
        pack_wheel = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(pack_wheel)
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            try:
                wheel = pack_wheel.pack(os.environ["RAGGEDVIT_LIBRARY"], folder)
            except pack_wheel.UnknownLicence as reason:  # copied libraries, as where only binaries were brought
                self.skipTest(reason.code)
            self.assertRegex(wheel.name, r"^raggedvit-\d+\.\d+\.\d+-py3-none-manylinux_2_\d+_\w+\.whl$")
            with zipfile.ZipFile(wheel) as archive:
                record = next(n for n in archive.namelist() if n.endswith("RECORD"))
                lines = archive.read(record).decode().splitlines()
                self.assertEqual([line.split(",")[0] for line in lines], archive.namelist())
                for line in lines[:-1]:
                    name, digest, size = line.split(",")
                    data = archive.read(name)
                    found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, int(size)), ("sha256=" + found, len(data)))
                archive.extractall(folder / "site")
            subprocess.run(["sh", support.ROOT / "tests" / "check_runpath.sh", folder / "site"], stdout=subprocess.DEVNULL, check=True)
            environment = {k: v for k, v in os.environ.items() if k != "RAGGEDVIT_LIBRARY"}
            environment["PYTHONPATH"] = str(folder / "site")
            code = "import raggedvit; from raggedvit._library import library; raggedvit.devices(); print(library().path)"
            out = subprocess.run([sys.executable, "-c", code], env=environment, cwd=folder, stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
            self.assertEqual(out.strip(), str(folder / "site" / "raggedvit" / "libraggedvit.so.0"))


if __name__ == "__main__":
    unittest.main()
