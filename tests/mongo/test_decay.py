"""Claims cost the server the same at the end of a long run as at its beginning."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from pymongo import MongoClient

from tests.lab import SECOND, Lab, MongoHand

pytestmark = [pytest.mark.anyio, pytest.mark.mongo, pytest.mark.timeout(180)]

CLAIMS = 8_000
MEASURED = 500
CHUNK = 100
CLAIMERS = 8


def work_of(client: MongoClient[dict[str, Any]]) -> dict[str, int]:
    """Count what the server has looked at: keys, documents, steps in its storage engine."""
    status = client.admin.command("serverStatus")
    examined = status["metrics"]["queryExecutor"]
    cursor = status["wiredTiger"]["cursor"]
    return {
        "keys": examined["scanned"],
        "documents": examined["scannedObjects"],
        "steps": cursor["cursor next calls"] + cursor["cursor prev calls"],
        "passed over": cursor["Total number of entries skipped by cursor next calls"],
    }


async def claim(lab: Lab, number: int, claimers: int = 1) -> None:
    left = number

    async def claim_until_done() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            assert await lab.claim(lease=3600 * SECOND) is not None

    async with anyio.create_task_group() as group:
        for _ in range(claimers):
            group.start_soon(claim_until_done)


async def measured(lab: Lab, client: MongoClient[dict[str, Any]]) -> dict[str, float]:
    """Tell the work of a claim where the server's own housekeeping added least to it.

    One claim at a time: those that collide search again, now more often and now less.
    """
    chunks = list[dict[str, float]]()
    for _ in range(MEASURED // CHUNK):
        before = work_of(client)
        await claim(lab, CHUNK)
        after = work_of(client)
        chunks.append({name: (after[name] - before[name]) / CHUNK for name in after})
    return {name: min(chunk[name] for chunk in chunks) for name in chunks[0]}


async def test_claims_do_not_decay_over_thousands(
    mongo_lab: Lab, raw_client: MongoClient[dict[str, Any]]
) -> None:
    now = mongo_lab.store.clock.now()
    hand = mongo_lab.hand
    assert isinstance(hand, MongoHand)
    hand.collection.insert_many(
        mongo_lab.a_task(due_at=now - (CLAIMS - number) * SECOND / 100) for number in range(CLAIMS)
    )

    first = await measured(mongo_lab, raw_client)
    await claim(mongo_lab, CLAIMS - 2 * MEASURED, CLAIMERS)
    last = await measured(mongo_lab, raw_client)

    for name in ("keys", "documents", "steps"):
        assert last[name] <= 1.3 * first[name], (name, first, last)
    # Tombstones: a claim that starts at the head of the index walks over all 7 000 of them.
    assert last["passed over"] < 1_000, (first, last)
