"""What the runner tells a library's module, and what every module does alike.

Only the standard library: this is imported inside each peer's own environment.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NoReturn

from bench.peers.ledger import from_environment

URL: Final = "GOTASKS_BENCH_URL"
VARIANT: Final = "GOTASKS_BENCH_VARIANT"
_CHUNK: Final = 1000

ledger = from_environment()


def url() -> str:
    """Tell the URL of this round's empty database."""
    return os.environ[URL]


def variant() -> str:
    """Tell which of its ways a module is to take, where it has several."""
    return os.environ[VARIANT]


def payload(number: int) -> dict[str, str | int]:
    """Make the payload of a task: small and flat, as most are."""
    return {"to": "a@example.com", "subject": "hello", "number": number}


def run(*arguments: str) -> NoReturn:
    """Turn this process into ``python -m`` with these arguments."""
    os.execv(sys.executable, [sys.executable, "-m", *arguments])  # noqa: S606  - it is all ours


def chunks(numbers: Iterable[int], size: int = _CHUNK) -> Iterator[Sequence[int]]:
    """Cut numbers into lists of at most this size."""
    remaining = iter(numbers)
    while chunk := list(islice(remaining, size)):
        yield chunk


async def at_once(
    enqueue: Callable[[int], Awaitable[object]], numbers: range, callers: int = 50
) -> None:
    """Enqueue one by one from so many callers at a time, for want of a bulk call."""
    remaining = iter(numbers)

    async def caller() -> None:
        for number in remaining:
            await enqueue(number)

    await asyncio.gather(*(caller() for _ in range(callers)))
