"""What a run does: how many processes, which settings, which faults at which rhythm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class FaultKind(StrEnum):
    """What can be done to a system that runs."""

    KILL_WORKER = "kill_worker"
    KILL_PRODUCER = "kill_producer"
    STOP_WORKER = "stop_worker"
    FREEZE_WORKER = "freeze_worker"


GRACEFUL: Final = frozenset({FaultKind.STOP_WORKER})
"""Faults that a program survives without losing anything: a deploy."""


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A kind of fault, and how often it comes and how long it lasts, in seconds from … to."""

    kind: FaultKind
    every: tuple[float, float]
    lasting: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of bad day.

    Times are seconds. ``workers`` and ``producers`` count processes, ``slots`` the tasks
    that a worker process runs at once, ``rate`` the tasks that each producer asks for per
    second. ``grace`` is what a worker gets between SIGTERM and the end of its handlers,
    ``drain`` the longest that the system may need to come to rest after the storm.
    """

    name: str
    summary: str
    rhythms: tuple[Rhythm, ...]
    members: int = 1
    workers: int = 3
    slots: int = 4
    producers: int = 2
    rate: float = 50.0
    lease: float = 60.0
    queue_lease: float = 10.0
    reap_interval: float = 10.0
    grace: float = 5.0
    drain: float = 180.0

    @property
    def is_graceful(self) -> bool:
        """Whether nothing worse than an orderly stop happens."""
        return all(rhythm.kind in GRACEFUL for rhythm in self.rhythms)


_ALL: Final = (
    Profile(
        name="smoke",
        summary="short leases, and a bit of everything that one machine can do to a process",
        rhythms=(
            Rhythm(FaultKind.KILL_WORKER, (1.0, 2.5)),
            Rhythm(FaultKind.STOP_WORKER, (4.0, 6.0)),
            Rhythm(FaultKind.FREEZE_WORKER, (5.0, 8.0), (2.5, 4.0)),
            Rhythm(FaultKind.KILL_PRODUCER, (6.0, 9.0)),
        ),
        lease=2.0,
        queue_lease=1.0,
        reap_interval=1.0,
        grace=2.0,
        drain=60.0,
    ),
)
PROFILES: Final[Mapping[str, Profile]] = {profile.name: profile for profile in _ALL}
