"""How values become documents and come back."""

import math
import re
from collections import OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypeVar
from uuid import UUID

import bson
import pytest
from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    Json,
    PlainSerializer,
    RootModel,
    TypeAdapter,
    model_validator,
)
from typing_extensions import TypeAliasType, TypedDict

from gotasks_py.codec import Codec, Document, codec_for, codec_for_value
from gotasks_py.errors import HandlerError, PayloadError, PayloadTooLargeError
from tests.unit.values import LIMIT, Color, Item, Opaque, Order, Record, Strict, encoded

INDIA = timezone(timedelta(hours=5, minutes=30))


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    HI = "hi"


class Aliased(BaseModel):
    old: int = Field(validation_alias=AliasChoices("older", "oldest"))
    both: int = Field(alias="BOTH")
    out: int = Field(serialization_alias="OUT")


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class OnlyValue(BaseModel):
    value: int


class Loose(BaseModel):
    value: Any


class Numbers(RootModel[list[int]]):
    pass


class Pair(NamedTuple):
    a: int
    b: str


class Typed(TypedDict):
    a: int
    at: NotRequired[datetime]


V = TypeVar("V")


class Box(BaseModel, Generic[V]):
    content: V


Alias = TypeAliasType("Alias", Item)


class WithOpaque(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)

    thing: Annotated[Opaque, PlainSerializer(lambda thing: thing.text)]

    @model_validator(mode="before")
    @classmethod
    def revive(cls, data: dict[str, Any]) -> dict[str, Any]:
        thing = data["thing"]
        return {"thing": Opaque(thing) if isinstance(thing, str) else thing}


class Consuming(BaseModel):
    """Takes its input apart while it validates."""

    rest: dict[str, Any]

    @model_validator(mode="before")
    @classmethod
    def consume(cls, data: dict[str, Any]) -> dict[str, Any]:
        return {"rest": data.pop("rest")}


def refusal(annotation: object, value: object) -> PayloadError:
    with pytest.raises(PayloadError) as caught:
        encoded(annotation, value)
    return caught.value


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, 3),
        (int, -(2**63)),
        (None, None),
        (str, "nul\0 and ünïcode"),
        (bytes, b"\xff\0"),
        (float, -math.inf),
        (bool, True),
        (Any, {"a": [1, {"b": None}]}),
        (Any, {"value": 3}),
        (object, {"value": {"value": 3}}),
        (int | dict[str, int], 3),
        (int | dict[str, int], {"value": 3}),
        (dict[str, int], {"value": 3}),
        (Item, Item(x=1)),
        (list[Item], [Item(x=1), Item(x=2)]),
        (dict[int, Item], {1: Item(x=1)}),
        (dict[date, int], {date(2026, 1, 1): 1}),
        (dict[bool, int], {True: 1}),
        (Order, Order(item=Item(x=1), items=[Item(x=2)])),
        (Aliased, Aliased.model_validate({"oldest": 1, "BOTH": 2, "out": 3})),
        (Strict, Strict(day=date(2026, 1, 1), pair=(1, 2), ids={1: UUID(int=5)})),
        (Annotated[Cat | Dog, Field(discriminator="kind")], Dog(name="Rex")),
        (OnlyValue, OnlyValue(value=1)),
        (OnlyValue | None, OnlyValue(value=1)),
        (OnlyValue | None, None),
        (Numbers, Numbers([1, 2])),
        (Pair, Pair(1, "b")),
        (Typed, {"a": 1, "at": datetime(2026, 1, 1, tzinfo=UTC)}),
        (Record, Record([Item(x=1)], {3: "c"})),
        (Box[int], Box[int](content=1)),
        (Box, Box[int](content=1)),
        (Alias, Item(x=1)),
        (set[int], {1, 2}),
        (frozenset[tuple[int, str]], frozenset({(1, "a")})),
        (deque[int], deque([1, 2])),
        (Any, Word.HI),
        (Any, Level.LOW),
        (Any, OrderedDict(a=1)),
        (defaultdict[str, int], defaultdict(int, a=1)),
        (Color, Color.RED),
        (Level, Level.LOW),
        (Decimal, Decimal("1.10")),
        (UUID, UUID(int=7)),
        (IPv4Address, IPv4Address("127.0.0.1")),
        (Path, Path("/tmp/x")),
        (re.Pattern[str], re.compile("a+")),
        (complex, 1j),
        (date, date(2026, 2, 3)),
        (time, time(1, 2, 3, 4)),
        (timedelta, timedelta(days=-1, microseconds=3)),
        (datetime, datetime(2026, 1, 1, 12, tzinfo=INDIA)),
        (datetime, datetime(2026, 1, 1, microsecond=7, tzinfo=UTC)),
        (datetime, datetime.min.replace(tzinfo=INDIA)),
        (Json[int], "3"),
    ],
)
def test_a_value_comes_back_equal_and_its_bson_decodes_to_the_same(
    annotation: object, value: object
) -> None:
    codec = codec_for(annotation)

    document = codec.encode(value, limit=LIMIT)

    expected = 3 if annotation == Json[int] else value
    through_bson: Document = bson.decode(bson.encode(document), bson.CodecOptions(tz_aware=True))
    assert expected == codec.decode(document)
    assert expected == codec.decode(through_bson)


def test_nan_survives() -> None:
    assert math.isnan(codec_for(float).decode(encoded(float, math.nan)))


def test_nan_is_equal_to_itself_anywhere_in_a_value() -> None:
    value = {"a": [math.nan, {"b": math.nan}], "c": math.nan}

    assert math.isnan(encoded(dict[str, Any], value)["c"])  # type: ignore[arg-type]
    assert len(encoded(set[float], {math.nan, 1.0})["value"]) == 2  # type: ignore[arg-type]
    decimals = Annotated[Decimal, Field(allow_inf_nan=True)]
    assert encoded(decimals, Decimal("NaN")) == {"value": "NaN"}


def test_an_object_without_equality_is_compared_by_what_it_holds() -> None:
    codec = codec_for(WithOpaque)

    document = codec.encode(WithOpaque(thing=Opaque("a")), limit=LIMIT)

    assert document == {"thing": "a"}
    assert codec.decode(document).thing.text == "a"


def test_non_objects_are_wrapped_and_objects_are_not() -> None:
    assert encoded(list[int], [1]) == {"value": [1]}
    assert encoded(None, None) == {"value": None}
    assert encoded(Item, {"x": "1"}) == {"x": 1}
    assert encoded(Any, {"value": 3}) == {"value": {"value": 3}}


def test_a_model_with_the_one_field_value_is_stored_as_it_is() -> None:
    assert encoded(OnlyValue, OnlyValue(value=1)) == {"value": 1}


@pytest.mark.parametrize("annotation", [Any, object, dict, dict[str, Any], Loose, int | Loose])
@pytest.mark.parametrize("inner", [3, {"a": 1}, {"value": 3}, {"value": {"value": None}}])
def test_an_object_around_value_reads_alike_whether_or_not_its_writer_knew_the_type(
    annotation: Any, inner: object
) -> None:
    reader = codec_for(annotation)
    expected = reader.encode({"value": inner}, limit=LIMIT)
    untyped = codec_for_value({}).encode({"value": inner}, limit=LIMIT)

    assert reader.decode(untyped) == reader.decode(expected)
    assert TypeAdapter(annotation).dump_python(reader.decode(untyped)) == {"value": inner}


def test_names_are_stored_by_alias() -> None:
    class Sent(BaseModel):
        to: str = Field(alias="To")

    assert encoded(Sent, Sent(To="a")) == {"To": "a"}


def test_whole_milliseconds_are_stored_as_utc_dates_and_the_rest_as_text() -> None:
    whole = datetime(2026, 1, 1, 5, 30, 0, 1000, tzinfo=INDIA)

    stored = encoded(datetime, whole)["value"]

    assert (datetime(2026, 1, 1, 0, 0, 0, 1000, tzinfo=UTC), UTC) == (stored, stored.tzinfo)  # type: ignore[attr-defined]
    assert encoded(datetime, datetime(2026, 1, 1, microsecond=1, tzinfo=UTC)) == {
        "value": "2026-01-01T00:00:00.000001Z"
    }


def test_subclasses_of_plain_types_are_stored_as_the_plain_type() -> None:
    class Text(str):
        __slots__ = ()

    class Moment(datetime):
        pass

    class Real(float):
        pass

    moment = Moment(2026, 1, 1, tzinfo=UTC)
    source = {"t": Text("a"), "m": moment, "r": Real(1.5), "i": bson.Int64(3), Text("k"): None}

    document = encoded(Any, source)

    assert source == document
    assert [str, datetime, float, int, type(None)] == [type(one) for one in document.values()]
    assert {str} == {type(key) for key in document}


def test_a_json_only_serializer_is_used_where_the_plain_dump_cannot_be_stored() -> None:
    class Span(BaseModel):
        model_config = ConfigDict(arbitrary_types_allowed=True)

        span: Annotated[
            range, PlainSerializer(lambda span: [span.start, span.stop], when_used="json")
        ]

        @model_validator(mode="before")
        @classmethod
        def revive(cls, data: dict[str, Any]) -> dict[str, Any]:
            span = data["span"]
            return {"span": range(*span) if isinstance(span, list) else span}

    assert encoded(Span, Span(span=range(1, 3))) == {"span": [1, 3]}


def test_a_dump_that_is_no_object_is_wrapped_for_a_model_too() -> None:
    class Celsius(BaseModel):
        degrees: int

        @model_validator(mode="before")
        @classmethod
        def parse(cls, data: object) -> object:
            return {"degrees": int(data)} if isinstance(data, str) else data

    codec = codec_for(Annotated[Celsius, PlainSerializer(lambda one: str(one.degrees))])

    document = codec.encode(Celsius(degrees=20), limit=LIMIT)

    assert document == {"value": "20"}
    assert Celsius(degrees=20) == codec.decode(document)


def test_a_validator_that_raises_on_a_stored_document_is_a_payload_error() -> None:
    with pytest.raises(PayloadError, match=r"validation as Consuming raised KeyError"):
        codec_for(Consuming).decode({})


@pytest.mark.parametrize("document", [None, 3, [], "text"])
def test_a_document_that_is_no_object_is_refused(document: object) -> None:
    with pytest.raises(PayloadError, match="not an object"):
        codec_for(Any).decode(document)


def test_messages_do_not_repeat_long_input() -> None:
    with pytest.raises(PayloadError) as caught:
        codec_for(Item).decode({"x": "a" * 10_000})
    assert len(str(caught.value)) < 400

    class Talkative(BaseModel):
        x: int

        @model_validator(mode="before")
        @classmethod
        def complain(cls, data: object) -> object:
            raise ValueError(str(data))

    with pytest.raises(PayloadError) as caught:
        codec_for(Talkative).decode({"y" * 10_000: "a" * 10_000})
    assert len(str(caught.value)) < 400


def test_a_wrapped_document_is_read_by_a_type_that_became_an_object_and_back() -> None:
    assert OnlyValue(value=1) == codec_for(OnlyValue).decode({"value": {"value": 1}})
    assert OnlyValue(value=1) == codec_for(OnlyValue | None).decode({"value": 1})


def test_a_document_that_fits_neither_way_reports_the_likelier_one() -> None:
    with pytest.raises(PayloadError) as caught:
        codec_for(Item).decode({"value": "x"})

    assert caught.value.path == "x"


@pytest.mark.parametrize(
    ("fields", "fits"),
    [
        ({"a": (int, ...), "new": (int, 1)}, True),
        ({"a": (int, ...), "new": (int, ...)}, False),
        ({"renamed": (int, Field(validation_alias=AliasChoices("renamed", "a")))}, True),
        ({"__config__": ConfigDict(extra="forbid")}, False),
    ],
)
def test_a_document_of_an_older_model_fits_if_its_fields_do(
    fields: dict[str, Any], fits: bool
) -> None:
    from pydantic import create_model  # noqa: PLC0415  - the one test that needs it

    codec = codec_for(create_model("Newer", **fields))
    if fits:
        assert next(iter(codec.decode({"a": 1}).model_dump().values())) == 1
    else:
        with pytest.raises(PayloadError):
            codec.decode({"a": 1})


def test_the_document_shares_nothing_with_the_value() -> None:
    inner = [1]
    value = {"a": {"b": inner}}

    document = encoded(Any, value)
    inner.append(2)

    assert document == {"a": {"b": [1]}}


def test_decoding_gives_fresh_objects_each_time() -> None:
    document: Document = {"a": {"b": [1]}}
    codec = codec_for(Any)

    codec.decode(document)["a"]["b"].append(2)

    assert document == {"a": {"b": [1]}}
    assert codec.decode(document) == {"a": {"b": [1]}}


def test_validators_that_consume_their_input_leave_the_document_alone() -> None:
    document = encoded(Consuming, Consuming.model_construct(rest={"a": 1}))

    assert document == {"rest": {"a": 1}}


def test_integers_that_a_driver_reads_as_its_own_class_become_plain() -> None:
    assert int is type(codec_for(Any).decode({"n": bson.Int64(2**40)})["n"])


def test_the_limit_is_exact_and_the_error_carries_the_sizes() -> None:
    codec = codec_for(Item)
    size = len(bson.encode({"x": 1}))

    assert codec.encode(Item(x=1), limit=size) == {"x": 1}
    with pytest.raises(PayloadTooLargeError) as caught:
        codec.encode(Item(x=1), limit=size - 1, what="result")

    assert (size, size - 1) == (caught.value.size, caught.value.limit)
    assert "the result takes" in str(caught.value)


@pytest.mark.parametrize("annotation", [range, 123, "Nope"])
def test_a_type_that_pydantic_cannot_handle_is_a_handler_error(annotation: object) -> None:
    with pytest.raises(HandlerError, match="cannot be stored"):
        Codec(annotation)


def test_codecs_are_shared_where_the_type_is_hashable() -> None:
    assert codec_for(list[int]) is codec_for(list[int])
    unhashable = Annotated[int, Field(json_schema_extra={"a": []}), []]
    assert codec_for(unhashable) is not codec_for(unhashable)
    assert encoded(unhashable, 1) == {"value": 1}


def test_unions_in_another_order_keep_their_own_codec() -> None:
    left = Annotated[int | str, Field(union_mode="left_to_right")]
    right = Annotated[str | int, Field(union_mode="left_to_right")]

    assert encoded(left, "1") == {"value": 1}
    assert encoded(right, "1") == {"value": "1"}


@pytest.mark.parametrize("value", [Item(x=1), Record([]), {"a": 1}, [1, "b"], "text", None])
def test_an_unregistered_value_is_stored_by_its_own_class(value: object) -> None:
    codec = codec_for_value(value)

    assert value == codec.decode(codec.encode(value, limit=LIMIT))


def test_plain_data_is_parsed_as_the_payload_that_it_stands_for() -> None:
    class Meeting(BaseModel):
        at: datetime
        people: tuple[str, ...]

    data = {"at": "2026-01-31T12:00:00Z", "people": ["ann"]}
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert codec_for(Meeting).parse(data) == Meeting(at=at, people=("ann",))
    assert codec_for(int).parse(5) == 5
    assert codec_for(dict[str, int]).parse({"value": 5}) == {"value": 5}


def test_each_field_at_fault_is_named() -> None:
    class Point(BaseModel):
        x: int
        y: int

    with pytest.raises(PayloadError) as caught:
        codec_for(Point).parse({"x": "far"})
    assert [path for path, _ in caught.value.problems] == ["x", "y"]
    assert caught.value.problems[1][1] == "Field required"
    assert PayloadError("wrong", path="a.b").problems == (("a.b", "wrong"),)


def test_a_codec_describes_its_data_as_json_if_it_can() -> None:
    schema = codec_for(Annotated[int, Field(ge=3)]).json_schema()
    assert schema == {"type": "integer", "minimum": 3}
    assert codec_for(InstanceOf[Opaque]).json_schema() is None
