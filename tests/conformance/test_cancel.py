"""Cancelling: a waiting task at once, a running one by asking."""

from __future__ import annotations

import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure
from gotasks_py.task import Status
from tests.lab import HOUR, MINUTE, Lab, a_renewal, ref_of, token_of

pytestmark = pytest.mark.anyio

ASK = lifecycle.cancel_requested()


async def test_a_waiting_task_is_cancelled_at_once(lab: Lab) -> None:
    task_id = await lab.enqueue()

    cancelled = await lab.store.transition(task_id, lifecycle.withdrawn())

    assert cancelled is not None
    assert cancelled.status is Status.CANCELLED
    assert cancelled.finished_at == cancelled.cancel_requested_at == cancelled.updated_at
    assert cancelled.due_at is None
    assert await lab.claim() is None


async def test_a_waiting_retry_is_cancelled_with_its_history(lab: Lab) -> None:
    task = await lab.claimed()
    failure = Failure(1, "worker", "E", "no")
    await lab.store.settle(ref_of(task), lifecycle.retried(failure, MINUTE))

    cancelled = await lab.store.transition(task.id, lifecycle.withdrawn())

    assert cancelled is not None
    assert (cancelled.attempts, len(cancelled.errors)) == (1, 1)
    lab.pass_time(HOUR)
    assert await lab.claim() is None


@pytest.mark.parametrize("max_attempts", [1, 5])
async def test_a_running_task_is_asked_and_nobody_reclaims_it(lab: Lab, max_attempts: int) -> None:
    task = await lab.claimed(max_attempts=max_attempts)
    assert task.lease is not None

    asked = await lab.store.transition(task.id, ASK)

    assert asked is not None
    assert (asked.status, asked.lease, asked.due_at) == (Status.RUNNING, task.lease, None)
    assert asked.cancel_requested_at == asked.updated_at
    assert lab.raw(task.id)["reap_at"] == task.lease.until
    lab.pass_time(HOUR)
    assert await lab.claim() is None


async def test_asking_twice_changes_nothing(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.transition(task.id, ASK)
    before = lab.raw(task.id)

    assert await lab.store.transition(task.id, ASK) is None

    assert lab.raw(task.id) == before


@pytest.mark.parametrize("status", ["pending", "done", "dead", "cancelled"])
async def test_only_a_running_task_is_asked(lab: Lab, status: str) -> None:
    task_id = await lab.enqueue()
    lab.edit(task_id, status=status)
    before = lab.raw(task_id)

    assert await lab.store.transition(task_id, ASK) is None

    assert lab.raw(task_id) == before


@pytest.mark.parametrize("status", ["running", "done", "dead", "cancelled"])
async def test_only_a_waiting_task_is_withdrawn(lab: Lab, status: str) -> None:
    task_id = await lab.enqueue()
    lab.edit(task_id, status=status)
    before = lab.raw(task_id)

    assert await lab.store.transition(task_id, lifecycle.withdrawn()) is None

    assert lab.raw(task_id) == before


async def test_a_renewal_keeps_an_asked_task_from_the_reaper_and_tells_of_it(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.transition(task.id, ASK)

    renewed = await lab.store.renew([a_renewal(task, HOUR)])

    assert renewed.lost == frozenset()
    assert renewed.cancelled == {token_of(task)}
    lab.pass_time(HOUR - MINUTE)
    assert await lab.store.reap(10) == []
    assert await lab.claim() is None


async def test_an_asked_task_whose_worker_is_gone_is_reaped_as_cancelled(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=5)
    await lab.store.transition(task.id, ASK)
    lab.pass_time(HOUR)

    (reaped,) = await lab.store.reap(10)

    assert (reaped.id, reaped.status, reaped.errors) == (task.id, Status.CANCELLED, ())
    assert reaped.finished_at is not None


async def test_progress_and_extension_still_work_until_the_handler_stops(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.transition(task.id, ASK)

    assert await lab.store.settle(ref_of(task), lifecycle.progressed(5))
    assert await lab.store.settle(ref_of(task), lifecycle.extended(HOUR))

    asked = await lab.get(task.id)
    assert asked.lease is not None
    assert (asked.progress, asked.due_at) == (5, None)
    assert lab.raw(task.id)["reap_at"] == asked.lease.until
