"""Finds the functions that a call of a module runs, and whether they are the original ones of its library.

Other code may replace them on a class, on an instance or in PyTorch, or add hooks. A recorded forward would still
compute the original."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any, Iterator

LIBRARIES = ("torch", "timm", "transformers", "raggedvit")
# Hooks of these modules only observe: FlopCounterMode's, and those that transformers leaves after capturing outputs.
WATCHERS = ("torch.utils.module_tracker", "transformers.utils.output_capturing")


class Function:
    """A function, and the class or Python module (owner) in which it is looked up."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name, self.value = owner, name, getattr(owner, name)

    def foreign(self) -> str | None:
        return foreign_to(
            self.value, self.owner if isinstance(self.owner, type) and self.name != "__call__" else None, self.name
        )

    def __str__(self) -> str:
        owner = self.owner
        return (
            f"{owner.__module__}.{owner.__qualname__}.{self.name}"
            if isinstance(owner, type)
            else f"{owner.__name__}.{self.name}"
        )


def foreign_to(value: Any, cls: Any = None, name: str = "") -> str | None:
    """Describes a function that is not the library's (or, with cls, not its method `name` of cls); else None."""
    while True:
        home = _home(value)
        if home.partition(".")[0] not in LIBRARIES:
            return f"{home}.{getattr(value, '__qualname__', type(value).__qualname__)}"
        inner = vars(value).get("__wrapped__") if isinstance(value, types.FunctionType) else None
        if inner is None:
            break
        value = inner
    if cls is not None and isinstance(value, types.FunctionType) and "." in value.__qualname__:
        own = {(base.__module__, f"{base.__qualname__}.{name}") for base in cls.__mro__}
        if (value.__module__, value.__qualname__) not in own:  # another method of the library
            return f"{value.__module__}.{value.__qualname__}"
    return None


def _home(value: Any) -> str:
    """Returns the module whose code runs."""
    value = getattr(value, "__func__", value)
    if isinstance(value, types.FunctionType):
        home = str(value.__globals__.get("__name__", ""))
        # A decorator of the standard library counts as the function that it wraps.
        return "torch" if "__wrapped__" in vars(value) and home.partition(".")[0] in sys.stdlib_module_names else home
    return "torch" if isinstance(value, types.BuiltinFunctionType) else type(value).__module__


def functions_of(cls: Any) -> dict[tuple[Any, str], Function]:
    """Returns the functions that a call of a module of this class runs, as far as its library's code names them.

    These are methods, functions of its library, and functions of PyTorch that these call.
    """
    found: dict[tuple[Any, str], Function] = {}
    module = sys.modules["torch"].nn.Module
    for name in ("__getattr__", "_call_impl", "_wrapped_call_impl"):
        found[module, name] = Function(module, name)
    pending = [Function(cls, name) for name in ("__call__", "forward")]
    while pending:
        function = pending.pop()
        if (function.owner, function.name) in found:
            continue
        found[function.owner, function.name] = function
        value = function.value
        while isinstance(value, types.FunctionType) and "__wrapped__" in vars(value):
            value = vars(value)["__wrapped__"]
        if not isinstance(value, types.FunctionType) or value.__module__ == module.__module__:
            continue
        names = set(_names(value.__code__))
        home = sys.modules.get(value.__globals__.get("__name__", ""))
        for name in names:
            if isinstance(function.owner, type) and isinstance(getattr(cls, name, None), types.FunctionType):
                if getattr(module, name, None) is not getattr(cls, name):
                    pending.append(Function(cls, name))
            given = value.__globals__.get(name)
            if isinstance(given, types.ModuleType) and given.__name__.partition(".")[0] in LIBRARIES:
                for inner in names:
                    if _runs(vars(given).get(inner)):
                        found.setdefault((given, inner), Function(given, inner))
            elif _runs(given) and home is not None and getattr(home, name, None) is given:
                if isinstance(given, types.FunctionType) and given.__module__.partition(".")[0] != "torch":
                    pending.append(Function(home, name))
                else:
                    found.setdefault((home, name), Function(home, name))
    return found


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _runs(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def hook_runs(hooks: Any) -> bool:
    """Whether there are hooks that may change the results of a module."""
    for hook in hooks.values():
        while isinstance(hook, functools.partial):
            hook = hook.func
        if _home(hook) not in WATCHERS:
            return True
    return False
