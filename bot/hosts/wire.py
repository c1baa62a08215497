"""Reads what an ADK server sends, within limits: bytes, lines, server-sent events, JSON.

The server may be hostile. It can't choose how its bytes are decoded or how many of them are kept, and JSON that is
nested too deep is refused with a sentence.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
from aiohttp import hdrs

from adk_confirm.runtime.jsontypes import Json, is_deeper

MOST_BODY = 32 * 1024 * 1024
"""The largest body: a session comes as one body, with everything that was ever said in it."""

MOST_EVENT = 8 * 1024 * 1024
"""The largest event or line of a stream."""

MOST_STREAM = 128 * 1024 * 1024
DEEPEST = 100

SSE_FIELDS = ("", "id", "retry")


class Unreadable(Exception):
    """The server sent something that can't be read. The message says what."""


async def body_of(response: aiohttp.ClientResponse, most: int = MOST_BODY) -> str:
    """Raises `Unreadable`."""
    parts, size = list[bytes](), 0
    async for chunk in _chunks(response):
        parts.append(chunk)
        size += len(chunk)
        if size > most:
            raise Unreadable(f"it sent more than {most >> 20} MB at once")
    return b"".join(parts).decode("utf-8", "replace")


async def messages(response: aiohttp.ClientResponse) -> AsyncIterator[tuple[str, str]]:
    """The server-sent events of a stream: the kind of each, and its data. Raises `Unreadable`."""
    kind, data, size = "", list[str](), 0
    async for raw in _lines(response):
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        name, colon, value = line.partition(":")
        if name == "event":
            kind = value.strip()
        elif name == "data":
            data.append(value.removeprefix(" "))
            size += len(raw)
            if size > MOST_EVENT:
                raise Unreadable(f"it sent an event of more than {MOST_EVENT >> 20} MB")
        elif not line:
            if any(data):  # ignore messages without data: adk-rs ends its streams with `event: done`
                yield kind, "\n".join(data)
            kind, data, size = "", [], 0
        elif not colon or name not in SSE_FIELDS:
            yield "error", line  # plain text in the stream: early versions of ADK Go report errors like this
    if any(data):
        yield kind, "\n".join(data)


async def _lines(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    begun, size, total = list[bytes](), 0, 0
    async for chunk in _chunks(response):
        total += len(chunk)
        *whole, rest = chunk.split(b"\n")
        for end in whole:
            yield b"".join([*begun, end])
            begun, size = [], 0
        begun.append(rest)
        size += len(rest)
        if size > MOST_EVENT:
            raise Unreadable(f"it sent a line of more than {MOST_EVENT >> 20} MB")
        if total > MOST_STREAM:
            raise Unreadable(f"it sent more than {MOST_STREAM >> 20} MB in one run")
    if any(begun):
        yield b"".join(begun)


async def _chunks(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The bytes as they come. Nothing is decompressed: compression was not asked for, and it could be a bomb."""
    encoding = response.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower()
    if encoding not in ("", "identity"):
        raise Unreadable(f"it answers with Content-Encoding {encoding[:40]!r}, although it was asked not to")
    async for chunk in response.content.iter_any():
        yield chunk
        await asyncio.sleep(0)  # let other tasks run, however fast the server sends


def json_or_text(text: str) -> Json:
    """Raises `Unreadable` for JSON that is nested too deep."""
    try:
        value: Json = json.loads(text)
    except ValueError:
        return text
    except RecursionError as error:
        raise Unreadable(_TOO_DEEP) from error
    if is_deeper(value, DEEPEST):
        raise Unreadable(_TOO_DEEP)
    return value


_TOO_DEEP = f"it sent JSON of more than {DEEPEST} levels"
