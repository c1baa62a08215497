"""Connections that say nothing, or never finish what they say, cost no more than a limit."""

from __future__ import annotations

import asyncio
import resource
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from aiohttp import web

from adk_confirm.runtime.rest.listening import Patience, Served, body_of, listen
from tests.support.kill import child

MUCH = 20_000_000
"""Bytes: more than the kernel keeps for a client that does not read."""

PATIENCE = 60.0
"""Seconds. What is awaited here comes soon or never, but a busy machine may be slow."""

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
UNFINISHED = [
    b"",
    b"GET /health HTTP/1.1\r\nHost: lo",
    b"POST /read HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
]


@asynccontextmanager
async def site(patience: Patience, goes_on: asyncio.Event | None = None) -> AsyncIterator[str]:
    """Answers at /health, at length at /much, reads a body at /read, and at /slow answers when it may."""
    app = web.Application()

    async def health(_: web.Request) -> web.Response:
        return web.Response()

    async def much(_: web.Request) -> web.Response:
        return web.Response(body=bytes(MUCH))

    async def read(request: web.Request) -> web.Response:
        return web.Response(body=await body_of(request))

    async def slow(_: web.Request) -> web.Response:
        assert goes_on is not None
        await goes_on.wait()
        return web.Response()

    gets = {"/health": health, "/much": much, "/slow": slow}
    app.add_routes([*(web.get(path, answer) for path, answer in gets.items()), web.post("/read", read)])
    served = Served(app, shutdown_timeout=1.0, patience=patience)
    await served.setup()
    try:
        yield await listen(served, "127.0.0.1", 0)
    finally:
        await served.cleanup()


@asynccontextmanager
async def connections(url: str, *begun: bytes) -> AsyncIterator[Sequence[Connection]]:
    """One for each, which has sent this."""
    async with AsyncExitStack() as stack:
        opened = []
        for said in begun:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rpartition(":")[2]))
            stack.callback(writer.close)
            writer.write(said)
            opened.append((reader, writer))
        yield opened


async def status(connection: Connection) -> int:
    reader, _ = connection
    async with asyncio.timeout(PATIENCE):
        head = await reader.readuntil(b"\r\n\r\n")
    return int(head.split()[1])


async def is_closed(connection: Connection) -> bool:
    async with asyncio.timeout(PATIENCE):
        with suppress(ConnectionResetError):
            return await connection[0].read() == b""
    return True


@pytest.mark.parametrize("begun", UNFINISHED[:2])
async def test_a_head_that_does_not_come_is_not_waited_for(begun: bytes) -> None:
    async with site(Patience(head=0.1)) as url, connections(url, begun) as (one,):
        assert await is_closed(one)


async def test_a_connection_that_is_not_used_again_ends() -> None:
    for more in (b"", b"GET /hea"):
        async with site(Patience(idle=0.1)) as url, connections(url, HEALTH + more) as (one,):
            assert await status(one) == 200
            assert await is_closed(one)


async def test_where_too_many_wait_for_their_clients_the_first_ends_and_no_request_at_work() -> None:
    goes_on = asyncio.Event()
    slow = HEALTH.replace(b"health", b"slow")
    async with (
        site(Patience(waiting=6), goes_on) as url,
        connections(url, slow, *UNFINISHED * 10) as (at_work, *others),
    ):
        async with connections(url, HEALTH) as (probe,):
            assert await status(probe) == 200
        assert all([await is_closed(one) for one in others[:24]])
        others[-1][1].write(b"12345678")
        assert await status(others[-1]) == 200
        goes_on.set()
        assert await status(at_work) == 200


async def test_where_too_many_do_not_read_their_answers_the_first_ends() -> None:
    """Also one that closes on our side only once its client has read."""
    asks = HEALTH.replace(b"health", b"much")
    async with site(Patience(idle=0.1, waiting=3)) as url, connections(url, *[asks] * 4) as (one, *_):
        async with connections(url, HEALTH) as (probe,):
            assert await status(probe) == 200
        with suppress(ConnectionResetError):
            assert len(await one[0].read()) < MUCH


async def serves_with_few_files() -> None:
    """Runs in the child."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (160, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    async with site(Patience()) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


async def test_strangers_leave_files_to_open() -> None:
    """More sockets than the process may have open, and a probe is answered."""
    async with child(serves_with_few_files) as process:
        (url,) = await process.next_lines(1)
        async with connections(url, *UNFINISHED * 70), connections(url, HEALTH) as (probe,):
            assert await status(probe) == 200
