"""Four processes drain in pipeline mode, one is killed, and a ledger of their own is audited."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py import Enqueue, Manager, QueuePolicy, TaskPolicy

pytestmark = [pytest.mark.anyio, pytest.mark.mongo, pytest.mark.timeout(1200)]

PROCESSES = 4
WORKERS = 16
TASKS = int(os.environ.get("GOTASKS_STRESS_TASKS", "80000"))
EACH = 50  # one in so many may run at most once
ONCE = TaskPolicy(max_attempts=1)
A_LEASE = {"reap_at": {"$exists": True}}

WORKER = """
import os, sys
from datetime import timedelta
import anyio
from gotasks_mongostore import MongoStore
from gotasks_py import JanitorConfig, Manager, PipelineMode, QueuePolicy, TaskContext

uri, database, namespace, ledger = sys.argv[1:]
lines = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

async def main():
    store = await MongoStore.connect(uri, database=database, namespace=namespace)
    manager = Manager(
        store,
        queues=[QueuePolicy("q", lanes=4, max_attempts=10)],
        workers=int(os.environ["WORKERS"]),
        lease=timedelta(seconds=5),
        mode=PipelineMode(
            queue_lease=timedelta(seconds=3), flush_interval=timedelta(milliseconds=100)
        ),
        janitor=JanitorConfig(reap_interval=timedelta(seconds=1)),
    )

    @manager.handler("q", "note")
    async def note(ctx: TaskContext, number: int) -> int:
        os.write(lines, f"{number} {ctx.attempt}\\n".encode())
        return 2 * number

    await manager.run(timeout=10)
    await store.aclose()

anyio.run(main)
"""


@contextmanager
def processes(*arguments: str, folder: Path) -> Generator[list[subprocess.Popen[bytes]]]:
    root = Path(__file__).parents[2]
    environment = os.environ | {
        "PYTHONPATH": f"{root}:{root / 'stores'}",
        "WORKERS": str(WORKERS),
    }
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WORKER, *arguments, str(folder / f"ledger.{number}")],
            env=environment,
        )
        for number in range(PROCESSES)
    ]
    try:
        yield started
    finally:
        for process in started:
            process.kill()
            process.wait()


def written(folder: Path) -> int:
    """Estimate how many executions there were, from below."""
    longest = len(f"{TASKS} 1\n")
    return sum(each.stat().st_size for each in folder.glob("ledger.*")) // longest


def entries(folder: Path) -> Counter[tuple[int, int]]:
    """Count the executions by task and attempt."""
    lines = [
        line.split() for each in folder.glob("ledger.*") for line in each.read_text().splitlines()
    ]
    return Counter((int(number), int(attempt)) for number, attempt in lines)


async def test_four_processes_lose_nothing_and_repeat_nothing(
    mongodb: str, namespace: str, raw_client: MongoClient[dict[str, Any]], tmp_path: Path
) -> None:
    tasks = raw_client["gotasks_tests"][namespace]
    store = await MongoStore.connect(mongodb, database="gotasks_tests", namespace=namespace)
    producer = Manager(store, queues=[QueuePolicy("q", lanes=4, max_attempts=10)])
    await producer.enqueue_many(
        Enqueue("q", "note", number, None if number % EACH else ONCE) for number in range(TASKS)
    )
    await store.aclose()

    def is_unfinished() -> bool:
        """Look where it costs the server nothing: each index holds unfinished tasks only."""
        places = [("claim", {"queue": "q", "due_at": {"$exists": True}}), ("reap", A_LEASE)]
        return any(tasks.find_one(where, hint=index) for index, where in places)

    with processes(mongodb, "gotasks_tests", namespace, folder=tmp_path) as workers:
        while written(tmp_path) < TASKS // 2:
            await anyio.sleep(0.05)
        workers[0].send_signal(signal.SIGKILL)
        while await to_thread.run_sync(is_unfinished):
            await anyio.sleep(0.2)
        for process in workers[1:]:
            process.send_signal(signal.SIGTERM)
        codes = [await to_thread.run_sync(process.wait) for process in workers]

    assert codes == [-signal.SIGKILL, 0, 0, 0]
    ran = entries(tmp_path)
    stored = list(tasks.find({}, {"payload": 1, "result": 1, "status": 1, "attempts": 1}))
    assert len(stored) == TASKS
    for task in stored:
        number = task["payload"]["value"]
        if task["status"] == "done":
            assert task["result"] == {"value": 2 * number}
            assert ran[number, task["attempts"]] == 1
        else:
            # Killed between the write that began it and the one that would have ended it.
            assert (task["status"], number % EACH) == ("dead", 0)
    assert set(ran.values()) == {1}  # no attempt was run twice
    once = Counter(number for number, _ in ran.elements() if number % EACH == 0)
    assert set(once.values()) == {1}
    # At most one for each worker: what was in the buffer of the killed process went back.
    assert sum(task["status"] == "dead" for task in stored) <= WORKERS
