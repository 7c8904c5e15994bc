"""The storm, decided before it starts: the same seed gives the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import inf

from gotasks_chaos.profiles import FaultKind, Profile, Rhythm


@dataclass(frozen=True, slots=True, order=True)
class Fault:
    """One fault: when, counted in seconds from the start, what, to whom, for how long.

    ``target`` is any number; whoever carries the fault out takes it modulo the candidates.
    """

    at: float
    kind: FaultKind
    target: int
    seconds: float = 0.0


def make_plan(profile: Profile, seed: int, duration: float) -> list[Fault]:
    """Decide every fault of a run, in order of time."""
    faults = (fault for rhythm in profile.rhythms for fault in _beats(rhythm, seed, duration))
    return sorted(faults)


def to_document(plan: Sequence[Fault]) -> list[dict[str, object]]:
    """Write a plan as plain data."""
    return [asdict(fault) for fault in plan]


def from_document(document: Sequence[Mapping[str, object]]) -> list[Fault]:
    """Read what :func:`to_document` wrote.

    Raises:
        ValueError: it is no plan.
    """
    return sorted(_read(entry) for entry in document)


def _beats(rhythm: Rhythm, seed: int, duration: float) -> Iterator[Fault]:
    # A source of its own for each kind: a rhythm more leaves the others as they were.
    chance = random.Random(f"{seed}/{rhythm.kind}")
    at = chance.uniform(*rhythm.every)
    while at < duration:
        seconds = round(chance.uniform(*rhythm.lasting), 3)
        yield Fault(round(at, 3), rhythm.kind, chance.randrange(1_000), seconds)
        at += chance.uniform(*rhythm.every)


def _read(entry: Mapping[str, object]) -> Fault:
    match entry:
        case {
            "at": int() | float() as at,
            "kind": str(kind),
            "target": int(target),
            "seconds": int() | float() as seconds,
        } if all(type(each) is not bool and 0 <= each < inf for each in (at, seconds, target)):
            return Fault(float(at), FaultKind(kind), target, float(seconds))
        case _:
            msg = f"not a fault: {entry!r}"
            raise ValueError(msg)
