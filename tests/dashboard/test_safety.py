"""Closed by default, checked on every route, and closed to pages of other sites."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from gotasks_dashboard import Permission, dashboard
from gotasks_dashboard._endpoints import Endpoint
from gotasks_dashboard._pages import PATHS
from gotasks_dashboard._table import ENDPOINTS
from gotasks_py import ConfigurationError, QueuePolicy
from tests.dashboard.conftest import OWN, Browse, open_to_all, read
from tests.lab import Lab

pytestmark = pytest.mark.anyio

SOME_ID = "65f1c0ffee65f1c0ffee0123"
READS = [each for each in ENDPOINTS if each.method == "GET"]
WRITES = [each for each in ENDPOINTS if each.method == "POST"]
PAGES = ("/", *(f"/{path}" for path in PATHS), "/static/index.html")


def path_of(endpoint: Endpoint) -> str:
    return f"/api/{endpoint.path.replace('{id}', SOME_ID)}"


def routes() -> Iterator[tuple[str, str]]:
    yield from (("GET", path) for path in PAGES)
    yield from ((each.method, path_of(each)) for each in ENDPOINTS)


def named(endpoint: Endpoint) -> str:
    return f"{endpoint.method} {endpoint.path}"


async def refusal(client: httpx.AsyncClient, method: str, path: str) -> str:
    answer = await client.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == 403, f"{method} {path}: {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["code"])


async def test_nobody_gets_in_without_the_permission_to_view(mem_lab: Lab, browse: Browse) -> None:
    client = browse(dashboard(mem_lab.store, authorize=lambda _: set(Permission) - {VIEW}))
    for method, path in routes():
        assert await refusal(client, method, path) == "forbidden"


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=named)
async def test_each_route_takes_its_permission(
    mem_lab: Lab, browse: Browse, endpoint: Endpoint
) -> None:
    if endpoint.permissions == (VIEW,):
        return
    others = set(Permission) - {*endpoint.permissions}
    client = browse(dashboard(mem_lab.store, authorize=lambda _: others))
    answer = await client.request(
        endpoint.method, path_of(endpoint), json={} if endpoint.method == "POST" else None
    )
    assert (answer.status_code, answer.json()["permission"]) == (403, endpoint.permissions[0])


@pytest.mark.parametrize("endpoint", WRITES, ids=named)
async def test_no_mutation_takes_the_permission_to_view_alone(endpoint: Endpoint) -> None:
    assert VIEW not in endpoint.permissions


async def test_without_authorize_clients_on_this_machine_may_look_and_no_more(
    mem_lab: Lab, browse: Browse
) -> None:
    client = browse(dashboard(mem_lab.store))
    session = await read(client, "/api/session")
    assert session["permissions"] == ["view", "view_payloads", "view_audit"]
    assert session["is_loopback_default"] is True
    for each in WRITES:
        assert await refusal(client, "POST", path_of(each)) == "forbidden"


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        (("10.0.0.1", 1), {}),
        (("testclient", 1), {}),
        (None, {}),
        (("127.0.0.1", 1), {"X-Forwarded-For": "10.0.0.1"}),
        (("127.0.0.1", 1), {"Forwarded": "for=10.0.0.1"}),
        (("127.0.0.1", 1), {"X-Forwarded-Proto": "https"}),
        (("127.0.0.1", 1), {"CF-Connecting-IP": "10.0.0.1"}),
        (("127.0.0.1", 1), {"Host": "rebound.example"}),
        (("127.0.0.1", 1), {"Host": "127.0.0.1.example:80"}),
    ],
)
async def test_without_authorize_all_others_are_refused(
    mem_lab: Lab, client: Any, headers: dict[str, str]
) -> None:
    transport = httpx.ASGITransport(app=dashboard(mem_lab.store), client=client)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as other:
        for path in ("/", "/api/overview", "/static/index.html"):
            assert (await other.get(path, headers=headers)).status_code == 403


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:80", "[::1]"])
async def test_without_authorize_this_machine_has_several_names(mem_lab: Lab, host: str) -> None:
    transport = httpx.ASGITransport(app=dashboard(mem_lab.store), client=("::1", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        assert (await client.get("/api/overview", headers={"Host": host})).status_code == 200


async def test_authorize_may_be_async_and_may_lead_to_a_login(mem_lab: Lab, browse: Browse) -> None:
    async def authorize(request: Request) -> set[Permission]:
        if "token" not in request.headers:
            raise HTTPException(303, headers={"Location": "/login"})
        return {Permission.VIEW}

    client = browse(dashboard(mem_lab.store, authorize=authorize))
    answer = await client.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert (await client.get("/", headers={"token": "t"})).status_code == 200


async def test_whoever_cannot_be_judged_is_refused(mem_lab: Lab, browse: Browse) -> None:
    def authorize(_request: Request) -> set[Permission]:
        raise RuntimeError("s3cr3t")

    answer = await browse(dashboard(mem_lab.store, authorize=authorize)).get("/api/overview")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "s3cr3t" not in answer.text


@pytest.mark.parametrize("endpoint", WRITES, ids=named)
@pytest.mark.parametrize(
    ("status", "changed"),
    [
        (403, {"X-Gotasks": ""}),
        (403, {"Sec-Fetch-Site": "cross-site"}),
        (403, {"Sec-Fetch-Site": "same-site"}),
        (403, {"Sec-Fetch-Site": "none"}),
        (403, {"Sec-Fetch-Site": None}),
        (403, {"Sec-Fetch-Site": None, "Origin": "http://evil.example"}),
        (403, {"Sec-Fetch-Site": None, "Origin": "https://localhost"}),
        (
            403,
            {
                "Sec-Fetch-Site": None,
                "Origin": "http://localhost",
                "X-Forwarded-Proto": "https",
            },
        ),
        (403, {"Sec-Fetch-Site": None, "Origin": "null"}),
        (403, {"Sec-Fetch-Site": None, "Origin": "http://[broken"}),
        (415, {"Content-Type": "text/plain"}),
        (415, {"Content-Type": "application/x-www-form-urlencoded"}),
    ],
)
async def test_a_mutation_from_elsewhere_is_refused(
    mem_lab: Lab, endpoint: Endpoint, status: int, changed: dict[str, str | None]
) -> None:
    headers = {**OWN, "Content-Type": "application/json", **changed}
    transport = httpx.ASGITransport(app=open_to_all(mem_lab.store))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        sent = {name: value for name, value in headers.items() if value is not None}
        answer = await client.post(path_of(endpoint), content="{}", headers=sent)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("base", "passed_on", "scheme"),
    [
        ("http://localhost", None, "http"),
        ("https://localhost", None, "https"),
        ("http://localhost", "https", "https"),  # a proxy ends TLS
        ("http://localhost", "HTTPS, http", "https"),  # and another stands behind it
    ],
)
@pytest.mark.parametrize("endpoint", WRITES, ids=named)
async def test_an_origin_of_the_same_scheme_and_host_will_do(
    mem_lab: Lab, endpoint: Endpoint, base: str, passed_on: str | None, scheme: str
) -> None:
    transport = httpx.ASGITransport(app=open_to_all(mem_lab.store))
    headers = {"X-Gotasks": "1", "Origin": f"{scheme}://LOCALHOST:8080", "Host": "localhost:8080"}
    if passed_on:
        headers["X-Forwarded-Proto"] = passed_on
    async with httpx.AsyncClient(transport=transport, base_url=base) as client:
        answer = await client.post(path_of(endpoint), json={"no": "such field"}, headers=headers)
    assert answer.json()["code"] == "bad_request"


async def test_a_get_of_a_mutation_is_refused(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    reads = {each.path for each in READS}
    for each in WRITES:
        if each.path not in reads:
            assert (await client.get(path_of(each))).status_code in {404, 405}


async def test_every_answer_has_the_headers_that_protect(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    paths = [*PAGES, "/nowhere", "/api/nowhere", "/api/session", f"/api/tasks/{SOME_ID}"]
    for path in paths:
        headers = (await client.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
    assert (await client.get("/api/session")).headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/static/",
        "/static/../_app.py",
        "/static/%2e%2e/_app.py",
        "/static/..%2f_app.py",
        "/static//etc/passwd",
        "/static/index.html/",
        "/static/%00",
        "/static/\\..\\_app.py",
    ],
)
async def test_no_name_leads_out_of_the_folder(mem_lab: Lab, browse: Browse, path: str) -> None:
    answer = await browse(open_to_all(mem_lab.store)).get(path)
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/nosuch", "/tasks/a/b", "/static2", "/ops/"])
async def test_who_opens_what_is_not_there_sees_a_page(
    mem_lab: Lab, browse: Browse, path: str
) -> None:
    client = browse(open_to_all(mem_lab.store))
    opened = await client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (opened.status_code, opened.headers["content-type"]) == (404, HTML)
    assert "static/main.js" in opened.text
    asked = await client.get(path)
    assert (asked.status_code, asked.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("path", ["/api/nosuch", "/static/nosuch.js"])
async def test_what_is_not_for_people_is_told_as_a_problem(
    mem_lab: Lab, browse: Browse, path: str
) -> None:
    client = browse(open_to_all(mem_lab.store))
    opened = await client.get(path, headers={"Accept": "text/html,*/*;q=0.8"})
    assert (opened.status_code, opened.json()["code"]) == (404, "not_found")


async def test_who_may_not_look_is_told_so_in_words(mem_lab: Lab, browse: Browse) -> None:
    def hide(_request: object) -> set[Permission]:
        raise HTTPException(404, "there is no <b>dashboard</b>")

    answers: list[tuple[Any, int]] = [(lambda _: (), 403), (hide, 404)]
    for authorize, status in answers:
        client = browse(dashboard(mem_lab.store, authorize=authorize))
        opened = await client.get("/queues", headers={"Accept": "text/html"})
        assert (opened.status_code, opened.headers["content-type"]) == (status, HTML)
        assert "script" not in opened.text
        assert "<b>" not in opened.text


async def test_files_are_asked_for_anew_and_sent_once(mem_lab: Lab, browse: Browse) -> None:
    client = browse(open_to_all(mem_lab.store))
    first = await client.get("/static/index.html")
    again = await client.get("/static/index.html", headers={"If-None-Match": first.headers["etag"]})
    assert (first.status_code, again.status_code, again.content) == (200, 304, b"")


async def test_what_goes_wrong_inside_is_not_told(
    mem_lab: Lab, browse: Browse, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def overview(_queue: str | None = None) -> None:
        raise RuntimeError("s3cr3t")

    monkeypatch.setattr(mem_lab.store, "overview", overview)
    answer = await browse(open_to_all(mem_lab.store)).get("/api/overview")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "s3cr3t" not in answer.text


async def test_names_of_any_shape_can_be_searched_for(lab: Lab, browse: Browse) -> None:
    for name in ("a/b", "..", "ü %2F?#&", "__proto__", "<b>"):
        await lab.store.register_queue(QueuePolicy(name))
        await lab.enqueue(queue=name, tags=[name])
        client = browse(open_to_all(lab.store))
        page = await read(client, "/api/tasks", q=f'queue:"{name}" tag:"{name}"')
        assert [task["queue"] for task in page["tasks"]] == [name]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"authorize": "me"}, "authorize must be a function"),
        ({"redact": {}}, "redact must be a function"),
        ({"types": ["send"]}, "TaskType"),
        ({"title": ""}, "title"),
        ({"patience": 5}, "patience"),
    ],
)
def test_impossible_settings_are_refused(
    mem_lab: Lab, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        dashboard(mem_lab.store, **settings)


VIEW = Permission.VIEW
HTML = "text/html; charset=utf-8"
