"""The memory that a bulk enqueue takes, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Final

from bench.measuring import Row, Sample, Target
from bench.partners import partner
from bench.scene import DATABASE, QUEUE, Note, Scene, manager, spaced
from bench.worker import peak_mib
from gotasks_mongostore import MongoStore
from gotasks_py import Enqueue

_MOST_MIB: Final = 300


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure a call of a million tasks, fed by a generator, and its sync twin."""
    number = scene.scaled(1_000_000)
    for kind, label in (("async", "enqueue_many"), ("sync", "sync.enqueue_many")):
        async with scene.store() as (_, tasks):
            arguments = (scene.uri, tasks.name, number, kind)
            async with partner("bench.memory", *arguments) as producer:
                producer.go()
                peak = float(await producer.says())
        target = Target(most=_MOST_MIB)
        yield Row(f"{label} of {spaced(number)}, peak RSS", "MiB", Sample([peak]), target=target)


async def _enqueue(uri: str, namespace: str, number: int) -> None:
    store = await MongoStore.connect(uri, database=DATABASE, namespace=namespace)
    handles = await manager(store).enqueue_many(map(_request, range(number)))
    assert len(handles) == number
    await store.aclose()


def _enqueue_without_a_loop(uri: str, namespace: str, number: int) -> None:
    producer = manager(MongoStore(uri, database=DATABASE, namespace=namespace))
    handles = producer.sync.enqueue_many(map(_request, range(number)))
    assert len(handles) == number
    producer.sync.close()


def _request(number: int) -> Enqueue:
    return Enqueue(QUEUE, "note", Note(to="a@example.com", subject=f"no. {number}", number=number))


if __name__ == "__main__":
    _, uri, namespace, number, kind = sys.argv
    print("ready", flush=True)
    sys.stdin.readline()
    if kind == "sync":
        _enqueue_without_a_loop(uri, namespace, int(number))
    else:
        asyncio.run(_enqueue(uri, namespace, int(number)))
    print(peak_mib())
