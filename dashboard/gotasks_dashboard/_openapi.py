"""The OpenAPI document, made of what the routes declare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NotRequired

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode
from typing_extensions import TypedDict

from gotasks_dashboard._endpoints import Endpoint, Model, Nothing
from gotasks_dashboard._problems import MEDIA_TYPE


class FieldProblem(TypedDict):
    """What is wrong with a field, or with a part of a search."""

    path: str
    message: str
    at: NotRequired[int]
    length: NotRequired[int]


class ProblemView(TypedDict):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    errors: NotRequired[Sequence[FieldProblem]]


_JSON: Final = "application/json"
_TEMPLATE: Final = "#/components/schemas/{model}"
_READ: Final = (400, 403, 404, 405, 500, 501, 502, 503)
_WRITTEN: Final = (*_READ, 409, 413, 415, 422)
_OWN_HEADER: Final[Mapping[str, object]] = {
    "name": "X-Gotasks",
    "in": "header",
    "required": True,
    "schema": {"const": "1", "type": "string"},
    "description": "No page of another site can send it. A mutation also has Sec-Fetch-Site: "
    "same-origin, or an Origin of the same host.",
}


def document_of(
    endpoints: Sequence[Endpoint], *, title: str, version: str, base: str
) -> Mapping[str, object]:
    """Describe the API below a path."""
    paths, schemas = _described(tuple(endpoints))
    return {
        "openapi": "3.1.0",
        "info": {"title": title, "version": version or "0"},
        "servers": [{"url": base.rstrip("/") or "/"}],
        "paths": paths,
        "components": {"schemas": schemas},
    }


@cache
def _described(
    endpoints: tuple[Endpoint, ...],
) -> tuple[Mapping[str, Mapping[str, object]], Mapping[str, object]]:
    inputs: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("problem", "serialization", TypeAdapter(ProblemView))
    ]
    for each in endpoints:
        if each.media_type == _JSON:
            inputs.append(((each, "answer"), "serialization", TypeAdapter(each.answer)))
        if each.method == "POST":
            inputs.append(((each, "body"), "validation", TypeAdapter(each.body)))
    found, definitions = TypeAdapter.json_schemas(inputs, ref_template=_TEMPLATE)
    schemas = {key: value for (key, _), value in found.items()}
    paths: dict[str, dict[str, object]] = {}
    for each in endpoints:
        operations = paths.setdefault(f"/api/{each.path}", {})
        operations[each.method.lower()] = _operation(each, schemas)
    components = definitions.get("$defs", {})
    return paths, components


def _operation(endpoint: Endpoint, schemas: Mapping[Any, object]) -> Mapping[str, object]:
    operation: dict[str, object] = {
        "operationId": f"{endpoint.method.lower()}_{re.sub(r'[^a-z]+', '_', endpoint.path)}",
        "summary": endpoint.summary,
        "description": f"Takes the permission {' or '.join(endpoint.permissions)}.",
        "parameters": list(_parameters(endpoint)),
        "responses": dict(_responses(endpoint, schemas)),
    }
    if endpoint.method == "POST":
        content = {_JSON: {"schema": schemas[endpoint, "body"]}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _parameters(endpoint: Endpoint) -> Sequence[Mapping[str, object]]:
    named = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", endpoint.path)
    ]
    own = [_OWN_HEADER] if endpoint.method == "POST" else []
    return [*named, *own, *_asked(endpoint.query)]


def _asked(query: type[Model]) -> Sequence[Mapping[str, object]]:
    if query is Nothing:
        return []
    schema = query.model_json_schema()
    required = schema.get("required", [])
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": {key: value for key, value in shape.items() if key != "description"},
            "description": shape.get("description", ""),
        }
        for name, shape in schema.get("properties", {}).items()
    ]


def _responses(
    endpoint: Endpoint, schemas: Mapping[Any, object]
) -> Sequence[tuple[str, Mapping[str, object]]]:
    answer = schemas.get((endpoint, "answer"), {"type": "string"})
    refused = _READ if endpoint.method == "GET" else _WRITTEN
    return [
        (
            str(endpoint.status),
            {
                "description": endpoint.summary,
                "content": {endpoint.media_type: {"schema": answer}},
            },
        ),
        *(
            (
                str(status),
                {
                    "description": HTTPStatus(status).phrase,
                    "content": {MEDIA_TYPE: {"schema": schemas["problem"]}},
                },
            )
            for status in sorted({*refused, *endpoint.refusals})
        ),
    ]
