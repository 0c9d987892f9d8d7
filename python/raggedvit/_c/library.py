"""Finds and opens the shared library, calls its functions, raises its errors, and owns its objects."""

from __future__ import annotations

import ctypes
import os
import pathlib
import sys
import weakref
from typing import Any, NoReturn

from . import checks
from .constants import CONSTANTS
from .errors import RaggedVitError, Status
from .layouts import FUNCTIONS, new
from .structs import check_of


class Library:
    """Has the library's functions as attributes. Those that return a rvit_status raise RaggedVitError on failure.

    `raw` has the unchecked functions, for hot paths.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(checks.path("the library's path (RAGGEDVIT_LIBRARY)", path))
        try:
            self.raw = ctypes.CDLL(self.path)
            self.raw.rvit_version.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise RaggedVitError(
                Status.UNAVAILABLE,
                f"{self.path} cannot be used as libraggedvit: {error}; RAGGEDVIT_LIBRARY names another",
            ) from error
        wanted = tuple(CONSTANTS[f"RVIT_VERSION_{part}"] for part in ("MAJOR", "MINOR"))
        found = self.version()
        if tuple(int(part) for part in found.split(".")[:2]) != wanted:
            raise RaggedVitError(
                Status.UNAVAILABLE, f"{self.path} is version {found}, this package is for {wanted[0]}.{wanted[1]}"
            )
        for name, (result, arguments, _) in FUNCTIONS.items():
            function = getattr(self.raw, name, None)  # None: a build without CUDA lacks the functions of cuda.h
            if function is not None:
                function.restype, function.argtypes = result, arguments

    def version(self) -> str:
        return str(self.raw.rvit_version().decode())

    def check(self, status: int) -> None:
        """Raises a status other than RVIT_OK. Call it in the thread of the failed call, before the next call."""
        if status:
            raise RaggedVitError(status, self.raw.rvit_status_detail().decode(errors="replace"))

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(name)
        function = getattr(self.raw, name, None)
        if function is None:
            raise RaggedVitError(Status.UNAVAILABLE, f"{self.path} was built without {name}")

        _, kinds, is_status = FUNCTIONS[name]
        checks = [(f"argument {i + 1} of {name}", check_of(kind)) for i, kind in enumerate(kinds)]

        def call(*arguments: Any) -> Any:
            result = function(*(check(argument, value) for (argument, check), value in zip(checks, arguments)))
            return self.check(result) if is_status else result

        setattr(self, name, call)
        return call

    def make(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        """Calls a function and returns its last argument, an out-parameter of pointer type."""
        out = ctypes.c_void_p()
        getattr(self, name)(*arguments, ctypes.byref(out))
        return out

    def own(self, kind: str, *arguments: Any, create: str | None = None, keeps: tuple[Any, ...] = ()) -> Handle:
        """Calls rvit_<kind>_create, or the function `create`, and returns an object that owns the result."""
        pointer = self.make(create or f"rvit_{kind}_create", *arguments)
        return Handle(pointer, getattr(self.raw, f"rvit_{kind}_destroy"), keeps)

    def wrap(self, device: Handle, address: int, size: int, cuda: bool = True) -> Handle:
        """Returns a buffer on caller-owned memory: of CUDA, or of the host."""
        kind = CONSTANTS["RVIT_MEMORY_CUDA" if cuda else "RVIT_MEMORY_HOST"]
        memory = new("rvit_memory_desc", type=kind, address=address, size=size)
        return self.own("buffer", device, ctypes.byref(memory), create="rvit_buffer_wrap", keeps=(device,))

    def address(self, buffer: Handle) -> int:
        """Returns the address of a buffer of a CUDA or CPU device."""
        found = ctypes.c_uint64()
        self.rvit_buffer_handle(buffer, ctypes.byref(found), None)
        return found.value


def refuse_copy(what: str) -> NoReturn:
    raise RaggedVitError(
        Status.UNSUPPORTED,
        f"{what} is memory and work of a device, which cannot be pickled or copied; make another one in "
        "the process that uses it",
    )


class Handle:
    """An object of the library, which ctypes passes as a pointer.

    It is destroyed when nothing refers to it any more. Every user holds a reference, so no thread can destroy an object
    that another uses. `keeps` are freed after it.
    """

    def __init__(self, pointer: ctypes.c_void_p, destroy: Any, keeps: tuple[Any, ...] = ()) -> None:
        self.pointer = self._as_parameter_ = pointer
        # The finalizer holds keeps, so that they outlive destroy even if all become garbage in one cycle.
        end = weakref.finalize(self, Handle._end, os.getpid(), destroy, pointer, keeps)
        end.atexit = False  # at exit other threads and objects may still use it; the process frees it

    @staticmethod
    def _end(process: int, destroy: Any, pointer: ctypes.c_void_p, keeps: tuple[Any, ...]) -> None:
        # A forked child must not destroy the parent's objects: a driver would wait for threads that do not exist there.
        if process == os.getpid():
            destroy(pointer)

    def __reduce__(self) -> Any:
        refuse_copy("an object of the library's")


#: The library's file, by version; cmake/python_package.cmake installs it by this name.
NAMES = {"darwin": "libraggedvit.{}.{}.dylib", "win32": "raggedvit.dll"}

_library: Library | None = None


def find() -> str:
    """Returns the file that RAGGEDVIT_LIBRARY names; else the one inside this package, else the system's."""
    named = os.environ.get("RAGGEDVIT_LIBRARY")
    if named:
        return named
    name = NAMES.get(sys.platform, "libraggedvit.so.{}.{}").format(
        CONSTANTS["RVIT_VERSION_MAJOR"], CONSTANTS["RVIT_VERSION_MINOR"]
    )
    beside = pathlib.Path(__file__).resolve().parent.parent / name
    return str(beside) if beside.exists() else name


def library() -> Library:
    """Returns the library, and opens it on first use. The error UNAVAILABLE lists the files that were tried."""
    global _library
    if _library is None:
        # No lock, because a fork could leave it held. If two threads open the library, one of the objects is kept.
        found = Library(find())
        if _library is None:
            _library = found
    return _library


def cuda_driver() -> ctypes.CDLL:
    """Opens the CUDA driver. OSError: there is none."""
    return ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
