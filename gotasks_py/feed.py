"""What a store tells of changes as they happen, whichever process made them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from gotasks_py.task import TaskId


@dataclass(frozen=True, slots=True)
class Claimable:
    """A pending task may be claimed from ``due_at`` on: it is new, or it came back."""

    id: TaskId
    queue: str
    lane: int
    type: str
    due_at: datetime


@dataclass(frozen=True, slots=True)
class Finished:
    """A task is final, or was removed."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody asked for a task to be cancelled."""

    id: TaskId


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """The recorded policy of a queue is another."""

    queue: str


@dataclass(frozen=True, slots=True)
class NodeOrdered:
    """What one manager is to do is another."""

    node: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Changes may have been missed: look everywhere."""


Event: TypeAlias = Claimable | Finished | CancelRequested | QueueChanged | NodeOrdered | Gap


class Feed(Protocol):
    """An open feed of changes, in the order in which they happened.

    It begins with a :class:`Gap` unless it carries on at a position with nothing missed.
    """

    @property
    def position(self) -> object:
        """Where the feed has come to: what was handed out so far lies before it."""
        ...

    async def next(self) -> Sequence[Event]:
        """Wait for changes. Safe to cancel; an empty answer says that the feed is alive.

        Raises:
            StoreUnavailableError: the feed broke; another may carry on at its position.
            StoreError: the feed broke, and its position is of no use.
        """
        ...
