"""A task that enqueues many others, and a bulk enqueue in which some are refused."""

import asyncio

from pydantic import BaseModel

from gotasks_py import Enqueue, Manager, PartialEnqueueError, QueuePolicy, TaskPolicy
from throwaway import throwaway_store


class Page(BaseModel):
    """A page to fetch."""

    url: str


async def main() -> None:
    """Crawl a site: one task lists the pages, one task per page fetches it."""
    async with throwaway_store() as store:
        manager = Manager(store, queues=[QueuePolicy("crawl")], workers=16)

        @manager.handler("crawl", "page")
        async def fetch(page: Page) -> int:
            await asyncio.sleep(0.01)
            return len(page.url)

        @manager.handler("crawl", "site")
        async def crawl(site: str) -> list[str]:
            pages = [Page(url=f"{site}/{number}") for number in range(200)]
            # One write per thousand tasks; the handles align with the input.
            handles = await manager.enqueue_many(Enqueue("crawl", "page", page) for page in pages)
            return [str(handle.id) for handle in handles]

        async with manager:
            handle = await crawl.enqueue("https://example.org")
            ids = await handle.result(timeout=20)
            print(f"fanned out into {len(ids)} tasks")
            children = [await manager.handle(task_id) for task_id in ids]
            sizes = await asyncio.gather(*(child.result(timeout=20) for child in children))
            print(f"all fetched: {sum(sizes)} bytes")

            once = TaskPolicy(unique_key="front page")
            requests = [
                Enqueue("crawl", "page", Page(url="/"), once),
                Enqueue("crawl", "page", {"link": "/"}),  # no Page
                Enqueue("crawl", "page", Page(url="/about")),
            ]
            try:
                await manager.enqueue_many(requests)
            except PartialEnqueueError as error:
                print(f"stored: {[task_id is not None for task_id in error.ids]}")
                print(f"refused: {error.failures}")


if __name__ == "__main__":
    asyncio.run(main())
