"""Times are aware, UTC, whole milliseconds, and judged by the store's own clock."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from gotasks_py import lifecycle
from gotasks_py.task import Task
from tests.lab import HOUR, MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio

YEAR_9999 = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def times_of(task: Task) -> list[datetime]:
    lease = task.lease
    found = [task.run_at, task.due_at, task.created_at, task.updated_at, task.started_at]
    found += [task.finished_at, task.expires_at, task.retry_until, task.cancel_requested_at]
    found += [error.at for error in task.errors]
    found += [lease.until, lease.due_at] if lease else []
    return [time for time in found if time is not None]


def assert_well_formed(task: Task) -> None:
    for time in times_of(task):
        assert time.tzinfo is UTC or time.utcoffset() == timedelta(0)
        assert time.microsecond % 1000 == 0


async def test_every_time_is_aware_and_in_whole_milliseconds(lab: Lab) -> None:
    now = lab.store.clock.now()
    task = await lab.claimed(expires_at=now + HOUR, retry_until=now + HOUR)
    assert_well_formed(task)
    lab.pass_time(2 * MINUTE)
    again = await lab.claim()
    assert again is not None
    assert_well_formed(again)

    await lab.store.transition(task.id, lifecycle.cancel_requested())
    await lab.store.settle(ref_of(again), lifecycle.cancelled())

    assert_well_formed(await lab.get(task.id))


async def test_times_come_back_as_they_were_sent(lab: Lab) -> None:
    run_at = lab.store.clock.now() + timedelta(milliseconds=12_345)

    task = await lab.get(await lab.enqueue(run_at=run_at, due_at=run_at))

    assert task.run_at == task.due_at == run_at


async def test_the_zone_of_a_time_does_not_matter(lab: Lab) -> None:
    india = timezone(timedelta(hours=5, minutes=30))
    run_at = (lab.store.clock.now() - HOUR).astimezone(india)

    task_id = await lab.enqueue(run_at=run_at, due_at=run_at)

    assert (await lab.get(task_id)).run_at == run_at
    assert await lab.claim() is not None


async def test_the_last_moment_of_the_calendar_is_a_run_time(lab: Lab) -> None:
    task_id = await lab.enqueue(run_at=YEAR_9999, due_at=YEAR_9999, priority=9)
    ready = await lab.enqueue()

    task = await lab.claim()

    assert task is not None
    assert task.id == ready
    assert await lab.claim() is None
    assert (await lab.get(task_id)).run_at == YEAR_9999


async def test_the_store_tells_its_time(lab: Lab) -> None:
    first = lab.store.clock.now()
    task = await lab.claimed()

    assert first.utcoffset() == timedelta(0)
    assert task.started_at is not None
    assert abs(task.started_at - first) < 2 * SECOND
    assert lab.store.clock.now() >= first
    assert lab.store.clock.monotonic() <= lab.store.clock.monotonic()


async def test_a_task_is_not_claimed_before_its_time(lab: Lab) -> None:
    for milliseconds in (50, 500, 5_000):
        then = lab.store.clock.now() + timedelta(milliseconds=milliseconds, seconds=5)
        await lab.enqueue(run_at=then, due_at=then)

    assert await lab.claim() is None


async def test_fractions_of_a_millisecond_in_a_span_do_no_harm(lab: Lab) -> None:
    await lab.enqueue()
    task = await lab.claim(lease=timedelta(seconds=10, microseconds=1_234))
    assert task is not None
    assert task.lease is not None
    assert task.started_at is not None
    assert_well_formed(task)
    assert task.lease.until - task.started_at == timedelta(seconds=10, milliseconds=1)
