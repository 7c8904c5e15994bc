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

    KILL_PRIMARY = "kill_primary"
    STEP_DOWN = "step_down"
    FREEZE_PRIMARY = "freeze_primary"
    RESTART_ALL = "restart_all"
    LOSE_REPLIES = "lose_replies"
    CLOSE_CONNECTIONS = "close_connections"
    FAIL_WRITE_CONCERN = "fail_write_concern"

    SLOW_LINE = "slow_line"
    SWALLOWING_LINE = "swallowing_line"
    CUT_LINE = "cut_line"
    DEAF_LINE = "deaf_line"
    LATE_LINE = "late_line"


GRACEFUL: Final = frozenset({FaultKind.STOP_WORKER})
"""Faults that a program survives without losing anything: a deploy."""

OF_DATABASE: Final = frozenset(
    {
        FaultKind.KILL_PRIMARY,
        FaultKind.STEP_DOWN,
        FaultKind.FREEZE_PRIMARY,
        FaultKind.RESTART_ALL,
        FaultKind.LOSE_REPLIES,
        FaultKind.CLOSE_CONNECTIONS,
        FaultKind.FAIL_WRITE_CONCERN,
    }
)
OF_NETWORK: Final = frozenset(
    {
        FaultKind.SLOW_LINE,
        FaultKind.SWALLOWING_LINE,
        FaultKind.CUT_LINE,
        FaultKind.DEAF_LINE,
        FaultKind.LATE_LINE,
    }
)


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A kind of fault, and how often it comes and how long it lasts, in seconds from … to."""

    kind: FaultKind
    every: tuple[float, float]
    lasting: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """The settings of the workers, in seconds; by default the library's own.

    ``grace`` is what a worker gets between SIGTERM and the end of its handlers.
    """

    lease: float = 60.0
    queue_lease: float = 10.0
    reap_interval: float = 10.0
    grace: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """One kind of bad day.

    ``members`` counts the servers of the replica set, ``workers`` and ``producers``
    processes, ``slots`` the tasks that a worker process runs at once; ``rate`` is how many
    tasks each producer asks for per second. ``drain`` is how long, in
    seconds, the system may go without ending a task before it has come to rest after the storm;
    ``clock_shifts``, in seconds too, go round among the processes. ``duplicates`` is the
    goal for those of retryable tasks, in percent.
    """

    name: str
    summary: str
    rhythms: tuple[Rhythm, ...]
    members: int = 1
    workers: int = 3
    slots: int = 4
    producers: int = 2
    rate: float = 50.0
    times: Times = Times()
    drain: float = 180.0
    clock_shifts: tuple[int, ...] = ()
    duplicates: float | None = None

    @property
    def is_proxied(self) -> bool:
        """Whether processes reach the database over lines that can be spoilt."""
        return any(rhythm.kind in OF_NETWORK for rhythm in self.rhythms)


_SHORT: Final = Times(lease=2.0, queue_lease=2.0, reap_interval=2.0, grace=2.0)
_OUTAGE: Final = Times(lease=5.0, queue_lease=5.0, reap_interval=2.0, grace=3.0)
_TEN_MINUTES: Final = 600

_ALL: Final = (
    Profile(
        name="smoke",
        summary="short leases, and a bit of everything that can be done to processes",
        rhythms=(
            Rhythm(FaultKind.KILL_WORKER, (1.0, 2.5)),
            Rhythm(FaultKind.STOP_WORKER, (4.0, 6.0)),
            Rhythm(FaultKind.FREEZE_WORKER, (5.0, 8.0), (2.5, 4.0)),
            Rhythm(FaultKind.KILL_PRODUCER, (6.0, 9.0)),
            Rhythm(FaultKind.LOSE_REPLIES, (6.0, 9.0), (1.0, 2.0)),
            Rhythm(FaultKind.STEP_DOWN, (7.0, 9.0), (1.0, 1.0)),
        ),
        drain=60.0,
        times=_SHORT,
    ),
    Profile(
        name="realistic",
        summary="the library's defaults, a worker killed every 5 to 10 s",
        rhythms=(Rhythm(FaultKind.KILL_WORKER, (5.0, 10.0)),),
        duplicates=0.1,
    ),
    Profile(
        name="aggressive",
        summary="2 s leases, a worker killed every 0.4 to 1 s",
        rhythms=(Rhythm(FaultKind.KILL_WORKER, (0.4, 1.0)),),
        duplicates=1.0,
        workers=4,
        rate=100.0,
        drain=90.0,
        times=_SHORT,
    ),
    Profile(
        name="deploys",
        summary="orderly restarts only: nothing is repeated, no attempt is lost",
        rhythms=(Rhythm(FaultKind.STOP_WORKER, (1.0, 3.0)),),
        drain=90.0,
    ),
    Profile(
        name="zombies",
        summary="workers frozen past their leases, which then go on",
        rhythms=(
            Rhythm(FaultKind.FREEZE_WORKER, (2.0, 4.0), (3.0, 7.0)),
            Rhythm(FaultKind.KILL_WORKER, (8.0, 12.0)),
        ),
        workers=4,
        drain=90.0,
        times=_SHORT,
    ),
    Profile(
        name="failover",
        summary="three servers, the primary killed every 20 s",
        rhythms=(
            Rhythm(FaultKind.KILL_PRIMARY, (18.0, 22.0), (1.0, 3.0)),
            Rhythm(FaultKind.KILL_WORKER, (8.0, 15.0)),
        ),
        members=3,
        times=_OUTAGE,
    ),
    Profile(
        name="partition",
        summary="slow, late, cut and half-open lines between processes and database",
        rhythms=(
            Rhythm(FaultKind.SLOW_LINE, (4.0, 8.0), (1.0, 4.0)),
            Rhythm(FaultKind.SWALLOWING_LINE, (6.0, 12.0), (1.0, 8.0)),
            Rhythm(FaultKind.CUT_LINE, (4.0, 8.0), (0.5, 7.0)),
            Rhythm(FaultKind.DEAF_LINE, (6.0, 12.0), (1.0, 8.0)),
            Rhythm(FaultKind.LATE_LINE, (6.0, 12.0), (8.0, 14.0)),
        ),
        times=_OUTAGE,
    ),
    Profile(
        name="clocks",
        summary="clocks of workers and producers that are ten minutes off; needs libfaketime",
        rhythms=(
            Rhythm(FaultKind.KILL_WORKER, (2.0, 5.0)),
            Rhythm(FaultKind.STOP_WORKER, (3.0, 6.0)),
        ),
        clock_shifts=(_TEN_MINUTES, 0, -_TEN_MINUTES),
        drain=90.0,
        times=_SHORT,
    ),
    Profile(
        name="everything",
        summary="three servers, and all of it; needs libfaketime",
        rhythms=(
            Rhythm(FaultKind.KILL_WORKER, (3.0, 8.0)),
            Rhythm(FaultKind.STOP_WORKER, (5.0, 10.0)),
            Rhythm(FaultKind.FREEZE_WORKER, (5.0, 10.0), (3.0, 9.0)),
            Rhythm(FaultKind.KILL_PRODUCER, (10.0, 20.0)),
            Rhythm(FaultKind.KILL_PRIMARY, (40.0, 60.0), (1.0, 3.0)),
            Rhythm(FaultKind.STEP_DOWN, (30.0, 50.0), (2.0, 5.0)),
            Rhythm(FaultKind.FREEZE_PRIMARY, (40.0, 60.0), (1.0, 5.0)),
            Rhythm(FaultKind.RESTART_ALL, (70.0, 100.0), (1.0, 3.0)),
            Rhythm(FaultKind.LOSE_REPLIES, (20.0, 40.0), (1.0, 4.0)),
            Rhythm(FaultKind.CLOSE_CONNECTIONS, (20.0, 40.0), (1.0, 4.0)),
            Rhythm(FaultKind.FAIL_WRITE_CONCERN, (20.0, 40.0), (1.0, 4.0)),
        ),
        members=3,
        clock_shifts=(_TEN_MINUTES, 0, -_TEN_MINUTES),
        times=_OUTAGE,
    ),
)
PROFILES: Final[Mapping[str, Profile]] = {profile.name: profile for profile in _ALL}
