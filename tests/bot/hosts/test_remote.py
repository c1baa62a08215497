"""Requests to an ADK server, and how its answers are read. The server is a replay that records its requests."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import (
    SENT_WITHIN,
    DeliveryUnknown,
    HostError,
    HostFailed,
    RefusedByHost,
    Unreachable,
    UserWords,
)
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.hosts.plugin import BROKEN, DENIALS, EDITS, PORT, TOGETHER
from adk_confirm.bot.hosts.remote import DEEPEST, LONGEST_PAUSE, NO_ADK, NO_MARKS, RemoteServer
from adk_confirm.runtime.adk.signing import MARK
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.wire import Content, SessionId
from tests.support.foreign.ear import Ear, Handler, listening, saying
from tests.support.foreign.visit import Visit, texts

HELLO = Content.of_text("hello")
OURS = SessionId("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))


@pytest.fixture
async def store(sqlite_url: str) -> AsyncIterator[Database]:
    opened = await Database.open(sqlite_url)
    yield opened
    await opened.close()


@pytest.fixture
async def ear() -> AsyncIterator[Ear]:
    async with listening(Ear()) as opened:
        yield opened


@pytest.fixture
async def server(ear: Ear) -> AsyncIterator[RemoteServer]:
    opened = ear.server()
    yield opened
    await opened.close()


@pytest.fixture
async def host(ear: Ear) -> AsyncIterator[AdkHost]:
    opened = ear.host()
    yield opened
    await opened.close()


async def hears(server: RemoteServer) -> tuple[list[JsonObject], ConfirmError | None]:
    """Says hello: what was heard, and why no more."""
    heard: list[JsonObject] = []
    try:
        async for event in server.run(OURS, HELLO, {}):
            heard.append(event)  # noqa: PERF401  (what came before a failure counts)
    except ConfirmError as error:
        return heard, error
    return heard, None


# Out


@pytest.mark.parametrize("status", [404, 500])
async def test_a_server_that_describes_nothing_gets_the_plain_form(ear: Ear, host: AdkHost, status: int) -> None:
    ear.undescribed = status
    visit = Visit(host, OURS)
    request = await visit.asks("please deploy search")
    assert set(ear.sent()) == {"appName", "userId", "sessionId", "newMessage", "streaming"}
    await visit.approve(request)
    assert set(ear.sent()) == {"appName", "userId", "sessionId", "newMessage", "streaming"}
    assert (ear.sent()["userId"], ear.sent()["sessionId"]) == (OURS.user_id, OURS.id)  # whoever clicked
    assert len(ear.at("/openapi.json")) == 1  # found out once


async def test_marks_go_where_they_are_known() -> None:
    async with listening(Ear(describes=("customMetadata", "invocationId"))) as ear:
        host = ear.host()
        visit = Visit(host, OURS)
        request = await visit.asks("please deploy search", mark="m1")
        assert ear.sent()["customMetadata"] == {MARK: "m1"}
        await visit.approve(request)
        assert "invocationId" not in ear.sent(), "every server finds it by the answer's id"
        await host.close()


async def test_headers_and_the_token_go_with_everything(
    ear: Ear, monkeypatch: pytest.MonkeyPatch, store: Database
) -> None:
    monkeypatch.setenv("ADK_TOKEN", "s3cret\n")  # as from a file
    agent = AgentSettings(url=ear.url, app="clerk", headers={"X-Team": "ops"}, token_env="ADK_TOKEN")
    host = await open_host(agent, store)
    await Visit(host, OURS).say("hello")
    await host.close()
    assert ear.asked
    for one in ear.asked:
        assert (one.headers["Authorization"], one.headers["X-Team"]) == ("Bearer s3cret", "ops")


async def test_a_token_that_is_not_there_is_reported(monkeypatch: pytest.MonkeyPatch, store: Database) -> None:
    monkeypatch.delenv("ADK_TOKEN", raising=False)
    with pytest.raises(Invalid, match=r"token_env: the environment has no ADK_TOKEN"):
        await open_host(AgentSettings(url="http://adk", app="clerk", token_env="ADK_TOKEN"), store)
    monkeypatch.setenv("ADK_TOKEN", "two\nlines")
    with pytest.raises(Invalid, match=r"token_env: ADK_TOKEN has an invisible character in it"):
        await open_host(AgentSettings(url="http://adk", app="clerk", token_env="ADK_TOKEN"), store)


async def test_a_secret_that_could_be_found_by_trying_is_reported(
    monkeypatch: pytest.MonkeyPatch, store: Database
) -> None:
    monkeypatch.setenv("PLUGIN_SECRET", "too short")
    with pytest.raises(Invalid, match=r"secret_env: .* 16 characters or more"):
        await open_host(AgentSettings(url="http://adk", app="clerk", secret_env="PLUGIN_SECRET"), store)


@pytest.mark.parametrize("status", [404, 405])
async def test_where_there_are_no_streams_it_runs_without(ear: Ear, host: AdkHost, status: int) -> None:
    ear.instead["/run_sse"] = saying("", status)
    visit = Visit(host, OURS)
    request = await visit.asks("please deploy search")
    said = await visit.approve(request)
    assert "search" in said[-1]
    assert (len(ear.at("/run_sse")), len(ear.at("/run"))) == (1, 2)  # tried once


@pytest.mark.parametrize(
    ("version", "language", "asked"),
    [
        ("1.38.0", "python", False),
        ("1.39.1", "python", True),
        ("2.0.0", "python", False),
        ("2.4.1", "python", False),
        ("2.5.0", "python", True),
        ("2.13.0", "python", True),
        ("3.0.0a1", "python", True),
        ("2.5.0", "go", False),
        ("new", "python", False),
    ],
)
async def test_a_plugin_is_asked_only_where_nothing_can_run(ear: Ear, version: str, language: str, asked: bool) -> None:
    """google-adk 2.0 to 2.4 give a client's call to the model."""
    ear.instead["/version"] = saying(json.dumps({"version": version, "language": language}))
    host = ear.host()
    assert ((await host.capabilities()).ask_plugin is not None) is asked
    await host.close()


async def test_what_it_can_not_promise_goes_by_what_it_is(ear: Ear) -> None:
    host = ear.host()
    abilities = await host.capabilities()
    await host.close()
    assert host.patience == 30.0 + SENT_WITHIN
    assert [
        PORT in abilities.notes,
        DENIALS in abilities.notes,
        EDITS in abilities.notes,
        BROKEN in abilities.notes,
    ] == [True] * 4
    assert TOGETHER in abilities.notes
    assert NO_MARKS in abilities.notes

    async with listening(Ear(describes=("customMetadata",))) as other:
        host = other.host()
        abilities = await host.capabilities()
        await host.close()
    assert NO_MARKS not in abilities.notes
    assert NO_ADK not in abilities.notes


# In


def streaming(*lines: str) -> Handler:
    async def answer(request: web.Request) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        for line in lines:
            await stream.write(line.encode())
        return stream

    return answer


NOT_LIKE = '{"detail": "not like this"}'
EVENT = json.dumps({"id": "1", "author": "clerk", "content": {"parts": [{"text": "Hello."}]}})


async def cut(request: web.Request) -> web.StreamResponse:
    stream = await streaming(f"data: {EVENT}\n\n")(request)
    assert request.transport is not None
    request.transport.abort()
    return stream


LONG = json.dumps({"id": "1", "author": "clerk", "content": {"parts": [{"text": "ü" * 2**20}]}}, ensure_ascii=False)


def failing(failure: str) -> Handler:
    return streaming(f"data: {EVENT}\n\n", failure, ": still here\n", f"data:{EVENT}\n\n")


GONE = "the model is gone"


@pytest.mark.parametrize(
    ("stream", "events", "ends", "why"),
    [
        pytest.param(failing(f'event: error\ndata: {{"error": "{GONE}"}}\n\n'), 2, HostFailed, GONE, id="go"),
        pytest.param(failing(f'data: {{"error": "{GONE}"}}\n\n'), 2, HostFailed, GONE, id="python"),
        pytest.param(streaming(f"data: {EVENT}\n\n", "event: done\ndata: \n\n"), 1, None, "", id="adk-rs's end"),
        pytest.param(streaming("data: ", LONG[:1000], LONG[1000:], "\r\n\r\n"), 1, None, "", id="long, in pieces"),
        pytest.param(cut, 1, DeliveryUnknown, "was lost", id="cut"),
        pytest.param(saying("Internal Server Error", 500), 0, HostFailed, "500: Internal Server Error", id="500"),
        pytest.param(saying(NOT_LIKE, 422), 0, RefusedByHost, "not like this", id="422"),
        pytest.param(saying(NOT_LIKE, 413), 0, RefusedByHost, "not like this", id="413"),
        pytest.param(saying(NOT_LIKE, 429), 0, Unreachable, "not like this", id="429"),
        pytest.param(saying(NOT_LIKE, 409), 0, Unreachable, "not like this", id="409"),
    ],
)
async def test_a_stream_is_read_to_its_end(
    ear: Ear, server: RemoteServer, stream: Handler, events: int, ends: type[ConfirmError] | None, why: str
) -> None:
    """Past a failure, and a cut is no end. What is refused before it runs left nothing behind."""
    ear.instead["/run_sse"] = stream
    heard, error = await hears(server)
    assert (len(heard), type(error)) == (events, ends or type(None))
    assert heard == [json.loads(LONG if len(str(heard)) > 1000 else EVENT)] * events
    assert why in (error.words if isinstance(error, HostError) else "")


@pytest.mark.parametrize("path", ["/list-apps", "/openapi.json"])
async def test_behind_a_gateway_that_does_not_find_it_nothing_is_found_out(
    ear: Ear, server: RemoteServer, path: str
) -> None:
    ear.instead[path] = saying("", 502)
    with pytest.raises(Unreachable):
        await server.about()
    ear.instead.clear()
    assert (await server.about()).name == "an ADK server"


async def test_tools_that_only_share_a_name_are_not_described(ear: Ear, server: RemoteServer) -> None:
    """It is not known which of them a call is for."""

    def declared(name: str, *arguments: str) -> JsonObject:
        schema: JsonObject = {"properties": {one: {} for one in arguments}}
        return {"tools": [{"functionDeclarations": [{"name": name, "parametersJsonSchema": schema}]}]}

    async def info(_: web.Request) -> web.Response:
        agents = declared("pay", "sum"), declared("pay", "sum"), declared("drop", "disk"), declared("drop", "dry_run")
        return web.json_response({"agents": {str(at): one for at, one in enumerate(agents)}})

    ear.instead["/apps/clerk/app-info"] = info
    assert [*(await server.about()).schemas] == ["pay"]


@pytest.mark.parametrize("gone", [False, True], ids=["only this is closed", "the server is gone"])
async def test_what_describes_the_app_may_be_closed(ear: Ear, server: RemoteServer, gone: bool) -> None:
    async def closing(_: web.Request) -> web.Response:
        if gone:
            ear.instead["/list-apps"] = closing
        return web.Response(status=403)

    ear.instead["/apps/clerk/app-info"] = closing
    if gone:
        with pytest.raises(Unreachable):
            await server.about()
    else:
        assert not (await server.about()).schemas


async def test_an_answer_that_was_taken_and_not_kept_is_not_given(ear: Ear, host: AdkHost) -> None:
    visit = Visit(host, OURS)
    request = await visit.asks("please deploy search")
    ear.instead["/run_sse"] = streaming()
    with pytest.raises(DeliveryUnknown, match="did not store it") as error:
        await visit.approve(request)
    assert error.value.again_after == host.server.patience  # until then it may still turn up
    with pytest.raises(DeliveryUnknown, match="may still arrive"):
        await visit.approve(request)


async def test_words_that_are_refused_are_not_said_for_ever(ear: Ear, host: AdkHost) -> None:
    ear.instead["/run_sse"] = saying("1 MB at most", 413)
    said = await Visit(host, OURS).say("hello")
    assert said == ["The agent's server did not take this, 413: 1 MB at most. Say it differently."]


@pytest.mark.parametrize("status", [401, 403])
async def test_a_server_that_lets_nobody_in_says_what_to_check(ear: Ear, server: RemoteServer, status: int) -> None:
    ear.instead["/list-apps"] = saying('{"detail": "who are you?"}', status)
    with pytest.raises(Unreachable, match=r"who are you\?; check \[agent\] token_env and headers"):
        await server.about()


@pytest.mark.parametrize(
    ("listed", "there"),
    [
        (lambda: web.Response(status=500), True),
        (lambda: web.json_response([{"id": OURS.id}]), True),
        (lambda: web.json_response(None), False),
    ],
    ids=["its list can't be read either", "it is listed", "it is not listed"],
)
async def test_a_session_that_can_not_be_read_is_none_only_if_it_is_not_listed(
    ear: Ear, server: RemoteServer, listed: Callable[[], web.Response], there: bool
) -> None:
    async def sessions(_: web.Request) -> web.Response:
        return listed()

    path = f"/apps/{OURS.app}/users/{OURS.user_id}/sessions"
    ear.instead.update({path: sessions, f"{path}/{OURS.id}": saying("session not found, or the database is gone", 500)})
    if there:
        with pytest.raises(Unreachable, match="its session could not be read, 500"):
            await server.events(OURS)
    else:
        assert await server.events(OURS) is None


async def test_an_address_below_which_there_is_no_api_says_what_to_check(ear: Ear) -> None:
    server = RemoteServer(f"{ear.url}/ui", "clerk")
    with pytest.raises(Unreachable, match=r"check \[agent\] url: ADK Go serves its API below /api"):
        await server.create(OURS)
    assert (await server.about()).notes[0] == NO_ADK
    await server.close()


async def test_a_run_of_no_events_is_null_in_go(ear: Ear, server: RemoteServer) -> None:
    ear.instead.update({"/run": saying("null"), "/run_sse": saying("", 404)})
    await server.create(OURS)
    assert [event async for event in server.run(OURS, HELLO, {})] == []


async def test_an_app_that_is_not_there_is_reported_with_those_that_are(ear: Ear) -> None:
    server = RemoteServer(ear.url, "cleark")
    with pytest.raises(Unreachable, match=r'no app "cleark"; it has clerk'):
        await server.about()
    await server.close()


async def test_a_server_that_is_down_is_asked_less_and_less_often_and_then_as_before(
    ear: Ear, server: RemoteServer
) -> None:
    up: list[bool] = []

    async def maybe(_: web.Request) -> web.Response:
        return web.Response(status=404 if up else 503)

    path = f"/apps/{OURS.app}/users/{OURS.user_id}/sessions"
    ear.instead[path] = ear.instead[f"{path}/{OURS.id}"] = maybe

    async def pause() -> float:
        with pytest.raises(Unreachable) as error:
            await server.events(OURS)
        return error.value.again_after

    assert [await pause() for _ in range(8)] == [1, 2, 4, 8, 16, 32, LONGEST_PAUSE, LONGEST_PAUSE]
    up.append(True)
    assert await server.events(OURS) is None
    up.clear()
    assert await pause() == 1


# What a hostile server sends


SESSION = f"/apps/{OURS.app}/users/{OURS.user_id}/sessions/{OURS.id}"
DEEP = "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1)
DEEPER = "[" * 1_000_000
MEGABYTE = b"x" * (1 << 20)


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
async def test_a_refusal_without_end_is_a_refusal(ear: Ear, status: int, error: type[HostError]) -> None:
    ear.instead["/run_sse"] = endless(b"no", MEGABYTE, status)
    with pytest.raises(error) as refused:
        await runs(ear.server())
    assert "more than 1 MB at once" in refused.value.words


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
    with pytest.raises(RefusedByHost) as refused:
        await runs(server)
    assert "more than 100 levels" in refused.value.words


async def test_what_has_very_many_parts_keeps_nobody_waiting(ear: Ear, host: AdkHost) -> None:
    """Thirty megabytes hold ten million events, and reading them takes minutes."""
    events = [json.loads(EVENT) | {"id": str(number)} for number in range(9000)]
    ear.instead[SESSION] = saying(json.dumps({"id": OURS.id, "events": events}))
    assert await turns_of_others(host.look(OURS)) > 80
    ear.instead |= without_streams(saying(json.dumps(events)))
    assert await turns_of_others(texts(host.say(OURS, UserWords(text="hello", mark="m1")))) > 9000


async def turns_of_others(work: Awaitable[object]) -> int:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    waiting = asyncio.create_task(others())
    await work
    waiting.cancel()
    return turns


async def test_more_values_than_anybody_means_are_a_refusal(ear: Ear, server: RemoteServer) -> None:
    ear.instead[SESSION] = streaming('{"events": [', "0," * 2_000_000, "0]}")
    with pytest.raises(Unreachable, match="JSON of more than 2,000,000 values"):
        await server.events(OURS)


async def test_nothing_is_unpacked(ear: Ear) -> None:
    """A gigabyte of blanks fits into a megabyte."""
    packed = gzip.compress(b" " * (1 << 26))
    for encoding in ("gzip", "deflate", "br", "zstd"):
        server, headers = ear.server(), {"Content-Encoding": encoding}
        ear.instead |= {"/run_sse": saying(packed, headers=headers), SESSION: saying(packed, headers=headers)}
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
