"""What a store may offer beside: to find and mend what no other path would ever touch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Protocol, runtime_checkable

from gotasks_py.task import Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What a sweep has done away with."""

    orders: Sequence[str] = ()
    """Managers that are gone, whose orders were forgotten."""
    lanes: Mapping[str, int] = field(default_factory=dict)
    """How many lanes a queue is recorded with now, because tasks were in lanes beyond."""


@runtime_checkable
class Sweeping(Protocol):
    """Finds what a hand, another program or a death has left behind.

    A task is *stuck* that is pending or running, and has neither a ``due_at``, from when a
    claim may take it, nor a ``reap_at``, from when the janitor ends it.
    """

    async def stuck(self, limit: int) -> Sequence[Task]:
        """List up to ``limit`` tasks that are stuck."""
        ...

    async def rescue(self, limit: int) -> Sequence[Task]:
        """Put up to ``limit`` of them back on their way, each in one write."""
        ...

    async def sweep(self, *, older_than: timedelta, limit: int) -> Swept:
        """Do away with what belongs to nobody.

        That is: up to ``limit`` orders, older than that, to managers that do not say that they
        are there; and lanes with tasks in them that no claim looks into, for the queue is
        recorded with fewer.
        """
        ...
