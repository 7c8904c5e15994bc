"""What no other path would touch is found, and mended once."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py.controls import Controlling, NodeOrder
from gotasks_py.lanes import Lanes
from gotasks_py.metering import Beat, Metering, Report
from gotasks_py.nodes import Node
from gotasks_py.policy import QueuePolicy
from gotasks_py.sweeping import Sweeping, Swept
from gotasks_py.task import Status
from tests.lab import HOUR, MINUTE, SECOND, Lab, ref_of

pytestmark = pytest.mark.anyio

DAY = timedelta(days=1)


def sweeping(lab: Lab) -> Sweeping:
    assert isinstance(lab.store, Sweeping)
    return lab.store


async def sweep(lab: Lab, older_than: timedelta = -MINUTE, limit: int = 100) -> Swept:
    return await sweeping(lab).sweep(older_than=older_than, limit=limit)


async def test_a_pending_task_without_a_due_time_is_due_when_it_was_to_run(lab: Lab) -> None:
    store = sweeping(lab)
    run_at = lab.store.clock.now() + HOUR
    late, now = await lab.enqueue(run_at=run_at, due_at=run_at), await lab.enqueue()
    lab.edit(late, "due_at")
    lab.edit(now, due_at=None)
    assert {task.id for task in await store.stuck(10)} == {late, now}
    assert await lab.claim() is None

    rescued = await store.rescue(10)

    assert {task.id: task.status for task in rescued} == dict.fromkeys((late, now), Status.PENDING)
    assert (await lab.get(late)).due_at == run_at
    claimed = await lab.claim()
    assert claimed is not None
    assert (claimed.id, claimed.attempts) == (now, 1)
    assert (await store.stuck(10), await store.rescue(10)) == ([], [])


async def test_a_running_task_is_its_workers_until_the_lease_ends(lab: Lab) -> None:
    task = await lab.claimed(max_attempts=2)
    lab.edit(task.id, "due_at")

    (rescued,) = await sweeping(lab).rescue(10)

    assert (rescued.status, rescued.attempts) == (Status.RUNNING, 1)
    assert task.lease is not None
    assert rescued.due_at == task.lease.until
    assert await lab.store.is_held(ref_of(task))
    assert await lab.claim() is None
    lab.pass_time(2 * MINUTE)
    again = await lab.claim()
    assert again is not None
    assert [error.kind for error in again.errors] == ["lease_expired"]


@pytest.mark.parametrize("asked", [True, False])
async def test_what_may_not_run_again_is_left_to_the_janitor(lab: Lab, asked: bool) -> None:
    task = await lab.claimed(max_attempts=2 if asked else 1)
    fields = {"cancel_requested_at": task.updated_at} if asked else {}
    lab.edit(task.id, "due_at", "reap_at", **fields)
    lab.pass_time(2 * MINUTE)
    assert await lab.store.reap(10) == []

    (rescued,) = await sweeping(lab).rescue(10)
    assert (rescued.due_at, await lab.claim()) == (None, None)

    (reaped,) = await lab.store.reap(10)
    assert reaped.status is (Status.CANCELLED if asked else Status.DEAD)


async def test_nothing_else_is_stuck(lab: Lab) -> None:
    await lab.claimed(max_attempts=1)
    await lab.claimed(max_attempts=3)
    await lab.claim_many(1)
    for status in ("done", "dead", "cancelled"):
        document = lab.a_task(status=status, finished_at=lab.store.clock.now())
        del document["due_at"]
        lab.hand.write(document)
    lab.hand.write({**lab.a_task(status="elsewhere"), "due_at": None})
    lab.pass_time(DAY)

    assert (await sweeping(lab).stuck(10), await sweeping(lab).rescue(10)) == ([], [])


async def test_at_most_the_limit_is_rescued_and_each_task_once(lab: Lab) -> None:
    for _ in range(7):
        lab.edit(await lab.enqueue(), "due_at")
    assert len(await sweeping(lab).stuck(3)) == 3
    assert len(await sweeping(lab).rescue(3)) == 3
    rescued = list[object]()

    async def rescue() -> None:
        rescued.extend(task.id for task in await sweeping(lab).rescue(100))

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(rescue)
    assert len(rescued) == len(set(rescued)) == 4


async def test_only_old_orders_to_managers_that_are_gone_are_forgotten(lab: Lab) -> None:
    store = lab.store
    assert isinstance(store, Controlling)
    assert isinstance(store, Metering)
    for name in ("m.1", "m.2", "m.3"):
        await store.order_node(name, NodeOrder.QUIET)
    node = Node(id="m.2", host="h", pid=7, version="1")
    await store.report(Report(beat=Beat(node=node, good_for=HOUR)))

    assert await sweep(lab, DAY) == Swept()
    assert len((await sweep(lab, limit=1)).orders) <= 1
    await sweep(lab)

    assert await store.node_orders() == {"m.2": NodeOrder.QUIET}
    assert await sweep(lab) == Swept()


async def test_tasks_in_lanes_beyond_those_recorded_are_within_reach_again(lab: Lab) -> None:
    await lab.store.register_queue(QueuePolicy("q", lanes=2))
    await lab.store.register_queue(QueuePolicy("r"))
    await lab.enqueue(lane=1)
    await lab.enqueue(queue="r")
    assert await sweep(lab) == Swept()
    await lab.enqueue(lane=5)
    await lab.enqueue(lane=3)
    for lane in (-1, 64, 2.5, "x"):
        lab.hand.write(lab.a_task(lane=lane))

    assert (await sweep(lab)).lanes == {"q": 6}

    recorded = Lanes.from_document((await lab.store.queues())["q"])
    assert (recorded.current, recorded.keyed, recorded.most) == (2, 2, 6)
    assert await sweep(lab) == Swept()
    request_lanes = tuple(range(recorded.most))
    assert len(await lab.claim_many(lanes=request_lanes)) == 3


async def test_a_spoilt_record_does_not_stop_a_sweep(lab: Lab) -> None:
    lab.edit(await lab.enqueue(), "due_at", run_at="soon", lease="held", attempts="many")
    (rescued,) = await sweeping(lab).rescue(10)
    assert abs((rescued.due_at or lab.store.clock.now() - DAY) - lab.store.clock.now()) < MINUTE
    lab.pass_time(SECOND)
    assert await lab.claim() is not None
