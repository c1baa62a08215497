"""A hostile or broken ADK server: everything that it sends is read within limits, and ends in a sentence."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from adk_confirm.bot.confirmation.model import SessionKey
from adk_confirm.bot.hosts.host import DeliveryUnknown, HostFailed, RefusedByHost, Unreachable
from adk_confirm.bot.hosts.remote import DEEPEST, RemoteServer
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import Content
from tests.support.foreign.ear import Ear, Handler, listening, saying

HELLO = Content.of_text("hello")
OURS = SessionKey("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")
SESSION = f"/apps/{OURS.app}/users/{OURS.user}/sessions/{OURS.id}"
EVENT = json.dumps({"id": "1", "author": "clerk", "content": {"parts": [{"text": "Hello."}]}})
DEEP = "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)
DEEPER = "[" * 1_000_000
MEGABYTE = b"x" * (1 << 20)


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    async with listening(Ear()) as opened:
        yield opened


async def runs(server: RemoteServer, heard: list[JsonObject] | None = None) -> None:
    """What it heard until it failed is in the list."""
    try:
        async for event in server.run(OURS, HELLO, {}):
            if heard is not None:
                heard.append(event)
    finally:
        await server.close()


def endless(first: bytes, again: bytes, status: int = 200, **headers: str) -> Handler:
    """It sends until nobody listens any more."""

    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(status=status, headers={"Content-Type": "text/event-stream", **headers})
        await stream.prepare(request)
        await stream.write(first)
        while True:
            await stream.write(again)

    return answer


def without_streams(handler: Handler) -> dict[str, Handler]:
    return {"/run_sse": saying("", 404), "/run": handler}


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (endless(b"data: ", MEGABYTE), "a line of more than 8 MB"),
        (endless(b"", b"data: " + MEGABYTE + b"\n"), "an event of more than 8 MB"),
        (endless(b"", b": " + MEGABYTE + b"\n"), "more than 128 MB in one run"),
    ],
    ids=["a line", "an event", "a stream"],
)
async def test_a_stream_without_end_is_left(ear: Ear, handler: Handler, said: str) -> None:
    ear.instead["/run_sse"] = handler
    with pytest.raises(DeliveryUnknown, match=said):
        await runs(ear.server())


async def test_a_body_without_end_is_left(ear: Ear) -> None:
    ear.instead[SESSION] = endless(b"[", b" " * (1 << 20))
    server = ear.server()
    with pytest.raises(Unreachable, match="more than 32 MB at once"):
        await server.events(OURS)
    await server.close()
    ear.instead |= without_streams(endless(b"[", b" " * (1 << 20)))
    ear.instead.pop(SESSION)
    server = ear.server()
    await server.create(OURS)
    with pytest.raises(DeliveryUnknown, match="more than 32 MB at once"):
        await runs(server)


@pytest.mark.parametrize(("status", "error"), [(500, HostFailed), (422, RefusedByHost), (429, Unreachable)])
async def test_a_refusal_without_end_is_a_refusal(ear: Ear, status: int, error: type[Exception]) -> None:
    ear.instead["/run_sse"] = endless(b"no", MEGABYTE, status)
    with pytest.raises(error, match="more than 1 MB at once"):
        await runs(ear.server())


@pytest.mark.parametrize("deep", [DEEP, DEEPER], ids=["deep", "deeper than Python goes"])
async def test_deep_json_is_a_refusal(ear: Ear, deep: str) -> None:
    ear.instead["/run_sse"] = saying(f"data: {EVENT}\n\ndata: {deep}\n\ndata: {EVENT}\n\n")
    server = ear.server()
    heard: list[JsonObject] = []
    with pytest.raises(DeliveryUnknown, match="more than 100 levels"):
        await runs(server, heard)
    assert len(heard) == 2, "it is read to its end: hanging up would cancel what still runs"

    server = ear.server()
    for path, ask in (("/list-apps", server.about), (SESSION, lambda: server.events(OURS))):
        ear.instead[path] = saying(deep)
        with pytest.raises(Unreachable, match="more than 100 levels"):
            await ask()
    ear.instead["/run_sse"] = saying(deep, 422)
    with pytest.raises(RefusedByHost, match="more than 100 levels"):
        await runs(server)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_nothing_is_unpacked(ear: Ear, encoding: str) -> None:
    """A gigabyte of blanks fits into a megabyte."""
    packed = gzip.compress(b" " * (1 << 26))
    headers = {"Content-Encoding": encoding}
    ear.instead |= {"/run_sse": saying(packed, headers=headers), SESSION: saying(packed, headers=headers)}
    server = ear.server()
    with pytest.raises(Unreachable, match=f"Content-Encoding '{encoding}', although it was asked not to"):
        await server.events(OURS)
    with pytest.raises(DeliveryUnknown, match="although it was asked not to"):
        await runs(server)
    assert {one.headers.get("Accept-Encoding") for one in ear.asked} == {"identity"}


async def test_bytes_are_utf_8_whatever_it_says(ear: Ear) -> None:
    """Its charset would choose the decoder, and punycode takes a minute for three megabytes."""
    body = json.dumps({"id": OURS.id, "events": [json.loads(EVENT)], "pad": "a" * 3_000_000}).encode()
    ear.instead[SESSION] = saying(body, headers={"Content-Type": "application/json; charset=punycode"})
    server = ear.server()
    assert await server.events(OURS) == [json.loads(EVENT)]
    await server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(ear: Ear, status: int) -> None:
    """Where it leads is nobody that the message, or a token in the headers, was meant for."""
    async with listening(Ear()) as other:
        away = {"Location": f"{other.url}/run_sse"}
        ear.instead |= {"/run_sse": saying("", status, away), "/list-apps": saying("", status, away)}
        ear.instead[SESSION] = saying("", status, away)
        server = ear.server()
        asked: list[Callable[[], Awaitable[object]]] = [server.about, lambda: server.events(OURS)]
        for ask in asked:
            with pytest.raises(Unreachable, match=r"set \[agent\] url to where its API is"):
                await ask()
        with pytest.raises(DeliveryUnknown if status == 303 else Unreachable):
            await runs(server)
        assert other.asked == []
