"""Keeps a loop running: logs its crash, waits, starts it again, and remembers."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py.backoff import Exponential

logger = logging.getLogger("gotasks_py.supervisor")

_RESTART: Final = Exponential(base=timedelta(milliseconds=100), cap=timedelta(seconds=30))
# A loop that ran this long before it crashed starts over with the shortest wait.
_STEADY_SECONDS: Final = 60.0


@dataclass(slots=True)
class LoopState:
    """How one supervised loop is doing."""

    name: str
    restarts: int = 0
    error: str | None = None
    """The latest crash, while the loop has not been steady since."""


@dataclass(slots=True)
class Supervisor:
    """Runs loops and keeps their states."""

    loops: dict[str, LoopState] = field(default_factory=dict)

    async def run(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until it returns, however often it crashes."""
        state = self.loops.setdefault(name, LoopState(name))
        crashes = 0
        while True:
            began = anyio.current_time()
            try:
                await loop()
            except Exception as error:
                if anyio.current_time() - began > _STEADY_SECONDS:
                    crashes = 0
                crashes += 1
                state.restarts += 1
                state.error = f"{type(error).__name__}: {error}"
                pause = _RESTART(crashes, error).total_seconds()
                logger.exception("loop %s crashed, restarting it in %.1f s", name, pause)
                await anyio.sleep(pause)
            else:
                return

    def steadied(self, name: str) -> None:
        """Note that a loop has done its work again."""
        state = self.loops.get(name)
        if state is not None:
            state.error = None
