"""The end of a run: from then on, the store is not waited for much longer."""

from __future__ import annotations

import math
from datetime import timedelta
from types import TracebackType

import anyio

from gotasks_py.errors import StoreUnavailableError


class Closing:
    """A time limit for what the store is asked for, which holds once a stop has waited enough.

    Until then what must not be abandoned, such as a claim that the store may have carried out,
    is shielded, and ends by the store's own time limit.
    """

    def __init__(self, limit: timedelta) -> None:
        self.begun = anyio.Event()
        self._seconds = limit.total_seconds()
        self._under_way: set[anyio.CancelScope] = set()
        self._is_quiet = anyio.Event()

    def begin(self) -> None:
        """Limit what is under way, counted from now, and what follows, each for itself."""
        if self.begun.is_set():
            return
        self.begun.set()
        for scope in self._under_way:
            scope.deadline = self.deadline

    def in_time(self) -> _InTime:
        """Limit what the store is asked for in the block.

        Raises:
            StoreUnavailableError: the time was over before the store answered; it may have done
                what it was asked for.
        """
        return _InTime(self)

    async def quiet(self) -> None:
        """Wait, after :meth:`begin`, until nothing is under way."""
        while self._under_way:
            await self._is_quiet.wait()

    @property
    def deadline(self) -> float:
        """When what begins now has to be over, by the event loop's clock."""
        return anyio.current_time() + self._seconds if self.begun.is_set() else math.inf

    def entered(self, scope: anyio.CancelScope) -> None:
        """Note what is under way."""
        if self.begun.is_set() and not self._under_way:
            self._is_quiet = anyio.Event()
        self._under_way.add(scope)

    def left(self, scope: anyio.CancelScope) -> None:
        """Note that it is over."""
        self._under_way.discard(scope)
        if self.begun.is_set() and not self._under_way:
            self._is_quiet.set()


class _InTime:
    # No generator: each claim goes through this, and each outcome.
    __slots__ = ("_closing", "_scope")

    def __init__(self, closing: Closing) -> None:
        self._closing = closing
        self._scope = anyio.CancelScope(deadline=closing.deadline)

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._closing.entered(self._scope)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._closing.left(self._scope)
        is_over = self._scope.__exit__(exc_type, exc, trace)
        if self._scope.cancelled_caught:
            msg = "the store did not answer before the manager had to end"
            raise StoreUnavailableError(msg)
        return is_over
