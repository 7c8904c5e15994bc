"""Documents whose ids a hand has made are worked on like others, in both modes."""

from __future__ import annotations

from datetime import timedelta

import anyio
import pytest

from gotasks_py import Manager, PipelineMode, QueuePolicy
from tests.lab import Lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

EAGER = PipelineMode(queue_lease=timedelta(milliseconds=500), lookahead=timedelta(milliseconds=10))


@pytest.mark.parametrize("mode", [None, EAGER])
@pytest.mark.parametrize("max_attempts", [1, 3])
@pytest.mark.parametrize("odd", [5, 1.5, True, "five", {"a": 1}])
async def test_a_task_with_an_odd_id_runs_once(
    mongo_lab: Lab, odd: object, max_attempts: int, mode: PipelineMode | None
) -> None:
    lab, ran = mongo_lab, 0
    lab.hand.write(lab.a_task(_id=odd, payload={"value": 1}, max_attempts=max_attempts))
    manager = Manager(
        lab.store, queues=[QueuePolicy("q")], mode=mode, lease=timedelta(milliseconds=500)
    )

    @manager.handler("q", "t")
    async def count(number: int) -> None:
        nonlocal ran
        ran += number

    async with manager:
        with anyio.fail_after(20):
            while lab.raw(odd)["status"] != "done":
                await anyio.sleep(0.02)

    assert (ran, lab.raw(odd)["attempts"]) == (1, 1)
