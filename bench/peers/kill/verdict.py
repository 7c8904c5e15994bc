"""What happened to a task, told from the ledger and from what its library has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from gotasks_chaos.ledger import Line


class Scenario(StrEnum):
    """What is done to the worker that runs the task."""

    SIGKILL = "sigkill"
    SIGTERM = "sigterm"
    ZOMBIE = "zombie"


@dataclass(frozen=True, slots=True)
class Execution:
    """One start of a handler; ``how`` is none where nothing tells of its end."""

    name: str
    worker: str
    started: float
    ended: float | None = None
    how: str | None = None

    @property
    def returned(self) -> bool:
        """Whether it came to its end."""
        return self.how == "returned"


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a library tells of a task: its state, and whose result it keeps, if it keeps any."""

    state: str
    by: str | None

    def __str__(self) -> str:
        return f"`{self.state}`" if self.state else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """All that was seen of one task, in seconds of the machine's monotonic clock.

    Args:
        executions: Of the task, by their starts; the first met the signal.
        before: What was recorded before a frozen worker was resumed.
        resumed: When it was.
    """

    scenario: Scenario
    executions: Sequence[Execution]
    signalled: float
    before: Recorded | None = None
    resumed: float | None = None
    after: Recorded

    @property
    def finished(self) -> int:
        """How many executions came to their end."""
        return sum(execution.returned for execution in self.executions)

    @property
    def again_after(self) -> float | None:
        """How many seconds after the signal the task was started again."""
        later = [each.started for each in self.executions[1:]]
        return later[0] - self.signalled if later else None

    @property
    def is_lost(self) -> bool:
        """Whether no execution came to its end."""
        return self.finished == 0

    @property
    def is_taken_over(self) -> bool:
        """Whether another execution came to its end before the frozen worker was resumed."""
        return self.resumed is not None and any(
            each.returned and each.ended is not None and each.ended < self.resumed
            for each in self.executions[1:]
        )

    @property
    def is_overwritten(self) -> bool:
        """Whether the resumed worker changed what another had recorded meanwhile."""
        return self.is_taken_over and self.before != self.after


def executions(lines: Iterable[Line], task: str) -> list[Execution]:
    """Read a task's executions out of the ledger, by their starts."""
    found: dict[str, Execution] = {}
    for line in lines:
        if line.facts["task"] != task:
            continue
        name = line.facts["run"]
        if line.event == "start":
            found[name] = Execution(name, line.facts["worker"], line.at)
        else:
            start = found[name]
            found[name] = Execution(name, start.worker, start.started, line.at, line.facts["how"])
    return sorted(found.values(), key=lambda each: each.started)
