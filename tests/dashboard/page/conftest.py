"""A shop on a store in memory, its dashboard on a real port, and a real browser that looks."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

from gotasks_memstore import MemStore
from gotasks_py import QueuePolicy
from tests.dashboard.conftest import open_to_all
from tests.lab import Lab, ManualClock, MemHand

ROOT = Path(__file__).parents[3]
OUTPUT = ROOT / "build" / "screenshots"
AXE = ROOT / "dashboard" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = {"serious", "critical"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PATIENCE_MS = 15_000
"""How long a busy machine may take to show something; nothing is ever waited out."""

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def anyio_backend() -> Any:
    return "asyncio"


@pytest.fixture(scope="module")
async def browser(anyio_backend: object) -> AsyncIterator[Browser]:
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("needs Debian's chromium on the PATH")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        await browser.close()


@pytest.fixture
async def shop(anyio_backend: object) -> Lab:
    """Make a store whose clock goes, as a browser's does."""
    store = MemStore()
    await store.register_queue(QueuePolicy("q"))
    return Lab(store, MemHand(store, ManualClock()), "memstore")


async def a_dead_one(shop: Lab, message: str = "no paper", **fields: Any) -> str:
    """Make a dead letter; tell its id."""
    now = shop.store.clock.now()
    task_id = await shop.enqueue(**fields)
    error = {
        "at": now,
        "attempt": 3,
        "worker": "anna.1.0",
        "kind": "PrinterError",
        "message": message,
        "traceback": f'Traceback\n  File "print.py", line 3\nPrinterError: {message}',
    }
    shop.edit(
        task_id,
        "due_at",
        status="dead",
        attempts=3,
        started_at=now,
        finished_at=now,
        errors=[error],
        error_fingerprint="f1",
    )
    return str(task_id)


@dataclass
class Site:
    """A dashboard on a port of its own, and the pages that were opened of it."""

    browser: Browser
    origin: str
    prefix: str
    contexts: list[BrowserContext] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return f"{self.origin}{self.prefix}/"

    async def open(
        self, path: str = "", *, width: int = 1280, height: int = 800, theme: Any = "light"
    ) -> Page:
        """Open a page in a browser that has never been here."""
        context = await self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme=theme,
            reduced_motion="reduce",
            timezone_id="Europe/Berlin",
        )
        self.contexts.append(context)
        page = await context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("console", lambda message: self._said(message.type, message.text))
        page.on("dialog", lambda dialog: self.wrong.append(f"a dialog: {dialog.message}"))
        await page.goto(f"{self.base}{path}")
        await expect(page.locator("main:not(:has(.skeleton)) h1")).to_be_visible()
        return page

    def _said(self, kind: str, text: str) -> None:
        # What a server refuses is told by the page; the browser's own note says nothing more.
        if kind in {"error", "warning"} and "Failed to load resource" not in text:
            self.wrong.append(text)

    def check(self) -> None:
        """Nothing was wrong in any page, and nothing came from elsewhere."""
        assert self.wrong == []
        assert [url for url in self.asked if not url.startswith((self.base, "data:"))] == []

    async def close(self) -> None:
        for context in self.contexts:
            await context.close()


@asynccontextmanager
async def on_a_port(app: Any) -> AsyncGenerator[str]:
    """Serve an application; yield its origin."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(
            app, log_level="warning", lifespan="off", timeout_graceful_shutdown=2
        )
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@asynccontextmanager
async def site_of(browser: Browser, app: Any, prefix: str = "") -> AsyncGenerator[Site]:
    """Open an application to a browser; at the end nothing may have gone wrong."""
    async with on_a_port(app) as origin:
        site = Site(browser, origin, prefix)
        try:
            yield site
        finally:
            await site.close()
        site.check()


@pytest.fixture
async def site(browser: Browser, shop: Lab) -> AsyncIterator[Site]:
    """Open the shop's dashboard to somebody who may do everything."""
    async with site_of(browser, open_to_all(shop.store, title="shop")) as site:
        yield site


async def texts(page: Page, selector: str) -> Sequence[str]:
    return await page.locator(selector).all_inner_texts()


async def findings(page: Page) -> Any:
    """Ask axe; it is run past the policy that keeps scripts out."""
    await page.evaluate(AXE.read_text())
    told = await page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return [
        (each["id"], each["impact"], [node["html"][:200] for node in each["nodes"]])
        for each in told["violations"]
        if each["impact"] in SERIOUS or each["id"] in {"landmark-unique", "heading-order"}
    ]
