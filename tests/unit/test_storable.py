"""The walk to plain values: what it keeps, what it counts, and that nothing is lost unseen."""

from collections import deque
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from gotasks_py._storable import MAX_DEPTH, UnstorableError, storable
from gotasks_py.codec import Codec, codec_for
from gotasks_py.errors import PayloadError, PayloadTooLargeError

LIMIT = 8 * 2**20
INDIA = timezone(timedelta(hours=5, minutes=30))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        1.5,
        "ünïcode",
        "nul\0",
        b"\xff",
        "",
        {},
        [],
        list(range(1001)),
        {"ünïcode": {"": 1}},
        datetime(2026, 1, 1, tzinfo=UTC),
        2**31 - 1,
        2**31,
        -(2**31),
        -(2**31) - 1,
        2**63 - 1,
        -(2**63),
    ],
)
def test_the_size_is_that_of_the_bson(value: object) -> None:
    document, size = storable({"a": value})

    assert size == len(bson.encode(document))


def test_containers_and_views_of_bytes_become_plain() -> None:
    document, size = storable(
        {"d": deque([1]), "t": (1,), "f": frozenset({1}), "b": bytearray(b"x")}
    )

    assert document == {"d": [1], "t": [1], "f": [1], "b": b"x"}
    assert type(document["b"]) is bytes
    assert size == len(bson.encode(document))


def test_keys_become_text_as_in_json() -> None:
    document, size = storable({1: "a", date(2026, 1, 1): "b", False: "c"})

    assert document == {"1": "a", "2026-01-01": "b", "false": "c"}
    assert size == len(bson.encode(document))


def test_the_path_leads_from_the_outside_in() -> None:
    with pytest.raises(UnstorableError) as caught:
        storable({"a": [{"b": 2**70}]})

    assert caught.value.path == ["a", 0, "b"]


def test_the_deepest_level_is_kept_and_one_more_is_refused() -> None:
    deepest: dict[object, object] = {}
    for _ in range(MAX_DEPTH - 1):
        deepest = {"a": deepest}

    assert storable(deepest)[0] == deepest
    with pytest.raises(UnstorableError, match="deeper than 100 levels"):
        storable({"a": deepest})


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.binary(max_size=8)
    | st.datetimes(timezones=st.just(UTC))
    | st.datetimes(timezones=st.just(INDIA))
    | st.dates()
    | st.decimals(allow_nan=False)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=12)
        | st.dictionaries(st.text(max_size=4), inner, max_size=4)
        | st.tuples(inner)
    ),
    max_leaves=15,
)


class Everything(BaseModel):
    anything: Any
    numbers: list[int] = []
    moments: dict[int, datetime] = {}
    amounts: set[Decimal] = set()
    nested: list["Everything"] = []


models = st.recursive(
    st.builds(
        Everything,
        anything=values,
        numbers=st.lists(st.integers(-(2**64), 2**64), max_size=3),
        moments=st.dictionaries(st.integers(), st.datetimes(timezones=st.just(UTC)), max_size=3),
        amounts=st.sets(st.decimals(allow_nan=False, allow_infinity=False), max_size=3),
    ),
    lambda inner: st.builds(Everything, anything=values, nested=st.lists(inner, max_size=3)),
    max_leaves=4,
)


def same(left: object, right: object) -> bool:
    """Tell whether two values are equal, with NaN equal to itself and types told apart."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, BaseModel) and isinstance(right, BaseModel):
        return same(left.__dict__, right.__dict__)
    return left == right or (left != left and right != right)  # noqa: PLR0124  - NaN


@given(values | models)
def test_any_value_comes_back_exactly_or_is_refused_and_its_size_is_exact(value: object) -> None:
    codec: Codec[Any] = codec_for(Everything if isinstance(value, Everything) else Any)
    try:
        document = codec.encode(value, limit=LIMIT)
    except PayloadError:
        return

    size = len(bson.encode(document))
    assert same(value, codec.decode(document))
    assert document == codec.encode(value, limit=size) or "nan" in repr(document)
    with pytest.raises(PayloadTooLargeError) as caught:
        codec.encode(value, limit=size - 1)
    assert size == caught.value.size
