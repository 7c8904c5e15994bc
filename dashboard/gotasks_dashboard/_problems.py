"""Errors as ``application/problem+json``: RFC 9457."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.responses import Response

from gotasks_dashboard._values import dumped
from gotasks_py import (
    ConfigurationError,
    DuplicateTaskError,
    GotasksError,
    InvalidStateError,
    PayloadError,
    PayloadTooLargeError,
    StoreError,
    StoreUnavailableError,
    TaskNotFoundError,
    UnknownQueueError,
)

MEDIA_TYPE: Final = "application/problem+json"
_RETRY: Final = {"Retry-After": "2"}


class Problem(Exception):  # noqa: N818  - the name of what is sent
    """What went wrong with a request, as it is sent."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.headers = headers
        self.more = more

    @property
    def body(self) -> dict[str, object]:
        """What is sent."""
        return {
            "type": "about:blank",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            "detail": str(self),
            **self.more,
        }

    def response(self) -> Response:
        """Make the answer to a request."""
        return Response(dumped(self.body), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: GotasksError) -> Problem:
    """Tell what an error of the library is to whoever sent the request."""
    said = str(error)
    match error:
        case TaskNotFoundError():
            return Problem(404, "task_not_found", said)
        case PayloadTooLargeError():
            return Problem(413, "payload_too_large", said)
        case PayloadError():
            listed = [{"path": path, "message": message} for path, message in error.problems]
            return Problem(422, "bad_payload", said, errors=listed)
        case DuplicateTaskError(existing_id=holder):
            existing = None if holder is None else str(holder)
            # Not in the words of the error: these name the key, which may be redacted.
            detail = f"an active task holds this unique key already: {existing}"
            return Problem(409, "duplicate", detail, existing_id=existing)
        case InvalidStateError(status=status):
            return Problem(409, "invalid_state", said, state=status.value)
        case _:
            return _problem_with_store(error, said)


def _problem_with_store(error: GotasksError, said: str) -> Problem:
    match error:
        case UnknownQueueError():
            return Problem(404, "unknown_queue", f"no queue {error.queue!r} is recorded")
        case ConfigurationError():
            return Problem(400, "bad_request", said)
        case StoreUnavailableError():
            return Problem(503, "store_unavailable", said, headers=_RETRY)
        case StoreError():
            return Problem(502, "store_refused", said)
        case _:
            return Problem(500, "internal", said)


def code_of(status: int) -> str:
    """Tell the code of what the framework itself refuses."""
    known = {404: "not_found", 405: "method_not_allowed", 413: "payload_too_large"}
    return known.get(status, "refused" if status < HTTPStatus.INTERNAL_SERVER_ERROR else "internal")
