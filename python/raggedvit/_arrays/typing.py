"""Kinds of arrays, for type hints alone: what is given is what comes back."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar


class Array(Protocol):
    """numpy's, PyTorch's, CuPy's, JAX's."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...


class Tensor(Array, Protocol):
    """PyTorch's alone; nothing of it is imported."""

    @property
    def requires_grad(self) -> bool: ...

    @property
    def is_cuda(self) -> bool: ...


ArrayT = TypeVar("ArrayT", bound=Array)
TensorT = TypeVar("TensorT", bound=Tensor)
