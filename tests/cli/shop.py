"""An APP on a store in memory, with what may be wrong with others."""

from __future__ import annotations

from pydantic import BaseModel

from gotasks_memstore import MemStore
from gotasks_py import Fixed, Manager, QueuePolicy


class Email(BaseModel):
    to: str
    copies: int = 1


def make(store: MemStore | None = None) -> Manager:
    made = Manager(
        store or MemStore(),
        queues=[QueuePolicy("emails"), QueuePolicy("reports", max_attempts=1)],
        backoff=Fixed(),
    )

    @made.handler("emails", "send")
    async def send(email: Email) -> str:
        return f"sent to {email.to}"

    @made.handler("reports", "monthly")
    async def monthly(month: str) -> None:
        raise RuntimeError(f"no figures for {month}")

    return made


async def make_later() -> Manager:
    return make()


manager = make()
not_a_manager = 42


def three() -> int:
    return 3


async def three_later() -> int:
    return 3


def broken() -> Manager:
    return Manager(MemStore(), workers=0)


def raising() -> Manager:
    raise RuntimeError("no configuration")
