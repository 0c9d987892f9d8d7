"""Tests that tools/rooms.py finds cycles and forbidden includes, and reports nothing else."""
import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import rooms  # noqa: E402


class RoomsTest(unittest.TestCase):
    def check(self, files, *expected):
        """Compares the lines that rooms.py prints for these files, except the last, with the expected ones."""
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = pathlib.Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            out = io.StringIO()
            with mock.patch.object(rooms, "ROOT", pathlib.Path(folder)), mock.patch.object(sys, "argv", ["rooms.py"]):
                with contextlib.redirect_stdout(out):
                    code = rooms.main()
        self.assertEqual([line.strip() for line in out.getvalue().splitlines()[:-1]], list(expected))
        self.assertEqual(code, 1 if expected else 0)

    HEADER = "int a(int x);\nint b(int x);\nextern const int table[2], other;\n"
    A = '#include "both.h"\nint a(int x)\n{\n    return b(x);\n}\n'
    B = '#include "both.h"\nint b(int x)\n{\n    return %s;\n}\n'

    def test_calls(self):
        self.check({"core/both.h": self.HEADER, "core/a.c": self.A, "core/b.c": self.B % "a(x)"},
                   "cycle of 2:", "core/a -> core/b: b", "core/b -> core/a: a")

    def test_includes_and_variables(self):
        self.check({"core/both.h": self.HEADER, "core/a.h": '#include "core/b.h"\n', "core/b.h": "",
                    "core/a.c": '#include "both.h"\nconst int other = 2;\n', "core/b.c": self.B % "other"},
                   "cycle of 2:", "core/a -> core/b: includes core/b.h", "core/b -> core/a: other")

    def test_macros(self):
        self.check({"core/both.h": self.HEADER + "#define TWICE(x) \\\n    a(a(x))\n", "core/a.c": self.A,
                    "core/b.c": self.B % "TWICE(x)"},
                   "cycle of 2:", "core/a -> core/b: b", "core/b -> core/a: a")

    def test_x_macros(self):
        rows = '#define OP(name) %sop_##name(%sx);\n#include "ops.def"\n'
        self.check({"core/ops.def": "OP(one)\nOP(two)\n", "core/all.h": rows % ("void ", "int ") + "void run(int x);\n",
                    "core/run.c": '#include "all.h"\nvoid run(int x)\n{\n' + rows % ("", "") + "}\n",
                    "core/two.c": '#include "all.h"\nvoid op_two(int x)\n{\n    run(x);\n}\n'},
                   "cycle of 2:", "core/run -> core/two: op_two", "core/two -> core/run: run")

    def test_no_cycles(self):
        self.check({"core/both.h": self.HEADER, "core/a.c": self.A,
                    "core/b.c": "/* a(x) */" + self.B % 'puts("a(x)") + /* a(x) */ self->a + self.a(x)',
                    "core/c.c": "static int a(int x)\n{\n    return x;\n}\nint c(int x)\n{\n    return a(x);\n}\n",
                    "core/d.c": "int b(int x)\n{\n    return 0;\n}\n"})

    def test_imports(self):
        self.check({"python/p/__init__.py": "from ._a import A\n", "python/p/_a.py": "def f():\n    from . import _b\n",
                    "python/p/_b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ._a import A\n"},
                   "cycle of 2:", "python/p/_a.py -> python/p/_b.py: includes python/p/_b.py",
                   "python/p/_b.py -> python/p/_a.py: includes python/p/_a.py")
        self.check({"python/p/__init__.py": "", "python/p/_a.py": "import torch\n", "python/p/torch.py": "from ._a import A\n"})

    def test_rooms(self):
        self.check({"core/session/s.h": "", "core/contract/c.h": '\n#include "core/base/b.h"\n', "core/base/b.h": "", "tests/t.h": "",
                    "backend_cpu/x.c": '#include <stdio.h>\n#include "core/contract/c.h"\n#include "core/base/b.h"\n'
                                       '\n#include "core/session/s.h"\n',
                    "core/base/y.c": '#include "tests/t.h"\n'},
                   "backend_cpu/x.c:5: backend_cpu may not include core/session/s.h",
                   "core/base/y.c:1: core/base may not include tests/t.h")

    def test_diagram(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rooms.svg")
            files = [("top", 10), ("middle", 20), ("low", 30), ("low", 5)]
            ties = {("top", "middle"), ("middle", "low"), ("top", "low"), ("low", "top")}
            rooms.rooms_diagram.draw(files, ties, {"top": {"middle", "low"}, "middle": {"low"}, "low": set()}, str(path))
            text = path.read_text()
        self.assertEqual(text.count('class="head"'), 2)  # top needs no arrow to low
        self.assertEqual(text.count('class="wrong"'), 1)
        self.assertIn("2 files, 35 lines", text)


if __name__ == "__main__":
    unittest.main()
