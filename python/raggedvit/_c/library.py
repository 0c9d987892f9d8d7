"""The shared library: where it is found, its functions, its errors, and the ownership of its objects."""

from __future__ import annotations

import ctypes
import os
import pathlib
import weakref
from typing import Any, NoReturn

from . import checks
from .constants import CONSTANTS
from .errors import RaggedVitError, Status
from .layouts import FUNCTIONS
from .structs import check_of


class Library:
    """Functions as attributes: those that return a rvit_status raise RaggedVitError on a failure. `raw` holds them as they are, for hot
    paths."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fsdecode(checks.path("the library's path (RAGGEDVIT_LIBRARY)", path))
        try:
            self.raw = ctypes.CDLL(self.path)
            self.raw.rvit_version.restype = ctypes.c_char_p
        except (OSError, AttributeError) as error:
            raise RaggedVitError(Status.UNAVAILABLE, f"{self.path} cannot be used as libraggedvit: {error}; RAGGEDVIT_LIBRARY names another") from error
        wanted = tuple(CONSTANTS[f"RVIT_VERSION_{part}"] for part in ("MAJOR", "MINOR"))
        found = self.version()
        if tuple(int(part) for part in found.split(".")[:2]) != wanted:
            raise RaggedVitError(Status.UNAVAILABLE, f"{self.path} is version {found}, this package is for {wanted[0]}.{wanted[1]}")
        for name, (result, arguments, _) in FUNCTIONS.items():
            function = getattr(self.raw, name, None)  # cuda.h's are missing from a build without the backend
            if function is not None:
                function.restype, function.argtypes = result, arguments

    def version(self) -> str:
        return str(self.raw.rvit_version().decode())

    def check(self, status: int) -> None:
        """Raises what a status other than RVIT_OK stands for. In the thread of the failed call, before its next one."""
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
        """What a function leaves in its last argument, an out-parameter of pointer type."""
        out = ctypes.c_void_p()
        getattr(self, name)(*arguments, ctypes.byref(out))
        return out

    def own(self, kind: str, *arguments: Any, create: str | None = None, keeps: tuple[Any, ...] = ()) -> Handle:
        """rvit_<kind>_create, or the function `create`, as an object that is destroyed when nothing refers to it any more."""
        pointer = self.make(create or f"rvit_{kind}_create", *arguments)
        return Handle(pointer, getattr(self.raw, f"rvit_{kind}_destroy"), keeps)


def refuse_copy(what: str) -> NoReturn:
    raise RaggedVitError(Status.UNSUPPORTED, f"{what} is memory and work of a device, which cannot be pickled or copied; make another one, in "
                         "the process that uses it")


class Handle:
    """An object of the library's; ctypes passes it as its pointer. It is destroyed once nothing refers to it, and in no other way: whoever
    uses one refers to it, in a frame or an object, and so no thread can take it from another. `keeps` are freed after it."""

    def __init__(self, pointer: ctypes.c_void_p, destroy: Any, keeps: tuple[Any, ...] = ()) -> None:
        self.pointer = self._as_parameter_ = pointer
        # The finalizer holds keeps: they outlive the call of destroy even when all of it becomes garbage in one cycle.
        end = weakref.finalize(self, Handle._end, os.getpid(), destroy, pointer, keeps)
        end.atexit = False  # threads that do not end with the interpreter may still use it, and so may what ends after this: the process frees it

    @staticmethod
    def _end(process: int, destroy: Any, pointer: ctypes.c_void_p, keeps: tuple[Any, ...]) -> None:
        # A child of a fork ends, too, and must leave the parent's objects alone: a driver would wait for threads that are not there.
        if process == os.getpid():
            destroy(pointer)

    def __reduce__(self) -> Any:
        refuse_copy("an object of the library's")


_library: Library | None = None


def find() -> str:
    """The file that RAGGEDVIT_LIBRARY names alone; else the one inside this package, else the system's."""
    named = os.environ.get("RAGGEDVIT_LIBRARY")
    if named:
        return named
    beside = pathlib.Path(__file__).resolve().parent.parent / "libraggedvit.so.0"
    return str(beside) if beside.exists() else "libraggedvit.so.0"


def library() -> Library:
    """The library, opened on first use. UNAVAILABLE says what was tried."""
    global _library
    if _library is None:
        found = Library(find())  # no lock, which a fork could leave held: of two threads that come at once one keeps what the other opened
        if _library is None:
            _library = found
    return _library
