"""What a manager was told about running tasks, held against its bounds."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gotasks_py._janitor import JanitorConfig
from gotasks_py._scheduling import QueueOrder
from gotasks_py.autoscaling import ScalingConfig
from gotasks_py.checks import (
    LONGEST,
    MAX_WORKERS,
    check_count,
    check_duration,
    check_lease,
    check_name,
)
from gotasks_py.errors import ConfigurationError
from gotasks_py.hooks import Middleware
from gotasks_py.metrics import MetricsConfig
from gotasks_py.modes import PipelineMode

_SHORTEST_BARE_LEASE: Final = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """What a manager was told about running tasks."""

    name: str
    workers: int | ScalingConfig
    lease: timedelta
    poll: timedelta
    order: QueueOrder
    heartbeat: bool
    mode: PipelineMode | None
    janitor: JanitorConfig | None
    metrics: MetricsConfig | None
    middleware: tuple[Middleware, ...]
    result_limit: int
    version: str | None = None
    """Of the program that runs the manager; ``None``: gotasks_py's."""
    served: frozenset[str] | None = None
    """The names of the queues to work on; ``None``: all that are declared."""
    max_tasks: int | None = None
    """How many tasks one run may claim; ``None``: any number."""

    def __post_init__(self) -> None:
        check_name("manager name", self.name)
        if self.version is not None:
            check_name("version", self.version)
        if not isinstance(self.workers, ScalingConfig):
            check_count("workers", self.workers, maximum=MAX_WORKERS)
        if self.max_tasks is not None:
            check_count("max_tasks", self.max_tasks)
        if not isinstance(self.mode, PipelineMode | None):  # pyright: ignore[reportUnnecessaryIsInstance]  - a name is an easy mistake
            msg = f"mode must be a PipelineMode or None, not {self.mode!r}"
            raise ConfigurationError(msg)
        if not isinstance(self.heartbeat, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  - "no" is true
            msg = f"heartbeat must be True or False, not {self.heartbeat!r}"
            raise ConfigurationError(msg)
        if self.heartbeat:
            check_lease("lease", self.lease)
        else:
            check_lease("lease without heartbeat", self.lease, minimum=_SHORTEST_BARE_LEASE)
        shortest = timedelta(milliseconds=1)
        check_duration("fallback_poll", self.poll, minimum=shortest, maximum=LONGEST)
        if self.order not in {"weighted", "strict"}:
            msg = f"order must be 'weighted' or 'strict', not {self.order!r}"
            raise ConfigurationError(msg)

    @property
    def least_workers(self) -> int:
        """How many workers there are to begin with."""
        return self.workers.least if isinstance(self.workers, ScalingConfig) else self.workers

    def serves(self, queue: str) -> bool:
        """Whether tasks of this queue are run here."""
        return self.served is None or queue in self.served
