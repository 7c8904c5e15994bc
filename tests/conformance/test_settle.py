"""What each way of ending an attempt leaves behind."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import MAX_ERRORS, Failure
from gotasks_py.task import Status, Task
from tests.lab import MINUTE, SECOND, Lab, ref_of, without_times

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "ValueError", "no such thing", "Traceback …")
ENDED = {"lease", "due_at", "reap_at"}


async def settle(lab: Lab, task: Task, patch: lifecycle.Patch) -> Task:
    assert await lab.store.settle(ref_of(task), patch)
    return await lab.get(task.id)


async def test_a_done_task_keeps_its_result(lab: Lab) -> None:
    task = await lab.claimed(payload={"n": 1})

    done = await settle(lab, task, lifecycle.completed({"value": 42}))

    assert (done.status, done.result, done.payload) == (Status.DONE, {"value": 42}, {"n": 1})
    assert done.finished_at == done.updated_at
    assert (done.attempts, done.errors, done.lease, done.due_at) == (1, (), None, None)
    assert ENDED.isdisjoint(lab.raw(task.id))


async def test_no_result_is_no_field(lab: Lab) -> None:
    task = await lab.claimed(result="left from before")

    await settle(lab, task, lifecycle.completed(None))

    assert "result" not in lab.raw(task.id)


async def test_a_failed_attempt_waits_for_its_backoff(lab: Lab) -> None:
    task = await lab.claimed()

    retried = await settle(lab, task, lifecycle.retried(FAILURE, MINUTE))

    assert (retried.status, retried.attempts) == (Status.PENDING, 1)
    (error,) = retried.errors
    assert (error.attempt, error.worker, error.kind) == (1, "worker", "ValueError")
    assert (error.message, error.traceback) == ("no such thing", "Traceback …")
    assert error.at == retried.updated_at
    assert retried.run_at == retried.due_at == retried.updated_at + MINUTE
    assert retried.finished_at is None
    assert await lab.claim() is None
    lab.pass_time(MINUTE + SECOND)
    again = await lab.claim()
    assert again is not None
    assert (again.id, again.attempts) == (task.id, 2)
    assert [each.kind for each in again.errors] == ["ValueError"]


async def test_a_retry_without_delay_is_due_at_once(lab: Lab) -> None:
    task = await lab.claimed()

    await settle(lab, task, lifecycle.retried(FAILURE, timedelta(0)))

    again = await lab.claim()
    assert again is not None
    assert again.attempts == 2


async def test_a_dead_letter_keeps_why(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)

    dead = await settle(lab, task, lifecycle.died(FAILURE))

    assert (dead.status, dead.attempts) == (Status.DEAD, 1)
    assert [error.kind for error in dead.errors] == ["ValueError"]
    assert dead.finished_at == dead.updated_at
    assert ENDED.isdisjoint(lab.raw(task.id))


async def test_a_snoozed_task_runs_later_as_if_nothing_had_been(lab: Lab) -> None:
    task = await lab.claimed()

    snoozed = await settle(lab, task, lifecycle.snoozed(MINUTE))

    assert (snoozed.status, snoozed.attempts, snoozed.errors) == (Status.PENDING, 0, ())
    assert (snoozed.interruptions, snoozed.lease) == (0, None)
    assert snoozed.due_at == snoozed.run_at == snoozed.updated_at + MINUTE


async def test_a_released_task_is_due_at_once_and_counts_the_interruption(lab: Lab) -> None:
    task = await lab.claimed()
    before = task.run_at

    released = await settle(lab, task, lifecycle.released())

    assert (released.status, released.attempts, released.errors) == (Status.PENDING, 0, ())
    assert (released.interruptions, released.run_at) == (1, before)
    again = await lab.claim()
    assert again is not None
    assert (again.id, again.attempts, again.interruptions) == (task.id, 1, 1)


async def test_attempts_never_fall_below_none(lab: Lab) -> None:
    task = await lab.claimed()
    lab.edit(task.id, attempts=0)

    assert (await settle(lab, task, lifecycle.released())).attempts == 0


async def test_a_cancelled_task_records_nothing_else(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.transition(task.id, lifecycle.cancel_requested())

    cancelled = await settle(lab, task, lifecycle.cancelled())

    assert (cancelled.status, cancelled.result) == (Status.CANCELLED, None)
    assert (cancelled.errors, cancelled.attempts) == ((), 1)
    assert cancelled.finished_at is not None
    assert ENDED.isdisjoint(lab.raw(task.id))


async def test_progress_is_noted_and_nothing_else_moves(lab: Lab) -> None:
    task = await lab.claimed()
    before = without_times(lab.raw(task.id))

    noted = await settle(lab, task, lifecycle.progressed({"percent": 40}))

    assert noted.progress == {"percent": 40}
    assert without_times(lab.raw(task.id)) == {**before, "progress": {"percent": 40}}


async def test_progress_is_not_told_as_written_where_it_was_not(lab: Lab) -> None:
    task = await lab.claimed()
    await settle(lab, task, lifecycle.completed(None))

    assert await lab.store.settle(ref_of(task), lifecycle.progressed(1)) is False


async def test_an_extended_lease_lasts_from_now(lab: Lab) -> None:
    task = await lab.claimed()
    lab.pass_time(MINUTE / 2)
    before = lab.store.clock.now()

    extended = await settle(lab, task, lifecycle.extended(10 * MINUTE))

    assert extended.lease is not None
    assert extended.due_at == extended.lease.until
    assert abs(extended.lease.until - before - 10 * MINUTE) < SECOND
    lab.pass_time(9 * MINUTE)
    assert await lab.claim() is None


async def test_an_extended_last_attempt_is_left_to_the_reaper(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)

    extended = await settle(lab, task, lifecycle.extended(10 * MINUTE))

    assert extended.lease is not None
    assert extended.due_at is None
    assert lab.raw(task.id)["reap_at"] == extended.lease.until


async def test_errors_are_bounded_and_the_rest_counted(lab: Lab) -> None:
    task_id = await lab.enqueue(max_attempts=100)
    for attempt in range(1, MAX_ERRORS + 4):
        task = await lab.claim()
        assert task is not None
        failure = Failure(attempt, "worker", "E", f"number {attempt}")
        await settle(lab, task, lifecycle.retried(failure, timedelta(0)))

    task = await lab.get(task_id)
    assert (len(task.errors), task.errors_dropped) == (MAX_ERRORS, 3)
    assert [error.message for error in task.errors][::19] == ["number 4", "number 23"]


async def test_settling_an_unasked_task_as_cancelled_is_refused(lab: Lab) -> None:
    task = await lab.claimed()
    before = lab.raw(task.id)

    assert await lab.store.settle(ref_of(task), lifecycle.cancelled()) is False

    assert lab.raw(task.id) == before


async def test_a_task_that_was_asked_to_stop_does_not_go_on(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.transition(task.id, lifecycle.cancel_requested())

    for patch in (
        lifecycle.completed({"value": 1}),
        lifecycle.retried(FAILURE, SECOND),
        lifecycle.died(FAILURE),
        lifecycle.released(),
    ):
        assert await lab.store.settle(ref_of(task), patch) is False
    assert (await lab.get(task.id)).status is Status.RUNNING
