"""State that belongs to one process.

The child of a fork has none of its parent's threads, and no thread that releases a lock which another thread held: it
makes new pools and new locks.

This package enters a lock by `with` on the lock itself, whose __enter__ is in C. No exception of a signal can come
between it and the body, which would leave the lock held for ever."""

from __future__ import annotations

import concurrent.futures
import os
import threading
import weakref
from typing import Any

_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def renews(owner: Any) -> None:
    """Has owner._forked() called in the child of a fork, to make new locks."""
    _owners.add(owner)


def _forked() -> None:
    for owner in list(_owners):
        owner._forked()


os.register_at_fork(after_in_child=_forked)


class Threads:
    """A pool of threads that all models of the process share. It is made on first use."""

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
