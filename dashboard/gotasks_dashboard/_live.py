"""What has changed, told to all who look: gathered, and a few times a second at most.

There is one loop for all of them, and only while there is somebody. It follows the feed of
changes that the store's managers here share; where too much happens to be told of each, or
the store has no feed, it looks at how queues are doing every two seconds.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio

from gotasks_dashboard._jobs import Job
from gotasks_py import AuditEntry, GotasksError, Outcome, Store, StoreUnavailableError
from gotasks_py.event_loops import spawn_detached
from gotasks_py.feed import Claimable, Event, Gap, NodeOrdered, QueueChanged
from gotasks_py.following import following

logger = logging.getLogger("gotasks_dashboard")

Overview: TypeAlias = Mapping[str, Any]

SHORTEST_SECONDS: Final = 0.5
"""How long it takes from one update to the next, at least."""

_LOOK_SECONDS: Final = 2.0
_SLOW_SECONDS: Final = 2.0
"""After how long without an answer those who look are told that they see what was before."""
_BUSY: Final = 200
"""How many changes a second are worth being told of."""
_DEAF_SECONDS: Final = 5.0
_MOST_IDS: Final = 200
_REMEMBERED: Final = 40


@dataclass(slots=True)
class Changes:
    """What has changed since somebody was told last."""

    everything: bool = False
    queues: set[str] = field(default_factory=set[str])
    ids: set[str] = field(default_factory=set[str])
    nodes: bool = False
    jobs: dict[str, Job] = field(default_factory=dict[str, Job])
    overview: Overview | None = None
    problem: GotasksError | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to tell."""
        told = (self.everything, self.queues, self.ids, self.nodes, self.jobs)
        return not any(told) and self.overview is None and self.problem is None

    def merge(self, later: Changes) -> None:
        """Take in what came later."""
        self.everything |= later.everything
        self.queues |= later.queues
        self.ids |= later.ids
        self.nodes |= later.nodes
        self.jobs |= later.jobs
        self.overview = later.overview or self.overview
        self.problem = later.problem
        if len(self.ids) > _MOST_IDS:
            self.everything = True


class Live:
    """Gathers changes while somebody looks."""

    def __init__(
        self,
        store: Store,
        overview: Callable[[], Awaitable[Overview]],
        changed: Callable[[], None],
    ) -> None:
        self._store = store
        self._changed = changed
        self.overview = overview
        """Tells how all queues are doing."""
        self.lookers = 0
        """How many look."""
        self._is_running = False
        self._gathered = Changes()
        self._woken = anyio.Event()
        self._told = anyio.Event()
        self.version = 0
        """How often changes were told; those after one of them can be asked for."""
        self._updates: deque[tuple[int, Changes]] = deque(maxlen=_REMEMBERED)
        self._last: Overview | None = None
        self._is_troubled = False
        self._is_connected = False
        self._heard = 0
        self._is_deaf = False

    @property
    def stream(self) -> tuple[str, str]:
        """Tell how the feed of changes is doing: in a word, and in a sentence."""
        if not self.lookers:
            return "idle", "nobody is looking"
        if self._is_connected:
            return "following", "changes are told of as they happen"
        why = "too much happens to be told of each" if self._is_deaf else "the store tells of none"
        return "polling", why

    @contextmanager
    def looking(self) -> Generator[None]:
        """Gather changes during the block."""
        self.lookers += 1
        if not self._is_running:
            self._is_running = True
            spawn_detached(self._run, "gotasks_dashboard live")
        try:
            yield
        finally:
            self.lookers -= 1
            self._woken.set()

    async def after(self, version: int) -> tuple[int, Changes]:
        """Wait for changes after a version, and tell them together."""
        while version == self.version:
            await self._told.wait()
        merged = Changes()
        later = [each for each in self._updates if each[0] > version]
        if len(later) < self.version - version:
            merged.everything = True
        for _, changes in later:
            merged.merge(changes)
        return self.version, merged

    def acted(self, entry: AuditEntry) -> None:
        """Notice what was done from here."""
        gathered = self._gathered
        match entry.target:
            case {"queue": str(queue)}:
                gathered.queues.add(queue)
            case {"task": str(task_id)}:
                gathered.ids.add(task_id)
            case {"node": str()}:
                gathered.nodes = True
            case _:
                gathered.everything |= entry.outcome is not Outcome.RUNNING
        self._woken.set()

    def moved(self, job: Job) -> None:
        """Notice that a job has come further."""
        self._gathered.jobs[job.entry.id] = job
        self._woken.set()

    def stream_changed(self, *, is_connected: bool) -> None:
        """Notice that changes are told of, or no longer."""
        self._is_connected = is_connected

    def heard(self, event: Event) -> None:
        """Notice what the store tells of."""
        self._heard += 1
        match event:
            case Claimable(id=task_id, queue=queue):
                self._gathered.queues.add(queue)
                self._gathered.ids.add(str(task_id))
            case QueueChanged(queue=queue):
                self._gathered.queues.add(queue)
            case NodeOrdered():
                self._gathered.nodes = True
            case Gap():
                self._gathered.everything = True
            case _:
                self._gathered.ids.add(str(event.id))
        self._woken.set()

    async def _run(self) -> None:
        try:
            while self.lookers:
                self._is_deaf = False
                with following(self._store, self):
                    await self._look_on()
                self._is_connected = False
                if self._is_deaf:
                    await self._look_on()
        except Exception:
            logger.exception("changes are not told of any more")
        finally:
            self._is_running = False
            self._is_connected = False

    async def _look_on(self) -> None:
        """Tell of changes while somebody looks: until there are too many, or few again."""
        until = anyio.current_time() + _DEAF_SECONDS
        while self.lookers:
            began, self._heard = anyio.current_time(), 0
            with anyio.move_on_after(_LOOK_SECONDS):
                await self._woken.wait()
            if self.lookers:
                await self._tell()
            await anyio.sleep_until(began + SHORTEST_SECONDS)
            took = anyio.current_time() - began
            if self._is_deaf:
                if anyio.current_time() > until:
                    return
            elif self._heard > _BUSY * took:
                self._is_deaf = True
                return

    async def _tell(self) -> None:
        self._woken = anyio.Event()
        changes, self._gathered = self._gathered, Changes()
        changes.everything |= self._is_deaf
        # Whoever is told asks at once, and must not be answered with what was before; nor is this
        # look, which alone sees what nobody tells of, such as that a task was started.
        self._changed()
        async with self._impatient():
            try:
                overview = await self.overview()
            except GotasksError as error:
                changes.problem = error
                self._is_troubled = True
            else:
                # Whoever was told of trouble is told that it is over, and may have missed much.
                changes.everything |= self._is_troubled
                self._is_troubled = False
                self._compare(changes, overview)
        self._publish(changes)

    @asynccontextmanager
    async def _impatient(self) -> AsyncGenerator[None]:
        """Say it where the store is slow to answer, while it is waited for."""

        async def complain() -> None:
            await anyio.sleep(_SLOW_SECONDS)
            if self._is_troubled:
                return  # why is told already
            self._is_troubled = True
            why = f"the store has not answered for {_SLOW_SECONDS:g} s; this is how it was before"
            self._publish(Changes(problem=StoreUnavailableError(why)))

        async with anyio.create_task_group() as group:
            group.start_soon(complain)
            yield
            group.cancel_scope.cancel()

    def _publish(self, changes: Changes) -> None:
        if not changes.is_empty:
            self.version += 1
            self._updates.append((self.version, changes))
            told, self._told = self._told, anyio.Event()
            told.set()

    def _compare(self, changes: Changes, overview: Overview) -> None:
        before, self._last = self._last, overview
        if before is None or _without_time(before) != _without_time(overview):
            changes.overview = overview
        if before is None:
            changes.everything = True
            return
        queues = {each["name"]: each["counts"] for each in before["queues"]}
        changes.queues |= {
            each["name"]
            for each in overview["queues"]
            if queues.get(each["name"]) != each["counts"]
        }
        changes.nodes |= before["nodes"] != overview["nodes"]


def _without_time(overview: Overview) -> Mapping[str, object]:
    return {name: value for name, value in overview.items() if name != "at"}
