"""Protects the page: only this machine's browser may use it, and only from the page itself.

Whoever reaches the page can act as anybody. So a request must name a loopback host; a foreign name that points to
127.0.0.1 is refused. If a browser says which page a request comes from, that page must be ours.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_LOOPBACK = ("127.0.0.1", "localhost", "::1")

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def guarded(handler: Handler) -> Handler:
    async def safe(request: web.Request) -> web.StreamResponse:
        sentence = refusal(request)
        response = web.json_response({"error": sentence}, status=403) if sentence else await handler(request)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    return safe


def refusal(request: web.Request) -> str:
    """Why this request is refused; empty if it is not."""
    if urlsplit(f"//{request.host}").hostname not in _LOOPBACK:
        return f"The sandbox answers on 127.0.0.1 and localhost only, not as {request.host}."
    origin = request.headers.get("Origin")
    if origin is not None and origin != f"http://{request.host}":
        return f"The sandbox is driven by its own page only, not by {origin}."
    if request.method == "POST" and request.content_type != "application/json":
        return "The sandbox's page sends JSON."
    return ""
