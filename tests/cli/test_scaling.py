"""Worker processes follow what waits in the queues."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator
from datetime import timedelta

import anyio
import pytest

from gotasks_cli import _scaling
from gotasks_cli._scaling import REPORTS, Demand, demand, follow, line_of, report
from gotasks_py import Enqueue
from gotasks_py.autoscaling import QueueLoad, ScalingConfig
from gotasks_py.health import PoolHealth
from tests.cli import shop

pytestmark = pytest.mark.anyio

EAGER = ScalingConfig(
    least=1,
    most=8,
    pause_up=timedelta(0),
    pause_down=timedelta(0),
    target_wait=timedelta(seconds=1),
)


class Processes:
    """So many processes, and the sizes that were asked for."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.asked = anyio.Event()

    def scale(self, size: int) -> None:
        self.size = size
        self.asked.set()


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


async def test_the_supervisor_follows_the_latest_report_and_says_why(
    pipe: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reading, writing = pipe
    processes = Processes(2)
    # More than one read holds, as after a time in which the supervisor was not scheduled.
    for _ in range(200):
        os.write(writing, line_of(Demand(25, 100, 4, ["q"])))
    os.write(writing, line_of(Demand(4, 15, 4, ["q", "r"])))
    async with anyio.create_task_group() as group:
        group.start_soon(follow, reading, processes, EAGER)
        await processes.asked.wait()
        group.cancel_scope.cancel()
    assert processes.size == 4
    assert caplog.messages == [
        "4 processes instead of 2: 4 wanted, for 15 workers of 4 in each, of queues q, r"
    ]


async def test_loads_tell_what_waits_and_what_runs() -> None:
    manager = shop.make()
    await manager.enqueue_many([Enqueue("emails", "send", shop.Email(to="a"))] * 3)
    by_queue = {each.queue: each for each in await manager.loads()}
    assert by_queue["reports"] == QueueLoad(queue="reports", due=0, running=0)
    assert (by_queue["emails"].due, by_queue["emails"].running) == (3, 0)


async def test_a_process_reports_the_workers_that_its_own_queues_want(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    monkeypatch.setenv(REPORTS, str(writing))
    manager = shop.make()
    manager.override(queues=["reports"])
    await manager.enqueue("emails", "send", shop.Email(to="a"))
    async with manager, anyio.create_task_group() as group:
        group.start_soon(report, manager, timedelta(seconds=5))
        await anyio.wait_readable(reading)
        group.cancel_scope.cancel()
    assert json.loads(os.read(reading, 200)) == [0, "for 0 workers of 8 in each, of queue reports"]


OWN = PoolHealth(workers=2, most_workers=2, queues={"own": 2})
SHARED = PoolHealth(workers=8, most_workers=8, queues={"a": 8, "b": 8, "few": 1})


@pytest.mark.parametrize(
    ("wanted", "processes", "because"),
    [
        ({}, 0, "for 0 workers of 8 in each, of queues a, b, few"),
        # The shared workers do nothing for a queue that has its own.
        ({"own": 6}, 3, "for 6 workers of 2 in each, of queue own"),
        ({"own": 6, "a": 8}, 3, "for 6 workers of 2 in each, of queue own"),
        ({"own": 2, "a": 9, "b": 8}, 3, "for 17 workers of 8 in each, of queues a, b"),
        # Nor do all of them for a queue that may have a few.
        ({"few": 4}, 4, "for 4 workers of 1 in each, of queue few"),
        ({"elsewhere": 100, "a": 1}, 1, "for 1 workers of 8 in each, of queue a"),
    ],
)
def test_the_pool_decides_that_lacks_workers_most(
    wanted: dict[str, int], processes: int, because: str
) -> None:
    found = demand([SHARED, OWN], wanted)
    assert (found.processes, found.reason) == (processes, because)


def test_what_a_process_reports_fits_into_one_write() -> None:
    line = line_of(Demand(1, 1, 1, ["\N{CJK UNIFIED IDEOGRAPH-5DE8}" * 200] * 5))
    assert len(line) < 4096
    assert line.count(b"\n") == 1


@pytest.mark.parametrize("end", ["gone", "full"])
async def test_a_supervisor_that_does_not_listen_ends_no_worker(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    reading, writing = os.pipe()
    monkeypatch.setenv(REPORTS, str(writing))
    monkeypatch.setattr(_scaling, "_LOOK_SECONDS", 0.001)
    if end == "gone":
        os.close(reading)
    else:
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
    looks = 0

    async def loads() -> list[QueueLoad]:
        nonlocal looks
        looks += 1
        if looks == 3:
            looked_again.set()
        return []

    manager = shop.make()
    looked_again = anyio.Event()
    monkeypatch.setattr(manager, "loads", loads)
    async with manager, anyio.create_task_group() as group:
        group.start_soon(report, manager, timedelta(seconds=5))
        await looked_again.wait()
        assert manager.health().pools  # it is still at work
        group.cancel_scope.cancel()
    os.close(writing)
    if end == "full":
        os.close(reading)
