"""What the API tells of the store itself."""

from __future__ import annotations

import anyio
import pytest

from gotasks_dashboard import _system
from gotasks_py import QueuePolicy
from gotasks_py.auditing import AuditEntry, Auditing
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import MINUTE, Lab

pytestmark = pytest.mark.anyio


async def test_memory_tells_of_stuck_tasks(mem_lab: Lab, browse: Browse) -> None:
    await mem_lab.store.register_queue(QueuePolicy("q"))
    client = browse(open_to_all(mem_lab.store))
    found = await read(client, "/api/system")
    assert [each["severity"] for each in found["findings"]] == ["ok"]
    assert (found["store"], found["collections"], found["oplog"]) == ("MemStore", [], None)
    await mem_lab.enqueue()
    mem_lab.pass_time(10 * MINUTE)
    (finding,) = (await read(client, "/api/system"))["findings"]
    assert (finding["severity"], finding["check"]) == ("error", "stuck tasks")
    assert "no manager" in finding["remedy"]


async def test_a_doctor_that_takes_too_long_is_given_up(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_asked: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setattr(_system, "examined", hang)
    monkeypatch.setattr(_system, "_PATIENCE_SECONDS", 0.05)
    answer = await browse(open_to_all(mem_lab.store)).get("/api/system")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")


@pytest.mark.mongo
async def test_a_database_is_measured(mongo_lab: Lab, browse: Browse) -> None:
    assert isinstance(mongo_lab.store, Auditing)
    await mongo_lab.store.audit(AuditEntry(id="1", at=mongo_lab.store.clock.now(), action="a"))
    await mongo_lab.enqueue(tags=["x"])
    found = await read(browse(open_to_all(mongo_lab.store)), "/api/system")
    sizes = {each["name"].partition("_")[2]: each["documents"] for each in found["collections"]}
    assert sizes[""] == 1
    assert sizes["audit"] == 1
    indexes = {(each["collection"].partition("_")[2], each["name"]) for each in found["indexes"]}
    assert {("", "claim"), ("", "list"), ("audit", "log")} <= indexes
    claim = next(each for each in found["indexes"] if each["name"] == "claim")
    assert claim["keys"][0] == ["queue", 1]
    assert claim["bytes"] > 0
    assert len(found["plans"]) > 10
    assert [each for each in found["plans"] if not each["is_served"]] == []
    assert found["oplog"]["window_seconds"] >= 0
    assert "error" not in {each["severity"] for each in found["findings"]}
