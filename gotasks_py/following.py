"""Being told of changes in a store, by the feed that everybody on this event loop shares."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from gotasks_py._wakeup import Listener, hub_of
from gotasks_py.store import Store

__all__ = ["Listener", "following"]


@contextmanager
def following(store: Store, listener: Listener) -> Generator[None]:
    """Tell a listener of changes during the block, where the store can.

    It hears of tasks that may be claimed, of cancellations, queues and managers, but not of
    the ends of tasks. The listener is called on the event loop, and must not block.
    """
    hub = hub_of(store)
    if hub is None:
        yield
        return
    with hub.listening(listener):
        yield
