"""Enqueueing by a form that is made of the type's JSON schema."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from playwright.async_api import Browser, Page, expect
from pydantic import BaseModel, Field

from gotasks_py import Status, Task, TaskType
from tests.dashboard.conftest import open_to_all
from tests.dashboard.page.conftest import Site, findings, site_of
from tests.lab import Lab

pytestmark = pytest.mark.anyio

BIG = 9007199254740993


class Card(BaseModel):
    kind: Literal["card"] = "card"
    number: str


class Invoice(BaseModel):
    kind: Literal["invoice"] = "invoice"
    days: int


class Order(BaseModel):
    """What somebody has ordered."""

    number: int = Field(description="its number", ge=1)
    urgent: bool = False
    parcel: Literal["small", "large"] = "small"
    gifts: list[str] = []
    labels: dict[str, int] = {}
    note: str | None = None
    payment: Annotated[Card | Invoice, Field(discriminator="kind")] | None = None


ORDER = TaskType("q", "order", Order, None)
NUMBER = TaskType("q", "number", int, None)
PRICE = TaskType("q", "price", Decimal, None)
MAYBE = TaskType("q", "maybe", int | None, None)
SIZE = TaskType("q", "size", Literal["a", "b", "c", "d", "e"] | None, None)


@pytest.fixture
async def site(browser: Browser, shop: Lab) -> AsyncIterator[Site]:
    async with site_of(
        browser, open_to_all(shop.store, types=[ORDER, NUMBER, PRICE, MAYBE, SIZE])
    ) as site:
        yield site


async def enqueued(page: Page, shop: Lab) -> Task:
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("pending")
    return await shop.get(shop.store.parse_id(page.url.rpartition("/")[2]))


async def test_a_form_takes_objects_lists_maps_choices_and_big_numbers(
    site: Site, shop: Lab
) -> None:
    page = await site.open("new?queue=q&type=order")
    await page.get_by_label("number", exact=True).fill(str(BIG))
    for name in ("urgent", "parcel", "gifts", "labels", "note", "payment"):
        await page.get_by_title(f"Set {name}", exact=True).click()
    await page.get_by_role("group", name="urgent").get_by_text("Yes").last.click()
    await page.get_by_role("group", name="parcel").get_by_text("large").click()
    await page.get_by_title("Add to gifts").click()
    await page.get_by_label("gifts 1", exact=True).fill("a <b>ball</b>")
    await page.get_by_role("group", name="labels", exact=True).get_by_text("Add").click()
    await page.get_by_label("name", exact=True).fill("3")
    await page.get_by_role("group", name="Kind of note").get_by_text("string").click()
    await expect(page.locator("#payload-note")).to_have_value("")
    await page.get_by_role("group", name="Kind of payment").get_by_text("Invoice").click()
    await page.get_by_label("days").fill("14")
    await page.get_by_label("Tags").fill("x, y")
    await page.get_by_label("Priority").fill("3")
    task = await enqueued(page, shop)
    assert task.payload == {
        "number": BIG,
        "urgent": True,
        "parcel": "large",
        "gifts": ["a <b>ball</b>"],
        "labels": {"name": 3},
        "note": "",
        "payment": {"kind": "invoice", "days": 14},
    }
    assert (list(task.tags), task.priority, task.status) == (["x", "y"], 3, Status.PENDING)
    await expect(page.locator(".tree")).to_contain_text(str(BIG))


async def test_what_does_not_fit_is_told_at_its_field(site: Site) -> None:
    page = await site.open("new?queue=q&type=order")
    number = page.locator(".field", has=page.get_by_label("number", exact=True))
    await page.get_by_role("button", name="Enqueue").click()
    await expect(number.get_by_role("alert")).to_have_text("Field required")
    await page.get_by_label("number", exact=True).fill("0")
    await page.get_by_role("button", name="Check the payload").click()
    await expect(number.get_by_role("alert")).to_contain_text("greater than or equal to 1")
    await page.get_by_label("number", exact=True).fill("many")
    await expect(number.get_by_role("alert").first).to_have_text("needs a whole number")
    await page.get_by_label("number", exact=True).fill("7")
    await page.get_by_role("button", name="Check the payload").click()
    await expect(page.get_by_text("The payload fits.")).to_be_visible()


async def test_a_payload_can_be_written_as_json(site: Site, shop: Lab) -> None:
    page = await site.open("new?queue=q&type=order")
    await page.get_by_role("button", name="JSON").click()
    area = page.get_by_label("JSON", exact=True).last
    await area.fill('{"number": 12345678901234567890')
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.locator("#payload-json-error")).to_contain_text("no JSON")
    await area.fill(f'{{"number": {BIG}}}')
    await page.get_by_role("button", name="Form").click()
    await expect(page.get_by_label("number", exact=True)).to_have_value(str(BIG))
    await page.get_by_role("button", name="JSON").click()
    assert (await enqueued(page, shop)).payload == {"number": BIG} | (
        Order(number=BIG).model_dump(mode="json", exclude={"number"})
    )


async def test_a_type_without_a_schema_takes_any_json(site: Site, shop: Lab) -> None:
    page = await site.open("new?queue=q&type=other")
    await page.get_by_label("JSON").fill(f'[1.0, {BIG}, "</script>"]')
    task = await enqueued(page, shop)
    assert task.payload == {"value": [1.0, BIG, "</script>"]}


async def test_a_task_is_cloned_and_edited(site: Site, shop: Lab) -> None:
    given = {"number": BIG, "gifts": ["ball"], "payment": {"kind": "card", "number": "4"}}
    task_id = await shop.enqueue(type="order", payload=given, tags=["x"])
    page = await site.open(f"tasks/{task_id}")
    await page.get_by_role("link", name="Clone and edit").click()
    await expect(page.get_by_label("gifts 1", exact=True)).to_have_value("ball")
    await page.get_by_label("gifts 1", exact=True).fill("doll")
    clone = await enqueued(page, shop)
    assert clone.id != task_id
    assert list(clone.tags) == ["x"]
    assert isinstance(clone.payload, dict)
    assert clone.payload["number"] == BIG
    assert clone.payload["gifts"] == ["doll"]
    assert clone.payload["payment"] == {"kind": "card", "number": "4"}


async def test_a_clone_begins_with_all_settings(site: Site, shop: Lab) -> None:
    settings: dict[str, Any] = {
        "tags": ["a, b", 'say "x"', "c"],
        "max_attempts": 7,
        "timeout_ms": 1500,
        "priority": 2,
        "unique_key": "k",
        "retry_until": datetime(2099, 1, 1, 12, 0, 5, tzinfo=UTC),
        "metadata": {"by": "ann", "big": BIG},
        "backoff": {"kind": "fixed", "delay_ms": 50, "jitter": 0.0},
    }
    task_id = await shop.enqueue(type="order", payload={"number": 1}, **settings)
    page = await site.open(f"new?from={task_id}")
    await expect(page.get_by_label("Unique key")).to_have_value("")
    await expect(page.get_by_text("holds k until it is final")).to_be_visible()
    first, clone = await shop.get(task_id), await enqueued(page, shop)
    for name in ("tags", "max_attempts", "timeout", "priority", "retry_until", "metadata"):
        assert getattr(clone, name) == getattr(first, name), name
    assert clone.backoff == first.backoff
    assert (clone.unique_key, clone.payload["number"]) == (None, 1)  # type: ignore[index]


async def test_what_was_entered_outlives_another_choice_of_type(site: Site, shop: Lab) -> None:
    page = await site.open("new?queue=q&type=order")
    await page.get_by_label("number", exact=True).fill("7")
    await page.get_by_role("combobox", name="Type").fill("other")
    await page.get_by_role("combobox", name="Type").press("Tab")
    await expect(page.get_by_label("JSON", exact=True)).to_have_value(re.compile('"number": 7'))
    await page.get_by_label("JSON", exact=True).fill('{"number": 1e999}')
    await page.get_by_role("button", name="Enqueue").click()
    await expect(page.locator("#payload-json-error")).to_contain_text("beyond what a number can be")
    await page.get_by_label("JSON", exact=True).fill('{"number": 8}')
    await page.get_by_role("combobox", name="Type").fill("order")
    await page.get_by_role("combobox", name="Type").press("Tab")
    await expect(page.get_by_label("number", exact=True)).to_have_value("8")
    assert (await enqueued(page, shop)).type == "order"


async def test_a_taken_key_leads_to_the_task_that_has_it(site: Site, shop: Lab) -> None:
    task_id = await shop.enqueue(unique_key="k")
    page = await site.open("new?queue=q&type=t")
    await page.get_by_label("Unique key").fill("k")
    await page.get_by_role("button", name="Enqueue").click()
    await page.get_by_role("link", name="See the task that has it").click()
    await expect(page).to_have_url(f"{site.base}tasks/{task_id}")


async def test_a_payload_that_is_one_value_has_a_label_and_fits_a_phone(
    site: Site, shop: Lab
) -> None:
    page = await site.open("new?queue=q&type=number", width=360)
    value = page.get_by_label("Value", exact=True)
    assert await page.evaluate("document.documentElement.scrollWidth") <= 360
    assert await findings(page) == []
    await value.fill("many")
    field = page.locator(".field", has=value)
    await expect(field.get_by_role("alert")).to_have_text("needs a whole number")
    await value.fill("7")
    task = await enqueued(page, shop)
    assert task.payload == {"value": 7}


async def test_whatever_a_payload_may_be_its_control_has_a_label(site: Site, shop: Lab) -> None:
    for kind, choice in (("price", "number"), ("price", "string"), ("maybe", ""), ("size", "")):
        page = await site.open(f"new?queue=q&type={kind}")
        if choice:
            await page.get_by_role("group", name="Kind of").get_by_text(choice).click()
        assert await findings(page) == [], kind
    page = await site.open("new?queue=q&type=price")
    await page.get_by_role("textbox", name="Value").fill("1.25")
    assert (await enqueued(page, shop)).payload == {"value": "1.25"}


async def test_all_that_is_wrong_is_told_at_once(site: Site) -> None:
    page = await site.open("new?queue=q&type=order")
    await page.get_by_label("number", exact=True).fill("0")
    await page.get_by_text("More options").click()
    wrong = {
        "Delay (s)": ("-5", "greater than or equal to 0"),
        "Unique key": ("k" * 600, "1 to 200 characters"),
        "Tags": ("a, $a", "$a"),
        "Attempts": ("few", "a number is needed"),
        "Back-off": ('{"kind": "slow"}', "its kind is fixed"),
        "Metadata": ('{"a": {"$int": "x"}}', "a: "),
    }
    for label, (text, _) in wrong.items():
        await page.get_by_label(label, exact=True).fill(text)
    await page.get_by_role("button", name="Enqueue").click()
    for label, why in {"number": ("0", "greater than or equal to 1"), **wrong}.items():
        control = page.get_by_label(label, exact=True)
        await expect(control).to_have_attribute("aria-invalid", "true")
        await expect(control).to_have_accessible_description(re.compile(re.escape(why[1])))
    assert await findings(page) == []


@pytest.mark.parametrize("kind", ["order", "number", "other"])
async def test_options_that_do_not_fit_are_told_at_their_fields(site: Site, kind: str) -> None:
    page = await site.open(f"new?queue=q&type={kind}")
    wrong = {"Delay (s)": "-5", "Priority": "1.5", "Attempts": "0"}
    await page.get_by_text("More options").click()
    for label, text in wrong.items():
        await page.get_by_label(label, exact=True).fill(text)
    await page.get_by_text("More options").click()
    if kind == "other":
        await page.get_by_label("JSON", exact=True).fill("1")
    elif kind == "number":
        await page.get_by_label("Value", exact=True).fill("1")
    else:
        await page.get_by_label("number", exact=True).fill("1")
    await page.get_by_role("button", name="Enqueue").click()
    for label in wrong:
        field = page.locator(".field", has=page.get_by_label(label, exact=True))
        await expect(field.get_by_role("alert")).to_be_visible()
    payload = page.get_by_role("region", name="Payload")
    await expect(payload.get_by_role("alert")).to_have_count(0)
    await expect(page.get_by_text("policy.")).to_have_count(0)
    await page.get_by_label("Delay (s)").fill("soon")
    await page.get_by_role("button", name="Enqueue").click()
    field = page.locator(".field", has=page.get_by_label("Delay (s)"))
    await expect(field.get_by_role("alert")).to_have_text("a number is needed")


async def test_a_policy_that_does_not_fit_is_told_at_its_field(site: Site) -> None:
    page = await site.open("queues?queue=q")
    await page.get_by_label("Weight").fill("99999999999")
    await page.get_by_role("button", name="Save").click()
    field = page.locator(".field", has=page.get_by_label("Weight"))
    await expect(field.get_by_role("alert")).to_contain_text("less than or equal to")
    await page.get_by_label("Weight").fill("9")
    await page.get_by_role("button", name="Save").click()
    await expect(page.get_by_text("changed here")).to_be_visible()


async def test_a_large_payload_is_edited_as_text(site: Site, shop: Lab) -> None:
    rows = [{"i": at, "s": "x" * 20} for at in range(5_000)]
    given = {"number": 1, "rows": rows}
    task_id = await shop.enqueue(type="order", payload=given)
    page = await site.open(f"new?from={task_id}")
    area = page.get_by_label("JSON", exact=True)
    await expect(area).to_have_value(re.compile('"number": 1'))
    await expect(page.get_by_text("too large to have a field for each value")).to_be_visible()
    assert await page.locator("main *").count() < 500
    await area.evaluate(
        """area => {
            const own = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
            window.written = 0;
            Object.defineProperty(area, "value", {
                get: () => own.get.call(area),
                set: text => { window.written += 1; own.set.call(area, text); },
            });
        }"""
    )
    await page.get_by_label("Tags").press_sequentially("abc")
    await shop.enqueue()  # which draws the page again
    await expect(page.locator(".sidebar .stream")).to_have_text("Live")
    task = await enqueued(page, shop)
    assert await page.evaluate("window.written") == 0
    assert list(task.tags) == ["abc"]
    assert isinstance(task.payload, dict)
    assert task.payload["number"] == 1
