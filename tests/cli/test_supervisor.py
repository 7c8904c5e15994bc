"""The rules of the supervisor, on processes that are none, in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import anyio
import pytest
from trio.testing import MockClock

from gotasks_cli._problems import ExitCode, code_for
from gotasks_cli._processes import Limits, until_exceeded
from gotasks_cli._supervisor import Ending, Supervisor, pause_after
from gotasks_memstore import MemStore
from gotasks_py import Manager, QueueConflictError, StoreUnavailableError, UnknownQueueError
from gotasks_py.health import Health

pytestmark = pytest.mark.anyio

GRACE = timedelta(seconds=30)
SIGTERM, SIGKILL = -15, -9


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": MockClock(autojump_threshold=0)}


@dataclass(eq=False)
class FakeChild:
    """A process that ends when it is told to, in its own time."""

    pid: int
    slot: int
    takes: float
    began: float
    stops: int = 0
    code: int | None = None
    ended: anyio.Event = field(default_factory=anyio.Event)
    patience: anyio.CancelScope = field(default_factory=anyio.CancelScope)

    async def wait(self) -> int:
        with self.patience:
            await self.ended.wait()
        if self.code is None:
            self.code = 0
        return self.code

    def stop(self) -> None:
        self.stops += 1
        self.patience.deadline = anyio.current_time() + (self.takes if self.stops < 2 else 0)

    def kill(self) -> None:
        self.end(SIGKILL)

    def end(self, code: int) -> None:
        self.code = code
        self.ended.set()


class Nursery:
    """Where the processes of a test come from."""

    def __init__(self, *, takes: float = 1.0) -> None:
        self.children: list[FakeChild] = []
        self.takes = takes
        self.born = anyio.Event()
        self.ends_at_once: int | None = None

    async def spawn(self, slot: int) -> FakeChild:
        child = FakeChild(len(self.children) + 1, slot, self.takes, anyio.current_time())
        self.children.append(child)
        if self.ends_at_once is not None:
            child.end(self.ends_at_once)
        self.born.set()
        self.born = anyio.Event()
        return child

    async def grown(self, number: int) -> FakeChild:
        while len(self.children) < number:
            await self.born.wait()
        return self.children[number - 1]

    def alive(self) -> list[int]:
        return sorted(child.slot for child in self.children if child.code is None)


@dataclass
class Run:
    supervisor: Supervisor
    code: int | None = None


@asynccontextmanager
async def running(nursery: Nursery, size: int = 1, **settings: Any) -> AsyncGenerator[Run]:
    """Run a supervisor until the block has stopped it."""
    run = Run(Supervisor(nursery.spawn, grace=GRACE, **settings))

    async def work() -> None:
        run.code = await run.supervisor.run(size)

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await nursery.grown(size)
        yield run


def ending(code: int, lived: float = 0, crashes: int = 0, *, has_worked: bool = False) -> Ending:
    return Ending(code=code, lived=timedelta(seconds=lived), crashes=crashes, has_worked=has_worked)


@pytest.mark.parametrize(
    ("ended", "seconds"),
    [
        (ending(ExitCode.RECYCLED), 0),
        (ending(ExitCode.RECYCLED, crashes=5), 0),
        (ending(SIGKILL), 0.5),
        (ending(SIGKILL, crashes=1), 1),
        (ending(SIGKILL, crashes=3), 4),
        (ending(SIGKILL, crashes=100), 30),
        (ending(SIGKILL, lived=60, crashes=100), 0.5),
        (ending(ExitCode.OK), 0.5),
        (ending(ExitCode.UNAVAILABLE), 0.5),
        (ending(ExitCode.USAGE), None),
        (ending(ExitCode.UNUSABLE, crashes=3), None),
        (ending(code_for(QueueConflictError("q", {"ttl_ms": (1, 2)}))), None),
        (ending(code_for(UnknownQueueError("q", []))), None),
        (ending(code_for(StoreUnavailableError("away"))), 0.5),
        (ending(ExitCode.UNUSABLE, has_worked=True), 0.5),
    ],
)
async def test_the_pause_before_the_next_process(ended: Ending, seconds: float | None) -> None:
    expected = None if seconds is None else timedelta(seconds=seconds)
    assert pause_after(ended) == expected


async def test_a_process_reaches_a_limit_only_when_it_has_worked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stop that comes before there is something to stop would be lost."""
    manager = Manager(MemStore())
    health = Health(ok=True, reasons=[], is_running=True)
    monkeypatch.setattr(manager, "health", lambda: health)
    reached: list[str] = []

    async def look() -> None:
        reached.append(await until_exceeded(manager, Limits(tasks=3, memory_mib=1)))

    async with anyio.create_task_group() as group:
        group.start_soon(look)
        await anyio.sleep(60)
        assert not reached
        health = replace(health, claimed_tasks=1)
        await anyio.sleep(1)
    assert len(reached) == 1
    assert reached[0].endswith(" MiB")
    assert Limits(tasks=3).exceeded(2, 1 << 40) is None
    assert Limits(tasks=3).exceeded(3, 0) == "3 tasks"


async def test_a_process_that_crashes_again_and_again_comes_back_ever_later() -> None:
    nursery = Nursery()
    async with running(nursery) as run:
        for number in range(1, 6):
            (await nursery.grown(number)).end(SIGKILL)
        await nursery.grown(6)
        run.supervisor.stop()
    began = [child.began for child in nursery.children]
    gaps = [later - earlier for earlier, later in pairwise(began)]
    assert gaps == pytest.approx([0.5, 1, 2, 4, 8], abs=0.001)
    assert run.code == ExitCode.OK


async def test_a_crash_leaves_the_other_processes_alone() -> None:
    nursery = Nursery()
    async with running(nursery, 3) as run:
        nursery.children[1].end(SIGKILL)
        again = await nursery.grown(4)
        assert again.slot == nursery.children[1].slot
        assert [child.stops for child in nursery.children] == [0, 0, 0, 0]
        run.supervisor.stop()
    assert nursery.alive() == []


async def test_a_process_that_has_reached_its_limit_is_replaced_at_once() -> None:
    nursery = Nursery()
    async with running(nursery) as run:
        nursery.children[0].end(ExitCode.RECYCLED)
        assert (await nursery.grown(2)).began == nursery.children[0].began
        run.supervisor.stop()


async def test_an_app_that_does_not_load_ends_the_supervisor_with_its_code() -> None:
    nursery = Nursery()
    async with running(nursery, 2) as run:
        nursery.children[0].end(ExitCode.UNUSABLE)
    assert run.code == ExitCode.UNUSABLE
    assert len(nursery.children) == 2
    assert nursery.alive() == []


async def test_an_app_that_does_not_load_any_more_is_tried_again() -> None:
    nursery = Nursery()
    async with running(nursery) as run:
        await anyio.sleep(61)
        nursery.children[0].end(SIGKILL)
        (await nursery.grown(2)).end(ExitCode.UNUSABLE)
        await nursery.grown(3)
        run.supervisor.stop()
    assert run.code == ExitCode.OK


async def test_while_code_is_watched_a_broken_app_waits_for_a_change() -> None:
    nursery = Nursery()
    async with running(nursery, waits_for_changes=True) as run:
        nursery.children[0].end(ExitCode.UNUSABLE)
        await anyio.sleep(1000)
        assert len(nursery.children) == 1
        run.supervisor.reload()
        await nursery.grown(2)
        run.supervisor.stop()
    assert run.code == ExitCode.OK


async def test_a_reload_starts_every_process_anew_after_its_tasks() -> None:
    nursery = Nursery(takes=5)
    async with running(nursery, 2) as run:
        run.supervisor.reload()
        run.supervisor.reload()
        began = (await nursery.grown(4)).began
        assert [child.stops for child in nursery.children] == [1, 1, 0, 0]
        assert began - nursery.children[0].began == pytest.approx(5)
        run.supervisor.stop()


async def test_the_first_signal_lets_tasks_finish() -> None:
    nursery = Nursery(takes=20)
    async with running(nursery, 2) as run:
        began = anyio.current_time()
        run.supervisor.stop()
    assert anyio.current_time() - began == pytest.approx(20)
    assert [child.code for child in nursery.children] == [0, 0]
    assert run.code == ExitCode.OK


async def test_the_second_signal_stops_at_once_and_the_third_by_force() -> None:
    nursery = Nursery(takes=1000)
    async with running(nursery, 2) as run:
        began = anyio.current_time()
        run.supervisor.stop()
        deaf, other = nursery.children
        deaf.stops = 0  # it does not hear the second one
        run.supervisor.stop()
        await anyio.sleep(1)
        assert nursery.alive() == [deaf.slot]
        run.supervisor.stop()
    assert anyio.current_time() == began + 1
    assert (deaf.code, other.code) == (SIGKILL, 0)
    assert run.code == ExitCode.FAILED


async def test_a_process_that_does_not_stop_is_killed_after_its_grace() -> None:
    nursery = Nursery(takes=1000)
    async with running(nursery) as run:
        began = anyio.current_time()
        run.supervisor.stop()
    assert anyio.current_time() - began == pytest.approx(60)
    assert nursery.children[0].code == SIGKILL
    assert run.code == ExitCode.FAILED


async def test_a_stop_while_a_crashed_process_waits_starts_no_other() -> None:
    nursery = Nursery()
    async with running(nursery) as run:
        nursery.children[0].end(SIGKILL)
        await anyio.sleep(0.1)
        run.supervisor.stop()
    assert len(nursery.children) == 1


async def test_the_number_of_processes_follows_what_is_asked_for() -> None:
    nursery = Nursery(takes=3)
    async with running(nursery, 1) as run:
        run.supervisor.scale(3)
        await nursery.grown(3)
        assert nursery.alive() == [1, 2, 3]
        run.supervisor.scale(2)
        await anyio.sleep(3.1)
        assert nursery.alive() == [1, 2]
        run.supervisor.scale(3)
        await nursery.grown(4)
        assert nursery.alive() == [1, 2, 3]
        assert run.supervisor.size == 3
        run.supervisor.stop()
        run.supervisor.scale(9)
    assert len(nursery.children) == 4
