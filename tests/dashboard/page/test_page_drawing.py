"""What is drawn again is brought in line with what is there, and loses nothing of it."""

from __future__ import annotations

import pytest
from playwright.async_api import Page, expect

from gotasks_py import Controlling
from tests.dashboard.page.conftest import Site
from tests.lab import Lab

pytestmark = pytest.mark.anyio

CHARTS = ["Throughput", "Wait", "Run time"]

MORPH = """async steps => {
    const { h, island, show } = await import(`${document.baseURI}static/lib/dom.js`);
    const root = document.createElement("div");
    document.body.append(root);
    const kept = h("input", { id: "kept", key: "kept" });
    const typed = () => h("input", { id: "typed" });
    const drawn = {
        notice: () => h("div", { class: "notice" }, "away"),
        row: () => h("div", { class: "row" }, "a row"),
        island: () => h("div", { class: "charts" }, island(kept)),
        panel: () => h("section", { class: "panel", "aria-label": "Now" }, typed()),
        other: () => h("section", { class: "panel", "aria-label": "Then" }, "then"),
        text: () => "only text",
    };
    const found = [];
    for (const step of steps) {
        const before = root.querySelector("#typed");
        show(root, step.map(name => drawn[name]()));
        const after = root.querySelector("#typed");
        found.push({
            drawn: [...root.childNodes].map(each => each.textContent || each.className),
            isKept: root.querySelector("#kept") === (step.includes("island") ? kept : null),
            isSame: before === null || after === null || before === after,
        });
    }
    root.remove();
    return found;
}"""


async def charts_of(page: Page) -> list[str]:
    return await page.locator(".charts > .chart h2").all_inner_texts()


@pytest.mark.parametrize(
    "steps",
    [
        [["island"], ["notice", "island"], ["island"]],
        [["island", "panel"], ["notice", "row", "island", "panel"], ["row", "island", "panel"]],
        [["row", "island"], ["island", "row"], ["row", "island"]],
        [["island"], ["row"], ["island"], []],
        [["panel", "island"], ["other", "panel", "island"], ["panel"], ["other", "panel"]],
        [
            ["text", "panel"],
            ["notice", "text", "panel"],
            ["row", "text", "panel", "island"],
            ["panel"],
        ],
    ],
)
async def test_what_comes_and_goes_touches_nothing_else(site: Site, steps: list[list[str]]) -> None:
    page = await site.open()
    texts = {
        "notice": "away",
        "row": "a row",
        "island": "charts",
        "panel": "panel",
        "other": "then",
        "text": "only text",
    }
    for step, found in zip(steps, await page.evaluate(MORPH, steps), strict=True):
        expected = {"drawn": [texts[name] for name in step], "isKept": True, "isSame": True}
        assert found == expected, step


async def test_charts_stay_when_a_notice_comes_or_goes(site: Site, shop: Lab) -> None:
    control = shop.store
    assert isinstance(control, Controlling)
    page = await site.open("queues?queue=q")
    await expect(page.locator(".charts .plot svg")).to_have_count(3)
    same = "element => element.isSame"
    await page.locator(".charts").evaluate("element => { element.isSame = true }")
    heading = page.get_by_role("heading", level=1)
    for _ in range(2):
        await control.pause_queue("q")
        await expect(heading).to_contain_text("paused")
        assert await charts_of(page) == CHARTS
        await control.resume_queue("q")
        await expect(heading).not_to_contain_text("paused")
        assert await charts_of(page) == CHARTS
    await expect(page.locator(".charts .plot svg")).to_have_count(3)
    assert await page.locator(".charts").evaluate(same)
