"""The smallest useful program: one queue, one type of task, a typed result."""

import asyncio

from pydantic import BaseModel

from gotasks_py import Manager, QueuePolicy
from throwaway import throwaway_store


class Email(BaseModel):
    """What to send."""

    to: str
    subject: str


class Receipt(BaseModel):
    """What the mail server said."""

    message_id: str


async def main() -> None:
    """Enqueue one task, run it, and wait for its result."""
    async with throwaway_store() as store:
        manager = Manager(store, queues=[QueuePolicy("emails")])

        @manager.handler("emails", "send")
        async def send(email: Email) -> Receipt:
            print(f"sending {email.subject!r} to {email.to}")
            return Receipt(message_id=f"<1@{email.to}>")

        async with manager:
            handle = await send.enqueue(Email(to="ann@example.org", subject="hello"))
            print(f"enqueued task {handle.id}")
            receipt = await handle.result(timeout=10)  # a Receipt, for type checkers too
            print(f"sent as {receipt.message_id}")

            task = await handle.task()
            print(f"the task is {task.status} after {task.attempts} attempt")


if __name__ == "__main__":
    asyncio.run(main())
