"""What producers ask for and workers do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from gotasks_chaos.ledger import Ledger, leave
from gotasks_mongostore import MongoStore
from gotasks_py import Fixed, PipelineMode, QueuePolicy, TaskType

QUEUE: Final = "chaos"
MAX_ATTEMPTS: Final = 20
"""Enough that no task dies of storms alone: those that must die say so."""
BACKOFF_SECONDS: Final = 0.5
TIMEOUT_SECONDS: Final = 30.0
"""Longer than any freeze: only the end of its lease stops a zombie."""
HANG_SECONDS: Final = 0.5
"""The timeout of those that hang."""


class Job(BaseModel):
    """One piece of work.

    ``ref`` is the producer's own name for it. It takes ``seconds``, after its first attempt
    ``again`` more, and blocks its thread for ``blocking``; its first ``failures`` attempts raise,
    and its first ``hangs`` attempts wait until they are stopped. ``size`` is that of its result,
    in bytes.
    """

    ref: str
    seconds: float = 0.0
    blocking: float = 0.0
    again: float = 0.0
    failures: int = 0
    hangs: int = 0
    size: int = 0


class Receipt(BaseModel):
    """What a job returns: which attempt made it, by the token of its lease, and who did it.

    ``at_once`` counts the jobs that its worker was at when it ended, itself included.
    """

    token: str
    worker: str = ""
    at_once: int = 1
    filler: str = ""


WORK: Final = TaskType(QUEUE, "work", Job, Receipt)
THREADED: Final = TaskType(QUEUE, "threaded", Job, Receipt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What every process of a run is told; plain data, for it travels as JSON.

    ``peers`` are the workers that a prober is to find at work.
    """

    name: str
    ledger: str
    uri: str
    database: str
    namespace: str
    seed: int
    mode: str
    slots: int
    rate: float
    lease: float
    queue_lease: float
    reap_interval: float
    grace: float
    peers: Sequence[str] = ()

    @property
    def pipeline(self) -> PipelineMode | None:
        """The mode as a manager takes it."""
        if self.mode == "single":
            return None
        # Small batches: the faults are to hit full buffers, not to empty them.
        return PipelineMode(
            batch=50,
            buffer=100,
            queue_lease=timedelta(seconds=self.queue_lease),
            lookahead=timedelta(seconds=min(0.25, self.queue_lease)),
        )

    def book(self) -> Ledger:
        """Open the ledger of this process, which cannot be without it."""
        return Ledger(Path(self.ledger), give_up=leave)

    async def store(self) -> MongoStore:
        """Open the store."""
        return await MongoStore.connect(self.uri, database=self.database, namespace=self.namespace)


def queue_policy() -> QueuePolicy:
    """Tell the policy of the one queue."""
    # A jitter would take some off, and the audit could not tell that from an error.
    backoff = Fixed(timedelta(seconds=BACKOFF_SECONDS), jitter=0)
    return QueuePolicy(QUEUE, max_attempts=MAX_ATTEMPTS, backoff=backoff)
