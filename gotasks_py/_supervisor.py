"""Keeps a loop running: logs its crash, waits, starts it again, and remembers."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

import anyio

from gotasks_py.backoff import Exponential

logger = logging.getLogger("gotasks_py.supervisor")

_RESTART: Final = Exponential(base=timedelta(milliseconds=100), cap=timedelta(seconds=5))
_STEADY_SECONDS: Final = 60.0
"""A loop that has not crashed for this long counts as recovered."""


@dataclass(slots=True)
class LoopState:
    """How one supervised loop is doing."""

    monotonic: Callable[[], float]
    restarts: int = 0
    last_error: str | None = None
    _crashes: int = 0
    _crashed_at: float = -math.inf

    @property
    def error(self) -> str | None:
        """The latest crash, until the loop has been steady again."""
        return None if self._is_steady else self.last_error

    def crashed(self, error: Exception) -> timedelta:
        """Note a crash; tell how long to wait before the loop starts again."""
        self._crashes = 1 if self._is_steady else self._crashes + 1
        self._crashed_at = self.monotonic()
        self.restarts += 1
        cause = error
        while isinstance(cause, ExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]
        self.last_error = f"{type(cause).__name__}: {cause}"
        return _RESTART(self._crashes, error)

    @property
    def _is_steady(self) -> bool:
        return self.monotonic() - self._crashed_at > _STEADY_SECONDS


@dataclass(slots=True)
class Supervisor:
    """Runs loops and keeps their states."""

    monotonic: Callable[[], float]
    loops: dict[str, LoopState] = field(default_factory=dict)
    is_ending: Callable[[], bool] = lambda: True
    """Whether a loop that is cancelled from outside of every scope may end by it."""

    async def run(self, name: str, loop: Callable[[], Awaitable[None]]) -> None:
        """Run a loop until it returns, however often it crashes.

        Whoever cancels a scope ends it. Code of users can also cancel the task that it runs
        in, and asyncio cancels every task when it closes its loop; only the latter counts.
        """
        state = self.loops.setdefault(name, LoopState(self.monotonic))
        while True:
            try:
                await loop()
            except Exception as error:  # noqa: BLE001  - logged below
                await self._pause(name, state, error)
            except anyio.get_cancelled_exc_class():
                if await self._is_meant():
                    raise
                await self._pause(name, state, RuntimeError("its task was cancelled"))
            else:
                return

    async def _is_meant(self) -> bool:
        if anyio.current_effective_deadline() == -math.inf:
            return True
        await anyio.lowlevel.checkpoint()  # asyncio cancels all tasks before any of them runs
        return self.is_ending()

    async def _pause(self, name: str, state: LoopState, error: Exception) -> None:
        pause = state.crashed(error).total_seconds()
        logger.error(
            "loop %s crashed, restarting it in %.1f s: %s", name, pause, error, exc_info=error
        )
        await anyio.sleep(pause)
