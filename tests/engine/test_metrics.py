"""What managers count is what happened, and gets to the store once."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    Counters,
    DuplicateTaskError,
    Enqueue,
    Manager,
    Metrics,
    MetricsConfig,
    PartialEnqueueError,
    QueuePolicy,
    Reject,
    Snooze,
    Status,
    TaskContext,
    TaskPolicy,
)
from gotasks_py.errors import StoreUnavailableError
from gotasks_py.metrics import LATENCIES, start_of
from gotasks_py.store import Store
from tests.engine.world import (
    FaultyStore,
    a_manager,
    failing,
    is_running,
    orphan,
    reached,
    seconds,
    settled,
)

pytestmark = pytest.mark.anyio

EVERY_TEN_SECONDS = MetricsConfig()
DAY = timedelta(days=1)


def a_counting_manager(store: MemStore, *queues: str | QueuePolicy, **settings: Any) -> Manager:
    return a_manager(store, *queues, **{"metrics": EVERY_TEN_SECONDS, **settings})


def working(store: MemStore, **settings: Any) -> Manager:
    """Make a manager whose tasks end as their payload says."""
    manager = a_counting_manager(store, **settings)

    @manager.handler("q", "work")
    async def work(ctx: TaskContext, ending: str) -> None:
        match ending:
            case "failure" if ctx.attempt == 1:
                raise ValueError
            case "death":
                raise Reject("no")
            case "snooze" if ctx.task.run_at == ctx.task.created_at:
                raise Snooze(seconds(5))
            case "slow":
                await anyio.sleep(600)
            case _:
                await anyio.sleep(2)

    return manager


async def total(store: MemStore) -> Counters:
    """Tell what was counted, by the window, by the hour and by the day."""
    counters = (await read(store)).total().counters
    assert (await store.metrics(since=DAY, hourly=True)).total().counters == counters
    tomorrow = start_of(store.clock.now(), DAY) + DAY
    days = await store.metrics(since=3 * DAY, until=tomorrow, daily=True)
    assert days.total().counters == counters
    assert {each.length for each in days.windows} <= {DAY}
    return counters


async def read(store: MemStore) -> Metrics:
    return await store.metrics(since=DAY)


async def enqueue(manager: Manager, *endings: str, **policy: Any) -> list[Any]:
    return [(await manager.enqueue("q", "work", each, TaskPolicy(**policy))).id for each in endings]


async def all_settled(store: FaultyStore, ids: Sequence[Any]) -> None:
    for task_id in ids:
        await settled(store, task_id)


async def test_counters_are_what_happened(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        ids = await enqueue(manager, "success", "success", "failure", "death", "snooze")
        await all_settled(store, ids)
    assert await total(store) == Counters(
        enqueued=5, claimed=7, done=4, failed=2, retried=1, dead=1, snoozed=1
    )


async def test_counters_are_written_while_the_manager_runs(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        await all_settled(store, await enqueue(manager, "success"))
        await anyio.sleep(11)
        assert await total(store) == Counters(enqueued=1, claimed=1, done=1)


async def test_what_ends_during_the_stop_is_counted(store: FaultyStore) -> None:
    manager = working(store)
    await manager.start()
    (task_id,) = await enqueue(manager, "success")
    await reached(store, task_id, is_running)
    await manager.stop()
    assert (await store.stored(task_id)).status is Status.DONE
    assert await total(store) == Counters(enqueued=1, claimed=1, done=1)


async def test_what_a_stop_interrupts_is_counted(store: FaultyStore) -> None:
    manager = working(store)
    await manager.start()
    (task_id,) = await enqueue(manager, "slow")
    await reached(store, task_id, is_running)
    await manager.stop(timeout=1)
    assert await total(store) == Counters(enqueued=1, claimed=1, interrupted=1)


async def test_cancellations_are_counted(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        running, pending = await enqueue(manager, "slow"), await enqueue(manager, "late", delay=DAY)
        await reached(store, running[0], is_running)
        await manager.cancel(running[0])
        await manager.cancel(pending[0])
        await all_settled(store, running)
    assert await total(store) == Counters(enqueued=2, claimed=1, cancelled=2)


async def test_a_lost_lease_is_counted_and_nothing_else_of_it(store: FaultyStore) -> None:
    manager = working(store, lease=seconds(60))
    async with manager:
        (task_id,) = await enqueue(manager, "slow")
        await reached(store, task_id, is_running)
        store.remove(task_id)
        await anyio.sleep(200)
    assert await total(store) == Counters(enqueued=1, claimed=1, lease_lost=1)


async def test_a_task_that_the_janitor_ends_is_counted_as_dead(store: FaultyStore) -> None:
    manager = working(store)
    ids = await enqueue(manager, "success", max_attempts=1)
    await orphan(store, "q", "work", seconds(1))
    async with manager:
        await all_settled(store, ids)
    assert await total(store) == Counters(enqueued=1, dead=1)


async def test_requeued_dead_letters_are_counted(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        ids = await enqueue(manager, "death")
        await all_settled(store, ids)
        await manager.requeue(ids[0])
        await all_settled(store, ids)
    assert await total(store) == Counters(enqueued=1, claimed=2, failed=2, dead=2, requeued=1)


async def test_only_what_was_stored_is_counted_as_enqueued(store: FaultyStore) -> None:
    manager = a_counting_manager(store)
    await manager.enqueue("q", "t", policy=TaskPolicy(unique_key="k"))
    with pytest.raises(DuplicateTaskError):
        await manager.enqueue("q", "t", policy=TaskPolicy(unique_key="k"))
    requests = [
        Enqueue("q", "t", policy=TaskPolicy(unique_key=key)) for key in ("a", "b", "a", "k")
    ]
    with pytest.raises(PartialEnqueueError):
        await manager.enqueue_many(requests)
    await store.aclose()
    assert await total(store) == Counters(enqueued=3)


async def test_an_outcome_of_which_the_reply_was_lost_counts_once(store: FaultyStore) -> None:
    manager = working(store)
    store.after["settle"] = failing(StoreUnavailableError("lost"), times=1)
    async with manager:
        await all_settled(store, await enqueue(manager, "success"))
    assert await total(store) == Counters(enqueued=1, claimed=1, done=1)


async def test_a_claim_of_which_the_reply_was_lost_counts_once(store: FaultyStore) -> None:
    manager = working(store)
    store.after["claim"] = failing(StoreUnavailableError("lost"), times=1)
    async with manager:
        await all_settled(store, await enqueue(manager, "success"))
    assert await total(store) == Counters(enqueued=1, claimed=1, done=1)


@pytest.mark.parametrize("faults", ["before", "after"])
async def test_metrics_that_could_not_be_written_are_written_later_and_once(
    store: FaultyStore, faults: str
) -> None:
    getattr(store, faults)["report"] = failing(StoreUnavailableError("away"), times=3)
    manager = working(store)
    async with manager:
        await all_settled(store, await enqueue(manager, "success"))
        await anyio.sleep(60)
        assert await total(store) == Counters(enqueued=1, claimed=1, done=1)


async def test_windows_hold_what_happened_in_them(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        for _ in range(3):
            await all_settled(store, await enqueue(manager, "success"))
            await anyio.sleep(60)
    windows = (await read(store)).windows
    assert len({each.start for each in windows}) >= 3
    assert all(each.start.second == 0 and each.length == timedelta(minutes=1) for each in windows)
    assert await total(store) == Counters(enqueued=3, claimed=3, done=3)


async def test_latencies_are_what_tasks_took(store: FaultyStore) -> None:
    manager = working(store)
    await enqueue(manager, "success", delay=seconds(100))
    await anyio.sleep(103)
    async with manager:
        await anyio.sleep(5)
    activity = (await read(store)).total()
    assert [each.count for each in (activity.wait, activity.run, activity.end_to_end)] == [1, 1, 1]
    assert activity.wait.total_seconds == pytest.approx(3, abs=0.2)
    assert activity.run.total_seconds == pytest.approx(2, abs=0.2)
    assert activity.end_to_end.total_seconds == pytest.approx(105, abs=0.5)


async def test_a_manager_that_only_enqueues_writes_what_it_counted(store: FaultyStore) -> None:
    manager = a_counting_manager(store)
    await manager.enqueue("q", "t")
    await anyio.sleep(11)
    assert await total(store) == Counters(enqueued=1)
    await manager.enqueue_many([Enqueue("q", "t")] * 4)
    await anyio.sleep(11)
    assert await total(store) == Counters(enqueued=5)


async def test_a_manager_that_only_enqueues_stops_writing_when_it_stops_enqueueing(
    store: FaultyStore,
) -> None:
    manager = a_counting_manager(store)
    await manager.enqueue("q", "t")
    await anyio.sleep(1000)
    assert store.calls["report"] == 1
    await manager.enqueue("q", "t")
    await anyio.sleep(1000)
    assert store.calls["report"] == 2
    assert await total(store) == Counters(enqueued=2)


async def test_closing_the_store_writes_what_is_left(store: FaultyStore) -> None:
    manager = a_counting_manager(store)
    await manager.enqueue("q", "t")
    await store.aclose()
    assert await total(store) == Counters(enqueued=1)


async def test_counters_survive_a_stop_and_a_start_in_the_same_window(store: FaultyStore) -> None:
    manager = working(store)
    for _ in range(3):
        await enqueue(manager, "success")
        async with manager:
            await all_settled(store, await enqueue(manager, "success"))
    await enqueue(manager, "success")
    await store.aclose()
    assert (await total(store)).enqueued == 7


async def test_without_metrics_nothing_is_written(store: FaultyStore) -> None:
    manager = working(store, metrics=None)
    async with manager:
        await all_settled(store, await enqueue(manager, "success"))
        assert await store.nodes() == []
    assert store.calls["report"] == 0
    assert (await read(store)).windows == []


async def test_a_manager_tells_the_version_of_its_program(store: FaultyStore) -> None:
    with pytest.raises(ConfigurationError, match="version"):
        working(store, version="")
    began = store.clock.now()
    async with working(store, version="2026.1"):
        await anyio.sleep(1)
        (node,) = await store.nodes()
    assert node.version == "2026.1"
    assert [each.version for each in await store.versions(began)] == ["2026.1"]


async def test_a_running_manager_is_listed_and_gone_when_it_stops(store: FaultyStore) -> None:
    manager = working(store, workers=3)
    await manager.start()
    (task_id,) = await enqueue(manager, "slow")
    await reached(store, task_id, is_running)
    await anyio.sleep(11)
    (node,) = await store.nodes()
    assert node.id == manager.id
    assert (node.capacity, node.running) == (3, 1)
    assert (node.queues, node.types) == (("q",), {"q": ("work",)})
    assert node.pid > 0
    assert node.rss_bytes > 1_000_000
    assert node.host
    assert node.version
    assert node.beat_at >= node.started_at
    await manager.stop(timeout=0)
    assert await store.nodes() == []


async def test_a_manager_is_listed_as_soon_as_it_runs(store: FaultyStore) -> None:
    async with working(store) as manager:
        await anyio.sleep(0.1)
        assert [node.id for node in await store.nodes()] == [manager.id]


async def test_a_manager_that_is_silent_is_gone_by_the_clock_of_the_store(
    store: FaultyStore,
) -> None:
    async with working(store):
        await anyio.sleep(1)
        store.before["report"] = failing(StoreUnavailableError("away"))
        await anyio.sleep(25)
        assert len(await store.nodes()) == 1
        await anyio.sleep(10)
        assert await store.nodes() == []
        store.before.clear()
        await anyio.sleep(11)
        assert len(await store.nodes()) == 1


async def test_a_stop_does_not_wait_for_a_store_that_does_not_answer(store: FaultyStore) -> None:
    store.late["report"] = 1000
    manager = working(store)
    await manager.start()
    began = anyio.current_time()
    await manager.stop()
    assert anyio.current_time() - began < 5


async def test_managers_count_into_windows_of_their_own_and_are_summed(store: FaultyStore) -> None:
    managers = [working(store, workers=1) for _ in range(3)]
    for manager in managers:
        await manager.start()
    ids = await enqueue(managers[0], *["success"] * 12)
    await all_settled(store, ids)
    for manager in managers:
        await manager.stop()
    assert await total(store) == Counters(enqueued=12, claimed=12, done=12)
    starts = Counter((each.start, each.queue, each.type) for each in (await read(store)).windows)
    assert set(starts.values()) == {1}


async def test_how_many_workers_a_queue_wants_is_told_once_a_window(store: FaultyStore) -> None:
    manager = working(store, workers=1, metrics=MetricsConfig(target_wait=seconds(20)))
    # Of two seconds each, so that one worker is there for 200 s, and ten for 20.
    await enqueue(manager, *["success"] * 100)
    async with manager:
        await anyio.sleep(300)
    wanted = [each.wanted_workers for each in (await read(store)).gauges]
    known = wanted[1:]
    assert 6 <= known[0] <= 10
    assert known == sorted(known, reverse=True)
    assert known[-1] == 0


async def test_hours_tell_what_their_windows_tell(store: FaultyStore) -> None:
    manager = working(store)
    async with manager:
        for _ in range(5):
            await enqueue(manager, *["success"] * 7)
            await anyio.sleep(1800)
    windows, hours = await read(store), await store.metrics(since=DAY, hourly=True)
    assert len(hours.windows) in {3, 4}
    assert {each.length for each in hours.windows} == {timedelta(hours=1)}
    assert all(each.start.minute == each.start.second == 0 for each in hours.windows)
    for latency in LATENCIES:
        of_hours, of_windows = (getattr(each.total(), latency) for each in (hours, windows))
        assert of_hours.buckets == of_windows.buckets
        assert of_hours.total_seconds == pytest.approx(of_windows.total_seconds)
    assert (
        hours.total().counters
        == windows.total().counters
        == Counters(enqueued=35, claimed=35, done=35)
    )
    assert {each.length for each in hours.gauges} == {timedelta(hours=1)}
    assert hours.latest()["q"].at == windows.latest()["q"].at


async def test_a_run_ends_its_hour_and_the_next_begins_another(store: FaultyStore) -> None:
    manager = working(store)
    for _ in range(3):
        async with manager:
            await all_settled(store, await enqueue(manager, "success"))
            await anyio.sleep(30)
    assert await total(store) == Counters(enqueued=3, claimed=3, done=3)


async def test_queues_are_looked_at_once_a_window_however_many_managers(
    store: FaultyStore,
) -> None:
    managers = [working(store) for _ in range(3)]
    await enqueue(managers[0], "late", "late", delay=DAY)
    await store.insert(a_dead_letter(store))
    looks = Counter[str]()
    store.before["overview"] = lambda *_: looks.update(["look"])
    for manager in managers:
        await manager.start()
    await anyio.sleep(300)
    for manager in managers:
        await manager.stop()
    gauges = (await read(store)).gauges
    starts = [each.start for each in gauges]
    assert 4 <= len(starts) == len(set(starts)) <= 6
    assert looks["look"] == len(starts)
    assert gauges[-1].counts[Status.PENDING] == 2
    assert gauges[-1].counts[Status.DEAD] == 1
    assert gauges[-1].running == 0
    assert gauges[-1].oldest_due_age == timedelta(0)
    assert not gauges[-1].is_paused


async def test_another_manager_looks_when_the_one_that_led_is_gone(store: FaultyStore) -> None:
    first, second = working(store), working(store)
    await first.start()
    await anyio.sleep(15)
    await second.start()
    await anyio.sleep(15)
    leads = await store.leader("gauges")
    assert leads is not None
    assert (leads.node, leads.term) == (first.id, 1)
    await first.stop()
    await anyio.sleep(100)
    leads = await store.leader("gauges")
    assert leads is not None
    assert (leads.node, leads.term) == (second.id, 2)
    seen = {each.start for each in (await read(store)).gauges}
    await anyio.sleep(60)
    assert {each.start for each in (await read(store)).gauges} > seen
    await second.stop()


async def test_a_manager_that_cannot_look_at_the_queues_is_there_all_the_same(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    store.before["overview"] = failing(StoreUnavailableError("away"), times=1)
    async with working(store):
        await anyio.sleep(25)
        assert len(await store.nodes()) == 1
        assert len((await read(store)).gauges) == 1
    assert "cannot look at the queues" in caplog.text


def a_dead_letter(store: MemStore) -> dict[str, Any]:
    now = store.clock.now()
    return {
        "_id": store.new_id(),
        "queue": "q",
        "type": "work",
        "lane": 0,
        "status": "dead",
        "run_at": now,
        "finished_at": now,
    }


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
def test_a_forked_child_counts_only_what_it_does_itself(anyio_backend: str) -> None:
    store = MemStore()
    manager = Manager(store, queues=[QueuePolicy("q")])

    async def enqueue(number: int) -> Counters:
        for _ in range(number):
            await manager.enqueue("q", "t")
        return await read_after_close()

    async def read_after_close() -> Counters:
        await store.aclose()
        return (await store.metrics()).total().counters

    manager.sync.enqueue("q", "t")  # counted and not written
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if anyio.run(enqueue, 2) == Counters(enqueued=2) else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert anyio.run(read_after_close) == Counters(enqueued=1)


class WithoutMetrics:
    """A store that offers nothing beside."""

    def __init__(self, store: MemStore) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in {"report", "metrics", "nodes", "leader", "before_close", "watch"}:
            raise AttributeError(name)
        return getattr(self._store, name)


async def test_a_store_without_metrics_works_without_them(store: FaultyStore) -> None:
    plain: Any = WithoutMetrics(store)
    store_of: Store = plain
    manager = Manager(store_of, queues=[QueuePolicy("q")])

    @manager.handler("q", "work")
    async def work(payload: None) -> None: ...

    async with manager:
        handle = await manager.enqueue("q", "work")
        assert (await settled(store, handle.id)).status is Status.DONE
    assert store.calls["report"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"interval": timedelta(milliseconds=10)},
        {"window": timedelta(0)},
        {"window": timedelta(days=2)},
        {"retention": timedelta(seconds=1)},
        {"retention": 7},
    ],
)
def test_bad_times_of_metrics_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        MetricsConfig(**settings)


def test_metrics_that_are_none_are_refused() -> None:
    wrong: Any = 60
    with pytest.raises(ConfigurationError, match="metrics must be a MetricsConfig"):
        Manager(MemStore(), metrics=wrong)
