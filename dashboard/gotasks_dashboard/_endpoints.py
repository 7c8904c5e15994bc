"""How a route is declared: what it takes, what it needs, what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._permissions import Access, Permission
from gotasks_py import ConfigurationError
from gotasks_py.checks import MAX_NAME, check_name

Q = TypeVar("Q", bound="Model")
B = TypeVar("B", bound="Model")

Method: TypeAlias = Literal["GET", "POST"]

MOST_LISTED: Final = 200
DEFAULT_LISTED: Final = 50

# No pattern says which characters are printable; nor that a cursor is one.
_NAME: Final = r"^[^\s$\x00-\x1f\x7f-\xa0]([^\x00-\x1f\x7f-\xa0]*[^\s\x00-\x1f\x7f-\xa0])?$"
_CURSOR: Final = r"^[A-Za-z0-9_-]+={0,2}$"


def _as_name(text: str) -> str:
    try:
        check_name("name", text)
    except ConfigurationError as error:
        raise PydanticCustomError("name", "{why}", {"why": str(error)}) from error
    return text


Name: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=MAX_NAME, json_schema_extra={"pattern": _NAME}),
    AfterValidator(_as_name),
]
Cursor: TypeAlias = Annotated[
    str, Field(max_length=2_000, pattern=_CURSOR, description="As the page before has told it.")
]


def _as_whole(value: object) -> object:
    # To JSON, 1.0 is a whole number, too.
    return int(value) if isinstance(value, float) and value.is_integer() else value


AsWhole: Final = BeforeValidator(_as_whole)


class Model(BaseModel):
    """What is sent with a request; whatever else is sent is refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Body(Model):
    """What is sent as JSON: a text is no number."""

    model_config = ConfigDict(strict=True)


class Nothing(Model):
    """Nothing is sent."""


@dataclass(frozen=True, slots=True)
class Call(Generic[Q, B]):
    """One request: who asks, and what was sent."""

    access: Access
    query: Q
    body: B
    path: Mapping[str, str]
    base: str
    """Below which path the dashboard is reached, with a slash at its end."""
    judge: Callable[[], Awaitable[Access]]
    """Asks once more what the sender may do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """One route of the API."""

    method: Method
    path: str
    """Below ``api/``; ``{id}`` stands for an id."""
    summary: str
    handle: Callable[[Desk, Call[Any, Any]], Awaitable[object]]
    answer: Any
    permissions: tuple[Permission, ...] = (Permission.VIEW,)
    """One of these it takes besides ``view``; a handler may demand more, by what is sent."""
    query: type[Model] = Nothing
    body: type[Model] = Nothing
    status: int = 200
    refusals: tuple[int, ...] = ()
    """Statuses of its own with which it refuses, besides those that all routes have."""
    media_type: str = "application/json"


def listed(limit: int) -> int:
    """Clamp the size of a page."""
    return max(1, min(limit, MOST_LISTED))
