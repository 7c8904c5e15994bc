"""Metrics on MongoDB: one write for everything, and the last word of a program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py import Counters, JanitorConfig, Manager, MetricsConfig, QueuePolicy
from gotasks_py.metering import Report
from gotasks_py.metrics import Activity, Window, counters_document
from tests.lab import HOUR, MINUTE, Lab, MongoHand, RawCollection, raw_collection
from tests.mongo.recorder import Recorded, explainable, recorded_lab

pytestmark = [pytest.mark.anyio, pytest.mark.mongo]

ROOT = Path(__file__).parents[2]
PROGRAM = """
    import asyncio, os, sys
    from gotasks_mongostore import MongoStore
    from gotasks_py import Enqueue, Manager, QueuePolicy

    uri, namespace = sys.argv[1:]
    store = MongoStore(uri, database="gotasks_tests", namespace=namespace)
    manager = Manager(store, queues=[QueuePolicy("q")])
"""


@pytest.fixture
async def recorded(
    mongodb: str, raw_client: MongoClient[dict[str, Any]], namespace: str
) -> AsyncIterator[Recorded]:
    async with recorded_lab(mongodb, raw_collection(raw_client, namespace)) as made:
        yield made


async def run(program: str, uri: str, namespace: str) -> None:
    """Run a program of its own to its end."""
    done = await anyio.run_process(
        [sys.executable, "-c", dedent(PROGRAM) + dedent(program), uri, namespace],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'stores'}"},
        stderr=subprocess.STDOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout.decode()


async def counted(lab: Lab) -> Counters:
    assert isinstance(lab.store, MongoStore)
    return (await lab.store.metrics()).total().counters


@pytest.mark.parametrize(
    "program",
    [
        """
        async def main():
            await manager.enqueue("q", "t")
            await manager.enqueue_many([Enqueue("q", "t")] * 4)
        asyncio.run(main())
        """,
        """
        async def main():
            for _ in range(5):
                await manager.enqueue("q", "t")
            await store.aclose()
        asyncio.run(main())
        """,
        """
        for _ in range(5):
            manager.sync.enqueue("q", "t")
        """,
    ],
    ids=["the event loop ends", "the store is closed", "sync"],
)
async def test_a_program_that_only_enqueues_has_its_last_word(
    mongo_lab: Lab, mongodb: str, namespace: str, program: str
) -> None:
    await run(program, mongodb, namespace)
    assert await counted(mongo_lab) == Counters(enqueued=5)


async def test_janitor_and_heartbeat_together_write_twice_an_interval(recorded: Recorded) -> None:
    """However many tasks of however many types run."""
    types, tasks = 10, 40
    manager = Manager(
        recorded.lab.store,
        queues=[QueuePolicy("q")],
        workers=tasks,
        lease=timedelta(seconds=12),
        janitor=JanitorConfig(reap_interval=timedelta(seconds=1)),
        metrics=MetricsConfig(interval=timedelta(seconds=1)),
    )
    running, finish = anyio.Semaphore(0), anyio.Event()

    async def wait(payload: None) -> None:
        running.release()
        await finish.wait()

    for number in range(types):
        manager.handler("q", f"t{number}")(wait)
    for number in range(tasks):
        await manager.enqueue("q", f"t{number % types}")
    async with manager:
        for _ in range(tasks):
            await running.acquire()
        await anyio.sleep(1)
        with recorded.recorder.recording() as sent:
            began = anyio.current_time()
            await anyio.sleep(3)
            # Of each kind one write an interval, which is 0.9 s at the least by its jitter.
            intervals = (anyio.current_time() - began) / 0.9 + 1
            commands = list(sent)
        finish.set()
    writes = [each for each in commands if {"update", "insert", "delete"} & set(each)]
    reaps = [each for each in commands if "findAndModify" in each]
    metrics = [each for each in writes if each.get("update", "").endswith("_metrics")]
    assert reaps == []
    assert 1 <= len(metrics) <= intervals
    assert len(writes) - len(metrics) <= intervals
    assert await counted(recorded.lab) == Counters(enqueued=tasks, claimed=tasks, done=tasks)


async def test_reading_metrics_and_managers_is_served_by_the_index(recorded: Recorded) -> None:
    store, database = recorded.lab.store, collection_of(recorded).database
    assert isinstance(store, MongoStore)
    now = store.clock.now().replace(second=0, microsecond=0)
    windows = [
        Window(
            start=now - number * MINUTE,
            length=MINUTE,
            queue=f"q{number % 10}",
            type="t",
            activity=Activity(counters=Counters(done=1)),
        )
        for number in range(1000)
    ]
    documents = [counters_document("m.1", window, 1, HOUR * 24) for window in windows]
    await store.report(Report(counters=documents))
    with recorded.recorder.recording() as sent:
        metrics = await store.metrics(queue="q1", since=HOUR)
        await store.nodes()
        await store.leader("gauges")
        await store.metrics(queue="q1", since=HOUR * 24, hourly=True)
        await store.metrics(queue="q1", since=HOUR * 24 * 7, daily=True)
    assert len(metrics.windows) == 6
    plans = [
        database.command("explain", explainable(each), verbosity="executionStats") for each in sent
    ]
    examined = [plan["executionStats"]["totalDocsExamined"] for plan in plans]
    keys = [plan["executionStats"]["totalKeysExamined"] for plan in plans]
    assert examined == [6, 0, 0, 0, 0]
    # Of each minute in the period one look for the queue.
    assert keys[0] <= 2 * 60 + 10
    assert all(each <= 2 for each in keys[1:])


def collection_of(recorded: Recorded) -> RawCollection:
    assert isinstance(recorded.lab.hand, MongoHand)
    return recorded.lab.hand.collection
