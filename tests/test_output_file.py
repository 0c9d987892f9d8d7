"""Tests tools/output_file.py: files are complete or absent, and replace only regular files."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
from output_file import output_file  # noqa: E402


class OutputFileTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name):
        with output_file(self.folder / name) as temporary:
            pathlib.Path(temporary).write_text("new")

    def only(self, *names):
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(names))

    def test_modes(self):
        self.addCleanup(os.umask, os.umask(0o027))
        self.write("new")
        (self.folder / "old").write_text("old")
        (self.folder / "old").chmod(0o400)
        self.write("old")
        self.assertEqual([(self.folder / name).stat().st_mode & 0o777 for name in ("new", "old")], [0o640, 0o400])
        self.assertEqual((self.folder / "old").read_text(), "new")
        self.only("new", "old")

    def test_other_files_are_not_replaced(self):
        (self.folder / "kept").write_text("kept")
        (self.folder / "link").symlink_to("kept")
        (self.folder / "lost").symlink_to("nowhere")
        os.mkfifo(self.folder / "pipe")
        for name in ("link", "lost", "pipe"):
            with self.assertRaisesRegex(OSError, f"is not a regular file.*{name}"):
                self.write(name)
        self.assertEqual((self.folder / "kept").read_text(), "kept")
        self.only("kept", "link", "lost", "pipe")

    def test_failures_leave_nothing(self):
        (self.folder / "old").write_text("old")
        with self.assertRaises(KeyboardInterrupt), output_file(self.folder / "old") as temporary:
            pathlib.Path(temporary).write_text("half")
            raise KeyboardInterrupt
        code = "import sys; from output_file import output_file\nwith output_file(sys.argv[1]): print(flush=True); sys.stdin.read()"
        with subprocess.Popen([sys.executable, "-c", code, self.folder / "old"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              env={**os.environ, "PYTHONPATH": sys.path[0]}) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGTERM)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertEqual((self.folder / "old").read_text(), "old")
        self.only("old")


if __name__ == "__main__":
    unittest.main()
