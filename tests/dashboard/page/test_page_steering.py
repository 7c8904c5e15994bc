"""Steering queues, managers and jobs from the page, also in a host that guards what is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount

from gotasks_py import AuditEntry, Auditing, Controlling, Node, NodeOrder, Outcome, Status
from gotasks_py.metering import Beat, Metering, Report
from tests.dashboard.conftest import OWN, open_to_all
from tests.dashboard.page.conftest import Site, a_dead_one, site_of
from tests.lab import HOUR, Lab

pytestmark = pytest.mark.anyio


class Guard:
    """Asks of every change for the token of its cookie, as the CSRF protection of hosts does."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope)
        is_forged = request.headers.get("x-csrftoken") != "a-token"
        if request.method == "POST" and is_forged:
            await PlainTextResponse("forged", 403)(scope, receive, send)
            return

        async def send_with_token(message: Any) -> None:
            if message["type"] == "http.response.start":
                cookie = (b"set-cookie", b"csrftoken=a-token; Path=/; SameSite=Lax")
                message = {**message, "headers": [*message["headers"], cookie]}
            await send(message)

        await self.app(scope, receive, send_with_token)


async def test_the_token_of_the_host_is_sent_along_and_the_user_is_named(
    browser: Browser, shop: Lab
) -> None:
    app = open_to_all(
        shop.store, csrf=("csrftoken", "X-CSRFToken"), identify=lambda _: "ann <b>o'hara</b>"
    )
    host = Starlette(routes=[Mount("/ops/tasks", app)], middleware=[Middleware(Guard)])
    async with site_of(browser, host, "/ops/tasks") as site:
        page = await site.open("queues?queue=q")
        await page.get_by_role("button", name="Pause").click()
        dialog = page.get_by_role("dialog", name="Pause q?")
        await dialog.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("status").filter(has_text="by ann")).to_be_visible()
        await page.get_by_role("link", name="Audit").click()
        await expect(page.get_by_role("row").nth(1)).to_contain_text("ann <b>o'hara</b>")


async def test_a_queue_is_paused_until_a_time_of_the_own_zone(site: Site, shop: Lab) -> None:
    page = await site.open("queues?queue=q")
    await page.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog", name="Pause q?")
    await dialog.get_by_label("Until").fill("2099-07-01T12:00")  # in Berlin
    await dialog.get_by_role("button", name="Pause", exact=True).click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("resumes in")
    pause: Any = (await shop.store.queues())["q"]["pause"]
    assert pause["until"] == datetime(2099, 7, 1, 10, tzinfo=UTC)


async def test_a_manager_is_drained_and_woken(site: Site, shop: Lab) -> None:
    store = shop.store
    assert isinstance(store, Metering)
    assert isinstance(store, Controlling)
    node = Node(id="m.1", host="h", pid=1, version="1", types={"q": ["t"]}, queues=["q"])
    await store.report(Report(beat=Beat(node=node, good_for=HOUR)))
    page = await site.open("nodes?queue=q")
    await page.get_by_role("button", name="Drain").click()
    await page.get_by_role("dialog").get_by_role("button", name="Drain").click()
    await expect(page.get_by_role("button", name="Wake")).to_be_visible()
    assert await store.node_orders() == {"m.1": NodeOrder.DRAIN}
    await page.get_by_role("button", name="Wake").click()
    await expect(page.get_by_role("button", name="Quiet")).to_be_visible()
    assert await store.node_orders() == {}


async def test_a_job_is_stopped(site: Site, shop: Lab) -> None:
    ids = [str(await shop.enqueue()) for _ in range(200)]
    page = await site.open("jobs")
    order = {"action": "cancel", "ids": ids, "per_second": 1}
    begun = await page.request.post(f"{site.base}api/jobs", data=order, headers=dict(OWN))
    assert begun.status == 202
    await page.get_by_role("button", name="Stop").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("stopped")
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)


async def test_a_job_that_nobody_does_any_more_is_told_as_lost(site: Site, shop: Lab) -> None:
    store = shop.store
    assert isinstance(store, Auditing)
    entry = AuditEntry(
        id="1" * 32,
        at=store.clock.now() - timedelta(minutes=5),
        action="requeue",
        details={"query": "queue:q", "total": 500},
        outcome=Outcome.RUNNING,
        changed=135,
        by="shop.7",
    )
    await store.audit(entry)
    page = await site.open("jobs")
    row = page.get_by_role("row").nth(1)
    await expect(row).to_contain_text("135 requeued, then lost")
    await expect(row).to_contain_text("shop.7 has not been heard of since")
    await expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    await page.get_by_role("navigation").get_by_role("link", name="Audit").click()
    await expect(page.get_by_role("row").nth(1)).to_contain_text("lost 135 changed")


async def test_a_group_of_failures_is_requeued(site: Site, shop: Lab) -> None:
    ids = [await a_dead_one(shop, f"no paper in tray {number}") for number in range(3)]
    page = await site.open("types?queue=q&type=t")
    await page.get_by_role("button", name="Requeue").click()
    dialog = page.get_by_role("dialog", name="Requeue 3 tasks?")
    await dialog.get_by_role("button", name="Requeue 3").click()
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("3 requeued")
    await expect(page.get_by_role("button", name="Requeue this group")).to_have_count(0)
    found = [await shop.get(shop.store.parse_id(each)) for each in ids]
    assert {task.status for task in found} == {Status.PENDING}


async def test_what_waits_is_cancelled_in_bulk(site: Site, shop: Lab) -> None:
    ids = [await shop.enqueue() for _ in range(3)]
    page = await site.open("tasks?q=status%3Apending")
    await page.get_by_label("Select page").check()
    bulk = page.get_by_role("group", name="Bulk actions")
    await bulk.get_by_role("button", name="Cancel").click()
    dialog = page.get_by_role("dialog", name="Cancel 3 tasks?")
    await dialog.get_by_role("button", name="Cancel 3").click()
    await expect(page.get_by_role("region", name="Bulk job")).to_contain_text("3 cancelled")
    assert {(await shop.get(each)).status for each in ids} == {Status.CANCELLED}
