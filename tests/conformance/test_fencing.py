"""Only the current token writes; time alone takes nothing away."""

from __future__ import annotations

import pytest

from gotasks_py import lifecycle
from gotasks_py.lifecycle import Failure, Patch
from gotasks_py.task import LeaseRef, Status, Task
from tests.lab import HOUR, MINUTE, SECOND, Lab, a_renewal, ref_of, token_of

pytestmark = pytest.mark.anyio

FAILURE = Failure(1, "worker", "ValueError", "no")


def writes(token: str) -> list[Patch]:
    """Every write to a running task."""
    return [
        lifecycle.completed({"value": 1}),
        lifecycle.retried(FAILURE, SECOND),
        lifecycle.died(FAILURE),
        lifecycle.snoozed(SECOND),
        lifecycle.released(),
        lifecycle.cancelled(),
        lifecycle.extended(HOUR),
        lifecycle.progressed({"percent": 5}),
    ]


async def taken_over(lab: Lab) -> tuple[Task, Task]:
    """Claim a task twice: the first lease lapsed."""
    first = await lab.claimed()
    lab.pass_time(2 * MINUTE)
    second = await lab.claim(owner="other")
    assert second is not None
    return first, second


@pytest.mark.parametrize("is_asked_to_stop", [False, True])
async def test_a_loser_changes_nothing(lab: Lab, is_asked_to_stop: bool) -> None:
    first, second = await taken_over(lab)
    if is_asked_to_stop:
        await lab.store.transition(second.id, lifecycle.cancel_requested())
    before = lab.raw(second.id)

    for patch in writes(token_of(first)):
        assert await lab.store.settle(ref_of(first), patch) is False
        assert lab.raw(second.id) == before


async def test_the_winner_settles_after_the_loser_tried(lab: Lab) -> None:
    first, second = await taken_over(lab)
    await lab.store.settle(ref_of(first), lifecycle.completed({"by": "first"}))

    assert await lab.store.settle(ref_of(second), lifecycle.completed({"by": "second"}))

    task = await lab.get(second.id)
    assert (task.status, task.result) == (Status.DONE, {"by": "second"})


async def test_the_same_worker_is_fenced_from_its_own_earlier_claim(lab: Lab) -> None:
    first = await lab.claimed()
    lab.pass_time(2 * MINUTE)
    second = await lab.claim(owner="worker")
    assert second is not None
    assert second.lease is not None
    assert first.lease is not None
    assert second.lease.owner == first.lease.owner

    assert await lab.store.is_held(ref_of(first)) is False
    assert await lab.store.is_held(ref_of(second)) is True
    assert not await lab.store.settle(ref_of(first), lifecycle.completed(None))


async def test_a_late_finish_succeeds_while_nobody_reclaimed(lab: Lab) -> None:
    task = await lab.claimed()
    lab.pass_time(1000 * HOUR)

    assert await lab.store.is_held(ref_of(task)) is True
    assert await lab.store.settle(ref_of(task), lifecycle.completed(None))

    assert (await lab.get(task.id)).status is Status.DONE


async def test_a_late_finish_of_a_last_attempt_succeeds_before_the_reaper(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    lab.pass_time(1000 * HOUR)

    assert await lab.store.settle(ref_of(task), lifecycle.completed(None))

    assert await lab.store.reap(10) == []
    assert (await lab.get(task.id)).status is Status.DONE


async def test_the_reaper_fences_a_late_finish(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=1)
    lab.pass_time(2 * MINUTE)
    await lab.store.reap(10)
    before = lab.raw(task.id)

    assert not await lab.store.settle(ref_of(task), lifecycle.completed(None))

    assert lab.raw(task.id) == before


async def test_a_token_is_compared_as_text(lab: Lab) -> None:
    task = await lab.claimed()

    for wrong in ("", "other", "$lease.token", "$$ROOT"):
        ref = LeaseRef(task.id, task.queue, task.lane, wrong)
        assert await lab.store.is_held(ref) is False
        assert await lab.store.settle(ref, lifecycle.completed(None)) is False
    assert (await lab.get(task.id)).status is Status.RUNNING


async def test_a_deleted_task_is_nobodys(lab: Lab) -> None:
    task = await lab.claimed()
    await lab.store.delete(task.id)

    assert await lab.store.is_held(ref_of(task)) is False
    assert not await lab.store.settle(ref_of(task), lifecycle.completed(None))
    assert (await lab.store.renew([a_renewal(task)])).lost == {token_of(task)}
    assert await lab.store.get(task.id) is None


async def test_a_purged_task_is_nobodys(lab: Lab) -> None:
    now = lab.store.clock.now()
    task = await lab.claimed(expires_at=now + HOUR)
    await lab.store.delete(task.id)  # what the TTL does, at a moment of our choice

    assert not await lab.store.settle(ref_of(task), lifecycle.completed(None))


async def test_a_pending_task_is_nobodys(lab: Lab) -> None:
    task_id = await lab.enqueue()
    ref = LeaseRef(task_id, "q", 0, "token")

    assert await lab.store.is_held(ref) is False
    assert not await lab.store.settle(ref, lifecycle.completed(None))


async def test_ending_an_attempt_twice_counts_as_once(lab: Lab) -> None:
    for number in range(6):
        task = await lab.claimed()
        patch = writes(token_of(task))[number]
        if patch.cancel_requested:
            await lab.store.transition(task.id, lifecycle.cancel_requested())
        assert await lab.store.settle(ref_of(task), patch) is True
        before = lab.raw(task.id)

        assert await lab.store.settle(ref_of(task), patch) is True

        assert lab.raw(task.id) == before
        await lab.store.delete(task.id)


async def test_settling_again_after_the_next_claim_changes_nothing(lab: Lab) -> None:
    task = await lab.claimed()
    patch = lifecycle.retried(FAILURE, -SECOND)
    assert await lab.store.settle(ref_of(task), patch)
    assert await lab.claim() is not None
    before = lab.raw(task.id)

    # Who lost only the reply is told that the write had succeeded.
    assert await lab.store.settle(ref_of(task), patch) is True

    assert lab.raw(task.id) == before
