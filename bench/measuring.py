"""Repeats in turns, medians with their spread, and the table that they are printed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample:
    """The values of one contestant, one per round."""

    values: Sequence[float]

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    @property
    def spread(self) -> float:
        """Half the way from the least to the greatest value, relative to the median."""
        return (max(self.values) - min(self.values)) / 2 / (self.median or 1)

    def __str__(self) -> str:
        return f"{_number(self.median)} ±{self.spread:.0%}"


@dataclass(frozen=True, slots=True)
class Target:
    """What a ratio should come to, or a value that has no yardstick."""

    least: float | None = None
    most: float | None = None
    excuse: str | None = None
    """Why it does not count in this run."""

    def judged(self, value: float) -> str:
        """Tell the bound, and whether a value keeps it."""
        bounds = [
            f"{sign} {bound:g}"
            for sign, bound in (("≥", self.least), ("≤", self.most))
            if bound is not None
        ]
        is_met = (self.least is None or value >= self.least) and (
            self.most is None or value <= self.most
        )
        verdict = "met" if is_met else f"not judged: {self.excuse}" if self.excuse else "MISSED"
        return f"{' '.join(bounds)}: {verdict}"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ours beside the raw driver, or beside another yardstick."""

    name: str
    unit: str
    ours: Sample
    raw: Sample | None = None
    target: Target | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the line."""
        if self.raw is None:
            judged = self.target.judged(self.ours.median) if self.target else ""
            return (self.name, self.unit, str(self.ours), "", "", judged)
        ratio = self.ours.median / (self.raw.median or 1)
        judged = self.target.judged(ratio) if self.target else ""
        return (self.name, self.unit, str(self.ours), str(self.raw), f"{ratio:.2f}", judged)


async def in_turns(
    rounds: int, contestants: Mapping[str, Callable[[], Awaitable[float]]]
) -> Mapping[str, Sample]:
    """Tell what each contestant came to, round by round."""
    return {name: Sample(each) for name, each in (await by_turns(rounds, contestants)).items()}


async def by_turns(
    rounds: int, contestants: Mapping[str, Callable[[], Awaitable[T]]]
) -> Mapping[str, list[T]]:
    """Run every contestant in every round, in alternating order, so that drift hits all alike."""
    values: dict[str, list[T]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            values[name].append(await contestants[name]())
    return values


def table(rows: Sequence[Row]) -> str:
    """Write rows as a Markdown table."""
    head = ("", "unit", "gotasks_py", "raw", "ratio", "target")
    lines = [head, *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in (head, rule, *lines[1:])
    )


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.2f}"
