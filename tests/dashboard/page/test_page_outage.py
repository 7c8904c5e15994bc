"""While the store is away the page says so, once, and what cannot be known of a change."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import expect

from gotasks_py import StoreUnavailableError
from tests.dashboard.page.conftest import Site
from tests.lab import Lab

pytestmark = pytest.mark.anyio

WHY = "the database did not answer: connection refused"


async def away(*_: object, **__: object) -> Any:
    raise StoreUnavailableError(WHY)


async def test_an_outage_is_told_once_and_passes(
    site: Site, shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = await site.open("queues?queue=q")
    await expect(page.locator(".charts .plot svg")).to_have_count(3)
    with monkeypatch.context() as outage:
        for operation in ("overview", "metrics", "pause_queue"):
            outage.setattr(shop.store, operation, away)
        await shop.enqueue()
        await expect(page.locator(".sidebar .stream")).to_have_text("Reconnecting")
        await page.get_by_role("group", name="Range").get_by_text("6 h").click()
        await expect(page.get_by_text(WHY)).to_have_count(1)
        await page.get_by_role("button", name="Pause").click()
        dialog = page.get_by_role("dialog", name="Pause q?")
        await dialog.get_by_role("button", name="Pause", exact=True).click()
        await expect(dialog.get_by_role("alert")).to_contain_text("look before you try again")
        await dialog.get_by_role("button", name="Cancel").click()
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")
    await expect(page.get_by_text(WHY)).to_have_count(0)
    await expect(page.locator(".charts .plot svg")).to_have_count(3)


async def test_a_page_that_was_opened_in_an_outage_comes_by_itself(
    site: Site, shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.enqueue()
    for path, operation in (("tasks", "find_tasks"), ("queues?queue=q", "overview")):
        with monkeypatch.context() as outage:
            outage.setattr(shop.store, operation, away)
            page = await site.open(path)
            await expect(page.get_by_text(WHY).first).to_be_visible()
        await shop.enqueue()
        await expect(page.get_by_text(WHY)).to_have_count(0)
        await expect(page.locator("tbody tr, .charts .plot svg").first).to_be_visible()
