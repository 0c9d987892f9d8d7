"""The sessions of a model.

Each policy has one for each of its first two batch sizes, and one for all other sizes."""

from __future__ import annotations

import ctypes
import threading
import time
from typing import Any, Callable

from .._c.constants import CONSTANTS
from .._c.errors import RaggedVitError, Status, invalid
from .._c.info import ModelInfo
from .._c.layouts import new
from .._c.library import Handle, Library
from .._c.process import renews
from .outputs import LOGITS, Outputs
from .policy import Policy
from .staging import Spec, StagingBuffer

tick = time.monotonic_ns
N_EXACT = 2
TOO_LARGE = Status.UNSUPPORTED, Status.OUT_OF_DEVICE_MEMORY, Status.OUT_OF_HOST_MEMORY


class Session:
    """A session of the library with its lock and the data of a run. `alive`: Sessions has not dropped it."""

    __slots__ = (
        "handle",
        "policy",
        "capacity",
        "fixed",
        "lock",
        "ran",
        "alive",
        "run",
        "pointer",
        "images",
        "logits",
        "room",
        "staging",
        "pixels",
        "pixel_room",
    )

    def __init__(
        self,
        handle: Handle,
        policy: Policy,
        capacity: int,
        fixed: bool,
        room: int = 0,
        staging: StagingBuffer | None = None,
        pixels: Handle | None = None,
        pixel_room: int = 0,
    ) -> None:
        self.handle, self.policy, self.capacity, self.fixed = handle, policy, capacity, fixed
        self.room, self.staging = room, staging  # for raw images: bytes for them, and their memory
        self.pixels, self.pixel_room = pixels, pixel_room  # device memory for raw images, and its bytes
        self.lock, self.alive = threading.Lock(), True
        self.ran = ctypes.c_int64(tick())  # time of the last run; the compiled core writes it too
        self.run = new("rvit_run_args")
        if staging is not None:
            self.run.input.kind = CONSTANTS["RVIT_INPUT_IMAGES"]
        self.pointer = ctypes.addressof(self.run)
        self.images: Handle | None = None  # wrapped buffers, if each run has its own memory
        self.logits: Handle | None = None


def _holding(locks: list[Any], work: Callable[[], None]) -> None:
    """Calls a function while holding all locks. `with` releases each of them even if a signal raises."""
    if not locks:
        return work()
    with locks[0]:
        _holding(locks[1:], work)


class _Group:
    """The sessions of one policy, one set of outputs and one stream."""

    __slots__ = ("exact", "shared")

    def __init__(self) -> None:
        self.exact: dict[int, Session] = {}
        self.shared: Session | None = None

    def all(self) -> list[Session]:
        return [*self.exact.values(), *([] if self.shared is None else [self.shared])]

    def fitting(self, n: int, room: int, pixels: int) -> Session | None:
        found = self.exact.get(n, self.shared)
        return (
            found
            if found is not None and n <= found.capacity and room <= found.room and pixels <= found.pixel_room
            else None
        )

    def drop(self, session: Session) -> None:
        if session is self.shared:
            self.shared = None
        elif self.exact.get(session.capacity) is session:
            del self.exact[session.capacity]


class Sessions:
    """At most `most` sessions of a model; the least recently used one is dropped first."""

    def __init__(
        self,
        lib: Library,
        device: Handle,
        model: Handle,
        info: ModelInfo,
        most: int,
        max_batch: int | None,
        on_drop: Callable[[Session], None],
    ) -> None:
        self.device, self.info = device, info
        self.lib, self.most, self.max_batch, self.on_drop = lib, most, max_batch, on_drop
        self.model: Handle | None = model  # None: closed
        self.lock = threading.RLock()
        self._groups: dict[Any, _Group] = {}
        renews(self)

    def __iter__(self) -> Any:
        """The sessions, the least recently used one first."""
        return iter(
            sorted((s for group in self._groups.values() for s in group.all()), key=lambda session: session.ran.value)
        )

    def __len__(self) -> int:
        return sum(len(group.all()) for group in self._groups.values())

    def get(
        self,
        policy: Policy,
        n: int,
        outputs: Outputs = LOGITS,
        stream: Callable[[], Handle] | None = None,
        key: Any = None,
        spec: Spec | None = None,
        room: int = 0,
        pixels: int = 0,
    ) -> Session:
        """Returns the session for a batch of n.

        stream: makes the stream of a new session. Without a spec, each of its runs has its own device memory.
        key: distinguishes sessions of the same policy. spec: runs have raw images, which take `room` bytes of the
        session's memory and `pixels` bytes of device memory.
        """
        with self.lock:
            self.open()
            group = self._groups.setdefault((policy, outputs, key, spec), _Group())
            session = group.fitting(n, room, pixels)
            if session is None:
                session = self._add(group, policy, n, outputs, stream, spec, room, pixels)
            session.ran.value = tick()
            return session

    def open(self) -> Handle:
        """Returns the model's handle. Raises INVALID_ARGUMENT if the model is closed."""
        if self.model is None:
            raise invalid("the model is closed")
        return self.model

    def close(self) -> None:
        """Drops the model and the sessions. They are destroyed once no thread uses them."""
        with self.lock:
            self.model = None
            for session in self:
                self._drop(session)
            self._groups.clear()

    def holding_all(self, others: list[Any], work: Callable[[], None]) -> None:
        """Calls a function while no session runs or is created. others: locks of sessions that are not kept here."""
        with self.lock:
            _holding([*(session.lock for session in self), *others], work)

    def _forked(self) -> None:
        """Drops, in a forked child, the sessions that other threads of the parent were using."""
        self.lock = threading.RLock()
        for session in self:
            used, session.lock = session.lock.locked(), threading.Lock()
            self.on_drop(session)
            if used:
                session.alive = False
                for group in self._groups.values():
                    group.drop(session)

    def _add(
        self,
        group: _Group,
        policy: Policy,
        n: int,
        outputs: Outputs,
        stream: Callable[[], Handle] | None,
        spec: Spec | None,
        room: int,
        pixels: int,
    ) -> Session:
        if self.max_batch is not None and n > self.max_batch:
            raise invalid(f"images are {n}, more than max_batch, {self.max_batch}")
        variable = spec is not None and spec.max_patches > 0
        fixed = n > 0 and (n in group.exact or len(group.exact) < N_EXACT) and self.max_batch is None and not variable
        asked = n, room, pixels
        room, pixels = (1 << (size - 1).bit_length() if size else 0 for size in (room, pixels))
        old = group.exact.get(n) if fixed else group.shared
        if fixed:
            capacity = n
        elif self.max_batch is not None:
            capacity = self.max_batch
        elif old is not None and n <= old.capacity:
            capacity = old.capacity
        else:
            capacity = max(1, 2 * old.capacity if old is not None else 0, 1 << (n - 1).bit_length() if n else 1)
        if old is not None and not fixed:
            room, pixels = max(room, old.room), max(pixels, old.pixel_room)
        try:
            session = self._create(policy, capacity, fixed, outputs, stream, spec, room, pixels)
        except RaggedVitError as error:
            if (
                error.status not in TOO_LARGE
                or (capacity, room, pixels) == asked
                or n == 0
                or self.max_batch is not None
            ):
                raise
            capacity, room, pixels = asked  # without the extra memory for later batches it may fit
            session = self._create(policy, capacity, fixed, outputs, stream, spec, room, pixels)
        if fixed:
            group.exact[n] = session
        else:
            group.shared = session
        if old is not None:
            self._drop(old)
        for oldest in list(self)[: -self.most]:
            if oldest is not session:
                self._drop(oldest)
                for other in self._groups.values():
                    other.drop(oldest)
        self._groups = {key: other for key, other in self._groups.items() if other.all()}
        return session

    def _drop(self, session: Session) -> None:
        session.alive = False
        self.on_drop(session)

    def _create(
        self,
        policy: Policy,
        capacity: int,
        fixed: bool,
        outputs: Outputs,
        stream: Callable[[], Handle] | None,
        spec: Spec | None,
        room: int,
        pixels: int,
    ) -> Session:
        desc = new("rvit_session_desc", max_images=capacity, fixed_batch=int(fixed))
        outputs.fill(desc)
        model = self.open()
        keeps: tuple[Any, ...] = (model,)
        if stream is not None:
            own = stream()
            memory_kind = "RVIT_INPUT_RUN" if spec is None else "RVIT_INPUT_HOST"
            desc.input_memory, desc.stream = CONSTANTS[memory_kind], own.pointer.value
            keeps = (own, model)
        memory = None
        if pixels:
            memory = self.lib.own("buffer", self.device, pixels, CONSTANTS["RVIT_BUFFER_DEVICE"], keeps=(self.device,))
            desc.input_view.buffer, keeps = memory.pointer, (*keeps, memory)
        if spec is not None:
            recipe = spec.recipe._struct()
            desc.input, desc.recipe = CONSTANTS["RVIT_INPUT_IMAGES"], ctypes.addressof(recipe)
            desc.input_bytes = room + self.lib.rvit_images_table_size(capacity)
            if spec.max_patches:
                desc.variable_resolution, desc.max_len = 1, self.info.n_prefix + spec.max_patches
        policy._fill(self.lib, desc)
        handle = self.lib.own("session", model, ctypes.byref(desc), keeps=keeps)
        return Session(
            handle,
            policy,
            capacity,
            fixed,
            room,
            None if spec is None else StagingBuffer(self.lib, handle),
            memory,
            pixels,
        )
