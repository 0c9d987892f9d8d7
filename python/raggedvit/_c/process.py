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
from typing import Any, Callable

_owners: weakref.WeakSet[Any] = weakref.WeakSet()


def renews(owner: Any) -> None:
    """Registers owner._forked() to be called in forked children, to create new locks."""
    _owners.add(owner)


def _forked() -> None:
    for owner in list(_owners):
        owner._forked()


def watch_forks(forked: Callable[[], None]) -> None:
    """Calls the function in forked children. Windows has none."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)


watch_forks(_forked)


def usable_processors() -> int:
    """Processors that this process may run on, where the system tells (Linux); else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        return max(1, min(self.most, usable_processors() - self.others))

    def __call__(self) -> concurrent.futures.ThreadPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = concurrent.futures.ThreadPoolExecutor(self.n, self.name)
            return self._pool
