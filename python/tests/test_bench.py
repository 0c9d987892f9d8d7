"""Checks that the names of this package that bench/baselines uses exist. bench/baselines itself needs a GPU."""

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
        # Every attribute or string rvit_... in the code must be a name of the C library.
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
