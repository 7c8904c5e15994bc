"""``gotasks worker`` as a process of its own on a real replica set."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
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
        worker.send(signal.SIGHUP)
        worker.hear("got SIGHUP, stopping\n")
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


def test_a_worker_takes_on_workers_between_its_bounds(shop: Shop) -> None:
    slow = shop.enqueue(*[Enqueue("q", "sleep", 600.0)] * 4)
    options = ("--workers", "1..4", "--target-wait", "0.01", "--grace", "0")
    with started("worker", APP, *options, env=shop.env) as worker:
        assert worker.hear(r"(\d) workers instead of")[0] == "2"
        worker.hear("sleeps", times=4)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0
    for task_id in slow:
        shop.become(task_id, "pending")


def test_a_worker_that_cannot_start_says_why() -> None:
    url = "mongodb://127.0.0.1:9/db?serverSelectionTimeoutMS=50"
    with started("worker", APP, env={"SHOP_URL": url}) as worker:
        assert worker.wait() == 6
    assert "127.0.0.1:9" in worker.said
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


def test_a_supervisor_restarts_what_crashes_and_stops_all(shop: Shop) -> None:
    with started("worker", APP, "--processes", "2", env=shop.env) as supervisor:
        supervisor.hear(STARTED, 2)
        first, second = (int(pid) for pid in supervisor.hear(r"worker \d is process (\d+)", 2))
        os.kill(first, signal.SIGKILL)
        supervisor.hear("was ended by SIGKILL, starting it again in 0.5 s")
        (again,) = supervisor.hear(r"worker 1 is process (\d+)", 2)[1:]
        supervisor.hear(STARTED, 3)
        (slow,) = shop.enqueue(Enqueue("q", "sleep", 0.3))
        supervisor.hear("sleeps")
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0
    assert shop.become(slow, "done")["result"] == {"value": "slept"}
    assert not any(is_alive(pid) for pid in (first, second, int(again)))


def test_a_second_signal_to_a_supervisor_reaches_the_handlers(shop: Shop) -> None:
    (slow,) = shop.enqueue(Enqueue("q", "sleep", 600.0))
    with started("worker", APP, "--processes", "2", env=shop.env) as supervisor:
        supervisor.hear(STARTED, 2)
        supervisor.hear("sleeps")
        supervisor.send(signal.SIGHUP)
        supervisor.hear("got SIGHUP\n")
        supervisor.hear("got SIGTERM, stopping\n", 2)
        supervisor.send(signal.SIGINT)
        assert supervisor.wait() == 0
    task = shop.become(slow, "pending")
    # The other worker may have had a claim on its way, which it hands back as well.
    assert task["attempts"] == 0
    assert task["interruptions"] in {1, 2}


def test_workers_go_when_their_supervisor_is_killed(shop: Shop) -> None:
    with started("worker", APP, "--max-tasks", "1000", env=shop.env) as supervisor:
        supervisor.hear(STARTED)
        (pid,) = supervisor.hear(r"worker 1 is process (\d+)")
        supervisor.send(signal.SIGKILL)
        supervisor.wait()
        supervisor.hear("manager manager.* stopped")
        deadline = time.monotonic() + PATIENCE
        while is_alive(int(pid)):
            assert time.monotonic() < deadline, "the worker is still there"
            time.sleep(0.02)


def test_a_process_is_replaced_after_its_number_of_tasks(shop: Shop) -> None:
    with started("worker", APP, "--max-tasks", "3", env=shop.env) as supervisor:
        supervisor.hear(STARTED)
        tasks = shop.enqueue(*[Enqueue("q", "pid")] * 5)
        supervisor.hear("this process has reached its limit: 3 tasks")
        supervisor.hear(STARTED, 2)
        before, after = supervisor.hear(r"worker 1 is process (\d+)", 2)
        ran = [shop.become(task, "done")["result"]["value"] for task in tasks]
        assert (ran.count(int(before)), ran.count(int(after))) == (3, 2)
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0


def test_an_app_that_does_not_import_ends_a_supervisor(shop: Shop) -> None:
    with started("worker", "nowhere:manager", "-p", "2", env=shop.env) as supervisor:
        assert supervisor.wait() == 3
    assert "there is no module 'nowhere'" in supervisor.said
    assert "Traceback" not in supervisor.said


def test_changed_code_is_loaded(shop: Shop, tmp_path: Path) -> None:
    app = tmp_path / "changing.py"
    app.write_text("from tests.cli.mongo_shop import manager\nmanager.override(workers=1)\n")
    (tmp_path / "notes.txt").write_text("not code")
    with started(
        "worker", "changing:manager", "--reload", env=shop.env, cwd=tmp_path
    ) as supervisor:
        supervisor.hear(STARTED)
        app.write_text("a mistake(")
        supervisor.hear("changing.py changed, starting anew")
        supervisor.hear("does not import: SyntaxError")
        supervisor.hear("waiting for a change")
        app.write_text("from tests.cli.mongo_shop import manager\n")
        supervisor.hear(STARTED, 2)
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_processes_are_added_while_work_waits(shop: Shop) -> None:
    shop.enqueue(*[Enqueue("q", "sleep", 600.0)] * 4)
    options = ("--processes", "1..2", "--target-wait", "0.1", "--queues", "q")
    with started("worker", APP, *options, env=shop.env) as supervisor:
        supervisor.hear("2 processes instead of 1: 2 wanted, for . workers of 2 in each")
        pids = supervisor.hear(r"(\d+) sleeps", 4)
        assert len(set(pids)) == 2
        supervisor.send(signal.SIGTERM)
        supervisor.hear("got SIGTERM, stopping\n", 2)
        supervisor.send(signal.SIGTERM)
        assert supervisor.wait() == 0
