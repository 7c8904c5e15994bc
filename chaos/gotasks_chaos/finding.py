"""What a check finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Finding:
    """How many cases a check looked at, and what is wrong with which."""

    examined: int = 0
    violations: list[str] = field(default_factory=list[str])

    def look(self, complaints: Iterator[str]) -> None:
        """Count one case, and what there is to say about it."""
        self.examined += 1
        self.violations.extend(complaints)
