"""What the scenes have shown: a table for people, plain data for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.peers.kill.catalogue import Subject
from bench.peers.kill.verdict import Observation, Scenario
from bench.peers.report import table


@dataclass(frozen=True, slots=True)
class Played:
    """The scenes of one subject."""

    subject: Subject
    versions: Mapping[str, str]
    observations: Sequence[Observation]


def write(results: Sequence[Played]) -> str:
    """Write the table in Markdown, and whose versions it is about."""
    versions = {f"{name} {at}" for each in results for name, at in each.versions.items()}
    return f"{table(_lines(results))}\n\nVersions: {', '.join(sorted(versions))}."


def to_document(results: Sequence[Played]) -> list[dict[str, Any]]:
    """Say everything as plain data; moments are seconds since the signal."""
    return [
        {
            "name": each.subject.name,
            "title": each.subject.title,
            "settings": each.subject.chosen,
            "waits": each.subject.waits,
            "patience": each.subject.patience,
            "versions": dict(each.versions),
            "scenes": [_scene(observation) for observation in each.observations],
        }
        for each in results
    ]


def _lines(results: Sequence[Played]) -> Iterable[tuple[str, ...]]:
    yield (
        "",
        "settings",
        "worker gone after",
        "SIGKILL",
        "SIGTERM",
        "frozen and resumed",
        "recorded outcome",
    )
    for each in results:
        zombies = _of(each, Scenario.ZOMBIE)
        yield (
            each.subject.title,
            each.subject.chosen,
            each.subject.waits,
            _joined(map(_killed, _of(each, Scenario.SIGKILL))),
            _joined(map(_told_to_stop, _of(each, Scenario.SIGTERM))),
            _joined(map(_resumed, zombies)),
            _joined(map(_outcome, zombies)),
        )


def _of(played: Played, scenario: Scenario) -> Sequence[Observation]:
    return [each for each in played.observations if each.scenario is scenario]


def _joined(cells: Iterable[str]) -> str:
    # Repeated scenes that ended alike are told once.
    return "; ".join(dict.fromkeys(cells))


def _killed(seen: Observation) -> str:
    return _not_again(seen) if seen.is_lost else _again(seen)


def _told_to_stop(seen: Observation) -> str:
    if seen.is_lost:
        return _not_again(seen)
    if not seen.executions[0].returned:
        return f"stopped, {_again(seen)}"
    return "finished" if len(seen.executions) == 1 else f"finished, and {_again(seen)}"


def _resumed(seen: Observation) -> str:
    first = seen.executions[0]
    end = "finished" if first.returned else "stopped" if first.how else "cut off"
    again = "" if seen.again_after is None else f"{_again(seen)}{_times(seen)}, "
    elsewhere = "" if seen.is_taken_over else "not run elsewhere; "
    return f"{elsewhere}{again}the first {end}"


def _times(seen: Observation) -> str:
    starts = len(seen.executions)
    return "" if starts <= 2 else f" ({starts} starts)"


def _outcome(seen: Observation) -> str:
    if seen.is_overwritten and seen.after.by is not None:
        is_first = seen.after.by == seen.executions[0].name
        return f"**overwritten** by {'the first' if is_first else 'one more'}"
    if seen.is_overwritten:
        return f"**overwritten**: {seen.before} → {seen.after}"
    if not seen.is_taken_over:
        return f"{seen.after}"
    return f"{'unchanged' if seen.after.by is None else 'kept'}: {seen.after}"


def _again(seen: Observation) -> str:
    return f"again after {seen.again_after:.0f} s"


def _not_again(seen: Observation) -> str:
    return f"not run again: {seen.after}"


def _scene(seen: Observation) -> dict[str, Any]:
    return {
        "scenario": seen.scenario,
        "lost": seen.is_lost,
        "executions": len(seen.executions),
        "finished": seen.finished,
        "again_after": _rounded(seen.again_after),
        "overwritten": seen.is_overwritten,
        "before": seen.before and asdict(seen.before),
        "after": asdict(seen.after),
        "runs": [
            {
                **asdict(each),
                "started": _rounded(each.started - seen.signalled),
                "ended": each.ended and _rounded(each.ended - seen.signalled),
            }
            for each in seen.executions
        ],
    }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 2)
