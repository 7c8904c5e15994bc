"""Mounted anywhere, everything that the page names lies below the prefix."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urljoin

import django
import pytest
from django.conf import settings
from django.core.asgi import get_asgi_application
from fastapi import FastAPI
from litestar import Litestar, asgi
from starlette.applications import Starlette
from starlette.responses import RedirectResponse
from starlette.routing import Mount, Route

from gotasks_dashboard import Dashboard
from tests.dashboard.conftest import Browse, open_to_all, read
from tests.lab import Lab

pytestmark = pytest.mark.anyio

LINK = re.compile(r"""(?:href|src)="([^"#]+)\"""")


def alone(app: Dashboard) -> Any:
    return app


def in_starlette(app: Dashboard) -> Any:
    return Starlette(routes=[Mount("/ops/tasks", app)])


def in_fastapi(app: Dashboard) -> Any:
    host = FastAPI()
    host.mount("/ops/tasks", app)
    return host


def in_litestar(app: Dashboard) -> Any:
    @asgi("/ops/tasks", is_mount=True, copy_scope=True)
    async def mounted(scope: Any, receive: Any, send: Any) -> None:
        await app(scope, receive, send)

    return Litestar([mounted], logging_config=None)


def beside_django(app: Dashboard) -> Any:
    # A host application's own protection against forged requests sees none of the dashboard's.
    if not settings.configured:
        settings.configure(
            ALLOWED_HOSTS=["*"],
            ROOT_URLCONF=(),
            MIDDLEWARE=["django.middleware.csrf.CsrfViewMiddleware"],
        )
        django.setup()
    django_app: Any = get_asgi_application()  # its stubs' Scope is another than Starlette's
    return Starlette(
        routes=[
            Route("/ops/tasks", lambda _: RedirectResponse("tasks/")),
            Mount("/ops/tasks", app),
            Mount("/", django_app),
        ]
    )


def behind_a_proxy(app: Dashboard) -> Any:
    """Stand behind one that strips its prefix: as ``uvicorn --root-path /proxy`` calls."""
    inner = in_fastapi(app)

    async def host(scope: Any, receive: Any, send: Any) -> None:
        await inner(
            {**scope, "path": f"/proxy{scope['path']}", "root_path": "/proxy"}, receive, send
        )

    return host


def with_a_strange_prefix(app: Dashboard) -> Any:
    return Starlette(routes=[Mount('/a "b" <i>', app)])


def stripped(app: Dashboard) -> Any:
    """Be called by a host that takes the prefix off the path, as some frameworks do."""

    async def host(scope: Any, receive: Any, send: Callable[..., Awaitable[None]]) -> None:
        path = scope["path"].removeprefix("/ops/tasks")
        await app({**scope, "path": path, "root_path": "/ops/tasks"}, receive, send)

    return host


HOSTS = [
    (alone, "", "/"),
    (in_starlette, "/ops/tasks", "/ops/tasks/"),
    (in_fastapi, "/ops/tasks", "/ops/tasks/"),
    (in_litestar, "/ops/tasks", "/ops/tasks/"),
    (beside_django, "/ops/tasks", "/ops/tasks/"),
    (behind_a_proxy, "/ops/tasks", "/proxy/ops/tasks/"),
    (with_a_strange_prefix, "/a%20%22b%22%20%3Ci%3E", "/a%20%22b%22%20%3Ci%3E/"),
    (stripped, "/ops/tasks", "/ops/tasks/"),
]


@pytest.mark.parametrize(("host", "prefix", "base"), HOSTS)
async def test_page_files_and_api_lie_below_the_prefix(
    mem_lab: Lab, browse: Browse, host: Any, prefix: str, base: str
) -> None:
    client = browse(host(open_to_all(mem_lab.store)))
    for path in ("/", "/tasks/65f1c0ffee65f1c0ffee0123", "/queues?queue=a%2Fb"):
        answer = await client.get(f"{prefix}{path}")
        assert answer.status_code == 200
        assert f'<base href="{base}">' in answer.text
        links = [link for link in LINK.findall(answer.text) if link != base]
        assert links
        for link in links:
            assert not link.startswith(("/", "http"))
            assert (await client.get(f"{prefix}/{link}")).status_code == 200
    assert (await read(client, f"{prefix}/api/session"))["base"] == base
    document = await read(client, f"{prefix}/api/openapi.json")
    assert document["servers"] == [{"url": base.rstrip("/") or "/"}]


@pytest.mark.parametrize(
    ("host", "prefix", "base"),
    [each for each in HOSTS if each[0] is not alone],
)
async def test_without_its_slash_the_prefix_leads_to_the_page(
    mem_lab: Lab, browse: Browse, host: Any, prefix: str, base: str
) -> None:
    answer = await browse(host(open_to_all(mem_lab.store))).get(prefix)
    assert answer.status_code in {307, 308}
    location = urljoin(f"http://localhost{prefix}", answer.headers["location"])
    assert location.removeprefix("http://localhost") in {base, f"{prefix}/"}


async def test_two_dashboards_live_in_one_application(mem_lab: Lab, browse: Browse) -> None:
    host = FastAPI()
    host.mount("/one", open_to_all(mem_lab.store, title="one"))
    host.mount("/two", open_to_all(mem_lab.store, title="two"))
    client = browse(host)
    assert (await read(client, "/one/api/session"))["title"] == "one"
    assert (await read(client, "/two/api/session"))["title"] == "two"
