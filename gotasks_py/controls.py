"""What operators decide while managers run, as a store records it.

Rules of this file: plain data, how it is stored and how it is read; reading never fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from gotasks_py import backoff as backoffs
from gotasks_py._fields import text
from gotasks_py.backoff import Backoff
from gotasks_py.checks import MAX_WEIGHT, MAX_WORKERS
from gotasks_py.lanes import MAX_LANES
from gotasks_py.policy import QueuePolicy
from gotasks_py.task import TaskId


@dataclass(frozen=True, slots=True)
class Pause:
    """A queue from which nothing is claimed, since ``at`` and for ever or until a time.

    ``by`` says who paused it, in their own words.
    """

    at: datetime
    until: datetime | None = None
    by: str | None = None

    def holds(self, now: datetime) -> bool:
        """Whether the queue is paused at this time of the store's clock."""
        return self.until is None or now < self.until

    @classmethod
    def from_document(cls, recorded: Mapping[str, object]) -> Pause | None:
        """Read the pause that a store has recorded of a queue; ``None``: there is none."""
        match recorded.get("pause"):
            case {"at": datetime() as at, **others}:
                until, by = others.get("until"), others.get("by")
                return cls(at, until if isinstance(until, datetime) else None, text(by) or None)
            case _:
                return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChanges:
    """What of a queue's policy is another than declared; ``None``: as declared.

    A ``ttl`` of zero keeps tasks for ever. ``weight`` and ``workers`` hold for every
    manager: each gives the queue that share of its claims, and runs at most so many of its
    tasks at once; in a pool that queues share no more than that pool has workers. ``lanes``
    is into how many parts new tasks without a key are divided; claims cover the most lanes
    that there have ever been.

    Raises:
        ConfigurationError: a value that :class:`~gotasks_py.QueuePolicy` would refuse.
    """

    ttl: timedelta | None = None
    max_attempts: int | None = None
    timeout: timedelta | None = None
    backoff: Backoff | None = None
    weight: int | None = None
    workers: int | None = None
    lanes: int | None = None

    def __post_init__(self) -> None:
        QueuePolicy("any", **self.given)

    @property
    def given(self) -> dict[str, Any]:
        """Those that are not as declared, by name."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def of(self, declared: QueuePolicy) -> QueuePolicy:
        """Tell the policy that holds for a queue that was declared so."""
        return replace(declared, **self.given) if self.given else declared

    def to_document(self) -> dict[str, object]:
        """Describe what is given, as a store records it."""
        values = {
            "ttl_ms": _milliseconds(self.ttl),
            "max_attempts": self.max_attempts,
            "timeout_ms": _milliseconds(self.timeout),
            "backoff": None if self.backoff is None else backoffs.to_document(self.backoff),
            "weight": self.weight,
            "workers": self.workers,
            "lanes": self.lanes,
        }
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_document(cls, recorded: Mapping[str, object]) -> QueueChanges:
        """Read what a store has recorded of a queue; what makes no sense reads as not given."""
        changes = recorded.get("changes")
        if not isinstance(changes, Mapping):
            return cls()
        policy = QueuePolicy.from_document("any", changes)
        return cls(
            ttl=timedelta(0) if changes.get("ttl_ms") == 0 else policy.ttl,
            max_attempts=policy.max_attempts,
            timeout=policy.timeout,
            backoff=policy.backoff,
            weight=_count(changes.get("weight"), MAX_WEIGHT),
            workers=_count(changes.get("workers"), MAX_WORKERS),
            lanes=_count(changes.get("lanes"), MAX_LANES),
        )


class NodeOrder(StrEnum):
    """What one manager was told to do."""

    QUIET = "quiet"
    """Claim nothing more, and stay."""
    DRAIN = "drain"
    """Claim nothing more, finish what runs, and stop."""


@runtime_checkable
class Controlling(Protocol):
    """What a store may offer beside: to record what operators decide, for all managers."""

    async def pause_queue(
        self, queue: str, *, until: datetime | None = None, by: str | None = None
    ) -> bool:
        """Record that nothing is to be claimed from a queue; ``False``: it is not recorded."""
        ...

    async def resume_queue(self, queue: str) -> bool:
        """Record that a queue is not paused; ``False``: it is not recorded."""
        ...

    async def change_queue(self, queue: str, changes: QueueChanges | None) -> bool:
        """Record more changes of a queue's policy, or that all of it is as declared.

        ``False``: the queue is not recorded.
        """
        ...

    async def forget_queue(self, queue: str) -> bool:
        """Remove what is recorded of a queue, not its tasks; ``False``: it is not recorded."""
        ...

    async def order_node(self, node: str, order: NodeOrder | None) -> None:
        """Record what a manager is to do; ``None``: work as usual."""
        ...

    async def node_orders(self) -> Mapping[str, NodeOrder]:
        """Tell what managers were told to do, those that may have gone included."""
        ...

    async def cancelling(self, limit: int = 1000) -> frozenset[TaskId]:
        """Tell which running tasks were asked to stop, those asked last first."""
        ...


def policy_of(name: str, recorded: Mapping[str, object]) -> QueuePolicy:
    """Tell the policy that holds for a queue, of what a store has recorded."""
    return QueueChanges.from_document(recorded).of(QueuePolicy.from_document(name, recorded))


def _count(value: object, most: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value <= most else None


def _milliseconds(span: timedelta | None) -> int | None:
    # Rounded up, as where a queue is declared.
    return None if span is None else -(-span // timedelta(milliseconds=1))
