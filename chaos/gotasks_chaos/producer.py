"""A producer process: it notes what it asks for before it asks, and what it was told after."""

from __future__ import annotations

import random
import signal
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Final

import anyio

from gotasks_chaos.ledger import Ledger
from gotasks_chaos.work import (
    HANG_SECONDS,
    QUEUE,
    THREADED,
    WORK,
    Job,
    Receipt,
    Setting,
    queue_policy,
)
from gotasks_mongostore import MongoStore
from gotasks_py import DuplicateTaskError, Manager, TaskPolicy, TaskType
from gotasks_py.errors import GotasksError, StoreUnavailableError
from gotasks_py.inspecting import TaskFilter
from gotasks_py.task import TaskId

KEYS: Final = tuple(f"key-{number}" for number in range(10))
PROBE_SECONDS: Final = 10.0
ROLL_SECONDS: Final = 45.0
"""How long all workers have to be seen at full work: a starved machine needs some rounds."""
_JOBS_PER_SLOT: Final = 5
_JOB_SECONDS: Final = 0.2
"""Long beside a claim, so that all slots of a worker are taken at some time; in the first round."""
_AT_ONCE: Final = 16
"""How many enqueues may wait for an answer: an outage is to catch several."""
_MOST_PENDING: Final = 300
_LOOK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Wish:
    """What a producer asks for."""

    job: Job
    policy: TaskPolicy
    type: TaskType[Job, Receipt] = WORK
    cancel_after: float | None = None
    """Seconds after which its producer has changed its mind."""


async def produce(setting: Setting) -> None:
    """Ask for work at a steady rate until SIGTERM, unless much waits; then await the answers."""
    ledger = setting.book()
    store = await setting.store()
    manager = Manager(store, queues=[queue_policy()])
    chance = random.Random(f"{setting.seed}/{setting.name}")
    limit = anyio.Semaphore(_AT_ONCE)
    room = _Room(store)
    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
        async with anyio.create_task_group() as enqueues:
            ticking = anyio.CancelScope()

            async def stop() -> None:
                await anext(signals)
                ticking.cancel()

            enqueues.start_soon(stop)
            with ticking:
                async with anyio.create_task_group() as watching:
                    watching.start_soon(room.watch)
                    while True:
                        await room.wait()
                        await limit.acquire()
                        wish = a_wish(chance)
                        enqueues.start_soon(_ask, manager, ledger, wish, limit.release)
                        await anyio.sleep(chance.uniform(0.5, 1.5) / setting.rate)
    await store.aclose()
    ledger.write("left")
    ledger.close()


class _Room:
    """Lets a producer ask while little waits: behind a backlog nothing would be taken over soon."""

    def __init__(self, store: MongoStore) -> None:
        self._store = store
        self._is_there = anyio.Event()
        self._is_there.set()

    async def wait(self) -> None:
        """Wait until there is room."""
        await self._is_there.wait()

    async def watch(self) -> None:
        """Look how much waits, now and then, until cancelled."""
        waiting = TaskFilter(queue=QUEUE, status="pending")
        while True:
            with suppress(GotasksError):  # an outage is to find producers at work
                count = await self._store.count_tasks(waiting, limit=_MOST_PENDING)
                if count.is_exact:
                    self._is_there.set()
                elif self._is_there.is_set():
                    self._is_there = anyio.Event()
            await anyio.sleep(_LOOK_SECONDS)


async def probe(setting: Setting) -> None:
    """Take every unique key, and see each task through; then see every worker at full work."""
    ledger = setting.book()
    store = await setting.store()
    manager = Manager(store, queues=[queue_policy()])
    async with anyio.create_task_group() as probes:
        for key in KEYS:
            probes.start_soon(_probe, manager, ledger, key)
    await _call_the_roll(manager, ledger, setting)
    await store.aclose()
    ledger.close()


async def _probe(manager: Manager, ledger: Ledger, key: str) -> None:
    try:
        await _see_through(manager, ledger, Job(ref=uuid.uuid4().hex), key=key)
    except (GotasksError, TimeoutError) as error:
        ledger.write("probe", key=key, ok=False, why=f"{type(error).__name__}: {error}")
    else:
        ledger.write("probe", key=key, ok=True, why="")


async def _call_the_roll(manager: Manager, ledger: Ledger, setting: Setting) -> None:
    """Give all workers more than they can do at once, until each was seen at all it can.

    On a starved machine a job may be over before the next one is claimed, so they take longer
    with each round.
    """
    most = dict.fromkeys(setting.peers, 0)

    async def ask(seconds: float) -> None:
        job = Job(ref=uuid.uuid4().hex, seconds=seconds)
        with suppress(GotasksError, TimeoutError):  # who did nothing is told of in the end
            receipt = await _see_through(manager, ledger, job, within=ROLL_SECONDS)
            most[receipt.worker] = max(receipt.at_once, most.get(receipt.worker, 0))

    ledger.write("calling")
    seconds = _JOB_SECONDS
    with anyio.move_on_after(ROLL_SECONDS):
        while any(most[name] < setting.slots for name in setting.peers):
            async with anyio.create_task_group() as asks:
                for _ in range(_JOBS_PER_SLOT * setting.slots * len(setting.peers)):
                    asks.start_soon(ask, seconds)
            seconds *= 2
    for name in setting.peers:
        ledger.write("roll", worker=name, at_once=most[name], slots=setting.slots)


async def _see_through(
    manager: Manager,
    ledger: Ledger,
    job: Job,
    *,
    key: str | None = None,
    within: float = PROBE_SECONDS,
) -> Receipt:
    ledger.write("ask", ref=job.ref, key=key, delay=0.0, once=False)
    handle = await manager.enqueue(WORK, job, TaskPolicy(unique_key=key))
    ledger.write("ack", ref=job.ref, task=str(handle.id))
    return await handle.result(timeout=within)


def a_wish(chance: random.Random) -> Wish:
    """Think of a job: most are quick, and one in so many is of each other kind."""
    ref = uuid.UUID(int=chance.getrandbits(128)).hex
    kinds = list(_KINDS)
    (make,) = chance.choices(kinds, [_KINDS[each] for each in kinds])
    return make(ref, chance)


async def _ask(manager: Manager, ledger: Ledger, wish: Wish, release: Callable[[], None]) -> None:
    policy = wish.policy
    delay = 0.0 if policy.delay is None else policy.delay.total_seconds()
    ledger.write(
        "ask",
        ref=wish.job.ref,
        key=policy.unique_key,
        delay=delay,
        once=policy.max_attempts == 1,
    )
    answered = partial(ledger.write, ref=wish.job.ref)
    try:
        handle = await manager.enqueue(wish.type, wish.job, policy)
    except StoreUnavailableError as error:
        answered("unclear", task=str(error.task_id) if error.task_id else None, why=str(error))
    except DuplicateTaskError:
        answered("duplicate")
    except GotasksError as error:
        answered("refused", why=f"{type(error).__name__}: {error}")
    else:
        answered("ack", task=str(handle.id))
        if wish.cancel_after is not None:
            await anyio.sleep(wish.cancel_after)
            await _cancel(manager, ledger, handle.id)
    finally:
        release()


async def _cancel(manager: Manager, ledger: Ledger, task: TaskId) -> None:
    ledger.write("cancelling", task=str(task))
    try:
        await manager.cancel(task)
    except GotasksError:
        return  # it had ended, or nobody knows
    ledger.write("cancelled", task=str(task))


def _quick(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, seconds=chance.uniform(0.005, 0.04)), TaskPolicy())


def _slower_again(ref: str, chance: random.Random) -> Wish:
    # When a frozen worker comes back with what it had done, whoever took it over is to be at it
    # still: a backlog must not come before it, nor be it over at once.
    job = Job(ref=ref, seconds=chance.uniform(0.005, 0.04), again=chance.uniform(1.0, 3.0))
    return Wish(job, TaskPolicy(priority=1))


def _slow(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, seconds=chance.uniform(0.2, 1.0)), TaskPolicy())


def _long(ref: str, chance: random.Random) -> Wish:
    # Longer than the leases of most profiles: they have to be renewed.
    return Wish(Job(ref=ref, seconds=chance.uniform(2.2, 2.8)), TaskPolicy())


def _once(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, seconds=chance.uniform(0.005, 0.04)), TaskPolicy(max_attempts=1))


def _keyed(ref: str, chance: random.Random) -> Wish:
    job = Job(ref=ref, seconds=chance.uniform(0.01, 0.2))
    return Wish(job, TaskPolicy(unique_key=chance.choice(KEYS)))


def _delayed(ref: str, chance: random.Random) -> Wish:
    delay = timedelta(seconds=chance.uniform(0.1, 4.0))
    return Wish(Job(ref=ref, seconds=0.01), TaskPolicy(delay=delay))


def _failing(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, seconds=0.01, failures=chance.randint(1, 2)), TaskPolicy())


def _doomed(ref: str, chance: random.Random) -> Wish:
    attempts = chance.randint(1, 2)
    return Wish(Job(ref=ref, seconds=0.01, failures=attempts), TaskPolicy(max_attempts=attempts))


def _hanging(ref: str, _chance: random.Random) -> Wish:
    timeout = timedelta(seconds=HANG_SECONDS)
    return Wish(Job(ref=ref, hangs=1), TaskPolicy(timeout=timeout))


def _blocking(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, blocking=chance.uniform(0.05, 0.5)), TaskPolicy())


def _threaded(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, seconds=chance.uniform(0.01, 0.3)), TaskPolicy(), THREADED)


def _huge(ref: str, chance: random.Random) -> Wish:
    return Wish(Job(ref=ref, size=chance.randint(100_000, 1_000_000)), TaskPolicy())


def _unwanted(ref: str, chance: random.Random) -> Wish:
    job = Job(ref=ref, seconds=chance.uniform(0.0, 1.0))
    return Wish(job, TaskPolicy(), cancel_after=chance.uniform(0.0, 1.0))


_KINDS: Final[Mapping[Callable[[str, random.Random], Wish], float]] = {
    _quick: 37.3,
    _slower_again: 20,
    _once: 12,
    _keyed: 10,
    _delayed: 6,
    _slow: 4,
    _long: 1,
    _failing: 3,
    _doomed: 2,
    _threaded: 3,
    _hanging: 0.5,
    _blocking: 0.5,
    _huge: 1,
    _unwanted: 2,
}
