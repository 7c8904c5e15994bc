"""How a route is declared: what it takes, what it needs, what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._permissions import Access, Permission

Q = TypeVar("Q", bound="Model")
B = TypeVar("B", bound="Model")

Method: TypeAlias = Literal["GET", "POST"]

MOST_LISTED: Final = 200
DEFAULT_LISTED: Final = 50


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
