"""Loads the compiled core: the module _core of this package, or a file beside RAGGEDVIT_LIBRARY."""

from __future__ import annotations

import ctypes
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from typing import Any

import numpy as np

from .._c.errors import RaggedVitError, Status
from .._c.library import cuda_driver, library
from .arrays import DeviceArray

NAME = "raggedvit._core"
FILE = "_core.pyd" if sys.platform == "win32" else "_core.abi3.so"


def _import() -> Any:
    named = os.environ.get("RAGGEDVIT_LIBRARY")
    beside = pathlib.Path(named).parent / FILE if named else None
    if beside is not None and beside.exists():
        loader = importlib.machinery.ExtensionFileLoader(NAME, str(beside))
        spec = importlib.util.spec_from_loader(NAME, loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
        sys.modules[NAME] = module
        return module
    try:
        return importlib.import_module(NAME)
    except ImportError:
        return None


core = _import()
_opened = False


def ready() -> Any:
    """Returns the core, which looks up the library's functions on the first call."""
    global _opened
    if not _opened:
        if core is None:
            raise RaggedVitError(
                Status.UNAVAILABLE,
                f"the package has no compiled core (raggedvit/{FILE}): build the target "
                "raggedvit_python_core, or install a wheel",
            )
        core.open(library().raw._handle)  # by handle, so that the process loads one copy of the library
        _opened = True
    return core


def _torch_context(index: int) -> int:
    """Returns the CUcontext that PyTorch uses on a device."""
    torch = sys.modules["torch"]
    with torch.cuda.device(index):
        torch.zeros(1, device=f"cuda:{index}")  # creates the context and makes it current
        context = ctypes.c_void_p()
        cuda_driver().cuCtxGetCurrent(ctypes.byref(context))
    return context.value or 0


if core is not None:
    for _name, _object in (
        ("error", RaggedVitError),
        ("context", _torch_context),
        ("described", DeviceArray),
        ("numpy_array", np.ndarray),
        ("numpy_empty", np.empty),
    ):
        core.hook(_name, _object)
