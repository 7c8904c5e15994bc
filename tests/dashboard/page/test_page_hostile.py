"""Whatever tasks carry is shown as text, and nothing of it is obeyed."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from gotasks_py import QueuePolicy
from tests.dashboard.page.conftest import ROOT, Site, a_dead_one
from tests.lab import Lab

pytestmark = pytest.mark.anyio

PARSING = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|\beval\(|new Function|https?://(?!www\.w3\.org)"
)
SCRIPT = "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
NAMES = (
    SCRIPT[:150],
    "100%25 &amp; \"quoted\" 'x' \\ ${1} {{2}}",
    "../../etc/passwd?x=1#y",
    "javascript:alert(1)",
    "\u05d0\u05d1\u05d2 عربى 🦆",
)
DEEP = {
    "a": {"$int": "1"},
    "__proto__": {"x": 1},
    "constructor": SCRIPT,
    "<b>key</b>": [None, True],
}
PAYLOAD = {
    "text": SCRIPT,
    "control": "a\x01b\x7f\u202e\u200bc\n\td",
    "big": 9007199254740993,
    "small": -9223372036854775808,
    "deep": DEEP,
    "long": "x" * 5000,
    "many": list(range(200)),
}


@pytest.mark.parametrize("name", NAMES)
async def test_hostile_names_are_shown_and_lead_where_they_should(
    site: Site, shop: Lab, name: str
) -> None:
    await shop.store.register_queue(QueuePolicy(name))
    task_id = await a_dead_one(
        shop, SCRIPT, queue=name, type=name, tags=[name], payload=PAYLOAD, unique_key=name
    )
    page = await site.open()
    await page.get_by_role("link", name=name, exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(name)
    await page.locator("dl").get_by_role("link", name="1").first.click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("td.lead bdi")).to_have_text(name)
    await page.locator("td.lead a").click()
    await expect(page).to_have_url(f"{site.base}tasks/{task_id}")
    await expect(page.locator(".attempts .message")).to_have_text(SCRIPT)
    await page.locator(".facts").get_by_role("link", name=name).nth(1).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(name)
    await page.go_back()
    await page.locator(".tags a").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await page.get_by_role("navigation").get_by_role("link", name="Dead letters").click()
    await expect(page.locator(".group-title")).to_contain_text(SCRIPT)
    assert await page.title() != "owned"
    assert await page.locator("main script, main img, main b").count() == 0


async def test_hostile_payloads_are_shown_exactly(site: Site, shop: Lab) -> None:
    task_id = await a_dead_one(shop, SCRIPT, payload=PAYLOAD)
    page = await site.open(f"tasks/{task_id}")
    tree = page.locator(".tree")
    for shown in (SCRIPT, "9007199254740993", "-9223372036854775808", "a\x01b\x7f\u202e\u200bc"):
        assert shown in (await tree.text_content() or "")
    await expect(tree.get_by_role("button", name="{ 4 fields }")).to_be_visible()
    await tree.get_by_role("button", name="all 5,000 characters").click()
    assert "x" * 5000 in (await tree.text_content() or "")
    await tree.get_by_role("button", name="[ 200 items ]").click()
    await tree.get_by_role("button", name="150 more").click()
    assert "199" in (await tree.text_content() or "")
    # What looks like a tag was none where it was stored.
    fold = tree.get_by_role("button", name="{ 1 field }").first
    await fold.click()
    assert "$int" in (await tree.text_content() or "")
    assert await page.evaluate("({}).x") is None


async def test_no_script_of_the_page_parses_markup_or_code() -> None:
    scripts = list((ROOT / "dashboard" / "gotasks_dashboard" / "static").rglob("*.js"))
    assert len(scripts) > 20
    for each in scripts:
        assert not PARSING.search(each.read_text()), each


async def test_a_hostile_address_is_only_text(site: Site) -> None:
    page = await site.open(f"queues?queue={SCRIPT.replace('#', '')}")
    await expect(page.get_by_role("heading", level=1)).to_have_text(SCRIPT)
    await page.goto(f"{site.base}tasks?q=tag:{SCRIPT}")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Tasks")
    assert await page.locator("main script, main img").count() == 0
