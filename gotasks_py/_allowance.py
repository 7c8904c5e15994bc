"""How many tasks a run of a manager may still claim, over all of its pools."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Allowance:
    """A number that claims take from before they are sent; endless by default.

    What a claim did not use it gives back, and ``returned`` is called for those who wait.
    """

    left: float = math.inf
    returned: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])

    def take(self, number: int) -> int:
        """Take as many as there are, at most this number."""
        taken = int(min(self.left, number))
        self.left -= taken
        return taken

    def give_back(self, number: int) -> None:
        """Return what was taken and not used."""
        if number > 0 and self.left != math.inf:
            self.left += number
            for call in self.returned:
                call()
