"""Kinds of arrays, for type hints: a call returns the kind of its argument."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class Array(Protocol):
    """An array of numpy, PyTorch, CuPy or JAX."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


class Tensor(Array, Protocol):
    """A PyTorch tensor, without importing PyTorch."""

    @property
    def requires_grad(self) -> bool: ...

    @property
    def is_cuda(self) -> bool: ...


ArrayT = TypeVar("ArrayT", bound=Array)
TensorT = TypeVar("TensorT", bound=Tensor)
