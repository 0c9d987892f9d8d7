"""bench/baselines needs PyTorch and a GPU. This test only looks up the names that it uses of this package."""

import ast
import importlib
import unittest

import support
from raggedvit._c.layouts import FUNCTIONS, TYPES

FILES = sorted((support.ROOT / "bench" / "baselines").glob("*.py"))


@unittest.skipUnless(FILES, "this is not the source tree")
class Names(unittest.TestCase):
    def test_imports(self):
        seen = 0
        for path in FILES:
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[0] != "raggedvit":
                    continue
                module = importlib.import_module(node.module)
                for name in node.names:
                    with self.subTest(file=path.name, name=f"{node.module}.{name.name}"):
                        self.assertTrue(hasattr(module, name.name))
                        seen += 1
        self.assertGreater(seen, 4)

    def test_functions_and_structs(self):
        # Whatever is written rvit_... in the code, as an attribute or a string, is of the C library's.
        known, seen = FUNCTIONS.keys() | TYPES.keys() | {"rvit_version", "rvit_status_detail"}, 0
        for path in FILES:
            for node in ast.walk(ast.parse(path.read_text())):
                name = getattr(node, "attr", None) or getattr(node, "value", None)
                if isinstance(name, str) and name.isidentifier() and name.startswith("rvit_") and "bench" not in name:
                    with self.subTest(file=path.name, name=name):
                        self.assertIn(name, known)
                        seen += 1
        self.assertGreater(seen, 20)


if __name__ == "__main__":
    unittest.main()
