"""Decides who may call the API at all.

On loopback, a page in somebody's browser could reach the API: with its own origin, or with a host name that it points
here (DNS rebinding). So the Host must be this machine's, and the Origin must be ours or an allowed one. On other
addresses every request needs the token.
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from adk_confirm.runtime.errors import ConfirmError, Forbidden

TOKEN_VARIABLE = "ADK_CONFIRM_API_TOKEN"  # noqa: S105  (its name, not its value)
OPEN_TO_PROBES = "/health"

_ORIGIN = re.compile(r"https?://[^/\s@?#*]+")


class Unauthorized(ConfirmError):
    """The request does not carry the token."""


SHORTEST = 16


class BadGuard(ConfirmError):
    """The API would not be safe with these settings; the message says what to change."""


@dataclass(frozen=True)
class Guard:
    """`host` is the address that the server listens on; `origins` are those of pages that may use the API."""

    host: str = "127.0.0.1"
    token: str | None = None
    origins: frozenset[str] = frozenset()

    @classmethod
    def of(cls, host: str, token: str | None, origins: Collection[str] = ()) -> Guard:
        """A guard for this address. Raises `BadGuard` if it would let in strangers, or an origin is not valid."""
        if not is_loopback(host) and not token:
            raise BadGuard(
                f"{host} can be reached from other machines, and whoever reaches the API decides. Set {TOKEN_VARIABLE} "
                "to a secret that every request must bear, or listen on 127.0.0.1."
            )
        if token and len(token) < SHORTEST:
            raise BadGuard(f"{TOKEN_VARIABLE} must have at least {SHORTEST} characters: openssl rand -hex 32")
        for origin in origins:
            if not _ORIGIN.fullmatch(origin):
                raise BadGuard(
                    f"{origin!r} is not an origin: give the page's address without its path, http://host:port."
                )
        return cls(host, token or None, frozenset(origin.lower() for origin in origins))

    def check(self, request: web.Request) -> None:
        """Lets the request in, or raises `Forbidden` or `Unauthorized`."""
        if is_loopback(self.host):
            self._check_host(request.headers.getall(hdrs.HOST, []))
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and not self.allows(origin) and origin.lower() != f"{request.scheme}://{request.host}":
            raise Forbidden(f"The origin {origin[:200]!r} may not use this API: start it with --allow-origin.")
        preflight = request.method == hdrs.METH_OPTIONS
        if self.token is not None and not preflight and request.path != OPEN_TO_PROBES:
            given = bearer_in(request.headers)
            if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode()):
                raise Unauthorized(f"Send the header 'Authorization: Bearer …' with the value of {TOKEN_VARIABLE}.")

    def allows(self, origin: str) -> bool:
        return origin.lower() in self.origins

    def _check_host(self, hosts: list[str]) -> None:
        if not hosts:
            return  # browsers always send it
        found = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(:\d{1,5})?", hosts[0])
        host = found[1].lower() if found else hosts[0]  # a malformed address matches nothing
        named = {urlsplit(origin).hostname for origin in self.origins}
        if len(hosts) > 1 or not (is_loopback(host) or host in named):
            raise Forbidden("This API answers to localhost only: the request's Host is another.")


@lru_cache(maxsize=256)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address or name."""
    bare = host.strip("[]").lower().rstrip(".")
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False


# Pages from other origins


def cors_headers(guard: Guard, request: web.Request) -> dict[str, str]:
    """The headers that let a page of an allowed origin read the answer."""
    origin = request.headers.get(hdrs.ORIGIN)
    if origin is None or not guard.allows(origin):
        return {}
    return {hdrs.ACCESS_CONTROL_ALLOW_ORIGIN: origin, hdrs.VARY: hdrs.ORIGIN}


def preflight(guard: Guard, request: web.Request) -> web.Response | None:
    """The answer to a browser's preflight request; None for all other requests."""
    asked = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_METHOD)
    if request.method != hdrs.METH_OPTIONS or asked is None or not (headers := cors_headers(guard, request)):
        return None
    headers[hdrs.ACCESS_CONTROL_ALLOW_METHODS] = "GET, POST, PATCH, PUT, DELETE"
    headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
    headers[hdrs.ACCESS_CONTROL_MAX_AGE] = "600"
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)


def bearer_in(headers: Mapping[str, str]) -> str:
    """The bearer token in a request's headers, in which case does not count; or nothing."""
    kind, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if kind.lower() == "bearer" else ""
