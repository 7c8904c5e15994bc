"""Stopping: drain, hand back, and the order things end in."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from gotasks_memstore import MemStore
from gotasks_py import (
    ConfigurationError,
    Hooks,
    Manager,
    MetricsConfig,
    Status,
    TaskEvent,
    TaskPolicy,
)
from gotasks_py.task import Task
from tests.engine.virtual import VirtualTimeLoop
from tests.engine.world import (
    AWAY,
    ONCE,
    Ears,
    FaultyStore,
    a_manager,
    add_deaf_handler,
    failing,
    orphan,
    real_time,
    seconds,
)

pytestmark = pytest.mark.anyio


class Slow:
    """A manager whose handler sleeps, and what became of it."""

    def __init__(self, store: MemStore, **settings: Any) -> None:
        self.store = store
        self.ears = Ears()
        self.manager = a_manager(store, hooks=self.ears.hooks(), **settings)
        self.cancelled = 0
        self.manager.handler("q", "slow")(self.slow)

    async def slow(self, length: float) -> str:
        try:
            await anyio.sleep(length)
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        return "finished"

    async def running(self, length: float, policy: TaskPolicy | None = None) -> Any:
        """Enqueue a task, and wait until its handler runs."""
        before = len(self.ears.of("before_handle"))
        handle = await self.manager.enqueue("q", "slow", length, policy)
        await self.ears.wait("before_handle", before + 1)
        await anyio.sleep(0.001)
        return handle.id

    async def task(self, task_id: Any) -> Task:
        task = await MemStore.get(self.store, task_id)
        assert task is not None
        return task


async def test_a_stop_lets_running_handlers_finish(store: FaultyStore) -> None:
    slow = Slow(store)
    await slow.manager.start()
    task_id = await slow.running(20)
    began = anyio.current_time()
    await slow.manager.stop(timeout=30)
    task = await slow.task(task_id)
    assert task.status is Status.DONE
    assert task.result == {"value": "finished"}
    assert anyio.current_time() - began == pytest.approx(20, abs=0.1)


async def test_leases_are_renewed_while_a_stop_drains(store: FaultyStore) -> None:
    slow = Slow(store, lease=seconds(1))
    await slow.manager.start()
    task_id = await slow.running(20)
    await slow.manager.stop(timeout=30)
    assert (await slow.task(task_id)).status is Status.DONE
    assert store.calls["renew"] >= 19


async def test_a_stop_claims_nothing_more(store: FaultyStore) -> None:
    slow = Slow(store, workers=1)
    await slow.manager.start()
    await slow.running(5)
    waiting = await slow.manager.enqueue("q", "slow", 1)
    await slow.manager.stop()
    assert (await slow.task(waiting.id)).status is Status.PENDING


async def test_what_is_not_finished_is_handed_back_at_once(store: FaultyStore) -> None:
    """B14, B51: pending again at once, no attempt burned, the interruption counted."""
    slow = Slow(store, lease=seconds(600))
    await slow.manager.start()
    task_id = await slow.running(1000)
    began = anyio.current_time()
    await slow.manager.stop(timeout=2)
    task = await slow.task(task_id)
    assert anyio.current_time() - began == pytest.approx(2, abs=0.1)
    assert slow.cancelled == 1
    assert (task.status, task.attempts, task.interruptions) == (Status.PENDING, 0, 1)
    assert task.errors == ()
    assert task.lease is None

    after = Slow(store)
    async with after.manager:
        await after.ears.wait("before_handle")
        assert (await slow.task(task_id)).attempts == 1


async def test_a_started_task_of_one_attempt_is_interrupted_for_good(store: FaultyStore) -> None:
    slow = Slow(store)
    await slow.manager.start()
    task_id = await slow.running(1000, ONCE)
    await slow.manager.stop(timeout=1)
    task = await slow.task(task_id)
    assert task.status is Status.DEAD
    assert [error.kind for error in task.errors] == ["interrupted"]
    assert slow.ears.names()[-1] == "on_dead"


async def test_a_task_of_one_attempt_whose_handler_never_started_goes_back(
    store: FaultyStore,
) -> None:
    manager = a_manager(store, workers=1)
    claiming = anyio.Event()
    store.after["claim"] = lambda *_: claiming.set()
    runs: list[int] = []

    @manager.handler("q", "work")
    async def work(payload: None) -> None:
        runs.append(1)

    async def stop_at_the_claim() -> None:
        await claiming.wait()
        await manager.stop()

    handle = await manager.enqueue("q", "work", None, ONCE)
    async with anyio.create_task_group() as group:
        group.start_soon(stop_at_the_claim)
        await anyio.lowlevel.checkpoint()
        await manager.start()
    task = await store.stored(handle.id)
    assert task.status is (Status.DONE if runs else Status.PENDING)
    assert task.attempts == len(runs)


async def test_a_handler_that_ignores_its_cancellation_but_returns_is_taken_at_its_word(
    store: FaultyStore,
) -> None:
    """A result that came after all is worth more than a hand-back."""
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "stubborn")
    async def stubborn(payload: None) -> str:
        try:
            await anyio.sleep(1000)
        except anyio.get_cancelled_exc_class():
            return "late"
        return "never"

    await manager.start()
    handle = await manager.enqueue("q", "stubborn")
    await ears.wait("before_handle")
    await anyio.sleep(0.1)
    await manager.stop(timeout=1)
    assert (await store.stored(handle.id)).result == {"value": "late"}


async def test_a_handler_that_never_stops_is_left_behind_and_its_task_handed_back(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    released = anyio.Event()
    ended = anyio.Event()
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())

    @manager.handler("q", "deaf")
    async def deaf(payload: None) -> str:
        with anyio.CancelScope(shield=True):
            await released.wait()
        ended.set()
        return "refused"

    await manager.start()
    handle = await manager.enqueue("q", "deaf")
    await ears.wait("before_handle")
    await anyio.sleep(0.1)
    began = anyio.current_time()
    await manager.stop(timeout=1)
    task = await store.stored(handle.id)
    assert anyio.current_time() - began < 10
    assert (task.status, task.interruptions) == (Status.PENDING, 1)
    assert "ignores its cancellation" in caplog.text
    released.set()
    await ended.wait()
    await anyio.sleep(1)
    assert (await store.stored(handle.id)).status is Status.PENDING


async def test_a_stop_ends_although_the_store_is_away(store: FaultyStore) -> None:
    slow = Slow(store)
    await slow.manager.start()
    task_id = await slow.running(1000)
    store.before["settle"] = failing(AWAY)
    began = anyio.current_time()
    await slow.manager.stop(timeout=1)
    assert anyio.current_time() - began < 10
    assert (await slow.task(task_id)).status is Status.RUNNING
    assert not slow.manager.health().is_running


@pytest.mark.parametrize("name", ["claim", "settle", "reap", "report"])
async def test_a_store_that_is_silent_holds_up_no_stop_and_is_asked_for_nothing_after_it(
    store: FaultyStore, name: str
) -> None:
    slow = Slow(store, metrics=MetricsConfig(interval=seconds(1)))
    await slow.manager.start()
    await slow.running(1000)
    store.late.update({name: 3600, f"{name}_many": 3600})
    await slow.manager.enqueue("q", "slow", 1000)
    if name != "settle":  # which comes with the stop
        with anyio.fail_after(10):
            while not store.under_way[name] + store.under_way[f"{name}_many"]:
                await anyio.sleep(0.1)
    began = anyio.current_time()
    await slow.manager.stop(timeout=1)
    assert anyio.current_time() - began < 1 + 25
    assert not +store.under_way
    asked = dict(store.calls)
    await anyio.sleep(60)
    assert store.calls == asked


async def test_a_handler_that_is_left_behind_hides_nothing_else_that_is_under_way(
    store: FaultyStore,
) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())
    add_deaf_handler(manager)
    await manager.start()
    await manager.enqueue("q", "deaf", 100)
    await ears.wait("before_handle")
    await anyio.sleep(1)
    store.late.update(claim=3600, claim_many=3600)
    handle = await manager.enqueue("q", "deaf", 100)
    await anyio.sleep(1)
    await manager.stop(timeout=1)
    assert not +store.under_way
    task = await store.stored(handle.id)
    assert (task.status, task.lease) == (Status.PENDING, None)
    reports = store.calls["report"]
    await anyio.sleep(200)
    assert store.calls["report"] == reports
    assert not +store.under_way


async def test_a_dead_letter_whose_handler_is_left_behind_is_told_of(store: FaultyStore) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())
    add_deaf_handler(manager)
    await manager.start()
    handle = await manager.enqueue("q", "deaf", 1000, ONCE)
    await ears.wait("before_handle")
    await manager.stop(timeout=0)
    assert (await store.stored(handle.id)).status is Status.DEAD
    assert [event.task.id for event in ears.of("on_dead")] == [handle.id]


async def test_what_is_not_past_its_first_hook_is_handed_back(store: FaultyStore) -> None:
    claimed = anyio.Event()

    async def take_long(event: TaskEvent) -> None:
        claimed.set()
        await anyio.sleep(9)

    slow = Slow(store)
    manager = a_manager(store, hooks=Hooks(on_claim=take_long, before_handle=take_long))
    manager.handler("q", "slow")(slow.slow)
    await manager.start()
    handle = await manager.enqueue("q", "slow", 1000)
    await claimed.wait()
    await manager.stop(timeout=0)
    task = await store.stored(handle.id)
    assert (task.status, task.lease, task.attempts) == (Status.PENDING, None, 0)


@pytest.mark.parametrize("graces", [(900, 0), (0, 900)], ids=str)
async def test_of_two_stops_the_shorter_grace_counts(
    store: FaultyStore, graces: tuple[float, float]
) -> None:
    ears = Ears()
    manager = a_manager(store, hooks=ears.hooks())
    add_deaf_handler(manager)
    await manager.start()
    await manager.enqueue("q", "deaf", 1000)
    await ears.wait("before_handle")
    began = anyio.current_time()
    store.late["report"] = 1
    async with anyio.create_task_group() as group:
        group.start_soon(manager.stop, graces[0])
        await anyio.sleep(1)
        await manager.stop(graces[1])
        assert not store.under_way["report"]
    assert anyio.current_time() - began < 1 + 25
    assert (await store.metrics(since=seconds(86400))).total().counters.interrupted == 1


async def test_what_was_reaped_before_the_store_fell_silent_is_told_of(store: FaultyStore) -> None:
    dead: list[TaskEvent] = []

    async def fall_silent(event: TaskEvent) -> None:
        dead.append(event)
        if len(dead) == 2:
            store.late["reap"] = 3600

    slow = Slow(store)
    for _ in range(4):
        await slow.manager.enqueue("q", "slow", 1, ONCE)
        await orphan(store, "q", "slow", seconds(1))
    manager = a_manager(store, hooks=Hooks(on_dead=fall_silent))
    manager.handler("q", "slow")(slow.slow)
    await manager.start()
    with anyio.fail_after(60):
        while not store.under_way["reap"] or len(dead) < 2:
            await anyio.sleep(0.1)
    await manager.stop(timeout=0)
    ended = [task for task in store.all_tasks() if task.status is Status.DEAD]
    assert len(ended) == len(dead) + 1  # of the last nobody can know


async def test_what_a_claim_took_whose_answer_did_not_come_by_the_end_goes_back(
    store: FaultyStore,
) -> None:
    slow = Slow(store)
    await slow.manager.start()
    await anyio.sleep(1)  # until its workers wait for work
    store.late.update(claim=3600, claim_many=3600)
    handle = await slow.manager.enqueue("q", "slow", 0)
    await anyio.sleep(1)
    assert (await slow.task(handle.id)).lease is not None
    await slow.manager.stop(timeout=1)
    task = await slow.task(handle.id)
    assert (task.status, task.lease, task.attempts) == (Status.PENDING, None, 0)


async def test_a_manager_is_started_and_stopped_from_different_tasks(store: FaultyStore) -> None:
    slow = Slow(store)
    with anyio.fail_after(5):
        await slow.manager.start()
    async with anyio.create_task_group() as group:
        group.start_soon(slow.manager.stop)
    assert not slow.manager.health().is_running


async def test_start_and_stop_survive_a_cancelled_wait(store: FaultyStore) -> None:
    """As with ``asyncio.wait_for``: the time limit ends the wait, not the manager."""
    slow = Slow(store)
    with anyio.fail_after(1):
        await slow.manager.start()
    task_id = await slow.running(50)
    with anyio.move_on_after(2):
        await slow.manager.stop(timeout=100)
    assert slow.manager.health().is_running
    await slow.manager.stop(timeout=100)
    assert (await slow.task(task_id)).status is Status.DONE


async def test_stopping_twice_and_at_once_is_harmless(store: FaultyStore) -> None:
    slow = Slow(store)
    await slow.manager.start()
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(slow.manager.stop)
    await slow.manager.stop()
    assert not slow.manager.health().is_running


async def test_a_manager_starts_again_under_another_id(store: FaultyStore) -> None:
    slow = Slow(store, name="app")
    ids = []
    for _ in range(2):
        async with slow.manager:
            ids.append(slow.manager.id)
            await (await slow.manager.enqueue("q", "slow", 0.1)).result(timeout=5)
    assert ids[0] != ids[1]
    assert all(each.startswith("app.") for each in ids)
    assert slow.manager.id == "app"


async def test_a_running_manager_does_not_start_again(store: FaultyStore) -> None:
    slow = Slow(store)
    async with slow.manager:
        with pytest.raises(ConfigurationError, match="is running already"):
            await slow.manager.start()


async def test_leaving_the_block_by_an_error_gives_no_grace(store: FaultyStore) -> None:
    slow = Slow(store)
    began = anyio.current_time()
    ids: list[Any] = []

    async def fail() -> None:
        async with slow.manager:
            ids.append(await slow.running(1000))
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert anyio.current_time() - began < 1
    assert (await slow.task(ids[0])).status is Status.PENDING


async def test_leaving_the_block_by_a_cancellation_hands_back(store: FaultyStore) -> None:
    slow = Slow(store)
    ids: list[Any] = []
    with anyio.move_on_after(5):
        async with slow.manager:
            ids.append(await slow.running(1000))
            await anyio.sleep_forever()
    assert (await slow.task(ids[0])).status is Status.PENDING


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), seconds(60)], ids=str)
async def test_any_timeout_will_do(store: FaultyStore, timeout: Any) -> None:  # noqa: ASYNC109  - it is what is tested
    slow = Slow(store)
    await slow.manager.start()
    task_id = await slow.running(5)
    await slow.manager.stop(timeout)
    drained = timeout not in (0, -1)
    assert (await slow.task(task_id)).status is (Status.DONE if drained else Status.PENDING)


@real_time
async def test_stop_waits_for_a_sync_handler_and_then_leaves_its_thread(
    store: FaultyStore,
) -> None:
    release = threading.Event()
    manager = a_manager(store, hooks=(ears := Ears()).hooks())

    @manager.handler("q", "block")
    def block(payload: None) -> str:
        release.wait(10)
        return "too late"

    await manager.start()
    handle = await manager.enqueue("q", "block")
    await ears.wait("before_handle")
    await anyio.sleep(0.05)
    await manager.stop(timeout=0.1)
    assert (await store.stored(handle.id)).status is Status.PENDING
    release.set()
    await anyio.sleep(0.05)
    assert (await store.stored(handle.id)).status is Status.PENDING


def test_an_event_loop_torn_down_without_a_stop_hands_back() -> None:
    store = FaultyStore()
    ids: list[Any] = []

    async def forget_to_stop() -> None:
        slow = Slow(store)
        await slow.manager.start()
        ids.append(await slow.running(1000))

    asyncio.run(forget_to_stop())
    task = asyncio.run(store.get(ids[0]))
    assert task is not None
    assert (task.status, task.interruptions) == (Status.PENDING, 1)


@pytest.mark.parametrize("is_away", [False, True])
def test_asyncio_may_close_in_the_midst_of_a_grace(*, is_away: bool) -> None:
    store = FaultyStore()
    ids: list[Any] = []

    async def stop_for_a_moment() -> None:
        slow = Slow(store, heartbeat=False)
        await slow.manager.start()
        ids.append(await slow.running(1000))
        if is_away:
            store.before["settle"] = failing(AWAY)
        with anyio.move_on_after(1):
            await slow.manager.stop(timeout=30)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(stop_for_a_moment())
    task = asyncio.run(store.get(ids[0]))
    assert task is not None
    ended = (Status.RUNNING, 0) if is_away else (Status.PENDING, 1)
    assert (task.status, task.interruptions, task.errors) == (*ended, ())


def test_a_handler_that_cleans_up_for_long_as_asyncio_closes_is_handed_back() -> None:
    store = FaultyStore()
    ids: list[Any] = []

    async def forget_to_stop() -> None:
        ears = Ears()
        manager = a_manager(store, hooks=ears.hooks(), heartbeat=False)

        @manager.handler("q", "tidy")
        async def tidy(payload: None) -> None:
            try:
                await anyio.sleep(1000)
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(30)

        await manager.start()
        ids.append((await manager.enqueue("q", "tidy")).id)
        await ears.wait("before_handle")
        await anyio.sleep(0.1)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(forget_to_stop())
    task = asyncio.run(store.get(ids[0]))
    assert task is not None
    assert (task.status, task.interruptions) == (Status.PENDING, 1)


def test_a_trio_run_that_ends_without_a_stop_hands_back() -> None:
    store = FaultyStore()
    ids: list[Any] = []

    async def forget_to_stop() -> None:
        slow = Slow(store, heartbeat=False)
        await slow.manager.start()
        ids.append(await slow.running(1000))

    anyio.run(forget_to_stop, backend="trio")
    task = asyncio.run(store.get(ids[0]))
    assert task is not None
    assert (task.status, task.interruptions) == (Status.PENDING, 1)


CHILD = """
import sys
from datetime import timedelta
import anyio
from gotasks_memstore import MemStore
from gotasks_py import Manager, QueuePolicy

store = MemStore()
manager = Manager(store, queues=[QueuePolicy("q")], lease=timedelta(seconds=600))
grace = float(sys.argv[1])
length = float(sys.argv[2])

@manager.handler("q", "slow")
async def slow(payload: None) -> None:
    print("started", flush=True)
    try:
        await anyio.sleep(length)
    except BaseException:
        print("cancelled", flush=True)
        raise

async def hang() -> None:
    print("opening", flush=True)
    await anyio.sleep_forever()

async def main() -> None:
    if "hangs" in sys.argv:
        store.open = hang
        await manager.run()
        print("ended", flush=True)
        return
    handle = await manager.enqueue("q", "slow")
    await manager.run(timeout=grace)
    task = await store.get(handle.id)
    print(task.status, task.attempts, task.interruptions, flush=True)

anyio.run(main, backend=sys.argv[3])
"""


@contextmanager
def child(*arguments: object) -> Generator[subprocess.Popen[str]]:
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", CHILD, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": f"{root}:{root / 'stores'}"},
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()  # which would be waited for
            raise


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_lets_the_running_task_finish(backend: str, number: signal.Signals) -> None:
    """B14: exit code 0, and nothing is lost."""
    with child(10, 0.5, backend) as process:
        assert line_of(process) == "started"
        process.send_signal(number)
        assert line_of(process) == "done 1 0"
        assert process.wait(10) == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_signal_hands_back_what_does_not_finish_in_time(backend: str) -> None:
    """B14: pending at once, not when the lease ends; it costs no attempt."""
    with child(0.2, 60, backend) as process:
        assert line_of(process) == "started"
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "cancelled"
        assert line_of(process) == "pending 0 1"
        assert process.wait(10) == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_second_signal_stops_hard(backend: str) -> None:
    with child(60, 60, backend) as process:
        assert line_of(process) == "started"
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        time.sleep(0.2)  # signals that are pending together are one
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "cancelled"
        assert line_of(process) == "pending 0 1"
        assert process.wait(10) == 0
        assert time.monotonic() - began < 10


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_signal_ends_a_start_that_hangs(backend: str) -> None:
    """A database that does not answer must not keep a deployment waiting."""
    with child(60, 60, backend, "hangs") as process:
        assert line_of(process) == "opening"
        process.send_signal(signal.SIGTERM)
        assert line_of(process) == "ended"
        assert process.wait(10) == 0


@real_time
async def test_run_restores_the_users_signal_handlers(store: FaultyStore) -> None:
    """B24: they are the program's, before and after."""
    got: list[int] = []
    slow = Slow(store)
    before = signal.signal(signal.SIGTERM, lambda number, frame: got.append(number))
    try:
        mine = signal.getsignal(signal.SIGTERM)
        async with anyio.create_task_group() as group:
            group.start_soon(slow.manager.run)
            await slow.running(0.1)
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is mine
        assert got == []
        os.kill(os.getpid(), signal.SIGTERM)
        await anyio.sleep(0.01)
        assert got == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@real_time
@pytest.mark.parametrize("kept", [signal.SIG_IGN, lambda *_: None], ids=["ignored", "handled"])
async def test_run_leaves_a_hangup_alone_that_is_not_the_end(
    store: FaultyStore, kept: signal.Handlers
) -> None:
    """Under nohup it is ignored; others read their settings again."""
    slow = Slow(store)
    before = signal.signal(signal.SIGHUP, kept)
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(slow.manager.run)
            await slow.running(0.1)
            assert signal.getsignal(signal.SIGHUP) is kept
            os.kill(os.getpid(), signal.SIGHUP)
            await anyio.sleep(0.01)
            assert slow.manager.health().is_running
            await slow.manager.stop()
        assert signal.getsignal(signal.SIGHUP) is kept
    finally:
        signal.signal(signal.SIGHUP, before)


@real_time
async def test_start_installs_no_signal_handlers(store: FaultyStore) -> None:
    """B24."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    async with Slow(store).manager:
        assert [signal.getsignal(number) for number in numbers] == before


def test_run_works_in_a_thread() -> None:
    """B24: without signals, until another task stops it."""
    store = MemStore()
    errors: list[BaseException] = []

    async def main() -> None:
        slow = Slow(store)
        async with anyio.create_task_group() as group:
            group.start_soon(slow.manager.run)
            await slow.running(0.05)
            await slow.manager.stop()

    def work() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  - looked at by the test
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert errors == []


async def test_cancelling_run_hands_back(store: FaultyStore) -> None:
    slow = Slow(store)
    ids: list[Any] = []
    with anyio.move_on_after(5):
        async with anyio.create_task_group() as group:
            group.start_soon(run_without_signals, slow.manager)
            ids.append(await slow.running(1000))
    assert (await slow.task(ids[0])).status is Status.PENDING


async def run_without_signals(manager: Manager) -> None:
    """Do what ``run`` does for a manager that another task stops."""
    async with manager:
        await anyio.sleep_forever()


@real_time
async def test_the_log_tells_of_start_and_stop(
    store: FaultyStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "gotasks_py")
    async with Slow(store).manager as manager:
        name = manager.id
    assert f"manager {name} started on q" in caplog.text
    assert f"manager {name} stopped" in caplog.text
