"""What the audit looks at: the ledgers and the database, side by side."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from pymongo.collection import Collection

from gotasks_chaos import ledger
from gotasks_chaos.ledger import Line

_LATELY_SECONDS: Final = 5.0
_PROJECTION: Final = {
    "payload.ref": 1,
    "result.token": 1,
    "errors.attempt": 1,
    "errors.kind": 1,
    "errors.worker": 1,
    **dict.fromkeys(
        (
            "type",
            "status",
            "attempts",
            "max_attempts",
            "interruptions",
            "errors_dropped",
            "settle_token",
            "unique_key",
            "released_key",
            "run_at",
            "started_at",
            "finished_at",
        ),
        1,
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One enqueue: what was asked for, and what the producer was told.

    ``answer`` is ``ack``, ``duplicate``, ``refused`` or ``unclear``; a producer that died
    before it heard anything leaves it unclear. ``at`` and ``answered_at`` are monotonic.
    ``was_cancelled``: it was told later that the task is cancelled, or about to be.
    """

    ref: str
    at: float
    answer: str = "unclear"
    answered_at: float | None = None
    task: str | None = None
    key: str | None = None
    delay: float = 0.0
    once: bool = False
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
    errors: Sequence[tuple[int, str, str]] = ()
    errors_dropped: int = 0
    settle_token: str | None = None
    result_token: str | None = None
    held_key: str | None = None
    run_at: float = 0.0
    started_at: float | None = None
    finished_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """The life of a worker or producer.

    ``gaps``: when it did not run, frozen or blocked. ``was_ready``: whether it got as far as
    telling how it is; ``complaints``: what it said of that when all was calm. ``logged`` counts
    its log records, but for those on single attempts, ``files`` the most that it had open.
    """

    name: str
    began: float
    ended: float | None = None
    code: int | None = None
    was_killed: bool = False
    gaps: Sequence[tuple[float, float]] = ()
    was_ready: bool = True
    complaints: Sequence[str] = ()
    logged: int = 0
    files: int = 0


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long the database had no primary, and what came how long after that.

    ``first_write``: a bare one, acknowledged by a majority. Where the other member has to
    catch up first, or to find out whom to copy from, nobody's writes are.
    """

    what: str
    election: float
    first_claim: float | None
    first_write: float | None = None


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything that is known of a run. ``offset``: server time minus monotonic time."""

    asked: Sequence[Asked]
    executions: Sequence[Execution]
    stored: Sequence[Stored]
    processes: Sequence[Process] = ()
    notes: Sequence[Line] = ()
    """What the runner itself saw: faults, samples, probes."""
    offset: float = 0.0
    is_graceful: bool = False
    counted: Mapping[str, int] = field(default_factory=dict[str, int])
    """What the engine's own metrics say, by counter."""

    @cached_property
    def by_task(self) -> Mapping[str, Sequence[Execution]]:
        """The executions of each task, in the order of their claims."""
        found = defaultdict[str, list[Execution]](list)
        for execution in sorted(self.executions, key=lambda each: (each.claimed_at, each.began)):
            found[execution.task].append(execution)
        return found

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
                    found.append(Recovery(str(lost.facts["what"]), line.at - lost.at, first))
                case "written" if elected is not None:
                    found[-1] = replace(found[-1], first_write=line.at - elected.at)
                case _:
                    lost = line
        return found

    def noted(self, event: str) -> Iterator[Line]:
        """Tell what the runner noted of one kind."""
        return (line for line in self.notes if line.event == event)


def gather(
    folder: Path,
    tasks: Collection[dict[str, Any]],
    *,
    offset: float,
    is_graceful: bool,
    counted: Mapping[str, int],
) -> Evidence:
    """Read all ledgers of a run, and its tasks."""
    notes = list(ledger.read(folder / f"runner{ledger.SUFFIX}"))
    books = {
        path.name.removesuffix(ledger.SUFFIX): list(ledger.read(path))
        for path in sorted(folder.glob(f"*{ledger.SUFFIX}"))
    }
    del books["runner"]
    processes = list(_processes(notes, books))
    lives = {process.name: process for process in processes}
    return Evidence(
        asked=[each for lines in books.values() for each in _asked(lines)],
        executions=[
            each for name, lines in books.items() for each in _executions(lines, lives[name])
        ],
        stored=[_stored(document) for document in tasks.find({}, _PROJECTION)],
        processes=processes,
        notes=[
            *notes,
            *(line for lines in books.values() for line in lines if line.event == "probe"),
        ],
        offset=offset,
        is_graceful=is_graceful,
        counted=counted,
    )


def _asked(lines: Sequence[Line]) -> Iterator[Asked]:
    answers = {
        line.facts["ref"]: line
        for line in lines
        if line.event in {"ack", "duplicate", "refused", "unclear"}
    }
    cancelled = {line.facts["task"] for line in lines if line.event == "cancelled"}
    for line in lines:
        if line.event != "ask":
            continue
        facts = dict(line.facts)
        answer = answers.get(facts["ref"])
        if answer is not None:
            facts.update(answer=answer.event, answered_at=answer.at, **_told(answer))
        yield Asked(at=line.at, was_cancelled=facts.get("task") in cancelled, **facts)


def _told(answer: Line) -> dict[str, Any]:
    return {name: value for name, value in answer.facts.items() if name in {"task", "why"}}


def _executions(lines: Sequence[Line], life: Process) -> Iterator[Execution]:
    ends = {line.facts["token"]: line for line in lines if line.event == "end"}
    last = lines[-1].at if lines else life.began
    for line in lines:
        if line.event != "start":
            continue
        facts = line.facts
        end = ends.get(facts["token"])
        yield Execution(
            task=facts["task"],
            token=facts["token"],
            attempt=facts["attempt"],
            type=facts["type"],
            process=life.name,
            began=line.at,
            ended=end.at if end else (life.ended or last),
            how=end.facts["how"] if end else "died",
            run_at=facts["run_at"],
            claimed_at=facts["claimed_at"],
        )


@dataclass(slots=True)
class _Seen:
    began: float
    ended: float | None = None
    code: int | None = None
    was_killed: bool = False
    frozen_at: float | None = None
    gaps: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])


def _processes(notes: Iterable[Line], books: Mapping[str, Sequence[Line]]) -> Iterator[Process]:
    seen: dict[str, _Seen] = {}
    calm = 0.0
    for line in notes:
        calm = line.at if line.event == "calm" else calm
        _note_life(seen, line)
    for name, each in seen.items():
        lines = books.get(name, ())
        reports = [line for line in lines if line.event == "health"]
        lately = [line for line in reports if calm - _LATELY_SECONDS < line.at < calm]
        gaps = [(line.facts["since"], line.facts["until"]) for line in lines if line.event == "gap"]
        # A process that died in a gap could not tell of it: its silence does.
        if each.ended is not None and lines:
            gaps.append((lines[-1].at, each.ended))
        # One that hardly got to run speaks of that.
        was_starved = not lately or any(until > lately[0].at for _, until in gaps)
        yield Process(
            name=name,
            began=each.began,
            ended=each.ended,
            code=each.code,
            was_killed=each.was_killed,
            gaps=sorted([*gaps, *each.gaps]),
            was_ready=bool(reports),
            complaints=[] if was_starved else lately[-1].facts["reasons"],
            logged=reports[-1].facts["logged"] if reports else 0,
            files=max((line.facts["files"] for line in reports), default=0),
        )


def _note_life(seen: dict[str, _Seen], line: Line) -> None:
    name = line.facts.get("process", "")
    match line.event:
        case "born":
            seen[name] = _Seen(line.at)
        case "killing":
            seen[name].was_killed = True
        case "freezing":
            seen[name].frozen_at = line.at
        case "thawing":
            seen[name].gaps.append((seen[name].frozen_at or line.at, line.at))
        case "ended":
            seen[name].ended = line.facts["at"]
            seen[name].code = line.facts["code"]
        case _:
            pass


def _stored(document: Mapping[str, Any]) -> Stored:
    return Stored(
        id=str(document["_id"]),
        ref=document["payload"]["ref"],
        type=document["type"],
        status=document["status"],
        attempts=document["attempts"],
        max_attempts=document["max_attempts"],
        interruptions=document["interruptions"],
        errors=[(each["attempt"], each["kind"], each["worker"]) for each in document["errors"]],
        errors_dropped=document["errors_dropped"],
        settle_token=document.get("settle_token"),
        result_token=(document.get("result") or {}).get("token"),
        held_key=document.get("unique_key"),
        run_at=document["run_at"].timestamp(),
        started_at=_seconds(document.get("started_at")),
        finished_at=_seconds(document.get("finished_at")),
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
