"""The page works wherever it is mounted, and asks nobody but its own server."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.routing import Mount

from gotasks_py import QueuePolicy
from tests.dashboard.conftest import open_to_all
from tests.dashboard.page.conftest import site_of
from tests.lab import Lab

pytestmark = pytest.mark.anyio

HEAVIEST = 150_000


def alone(app: Any) -> Any:
    return app


def mounted(app: Any) -> Any:
    host = FastAPI()
    host.mount("/ops/tasks", app)
    return host


def behind_a_proxy(app: Any) -> Any:
    """Stand behind one that strips its prefix: as ``uvicorn --root-path /proxy`` calls."""
    inner = Starlette(routes=[Mount("/ops/tasks", app)])

    async def host(scope: Any, receive: Any, send: Any) -> None:
        await inner({**scope, "root_path": "/proxy"}, receive, send)

    return host


@pytest.mark.parametrize(
    ("host", "prefix"),
    [(alone, ""), (mounted, "/ops/tasks"), (behind_a_proxy, "/proxy/ops/tasks")],
)
async def test_the_page_works_below_its_prefix(
    browser: Browser, shop: Lab, host: Any, prefix: str
) -> None:
    queue = "a/b %3F#ü"
    await shop.store.register_queue(QueuePolicy(queue))
    task_id = str(await shop.enqueue(queue=queue))
    app = host(open_to_all(shop.store, title="shop"))
    async with site_of(browser, app, prefix) as site:
        page = await site.open()
        await page.get_by_role("link", name=queue).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text(queue)
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_have_text(queue)

        await page.get_by_role("navigation").get_by_role("link", name="Tasks").click()
        await page.get_by_role("link", name=f"t {task_id[-8:]}").click()
        await expect(page).to_have_url(f"{site.base}tasks/{task_id}")
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("t")
        await page.go_back()
        await expect(page).to_have_url(f"{site.base}tasks")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")


async def test_no_page_weighs_much(browser: Browser, shop: Lab) -> None:
    await a_few_tasks(shop)
    async with site_of(browser, open_to_all(shop.store)) as site:
        page = await site.open()
        for path in ("", "queues?queue=q", "tasks", "new", "types"):
            await page.goto(f"{site.base}{path}")
            await expect(page.locator("main:not(:has(.skeleton)) h1")).to_be_visible()
            files = "performance.getEntriesByType('resource')"
            sizes: dict[str, int] = await page.evaluate(
                f"Object.fromEntries({files}.map(each => [each.name, each.decodedBodySize]))"
            )
            static = {name: size for name, size in sizes.items() if "/static/" in name}
            assert len(static) > 5
            assert sum(static.values()) < HEAVIEST, static


async def test_an_address_that_is_none_is_told(browser: Browser, shop: Lab) -> None:
    async with site_of(browser, open_to_all(shop.store)) as site:
        page = await site.open(f"tasks/{'0' * 24}")
        await expect(page.get_by_role("alert")).to_contain_text("0" * 24)
        await page.evaluate(
            "history.pushState(null, '', 'nowhere'); dispatchEvent(new PopStateEvent('popstate'))"
        )
        await expect(page.get_by_role("heading", level=1)).to_have_text("Not found")
        await page.get_by_role("link", name="Go to the overview").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Overview")


async def a_few_tasks(shop: Lab) -> None:
    for number in range(3):
        await shop.enqueue(payload={"n": number})
