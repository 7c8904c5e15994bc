"""``gotasks worker`` as a process of its own on a real replica set."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from typing import Any

import pytest
from pymongo import MongoClient

from gotasks_mongostore import MongoStore
from gotasks_py import Enqueue, Manager, QueuePolicy
from tests.cli.processes import PATIENCE, started
from tests.cli.test_targets import NEITHER
from tests.lab import RawCollection

pytestmark = [pytest.mark.mongo, pytest.mark.timeout(120)]

APP = "tests.cli.mongo_shop:manager"
STARTED = r"manager (\S+) started on q"


@dataclass(frozen=True)
class Shop:
    """The shop's store, from outside."""

    url: str
    tasks: RawCollection

    @property
    def env(self) -> dict[str, str]:
        return {"SHOP_URL": self.url}

    def enqueue(self, *requests: Enqueue) -> list[Any]:
        store = MongoStore.from_url(self.url)
        manager = Manager(store, queues=[QueuePolicy("q"), QueuePolicy("other")])
        return [handle.id for handle in manager.sync.enqueue_many(requests)]

    def become(self, task_id: Any, status: str) -> dict[str, Any]:
        """Wait until a task has a status."""
        with self.tasks.watch([], max_await_time_ms=100) as changes:
            deadline = time.monotonic() + PATIENCE
            while time.monotonic() < deadline:
                task = self.tasks.find_one({"_id": task_id}) or {}
                if task.get("status") == status:
                    return task
                changes.try_next()
        raise AssertionError(f"never {status}: {self.tasks.find_one({'_id': task_id})}")


@pytest.fixture
def shop(mongodb: str, namespace: str, raw_client: MongoClient[dict[str, Any]]) -> Shop:
    address, _, query = mongodb.partition("?")
    url = f"{address.rstrip('/')}/gotasks_tests?{query}&namespace={namespace}"
    return Shop(url, raw_client["gotasks_tests"][namespace])


def test_a_worker_runs_tasks_and_finishes_what_it_began(shop: Shop) -> None:
    with started("worker", APP, env=shop.env) as worker:
        worker.hear(STARTED)
        (done,) = shop.enqueue(Enqueue("q", "pid"))
        assert shop.become(done, "done")["result"] == {"value": worker.pid}
        (slow,) = shop.enqueue(Enqueue("q", "sleep", 0.3))
        worker.hear("sleeps")
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    assert shop.become(slow, "done")["result"] == {"value": "slept"}


def test_a_second_signal_hands_back_at_once(shop: Shop) -> None:
    (slow,) = shop.enqueue(Enqueue("q", "sleep", 600.0))
    with started("worker", APP, "--queues", "q", "--workers", "1", env=shop.env) as worker:
        worker.hear("sleeps")
        worker.send(signal.SIGINT)
        worker.hear("got SIGINT, stopping\n")
        worker.send(signal.SIGINT)
        assert worker.wait() == 0
    task = shop.become(slow, "pending")
    assert (task["attempts"], task["interruptions"]) == (0, 1)


@pytest.mark.parametrize(
    ("app", "url", "code", "says"),
    [
        (APP, "mongodb://127.0.0.1:9/db?serverSelectionTimeoutMS=50", 6, "127.0.0.1:9"),
        (APP, "mongodb://127.0.0.1", 3, "the URL names no database"),
        ("nowhere:manager", "", 3, "there is no module 'nowhere'"),
    ],
)
def test_a_worker_that_cannot_start_says_why(app: str, url: str, code: int, says: str) -> None:
    with started("worker", app, env={"SHOP_URL": url}) as worker:
        assert worker.wait() == code
    assert says in worker.said
    assert "Traceback" not in worker.said
    assert worker.said.count("\n") == 1


def test_commands_work_on_what_others_have_recorded(shop: Shop, gotasks: Any) -> None:
    shop.enqueue(Enqueue("q", "first"))
    task_id = gotasks(
        "enqueue", "q", "t", "[1]", "-o", "json", "--store", shop.url, env=NEITHER
    ).json["id"]
    shown = gotasks("task", "show", task_id, "-o", "json", "--store", shop.url, env=NEITHER)
    assert shown.json["payload"] == {"value": [1]}
    unknown = gotasks("enqueue", "p", "t", "--store", shop.url, env=NEITHER)
    assert (unknown.code, "it has 'other', 'q'" in unknown.err) == (4, True)
