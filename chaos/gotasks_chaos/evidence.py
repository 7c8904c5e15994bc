"""What the audit looks at: the ledgers and the database, side by side."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

from gotasks_chaos.ledger import Line

CLOCK_SECONDS: Final = 0.02
"""How far two readings of one clock may lie apart: the audit knows it to the round trip."""
ESTIMATE_SECONDS: Final = 0.25
"""How far behind the server's time the moments may be that processes tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One enqueue: what was asked for, and what the producer was told.

    ``answer`` is ``ack``, ``duplicate``, ``refused`` or ``unclear``; a producer that died
    before it heard anything leaves it unclear. ``at`` and ``answered_at`` are monotonic.
    ``was_to_be_cancelled``: it asked for that later; ``was_cancelled``: and was told that the
    task is cancelled, or about to be.
    """

    ref: str
    at: float
    answer: str = "unclear"
    answered_at: float | None = None
    task: str | None = None
    key: str | None = None
    delay: float = 0.0
    once: bool = False
    was_to_be_cancelled: bool = False
    was_cancelled: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One run of a handler; times are monotonic, but ``run_at`` and ``claimed_at`` the server's.

    ``claimed_at`` is as the engine tells it: behind by up to a round trip.

    ``how`` is ``returned``, ``raised``, ``stopped``, or ``died`` with its process.
    """

    task: str
    token: str
    attempt: int
    type: str
    process: str
    began: float
    ended: float
    how: str
    run_at: float
    claimed_at: float


class Entry(NamedTuple):
    """What a task's history says of an attempt that failed; ``at`` is the server's time."""

    attempt: int
    kind: str
    worker: str
    message: str = "why"
    at: float = 0.0

    def among(self, runs: Iterable[Execution]) -> list[Execution]:
        """Tell which executions are of its attempt: several, where that was interrupted."""
        return [run for run in runs if run.attempt == self.attempt]

    @property
    def is_lapse(self) -> bool:
        """Whether the lease ended and nobody had told the outcome."""
        return self.kind == "lease_expired"

    @property
    def holder(self) -> str:
        """The process that the attempt was in: each of its slots claims in a name of its own."""
        return self.worker.partition(".")[0]

    @property
    def is_intended(self) -> bool:
        """Whether the storm's own handler raised it, because its producer had asked for that."""
        return self.kind.endswith("IntendedError")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A task as the database has it at the end; times are the server's."""

    id: str
    ref: str
    type: str = "work"
    status: str = "done"
    attempts: int = 1
    max_attempts: int = 20
    interruptions: int = 0
    errors: Sequence[Entry] = ()
    errors_dropped: int = 0
    settle_token: str | None = None
    result_token: str | None = None
    held_key: str | None = None
    run_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def settled_by(self) -> str | None:
        """The token of the attempt that wrote an outcome last."""
        return self.settle_token and self.settle_token.rpartition("/")[0]

    @property
    def settled_as(self) -> str | None:
        """What that attempt made of the task; the janitor and cancellations leave no mark."""
        return self.settle_token and self.settle_token.rpartition("/")[2]

    @property
    def failed(self) -> int:
        """How many attempts failed."""
        return self.attempts if self.status == "dead" else max(0, self.attempts - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The life of a worker, a producer or the prober.

    ``gaps``: when it did not run, frozen or blocked. ``ready_at``: when it was first seen at
    work, if it got that far; ``complaints``: what it said of itself when all was calm;
    ``crashes``: which of its loops crashed, at any time, for another reason than that the database
    was away. ``asked_to_leave``: when; ``left_early``: in the midst of the storm. ``logged``
    counts its log records, but for those on single attempts, ``files`` the most that it had open.
    """

    name: str
    began: float
    ended: float | None = None
    code: int | None = None
    was_killed: bool = False
    gaps: Sequence[tuple[float, float]] = ()
    ready_at: float | None = 0.0
    complaints: Sequence[str] = ()
    crashes: Sequence[str] = ()
    asked_to_leave: float | None = None
    left_early: bool = False
    logged: int = 0
    files: int = 0

    def spans(self, since: float, until: float) -> Iterator[tuple[float, float]]:
        """Tell the spans within one in which it was able to run."""
        for start, end in sorted(self.gaps):
            if since < min(start, until):
                yield since, min(start, until)
            since = max(since, end)
        if since < until:
            yield since, until

    @property
    def has_left(self) -> bool:
        """Whether it left in order, with everything told that it had to tell."""
        return self.code == 0

    @property
    def never_began(self) -> bool:
        """Whether it was not seen at work: it has nothing to tell."""
        return self.ready_at is None

    def ran(self, since: float, until: float) -> float:
        """Tell for how many seconds of a span it was able to run."""
        return sum(end - start for start, end in self.spans(since, until))


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long the database had no primary, and what came how long after that.

    ``at``: when another was elected, monotonic; ``lost_at``: when that one was lost in its turn,
    and ``first_claim`` is none if none came before. ``first_write``: a bare one, acknowledged by a
    majority. Where the other member has to catch up first, or to find out whom to copy from,
    nobody's writes are.
    """

    what: str
    at: float
    election: float
    first_claim: float | None
    first_write: float | None = None
    lost_at: float | None = None

    def until(self, lost_at: float) -> Recovery:
        """Take what is known to have ended with the loss of the new primary."""
        first = self.first_claim
        is_in_time = first is not None and self.at + first <= lost_at
        return replace(self, lost_at=lost_at, first_claim=first if is_in_time else None)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that is known of a run.

    ``offset``: server time minus monotonic time. ``lease``, ``backoff`` and ``grace``, in
    seconds, are those of its workers. ``is_graceful``: processes were only stopped in order;
    ``is_undisturbed``: nothing was done to the database, nor to the lines to it.
    """

    asked: Sequence[Asked]
    executions: Sequence[Execution]
    stored: Sequence[Stored]
    processes: Sequence[Process] = ()
    notes: Sequence[Line] = ()
    """What the runner itself saw: faults, samples, probes."""
    offset: float = 0.0
    is_graceful: bool = False
    is_undisturbed: bool = False
    lease: float = 0.0
    backoff: float = 0.0
    grace: float = 0.0
    counted: Mapping[str, int] | None = None
    """What the engine's own metrics say, by counter; none: nobody asked them."""

    @cached_property
    def by_task(self) -> Mapping[str, Sequence[Execution]]:
        """The executions of each task, in the order of their claims."""
        found = defaultdict[str, list[Execution]](list)
        for execution in sorted(self.executions, key=lambda each: (each.claimed_at, each.began)):
            found[execution.task].append(execution)
        return found

    @cached_property
    def by_id(self) -> Mapping[str, Stored]:
        """The stored tasks by id."""
        return {task.id: task for task in self.stored}

    @cached_property
    def by_ref(self) -> Mapping[str, Sequence[Stored]]:
        """The stored tasks by their producers' names for them."""
        found = defaultdict[str, list[Stored]](list)
        for task in self.stored:
            found[task.ref].append(task)
        return found

    @cached_property
    def by_process(self) -> Mapping[str, Process]:
        """The processes by name."""
        return {process.name: process for process in self.processes}

    @cached_property
    def recoveries(self) -> Sequence[Recovery]:
        """What followed each death of the primary, in order of time."""
        claims = sorted(run.claimed_at - self.offset for run in self.executions)
        found: list[Recovery] = []
        lost = elected = None
        for line in self.noted("database"):
            match line.facts["what"]:
                case "elected" if lost is not None:
                    elected = line
                    after = bisect_left(claims, line.at)
                    first = claims[after] - line.at if after < len(claims) else None
                    what, took = str(lost.facts["what"]), line.at - lost.at
                    found.append(Recovery(what, line.at, took, first))
                case "written":
                    if elected is not None and line.facts.get("member") == elected.facts.get(
                        "member"
                    ):
                        found[-1] = replace(found[-1], first_write=line.at - elected.at)
                case "member back":
                    pass
                case _:
                    if elected is not None and found[-1].lost_at is None:
                        found[-1] = found[-1].until(line.at)
                    lost = line
        return found

    def noted(self, event: str) -> Iterator[Line]:
        """Tell what the runner noted of one kind."""
        return (line for line in self.notes if line.event == event)
