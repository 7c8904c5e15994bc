"""How a manager gets its tasks and records their outcomes: one by one, or in batches."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from gotasks_py.checks import LONGEST, check_count, check_duration
from gotasks_py.errors import ConfigurationError

_LARGEST_BATCH: Final = 10_000
_LARGEST_BUFFER: Final = 100_000
# A task that was late before it arrived would be claimed and handed back for ever.
_SHORTEST_QUEUE_LEASE: Final = timedelta(milliseconds=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineMode:
    """Claim in batches, run from a buffer, record successes in bulk.

    For many short tasks: the database does one write for hundreds of tasks. Delivery is as
    without it: a claimed task that was never started goes back without burning an attempt,
    a last attempt is begun by a write of its own, and each outcome is fenced by its own
    lease. What changes is that a worker process that is killed delays more tasks, by up to
    ``queue_lease`` more, and that claims look ahead: a more urgent task that comes later
    runs after those that wait in the buffer.

    Args:
        batch: The most tasks that one claim takes; at most 10 000.
        buffer: The most tasks that are claimed and wait to be started; at most 100 000.
        lookahead: How much work waits in the buffer, by the rate at which tasks have been
            started lately. So slow tasks are left to other managers.
        queue_lease: How long a claimed task may wait to be started; it is leased for this
            and the manager's ``lease``. What waits longer goes back. At least 100 ms, and
            longer than the database takes for a claim.
        flush_size: How many successes are recorded at once, at the latest.
        flush_interval: How long a success waits to be recorded, at most, since the last ones
            were; after a silence it is recorded at once. It is never longer than a fraction of
            the lease.

    Raises:
        ConfigurationError: a setting is out of its bounds.
    """

    batch: int = 500
    buffer: int = 2_000
    lookahead: timedelta = timedelta(milliseconds=250)
    queue_lease: timedelta = timedelta(seconds=10)
    flush_size: int = 500
    flush_interval: timedelta = timedelta(milliseconds=10)

    def __post_init__(self) -> None:
        for name in ("batch", "flush_size"):
            size: int = getattr(self, name)
            check_count(name, size, maximum=_LARGEST_BATCH)
        check_count("buffer", self.buffer, maximum=_LARGEST_BUFFER)
        shortest = timedelta(milliseconds=1)
        for name in ("lookahead", "flush_interval"):
            check_duration(name, getattr(self, name), minimum=shortest, maximum=LONGEST)
        check_duration(
            "queue_lease", self.queue_lease, minimum=_SHORTEST_QUEUE_LEASE, maximum=LONGEST
        )
        if self.lookahead > self.queue_lease:
            msg = (
                f"lookahead must not be longer than queue_lease, or tasks would go back unrun: "
                f"{self.lookahead} > {self.queue_lease}"
            )
            raise ConfigurationError(msg)
