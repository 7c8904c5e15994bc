"""What the API tells of the past: steps, types, groups and managers."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import anyio
import httpx
import pytest

from gotasks_dashboard import _types
from gotasks_py import LatencySketch, Node, QueuePolicy, Status, TaskType
from gotasks_py.metering import Beat, Metering, Report
from gotasks_py.metrics import (
    Activity,
    Counters,
    Gauges,
    Kind,
    Window,
    counters_document,
    gauges_document,
    hourly_gauges_document,
    start_of,
)
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import HOUR, MINUTE, SECOND, Lab

pytestmark = pytest.mark.anyio

KEPT = timedelta(days=30)


def metering(lab: Lab) -> Metering:
    assert isinstance(lab.store, Metering)
    return lab.store


async def write(
    lab: Lab, at: datetime, *, queue: str = "q", type: str = "t", run: float = 0.2, **counts: int
) -> None:
    counters = Counters(**counts)
    sketch = LatencySketch.of([run] * (counters.done + counters.failed))
    activity = Activity(
        counters=counters, run=sketch, wait=LatencySketch.of([0.01] * counters.claimed)
    )
    documents: list[dict[str, Any]] = []
    minute, hour = at.replace(second=0, microsecond=0), start_of(at, HOUR)
    kinds: list[tuple[Kind, datetime, timedelta]] = [
        ("counters", minute, MINUTE),
        ("hours", hour, HOUR),
    ]
    for kind, start, length in kinds:
        window = Window(start=start, length=length, queue=queue, type=type, activity=activity)
        documents.append(counters_document(f"m.{at}", window, 1, KEPT, kind=kind))
    await metering(lab).report(Report(counters=documents))


async def gauge(lab: Lab, at: datetime, queue: str = "q", pending: int = 7) -> None:
    gauges = Gauges(
        start=at.replace(second=0, microsecond=0),
        length=MINUTE,
        queue=queue,
        at=at,
        counts={Status.PENDING: pending, Status.RUNNING: 2},
        oldest_due_age=90 * SECOND,
    )
    documents = [gauges_document(gauges, KEPT), hourly_gauges_document(gauges, KEPT)]
    await metering(lab).report(Report(gauges=documents))


async def complete(client: Any, path: str, **query: str) -> Any:
    """Ask again until all of the past was read; the clock of the lab may stand still."""
    while True:
        found = await read(client, path, **query)
        if found["is_complete"]:
            return found
        await anyio.sleep(0.01)


@pytest.mark.parametrize(
    ("span", "step", "number"),
    [("1h", 60, 60), ("6h", 300, 72), ("24h", 900, 96), ("7d", 3600, 168)],
)
async def test_each_range_is_told_in_steps(
    lab: Lab, browse: Browse, span: str, step: int, number: int
) -> None:
    now = lab.store.clock.now()
    await write(lab, now, done=1, claimed=1)
    await write(lab, now - 30 * MINUTE, done=2, failed=1, claimed=3, enqueued=5)
    await write(lab, now - 30 * MINUTE, type="u", done=4)
    await gauge(lab, now - 30 * MINUTE)
    await gauge(lab, now - 30 * MINUTE, "r", pending=1)
    client = browse(open_to_all(lab.store))
    found = await complete(client, "/api/metrics", range=span)
    assert found["step_seconds"] == step
    assert len(found["points"]) == number
    assert found["points"][0]["at"] == found["since"]
    assert found["total"]["done"] == 7
    assert found["total"]["enqueued"] == 5
    assert sum(point["done"] for point in found["points"]) == 7
    assert found["total"]["run"]["p50"] == pytest.approx(0.2, rel=0.02)
    (gauged,) = found["gauges"]
    assert (gauged["backlog"], gauged["running"], gauged["oldest_due_seconds"]) == (8, 4, 90)
    of_type = await complete(client, "/api/metrics", range=span, queue="q", type="u")
    assert of_type["total"]["done"] == 4
    assert (of_type["total"]["run"]["count"], of_type["total"]["wait"]) == (4, None)
    nothing = await complete(client, "/api/metrics", range=span, queue="elsewhere")
    assert nothing["total"]["done"] == 0
    assert nothing["gauges"] == []


async def test_what_is_over_is_read_once_and_what_is_not_again(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = mem_lab.store.clock.now()
    await write(mem_lab, now - 6 * HOUR, done=1)
    client = browse(open_to_all(mem_lab.store))
    await complete(client, "/api/metrics", range="7d")
    asked: list[timedelta] = []
    ask = metering(mem_lab).metrics

    async def metrics(**period: Any) -> Any:
        asked.append(period["until"] - period["since"])
        return await ask(**period)

    monkeypatch.setattr(mem_lab.store, "metrics", metrics)
    await write(mem_lab, now, done=2)
    mem_lab.pass_time(10 * SECOND)
    found = await read(client, "/api/metrics", range="7d")
    assert (found["total"]["done"], found["is_complete"]) == (3, True)
    assert len(asked) == 1
    assert asked[0] <= 3 * HOUR
    mem_lab.pass_time(2 * HOUR)
    assert (await complete(client, "/api/metrics", range="7d"))["total"]["done"] == 3
    mem_lab.pass_time(timedelta(days=7))
    assert (await complete(client, "/api/metrics", range="7d"))["total"]["done"] == 0


async def test_rates_are_of_the_last_minute(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    now = mem_lab.store.clock.now()
    await write(mem_lab, now - MINUTE, done=60, failed=2)
    await write(mem_lab, now, done=10)
    client = browse(open_to_all(mem_lab.store))
    (queue,) = (await read(client, "/api/overview"))["queues"]
    assert (queue["rates"]["done"], queue["rates"]["failed"]) == (70, 2)
    assert queue["spark"]["done"][-2:] == [60, 10]
    assert len(queue["spark"]["done"]) == 30
    mem_lab.pass_time(30 * SECOND)
    found = await read(client, "/api/overview")
    assert found["queues"][0]["rates"]["done"] == 40
    assert found["totals"]["rates"]["done"] == 40


async def test_types_are_those_that_ran_or_are_handled_or_declared(
    lab: Lab, browse: Browse
) -> None:
    await write(lab, lab.store.clock.now(), type="ran", done=3, failed=1, dead=1)
    node = Node(id="m.1", host="h", pid=1, version="1", types={"q": ["handled"]})
    await metering(lab).report(Report(beat=Beat(node=node, good_for=HOUR)))
    declared = TaskType("q", "declared", int, None)
    client = browse(open_to_all(lab.store, types=[declared]))
    found = await complete(client, "/api/types")
    assert [each["type"] for each in found["types"]] == ["declared", "handled", "ran"]
    schema, handled, ran = found["types"]
    assert (schema["schema"], handled["schema"]) == (True, False)
    assert (handled["nodes"], ran["nodes"]) == (1, 0)
    assert (handled["failure_rate"], ran["failure_rate"]) == (None, 0.25)
    assert ran["run"]["count"] == 4


async def test_a_type_tells_its_run_times_and_what_it_fails_of(lab: Lab, browse: Browse) -> None:
    now = lab.store.clock.now()
    await lab.store.register_queue(QueuePolicy("q"))
    await write(lab, now, run=0.003, done=2)
    await write(lab, now - MINUTE, run=0.1, done=1)
    for number in range(3):
        error = {"at": now, "attempt": 1, "kind": "ValueError", "message": f"no {number}"}
        task_id = await lab.enqueue(type="t" if number else "u")
        lab.edit(
            task_id,
            "due_at",
            status="dead",
            errors=[error],
            error_fingerprint=f"{number // 2:016x}",
            finished_at=now,
        )
    client = browse(open_to_all(lab.store))
    found = await complete(client, "/api/types/detail", queue="q", type="t")
    bars = found["histogram"]
    assert [bars[0]["count"], bars[-1]["count"]] == [2, 1]
    assert bars[0]["from_seconds"] <= 0.003 < bars[0]["to_seconds"]
    assert bars[-1]["from_seconds"] <= 0.1 < bars[-1]["to_seconds"]
    assert all(one["to_seconds"] == two["from_seconds"] for one, two in pairwise(bars))
    assert found["summary"]["done"] == 3
    assert {each["fingerprint"]: each["count"]["value"] for each in found["failures"]} == {
        f"{1:016x}": 1,
        f"{0:016x}": 1,
    }
    for group in found["failures"]:
        assert (await read(client, "/api/tasks/count", q=group["query"]))["value"] == 1
    assert found["others"] == {"value": 0, "is_exact": True}


async def test_dead_letters_of_causes_too_rare_to_be_listed_are_counted(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_types, "_MOST_GROUPS", 2)
    await mem_lab.store.register_queue(QueuePolicy("q"))
    for cause in range(5):
        task_id = await mem_lab.enqueue(type="t")
        now = mem_lab.store.clock.now()
        fields = {"error_fingerprint": f"{cause:016x}", "finished_at": now}
        mem_lab.edit(task_id, "due_at", status="dead", errors=[], **fields)
    client = browse(open_to_all(mem_lab.store))
    found = await complete(client, "/api/types/detail", queue="q", type="t")
    assert len(found["failures"]) == 2
    assert found["others"] == {"value": 3, "is_exact": True}


async def test_a_type_shows_what_it_shares_with_a_type_that_died_of_it_later(
    lab: Lab, browse: Browse
) -> None:
    now = lab.store.clock.now()
    await lab.store.register_queue(QueuePolicy("q"))
    for number, name in enumerate("aab"):
        lab.edit(
            await lab.enqueue(type=name),
            "due_at",
            status="dead",
            run_at=now + number * MINUTE,
            errors=[{"at": now, "attempt": 1, "kind": "ValueError", "message": name}],
            error_fingerprint="f" * 16,
            finished_at=now,
        )
    client = browse(open_to_all(lab.store))
    for name, count in (("a", 2), ("b", 1)):
        found = await complete(client, "/api/types/detail", queue="q", type=name)
        (group,) = found["failures"]
        assert (group["count"]["value"], group["message"]) == (count, name)
        assert group["latest"]["type"] == name


async def test_dead_letters_are_grouped_and_their_search_finds_them(
    lab: Lab, browse: Browse
) -> None:
    name = 'a "b"'
    await lab.store.register_queue(QueuePolicy(name))
    now = lab.store.clock.now()
    for _ in range(3):
        error = {"at": now, "attempt": 1, "kind": "E", "message": "no"}
        task_id = await lab.enqueue(queue=name)
        lab.edit(task_id, "due_at", status="dead", errors=[error], error_fingerprint="f" * 16)
    client = browse(open_to_all(lab.store))
    (group,) = (await read(client, "/api/dead"))["groups"]
    assert (group["count"]["value"], group["kind"], group["message"]) == (3, "E", "no")
    assert group["latest"]["status"] == "dead"
    assert (await read(client, "/api/tasks/count", q=group["query"]))["value"] == 3
    assert (await read(client, "/api/dead", queue="none"))["groups"] == []
    assert (await client.get("/api/dead", params={"cursor": "no"})).status_code == 400


async def test_managers_tell_how_they_are(lab: Lab, browse: Browse) -> None:
    node = Node(
        id="m.1",
        host="<host>",
        pid=7,
        version="1.2",
        queues=["q"],
        types={"q": ["t"]},
        capacity=8,
        running=3,
        loop_lag=timedelta(milliseconds=5),
        rss_bytes=1 << 20,
        started_at=lab.store.clock.now(),
    )
    await lab.store.register_queue(QueuePolicy("q", max_attempts=2))
    await metering(lab).report(Report(beat=Beat(node=node, good_for=HOUR)))
    client = browse(open_to_all(lab.store))
    (found,) = (await read(client, "/api/nodes"))["nodes"]
    assert (found["host"], found["pid"], found["version"]) == ("<host>", 7, "1.2")
    assert (found["loop_lag_seconds"], found["rss_bytes"]) == (0.005, 1 << 20)
    assert found["types"] == [{"queue": "q", "types": ["t"]}]
    assert (found["order"], found["query"]) == (None, "worker:m.1")
    overview = await read(client, "/api/overview")
    assert overview["nodes"]["versions"] == ["1.2"]
    (deploy,) = (await complete(client, "/api/metrics"))["deploys"]
    assert (deploy["version"], deploy["at"]) == ("1.2", found["started_at"])
    assert (overview["queues"][0]["capacity"], overview["queues"][0]["nodes"]) == (8, 1)
    assert overview["totals"]["capacity"] == 8


async def test_a_queue_shows_what_its_managers_declare(lab: Lab, browse: Browse) -> None:
    await lab.store.register_queue(QueuePolicy("q", max_attempts=2))

    async def beat(name: str, weight: int, workers: int) -> None:
        node = Node(
            id=name,
            host="h",
            pid=1,
            version="1",
            queues=["q", "other"],
            types={"q": ["t"], "other": []},
            workers={"q": workers, "other": 8},
            weights={"q": weight, "other": 1},
            capacity=8,
        )
        await metering(lab).report(Report(beat=Beat(node=node, good_for=HOUR)))

    async def queue() -> Any:
        (found,) = (await read(browse(open_to_all(lab.store)), "/api/overview"))["queues"]
        return found

    assert (await queue())["capacity"] == 0
    await beat("m.1", 3, 2)
    found = await queue()
    assert (found["policy"]["weight"], found["policy"]["workers"]) == (3, 2)
    assert (found["policy"]["max_attempts"], found["changed"]) == (2, [])
    assert found["capacity"] == 2
    await beat("m.2", 1, 8)
    found = await queue()
    assert found["managed"] == {"weights": [1, 3], "workers": [2, 8]}
    assert found["capacity"] == 10
    await send_changes(browse(open_to_all(lab.store)), weight=5, lanes=4)
    found = await queue()
    assert (found["policy"]["weight"], found["policy"]["lanes"]) == (5, 4)
    assert found["changed"] == ["weight", "lanes"]


async def send_changes(client: httpx.AsyncClient, **changes: int) -> None:
    answer = await client.post("/api/queues/policy", json={"queue": "q", "changes": changes})
    assert answer.status_code == 200, answer.text


async def test_who_has_no_handler_for_a_queue_runs_nothing_of_it(lab: Lab, browse: Browse) -> None:
    for name in ("q", "declared", "small"):
        await lab.store.register_queue(QueuePolicy(name))
    node = Node(
        id="m.1",
        host="h",
        pid=1,
        version="1",
        queues=["q", "declared", "small"],
        types={"q": ["t"], "declared": [], "small": ["t"]},
        workers={"q": 4, "small": 2},
        capacity=6,
    )
    await metering(lab).report(Report(beat=Beat(node=node, good_for=HOUR)))
    queues = (await read(browse(open_to_all(lab.store)), "/api/overview"))["queues"]
    found = {each["name"]: (each["capacity"], each["nodes"]) for each in queues}
    assert found == {"q": (4, 1), "declared": (0, 0), "small": (2, 1)}
