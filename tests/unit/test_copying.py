"""Copies of documents."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime

import pytest
from bson import ObjectId

from gotasks_py.copying import copied


def test_a_copy_is_equal_and_shares_nothing_that_can_change() -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    document: dict[str, object] = {
        "_id": ObjectId(),
        "at": moment,
        "tags": ["a", {"deep": [1, 2.5, None, b"x"]}],
    }
    copy = copied(document)
    assert copy == document
    tags = copy["tags"]
    assert isinstance(tags, list)
    tags[1]["deep"].append(3)
    assert document["tags"] == ["a", {"deep": [1, 2.5, None, b"x"]}]


@pytest.mark.parametrize("value", [OrderedDict(a=[1]), bytearray(b"x"), ([1],)])
def test_what_it_does_not_know_is_copied_deeply(value: object) -> None:
    copy = copied({"value": value})["value"]
    assert copy == value
    assert type(copy) is type(value)
    assert copy is not value
