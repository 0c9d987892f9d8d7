"""Checks of arguments. Each takes the name and the value of an argument and returns the value to use.

Otherwise it raises INVALID_ARGUMENT. So no integer wraps, no float changes its value, and no string is cut at a NUL
byte."""

from __future__ import annotations

import ctypes
import itertools
import math
import operator
import os
import reprlib
from typing import Any, Callable

from .errors import invalid

INT32_MAX, UINT64_MAX = 2**31 - 1, 2**64 - 1

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 80


def shown(value: Any) -> str:
    """Returns a value as one short line for an error message."""
    if isinstance(value, int) and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    try:
        return " ".join(_short.repr(value).split())
    except Exception:  # the caller's __repr__ fails, or an integer has more digits than Python prints
        return f"a {type(value).__name__}"


def integer(argument: str, value: Any, low: int, high: int) -> int:
    try:
        found = operator.index(value)
    except TypeError:
        found = low - 1
    if not low <= found <= high:
        raise invalid(f"{argument} is {shown(value)}; expected an integer from {low} to {high}")
    return found


def number(argument: str, value: Any, low: float = -math.inf) -> float:
    """Returns a float that is not NaN and at least `low`."""
    kind = type(value)
    try:  # float() would also read a string
        found = float(value) if hasattr(kind, "__float__") or hasattr(kind, "__index__") else math.nan
    except (TypeError, ValueError, OverflowError, RuntimeError):
        found = math.nan
    if not found >= low:
        raise invalid(
            f"{argument} is {shown(value)}; expected {'a number' if low == -math.inf else f'a number, {low:g} or more'}"
        )
    return found


def float32(argument: str, value: Any) -> float:
    """Returns a number that float32 can hold without becoming 0 or infinite."""
    found = number(argument, value)
    stored = ctypes.c_float(found).value
    if (stored == 0) != (found == 0) or math.isinf(stored) != math.isinf(found):
        raise invalid(f"{argument} is {shown(value)}; expected a number in the range of float32")
    return found


def flag(argument: str, value: Any) -> bool:
    found = value.item() if getattr(value, "shape", None) == () else value  # converts a numpy bool
    if not isinstance(found, int) or found not in (0, 1):
        raise invalid(f"{argument} is {shown(value)}; expected True or False")
    return bool(found)


def choice(argument: str, value: Any, table: dict[str, int]) -> int:
    if not isinstance(value, str) or value not in table:
        raise invalid(f"{argument} is {shown(value)}; expected one of {', '.join(table)}")
    return table[value]


def entries(argument: str, value: Any, most: int, check: Callable[[str, Any], Any]) -> list[Any]:
    """Returns the checked entries of an iterable."""
    try:
        found = None if isinstance(value, (str, bytes)) else list(itertools.islice(iter(value), most + 1))
    except TypeError:
        found = None
    if found is None or len(found) > most:
        raise invalid(f"{argument} is {shown(value)}; expected a sequence, of {most} entries at most")
    return [check(f"{argument}[{i}]", entry) for i, entry in enumerate(found)]


def integers(argument: str, value: Any, most: int, low: int, high: int) -> tuple[int, ...]:
    if type(value) is tuple and len(value) <= most and all(type(n) is int and low <= n <= high for n in value):
        return value  # the common case
    return tuple(entries(argument, value, most, lambda name, entry: integer(name, entry, low, high)))


def without_nul(argument: str, value: bytes) -> bytes:
    if b"\0" in value:
        raise invalid(f"{argument} is {shown(value)}; a NUL byte would end it there")
    return value


def text(argument: str, value: Any) -> str:
    if not isinstance(value, str):
        raise invalid(f"{argument} is {shown(value)}; expected a string")
    try:
        without_nul(argument, value.encode())
    except UnicodeEncodeError as error:
        raise invalid(f"{argument} is {shown(value)}; expected a string that UTF-8 can encode") from error
    return value


def path(argument: str, value: Any) -> bytes:
    try:
        return without_nul(argument, os.fsencode(value))
    except (TypeError, UnicodeEncodeError) as error:
        raise invalid(
            f"{argument} is {shown(value)}; expected a path: a string that can be encoded, bytes or os.PathLike"
        ) from error


def optional(check: Callable[..., Any], argument: str, value: Any, *limits: Any) -> Any:
    """Checks a value unless it is None, which means a default."""
    return None if value is None else check(argument, value, *limits)
