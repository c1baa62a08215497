"""The wire that can be cut, and the door that skips replicas that are down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from bench.chaos.wires import Wire

BROKEN = (ConnectionError, asyncio.IncompleteReadError)


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    """To a server that sends back what it gets."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(100):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(echo, tmp_path / "socket")
    opened = Wire(str(tmp_path / "socket"))
    await opened.open()
    yield opened
    await opened.close()
    server.close()


@asynccontextmanager
async def connected(wire: Wire) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", wire.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def is_answered(wire: Wire) -> None:
    async with connected(wire) as (reader, writer):
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"


async def test_a_wire_that_is_cut_breaks_what_is_open_and_takes_nothing_new(wire: Wire) -> None:
    async with connected(wire) as (reader, writer):
        writer.write(b"hello")
        await reader.readexactly(5)

        wire.cut()

        with pytest.raises(BROKEN):
            await reader.readexactly(1)
    async with connected(wire) as (reader, _):
        with pytest.raises(BROKEN):
            await reader.readexactly(1)
    wire.heal()
    await is_answered(wire)


async def test_a_wire_that_is_stalled_delivers_later(wire: Wire) -> None:
    async with connected(wire) as (reader, writer):
        wire.stall()
        writer.write(b"hello")
        answer = asyncio.create_task(reader.readexactly(5))
        done, _ = await asyncio.wait({answer}, timeout=0.1)
        assert not done

        wire.heal()

        assert await answer == b"hello"
