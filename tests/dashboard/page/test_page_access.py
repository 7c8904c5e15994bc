"""For keyboards, screen readers, narrow screens and both themes; with a picture of each page."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from playwright.async_api import Browser, expect

from gotasks_py import Fixed, Manager, MetricsConfig, QueuePolicy, TaskType
from tests.dashboard.conftest import open_to_all
from tests.dashboard.page.conftest import OUTPUT, Site, a_dead_one, findings, site_of
from tests.lab import Lab

pytestmark = pytest.mark.anyio

PHONE = 360
TABLET = 768
LAPTOP = 1280
LETTER = TaskType("emails", "send", dict[str, str], str)
PATHS = {
    "overview": "",
    "queues": "queues",
    "queue": "queues?queue=emails",
    "tasks": "tasks",
    "dead-tasks": "tasks?q=status%3Adead",
    "task": "tasks/{id}",
    "new": "new?queue=emails&type=send",
    "types": "types",
    "type": "types?queue=emails&type=send",
    "dead": "dead",
    "nodes": "nodes",
    "system": "system",
    "audit": "audit",
    "jobs": "jobs",
    "lost": "nosuch",
}
CUT = """[...document.querySelectorAll("h2, .tile .value, .button, dt")]
    .filter(each => each.scrollWidth > each.clientWidth + 1).map(each => each.textContent)"""
"""The headings and the like that are wider than their place."""


@pytest.fixture
async def busy(browser: Browser, shop: Lab) -> AsyncIterator[tuple[Site, str]]:
    """Open a shop in which something of everything has happened."""
    manager = Manager(
        shop.store,
        queues=[QueuePolicy("emails", max_attempts=2, backoff=Fixed(timedelta(0)))],
        metrics=MetricsConfig(interval=timedelta(seconds=1)),
        name="anna",
    )

    @manager.handler(LETTER)
    async def send(letter: dict[str, str]) -> str:
        if letter["to"].startswith("x"):
            raise TimeoutError("the server did not answer")
        return "sent"

    handles = [await send.enqueue({"to": f"{letter}@y.z"}) for letter in "abcx"]
    await shop.enqueue(run_at=shop.store.clock.now() + timedelta(hours=1), tags=["later"])
    for number in range(12):
        await a_dead_one(shop, f"there was no paper in tray {number % 2}", tags=["red", "blue"])
    async with manager:
        await handles[0].result(10)
        async with site_of(browser, open_to_all(manager, title="shop")) as site:
            yield site, str(handles[-1].id)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_page_is_accessible_and_fits(busy: tuple[Site, str], theme: str) -> None:
    site, task_id = busy
    OUTPUT.mkdir(parents=True, exist_ok=True)
    page = await site.open(theme=theme, width=1440, height=900)
    for name, path in PATHS.items():
        await page.set_viewport_size({"width": 1440, "height": 900})
        await page.goto(f"{site.base}{path.format(id=task_id)}")
        await expect(page.locator("main:not(:has(.skeleton)) h1")).to_be_visible()
        await expect(page.locator(".sidebar .stream")).to_have_text("Live")
        assert await findings(page) == [], name
        await page.screenshot(path=OUTPUT / f"{name}-{theme}.png")
        await page.set_viewport_size({"width": PHONE, "height": 844})
        assert await findings(page) == [], f"{name} on a phone"
        await page.screenshot(path=OUTPUT / f"{name}-{theme}-phone.png")
        for width in (PHONE, TABLET, LAPTOP):
            await page.set_viewport_size({"width": width, "height": 844})
            wide = await page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{name} is {wide} wide"
            assert await page.evaluate(CUT) == [], f"{name} at {width}"


async def test_dialogs_and_the_menu_are_accessible(busy: tuple[Site, str]) -> None:
    site, _ = busy
    page = await site.open("queues?queue=emails")
    await page.get_by_role("button", name="Pause").click()
    assert await findings(page) == []
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Pause")).to_be_focused()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert await findings(page) == []
    await page.keyboard.press("Escape")
    await page.set_viewport_size({"width": PHONE, "height": 844})
    await expect(page.get_by_role("navigation")).to_be_hidden()
    await page.get_by_role("button", name="Menu").click()
    assert await findings(page) == []
    await page.get_by_role("navigation").get_by_role("link", name="Types").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Types")
    await expect(page.get_by_role("navigation")).to_be_hidden()


async def test_the_keyboard_alone_will_do(busy: tuple[Site, str]) -> None:
    site, _ = busy
    page = await site.open()
    keys = page.keyboard
    await keys.press("g")
    await keys.press("t")
    heading = page.get_by_role("heading", level=1)
    await expect(heading).to_have_text("Tasks")
    await expect(heading).to_be_focused()
    await keys.press("j")
    await keys.press("j")
    await keys.press("x")
    await expect(page.get_by_text("1 selected")).to_be_visible()
    await expect(page.locator("tr.cursor a")).to_be_focused()
    await keys.press("k")
    await keys.press("o")
    await expect(page.locator(".crumbs")).to_be_visible()
    await keys.press("u")
    await expect(heading).to_have_text("Tasks")
    await keys.press("/")
    await expect(page.get_by_role("combobox")).to_be_focused()
    await keys.type("status:dead gt")  # letters are only letters here
    await keys.press("Escape")
    await expect(page.get_by_role("combobox")).to_have_value("status:dead gt")
    await keys.press("Tab")
    await page.get_by_role("link", name="Overview").focus()
    await keys.press("Enter")
    await expect(heading).to_have_text("Overview")


async def test_single_keys_can_be_turned_off(busy: tuple[Site, str]) -> None:
    site, _ = busy
    page = await site.open()
    await page.keyboard.press("?")
    await page.get_by_label("Single keys act").uncheck()
    await page.get_by_role("button", name="Close").click()
    await page.keyboard.press("m")
    await expect(page.locator("html")).not_to_have_attribute("data-theme", "light")
    await page.reload()
    await page.keyboard.press("m")
    await expect(page.locator("html")).not_to_have_attribute("data-theme", "light")


async def test_charts_are_read_by_keyboard_and_pointer(busy: tuple[Site, str]) -> None:
    site, _ = busy
    page = await site.open()
    chart = page.get_by_role("slider", name="Throughput over time")
    await expect(chart.locator("path.bar").first).to_be_attached()
    await chart.focus()
    await page.keyboard.press("End")
    await expect(chart).to_have_attribute("aria-valuetext", re.compile("done"))
    first = await chart.get_attribute("aria-valuetext")
    await page.keyboard.press("ArrowLeft")
    await expect(chart).not_to_have_attribute("aria-valuetext", first or "")
    wait = page.get_by_role("slider", name="Wait over time")
    await expect(wait.locator(".cursor line")).to_be_attached()
    await page.keyboard.press("Tab")
    await expect(wait.locator(".cursor line")).to_be_attached(attached=False)
    await wait.hover()
    await expect(chart.locator(".cursor line")).to_be_attached()


async def test_a_chosen_theme_stays(busy: tuple[Site, str]) -> None:
    site, _ = busy
    page = await site.open(theme="light")
    dark = "rgb(13, 16, 21)"
    await expect(page.locator("html")).not_to_have_css("background-color", dark)
    await page.get_by_role("button", name="Theme: as the system").click()
    await page.get_by_role("button", name="Theme: light").click()
    await expect(page.locator("html")).to_have_css("background-color", dark)
    await page.reload()
    await expect(page.locator("html")).to_have_css("background-color", dark)
