"""Connections between the parts: a wire to PostgreSQL that can be cut, and one door to several replicas."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp import web

from adk_confirm.runtime.rest.listening import listen

_CHUNK = 65_536
_SLACK_WAITS = 4.0
_PASSED_ON = ("Content-Type", "X-Slack-No-Retry")


class Wire:
    """A TCP port on loopback that forwards to PostgreSQL's own socket."""

    def __init__(self, socket: str) -> None:
        self._socket = socket
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_cut = False
        self._ends: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """Breaks every connection, and refuses new ones."""
        self._is_cut = True
        for end in tuple(self._ends):
            end.transport.abort()

    def stall(self) -> None:
        """Holds back all data without closing any connection."""
        self._flows.clear()

    def heal(self) -> None:
        self._is_cut = False
        self._flows.set()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        self.heal()
        self.cut()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await asyncio.sleep(0)  # the loop closes what was aborted

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(serving)
        serving.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            if self._is_cut:
                return
            server_reader, server_writer = await asyncio.open_unix_connection(self._socket)
            self._ends.add(server_writer)
            try:
                pumps = [
                    asyncio.create_task(self._pump(reader, server_writer)),
                    asyncio.create_task(self._pump(server_reader, writer)),
                ]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
                for pump in pumps:
                    pump.cancel()
            finally:
                self._ends.discard(server_writer)
                server_writer.transport.abort()
        except OSError:
            pass  # PostgreSQL is away: the replica sees a closed connection
        finally:
            self._ends.discard(writer)
            writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(_CHUNK):
                await self._flows.wait()
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def door(ports: Sequence[int]) -> AsyncIterator[str]:
    """The address to which Slack sends everything. Replicas take turns; one that refuses the connection is skipped."""
    turns = itertools.cycle(ports)
    # New connections each time: a balancer would close its connections to a replica that is gone.
    connector = aiohttp.TCPConnector(force_close=True, limit=0)

    async def passes(request: web.Request) -> web.Response:
        body = await request.read()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ("host", "connection")}
        for _ in ports:
            url = f"http://127.0.0.1:{next(turns)}{request.path_qs}"
            try:
                async with session.request(request.method, url, data=body, headers=headers) as answer:
                    kept = {name: answer.headers[name] for name in _PASSED_ON if name in answer.headers}
                    return web.Response(status=answer.status, body=await answer.read(), headers=kept)
            except aiohttp.ClientConnectorError:
                continue
            except (aiohttp.ClientError, TimeoutError):
                return web.Response(status=502)
        return web.Response(status=503)

    served = web.Application()
    served.router.add_route("*", "/{path:.*}", passes)
    runner = web.AppRunner(served, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    async with aiohttp.ClientSession(
        connector=connector, timeout=aiohttp.ClientTimeout(total=_SLACK_WAITS), auto_decompress=False
    ) as session:
        try:
            yield await listen(runner, "127.0.0.1", 0)
        finally:
            await runner.cleanup()
