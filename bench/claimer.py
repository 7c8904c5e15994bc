"""One process of claimers for ``bench.lanes``: claims as the workers of a manager do.

Says that it is ready, waits for a line, claims, and tells how many seconds that took.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from time import perf_counter
from typing import Final

from bench.scene import DATABASE, NOTE, QUEUE
from gotasks_mongostore import MongoStore
from gotasks_py import MetricsConfig, QueuePolicy
from gotasks_py._allowance import Allowance
from gotasks_py._closing import Closing
from gotasks_py._meter import Meter
from gotasks_py._pool import Pool
from gotasks_py._rotation import LaneRotation
from gotasks_py._scheduling import Source

_LEASE: Final = timedelta(minutes=10)


async def main(uri: str, namespace: str, lanes: int, claimers: int, claims: int) -> None:
    """Claim so many tasks with so many claimers."""
    store = await MongoStore.connect(uri, database=DATABASE, namespace=namespace)
    source = Source(QueuePolicy(QUEUE, lanes=lanes), (NOTE.name,), LaneRotation(lambda: lanes))
    pool = Pool(
        store,
        [source],
        size=claimers,
        order="strict",
        lease=_LEASE,
        poll=timedelta(seconds=1),
        meter=Meter(store.clock, MetricsConfig(), "claimer", is_kept=False),
        allowance=Allowance(),
        closing=Closing(timedelta(seconds=5)),
    )
    left = claims

    async def claimer(owner: str) -> None:
        nonlocal left
        while left > 0:
            left -= 1
            claimed = await pool.claim(owner)
            assert claimed is not None, "the queue must outlast the claims"

    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    began = perf_counter()
    async with asyncio.TaskGroup() as group:
        for number in range(claimers):
            group.create_task(claimer(f"claimer.{number}"))
    print(perf_counter() - began, flush=True)
    await store.aclose()


if __name__ == "__main__":
    _, uri, namespace, *numbers = sys.argv
    asyncio.run(main(uri, namespace, *map(int, numbers)))
