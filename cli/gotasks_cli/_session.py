"""Which manager a command works with, and the event loop that it works on."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio

from gotasks_cli._known import no_queue
from gotasks_cli._loading import load_manager, store_for
from gotasks_cli._problems import Problem
from gotasks_py import Manager, QueuePolicy, Store, UnknownQueueError

T = TypeVar("T")

APP_VARIABLE: Final = "GOTASKS_APP"
STORE_VARIABLE: Final = "GOTASKS_STORE"


@dataclass(frozen=True, slots=True)
class Target:
    """What the user said about where tasks are: an APP, or the URL of a store."""

    app: str | None = None
    store: str | None = None

    def resolved(self) -> Target:
        """Let options stand before environment variables.

        Raises:
            Problem: neither was said, or both at once.
        """
        here = self
        if here == Target():
            here = Target(os.environ.get(APP_VARIABLE), os.environ.get(STORE_VARIABLE))
        if here.app and here.store:
            msg = (
                f"both --app {here.app} and --store (or {APP_VARIABLE} and {STORE_VARIABLE}) say "
                "where the tasks are; give one"
            )
            raise Problem(msg)
        if not here.app and not here.store:
            msg = (
                f"say where the tasks are: --store URL or {STORE_VARIABLE}, or "
                f"--app module:manager or {APP_VARIABLE}"
            )
            raise Problem(msg)
        return here


@asynccontextmanager
async def opened(target: Target) -> AsyncGenerator[Manager]:
    """Make the manager of a target, with its store open; it is not started."""
    target = target.resolved()
    manager = await load_manager(target.app) if target.app else None
    store = manager.store if manager else store_for(target.store or "")
    try:
        await store.open()
        yield manager or await _stand_in(store)
    except UnknownQueueError as error:
        if manager is None:  # its words are for those who write the APP
            raise no_queue(error.queue, error.declared) from error
        raise
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


async def _stand_in(store: Store) -> Manager:
    """Make a manager without handlers that declares what is recorded already."""
    recorded = await store.queues()
    queues = [QueuePolicy.from_document(name, values) for name, values in recorded.items()]
    return Manager(store, queues=queues, name="cli")


@asynccontextmanager
async def unopened(target: Target) -> AsyncGenerator[Store]:
    """Tell the store of a target as it is: opening one may mend what is wrong with it."""
    target = target.resolved()
    store = (await load_manager(target.app)).store if target.app else store_for(target.store or "")
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run the asynchronous part of a command."""
    return anyio.run(function, backend="asyncio")


def with_manager(target: Target, function: Callable[[Manager], Awaitable[T]]) -> T:
    """Run a function on the manager of a target."""

    async def work() -> T:
        async with opened(target) as manager:
            return await function(manager)

    return run(work)
