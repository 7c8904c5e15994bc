"""A store on the bench: its own methods, and a hand that reaches past them.

Time passes in a lab without waiting: memory has a clock that is set by hand, and on a
server every stored time moves into the past instead.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import anyio
from bson.codec_options import CodecOptions, DatetimeConversion
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.read_concern import ReadConcern

from gotasks_memstore import MemStore
from gotasks_mongostore import MongoStore
from gotasks_py.clock import truncated
from gotasks_py.copying import copied
from gotasks_py.lifecycle import enqueued
from gotasks_py.store import ClaimRequest, Renewal, Store, TaskDocument
from gotasks_py.task import LeaseRef, Task, TaskId

RawCollection = Collection[dict[str, Any]]

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

_TIMES = [
    "run_at",
    "due_at",
    "reap_at",
    "lease.until",
    "lease.due_at",
    "expires_at",
    "created_at",
    "updated_at",
    "started_at",
    "finished_at",
    "retry_until",
    "cancel_requested_at",
]
_AWARE: CodecOptions[dict[str, Any]] = CodecOptions(
    tz_aware=True, tzinfo=UTC, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)


class Hand(Protocol):
    """What somebody with direct access to the stored documents can do."""

    def write(self, document: TaskDocument) -> None: ...

    def read(self, task_id: TaskId) -> TaskDocument | None: ...

    def pass_time(self, span: timedelta) -> None: ...

    async def until_purged(self) -> None: ...


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start: datetime = START) -> None:
        self._now = truncated(start)
        self._elapsed = 0.0

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return self._elapsed

    def advance(self, span: timedelta) -> None:
        self._now += span
        self._elapsed += span.total_seconds()


class MemHand:
    """Reaches into a MemStore; private access is the point of a hand."""

    def __init__(self, store: MemStore, clock: ManualClock) -> None:
        self._documents = store._documents  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        self._clock = clock

    def write(self, document: TaskDocument) -> None:
        self._documents.put(copied(document))

    def read(self, task_id: TaskId) -> TaskDocument | None:
        return copied(self._documents.get(task_id))

    def pass_time(self, span: timedelta) -> None:
        self._clock.advance(span)

    async def until_purged(self) -> None:
        """Do nothing: memory is purged whenever it is used."""


class MongoHand:
    """Reaches into the collection over a connection of its own."""

    def __init__(self, collection: RawCollection, store: MongoStore) -> None:
        self.collection = collection.with_options(codec_options=_AWARE)
        self._low_water = store._low_water  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    def write(self, document: TaskDocument) -> None:
        self.collection.replace_one({"_id": document["_id"]}, document, upsert=True)

    def read(self, task_id: TaskId) -> TaskDocument | None:
        return self.collection.find_one({"_id": task_id})

    def pass_time(self, span: timedelta) -> None:
        milliseconds = span // timedelta(milliseconds=1)
        for path in _TIMES:
            earlier = {"$subtract": [f"${path}", milliseconds]}
            self.collection.update_many({path: {"$type": "date"}}, [{"$set": {path: earlier}}])
        # Where the last claims were has moved as well.
        self._low_water._lanes.clear()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]

    async def until_purged(self) -> None:
        """Wait until the TTL monitor, which the test server runs every second, was there."""
        name = f"{self.collection.name}_metrics"
        # As the store reads: what is gone for a majority.
        metrics = self.collection.database.get_collection(
            name, read_concern=ReadConcern("majority")
        )
        expired = {"$expr": {"$lte": ["$expires_at", "$$NOW"]}, "expires_at": {"$exists": True}}
        while metrics.count_documents(expired):
            await anyio.sleep(0.1)


def spelled(value: object) -> str:
    """Name a parameter in the same words in every process that collects the tests."""
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))


def raw_collection(client: MongoClient[dict[str, Any]], namespace: str) -> RawCollection:
    return client["gotasks_tests"][namespace]


@dataclass(eq=False)
class Lab:
    """A store, a hand, and short forms of what most tests begin with."""

    store: Store
    hand: Hand
    kind: str

    def a_task(self, **fields: object) -> TaskDocument:
        """Make a document that has been due for a second."""
        now = self.store.clock.now()
        given = {
            "_id": self.store.new_id(),
            "queue": "q",
            "type": "t",
            "priority": 0,
            "payload": {"n": 1},
            "run_at": now - SECOND,
            "due_at": now - SECOND,
            "max_attempts": 3,
            "tags": [],
        }
        return enqueued(given | fields, now=now)

    async def enqueue(self, **fields: object) -> TaskId:
        document = self.a_task(**fields)
        await self.store.insert(document)
        return document["_id"]

    async def claim(self, request: ClaimRequest | None = None, **fields: Any) -> Task | None:
        return await self.store.claim(request or a_claim(**fields))

    async def claim_many(
        self, limit: int = 100, request: ClaimRequest | None = None, **fields: Any
    ) -> Sequence[Task]:
        return await self.store.claim_many(request or a_claim(**fields), limit)

    async def claimed(self, **fields: object) -> Task:
        """Enqueue a task and claim it."""
        await self.enqueue(**fields)
        task = await self.claim()
        assert task is not None
        return task

    async def get(self, task_id: TaskId) -> Task:
        task = await self.store.get(task_id)
        assert task is not None
        return task

    def raw(self, task_id: TaskId) -> TaskDocument:
        document = self.hand.read(task_id)
        assert document is not None
        return document

    def edit(self, task_id: TaskId, *removed: str, **fields: object) -> None:
        """Change a stored document by hand."""
        document = {**self.raw(task_id), **fields}
        for name in removed:
            document.pop(name, None)
        self.hand.write(document)

    def pass_time(self, span: timedelta) -> None:
        self.hand.pass_time(span)

    async def until_purged(self) -> None:
        """Wait until metrics that have expired are gone."""
        await self.hand.until_purged()


def a_claim(
    queue: str = "q",
    types: tuple[str, ...] = ("t",),
    *,
    token: str | None = None,
    owner: str = "worker",
    lease: timedelta = MINUTE,
    lanes: tuple[int, ...] = (0,),
) -> ClaimRequest:
    return ClaimRequest(queue, types, token or uuid.uuid4().hex, owner, lease, lanes)


def ref_of(task: Task) -> LeaseRef:
    """Name a running task with its token."""
    return LeaseRef(task.id, task.queue, task.lane, token_of(task))


def token_of(task: Task) -> str:
    assert task.lease is not None
    return task.lease.token


def a_renewal(task: Task, lease: timedelta = HOUR, *, cancelling: bool = False) -> Renewal:
    return Renewal(ref_of(task), lease, cancelling)


def without_times(document: Mapping[str, object]) -> dict[str, object]:
    """Leave out what depends on the moment: dates, wherever they are, become a word."""
    return {name: _timeless(value) for name, value in document.items()}


def _timeless(value: object) -> object:
    if isinstance(value, datetime):
        return "a time"
    if isinstance(value, dict):
        return without_times(value)
    if isinstance(value, list):
        return [_timeless(each) for each in value]
    return value
