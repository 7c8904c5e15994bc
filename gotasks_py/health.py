"""Whether a manager does its work: proven by recent claims and heartbeats, not by uptime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopHealth:
    """One background loop: how often it crashed, and its crash if it has not recovered."""

    restarts: int
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolHealth:
    """Workers that share queues.

    ``workers`` is how many there are, ``most_workers`` how many where they may be scaled.
    ``queues`` tells for each queue how many of its tasks those most may run at once.
    """

    workers: int
    most_workers: int
    queues: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """How a manager is doing.

    ``ok`` is true when ``reasons`` is empty; watch it, and take traffic away by it. Workers
    that are all busy for longer than a lease are a reason too: nothing is claimed then. So are
    three intervals without a report: others take the manager for gone. ``is_alive`` is false
    when only a restart helps: the manager has failed or ended, or leases pass without a
    renewal. Restart by that.

    ``workers`` is how many tasks it can run at once, ``most_workers`` how many where it may
    scale them, ``pools`` which queues they are for, ``claimed_tasks`` how many were claimed
    since the start. ``last_claim_at`` is
    when the store last answered a claim (at first, when the manager started),
    ``last_beat_at`` when it last took a heartbeat, ``last_report_at`` when it last took
    metrics, and the word that this manager is there; all in store time.
    ``is_stream_connected`` says whether the store tells of changes as they happen; while it
    does not, work and results are found by polling, which is no reason for concern.
    """

    ok: bool
    reasons: Sequence[str]
    is_running: bool
    is_alive: bool = False
    running_tasks: int = 0
    workers: int = 0
    most_workers: int = 0
    pools: Sequence[PoolHealth] = ()
    claimed_tasks: int = 0
    last_claim_at: datetime | None = None
    last_beat_at: datetime | None = None
    last_report_at: datetime | None = None
    is_stream_connected: bool = False
    loops: Mapping[str, LoopHealth] = field(default_factory=dict)
