"""Many tasks in one call: the next are prepared while those before are on their way."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final, TypeAlias

import anyio
from anyio.lowlevel import checkpoint

from gotasks_py.errors import GotasksError, PartialEnqueueError, StoreUnavailableError
from gotasks_py.handle import TaskHandle
from gotasks_py.store import Store, TaskDocument

logger = logging.getLogger("gotasks_py.enqueue")

CHUNK: Final = 1000
"""How many tasks of a bulk enqueue are sent at a time, at most."""

SLICE: Final = 100
"""How many are prepared between two looks at the clock, and at what else there is to do."""

_CHUNK_BYTES: Final = 4 * 2**20
# Four at once are inserted nearly twice as fast as one by one; more gain nothing.
_IN_FLIGHT: Final = 4
_NOT_SENT: Final = "not sent: the database was away for the tasks before it"

Progress: TypeAlias = Callable[[int], object]


@dataclass(eq=False, slots=True)
class Chunk:
    """Tasks that are sent together; ``handles`` and ``failures`` count from its first one."""

    handles: list[TaskHandle[Any] | None] = field(default_factory=list[TaskHandle[Any] | None])
    failures: dict[int, GotasksError] = field(default_factory=dict[int, GotasksError])
    documents: dict[int, TaskDocument] = field(default_factory=dict[int, TaskDocument])
    is_away: bool = False
    """Whether the database has answered for none of those that were sent."""
    _keys: set[object] = field(default_factory=set[object])
    _bytes: int = 0
    _sent: anyio.Event = field(default_factory=anyio.Event)
    _bug: Exception | None = None

    @property
    def is_full(self) -> bool:
        return len(self.handles) >= CHUNK or self._bytes >= _CHUNK_BYTES

    def add(self, document: TaskDocument, handle: TaskHandle[Any], size: int) -> None:
        """Take in a task whose payload takes ``size`` bytes."""
        self.documents[len(self.handles)] = document
        self.handles.append(handle)
        self._bytes += size
        key = document.get("unique_key")
        if key is not None:
            self._keys.add((document["queue"], key))

    def fail(self, error: GotasksError) -> None:
        """Note why there is no next task."""
        self.failures[len(self.handles)] = error
        self.handles.append(None)

    def rivals(self, other: Chunk) -> bool:
        """Whether both have a task for one unique key, which belongs to the first of them."""
        return not self._keys.isdisjoint(other._keys)

    async def send(self, store: Store, stored: Callable[[Iterable[TaskDocument]], None]) -> None:
        """Store the tasks, and tell of those that are."""
        try:
            if self.documents:
                self._refuse(await store.insert_many(list(self.documents.values())))
        except GotasksError as error:
            self.refuse_all(error)
        except Exception as error:  # noqa: BLE001  - raised where the call is awaited
            self._bug = error
        else:
            stored(self.documents.values())
        self._sent.set()

    async def sent(self) -> None:
        """Wait until it is known what became of every task."""
        await self._sent.wait()
        if self._bug is not None:
            raise self._bug

    def refuse_all(self, error: GotasksError) -> None:
        """Note why none of the tasks is stored."""
        self._refuse(dict.fromkeys(range(len(self.documents)), error))

    def _refuse(self, refused: Mapping[int, GotasksError]) -> None:
        self.is_away = len(refused) == len(self.documents) and all(
            isinstance(error, StoreUnavailableError) for error in refused.values()
        )
        indexes = list(self.documents)
        for position, reason in refused.items():
            index = indexes[position]
            self.failures[index] = reason
            self.handles[index] = None
            del self.documents[index]


class BulkEnqueue:
    """One call of ``enqueue_many``."""

    def __init__(
        self,
        store: Store,
        *,
        prepare: Callable[[Sequence[Any], Chunk], None],
        stored: Callable[[Iterable[TaskDocument]], None],
        announce: Callable[[TaskDocument], Awaitable[None]] | None,
        progress: Progress | None,
    ) -> None:
        self._store = store
        self._prepare = prepare
        self._stored = stored
        self._announce = announce
        self._progress = progress
        self._in_flight: deque[Chunk] = deque()
        self._handles: list[TaskHandle[Any] | None] = []
        self._failures: dict[int, GotasksError] = {}
        self._is_away = False

    async def run(self, requests: Iterable[object]) -> list[TaskHandle[Any]]:
        """Store everything that can be stored."""
        broken: Exception | None = None
        async with anyio.create_task_group() as group:
            try:
                iterator = iter(requests)
                while (chunk := await self._next(iterator)).handles:
                    await self._make_way(chunk)
                    if self._is_away:
                        chunk.refuse_all(StoreUnavailableError(_NOT_SENT))
                        self._record(chunk)
                    else:
                        self._in_flight.append(chunk)
                        group.start_soon(chunk.send, self._store, self._stored)
                while self._in_flight:
                    await self._finish_first()
            except Exception as error:  # noqa: BLE001  - what is on its way may arrive
                broken = error
        if broken is not None:
            raise broken
        if self._failures:
            ids = [None if handle is None else handle.id for handle in self._handles]
            raise PartialEnqueueError(ids, self._failures)
        return [handle for handle in self._handles if handle is not None]

    async def _next(self, requests: Iterator[object]) -> Chunk:
        chunk = Chunk()
        while not chunk.is_full and (some := list(islice(requests, SLICE))):
            self._prepare(some, chunk)
            await checkpoint()
        return chunk

    async def _make_way(self, chunk: Chunk) -> None:
        while self._in_flight and (
            self._is_away
            or len(self._in_flight) >= _IN_FLIGHT
            or any(chunk.rivals(other) for other in self._in_flight)
        ):
            await self._finish_first()

    async def _finish_first(self) -> None:
        """In the order in which they were sent, so that what is told is told in order."""
        chunk = self._in_flight[0]
        await chunk.sent()
        self._in_flight.popleft()
        self._is_away = self._is_away or chunk.is_away
        if self._announce is not None:
            for document in chunk.documents.values():
                await self._announce(document)
        self._record(chunk)

    def _record(self, chunk: Chunk) -> None:
        start = len(self._handles)
        self._handles.extend(chunk.handles)
        self._failures |= {start + index: error for index, error in chunk.failures.items()}
        if self._progress is None:
            return
        try:
            self._progress(len(self._handles))
        except Exception:
            logger.exception("progress of enqueue_many failed; it is not called again")
            self._progress = None
