"""ctypes types that check their values. ctypes itself truncates an integer to its width."""

from __future__ import annotations

import functools
from ctypes import Array, Structure, c_char, c_void_p, sizeof
from typing import Any, Callable

from .checks import entries, float32, integer, number, shown, without_nul
from .errors import invalid

Check = Callable[[str, Any], Any]


def _integers(kind: Any) -> Check:
    bits, signed = 8 * sizeof(kind), kind(-1).value < 0
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)

    def check(argument: str, value: Any) -> int:
        return value if type(value) is int and low <= value <= high else integer(argument, value, low, high)

    return check


_address = _integers(c_void_p)


def _pointer(argument: str, value: Any) -> Any:
    return _address(argument, value) if isinstance(value, int) else value


def _bytes(argument: str, value: Any) -> Any:
    return without_nul(argument, value) if isinstance(value, bytes) else value


def _instances(kind: Any) -> Check:
    def check(argument: str, value: Any) -> Any:
        if not isinstance(value, kind):
            raise invalid(f"{argument} is {shown(value)}; expected a {kind.__name__}")
        return value

    return check


def _arrays(kind: Any) -> Check:
    return lambda argument, value: kind(*entries(argument, value, kind._length_, check_of(kind._type_)))


@functools.lru_cache(maxsize=None)
def check_of(kind: Any) -> Check:
    """Returns the check of values for a ctypes type. For pointers and bytes, ctypes itself checks."""
    if issubclass(kind, Structure):
        return _instances(kind)
    if issubclass(kind, Array):
        return _bytes if kind._type_ is c_char else _arrays(kind)
    return {"f": float32, "d": number, "z": _bytes, "P": _pointer}.get(kind._type_) or _integers(kind)


class Struct(Structure):
    """A struct that accepts only values that fit. An array field takes a sequence and fills the rest with zeros."""

    _checks: dict[str, Check]

    def __init_subclass__(cls) -> None:
        cls._checks = {name: check_of(kind) for name, kind in cls._fields_}

    def __setattr__(self, field: str, value: Any, _store: Any = Structure.__setattr__) -> None:
        check = self._checks.get(field)
        if check is None:
            raise AttributeError(f"{type(self).__name__} has no field {field}")
        _store(self, field, check(field, value))


class _Entries:
    def __setitem__(self, index: Any, value: Any) -> None:
        check: Any = check_of(self._type_)  # type: ignore[attr-defined]
        name = f"an entry of {type(self).__name__}"
        checked = [check(name, v) for v in value] if isinstance(index, slice) else check(name, value)
        super().__setitem__(index, checked)  # type: ignore[misc]


def array(kind: Any, n: int) -> Any:
    """Returns an array type, kind * n, with entries that accept only values that fit."""
    return type(Array)(f"{kind.__name__}_{n}", (_Entries, Array), {"_type_": kind, "_length_": n})


def fill(struct: Any, values: dict[str, Any]) -> None:
    for field, value in values.items():
        if isinstance(value, dict):
            fill(getattr(struct, field), value)
        else:
            setattr(struct, field, value)
