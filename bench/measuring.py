"""Repeats in turns, medians with their spread, and the table that they are printed in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median


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
class Row:
    """One line of the table: ours beside the raw driver, or beside another yardstick."""

    name: str
    unit: str
    ours: Sample
    raw: Sample | None = None

    @property
    def cells(self) -> tuple[str, ...]:
        """The columns of the line."""
        if self.raw is None:
            return (self.name, self.unit, str(self.ours), "", "")
        ratio = self.ours.median / (self.raw.median or 1)
        return (self.name, self.unit, str(self.ours), str(self.raw), f"{ratio:.2f}")


async def in_turns(
    rounds: int, contestants: Mapping[str, Callable[[], Awaitable[float]]]
) -> Mapping[str, Sample]:
    """Run every contestant in every round, in alternating order, so that drift hits all alike."""
    values: dict[str, list[float]] = {name: [] for name in contestants}
    names = list(contestants)
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            values[name].append(await contestants[name]())
    return {name: Sample(each) for name, each in values.items()}


def table(rows: Sequence[Row]) -> str:
    """Write rows as a Markdown table."""
    head = ("", "unit", "gotasks_py", "raw", "ratio")
    lines = [head, *(row.cells for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    rule = tuple("-" * width for width in widths)
    return "\n".join(
        "| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in (head, rule, *lines[1:])
    )


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.2f}"
