"""The prober: what it sees of workers after a storm."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import asdict
from pathlib import Path

import anyio
import pytest

from gotasks_chaos.ledger import read
from gotasks_chaos.producer import probe
from gotasks_chaos.profiles import Times
from gotasks_chaos.work import WORK, Job, Receipt, Setting, queue_policy
from gotasks_py import Manager, TaskContext

pytestmark = [pytest.mark.anyio, pytest.mark.mongo, pytest.mark.timeout(120)]

SLOTS = 2


async def test_workers_that_are_slow_to_begin_are_seen_at_full_work(
    mongodb: str, namespace: str, tmp_path: Path
) -> None:
    setting = Setting(
        name="prober-0-0",
        ledger=str(tmp_path / "prober-0-0.ledger"),
        uri=mongodb,
        database="gotasks_tests",
        namespace=namespace,
        seed=1,
        mode="single",
        slots=SLOTS,
        rate=1.0,
        peers=["worker-0-0"],
        **asdict(Times()),
    )
    store = await setting.store()
    worker = Manager(store, queues=[queue_policy()], workers=SLOTS)
    at_work = set[str]()
    one_at_a_time = anyio.Lock()

    @worker.handler(WORK)
    async def work(ctx: TaskContext, job: Job) -> Receipt:
        async with one_at_a_time:
            await anyio.sleep(0.25 if job.seconds else 0)  # longer than a job of the first round
        at_work.add(ctx.lease.token)
        try:
            await anyio.sleep(job.seconds)
            return Receipt(token=ctx.lease.token, worker="worker-0-0", at_once=len(at_work))
        finally:
            at_work.remove(ctx.lease.token)

    async with aclosing(store), worker:
        await probe(setting)

    lines = read(Path(setting.ledger))
    assert [line.facts for line in lines if line.event == "roll"] == [
        {"worker": "worker-0-0", "at_once": SLOTS, "slots": SLOTS}
    ]
    assert work.task_type is WORK
