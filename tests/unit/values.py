"""Types that the tests of codecs share, each with a trap of its own."""

import threading
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Any
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from gotasks_py.codec import Document, codec_for

LIMIT = 8 * 2**20


class Color(Enum):
    RED = "red"
    PAIR = (1, 2)


class Item(BaseModel):
    x: int


class Order(BaseModel):
    item: Item
    items: list[Item] = []


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)

    day: date
    pair: tuple[int, ...] = (1,)
    ids: dict[int, UUID] = {}
    raw: bytes = b""


class Hidden(BaseModel):
    excluded: int = Field(default=0, exclude=True)
    _private: int = PrivateAttr(default=0)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)


@dataclass
class Record:
    items: list[Item]
    names: dict[int, str] = field(default_factory=dict)
    cache: int = field(default=0, compare=False)


class Opaque:
    """Compared by identity, stored by its own serializer."""

    def __init__(self, text: str) -> None:
        self.text = text


def encoded(annotation: object, value: object) -> Document:
    return codec_for(annotation).encode(value, limit=LIMIT)
