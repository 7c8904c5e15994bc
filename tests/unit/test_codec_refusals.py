"""What a codec refuses, and how it says where and why."""

import re
from collections.abc import Callable, Iterable
from datetime import date, datetime, tzinfo
from typing import Annotated, Any
from uuid import UUID

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    field_serializer,
    model_validator,
)
from typing_extensions import TypedDict

from gotasks_py.codec import codec_for
from gotasks_py.errors import PayloadError
from tests.unit.values import Color, Hidden, Item, Opaque, Order, Record, Strict, encoded


class SpecialItem(Item):
    y: int = 0


def refusal(annotation: object, value: object) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        encoded(annotation, value)
    return caught.value


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (int, 2**63, ""),
        (list[int], [1, -(2**63) - 1], "1"),
        (str, "\ud800", ""),
        (dict[str, list[str]], {"a": ["ok", "\udfff"]}, "a.1"),
        (dict[str, int], {"a\0": 1}, "a\0"),
        (dict[str, int], {"\ud800": 1}, "\ud800"),
        (Order, Order(item=SpecialItem(x=1, y=2)), "item"),
        (Order, Order(item=Item(x=1), items=[Item(x=1), SpecialItem(x=1)]), "items.1"),
        (Record, Record([SpecialItem(x=1)]), "items.0"),
        (Hidden, Hidden(excluded=1), "excluded"),
        (Any, {"a": (1,)}, "a"),
        (Any, {"a": UUID(int=1)}, "a"),
        (Any, Color.PAIR, ""),
        (Any, Item(x=1), ""),
        (Any, {1: 2}, "1"),
        (Any, {"a": {(1, 2): 3}}, "a.(1, 2)"),
        (Any, {"a": {Opaque("k"): 3}}, "a.{opaque}"),
        (Any, {"a": [{"b": range(3)}]}, "a.0.b"),
        (Any, {"a": bytearray(b"x")}, "a"),
        (Any, {"a": {"$ref": "c", "$id": 1}}, "a"),
        (Any, {"a": SecretStr("s")}, "a"),
        (SecretStr, SecretStr("s"), ""),
        (re.Pattern[str], re.compile("a", re.IGNORECASE), ""),
        (Callable[[], None], print, ""),
    ],
)
def test_what_would_not_come_back_equal_is_refused_with_its_path(
    annotation: object, value: object, path: str
) -> None:
    error = refusal(annotation, value)

    if path == "a.{opaque}":
        assert error.path.startswith("a.<")
    else:
        assert path == error.path


@pytest.mark.parametrize(
    ("value", "change"),
    [({"a": (1,)}, "tuple became list"), ({"a": {1}}, "set became list")],
)
def test_an_untyped_container_that_changes_its_class_is_refused_with_both(
    value: object, change: str
) -> None:
    error = refusal(dict, value)

    assert error.path == "a"
    assert change in str(error)
    assert "annotate it" in str(error)


NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001  - the mistake


class Meeting(BaseModel):
    at: datetime


class WrittenAsText(BaseModel):
    at: datetime

    @field_serializer("at", when_used="json")
    def text(self, at: datetime) -> str:
        return at.isoformat()


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (Any, NAIVE, ""),
        (datetime, NAIVE, ""),
        (Any, {"a": [NAIVE]}, "a.0"),
        (Any, {"value": NAIVE}, "value"),
        (set[datetime], {NAIVE}, "0"),
        (dict[datetime, int], {NAIVE: 1}, str(NAIVE)),
        (Meeting, Meeting(at=NAIVE), "at"),
        (Meeting, {"at": NAIVE}, "at"),
        (WrittenAsText, WrittenAsText(at=NAIVE), "at"),
    ],
)
def test_a_naive_datetime_is_refused_wherever_it_stands(
    annotation: object, value: object, path: str
) -> None:
    error = refusal(annotation, value)

    assert error.path == path
    assert "is a naive datetime: 2026-01-01 00:00:00 has no time zone" in str(error)


def test_a_time_zone_that_fails_is_a_payload_error() -> None:
    class Broken(tzinfo):
        pass

    assert "raised NotImplementedError" in str(refusal(Any, datetime(2026, 1, 1, tzinfo=Broken())))  # type: ignore[abstract]  # the one without methods is the point


def test_a_private_attribute_that_differs_from_its_default_is_refused() -> None:
    hidden = Hidden()
    setattr(hidden, "_private", 1)  # noqa: B010  - what only the model itself should do

    assert refusal(Hidden, hidden).path == "_private"


def test_a_private_attribute_that_a_fresh_value_lacks_is_refused() -> None:
    class Late(BaseModel):
        _late: int = PrivateAttr()

    late = Late()
    setattr(late, "_late", 1)  # noqa: B010  - as above

    assert refusal(Late, late).path == "_late"


def test_extra_fields_come_back_too() -> None:
    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")

    assert encoded(Open, Open.model_validate({"more": [1]})) == {"more": [1]}
    assert refusal(Open, Open.model_validate({"more": (1,)})).path == "more"


def test_a_type_error_names_the_first_path_and_lists_all() -> None:
    error = refusal(list[Item], [{"x": 1}, {"y": 2}, {"x": "q"}])

    assert error.path == "1.x"
    assert re.match(r"1\.x: Field required; 2\.x: Input should be a valid integer", str(error))
    assert "(expected list[" in str(error)


def test_a_long_list_of_problems_is_cut() -> None:
    message = str(refusal(list[int], ["x"] * 103))

    assert "; and 3 more (expected list[int])" in message
    assert message.count("valid integer") == 100


def test_a_model_changed_to_something_invalid_is_refused() -> None:
    item = Item(x=1)
    item.x = "one"  # type: ignore[assignment]

    assert refusal(Item, item).path == "x"


def test_a_strict_type_names_the_field_at_fault_rather_than_those_that_need_json() -> None:
    with pytest.raises(PayloadError) as caught:
        codec_for(Strict).decode({"day": "2026-01-01", "pair": ["x"]})

    assert caught.value.path == "pair.0"


def test_bytes_that_are_not_text_are_refused_in_a_strict_type_that_needs_json() -> None:
    assert refusal(Strict, Strict(day=date(2026, 1, 1), raw=b"\xff")).path == "day"
    assert encoded(
        TypedDict("Raw", {"raw": bytes}),  # type: ignore[operator]
        {"raw": b"\xff"},
    ) == {"raw": b"\xff"}


def test_a_hundred_levels_are_stored_and_one_more_is_refused() -> None:
    assert encoded(Any, nested(99))
    assert "100 levels" in str(refusal(Any, nested(100)))


def test_cycles_are_refused() -> None:
    cycle: dict[str, object] = {}
    cycle["again"] = cycle

    assert refusal(dict[str, Any], cycle).path.startswith("again")


def test_iterators_are_refused() -> None:
    assert "cannot be stored" in str(refusal(Iterable[int], iter([1, 2])))


@pytest.mark.parametrize("stage", ["validation", "serialization", "comparison"])
def test_an_error_in_the_types_own_code_becomes_a_payload_error(stage: str) -> None:
    class Raising(int):
        def __eq__(self, other: object) -> bool:
            raise KeyError(other)

        __hash__ = int.__hash__

    def raising(_: object) -> object:
        raise KeyError(stage)

    class Faulty(BaseModel):
        x: Any = None

        @model_validator(mode="before")
        @classmethod
        def check(cls, data: object) -> object:
            return raising(data) if stage == "validation" else data

    annotation: object = Faulty
    if stage == "serialization":
        annotation = Annotated[Faulty, PlainSerializer(raising)]
    value: object = {} if stage == "validation" else Faulty(x=Raising(1))

    assert str(refusal(annotation, value)).startswith(f"{stage} as ")
