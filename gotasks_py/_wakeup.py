"""The hub: one feed of changes per store and event loop, for everybody here who wants to know.

Managers listen for work, cancellations and changed queues, and waiters for the end of a
task. The feed is opened when the first of them comes and closed when the last has gone. It
carries the ends of tasks only while somebody waits for one, for they are as many as tasks.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, Protocol, TypeAlias

import anyio
from anyio.lowlevel import current_token

from gotasks_py._supervisor import LoopState, Supervisor
from gotasks_py.backoff import Exponential
from gotasks_py.errors import StoreError, StoreUnavailableError
from gotasks_py.event_loops import spawn_detached
from gotasks_py.feed import Event, Feed, Finished, Gap
from gotasks_py.store import Store, Watching
from gotasks_py.task import TaskId

logger = logging.getLogger("gotasks_py.wakeup")

_LINGER_SECONDS: Final = 5.0
"""How long the ends of tasks are still followed after the last waiter: another may come."""

_REOPEN: Final = Exponential(base=timedelta(milliseconds=100), cap=timedelta(seconds=2))
_WORTH_A_WARNING: Final = 2
"""How many failures in a row are: a single one is made good by opening the feed again."""

_LOOP: Final = "stream"

_Key: TypeAlias = tuple[int, object, int]


class Listener(Protocol):
    """What a manager is told."""

    def stream_changed(self, *, is_connected: bool) -> None:
        """From now on changes are told of, or no longer."""
        ...

    def heard(self, event: Event) -> None:
        """Something has happened to a task or a queue, or may have been missed."""
        ...


class Waiter:
    """Waits for the end of one task."""

    def __init__(self, hub: Hub | None) -> None:
        self._hub = hub
        self._told = anyio.Event()

    @property
    def is_told(self) -> bool:
        """Whether the end of the task will be told, so that asking for it is a precaution."""
        return self._hub is not None and self._hub.tells_of_ends

    def tell(self) -> None:
        """Say that the task may have ended."""
        self._told.set()

    async def wait(self, seconds: float) -> None:
        """Wait until the task may have ended, but no longer than that."""
        with anyio.move_on_after(seconds):
            await self._told.wait()
        self._told = anyio.Event()


class Hub:
    """Follows the feed of one store on one event loop."""

    def __init__(self, store: Watching, supervisor: Supervisor, key: _Key) -> None:
        self._store = store
        self._key = key
        self._supervisor = supervisor
        self._listeners: list[Listener] = []
        self._waiters: dict[TaskId, list[Waiter]] = {}
        self._lingers_until = -math.inf
        self._is_running = False
        self._position: object = None
        self._failures = 0
        self._reading: anyio.CancelScope | None = None
        self._reads_ends = False
        self.is_connected = False
        """Whether changes are told of."""

    @property
    def tells_of_ends(self) -> bool:
        """Whether the ends of tasks are among them."""
        return self.is_connected and self._reads_ends

    @property
    def loops(self) -> Mapping[str, LoopState]:
        """How the hub's own loop is doing."""
        return self._supervisor.loops

    @contextmanager
    def listening(self, listener: Listener) -> Generator[None]:
        """Tell a listener what happens during the block."""
        self._listeners.append(listener)
        if self.is_connected:
            listener.stream_changed(is_connected=True)
        self._reconsider()
        try:
            yield
        finally:
            self._listeners.remove(listener)
            self._reconsider()

    @contextmanager
    def waiting(self, task_id: TaskId) -> Generator[Waiter]:
        """Tell a waiter of the end of a task during the block."""
        waiter = Waiter(self)
        self._waiters.setdefault(task_id, []).append(waiter)
        self._reconsider()
        try:
            yield waiter
        finally:
            waiters = self._waiters[task_id]
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[task_id]
            self._lingers_until = anyio.current_time() + _LINGER_SECONDS
            if not self._waiters:
                self._reconsider()

    def _wanted(self) -> bool | None:
        """Tell whether to read with ends or without, or ``None``: not at all."""
        if self._waiters or anyio.current_time() < self._lingers_until:
            return True
        return False if self._listeners else None

    def _reconsider(self) -> None:
        wanted = self._wanted()
        if not self._is_running and wanted is not None:
            self._is_running = True
            _hubs[self._key] = self  # which it may have left when nobody was there
            spawn_detached(self._run, "gotasks_py hub")
        elif self._reading is not None:
            if wanted != self._reads_ends:
                self._reading.cancel()
            self._reading.deadline = self._deadline()

    def _deadline(self) -> float:
        """Tell when what is wanted changes by itself."""
        return math.inf if self._waiters or not self._reads_ends else self._lingers_until

    async def _run(self) -> None:
        try:
            # Somebody may come while the feed is being closed for want of anybody.
            while self._wanted() is not None and await self._supervised():
                pass
        finally:
            self._is_running = False
            if _hubs.get(self._key) is self:
                del _hubs[self._key]

    async def _supervised(self) -> bool:
        can_watch = True

        async def follow() -> None:
            nonlocal can_watch
            try:
                can_watch = await self._follow()
            finally:
                self._set_connected(value=False)

        await self._supervisor.run(_LOOP, follow)
        return can_watch

    async def _follow(self) -> bool:
        """Read feeds while anybody wants to know; tell whether the store has any."""
        while (wanted := self._wanted()) is not None:
            opening = self._store.watch(finished=wanted, position=self._position)
            if opening is None:
                return False
            try:
                async with opening as feed:
                    await self._read(feed, ends=wanted)
            except StoreError as error:
                await self._failed(error)
        self._position = None
        return True

    async def _read(self, feed: Feed, *, ends: bool) -> None:
        self._reads_ends = ends
        self._set_connected(value=True)
        if ends:
            # What ended while ends were not read is not told of.
            self._tell_all_waiters()
        try:
            with anyio.CancelScope(deadline=self._deadline()) as self._reading:
                while self._wanted() == ends:
                    events = await feed.next()
                    self._failures = 0
                    self._position = feed.position
                    self._tell(events)
        finally:
            self._reading = None

    def _set_connected(self, *, value: bool) -> None:
        if self.is_connected is value:
            return
        self.is_connected = value
        if value and self._failures >= _WORTH_A_WARNING:
            logger.info("changes in the store are told of again")
        for listener in self._listeners:
            listener.stream_changed(is_connected=value)

    async def _failed(self, error: StoreError) -> None:
        self._set_connected(value=False)
        if not isinstance(error, StoreUnavailableError):
            self._position = None
        self._failures += 1
        if self._wanted() is None:
            return
        if self._failures == _WORTH_A_WARNING:
            logger.warning("changes in the store are not told of, polling meanwhile: %s", error)
        await anyio.sleep(_REOPEN(self._failures).total_seconds())

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, Finished):
                for waiter in self._waiters.get(event.id, ()):
                    waiter.tell()
                continue
            for listener in self._listeners:
                listener.heard(event)
            if isinstance(event, Gap):
                self._tell_all_waiters()

    def _tell_all_waiters(self) -> None:
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.tell()


_hubs: dict[_Key, Hub] = {}
"""Those that run, by process, event loop and store."""


def hub_of(store: Store) -> Hub | None:
    """Find or make the hub of a store on this event loop; ``None``: the store has no feed."""
    if not isinstance(store, Watching):
        return None
    key = (os.getpid(), current_token().native_token, id(store))
    if key not in _hubs:
        _hubs[key] = Hub(store, Supervisor(store.clock.monotonic), key)
    return _hubs[key]


@contextmanager
def waiting(store: Store, task_id: TaskId) -> Generator[Waiter]:
    """Make a waiter for the end of a task, which is told of it where the store can."""
    hub = hub_of(store)
    if hub is None:
        yield Waiter(None)
        return
    with hub.waiting(task_id) as waiter:
        yield waiter
