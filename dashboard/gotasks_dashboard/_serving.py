"""From a request to an endpoint's handler, and from its answer to a response."""

from __future__ import annotations

import json
import logging
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from gotasks_dashboard._desk import Desk
from gotasks_dashboard._endpoints import Call, Endpoint, Model
from gotasks_dashboard._pages import base_of, is_of_page, is_opened, page, said
from gotasks_dashboard._permissions import Access
from gotasks_dashboard._problems import Problem, code_of, problem_of
from gotasks_dashboard._security import check_mutation
from gotasks_dashboard._values import dumped
from gotasks_py import GotasksError

logger = logging.getLogger("gotasks_dashboard")

M = TypeVar("M", bound=Model)

Serve: TypeAlias = Callable[[Request], Awaitable[Response]]

ACCESS: Final = "gotasks_dashboard.access"
"""The key of a request's scope that holds what it may do."""
JUDGE: Final = "gotasks_dashboard.judge"
"""That of what finds it out anew."""

NOT_KEPT: Final = {"Cache-Control": "no-store"}
_LARGEST_BODY: Final = 12 * 1024 * 1024
_AS_JSON_SAYS: Final = {
    "list_type": "an array is needed",
    "dict_type": "an object is needed",
    "model_type": "an object is needed",
}
"""What the kinds of values are called by those who send JSON."""


def server_of(endpoint: Endpoint, desk: Desk) -> Serve:
    """Make the function that serves an endpoint."""

    async def answered(request: Request) -> Response:
        access: Access = request.scope[ACCESS]
        if endpoint.method == "POST":
            check_mutation(request)
        access.demand(*endpoint.permissions)
        call = Call(
            access,
            _read(endpoint.query, _query_of(request)),
            _read(endpoint.body, await _body_of(request) if endpoint.method == "POST" else {}),
            request.path_params,
            base_of(request),
            request.scope[JUDGE],
        )
        answer = await endpoint.handle(desk, call)
        if isinstance(answer, StreamingResponse) and request.method == "HEAD":
            return Response(None, answer.status_code, answer.headers)
        if isinstance(answer, Response):
            return answer
        return Response(dumped(answer), endpoint.status, NOT_KEPT, "application/json")

    async def serve(request: Request) -> Response:
        try:
            return await answered(request)
        except Exception as error:  # noqa: BLE001  - told apart, and logged if it is no refusal
            return await refused(request, error)

    return serve


async def refused(request: Request, error: Exception) -> Response:
    """Answer with what went wrong: as a page to who opens an address for people."""
    problem = _problem(error)
    is_error = problem.status >= HTTPStatus.BAD_REQUEST
    if not (is_error and is_opened(request) and is_of_page(request)):
        response = problem.response()
    elif problem.status == HTTPStatus.NOT_FOUND and ACCESS in request.scope:
        response = await page(request, problem.status)
    else:
        response = said(problem)
    response.headers.setdefault("Cache-Control", "no-store")
    return response


def _problem(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case GotasksError():
            return problem_of(error)
        case HTTPException(status_code=status):
            return Problem(status, code_of(status), error.detail, headers=error.headers)
        case _:
            logger.error("a request failed", exc_info=error)
            return Problem(500, "internal", "something went wrong; the server's log has it")


def _query_of(request: Request) -> Mapping[str, str]:
    pairs = request.query_params.multi_items()
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Problem(400, "bad_request", "a parameter is given twice")
    return found


async def _body_of(request: Request) -> Mapping[str, Any]:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > _LARGEST_BODY:
            detail = f"more than {_LARGEST_BODY} bytes were sent"
            raise Problem(413, "payload_too_large", detail)
    try:
        body: object = json.loads(
            data,
            parse_constant=_no_constant,
            parse_float=_finite,
            object_pairs_hook=_named_once,
        )
    except (ValueError, RecursionError) as error:
        raise Problem(400, "bad_request", f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise Problem(400, "bad_request", "the body is a JSON object, {} at least")
    return body


def _named_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
        msg = f"the name {twice!r:.100} is given twice"
        raise ValueError(msg)
    return found


def _no_constant(name: str) -> object:
    msg = f"{name} is none; a payload says it as {{'$float': '{name}'}}"
    raise ValueError(msg)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        msg = f"{text:.40} is beyond what a number can be"
        raise ValueError(msg)
    return value


def _read(model: type[M], given: Mapping[str, Any]) -> M:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        listed = [
            {
                "path": ".".join(filter(None, (*map(str, each["loc"]), _path_in(each)))),
                "message": _AS_JSON_SAYS.get(each["type"], each["msg"]),
            }
            for each in error.errors(include_url=False, include_input=False)
        ]
        said = "; ".join(f"{each['path']}: {each['message']}" for each in listed[:5])
        raise Problem(400, "bad_request", said, errors=listed) from error


def _path_in(error: ErrorDetails) -> str:
    """Tell where in a value that is read as a whole something is wrong."""
    return str(error.get("ctx", {}).get("path", ""))
