"""Jobs of other processes, and what is told of those that nobody does any more."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gotasks_dashboard import Permission, dashboard
from gotasks_py import AuditEntry, Auditing, BulkReport, Inspecting, QueuePolicy, TaskFilter
from gotasks_py import _bulk_operations as bulk_operations
from gotasks_py._bulk_operations import BulkOperation
from gotasks_py.auditing import Outcome
from gotasks_py.task import TaskId
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import SECOND, Lab

pytestmark = pytest.mark.anyio

JOB = "0" * 32


async def a_job(lab: Lab, **fields: Any) -> AuditEntry:
    """Record what another process has told of a job last."""
    store, now = lab.store, lab.store.clock.now()
    assert isinstance(store, Auditing)
    given: dict[str, Any] = {
        "id": JOB,
        "at": now - 60 * SECOND,
        "alive_at": now,
        "action": "requeue",
        "user": "ann",
        "details": {"query": "queue:q", "total": 500},
        "outcome": Outcome.RUNNING,
        "changed": 135,
        "refused": 0,
        "by": "shop.7",
    }
    entry = AuditEntry(**given | fields)
    await store.audit(entry)
    return entry


async def test_a_job_whose_process_was_killed_is_told_as_lost(lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(lab.store))
    running = await a_job(lab)
    found = await read(client, f"/api/jobs/{JOB}")
    assert (found["state"], found["changed"], found["by"]) == ("running", 135, "shop.7")
    assert found["total"] == {"value": 500, "is_exact": True}
    last = running.alive_at
    await a_job(lab, at=running.at - 60 * SECOND, alive_at=running.at)
    lost = await read(client, f"/api/jobs/{JOB}")
    assert (lost["state"], lost["changed"], lost["is_stopping"]) == ("lost", 135, False)
    assert "shop.7 has not been heard of since" in lost["error"]
    (entry,) = (await read(client, "/api/audit"))["entries"]
    assert (entry["outcome"], entry["report"]["changed"]) == ("lost", 135)
    assert entry["error"] == lost["error"]
    refused = await client.post(f"/api/jobs/{JOB}/stop", json={})
    assert (refused.status_code, refused.json()["code"]) == (409, "job_lost")
    assert "shop.7" in refused.json()["detail"]
    assert len((await read(client, "/api/audit"))["entries"]) == 1
    # It was only slow: what it tells then counts again.
    await a_job(lab, alive_at=last)
    assert (await read(client, f"/api/jobs/{JOB}"))["state"] == "running"
    answer = await client.post(f"/api/jobs/{JOB}/stop", json={})
    assert (answer.status_code, answer.json()["is_stopping"]) == (200, True)


async def test_jobs_of_other_processes_are_listed_and_single_acts_are_not(
    lab: Lab, browse: Browse
) -> None:
    entry = await a_job(lab, alive_at=None)
    assert isinstance(lab.store, Auditing)
    single = replace(entry, id="1" * 32, target={"task": "x"}, by=None, outcome=Outcome.DONE)
    await lab.store.audit(single)
    client = browse(open_to_all(lab.store))
    (listed,) = (await read(client, "/api/jobs"))["jobs"]
    assert (listed["id"], listed["state"], listed["query"]) == (JOB, "lost", "queue:q")
    stranger = browse(dashboard(lab.store, authorize=lambda _: {Permission.VIEW}))
    (listed,) = (await read(stranger, "/api/jobs"))["jobs"]
    assert (listed["id"], listed["query"], listed["user"]) == (JOB, None, None)


async def test_how_far_a_job_has_come_is_told_within_a_batch(
    mem_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_operations, "_TOLD_SECONDS", 0)
    await mem_lab.store.register_queue(QueuePolicy("q"))
    for _ in range(3):
        await mem_lab.enqueue()
    told: list[BulkReport] = []

    async def act(_: TaskId) -> None:
        """Do nothing."""

    assert isinstance(mem_lab.store, Inspecting)
    bulk = BulkOperation(mem_lab.store, TaskFilter(queue="q"), 1000, told.append)
    await bulk.each(act)
    assert [each.changed for each in told] == [1, 2, 3, 3]
