"""Makes the functions in C work under torch.compile.

Dynamo cannot trace them, so each gets a Python substitute that calls the operators. The substitutes are registered as
soon as torch._dynamo is imported, which `import torch` does not do."""

from __future__ import annotations

import importlib.machinery
import sys
from typing import Any

from .._c.errors import RaggedVitError


def _register() -> None:
    try:
        from . import substitutes  # noqa: F401
    except RaggedVitError:
        pass  # no library: the first call raises the error, not this import of PyTorch


class _Dynamo:
    """An import hook that finds no modules, but detects the import of torch._dynamo."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch._dynamo":
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def and_register(module: Any) -> None:
            run(module)
            _register()

        spec.loader.exec_module = and_register  # type: ignore[method-assign]
        return spec


def watch() -> None:
    if "torch._dynamo" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _Dynamo())  # type: ignore[arg-type]
