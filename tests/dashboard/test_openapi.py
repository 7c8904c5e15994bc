"""What the API answers is what its document says, whatever is asked."""

from __future__ import annotations

import re
from typing import Any

import anyio
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from pydantic import BaseModel
from schemathesis.specs.openapi.checks import positive_data_acceptance

from gotasks_dashboard._table import ENDPOINTS
from gotasks_memstore import MemStore
from gotasks_py import Manager, QueuePolicy, TaskPolicy
from tests.dashboard.conftest import Browse, open_to_all, read

pytestmark = pytest.mark.anyio


class Email(BaseModel):
    to: str


async def filled() -> Manager:
    manager = Manager(MemStore(), queues=[QueuePolicy("q"), QueuePolicy("a/b")])

    @manager.handler("q", "send")
    async def _(payload: Email) -> None: ...

    for number in range(5):
        await manager.enqueue("q", "send", Email(to="x"), TaskPolicy(tags=[f"t{number}"]))
    return manager


APP = open_to_all(anyio.run(filled, backend="asyncio"))
schema: Any = schemathesis.openapi.from_asgi("/api/openapi.json", APP)


@schema.exclude(path="/api/events").parametrize()  # type: ignore[untyped-decorator]
@settings(
    max_examples=6,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_whatever_is_asked_the_answer_is_as_described(case: Any) -> None:
    response = case.call(headers={"Sec-Fetch-Site": "same-origin"})
    # That a text is no search, or no cursor, cannot be said by a schema.
    case.validate_response(response, excluded_checks=[positive_data_acceptance])


async def test_the_document_describes_every_route(browse: Browse) -> None:
    document = await read(browse(APP), "/api/openapi.json")
    assert document["openapi"].startswith("3.1")
    described = {
        (method.upper(), path)
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert described == {(each.method, f"/api/{each.path}") for each in ENDPOINTS}
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(set(names)) == len(names)


async def test_the_document_tells_bounds_and_what_belongs_together(browse: Browse) -> None:
    schemas = (await read(browse(APP), "/api/openapi.json"))["components"]["schemas"]
    changes = schemas["ChangesBody"]
    assert changes["minProperties"] == 1
    assert changes["properties"]["weight"]["minimum"] == 1
    assert schemas["TaskPolicyBody"]["properties"]["priority"]["maximum"] == 2**31 - 1
    assert [each["required"] for each in schemas["JobBody"]["oneOf"]] == [
        ["ids"],
        ["query"],
        ["query", "everything"],
    ]


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("", True),
        ('queue:q status:dead,pending tag:"week 1" payload.user.id:42', True),
        ("error:timeout after:2h before:now 65f1c0ffee65f1c0ffee0123", True),
        ("after:2026-01-31T12:00Z", True),
        ("boom", False),
        ('queue:""', False),
        ("status:broken", False),
    ],
)
async def test_the_document_says_what_a_search_is(browse: Browse, text: str, *, fits: bool) -> None:
    paths = (await read(browse(APP), "/api/openapi.json"))["paths"]
    (search,) = (each for each in paths["/api/tasks"]["get"]["parameters"] if each["name"] == "q")
    assert bool(re.search(search["schema"]["pattern"], text)) is fits
