"""While the store is away the page says so, once, and what cannot be known of a change."""

from __future__ import annotations

from typing import Any

import anyio
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
        await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")
    await expect(page.get_by_text(WHY)).to_have_count(0)
    await expect(page.locator(".charts .plot svg")).to_have_count(3)


async def test_a_dialog_says_at_once_that_it_waits(
    site: Site, shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = anyio.Event()

    async def slow(*_: object, **__: object) -> Any:
        await answers.wait()
        raise StoreUnavailableError(WHY)

    monkeypatch.setattr(shop.store, "pause_queue", slow)
    page = await site.open("queues?queue=q")
    await page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog.get_by_role("status")).to_have_text("Waiting for an answer…")
    await page.get_by_label("Until").focus()
    await page.keyboard.press("Tab")
    for _ in range(6):  # through the parts of the date, to the button of its calendar
        await expect(page.locator(":focus, :focus-within").last).not_to_have_css(
            "outline-style", "none"
        )
        await page.keyboard.press("Tab")
    answers.set()
    await expect(dialog.get_by_role("alert")).to_contain_text(WHY)


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
