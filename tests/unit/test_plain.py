"""What a codec writes without a trial is what the trial would have written."""

from __future__ import annotations

import math
import re
import types
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, Any, Literal, Self, TypeAlias

import bson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    RootModel,
    StringConstraints,
    TypeAdapter,
    computed_field,
    create_model,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from gotasks_py._equality import difference
from gotasks_py._plain import PlainWriter
from gotasks_py.codec import Codec, Document, codec_for
from gotasks_py.errors import PayloadError
from tests.lab import spelled

LIMIT = 2**24


class Word(StrEnum):
    HI = "hi"


class Text(str):
    __slots__ = ()


class Item(BaseModel):
    x: int
    words: list[str] = []


class Tree(BaseModel):
    left: Tree | None = None
    right: Tree | None = None


LEAVES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**64), 2**64),
    str: st.text(st.characters(codec=None, exclude_categories=()), max_size=5),
    bool: st.booleans(),
    float: st.floats(),
    type(None): st.none(),
    Literal["a", "b"]: st.sampled_from(["a", "b"]),
    Annotated[int, Field(ge=0, multiple_of=2)]: st.integers(0, 9).map(lambda half: 2 * half),
    Annotated[str, Field(max_length=3, pattern="^a*$")]: st.sampled_from(["", "a", "aaa"]),
}
STRANGE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *((1,), {1}, b"", Word.HI, Text("x"), Decimal(1), datetime(2027, 1, 1, tzinfo=UTC)),
        *({1: 1}, {"$ref": 1, "$id": 2}, {"a\0": 1}, {"value": 1}, {"ü": [2**63]}),
        *(Item(x=1), 1.0, True, -1, "b"),
    ]
)
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.one_of(*LEAVES.values(), STRANGE),
    lambda inner: st.lists(inner, max_size=12) | st.dictionaries(LEAVES[str], inner, max_size=4),
    max_leaves=20,
)


Typed: TypeAlias = tuple[Any, st.SearchStrategy[Any]]
"""A type, and a strategy for its values."""


def around(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    return st.one_of(
        inner.map(lambda of: (types.GenericAlias(list, (of[0],)), st.lists(of[1], max_size=12))),
        inner.map(
            lambda of: (
                types.GenericAlias(dict, (str, of[0])),
                st.dictionaries(LEAVES[str], of[1], max_size=3),
            )
        ),
        inner.map(lambda of: (of[0] | None, st.none() | of[1])),
        st.dictionaries(st.sampled_from(["value", "a", "ü", "c"]), inner, max_size=3).map(modelled),
    )


def modelled(fields: dict[str, Typed]) -> Typed:
    """Make a model, and values of it of which some were never validated."""
    made = model(**{name: (kind, ...) for name, (kind, _) in fields.items()})
    names = {"plain": st.just(1), **{name: of for name, (_, of) in fields.items()}}
    # Now and then a value of another type stands in a field, or one is left out.
    spoilt = {name: of | STRANGE for name, of in names.items()}
    states = st.fixed_dictionaries(names) | st.fixed_dictionaries({}, optional=spoilt)
    return made, states.map(lambda state: constructed(made, state))


def model(**fields: Any) -> Any:
    """Make a model of one plain field beside those that are given."""
    return create_model("Made", plain=(int, 1), **fields)


def constructed(kind: Any, state: dict[str, Any]) -> Any:
    return kind.model_construct(**state)


TYPES = st.recursive(st.sampled_from([*LEAVES.items(), (Any, ANYTHING)]), around, max_leaves=6)


class TryingCodec(Codec[Any]):
    """A codec that takes nothing for granted."""

    def _proven(self, valid: object) -> None:
        return None


def proven(annotation: Any, value: object) -> tuple[Document, int] | None:
    schema: Any = TypeAdapter(annotation).core_schema
    return PlainWriter(schema).written(value, "value")


@given(st.data())
def test_what_is_proven_is_what_the_trial_writes(data: st.DataObject) -> None:
    annotation, values = data.draw(TYPES)
    value = data.draw(values)
    try:
        document, size = Codec[Any](annotation).encode_sized(value, limit=LIMIT)
    except PayloadError as error:
        with pytest.raises(PayloadError, match=f"^{re.escape(str(error))}$"):
            TryingCodec(annotation).encode(value, limit=LIMIT)
        return
    tried = TryingCodec(annotation).encode_sized(value, limit=LIMIT)
    assert difference(tried[0], document) is None
    assert size == tried[1] == len(bson.encode(document))


@given(ANYTHING)
def test_a_plain_value_of_any_type_is_what_the_trial_writes(value: object) -> None:
    written = proven(Any, value)
    if written is not None:
        tried = TryingCodec(Any).encode_sized(value, limit=LIMIT)
        assert difference(list(tried), list(written)) is None


class Nested(BaseModel):
    item: Item
    more: dict[str, Item | None] = {}
    note: Annotated[str, StringConstraints(min_length=1)] | None = None
    kind: Literal["a", "b"] = "a"
    anything: Any = None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Item, Item(x=1, words=["a", "ü", "\0"])),
        (Nested, Nested(item=Item(x=2**40), more={"a": None, "b.$": Item(x=1)}, note="n")),
        (list[Item], [Item(x=1)] * 1001),
        (dict[str, Any], {"a": [None, True, 1.5, {"b": "c"}], "d": math.inf}),
        (Any, {"value": {"a": 1}, "b": 2}),
        (dict, {}),
        (list, [1, "a", None]),
        (str | None, "text"),
        (int, -(2**63)),
        (float, math.nan),
        (type(None), None),
    ],
    ids=spelled,
)
def test_plain_values_take_no_trial(annotation: object, value: object) -> None:
    written = proven(annotation, value)
    assert written is not None
    assert written[1] == len(bson.encode(written[0]))
    codec = codec_for(annotation)
    assert difference(codec.encode(value, limit=LIMIT), written[0]) is None
    assert difference(value, codec.decode(written[0])) is None


class Computed(BaseModel):
    @computed_field
    def twice(self) -> int:
        return 2


class Validating(BaseModel):
    x: int = 1

    @field_validator("x")
    @classmethod
    def more(cls, x: int) -> int:
        return x + 1


class ValidatingAll(BaseModel):
    x: int = 1

    @model_validator(mode="after")
    def check(self) -> ValidatingAll:
        return self


class SerializingField(BaseModel):
    x: int = 1

    @field_serializer("x")
    def less(self, x: int) -> int:
        return 0


class SerializingAll(BaseModel):
    x: int = 1

    @model_serializer
    def nothing(self) -> dict[str, int]:
        return {"x": 0}


class Private(BaseModel):
    x: int = 1
    _hidden: int = PrivateAttr(default=1)


class PostInit(BaseModel):
    x: int = 1

    def model_post_init(self, context: object, /) -> None:
        self.x += 1


class OwnInit(BaseModel):
    x: int = 1

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields | {"x": 5})


class OwnNew(BaseModel):
    x: int = 1

    def __new__(cls, *_: object, **__: object) -> Self:
        return super().__new__(cls)


class OwnAttributes(BaseModel):
    x: int = 1

    def __getattribute__(self, name: str) -> Any:
        return super().__getattribute__(name)


class Extra(BaseModel, extra="allow"):
    x: int = 1


class Root(RootModel[int]):
    root: int = 1


@pytest.mark.parametrize(
    "value",
    [
        Computed(),
        Validating(),
        ValidatingAll(),
        SerializingField(),
        SerializingAll(),
        Private(),
        PostInit(),
        OwnInit(),
        OwnNew(),
        OwnAttributes(),
        Extra(),
        Extra.model_construct(x=1, y=2),
        Root(),
        Tree(),
        model(x=(int, Field(default=1, alias="y")))(),
        model(x=(int, Field(default=1, validation_alias="y")))(),
        model(x=(int, Field(default=1, serialization_alias="y")))(),
        model(x=(int, Field(default=1, exclude=True)))(),
        model(x=(Annotated[int, AfterValidator(abs)], 1))(),
        model(x=(Annotated[int, PlainSerializer(str)], 1))(),
        model(x=(Annotated[str, StringConstraints(strip_whitespace=True)], " "))(),
        model(x=(Annotated[str, StringConstraints(to_lower=True)], "A"))(),
        model(x=(Decimal, Decimal(1)))(),
        model(x=(int | str, 1))(),
        model(x=(dict[int, int], {}))(),
        model(x=(Literal[1, True], 1))(),
        create_model("Made", __config__=ConfigDict(str_strip_whitespace=True), x=(str, " "))(),
        create_model("Made", __config__=ConfigDict(coerce_numbers_to_str=True), x=(str, " "))(),
        create_model("Made", __config__=ConfigDict(strict=True), x=(int, 1))(),
        create_model("Made", __config__=ConfigDict(ser_json_inf_nan="strings"), x=(float, 1.0))(),
        create_model("Made", __config__=ConfigDict(revalidate_instances="always"), x=(int, 1))(),
    ],
    ids=spelled,
)
def test_what_is_customized_is_tried(value: BaseModel) -> None:
    assert proven(type(value), value) is None


def test_a_model_that_was_never_validated_is_refused_where_it_would_be() -> None:
    kind = model(x=(Annotated[int, Field(ge=0)], 0), y=(list[int], []))
    codec = codec_for(kind)
    assert codec.encode(kind(x=1), limit=LIMIT) == {"plain": 1, "x": 1, "y": []}
    for state in ({"x": -1}, {"x": "1"}, {"y": [2**63]}, {"y": (1,)}):
        wrong = constructed(kind, {"plain": 1, "x": 1, "y": []} | state)
        with pytest.raises(PayloadError):
            codec.encode(wrong, limit=LIMIT)


def test_a_document_shares_nothing_with_its_value() -> None:
    value: dict[str, Any] = {"a": [1], "b": {"c": 2}}
    document = codec_for(dict[str, Any]).encode(value, limit=LIMIT)
    value["a"].append(2)
    value["b"]["c"] = 3
    assert document == {"a": [1], "b": {"c": 2}}


@pytest.mark.parametrize("levels", [30, 60, 99])
def test_deep_values_are_stored(levels: int) -> None:
    value: object = None
    for _ in range(levels):
        value = [value]
    codec = codec_for(Any)
    assert codec.decode(codec.encode(value, limit=LIMIT)) == value


def test_a_wide_web_of_models_is_left_to_the_trial() -> None:
    """What refers to others twice, thirty levels deep, would be a billion writers."""
    kind: Any = Item
    for _ in range(30):
        kind = model(a=(kind | None, None), b=(kind | None, None))
    value = kind()
    codec = codec_for(kind)
    assert proven(kind, value) is None
    assert codec.encode(value, limit=LIMIT) == {"plain": 1, "a": None, "b": None}
