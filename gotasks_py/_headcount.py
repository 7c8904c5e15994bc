"""How many workers a pool has, and how many of them are too many."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Headcount:
    """Workers leave between two tasks: nobody who runs one is sent home."""

    size: int
    surplus: int = 0
    """How many are to leave that have not come to it yet."""

    def change(self, size: int) -> int:
        """Have so many; tell how many more are to be started."""
        added, self.size = size - self.size, size
        if added < 0:
            self.surplus -= added
            return 0
        kept = min(self.surplus, added)
        self.surplus -= kept
        return added - kept

    def leaves_one(self) -> bool:
        """Whether the worker that asks is to leave."""
        if not self.surplus:
            return False
        self.surplus -= 1
        return True
