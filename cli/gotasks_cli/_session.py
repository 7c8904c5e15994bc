"""Which manager a command works with, and the event loop that it works on."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio

from gotasks_cli._known import no_queue
from gotasks_cli._loading import load_manager, store_for
from gotasks_cli._output import note
from gotasks_cli._problems import Problem
from gotasks_py import (
    GotasksError,
    Manager,
    QueuePolicy,
    Store,
    StoreUnavailableError,
    UnknownQueueError,
)
from gotasks_py.patience import patience
from gotasks_py.store import reach

logger = logging.getLogger("gotasks_cli.session")

T = TypeVar("T")

APP_VARIABLE: Final = "GOTASKS_APP"
STORE_VARIABLE: Final = "GOTASKS_STORE"
CONNECT_SECONDS: Final = 5.0
"""How long a store may take to answer for the first time, unless another time is given."""

_CONNECT_SECONDS: Final = ContextVar("gotasks_cli.connect_seconds", default=CONNECT_SECONDS)
_SAID_AFTER_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class Target:
    """What the user said about where tasks are: an APP, or the URL of a store."""

    app: str | None = None
    store: str | None = None

    @property
    def place(self) -> str:
        """Where the tasks are, for people: without the login that a URL may hold."""
        if self.store is None:
            return f"the store of {self.app}"
        return self.store.partition("://")[2].partition("/")[0].rpartition("@")[2] or self.store

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


def set_connect_timeout(seconds: float) -> None:
    """Decide how long a store may take to answer for the first time, in seconds."""
    _CONNECT_SECONDS.set(seconds)


@asynccontextmanager
async def opened(target: Target, *, is_patient: bool = False) -> AsyncGenerator[Manager]:
    """Make the manager of a target, whose store answers; it is not started.

    Nothing is written: what reads alone leaves no trace, whatever database it was given.
    Who ``is_patient`` waits for the store for as long as that itself does.
    """
    target = target.resolved()
    manager = await load_manager(target.app) if target.app else None
    store = manager.store if manager else store_for(target.store or "")
    try:
        await _answered(store, target, is_patient=is_patient)
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
        try:
            await _answered(store, target)
        except StoreUnavailableError:
            raise
        except GotasksError as error:
            logger.debug("it answers, and is not as it should be: %s", error)
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await store.aclose()


async def _answered(store: Store, target: Target, *, is_patient: bool = False) -> None:
    """Wait until a store answers; say so where that takes long."""
    said = threading.Timer(_SAID_AFTER_SECONDS, note, [f"waiting for {target.place} ..."])
    said.daemon = True
    said.start()
    try:
        with nullcontext() if is_patient else patience(_CONNECT_SECONDS.get()):
            await reach(store)
    finally:
        said.cancel()


def run(function: Callable[[], Awaitable[T]]) -> T:
    """Run the asynchronous part of a command."""
    return anyio.run(function, backend="asyncio")


def with_manager(target: Target, function: Callable[[Manager], Awaitable[T]]) -> T:
    """Run a function on the manager of a target."""

    async def work() -> T:
        async with opened(target) as manager:
            return await function(manager)

    return run(work)
