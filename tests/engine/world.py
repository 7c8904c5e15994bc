"""What the engine's tests share: a store that fails on demand, and ears for hooks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import (
    Fixed,
    Hooks,
    JanitorConfig,
    Manager,
    MetricsConfig,
    PipelineMode,
    QueuePolicy,
    Status,
    Task,
    TaskEvent,
    TaskPolicy,
)
from gotasks_py.errors import GotasksError, StoreUnavailableError
from gotasks_py.feed import Event, Feed
from gotasks_py.inspecting import QueueOverview
from gotasks_py.lifecycle import Patch
from gotasks_py.metering import Report
from gotasks_py.store import ClaimRequest, Renewal, Renewed, Session, TaskDocument
from gotasks_py.task import LeaseRef, TaskId

T = TypeVar("T")

real_time = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""Threads and signals do not know of virtual time."""

# Tasks must start at once and have the lease that the test says, as in single mode.
EAGER = PipelineMode(lookahead=timedelta(milliseconds=1), queue_lease=timedelta(milliseconds=100))
modes: dict[str, PipelineMode | None] = {"default": None}
"""What :func:`a_manager` works in, unless it is told; set by the fixture ``mode``."""

AWAY = StoreUnavailableError("the store is away")
ONCE = TaskPolicy(max_attempts=1)
NO_JITTER = Fixed(delay=timedelta(seconds=10), jitter=0)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


def a_manager(store: MemStore, *queues: str | QueuePolicy, **settings: Any) -> Manager:
    """Make a manager of two workers that retries after exactly 10 s."""
    declared = [QueuePolicy(each) if isinstance(each, str) else each for each in queues or ("q",)]
    chosen: dict[str, Any] = {
        "queues": declared,
        "workers": 2,
        "backoff": NO_JITTER,
        "janitor": JanitorConfig(reap_interval=seconds(1)),
        # Seldom, for some tests let days pass.
        "metrics": MetricsConfig(interval=timedelta(hours=1)),
        "mode": modes["default"],
    }
    return Manager(store, **chosen | settings)


def a_pipeline(store: MemStore, *queues: str | QueuePolicy, **settings: Any) -> Manager:
    return a_manager(store, *queues, **{"mode": PipelineMode()} | settings)


def add_deaf_handler(manager: Manager) -> None:
    """Register a handler that sleeps for so many seconds, whoever cancels it."""

    @manager.handler("q", "deaf")
    async def deaf(length: float) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(length)


def fail_renewals_of_threads(
    monkeypatch: pytest.MonkeyPatch, store: MemStore, fault: Callable[[], object]
) -> None:
    """Call ``fault`` before each renewal that a heartbeat's thread makes."""
    renew = store._renew  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  - what its thread calls

    def renew_or_fail(renewals: Sequence[Renewal]) -> object:
        fault()
        return renew(renewals)

    monkeypatch.setattr(store, "_renew", renew_or_fail)


class FaultyStore(MemStore):
    """Calls ``before`` and ``after`` of a method's name, which may raise, and counts calls.

    What ``after`` raises is a reply that was lost: the store has done its work. A reply that
    is ``late`` is on its way for so many seconds.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.before: dict[str, Callable[..., object]] = {}
        self.after: dict[str, Callable[..., object]] = {}
        self.late: dict[str, float] = {}
        self.calls: Counter[str] = Counter()
        self.under_way: Counter[str] = Counter()
        self.tells_of_changes = True
        self.open_feeds: list[_BreakableFeed] = []
        self._broken_until = -math.inf

    async def open(self) -> None:
        await self._watched("open", super().open)

    async def queues(self) -> Mapping[str, Mapping[str, object]]:
        return await self._watched("queues", super().queues)

    async def insert(self, document: TaskDocument, *, session: Session | None = None) -> None:
        await self._watched("insert", partial(super().insert, session=session), document)

    async def insert_many(self, documents: Sequence[TaskDocument]) -> Mapping[int, GotasksError]:
        return await self._watched("insert_many", super().insert_many, documents)

    async def claim(self, request: ClaimRequest) -> Task | None:
        return await self._watched("claim", super().claim, request)

    def watch(
        self, *, finished: bool, position: object = None
    ) -> AbstractAsyncContextManager[Feed] | None:
        if not self.tells_of_changes:
            return None
        self.calls["watch"] += 1
        opened = super().watch(finished=finished, position=position)
        return None if opened is None else self._breakable(opened)

    @asynccontextmanager
    async def _breakable(self, opened: AbstractAsyncContextManager[Feed]) -> AsyncGenerator[Feed]:
        if anyio.current_time() < self._broken_until:
            raise StoreUnavailableError("the feed is broken")
        async with opened as feed:
            breakable = _BreakableFeed(feed)
            self.open_feeds.append(breakable)
            try:
                yield breakable
            finally:
                self.open_feeds.remove(breakable)

    @property
    def feeds(self) -> int:
        """How many are open."""
        return len(self.open_feeds)

    def breaks_feeds(self, *, for_seconds: float) -> None:
        """Break the open feeds, and refuse others for a while."""
        self._broken_until = anyio.current_time() + for_seconds
        for each in self.open_feeds:
            each.broken.set()

    async def next_due(
        self, queue: str, types: Sequence[str], lanes: Sequence[int] = (0,)
    ) -> datetime | None:
        return await self._watched("next_due", super().next_due, queue, types, lanes)

    async def claim_many(self, request: ClaimRequest, limit: int) -> Sequence[Task]:
        return await self._watched("claim_many", super().claim_many, request, limit)

    async def find_claimed(self, request: ClaimRequest) -> Sequence[Task]:
        return await self._watched("find_claimed", super().find_claimed, request)

    async def settle(self, ref: LeaseRef, patch: Patch, *, session: Session | None = None) -> bool:
        return await self._watched("settle", partial(super().settle, session=session), ref, patch)

    async def settle_many(
        self, refs: Sequence[LeaseRef], patch: Patch, values: Sequence[object] = ()
    ) -> frozenset[str]:
        return await self._watched("settle_many", super().settle_many, refs, patch, values)

    async def renew(self, renewals: Sequence[Renewal]) -> Renewed:
        return await self._watched("renew", super().renew, renewals)

    async def get(self, task_id: TaskId) -> Task | None:
        return await self._watched("get", super().get, task_id)

    async def transition(self, task_id: TaskId, patch: Patch) -> Task | None:
        return await self._watched("transition", super().transition, task_id, patch)

    async def overview(self, queue: str | None = None) -> Sequence[QueueOverview]:
        return await self._watched("overview", super().overview, queue)

    async def report(self, report: Report) -> None:
        await self._watched("report", super().report, report)

    async def reap(self, limit: int) -> Sequence[Task]:
        return await self._watched("reap", super().reap, limit)

    async def stored(self, task_id: TaskId) -> Task:
        """Read a task without being watched."""
        task = await super().get(task_id)
        assert task is not None
        return task

    def all_tasks(self) -> list[Task]:
        return [Task.from_document(document) for document in self._documents]

    def are_all_final(self) -> bool:
        return all(Status(str(each["status"])).is_final for each in self._documents)

    def remove(self, task_id: TaskId) -> None:
        self._documents.remove(task_id)

    def never_purges(self) -> None:
        """Be as late as a TTL monitor may be."""
        self._purge = lambda: None  # type: ignore[method-assign]

    def edit(self, task_id: TaskId, **fields: object) -> None:
        """Change a document by hand, as somebody may do in mongosh."""
        self._documents.put({**(self._documents.get(task_id) or {}), **fields})

    def drop_field(self, task_id: TaskId, name: str) -> None:
        document = dict(self._documents.get(task_id) or {})
        del document[name]
        self._documents.put(document)

    async def _watched(self, name: str, call: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        self.calls[name] += 1
        self.under_way[name] += 1
        try:
            await anyio.lowlevel.checkpoint()
            self._trip(self.before, name, arguments)
            answer = await call(*arguments)
            if name in self.late:
                await anyio.sleep(self.late[name])
            self._trip(self.after, name, arguments)
        finally:
            self.under_way[name] -= 1
        return answer

    def _trip(
        self, faults: dict[str, Callable[..., object]], name: str, arguments: tuple[Any, ...]
    ) -> None:
        # What befalls a claim or a settle befalls those of many, too.
        fault = faults.get(name) or faults.get(name.removesuffix("_many"))
        if fault is not None:
            fault(*arguments)


class _BreakableFeed:
    def __init__(self, feed: Feed) -> None:
        self._feed = feed
        self.broken = anyio.Event()  # of the event loop that reads the feed

    @property
    def position(self) -> object:
        return self._feed.position

    async def next(self) -> Sequence[Event]:
        events: Sequence[Event] | None = None
        async with anyio.create_task_group() as group:

            async def read() -> None:
                nonlocal events
                events = await self._feed.next()
                group.cancel_scope.cancel()

            group.start_soon(read)
            await self.broken.wait()
            group.cancel_scope.cancel()
        if events is None:
            raise StoreUnavailableError("the feed broke")
        return events


def failing(error: BaseException, times: int | None = None) -> Callable[..., object]:
    """Raise an error, the first so many times or always."""
    left = [times]

    def fault(*arguments: object) -> None:
        if left[0] is None:
            raise error
        if left[0] > 0:
            left[0] -= 1
            raise error

    return fault


@dataclass
class Ears:
    """Hooks that remember what they were told, and let a test wait for it."""

    events: list[tuple[str, TaskEvent]] = field(default_factory=list)
    _heard: anyio.Event = field(default_factory=anyio.Event)

    def hooks(self) -> Hooks:
        names = list(Hooks.__dataclass_fields__)
        return Hooks(**{name: self._listener(name) for name in names})

    def names(self, task_id: TaskId | None = None) -> list[str]:
        return [name for name, event in self.events if task_id in {None, event.task.id}]

    def of(self, name: str) -> list[TaskEvent]:
        return [event for heard, event in self.events if heard == name]

    async def wait(self, name: str, times: int = 1) -> TaskEvent:
        while len(found := self.of(name)) < times:
            await self._heard.wait()
        return found[times - 1]

    def _listener(self, name: str) -> Callable[[TaskEvent], None]:
        def listen(event: TaskEvent) -> None:
            self.events.append((name, event))
            self._heard.set()
            self._heard = anyio.Event()

        return listen


async def orphan(store: MemStore, queue: str, type: str, lease: timedelta) -> Task:
    """Claim a task for a worker that then dies."""
    request = ClaimRequest(queue, (type,), "dead-token", "killed.1", lease)
    task = await MemStore.claim(store, request)
    assert task is not None
    return task


async def settled(store: FaultyStore, task_id: TaskId) -> Task:
    """Wait, in virtual time, until the task is final."""
    return await reached(store, task_id, lambda task: task.status.is_final)


async def reached(store: FaultyStore, task_id: TaskId, goal: Callable[[Task], bool]) -> Task:
    """Look every 10 ms whether the task has come to where it should."""
    while not goal(task := await store.stored(task_id)):
        await anyio.sleep(0.01)
    return task


def is_pending(task: Task) -> bool:
    return task.status is Status.PENDING


def is_running(task: Task) -> bool:
    return task.status is Status.RUNNING


class BrokenError(GotasksError):
    """Not one that the engine knows of."""
