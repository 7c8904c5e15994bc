"""Finding tasks, and acting on one, some and all of them."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import anyio
import pytest
from playwright.async_api import expect

from gotasks_py import Count, Status, TaskFilter, TaskPage
from tests.dashboard.page.conftest import Site, a_dead_one, texts
from tests.lab import Lab

pytestmark = pytest.mark.anyio


async def test_a_search_is_kept_in_the_address(site: Site, shop: Lab) -> None:
    await shop.enqueue(tags=["red"])
    await shop.enqueue(tags=["blue"])
    await a_dead_one(shop)
    page = await site.open("tasks")
    await expect(page.locator("tbody tr")).to_have_count(3)
    box = page.get_by_role("combobox", name="Search tasks")
    await box.fill("tag:red")
    await box.press("Enter")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"q=tag%3Ared"))
    await page.get_by_role("button", name="Dead", exact=True).click()
    await expect(box).to_have_value("tag:red status:dead")
    await expect(page.get_by_text("No task fits")).to_be_visible()
    await page.go_back()
    await expect(box).to_have_value("tag:red")
    await page.reload()
    await expect(page.locator("tbody tr")).to_have_count(1)


async def test_a_search_that_cannot_be_read_says_where(site: Site) -> None:
    page = await site.open("tasks?q=queue%3Aq%20nonsense%3Ax")
    await expect(page.get_by_role("alert")).to_contain_text("no qualifier")
    await expect(page.locator(".misread mark")).to_have_text("nonsense:x")


async def test_what_another_search_has_found_cannot_be_selected(site: Site, shop: Lab) -> None:
    await shop.enqueue()
    page = await site.open("tasks?q=queue%3Aq")
    await expect(page.get_by_label("Select page")).to_be_visible()
    box = page.get_by_role("combobox", name="Search tasks")
    await box.fill("queue:q nonsense:x")
    await box.press("Enter")
    await expect(page.locator(".misread mark")).to_have_text("nonsense:x")
    await expect(page.get_by_label("Select page")).to_have_count(0)
    await expect(page.locator("tbody tr")).to_have_count(0)


async def test_what_is_typed_is_completed_from_real_values(site: Site, shop: Lab) -> None:
    await shop.enqueue()
    page = await site.open("tasks")
    box = page.get_by_role("combobox", name="Search tasks")
    await box.press_sequentially("que")
    option = page.get_by_role("option", name=re.compile("queue"))
    await expect(option).to_be_visible()
    await box.press("ArrowDown")
    await box.press("Enter")
    await expect(box).to_have_value("queue:")
    await page.get_by_role("option", name=re.compile("^q")).first.click()
    await expect(box).to_have_value(re.compile("^queue:q ?$"))


async def test_every_task_is_reached_by_turning_pages(site: Site, shop: Lab) -> None:
    every = {str(await shop.enqueue())[-8:] for _ in range(120)}
    page = await site.open("tasks")
    seen: set[str] = set()
    for _ in range(3):
        await expect(page.locator("tbody tr").first).to_be_visible()
        shown = set(await texts(page, "td.lead code"))
        assert not shown & seen
        seen |= shown
        following = page.get_by_role("link", name="Next page")
        if await following.count():
            first = await page.locator("td.lead code").first.inner_text()
            await following.click()
            await expect(page.locator("td.lead code").first).not_to_have_text(first)
    assert seen == every


async def test_selected_tasks_are_requeued(site: Site, shop: Lab) -> None:
    ids = [await a_dead_one(shop) for _ in range(3)]
    page = await site.open("tasks?q=status%3Adead")
    await page.get_by_label(f"Select t {ids[0][-8:]}").check()
    await page.get_by_label(f"Select t {ids[2][-8:]}").check()
    await page.get_by_role("button", name="Requeue").click()
    dialog = page.get_by_role("dialog", name="Requeue 2 tasks?")
    await dialog.get_by_role("button", name="Requeue 2").click()
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("2 requeued")
    await expect(page.locator("tbody tr")).to_have_count(1)
    states = [(await shop.get(shop.store.parse_id(each))).status for each in ids]
    assert states == [Status.PENDING, Status.DEAD, Status.PENDING]


async def test_all_that_match_are_deleted_not_only_the_page(site: Site, shop: Lab) -> None:
    for _ in range(60):
        await a_dead_one(shop)
    kept = await shop.enqueue()
    page = await site.open("tasks?q=status%3Adead")
    await page.get_by_label("Select page").check()
    await page.get_by_role("button", name="Select all 60 matching").click()
    await page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog", name="Delete 60 tasks?")
    await expect(dialog).to_contain_text("status:dead")
    await dialog.get_by_role("button", name="Delete 60").click()
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("60 deleted")
    await expect(page.get_by_text("No task fits")).to_be_visible()
    assert (await shop.get(kept)).status is Status.PENDING


async def test_what_is_selected_on_other_pages_is_told_and_can_be_seen(
    site: Site, shop: Lab
) -> None:
    for _ in range(52):
        await shop.enqueue()
    page = await site.open("tasks")
    await page.locator("tbody input").nth(0).check()
    await page.locator("tbody input").nth(1).check()
    await page.get_by_role("link", name="Next page").click()
    bar = page.get_by_role("group", name="Bulk actions")
    await expect(bar).to_contain_text("2 selected")
    await expect(bar).to_contain_text("all on other pages")
    await page.get_by_label("Select page").check()
    await expect(bar).to_contain_text("4 selected")
    await bar.get_by_role("button", name="2 on other pages").click()
    dialog = page.get_by_role("dialog", name="Selected on other pages")
    await expect(dialog.get_by_role("link")).to_have_count(2)
    await dialog.get_by_role("button", name=re.compile("Unselect t ")).first.click()
    await expect(dialog.get_by_role("link")).to_have_count(1)
    await page.keyboard.press("Escape")
    await expect(bar).to_contain_text("3 selected")
    await page.get_by_label("Select page").uncheck()
    await expect(bar).to_contain_text("1 selected")
    await bar.get_by_role("button", name="Clear").click()
    await expect(bar).not_to_contain_text("selected")


async def test_a_number_leads_to_just_so_many(site: Site, shop: Lab) -> None:
    later = shop.store.clock.now() + timedelta(hours=1)
    for _ in range(3):
        await shop.enqueue()
    await shop.enqueue(run_at=later, due_at=later)
    for path in ("", "queues?queue=q"):
        for label, count in (("Backlog", 3), ("Scheduled", 1)):
            page = await site.open(path)
            place = page.locator(".tile, dl > div").filter(has_text=label).first
            await place.get_by_role("link", name=str(count)).click()
            await expect(page.locator("tbody tr")).to_have_count(count)


async def test_a_dead_letter_is_looked_at_and_requeued(site: Site, shop: Lab) -> None:
    task_id = await a_dead_one(shop, payload={"big": 9007199254740993, "to": {"zip": "042"}})
    page = await site.open(f"tasks/{task_id}")
    await expect(page.locator("pre")).to_contain_text("PrinterError: no paper")
    await expect(page.locator(".tree")).to_contain_text("9007199254740993")
    await page.get_by_role("button", name="{ 2 fields }").click()
    await expect(page.locator(".tree")).not_to_contain_text("9007199254740993")
    await page.get_by_role("button", name="Requeue").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("pending")
    assert (await shop.get(shop.store.parse_id(task_id))).status is Status.PENDING


async def test_values_of_a_payload_lead_to_their_like(site: Site, shop: Lab) -> None:
    task_id = await shop.enqueue(payload={"to": {"zip": "042", "n": 9007199254740993}})
    await shop.enqueue(payload={"to": {"zip": "043"}})
    page = await site.open(f"tasks/{task_id}")
    for written in ("payload.to.zip:042", "payload.to.n:9007199254740993"):
        await page.get_by_role("link", name=f"Find tasks with {written}").click()
        await expect(page.locator("tbody tr")).to_have_count(1)
        await page.go_back()


async def test_a_task_is_cancelled_and_then_deleted(site: Site, shop: Lab) -> None:
    task_id = await shop.enqueue()
    page = await site.open(f"tasks/{task_id}")
    await page.get_by_role("button", name="Cancel task").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("cancelled")
    await page.get_by_role("button", name="Delete").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_text("No task yet")).to_be_visible()
    assert await shop.store.get(task_id) is None


async def test_a_group_of_dead_letters_is_requeued(site: Site, shop: Lab) -> None:
    ids = [await a_dead_one(shop) for _ in range(3)]
    page = await site.open("dead")
    await expect(page.locator(".group-count")).to_have_text("3")
    await page.get_by_role("button", name="Requeue this group").click()
    await page.get_by_role("button", name="Requeue 3").click()
    await expect(page.get_by_text("Nothing is dead").first).to_be_visible()
    with anyio.fail_after(10):
        for each in ids:
            assert (await shop.get(shop.store.parse_id(each))).status is Status.PENDING


async def test_what_is_not_found_yet_is_looked_for_further(
    site: Site, shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    task_id = await a_dead_one(shop, "boom")
    find = shop.store.find_tasks  # type: ignore[attr-defined]  # memory has it

    async def bounded(wanted: TaskFilter, **how: Any) -> TaskPage:
        """Find nothing in the first four looks."""
        looks = int(how.pop("cursor") or 0)
        return TaskPage([], str(looks + 1)) if looks < 4 else await find(wanted, **how)

    async def unsure(*_: object, **__: object) -> Count:
        return Count(0, is_exact=False)

    monkeypatch.setattr(shop.store, "find_tasks", bounded)
    monkeypatch.setattr(shop.store, "count_tasks", unsure)
    page = await site.open("tasks?q=error%3Aboom")
    await expect(page.get_by_text("None found yet")).to_be_visible()
    await expect(page.get_by_text("No task fits")).to_have_count(0)
    await expect(page.get_by_text("an unknown number of tasks")).to_be_visible()
    await page.get_by_role("button", name="Look further").click()
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page).to_have_url(re.compile("cursor=4"))
    await page.go_back()
    await page.get_by_role("button", name="Select all matching").click()
    await expect(page.get_by_text("All matching")).to_be_visible()
    monkeypatch.setattr(shop.store, "find_tasks", find)
    await page.get_by_role("button", name="Requeue").click()
    dialog = page.get_by_role("dialog", name="Requeue all that match?")
    await expect(dialog).to_contain_text("error:boom")
    await dialog.get_by_role("button", name="Requeue all").click()
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("1 requeued")
    assert (await shop.get(shop.store.parse_id(task_id))).status is Status.PENDING


async def test_it_is_not_looked_further_for_ever(
    site: Site, shop: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def endless(*_: object, **__: object) -> TaskPage:
        nonlocal looks
        looks += 1
        return TaskPage([], f"c{looks}")

    monkeypatch.setattr(shop.store, "find_tasks", endless)
    page = await site.open("tasks?q=error%3Aboom")
    await page.get_by_role("button", name="Look further").click()
    await expect(page).to_have_url(re.compile("cursor=c"))
    await expect(page.get_by_role("button", name="Look further")).to_be_enabled()
    assert looks < 40


async def test_an_address_of_no_task_says_so(site: Site) -> None:
    for path in ("tasks/zzz", f"tasks/{'0' * 24}", "tasks/count", "tasks/%25zz"):
        page = await site.open(path)
        await expect(page.get_by_role("alert")).to_contain_text(re.compile("no task|not exist"))
