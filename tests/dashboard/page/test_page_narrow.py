"""Names as long as may be, without a space to break them at, widen no page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from pydantic import BaseModel, ConfigDict, Field

from gotasks_py import Manager, QueuePolicy, TaskType
from tests.dashboard.conftest import OWN, open_to_all
from tests.dashboard.page.conftest import Site, a_dead_one, site_of
from tests.lab import Lab

pytestmark = pytest.mark.anyio

LONG = "a_name.that-goes:on" * 10 + "xxxxxxxxxx"


class Form(BaseModel):
    model_config = ConfigDict(alias_generator=lambda name: LONG[:-1] + name[0])

    needed: str = Field(description=LONG)
    unset: int | None = None


async def handled(_payload: Form) -> None:
    """Do nothing."""


ACTS: dict[str, dict[str, Any]] = {
    "jobs": {"action": "cancel", "query": f"tag:{LONG} key:{LONG}"},
    "tasks": {"queue": LONG, "type": LONG, "payload": {f"{LONG[:-1]}n": "b"}},
    "queues/pause": {"queue": LONG},
}
SEEN = "main:not(:has(.skeleton)) h1"
WIDER = """width => [...document.querySelectorAll("body *")]
    .filter(each => each.getBoundingClientRect().right > width + 1
        && !each.closest("pre, .table-box, .segmented, .tree, .unseen, svg"))
    .map(each => `${each.tagName}.${each.className}`)"""
"""What reaches beyond the screen, but for what scrolls by itself."""


@pytest.fixture
async def long(browser: Browser, shop: Lab) -> AsyncIterator[tuple[Site, str]]:
    """Open a shop in which everything has a long name."""
    manager = Manager(shop.store, queues=[QueuePolicy(LONG), QueuePolicy("q")], name=LONG[:64])
    manager.handler(TaskType(LONG, LONG, Form, None))(handled)
    fields: dict[str, Any] = {"queue": LONG, "type": LONG, "unique_key": LONG, "tags": [LONG]}
    task_id = await a_dead_one(shop, LONG * 3, **fields, payload={LONG: {LONG: LONG * 5}})
    async with manager:
        app = open_to_all(manager, title=LONG, identify=lambda _: LONG)
        async with site_of(browser, app) as site:
            yield site, task_id


async def test_short_names_are_not_broken(site: Site, shop: Lab) -> None:
    await shop.store.register_queue(QueuePolicy("invoices"))
    for _ in range(3):
        await a_dead_one(shop, "there was no paper " * 9, queue="invoices", type="printing")
    page = await site.open("tasks", width=768)
    name = page.get_by_role("cell", name="invoices", exact=True).first.locator("bdi")
    lines = "each => Math.round(each.offsetHeight / parseFloat(getComputedStyle(each).lineHeight))"
    assert await name.evaluate(lines) == 1


@pytest.mark.timeout(120)
@pytest.mark.parametrize("width", [360, 1280])
async def test_long_names_widen_no_page(long: tuple[Site, str], width: int) -> None:
    site, task_id = long
    page = await site.open(width=width)
    named = f"queue={LONG}&type={LONG}"
    paths = {
        "": [],
        "queues": [],
        f"queues?queue={LONG}": ["Purge"],
        "tasks": [],
        f"tasks?q=tag:{LONG}": [],
        f"tasks/{task_id}": ["Delete"],
        "new": [],
        f"new?{named}": [],
        f"new?from={task_id}": [],
        "types": [],
        f"types?{named}": [],
        "dead": [],
        "nodes": [],
        "system": [],
        "audit": [],
        "jobs": [],
    }
    for place, body in ACTS.items():
        answer = await page.request.post(f"{site.base}api/{place}", data=body, headers=dict(OWN))
        assert answer.ok, await answer.text()
    for path, buttons in paths.items():
        await page.goto(f"{site.base}{path}")
        await expect(page.locator(SEEN)).to_be_visible()
        await expect(page.locator("main")).not_to_contain_text("Loading")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, path
        assert await page.evaluate(WIDER, width) == [], path
        for name in buttons:
            await page.get_by_role("button", name=name).first.click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_be_visible()
            assert await dialog.evaluate("each => each.scrollWidth <= each.clientWidth"), name
            await page.keyboard.press("Escape")
