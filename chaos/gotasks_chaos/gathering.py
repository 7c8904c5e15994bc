"""Reads the evidence of a run from its folder: the ledgers of all its processes, and its tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import Any, Final, TypeAlias

from gotasks_chaos import ledger, plan, record
from gotasks_chaos.evidence import Asked, Entry, Evidence, Execution, Process, Stored
from gotasks_chaos.ledger import LedgerError, Line
from gotasks_chaos.profiles import GRACEFUL, OF_DATABASE, OF_NETWORK, PROFILES
from gotasks_chaos.record import RecordError
from gotasks_chaos.work import BACKOFF_SECONDS
from gotasks_py.errors import StoreUnavailableError

_LATELY_SECONDS: Final = 5.0
_PROBES: Final = frozenset({"probe", "calling", "roll"})
_ANSWERS: Final = frozenset({"ack", "duplicate", "refused", "unclear"})
_Kind: TypeAlias = type | UnionType
_NUMBER: Final = int | float
_FACTS: Final[Mapping[str, Mapping[str, _Kind]]] = {
    "ask": {"ref": str, "key": str | None, "delay": _NUMBER, "once": bool},
    "ack": {"ref": str, "task": str},
    "duplicate": {"ref": str},
    "refused": {"ref": str, "why": str},
    "unclear": {"ref": str, "task": str | None, "why": str},
    "cancelling": {"task": str},
    "cancelled": {"task": str},
    "probe": {"key": str, "ok": bool, "why": str},
    "roll": {"worker": str, "at_once": int, "slots": int},
    "start": {
        "task": str,
        "token": str,
        "attempt": int,
        "type": str,
        "run_at": _NUMBER,
        "claimed_at": _NUMBER,
    },
    "end": {"token": str, "how": str},
    "gap": {"since": _NUMBER, "until": _NUMBER},
    "health": {"reasons": list, "logged": int, "files": int},
    "born": {"process": str},
    "stopping": {"process": str},
    "killing": {"process": str},
    "freezing": {"process": str},
    "thawing": {"process": str},
    "ended": {"process": str, "code": int, "at": _NUMBER},
    "database": {"what": str},
    "failing": {"since": _NUMBER, "until": _NUMBER},
    "overdue": {"what": str, "seconds": _NUMBER},
}
"""What the audit reads in the lines of each event."""
_OF_PROCESSES: Final = frozenset(event for event, facts in _FACTS.items() if "process" in facts)


def gather(folder: Path) -> Evidence:
    """Read all ledgers of a run, and its tasks.

    Raises:
        LedgerError: a ledger is damaged.
        RecordError: the folder holds no run, or not all of it.
    """
    run = record.read(folder)
    times = PROFILES[run.profile].times
    kinds = {fault.kind for fault in plan.from_document(run.plan)}
    are_ours = run.members is not None
    books = {
        path.name.removesuffix(ledger.SUFFIX): list(_lines(path))
        for path in sorted(folder.glob(f"*{ledger.SUFFIX}"))
    }
    notes = books.pop("runner", [])
    processes = list(_processes(notes, books))
    lives = {process.name: process for process in processes}
    if unknown := books.keys() - lives.keys():
        msg = f"{folder} has a ledger of {min(unknown)}, and its runner knows no such process"
        raise RecordError(msg)
    return Evidence(
        asked=[each for lines in books.values() for each in _asked(lines)],
        executions=[
            each for name, lines in books.items() for each in _executions(lines, lives[name])
        ],
        stored=[_stored(document, number) for number, document in record.tasks(folder)],
        processes=processes,
        notes=[
            *notes,
            *(line for lines in books.values() for line in lines if line.event in _PROBES),
        ],
        offset=run.offset,
        # To somebody's own servers anything may have been done meanwhile.
        is_graceful=are_ours and kinds <= GRACEFUL,
        is_undisturbed=are_ours and not kinds & (OF_DATABASE | OF_NETWORK),
        lease=times.lease,
        backoff=BACKOFF_SECONDS,
        grace=times.grace,
        counted=run.counted,
    )


def _lines(path: Path) -> Iterator[Line]:
    """Read a ledger whose lines say what the audit asks for.

    Raises:
        LedgerError: one does not.
    """
    for line in ledger.read(path):
        for name, kind in _FACTS.get(line.event, {}).items():
            if name not in line.facts or not isinstance(line.facts[name], kind):
                msg = f"{path} has a line {line.event!r} at {line.at} without a proper {name!r}"
                raise LedgerError(msg)
        yield line


def _asked(lines: Sequence[Line]) -> Iterator[Asked]:
    answers = {line.facts["ref"]: line for line in lines if line.event in _ANSWERS}
    wanted, cancelled = (
        {line.facts["task"] for line in lines if line.event == event}
        for event in ("cancelling", "cancelled")
    )
    for line in lines:
        if line.event != "ask":
            continue
        facts = line.facts
        answer = answers.get(facts["ref"])
        told: Mapping[str, Any] = {} if answer is None else answer.facts
        yield Asked(
            ref=facts["ref"],
            at=line.at,
            answer="unclear" if answer is None else answer.event,
            answered_at=None if answer is None else answer.at,
            task=told.get("task"),
            key=facts["key"],
            delay=facts["delay"],
            once=facts["once"],
            was_to_be_cancelled=told.get("task") in wanted,
            was_cancelled=told.get("task") in cancelled,
            why=told.get("why", ""),
        )


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
    asked_to_leave: float | None = None
    frozen_at: float | None = None
    gaps: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    @property
    def worked_until(self) -> float:
        """Until when it had to be well; who leaves has its own time for that."""
        ends = [each for each in (self.asked_to_leave, self.ended) if each is not None]
        return min(ends, default=math.inf)


def _processes(notes: Sequence[Line], books: Mapping[str, Sequence[Line]]) -> Iterator[Process]:
    calm = max((line.at for line in notes if line.event == "calm"), default=0.0)
    over = max((line.at for line in notes if line.event == "fault"), default=0.0)
    for name, each in _lives(notes).items():
        lines = books.get(name, ())
        reports = [line for line in lines if line.event == "health"]
        gaps = [(line.facts["since"], line.facts["until"]) for line in lines if line.event == "gap"]
        # A process that was killed in a gap could not tell of it: its silence does.
        if each.was_killed and each.ended is not None and lines:
            gaps.append((lines[-1].at, each.ended))
        first = (reports or [line for line in lines if line.event == "ask"])[:1]
        yield Process(
            name=name,
            began=each.began,
            ended=each.ended,
            code=each.code,
            was_killed=each.was_killed,
            gaps=sorted([*gaps, *each.gaps]),
            ready_at=first[0].at if first else None,
            complaints=_complaints(reports, sorted([*gaps, *each.gaps]), calm, each.worked_until),
            crashes=sorted({each for line in reports for each in _crashes(line)}),
            asked_to_leave=each.asked_to_leave,
            left_early=each.asked_to_leave is not None and each.asked_to_leave <= over,
            logged=reports[-1].facts["logged"] if reports else 0,
            files=max((line.facts["files"] for line in reports), default=0),
        )


def _complaints(
    reports: Sequence[Line], gaps: Sequence[tuple[float, float]], calm: float, worked_until: float
) -> Sequence[str]:
    """Tell what a worker said of itself last, before all was calm; nothing of one that starved."""
    since = calm - _LATELY_SECONDS
    if not reports or reports[0].at > since or worked_until < calm:
        return ()
    stood_still = sum(min(end, calm) - max(start, since) for start, end in gaps if end > since)
    if stood_still > _LATELY_SECONDS / 2:
        return ()
    lately = [line for line in reports if since < line.at < calm]
    reasons: Sequence[str] = lately[-1].facts["reasons"] if lately else ["it tells nothing"]
    return reasons


def _crashes(report: Line) -> Iterator[str]:
    for reason in report.facts["reasons"]:
        if "crashed" in reason and StoreUnavailableError.__name__ not in reason:
            yield reason


def _lives(notes: Iterable[Line]) -> Mapping[str, _Seen]:
    seen: dict[str, _Seen] = {}
    for line in notes:
        if line.event not in _OF_PROCESSES:
            continue
        name = line.facts["process"]
        if line.event == "born":
            seen[name] = _Seen(line.at)
        elif name in seen:
            _note_life(seen[name], line)
        else:
            msg = f"the runner's ledger tells of {name} ({line.event}), and not of its birth"
            raise LedgerError(msg)
    return seen


def _note_life(life: _Seen, line: Line) -> None:
    match line.event:
        case "stopping":
            life.asked_to_leave = line.at
        case "killing":
            life.was_killed = True
        case "freezing":
            life.frozen_at = line.at
        case "thawing":
            life.gaps.append((life.frozen_at or line.at, line.at))
        case "ended":
            life.ended = line.facts["at"]
            life.code = line.facts["code"]
        case _:
            pass


def _stored(document: Mapping[str, Any], number: int) -> Stored:
    try:
        return _task(document)
    except (LookupError, TypeError, AttributeError) as error:
        msg = f"line {number} of the stored tasks is no task: {type(error).__name__}: {error}"
        raise RecordError(msg) from error


def _task(document: Mapping[str, Any]) -> Stored:
    return Stored(
        id=str(document["_id"]),
        ref=document["payload"]["ref"],
        type=document["type"],
        status=document["status"],
        attempts=document["attempts"],
        max_attempts=document["max_attempts"],
        interruptions=document["interruptions"],
        errors=[_entry(each) for each in document["errors"]],
        errors_dropped=document["errors_dropped"],
        settle_token=document.get("settle_token"),
        result_token=(document.get("result") or {}).get("token"),
        held_key=document.get("unique_key"),
        run_at=document["run_at"].timestamp(),
        started_at=_seconds(document.get("started_at")),
        finished_at=_seconds(document.get("finished_at")),
    )


def _entry(document: Mapping[str, Any]) -> Entry:
    return Entry(
        attempt=document["attempt"],
        kind=document["kind"],
        worker=document["worker"],
        message=document["message"],
        at=document["at"].timestamp(),
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
