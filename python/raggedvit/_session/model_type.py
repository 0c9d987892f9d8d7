"""The type of Model for the modules that model.py imports, which cannot import model.py."""

from __future__ import annotations

import contextlib
import weakref
from typing import Any, Protocol

from .._c.info import DeviceInfo, ModelInfo
from .._c.library import Handle, Library
from ..images import Recipe
from .failures import Failures
from .outputs import Outputs
from .policy import Policy
from .result import Result
from .sessions import Session, Sessions
from .staging import Shapes, Spec


class Model(Protocol):
    """The members of raggedvit.Model that these modules use; they are documented there."""

    info: ModelInfo
    device: DeviceInfo
    dtype: str
    cuda_index: int
    _lib: Library
    _device: Handle
    _sessions: Sessions
    _prepared: weakref.WeakSet[Any]
    _slots: weakref.WeakSet[Any]
    _others: weakref.WeakSet[Any]

    @property
    def recipe(self) -> Recipe: ...

    @property
    def _spec(self) -> Spec: ...

    @property
    def _handle(self) -> Handle: ...

    def _room(self, spec: Spec, shapes: Shapes) -> int: ...

    def _unfit(self, spec: Spec, shapes: Shapes) -> Failures: ...

    def _read_images(self, images: Any, failures: Failures | None = None) -> Any: ...

    def _mask(self, mask: Any, policy: Policy, session: Session, n_images: int) -> Any: ...

    def _check_policy(self, policy: Policy) -> None: ...

    def _classify(
        self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result[Any]: ...

    def _classify_on_device(
        self, images: Any, policy: Policy, mask: Any, outputs: Outputs, failures: Failures | None
    ) -> Result[Any]: ...

    def _run(self, session: Handle, run: int, n: int, logits: Any, failures: Failures | None) -> None: ...

    def _of_map(self, session: Session | None, logits: Any, batch: Any, failures: Failures) -> Result[Any]: ...

    def _pipeline(self) -> contextlib.AbstractContextManager[Any]: ...

    def _stream(self, stream: int) -> Handle: ...

    def _own_stream(self) -> int: ...

    def _wrapped(self, tensor: Any) -> Handle: ...
