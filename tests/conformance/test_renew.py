"""Many leases renewed at once, from the event loop and from a thread."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta

import anyio
import anyio.to_thread
import pytest

from gotasks_memstore import MemStore
from gotasks_py import lifecycle
from gotasks_py.errors import StoreUnavailableError
from gotasks_py.store import Renewal, Renewed
from gotasks_py.task import Task
from tests.lab import HOUR, MINUTE, SECOND, Lab, ManualClock, MemHand, a_renewal, ref_of, token_of

pytestmark = pytest.mark.anyio

Renew = Callable[[Sequence[Renewal]], Awaitable[Renewed]]


@pytest.fixture(params=["loop", "thread"])
async def renew(request: pytest.FixtureRequest, lab: Lab) -> AsyncIterator[Renew]:
    """Renew in either way; a store that no thread can reach renews on the loop alone."""
    if request.param == "loop":
        yield lab.store.renew
        return
    renewer = lab.store.open_renewer(timedelta(seconds=10))
    if renewer is None:
        assert lab.kind == "memstore"
        pytest.skip("a manual clock can be read on its own thread only")

    async def renew_in_thread(renewals: Sequence[Renewal]) -> Renewed:
        return await anyio.to_thread.run_sync(renewer.renew, renewals)

    yield renew_in_thread
    renewer.close()


async def some_claimed(lab: Lab, number: int, **fields: object) -> list[Task]:
    return [await lab.claimed(**fields) for _ in range(number)]


async def test_all_leases_last_from_now(lab: Lab, renew: Renew) -> None:
    tasks = await some_claimed(lab, 5)
    lab.pass_time(MINUTE / 2)
    before = lab.store.clock.now()

    assert await renew([a_renewal(task, HOUR) for task in tasks]) == Renewed()

    for task in tasks:
        renewed = await lab.get(task.id)
        assert renewed.lease is not None
        assert abs(renewed.lease.until - before - HOUR) < 2 * SECOND
        assert renewed.due_at == renewed.lease.until
        assert token_of(renewed) == token_of(task)


async def test_each_lease_has_its_own_length(lab: Lab, renew: Renew) -> None:
    short, long = await some_claimed(lab, 2)

    await renew([a_renewal(short, 10 * SECOND), a_renewal(long, HOUR)])
    lab.pass_time(MINUTE)

    again = await lab.claim()
    assert again is not None
    assert again.id == short.id
    assert await lab.claim() is None


async def test_a_lapsed_lease_that_nobody_took_is_renewed(lab: Lab, renew: Renew) -> None:
    (task,) = await some_claimed(lab, 1)
    lab.pass_time(HOUR)

    assert await renew([a_renewal(task)]) == Renewed()

    assert await lab.claim() is None


async def test_last_attempts_are_renewed_for_the_reaper(lab: Lab, renew: Renew) -> None:
    (task,) = await some_claimed(lab, 1, max_attempts=1)

    assert await renew([a_renewal(task, HOUR)]) == Renewed()

    renewed = await lab.get(task.id)
    assert renewed.lease is not None
    assert renewed.due_at is None
    assert lab.raw(task.id)["reap_at"] == renewed.lease.until


async def test_a_lost_lease_is_told_and_the_others_are_renewed(lab: Lab, renew: Renew) -> None:
    lost, deleted, done, kept = await some_claimed(lab, 4)
    lab.edit(lost.id, due_at=lab.store.clock.now() - SECOND)
    taken = await lab.claim(owner="other")
    assert taken is not None
    assert taken.id == lost.id
    await lab.store.delete(deleted.id)
    await lab.store.settle(ref_of(done), lifecycle.completed(None))
    before = lab.raw(lost.id), lab.raw(done.id)

    renewed = await renew([a_renewal(task, HOUR) for task in (lost, deleted, done, kept)])

    assert renewed.lost == {token_of(task) for task in (lost, deleted, done)}
    assert renewed.cancelled == frozenset()
    assert (lab.raw(lost.id), lab.raw(done.id)) == before
    lab.pass_time(HOUR / 2)
    claimed = [task.id for _ in range(3) if (task := await lab.claim()) is not None]
    assert claimed == [lost.id]


async def test_a_request_to_cancel_is_told_and_the_lease_renewed(lab: Lab, renew: Renew) -> None:
    asked, other = await some_claimed(lab, 2)
    await lab.store.transition(asked.id, lifecycle.cancel_requested())
    before = lab.store.clock.now()

    renewed = await renew([a_renewal(asked, HOUR), a_renewal(other, HOUR)])

    assert renewed.lost == frozenset()
    assert renewed.cancelled == {token_of(asked)}
    lease = (await lab.get(asked.id)).lease
    assert lease is not None
    assert abs(lease.until - before - HOUR) < 2 * SECOND


async def test_a_known_request_to_cancel_renews_the_lease_as_well(lab: Lab, renew: Renew) -> None:
    asked, other, lost = await some_claimed(lab, 3)
    await lab.store.transition(asked.id, lifecycle.cancel_requested())
    await lab.store.delete(lost.id)
    known = a_renewal(asked, HOUR, cancelling=True)
    before = lab.store.clock.now()

    assert (await renew([known, a_renewal(other)])).lost == frozenset()
    assert (await renew([known, a_renewal(other), a_renewal(lost)])).lost == {token_of(lost)}

    lease = (await lab.get(asked.id)).lease
    assert lease is not None
    assert abs(lease.until - before - HOUR) < 2 * SECOND


async def test_tasks_of_several_queues_are_renewed_together(lab: Lab, renew: Renew) -> None:
    tasks = list[Task]()
    for number in range(3):
        await lab.enqueue(queue=f"q{number}", lane=number)
        task = await lab.claim(queue=f"q{number}", lanes=(number,))
        assert task is not None
        tasks.append(task)

    assert await renew([a_renewal(task) for task in tasks]) == Renewed()
    assert all([await lab.store.is_held(ref_of(task)) for task in tasks])


async def test_hundreds_are_renewed_with_one_call(lab: Lab, renew: Renew) -> None:
    await lab.store.insert_many([lab.a_task() for _ in range(200)])
    tasks = await lab.claim_many(200)
    assert len(tasks) == 200

    assert await renew([a_renewal(task) for task in tasks]) == Renewed()


async def test_memory_is_renewed_from_a_thread_on_the_system_clock() -> None:
    store = MemStore()
    lab = Lab(store, MemHand(store, ManualClock()), "memstore")
    task = await lab.claimed()
    renewer = store.open_renewer(SECOND)
    assert renewer is not None

    renewed = await anyio.to_thread.run_sync(renewer.renew, [a_renewal(task)])
    renewer.close()

    assert renewed == Renewed()
    lease = (await lab.get(task.id)).lease
    assert lease is not None
    assert lease.until - store.clock.now() > HOUR - MINUTE


@pytest.mark.mongo
async def test_a_renewer_that_reaches_nobody_says_so_in_time(mongo_lab: Lab) -> None:
    task = await mongo_lab.claimed()
    renewer = mongo_lab.store.open_renewer(timedelta(milliseconds=1))
    assert renewer is not None

    try:
        # No server answers within a millisecond of which connecting takes most.
        with anyio.fail_after(5), pytest.raises(StoreUnavailableError):
            await anyio.to_thread.run_sync(renewer.renew, [a_renewal(task)] * 1000)
    finally:
        renewer.close()
