"""One process with a manager in it, for benchmarks that need more than their own.

Says that it is ready, starts when it is told to, and works until its input ends.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path
from time import perf_counter
from typing import Final

from bench.scene import DATABASE, NOTE, QUEUE, Note, manager
from gotasks_mongostore import MongoStore
from gotasks_py import PipelineMode

TASKS_PER_MARK: Final = 1000
_MIB: Final = 2**20


async def main(uri: str, namespace: str, mode: str, workers: str, lanes: str, job: str) -> None:
    """Work in a mode with so many workers; the job says what its handler does."""
    store = await MongoStore.connect(uri, database=DATABASE, namespace=namespace)
    chosen = PipelineMode() if mode == "pipeline" else None
    queue = "another" if job == "only listen" else QUEUE
    worker = manager(store, workers=int(workers), mode=chosen, lanes=int(lanes), queue=queue)
    ran = 0

    @worker.handler(queue, NOTE.name)
    async def handle(_: Note) -> None:
        nonlocal ran
        ran += 1
        if job == "tell when":
            # The same clock for all processes of the machine.
            print(perf_counter(), flush=True)
        elif job == "tell memory" and ran % TASKS_PER_MARK == 0:
            print(rss_mib(), flush=True)

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    async with worker:
        if job in {"tell when", "only listen"}:
            while not worker.health().is_stream_connected:  # noqa: ASYNC110  - no event for it
                await asyncio.sleep(0.01)
            print("connected", flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await store.aclose()


def rss_mib() -> float:
    """Tell the memory of this process now; where that is not told, its peak."""
    pages = Path("/proc/self/statm")
    if pages.exists():
        return int(pages.read_text().split()[1]) * resource.getpagesize() / _MIB
    return peak_mib()


def peak_mib() -> float:
    """Tell the most memory that this process has had."""
    per_mib = _MIB if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / per_mib


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
