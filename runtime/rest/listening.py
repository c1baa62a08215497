"""Starts a server, or says in a sentence why it can't.

Compressed bodies are refused: they can be far larger than what was sent, or not be compressed data at all. A body that
does not arrive in time is refused too, since a stranger could keep a connection open for ever.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

from aiohttp import hdrs, web

from runtime.errors import ConfirmError


class CannotServe(ConfirmError):
    """The server did not start; the message says why."""


BODY_WITHIN = 10.0
"""Seconds in which a body must arrive."""

NOT_ENCODED = "The body has a Content-Encoding: send it as it is, uncompressed."


def server_for(site: web.Application, *, shutdown_timeout: float) -> web.AppRunner:
    """A runner for the site that never decompresses request bodies."""
    return web.AppRunner(site, access_log=None, shutdown_timeout=shutdown_timeout, auto_decompress=False)


def is_encoded(request: web.Request) -> bool:
    """Whether the body is encoded (compressed, for example)."""
    return any(
        value.strip().lower() not in ("", "identity") for value in request.headers.getall(hdrs.CONTENT_ENCODING, ())
    )


async def body_of(request: web.Request) -> bytes:
    """The body, up to the site's `client_max_size`. Read every body with this."""
    try:
        async with asyncio.timeout(BODY_WITHIN):
            return await request.read()
    except TimeoutError as error:
        raise web.HTTPRequestTimeout(reason=f"The body did not arrive within {BODY_WITHIN:g} seconds") from error


def headers_of(request: web.Request) -> dict[str, str | Sequence[str]]:
    """All headers, each name with all of its values."""
    return {name: request.headers.getall(name) for name in set(request.headers)}


async def listen(served: web.AppRunner, host: str, port: int) -> str:
    """Starts listening, and returns the address. Port 0 means any free port."""
    try:
        await web.TCPSite(served, host, port).start()
    except OSError as error:
        raise CannotServe(_explain(error, host, port)) from error
    taken: int = served.addresses[0][1]
    return f"http://{f'[{host}]' if ':' in host else host}:{taken}"


def _explain(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program: stop that one, or choose another with --port."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs more rights than this user has: choose one above 1023 with --port."
    return f"{host} is not an address of this machine, or cannot be listened on: {error.strerror or error}."
