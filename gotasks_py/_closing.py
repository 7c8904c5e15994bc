"""The end of a run: what the store has not answered by then is no longer waited for."""

from __future__ import annotations

import math
from types import TracebackType

import anyio

from gotasks_py.errors import StoreUnavailableError


class Closing:
    """A time limit for all that is under way, which is set when a stop has waited long enough.

    Until then what must not be abandoned, such as a claim that the store may have carried out,
    is shielded, and ends by the store's own time limit.
    """

    def __init__(self) -> None:
        self.has_begun = anyio.Event()
        self._deadline = math.inf
        self._under_way: set[anyio.CancelScope] = set()

    def begin(self, seconds: float) -> None:
        """Give the store so much more time, and try nothing again; the process is to end."""
        self.has_begun.set()
        self.limit(seconds)

    def limit(self, seconds: float) -> None:
        """Give the store so much time for what is under way, and what it is asked from now on."""
        self._deadline = anyio.current_time() + seconds
        for scope in self._under_way:
            scope.deadline = min(scope.deadline, self._deadline)

    def in_time(self) -> _InTime:
        """Bound what the store is asked for in the block.

        Raises:
            StoreUnavailableError: its time was over before it answered; it may have done what
                it was asked for.
        """
        return _InTime(self._under_way, self._deadline)


class _InTime:
    # Not a generator, nor a subclass of the scope: claims go through this.
    __slots__ = ("_scope", "_under_way")

    def __init__(self, under_way: set[anyio.CancelScope], deadline: float) -> None:
        self._scope = anyio.CancelScope(deadline=deadline)
        self._under_way = under_way

    def __enter__(self) -> None:
        self._scope.__enter__()
        self._under_way.add(self._scope)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._under_way.discard(self._scope)
        is_over = self._scope.__exit__(exc_type, exc, trace)
        if self._scope.cancelled_caught:
            msg = "the store did not answer before the manager had to end"
            raise StoreUnavailableError(msg)
        return is_over
