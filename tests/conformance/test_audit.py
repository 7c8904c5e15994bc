"""Who did what is kept, and told page by page."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gotasks_py.auditing import AuditEntry, Auditing, Outcome
from gotasks_py.errors import ConfigurationError
from tests.lab import SECOND, Lab

pytestmark = pytest.mark.anyio


def audited(lab: Lab) -> Auditing:
    assert isinstance(lab.store, Auditing)
    return lab.store


def an_entry(lab: Lab, number: int, **fields: Any) -> AuditEntry:
    given: dict[str, Any] = {
        "id": f"{number:032x}",
        "at": lab.store.clock.now() + number * SECOND,
        "action": "pause",
        "user": "ann",
    }
    return AuditEntry(**given | fields)


async def test_an_entry_comes_back_as_it_was_recorded(lab: Lab) -> None:
    entry = an_entry(
        lab,
        1,
        target={"queue": "a/b"},
        details={"until": None, "n": 2**62, "$key.with": {"dots.in": [1, "it"]}},
        outcome=Outcome.FAILED,
        error="no",
        changed=0,
        refused=3,
        finished_at=lab.store.clock.now(),
        by="m.1",
        alive_at=lab.store.clock.now(),
    )
    store = audited(lab)
    assert await store.audited(entry.id) is None
    await store.audit(entry)
    assert await store.audited(entry.id) == entry
    assert (await store.audit_log()).entries == [entry]


async def test_what_runs_without_a_sign_of_life_is_lost(lab: Lab) -> None:
    store = audited(lab)
    now = lab.store.clock.now()
    running = an_entry(lab, 1, outcome=Outcome.RUNNING, at=now - 60 * SECOND, alive_at=now)
    await store.audit(running)
    (read,) = (await store.audit_log()).entries
    assert read.as_of(now + 29 * SECOND) == running
    assert read.as_of(now + 30 * SECOND) == replace(running, outcome=Outcome.LOST)
    assert replace(read, alive_at=None).as_of(now).outcome is Outcome.LOST
    assert replace(read, outcome=Outcome.DONE).as_of(now + 60 * SECOND).outcome is Outcome.DONE


async def test_what_becomes_known_takes_the_place_of_what_was(lab: Lab) -> None:
    store = audited(lab)
    begun = an_entry(lab, 1, outcome=Outcome.RUNNING)
    await store.audit(begun)
    done = replace(begun, outcome=Outcome.DONE, changed=7)
    await store.audit(done)
    await store.audit(done)
    assert (await store.audit_log()).entries == [done]


async def test_nothing_was_done_at_first(lab: Lab) -> None:
    page = await audited(lab).audit_log()
    assert (page.entries, page.cursor) == ([], None)


async def test_every_entry_is_reached_the_latest_first(lab: Lab) -> None:
    store = audited(lab)
    at = lab.store.clock.now()
    entries = [an_entry(lab, number, at=at + (number // 3) * SECOND) for number in range(8)]
    for entry in entries:
        await store.audit(entry)
    found: list[str] = []
    cursor = None
    while True:
        page = await store.audit_log(limit=3, cursor=cursor)
        found += [entry.id for entry in page.entries]
        cursor = page.cursor
        if cursor is None:
            break
    assert found == [entry.id for entry in reversed(entries)]


async def test_the_log_is_told_by_user_and_by_action(lab: Lab) -> None:
    store = audited(lab)
    for number, (user, action) in enumerate(
        [("ann", "pause"), ("bob", "pause"), ("ann", "delete"), (None, "delete")]
    ):
        await store.audit(an_entry(lab, number, user=user, action=action))

    async def ids(**wanted: Any) -> list[int]:
        page = await store.audit_log(**wanted)
        return [int(entry.id, 16) for entry in page.entries]

    assert await ids(user="ann") == [2, 0]
    assert await ids(action="delete") == [3, 2]
    assert await ids(user="ann", action="delete") == [2]
    assert await ids(user="eve") == []


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 1001}, {"cursor": "no"}, {"cursor": ""}])
async def test_impossible_pages_are_refused(lab: Lab, query: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        await audited(lab).audit_log(**query)


def test_what_a_hand_has_spoilt_reads_as_absent() -> None:
    entry = AuditEntry.from_document(
        {"_id": 7, "at": "x", "user": 1, "target": [], "outcome": "odd", "changed": "many"}
    )
    assert (entry.id, entry.user, entry.target, entry.outcome) == ("7", None, {}, Outcome.DONE)
    assert (entry.changed, entry.refused, entry.finished_at) == (0, None, None)


def test_an_entry_is_kept_for_a_year() -> None:
    entry = AuditEntry.from_document({"_id": "1"})
    assert entry.to_document()["expires_at"] == entry.at + timedelta(days=365)
