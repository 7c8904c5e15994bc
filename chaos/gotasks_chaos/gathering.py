"""Reads the evidence of a run from its folder: the ledgers of all its processes, and its tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from gotasks_chaos import ledger, record
from gotasks_chaos.evidence import Asked, Entry, Evidence, Execution, Process, Stored
from gotasks_chaos.ledger import Line
from gotasks_chaos.profiles import PROFILES
from gotasks_chaos.work import BACKOFF_SECONDS
from gotasks_py.errors import StoreUnavailableError

_LATELY_SECONDS: Final = 5.0
_PROBES: Final = frozenset({"probe", "roll"})


def gather(folder: Path) -> Evidence:
    """Read all ledgers of a run, and its tasks.

    Raises:
        LedgerError: a ledger is damaged.
        RecordError: the folder holds no run.
    """
    run = record.read(folder)
    profile = PROFILES[run.profile]
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
        stored=[_stored(document) for document in record.tasks(folder)],
        processes=processes,
        notes=[
            *notes,
            *(line for lines in books.values() for line in lines if line.event in _PROBES),
        ],
        offset=run.offset,
        is_graceful=profile.is_graceful,
        is_undisturbed=not (profile.is_proxied or profile.needs_servers),
        lease=profile.times.lease,
        backoff=BACKOFF_SECONDS,
        counted=run.counted,
    )


def _asked(lines: Sequence[Line]) -> Iterator[Asked]:
    answers = {
        line.facts["ref"]: line
        for line in lines
        if line.event in {"ack", "duplicate", "refused", "unclear"}
    }
    wanted, cancelled = (
        {line.facts["task"] for line in lines if line.event == event}
        for event in ("cancelling", "cancelled")
    )
    for line in lines:
        if line.event != "ask":
            continue
        facts = dict(line.facts)
        answer = answers.get(facts["ref"])
        if answer is not None:
            facts.update(answer=answer.event, answered_at=answer.at, **_told(answer))
        yield Asked(
            at=line.at,
            was_to_be_cancelled=facts.get("task") in wanted,
            was_cancelled=facts.get("task") in cancelled,
            **facts,
        )


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
    asked_to_leave: float | None = None
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
            ready_at=reports[0].at if reports else None,
            complaints=[] if was_starved else lately[-1].facts["reasons"],
            crashes=sorted({each for line in reports for each in _crashes(line)}),
            asked_to_leave=each.asked_to_leave,
            logged=reports[-1].facts["logged"] if reports else 0,
            files=max((line.facts["files"] for line in reports), default=0),
        )


def _crashes(report: Line) -> Iterator[str]:
    for reason in report.facts["reasons"]:
        if "crashed" in reason and StoreUnavailableError.__name__ not in reason:
            yield reason


def _note_life(seen: dict[str, _Seen], line: Line) -> None:
    name = line.facts.get("process", "")
    match line.event:
        case "born":
            seen[name] = _Seen(line.at)
        case "stopping":
            seen[name].asked_to_leave = line.at
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
