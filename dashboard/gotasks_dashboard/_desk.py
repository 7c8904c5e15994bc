"""What every route works with: the store, a manager to act by, and what was asked lately."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import anyio

from gotasks_dashboard._cache import SharedAnswers
from gotasks_dashboard._history import History
from gotasks_dashboard._jobs import Jobs
from gotasks_dashboard._live import Live, Overview
from gotasks_dashboard._permissions import Access
from gotasks_dashboard._problems import Problem
from gotasks_dashboard._trail import Learnt, Trail
from gotasks_py import (
    AuditEntry,
    Inspecting,
    Manager,
    Metering,
    Node,
    QueueOverview,
    QueuePolicy,
    Store,
    StoreUnavailableError,
    Task,
    TaskType,
)
from gotasks_py.patience import patience
from gotasks_py.store import reach

T = TypeVar("T")

Redact: TypeAlias = Callable[[Task], Task]
"""Makes of a task what may be shown of it; called for each, in lists too."""

SHORTLY: Final = 1.0
"""For how many seconds lists and numbers are told again without asking the store."""
_GRACE: Final = 1.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How a dashboard was set up."""

    title: str
    redact: Redact | None
    trace_url: str | None
    csrf: tuple[str, str] | None
    oldest_due_warning: timedelta
    oldest_due_critical: timedelta
    patience: timedelta
    is_loopback_default: bool


@dataclass(slots=True, kw_only=True)
class Desk:
    """The store that is looked at, and how."""

    store: Store
    manager: Manager
    types: Mapping[tuple[str, str], TaskType[Any, Any]]
    settings: Settings
    overview: Callable[[Desk], Awaitable[Overview]]
    answers: SharedAnswers = field(init=False)
    trail: Trail = field(init=False)
    jobs: Jobs = field(init=False)
    live: Live = field(init=False)
    histories: dict[str, History] = field(default_factory=dict[str, History])
    _stand_ins: dict[str, Manager] = field(default_factory=dict[str, Manager])

    def __post_init__(self) -> None:
        self.answers = SharedAnswers(self.store.clock.monotonic)
        self.trail = Trail(self.store, self._acted, self.settings.patience.total_seconds())
        self.live = Live(
            self.store, partial(self.overview, self), partial(self.answers.forget, SHORTLY)
        )
        self.jobs = Jobs(self.manager, self.trail, self.live.moved)

    @property
    def inspected(self) -> Inspecting:
        """The store, to look at many tasks.

        Raises:
            Problem: 501: it cannot.
        """
        if not isinstance(self.store, Inspecting):
            raise self.unable()
        return self.store

    @property
    def metering(self) -> Metering | None:
        """The store, for metrics and managers; ``None``: it keeps none."""
        return self.store if isinstance(self.store, Metering) else None

    async def shared(
        self,
        key: Hashable,
        ask: Callable[[], Awaitable[T]],
        seconds: float = SHORTLY,
        is_kept: Callable[[T], bool] = lambda _: True,
    ) -> T:
        """Tell an answer that others may have asked for just now."""

        async def bounded() -> T:
            async with self.bounded():
                return await ask()

        return await self.answers.get(key, seconds, bounded, is_kept)

    async def queues(self) -> Sequence[QueueOverview]:
        """Tell how every queue is doing, as of the last second.

        Raises:
            Problem: 501: the store cannot.
        """
        return await self.shared("queues", self.inspected.overview)

    @asynccontextmanager
    async def bounded(self) -> AsyncGenerator[None]:
        """Give up what takes the store too long.

        Raises:
            StoreUnavailableError: it did.
        """
        limit = self.settings.patience.total_seconds()
        try:
            # A store that gives up by itself says why.
            with anyio.fail_after(_GRACE * limit), patience(limit):
                await reach(self.store)
                yield
        except TimeoutError as error:
            msg = f"the store took longer than {limit:g} s"
            raise StoreUnavailableError(msg) from error

    async def entry(
        self, access: Access, action: str, target: Mapping[str, object], **details: object
    ) -> AuditEntry:
        """Begin to tell of something that somebody does.

        Raises:
            StoreUnavailableError: the store was never reached, and so tells no time.
        """
        async with self.bounded():
            return self.trail.entry(access, action, target, **details)

    @asynccontextmanager
    async def acting(
        self, access: Access, action: str, target: Mapping[str, object], **details: object
    ) -> AsyncGenerator[Learnt]:
        """Change something, with the patience of a look, and write down what became of it.

        Raises:
            StoreUnavailableError: the store was asked, and it cannot be known what it has done.
        """
        entry = await self.entry(access, action, target, **details)
        is_asked = False
        async with self.trail.recorded(entry) as learnt:
            try:
                async with self.bounded():
                    is_asked = True
                    yield learnt
            except StoreUnavailableError as error:
                if not is_asked:
                    raise
                msg = f"{error}; it may have been done all the same: look before you try again"
                raise StoreUnavailableError(msg, task_id=error.task_id) from error

    async def nodes(self) -> Sequence[Node]:
        """Tell which managers are there."""
        metering = self.metering
        return () if metering is None else await self.shared("nodes", metering.nodes)

    async def manager_of(self, queue: str) -> Manager:
        """Tell a manager that declares a queue: the one that was given, or one as recorded.

        Raises:
            Problem: 404: no store has recorded the queue.
        """
        if queue in self.manager.queues:
            return self.manager
        recorded = (await self.store.queues()).get(queue)
        if recorded is None:
            raise Problem(404, "unknown_queue", f"no queue {queue!r} is recorded")
        if queue not in self._stand_ins:
            policy = QueuePolicy.from_document(queue, recorded)
            self._stand_ins[queue] = Manager(self.store, queues=[policy], name="dashboard")
        return self._stand_ins[queue]

    def shown(self, task: Task) -> Task:
        """Make of a task what may be shown."""
        redact = self.settings.redact
        return task if redact is None else redact(task)

    def _acted(self, entry: AuditEntry) -> None:
        self.answers.forget()
        self.live.acted(entry)

    def unable(self) -> Problem:
        """Say that the store cannot do what was asked for."""
        return Problem(501, "not_supported", f"{type(self.store).__name__} cannot do this")
