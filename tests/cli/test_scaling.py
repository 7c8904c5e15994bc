"""Worker processes follow what waits in the queues."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import timedelta

import anyio
import pytest

from gotasks_cli._scaling import REPORTS, follow, report
from gotasks_py import Enqueue
from gotasks_py.autoscaling import QueueLoad, ScalingConfig
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
    os.write(writing, b"100 4\n15 4\n")
    async with anyio.create_task_group() as group:
        group.start_soon(follow, reading, processes, EAGER)
        await processes.asked.wait()
        group.cancel_scope.cancel()
    assert processes.size == 4
    assert caplog.messages == ["4 processes instead of 2: 4 wanted, for 15 workers of 4 in each"]


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
        group.start_soon(report, manager, ["reports"], timedelta(seconds=5))
        await anyio.wait_readable(reading)
        group.cancel_scope.cancel()
    assert os.read(reading, 100) == b"0 8\n"
