"""How long an operator waits for an answer beside a million tasks."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import product
from time import perf_counter, process_time
from typing import Any, Final, TypeAlias

from bson import ObjectId

from bench.measuring import Row, Sample, Target, by_turns
from bench.scene import (
    DATABASE,
    Collection,
    Document,
    Scene,
    cpu_seconds,
    local_pid,
    spaced,
    template,
)
from gotasks_mongostore import MongoStore
from gotasks_py import Manager, QueuePolicy, Status, TaskFilter
from gotasks_py.metering import Report
from gotasks_py.metrics import (
    DAY,
    HOUR,
    Activity,
    Counters,
    Kind,
    Window,
    counters_document,
    start_of,
)
from gotasks_py.sketch import LatencySketch

_MANY: Final = 1_000_000
_MOST_MS: Final = 200
_REPEATS: Final = 4
"""The server's CPU is told in hundredths of a second."""
_QUEUES: Final = tuple(f"queue{number}" for number in range(8))
_TYPES: Final = ("a", "b")
_MANAGERS: Final = ("m.1", "m.2")
_CAUSES: Final = 20
_BATCH: Final = 5_000
_MINUTE: Final = timedelta(minutes=1)
_WEEK: Final = timedelta(days=7)
# Of a hundred tasks: most wait or are done.
_SHARES: Final[Sequence[str]] = (
    *["pending"] * 44,
    *["done"] * 45,
    *["dead"] * 8,
    *["cancelled"] * 2,
    "running",
)

Costs: TypeAlias = Mapping[str, float]


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Time the reads that commands make, and the commands, beside a million tasks."""
    number = scene.scaled(_MANY)
    async with scene.store() as (store, tasks):
        some = await _fill(store, tasks, number)
        await _count_for(store, scene.scaled(round(_WEEK / _MINUTE)))
        await scene.client.admin.command("fsync")
        manager = Manager(store, queues=[QueuePolicy(name) for name in _QUEUES])
        reads = _reads(store, manager, some)
        for read in reads.values():
            await read()  # so that connections and caches are as of any second command
        pid = await local_pid(scene.client)
        timed = {name: _timer(read, pid) for name, read in reads.items()}
        for name, costs in (await by_turns(scene.rounds, timed)).items():
            label = f"{name}, {spaced(number)} tasks"
            for unit, values in _by_unit(costs):
                # What the wall clock says is for a machine that does nothing else.
                target = Target(most=_MOST_MS) if "CPU" in unit else None
                yield Row(label, unit, Sample(values), None, target)
        url = _url(scene, tasks.name)
        commands: dict[str, tuple[str, ...]] = {
            "gotasks --version, the whole process": ("--version",),
            "gotasks queue list, the whole process": ("queue", "list", "-s", url),
        }
        timed = {name: _timer(_command(*words), pid) for name, words in commands.items()}
        for name, costs in (await by_turns(scene.rounds, timed)).items():
            for unit, values in _by_unit(costs):
                yield Row(name, unit, Sample(values))
        await tasks.database[f"{tasks.name}_metrics"].drop()


def _reads(
    store: MongoStore, manager: Manager, some: ObjectId
) -> Mapping[str, Callable[[], Awaitable[object]]]:
    in_queue = TaskFilter(queue=_QUEUES[0], status=Status.PENDING)
    return {
        "queue list": manager.overview,
        "dead list": manager.dead_letters,
        "task list": manager.find_tasks,
        "task list --queue --status": lambda: manager.find_tasks(in_queue),
        "task explain": lambda: manager.explain(some),
        "metrics show, an hour": store.metrics,
        "metrics show, a day": lambda: store.metrics(since=DAY, hourly=True),
        "metrics show, a week": lambda: store.metrics(since=_WEEK, daily=True),
        "metrics scaling": manager.loads,
    }


def _timer(act: Callable[[], Awaitable[object]], pid: int | None) -> Callable[[], Awaitable[Costs]]:
    """Time an act; and tell the CPU that it takes here, of processes begun here, and there."""

    def used() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        there = cpu_seconds(pid) if pid else 0.0
        return process_time() + children.ru_utime + children.ru_stime + there

    async def timed() -> Costs:
        cpu, began = used(), perf_counter()
        for _ in range(_REPEATS):
            await act()
        took, cpu = perf_counter() - began, used() - cpu
        return {"ms": took / _REPEATS * 1000, "ms CPU": cpu / _REPEATS * 1000}

    return timed


def _by_unit(costs: Sequence[Costs]) -> Iterator[tuple[str, Sequence[float]]]:
    for unit in ("ms CPU", "ms"):
        yield unit, [each[unit] for each in costs]


def _command(*words: str) -> Callable[[], Awaitable[object]]:
    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gotasks_cli", *words),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await process.wait() == 0

    return run


def _url(scene: Scene, namespace: str) -> str:
    address, _, query = scene.uri.partition("?")
    return f"{address.rstrip('/')}/{DATABASE}?{query}&namespace={namespace}"


async def _fill(store: MongoStore, tasks: Collection, number: int) -> ObjectId:
    """Put in tasks of all kinds; tell the id of one that waits."""
    document = await template(store, tasks)
    await Manager(store, queues=[QueuePolicy(name) for name in _QUEUES]).overview()
    for name in _QUEUES:
        await store.register_queue(QueuePolicy(name))
    now = store.clock.now()
    some = ObjectId()
    await tasks.insert_one({**document, "_id": some, "queue": _QUEUES[0], "type": "a"})
    for start in range(0, number, _BATCH):
        batch = [_task(document, each, now) for each in range(start, min(start + _BATCH, number))]
        await tasks.insert_many(batch, ordered=False)
    return some


def _task(document: Document, number: int, now: datetime) -> Document:
    status = _SHARES[number % len(_SHARES)]
    run_at = now + timedelta(seconds=random.uniform(-86_400, 86_400))
    task: dict[str, Any] = {
        **document,
        "_id": ObjectId(),
        "queue": _QUEUES[number // len(_SHARES) % len(_QUEUES)],
        "type": _TYPES[number % len(_TYPES)],
        "status": status,
        "run_at": run_at,
    }
    del task["due_at"]
    match status:
        case "pending":
            return task | {"due_at": run_at}
        case "running":
            lease = {"token": str(number), "owner": "m.1.1", "until": now + timedelta(hours=1)}
            return task | {"lease": lease, "due_at": now + timedelta(hours=1)}
        case "dead":
            cause = f"{number // len(_SHARES) % _CAUSES:016x}"
            return task | {"error_fingerprint": cause, "finished_at": run_at}
        case _:
            return task | {"finished_at": run_at}


async def _count_for(store: MongoStore, minutes: int) -> None:
    """Write the metrics of so many minutes until now, as managers do."""
    now = store.clock.now()
    sketch = LatencySketch()
    for _ in range(100):
        sketch.add(random.lognormvariate(-3, 1))
    activity = Activity(counters=Counters(claimed=100, done=100), wait=sketch, run=sketch)
    for back in range(minutes):
        start = now.replace(second=0, microsecond=0) - back * _MINUTE
        documents = list(_counted(start, _MINUTE, "counters", activity))
        if not back % 60:
            documents += _counted(start_of(start, HOUR), HOUR, "hours", activity)
        if not back % (DAY // _MINUTE):
            documents += _counted(start_of(start, DAY), DAY, "days", activity)
        await store.report(Report(counters=documents))


def _counted(
    start: datetime, length: timedelta, kind: Kind, activity: Activity
) -> Iterator[Document]:
    for queue, name, manager in product(_QUEUES, _TYPES, _MANAGERS):
        window = Window(start=start, length=length, queue=queue, type=name, activity=activity)
        yield counters_document(manager, window, 200, _WEEK * 2, kind=kind)
