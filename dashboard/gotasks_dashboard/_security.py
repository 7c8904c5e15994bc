"""What keeps other sites out: headers on every answer, and what a mutation has to bring."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.requests import Request

from gotasks_dashboard._problems import Problem

OWN_HEADER: Final = "x-gotasks"

_CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'self'; "
    "form-action 'none'; frame-ancestors 'none'"
)

HEADERS: Final = (
    (b"content-security-policy", _CSP.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


def check_mutation(request: Request) -> None:
    """Refuse a mutation that a page of another site could have sent.

    Raises:
        Problem: 403, or 415 for what is no JSON.
    """
    if request.headers.get(OWN_HEADER) != "1":
        raise Problem(403, "cross_site", "a mutation carries the header X-Gotasks: 1")
    if not _is_own_site(request):
        detail = (
            "a mutation comes from the dashboard's own origin: Sec-Fetch-Site or Origin says so"
        )
        raise Problem(403, "cross_site", detail)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        detail = "a mutation is sent as application/json"
        raise Problem(415, "unsupported_media_type", detail)


def _is_own_site(request: Request) -> bool:
    # Browsers let no page set this one, and proxies that rewrite the host keep it.
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin")
    host = request.headers.get("host")
    if origin is None or host is None:
        return False
    try:
        own = urlsplit(origin)
    except ValueError:
        return False
    return own.netloc.lower() == host.lower() and own.scheme == _scheme_of(request)


def _scheme_of(request: Request) -> str:
    """Tell by which scheme the browser sent it: a proxy that ends TLS passes it on."""
    # No page of another site can add this header to what it sends here.
    passed_on = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    return passed_on or request.url.scheme
