"""What happens is seen without loading the page again, and trouble loses nothing."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Route, expect

from gotasks_dashboard import Permission, dashboard
from gotasks_py import Node
from gotasks_py.controls import QueueChanges
from gotasks_py.metering import Beat, Metering, Report
from tests.dashboard.page.conftest import Site, a_dead_one, site_of
from tests.lab import Lab

pytestmark = pytest.mark.anyio

HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


async def test_changes_appear_by_themselves(site: Site, shop: Lab) -> None:
    page = await site.open("tasks")
    await expect(page.get_by_text("No task yet")).to_be_visible()
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")
    loads = page.locator("html")
    await loads.evaluate("element => { element.dataset.same = 'yes' }")
    task_id = await shop.enqueue()
    await expect(page.get_by_role("link", name=f"t {str(task_id)[-8:]}")).to_be_visible()
    await page.get_by_role("link", name="Overview").click()
    row = page.get_by_role("row", name="q")
    await expect(row.locator("td").nth(2)).to_have_text("1")
    await shop.enqueue()
    await expect(row.locator("td").nth(2)).to_have_text("2")
    await expect(loads).to_have_attribute("data-same", "yes")


async def test_without_events_it_polls(site: Site, shop: Lab) -> None:
    page = await site.open("nodes")
    await page.route("**/api/events", lambda route: route.fulfill(status=501, body="no"))
    await page.goto(f"{site.base}tasks")
    await expect(page.locator(".sidebar .stream")).to_have_text("Polling")
    await shop.enqueue()
    await expect(page.locator("tbody tr")).to_have_count(1)


async def test_it_polls_where_a_proxy_keeps_the_events_to_itself(site: Site) -> None:
    page = await site.open("nodes")

    async def keep(_route: Route) -> None:
        """Answer nothing at all."""

    await page.route("**/api/events", keep)
    await page.goto(f"{site.base}tasks")
    await expect(page.locator(".sidebar .stream")).to_have_text("Polling", timeout=30_000)


async def test_a_field_of_a_policy_is_not_cleared(site: Site) -> None:
    page = await site.open("queues?queue=q")
    await page.get_by_label("Weight").fill("2")
    await page.get_by_label("Workers").fill("3")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("changed here")).to_be_visible()
    await page.get_by_label("Workers").fill("")
    await expect(page.get_by_text("a number is needed")).to_be_visible()
    await expect(page.get_by_role("button", name="Save")).to_be_disabled()


async def test_a_hidden_tab_rests(site: Site) -> None:
    page = await site.open()
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")
    await page.evaluate(HIDE, arg=True)
    await expect(page.locator(".sidebar .stream")).to_have_text("Paused")
    async with page.expect_request("**/api/events"):
        await page.evaluate(HIDE, arg=False)
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")


async def test_trouble_is_told_and_what_was_typed_stays(site: Site, shop: Lab) -> None:
    page = await site.open("queues?queue=q")
    weight = page.get_by_label("Weight")
    await weight.fill("7")

    async def away(route: Route) -> None:
        problem = '{"code": "store_unavailable", "detail": "the database is away", "status": 503}'
        await route.fulfill(status=503, content_type="application/problem+json", body=problem)

    await page.route("**/api/queues/policy", away)
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_role("alert")).to_have_text("the database is away")
    await expect(weight).to_have_value("7")
    await shop.enqueue()
    await expect(page.get_by_text("Backlog1")).to_be_visible()
    await expect(weight).to_have_value("7")
    await page.unroute("**/api/queues/policy")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("changed here")).to_be_visible()
    recorded = (await shop.store.queues())["q"]
    assert QueueChanges.from_document(recorded).weight == 7


async def test_who_may_only_look_is_offered_nothing_else(browser: Browser, shop: Lab) -> None:
    task_id = await a_dead_one(shop, payload={"secret": "x"})
    app = dashboard(shop.store, authorize=lambda _: {Permission.VIEW})
    async with site_of(browser, app) as site:
        for path in (f"tasks/{task_id}", "tasks", "queues?queue=q", "dead"):
            page = await site.open(path)
            await expect(page.get_by_text("secret")).to_have_count(0)
            doing = re.compile(
                "requeue|cancel|delete|purge|pause|save|clone|new task", re.IGNORECASE
            )
            for role in ("button", "link"):
                offered = page.locator("main").get_by_role(role, name=doing)
                await expect(offered).to_have_count(1 if (path, role) == ("tasks", "button") else 0)
            await expect(page.get_by_role("checkbox")).to_have_count(0)


async def test_a_deploy_is_marked_in_the_charts(site: Site, shop: Lab) -> None:
    assert isinstance(shop.store, Metering)
    for version in ("1.0", "2.0"):
        node = Node(
            id=f"anna.{version}",
            host="h",
            pid=1,
            version=version,
            queues=["q"],
            capacity=4,
            started_at=shop.store.clock.now() - timedelta(minutes=10),
        )
        await shop.store.report(Report(beat=Beat(node=node, good_for=timedelta(hours=1))))
    page = await site.open()
    mark = page.locator(".chart").first.locator(".deploy")
    await expect(mark.last).to_contain_text("2.0")


async def test_a_queue_is_not_paused_until_a_time_that_has_passed(site: Site, shop: Lab) -> None:
    page = await site.open("queues?queue=q")
    await page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause q?")
    await dialog.get_by_label("Until").fill("2020-01-01T12:00")
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(dialog.get_by_role("alert")).to_contain_text("That time has passed")
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("button", name="Pause")).to_be_visible()


async def test_a_queue_is_paused_and_goes_on(site: Site, shop: Lab) -> None:
    page = await site.open("queues?queue=q")
    await page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause q?")
    await dialog.get_by_role("button", name="1 h").click()
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("resumes in")
    await page.get_by_role("button", name="Resume").click()
    await expect(page.get_by_role("heading", level=1)).not_to_contain_text("paused")


async def test_a_queue_is_purged_after_its_tasks_were_counted(site: Site, shop: Lab) -> None:
    kept = await shop.enqueue()
    gone = await shop.enqueue()
    shop.edit(gone, "due_at", status="done", finished_at=shop.store.clock.now())
    page = await site.open("queues?queue=q")
    await page.get_by_role("button", name="Purge").click()
    await (
        page.get_by_role("dialog", name="Purge 1 task?")
        .get_by_role("button", name="Delete 1")
        .click()
    )
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("1 deleted")
    assert await shop.store.get(gone) is None
    assert await shop.store.get(kept) is not None
    await page.get_by_role("link", name="Audit").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("delete")
