"""What a filter takes, and which failures are the same."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from gotasks_py import ConfigurationError, Status, TaskFilter
from gotasks_py.fingerprints import fingerprint_of


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"queue": {"$ne": "q"}}, "a queue must be a string"),
        ({"queue": "$where"}, "must not start with"),
        ({"type": ["a"]}, "a type must be a string"),
        ({"tag": ""}, "a tag must have 1 to 200"),
        ({"unique_key": 7}, "a unique key must be a string"),
        ({"worker": {"$gt": ""}}, "a worker must be a string"),
        ({"fingerprint": {"$exists": True}}, "a fingerprint must be a string"),
        ({"status": "lost"}, "status must be one or several of pending"),
        ({"status": {"$ne": "done"}}, "status must be one or several of"),
        ({"status": 7}, "status must be one or several of"),
        ({"id": {"$gt": ""}}, "id must be a task's id"),
        ({"payload": "x"}, "payload must map paths to values"),
        ({"payload": {"n": {"$gt": 3}}}, "payload 'n' is compared with a text"),
        ({"payload": {"n": [1]}}, "payload 'n' is compared with a text"),
        ({"payload": {"n": 2**63}}, "payload 'n': no stored payload can have the value"),
        ({"payload": {"n": "\ud800"}}, "payload 'n': no stored payload can have the value"),
        ({"payload": {"$where": "1"}}, "a path into a payload is names"),
        ({"payload": {"a.$b": 1}}, "a path into a payload is names"),
        ({"payload": {"a..b": 1}}, "a path into a payload is names"),
        ({"payload": {7: 1}}, "a path into a payload is names"),
        ({"payload": {"at": datetime(2026, 1, 1)}}, "has no time zone"),  # noqa: DTZ001  - the point
        ({"error": ""}, "error must be a text of 1 to"),
        ({"error": {"$regex": "."}}, "error must be a text"),
        ({"run_before": datetime(2026, 1, 1)}, "has no time zone"),  # noqa: DTZ001  - the point
        ({"run_from": "yesterday"}, "must be an aware datetime"),
    ],
)
def test_what_is_not_literal_is_refused(settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        TaskFilter(**settings)


def test_a_worker_runs_and_a_fingerprint_is_dead() -> None:
    assert TaskFilter().statuses == frozenset(Status)
    assert TaskFilter(worker="w").statuses == {Status.RUNNING}
    assert TaskFilter(fingerprint="f", status=["dead", "done"]).statuses == {Status.DEAD}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user 17 not found", "user 4 not found"),
        ("task 0123abcd4567ef89 is gone", "task 89abcdef01234567 is gone"),
        (
            "no 6f1f2c1e-7d1a-4a9e-9b1f-0a1b2c3d4e5f",
            "no 0a1b2c3d-4e5f-4a9e-9b1f-6f1f2c1e7d1a",
        ),
        ("at 0x7f25fdb61050", "at 0x1"),
        ("two  lines\n here", "two lines here"),
        ("x" * 500 + "a", "x" * 500 + "b"),
    ],
)
def test_what_varies_makes_no_difference(one: str, other: str) -> None:
    assert fingerprint_of("E", one) == fingerprint_of("E", other)


def test_kinds_and_words_make_a_difference() -> None:
    prints = {
        fingerprint_of(*failure)
        for failure in (("E", "no disk"), ("F", "no disk"), ("E", "no feedback"), ("E", ""))
    }
    assert len(prints) == 4


def test_a_fingerprint_is_the_same_in_every_version() -> None:
    assert fingerprint_of("ValueError", "user 17 not found") == "c35933c88f3d510e"
