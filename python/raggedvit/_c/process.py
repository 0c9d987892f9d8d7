"""What belongs to one process. The child of a fork has neither its parent's threads nor anybody who will release a lock that another thread
held: pools are made anew there, and so are locks.

Locks of this package are entered by `with` on the lock itself, whose __enter__ is in C: between it and the body no signal's exception can
come, which would leave the lock held for ever."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from typing import Any

_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def renews(owner: Any) -> None:
    """In the child of a fork owner.forked() is called, which makes its locks anew."""
    _owners.add(owner)


def _forked() -> None:
    for owner in list(_owners):
        owner.forked()


os.register_at_fork(after_in_child=_forked)


class Threads:
    """A pool of threads that all models of the process share, made when it is first needed."""

    def __init__(self, name: str, most: int, others: int = 0) -> None:
        """others: processors that are left to other threads."""
        self.name, self.most, self.others = name, most, others
        self.forked()
        renews(self)

    def forked(self) -> None:
        self._lock, self._pool = threading.Lock(), None  # type: threading.Lock, concurrent.futures.ThreadPoolExecutor | None

    @property
    def n(self) -> int:
        return max(1, min(self.most, len(os.sched_getaffinity(0)) - self.others))

    def __call__(self) -> concurrent.futures.ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(self.n, self.name)
            return self._pool
