"""The memory that a bulk enqueue takes, in a process of its own."""

from __future__ import annotations

import asyncio
import resource
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from typing import Final

from bench.measuring import Row, Sample
from bench.scene import DATABASE, QUEUE, Note, Scene, manager
from gotasks_mongostore import MongoStore
from gotasks_py import Enqueue

_PER_MIB: Final = 2**20 if sys.platform == "darwin" else 2**10


async def run(scene: Scene) -> AsyncIterator[Row]:
    """Measure a call of a million tasks, fed by a generator."""
    number = scene.scaled(1_000_000)
    async with scene.store() as (_, tasks):
        before, peak = await _probed(scene.uri, tasks.name, number)
    yield Row(f"enqueue_many of {number:,}".replace(",", " "), "MiB", peak, before)


async def _probed(uri: str, namespace: str, number: int) -> tuple[Sample, Sample]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.memory", uri, namespace, str(number), stdout=PIPE
    )
    printed, _ = await process.communicate()
    before, peak = map(float, printed.split())
    return Sample([before]), Sample([peak])


async def _probe(uri: str, namespace: str, number: int) -> None:
    store = await MongoStore.connect(uri, database=DATABASE, namespace=namespace)
    producer = manager(store)
    await producer.enqueue_many([_request(0)])
    before = _peak_mib()
    handles = await producer.enqueue_many(map(_request, range(number)))
    assert len(handles) == number
    print(before, _peak_mib())
    await store.aclose()


def _request(number: int) -> Enqueue:
    return Enqueue(QUEUE, "note", Note(to="a@example.com", subject=f"no. {number}", number=number))


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _PER_MIB


if __name__ == "__main__":
    asyncio.run(_probe(sys.argv[1], sys.argv[2], int(sys.argv[3])))
