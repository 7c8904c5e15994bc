"""Transactions: the handler's own writes, its follow-up and its success commit together."""

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from gotasks_mongostore import MongoStore
from gotasks_py import Fixed, Manager, QueuePolicy, TaskContext
from throwaway import throwaway_database


class Payment(BaseModel):
    """Money to be booked."""

    account: str
    cents: int


async def main(uri: str, database: str) -> None:
    """Book a payment; the first attempt fails in the middle."""
    store = await MongoStore.connect(uri, database=database)
    manager = Manager(store, queues=[QueuePolicy("payments")])

    @manager.handler("payments", "receipt")
    async def receipt(account: str) -> str:
        return f"a receipt for {account}"

    @manager.handler("payments", "book", backoff=Fixed(timedelta(milliseconds=100)))
    async def book(ctx: TaskContext, payment: Payment) -> str:
        booked = f"{payment.cents} cents on {payment.account}"
        async with ctx.transaction(result=booked) as session:
            bookings = session.client[database]["bookings"]
            await bookings.insert_one(
                {**payment.model_dump(), "attempt": ctx.attempt}, session=session
            )
            await receipt.enqueue(payment.account, session=session)
            if ctx.attempt == 1:
                print("attempt 1: the power goes out before the commit")
                raise ConnectionError("the power went out")
        return booked

    async with manager:
        handle = await book.enqueue(Payment(account="ann", cents=500))
        print(f"booked {await handle.result(timeout=30)}")

    # The store's own client serves the tasks; a program has one for its own data as well.
    async with store.transaction() as session:
        bookings = await session.client[database]["bookings"].find({}).to_list()
        receipts = await session.client[database]["tasks"].count_documents({"type": "receipt"})
    print(f"bookings by attempt: {[booking['attempt'] for booking in bookings]}")
    print(f"receipts: {receipts}")
    await store.aclose()


if __name__ == "__main__":
    with throwaway_database() as (uri, database):
        asyncio.run(main(uri, database))
