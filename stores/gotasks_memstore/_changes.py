"""Tells of changes in memory as they happen, as a change stream of MongoDB does."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import islice
from typing import Final

import anyio
from anyio.lowlevel import current_token

from gotasks_py.event_loops import call_soon
from gotasks_py.feed import (
    CancelRequested,
    Claimable,
    Event,
    Feed,
    Finished,
    Gap,
    NodeOrdered,
    QueueChanged,
)
from gotasks_py.store import TaskDocument
from gotasks_py.task import Status

_MOST_KEPT: Final = 10_000
_FINAL: Final = [status.value for status in Status if status.is_final]


class Changes:
    """A log of the latest changes, and the feeds that read it. Safe to use from any thread."""

    def __init__(self) -> None:
        self._log: deque[Event] = deque(maxlen=_MOST_KEPT)
        self._count = 0
        self._feeds: list[_MemFeed] = []
        self._lock = threading.Lock()

    def document_changed(self, before: TaskDocument | None, after: TaskDocument | None) -> None:
        """Log what became of a document; ``None`` stands for its absence."""
        for event in _events(before or {}, after or {}):
            self._append(event)

    def queue_changed(self, name: str) -> None:
        """Log that a queue has another policy."""
        self._append(QueueChanged(name))

    def node_ordered(self, node: str) -> None:
        """Log that a manager was given another order."""
        self._append(NodeOrdered(node))

    @asynccontextmanager
    async def feed(self, *, finished: bool, position: object) -> AsyncGenerator[Feed]:
        with self._lock:
            feed = _MemFeed(self, position if isinstance(position, int) else -1, ends=finished)
            self._feeds.append(feed)
        try:
            yield feed
        finally:
            with self._lock:
                self._feeds.remove(feed)

    def since(self, position: int) -> tuple[Sequence[Event], int]:
        """Tell what has happened since a position, and the position of now."""
        with self._lock:
            new = self._count - position
            if position < 0 or new > len(self._log):
                return (Gap(),), self._count
            return list(islice(self._log, len(self._log) - new, None)), self._count

    def _append(self, event: Event) -> None:
        with self._lock:
            self._log.append(event)
            self._count += 1
            feeds = list(self._feeds)
        for feed in feeds:
            feed.wake()


class _MemFeed:
    def __init__(self, changes: Changes, position: int, *, ends: bool) -> None:
        self._changes = changes
        self._ends = ends
        self._position = position
        self._token = current_token()
        self._thread = threading.get_ident()
        self._woken = anyio.Event()

    @property
    def position(self) -> object:
        return self._position

    async def next(self) -> Sequence[Event]:
        while True:
            self._woken = anyio.Event()
            events, position = self._changes.since(self._position)
            self._position = position
            told = [each for each in events if self._ends or not isinstance(each, Finished)]
            if told:
                return told
            await self._woken.wait()

    def wake(self) -> None:
        if threading.get_ident() == self._thread:
            self._wake()
        else:
            call_soon(self._token, self._wake)

    def _wake(self) -> None:
        self._woken.set()


def _events(before: TaskDocument, after: TaskDocument) -> Iterator[Event]:
    task_id = (after or before)["_id"]
    status, due_at = after.get("status"), after.get("due_at")
    if (not after or status in _FINAL) and before.get("status") not in _FINAL:
        yield Finished(task_id)
    if after.get("cancel_requested_at") is not None and before.get("cancel_requested_at") is None:
        yield CancelRequested(task_id)
    comes_back = before.get("lease") is not None and after.get("lease") is None
    is_new = before.get("status") != status or comes_back
    match after:
        case {"status": Status.PENDING.value, "queue": str(queue), "type": str(name)} if is_new:
            lane = after.get("lane")
            if isinstance(due_at, datetime):
                yield Claimable(task_id, queue, lane if isinstance(lane, int) else 0, name, due_at)
        case _:
            pass
