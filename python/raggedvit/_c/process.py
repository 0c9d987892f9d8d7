"""State that belongs to one process.

A forked child has none of its parent's threads, so nothing would release the locks that they held. It creates new pools
and new locks.

This package enters locks by `with` on the lock itself, because its __enter__ is in C: no exception of a signal handler
can occur between it and the body and leave the lock held forever."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from typing import Any

_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def renews(owner: Any) -> None:
    """Registers owner._forked() to be called in forked children, to create new locks."""
    _owners.add(owner)


def _forked() -> None:
    for owner in list(_owners):
        owner._forked()


os.register_at_fork(after_in_child=_forked)


class Threads:
    """A pool of threads that all models of the process share. It is created on first use."""

    def __init__(self, name: str, most: int, others: int = 0) -> None:
        """others: number of processors to leave to other threads."""
        self.name, self.most, self.others = name, most, others
        self._forked()
        renews(self)

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None

    @property
    def n(self) -> int:
        return max(1, min(self.most, len(os.sched_getaffinity(0)) - self.others))

    def __call__(self) -> concurrent.futures.ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(self.n, self.name)
            return self._pool
