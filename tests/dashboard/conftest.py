"""A dashboard on each store, and a client that sends what a browser sends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeAlias

import httpx
import pytest

from gotasks_dashboard import Dashboard, Permission, dashboard
from gotasks_memstore import MemStore
from gotasks_py.store import Store
from tests.conftest import a_lab
from tests.lab import Lab, ManualClock, MemHand

OWN: Mapping[str, str] = {"X-Gotasks": "1", "Sec-Fetch-Site": "same-origin"}
"""What the page sends with each mutation."""

Browse: TypeAlias = Callable[..., httpx.AsyncClient]


@pytest.fixture
def anyio_backend() -> Any:
    return "asyncio"


@pytest.fixture(params=["memstore", pytest.param("mongostore", marks=pytest.mark.mongo)])
async def lab(request: pytest.FixtureRequest, anyio_backend: object) -> AsyncIterator[Lab]:
    """Set up each store in turn, empty; that all drivers are alike is tested elsewhere."""
    async with a_lab(request, request.param) as made:
        yield made


@pytest.fixture
def mem_lab() -> Lab:
    clock = ManualClock()
    store = MemStore(clock=clock)
    return Lab(store, MemHand(store, clock), "memstore")


@pytest.fixture
async def browse(anyio_backend: object) -> AsyncIterator[Browse]:
    """Open browsers on applications; they may do everything, unless told otherwise."""
    async with AsyncExitStack() as stack:

        def browser(app: Any, base_url: str = "http://localhost") -> httpx.AsyncClient:
            transport = httpx.ASGITransport(app=app)
            client = httpx.AsyncClient(transport=transport, base_url=base_url, headers=OWN)
            stack.push_async_callback(client.aclose)
            return client

        yield browser


def everything(_request: object) -> set[Permission]:
    return set(Permission)


def open_to_all(store: Store | Any, **settings: Any) -> Dashboard:
    return dashboard(store, authorize=everything, **settings)


async def read(client: httpx.AsyncClient, path: str, **query: Any) -> Any:
    answer = await client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()
