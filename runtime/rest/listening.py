"""Starts a server, or says in a sentence why it can't.

Anybody may connect. So compressed bodies are refused: they can be far larger than what was sent, or not be compressed
data at all. A connection whose request does not arrive in time is ended. Of the connections that wait for their
clients, only so many are kept that the process can always open files, and that a probe is always answered.
"""

from __future__ import annotations

import asyncio
import errno
import resource
from collections.abc import Sequence
from dataclasses import dataclass

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler

from adk_confirm.runtime.errors import ConfirmError


class CannotServe(ConfirmError):
    """The server did not start; the message says why."""


BODY_WITHIN = 10.0
"""Seconds in which a body must arrive."""

NOT_ENCODED = "The body has a Content-Encoding: send it as it is, uncompressed."


@dataclass(frozen=True)
class Patience:
    """How long a connection may wait for its client, in seconds, and how many may at once."""

    head: float = 10.0  # for the first request
    idle: float = 75.0  # after a request; longer than proxies keep a connection that they don't use
    waiting: int | None = None  # None: a quarter of the files that the process may open, and 1,000 at most


class Served(web.AppRunner):
    """Serves a site. Every server of ours is one of these."""

    def __init__(self, site: web.Application, *, shutdown_timeout: float, patience: Patience = Patience()) -> None:
        super().__init__(site, shutdown_timeout=shutdown_timeout)
        self._patience = patience

    async def _make_server(self) -> web.Server:
        made = await super()._make_server()
        return _Server(made, self._patience)


class _Server(web.Server):
    """Never decompresses a body, and ends connections that wait for their clients too long, or are too many."""

    def __init__(self, site: web.Server, patience: Patience) -> None:
        super().__init__(
            self._answer,
            request_factory=site.request_factory,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=patience.idle,
        )
        self._site = site.request_handler
        self._head_within = patience.head
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._most = patience.waiting or (min(1000, files // 4) if files > 0 else 1000)  # -1: no limit
        self._open: dict[RequestHandler, asyncio.Transport] = {}
        self._silent: dict[RequestHandler, asyncio.TimerHandle] = {}
        self._asked: dict[RequestHandler, web.BaseRequest] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        self._open[handler] = transport
        self._silent[handler] = self._loop.call_later(self._head_within, self._end, handler)
        if len(self._open) > self._most:
            waiting = [one for one in self._open if self._waits(one)]
            for one in waiting[: -self._most]:
                self._end(one)

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        self._is_heard(handler)
        self._open.pop(handler, None)
        super().connection_lost(handler, exc)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._is_heard(request.protocol)
        self._asked[request.protocol] = request
        try:
            return await self._site(request)
        finally:
            del self._asked[request.protocol]

    def _waits(self, handler: RequestHandler) -> bool:
        """Whether its client has not sent a whole request, or does not read what it is sent."""
        asked = self._asked.get(handler)
        return asked is None or not asked.content.is_eof() or self._open[handler].get_write_buffer_size() > 0

    def _end(self, handler: RequestHandler) -> None:
        """Ends the connection without waiting for a client that does not read."""
        handler.force_close()
        self._open[handler].abort()

    def _is_heard(self, handler: RequestHandler) -> None:
        if timer := self._silent.pop(handler, None):
            timer.cancel()


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


async def listen(served: web.AppRunner, host: str, port: int, setting: str = "--port") -> str:
    """Starts listening, and returns the address. Port 0 means any free port. `setting` is where people choose it."""
    try:
        await web.TCPSite(served, host, port).start()
    except OSError as error:
        raise CannotServe(why_not_listening(error, host, port, setting)) from error
    taken: int = served.addresses[0][1]
    return f"http://{f'[{host}]' if ':' in host else host}:{taken}"


def why_not_listening(error: OSError, host: str, port: int, setting: str = "--port") -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is taken by another program: stop that one, or choose another with {setting}."
    if error.errno == errno.EACCES:
        return f"Port {port} on {host} needs more rights than this user has: choose one above 1023 with {setting}."
    return f"{host} is not an address of this machine, or cannot be listened on: {error.strerror or error}."
