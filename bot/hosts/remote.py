"""Reads, creates and runs sessions on an ADK server over REST. Makes no decisions."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from urllib.parse import quote

import aiohttp
from aiohttp import hdrs
from yarl import URL

from adk_confirm.bot.hosts.host import (
    SENT_WITHIN,
    DeliveryUnknown,
    HostFailed,
    Misconfigured,
    RefusedByHost,
    ServerInfo,
    Unreachable,
)
from adk_confirm.bot.hosts.plugin import BROKEN, DENIALS, EDITS, OUR_PORT, PORT, TOGETHER
from adk_confirm.runtime.adk.signing import OUR_API
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.errors import why_unreached
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, is_deeper, objects, same, texts
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.wire import USER, Content, FunctionCall, Part, SessionId

NOT_DESCRIBED = (
    "It fails when it is asked about its app (app-info, 500). If runs fail as well, it could not import the app: its "
    "log says why."
)
NO_ADK = (
    "Nothing there looks like an ADK server: it has no list-apps, no openapi.json and no version. Check url in "
    "[agent]; ADK Go serves its API below /api."
)
NO_MARKS = "It keeps no marks of ours, so messages that got lost on the way are looked for by their text and time."


def _name(version: Json) -> str:
    info = as_object(version)
    language, number = info.get("language"), info.get("version")
    if not isinstance(number, str):
        return "an ADK server"
    return f"ADK {language} {number}" if isinstance(language, str) else f"ADK {number}"


def _takes_no_calls(version: Json) -> bool:
    """google-adk refuses a message with a call in it, but 2.0 to 2.4 pass it on to the model."""
    said = as_object(version)
    numbers = [int(one) for one in as_text(said.get("version")).split(".")[:2] if one.isdecimal()]
    return said.get("language") == "python" and (numbers >= [2, 5] or [1, 39] <= numbers < [2])


def _schemas(info: Json) -> dict[str, JsonObject]:
    """The schemas of the tools' parameters, by tool name. Without those of tools that only share a name."""
    found: dict[str, list[JsonObject]] = {}
    for agent in as_object(as_object(info).get("agents")).values():
        for tool in objects(as_object(agent).get("tools")):
            for declared in objects(tool.get("functionDeclarations")):
                name = declared.get("name")
                schema = as_object(declared.get("parametersJsonSchema"))
                if isinstance(name, str):
                    found.setdefault(name, []).append(schema)
    return {name: several[0] for name, several in found.items() if all(same(several[0], one) for one in several)}


MOST_BODY = 32 * 1024 * 1024
"""The largest body: a session comes as one body, with everything that was ever said in it."""

MOST_EVENT = 8 * 1024 * 1024
"""The largest event or line of a stream."""

MOST_STREAM = 128 * 1024 * 1024
DEEPEST, MOST_VALUES = 100, 2_000_000


class Unreadable(Exception):
    """The server sent something that can't be read. The message says what."""


async def body_of(response: aiohttp.ClientResponse, most: int = MOST_BODY) -> str:
    """The body of a response as text. Raises `Unreadable`."""
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
        name, _, value = line.partition(":")
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
    """The text as JSON, or as it is if it is none. Raises `Unreadable` for JSON that is nested too deep, or has more
    values than a process should hold."""
    if sum(map(text.count, ",[{")) > MOST_VALUES:
        raise Unreadable(f"it sent JSON of more than {MOST_VALUES:,} values")
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


log = logging.getLogger(__name__)

CONNECT = 10.0
READ = 60.0
LONGEST_PAUSE = 60.0
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
GATEWAYS = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
PASSING = (*REFUSED, *(HTTPStatus(code) for code in (404, 408, 409, 425, 429)))
"""Refusals before a run began. The next attempt may be accepted."""
REFUSED_FOR = 60.0
MOST_REFUSAL = 1024 * 1024
NO_SUCH_ENDPOINT = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)


class RemoteServer:
    def __init__(self, url: str, app: str, *, headers: Mapping[str, str] | None = None, timeout: float = 600.0) -> None:
        self._url, self.app = url.rstrip("/"), app
        self._timeout, self.patience = timeout, timeout + SENT_WITHIN
        self._headers = dict(headers or {})
        self._http: aiohttp.ClientSession | None = None
        self._about: ServerInfo | None = None
        self._streams = True
        self._failures = 0

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()

    async def about(self) -> ServerInfo:
        if self._about is None:
            self._about = await self._find_out()
        return self._about

    async def _find_out(self) -> ServerInfo:
        """Asks the server what it can do. Raises `Unreachable` if there is no such server, or no such app on it."""
        listed = await self._description("/list-apps")
        names = texts(listed)
        if names and self.app not in names:
            there = ", ".join(sorted(names))
            raise Misconfigured(
                f'The agent\'s server has no app "{self.app}"; it has {there}. Correct app in [agent].', 60.0
            )
        try:
            status, info = await self._ask("GET", f"/apps/{quote(self.app, safe='')}/app-info")
        except Unreachable:  # it has to load the app for this, and may fail
            await self._ask("GET", "/list-apps")  # if the whole server is gone, this is an error
            status, info = 0, None
        described, version = await self._description("/openapi.json"), await self._description("/version")
        ours = as_object(as_object(described).get("info")).get("title") == OUR_API
        schemas = as_object(as_object(as_object(described).get("components")).get("schemas"))
        metadata = "customMetadata" in as_object(as_object(schemas.get("RunAgentRequest")).get("properties"))
        notes = [NO_ADK] if listed is described is version is None else []
        notes += [PORT, DENIALS, EDITS, BROKEN, TOGETHER]
        notes += [] if metadata else [NO_MARKS]
        notes += [NOT_DESCRIBED] if status == HTTPStatus.INTERNAL_SERVER_ERROR else []
        return ServerInfo(
            name=f"adk-confirm's own API ({_name(version)})" if ours else _name(version),
            metadata=metadata,
            say_what_became=self.say_what_became if ours else None,
            schemas=_schemas(info),
            notes=(OUR_PORT,) if ours else tuple(notes),
            ends_early="not an LlmAgent" in str(as_object(info).get("detail")),
            why_not=self.why_not if _takes_no_calls(version) and not ours else None,
        )

    async def _description(self, path: str) -> Json:
        """What the server answers at this path. None unless its status is 200."""
        status, body = await self._ask("GET", path)
        return body if status == HTTPStatus.OK else None

    async def events(self, session: SessionId) -> list[JsonObject] | None:
        status, body = await self._ask("GET", _path(session))
        if status == HTTPStatus.NOT_FOUND:
            return None
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # ADK Go answers 500 both for a missing session, which it does not list, and for one that it can't read.
            listing, listed = await self._ask("GET", _sessions(session))
            known = [one.get("id") for one in objects(listed)]
            if listing == HTTPStatus.OK and isinstance(listed, list | None) and session.id not in known:
                return None
        if status != HTTPStatus.OK or not isinstance(body, dict):
            raise self._unreachable(f"its session could not be read, {status}")
        return objects(body.get("events"))

    async def create(self, session: SessionId) -> None:
        status, body = await self._ask("POST", _path(session), {})
        if status in NO_SUCH_ENDPOINT:
            status, body = await self._ask("POST", _sessions(session), {"sessionId": session.id})
        if status >= HTTPStatus.BAD_REQUEST and await self.events(session) is None:
            hint = "; check [agent] url: ADK Go serves its API below /api" if status in NO_SUCH_ENDPOINT else ""
            raise self._unreachable(_refusal("no session could be started", status, body) + hint)

    async def why_not(self, session: SessionId, call: FunctionCall) -> str:
        """Why the server refuses a call from a client. Nothing is stored and nothing runs; the session is deleted."""
        await self.create(session)
        try:
            async for _ in self.run(session, Content(role=USER, parts=[Part(function_call=call)]), {}):
                pass
        except (DeliveryUnknown, Unreachable) as refused:
            return refused.words
        finally:
            await self._ask("DELETE", _path(session))
        return ""

    async def run(self, session: SessionId, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        body: JsonObject = {
            "appName": self.app,
            "userId": session.user_id,
            "sessionId": session.id,
            "newMessage": message.to_dict(),
            **extra,
        }
        with self._may_break():
            if self._streams:
                async with self._post("/run_sse", {**body, "streaming": True}) as response:
                    # A 404 may be about the endpoint, or about the session.
                    if response.status not in NO_SUCH_ENDPOINT or await self.events(session) is None:
                        await self._require_accepted(response)
                        async for event in _event_stream(response):
                            yield event
                        return
                self._streams = False
            async with self._post("/run", body) as response:
                await self._require_accepted(response)
                for event in await _event_list(response):
                    yield event

    async def say_what_became(
        self, session: SessionId, call_id: str, word: Word, attempt: int
    ) -> AsyncIterator[JsonObject]:
        """Sends what people said about an unknown outcome to our own API. Repeating it for the same attempt changes
        nothing."""
        path = f"{_path(session)}/calls/{quote(call_id, safe='')}"
        with self._may_break():
            async with self._post(path, {"word": word, "attempt": attempt}) as response:
                if response.status == HTTPStatus.CONFLICT:
                    return
                await self._require_accepted(response)
                for event in await _event_list(response):
                    yield event

    @contextmanager
    def _may_break(self) -> Iterator[None]:
        try:
            yield
        except Unreadable as error:
            raise DeliveryUnknown(f"What the agent's server sent can't be used: {error}.") from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise self._unreachable(str(error)) from error
        except TimeoutError as error:
            raise DeliveryUnknown(f"The agent's server took longer than {self._timeout:g} seconds.") from error
        except (aiohttp.ClientError, OSError) as error:
            log.warning("the connection to %s was lost: %s", self._url, _words(error))
            raise DeliveryUnknown("The connection to the agent's server was lost.") from error

    async def _require_accepted(self, response: aiohttp.ClientResponse) -> None:
        """Raises an error if the server refused the request. A refusal before the run leaves nothing behind. After a
        5xx the result is unknown."""
        if response.status < HTTPStatus.BAD_REQUEST:
            if response.status == HTTPStatus.SEE_OTHER:
                raise DeliveryUnknown("The agent's server accepted this, and redirects to the result.")
            self._check_place(response)
            self._failures = 0
            return
        body: Json
        try:
            body = json_or_text(await body_of(response, MOST_REFUSAL))
        except Unreadable as error:
            body = str(error)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise HostFailed(f"The run broke off, {response.status}.").quoting(_detail(body))
        if response.status not in PASSING:
            why = f"The agent's server did not take this, {response.status}."
            raise RefusedByHost(why, REFUSED_FOR).quoting(_detail(body))
        why = f"it did not take the message, {response.status}"
        raise self._not_taken(why, response.status).quoting(_detail(body))

    def _check_place(self, response: aiohttp.ClientResponse) -> None:
        """Refuses redirects: the request and its headers are meant for this server only."""
        if HTTPStatus.MULTIPLE_CHOICES <= response.status < HTTPStatus.BAD_REQUEST:
            to = response.headers.get("Location", "")[:200]
            why = f"it sends us to {to!r} ({response.status}): set [agent] url to where its API is"
            raise self._unreachable(why, Misconfigured)

    def _post(self, path: str, body: JsonObject) -> aiohttp.client._RequestContextManager:
        limit = aiohttp.ClientTimeout(total=self._timeout, connect=CONNECT)
        url = URL(self._url + path, encoded=True)
        return self._session().post(url, json=body, timeout=limit, headers=tracing.headers(), allow_redirects=False)

    async def _ask(self, method: str, path: str, body: Json = None) -> tuple[int, Json]:
        limit = aiohttp.ClientTimeout(total=READ, sock_connect=CONNECT)
        url = URL(self._url + path, encoded=True)
        try:
            async with self._session().request(
                method, url, json=body, timeout=limit, allow_redirects=False
            ) as response:
                self._check_place(response)
                status, answer = response.status, json_or_text(await body_of(response))
        except Unreadable as error:
            raise self._unreachable(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise self._unreachable(_words(error)) from error
        if status in (*REFUSED, *GATEWAYS):
            raise self._not_taken(_refusal("it could not be asked", status, answer).rstrip("."), status)
        if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            self._failures = 0
        return status, answer

    def _session(self) -> aiohttp.ClientSession:
        """The HTTP client. Each call has a new connection: a kept one may break just when an answer is sent."""
        if self._http is None:
            connector = aiohttp.TCPConnector(force_close=True, limit=0)
            self._http = aiohttp.ClientSession(
                connector=connector,
                headers={hdrs.ACCEPT_ENCODING: "identity", **self._headers},
                auto_decompress=False,
            )
        return self._http

    def _not_taken(self, why: str, status: int) -> Unreachable:
        if status in REFUSED:
            return self._unreachable(f"{why}; check [agent] token_env and headers", Misconfigured)
        return self._unreachable(why)

    def _unreachable(self, why: str, kind: type[Unreachable] = Unreachable) -> Unreachable:
        """The error for a server that does not answer. The pauses grow. What was found out about it is forgotten, since
        another server may answer next."""
        self._about, self._streams = None, True
        pause = min(2.0**self._failures, LONGEST_PAUSE)
        self._failures = min(self._failures + 1, 10)
        where = "" if kind is Misconfigured else f" at {self._url}"  # everybody reads those
        return kind(f"The agent's server{where} can't be used: {why.rstrip('.')}.", pause)


def _path(session: SessionId) -> str:
    return f"{_sessions(session)}/{quote(session.id, safe='')}"


def _sessions(session: SessionId) -> str:
    app, user = (quote(part, safe="") for part in (session.app, session.user_id))
    return f"/apps/{app}/users/{user}/sessions"


async def _event_stream(response: aiohttp.ClientResponse) -> AsyncIterator[JsonObject]:
    """The events of a run. An error may come among them; the connection stays open, since closing it would cancel what
    still runs."""
    failed: DeliveryUnknown | Unreadable | None = None
    async for kind, data in messages(response):
        try:
            value = json_or_text(data)
        except Unreadable as error:
            failed = failed or error
            continue
        why = value.get("error") if isinstance(value, dict) and "author" not in value else None
        if kind == "error" or why:
            failed = failed or HostFailed("The agent's server failed.").quoting(_shorten(why or value))
        elif isinstance(value, dict):
            yield value
        else:
            failed = failed or DeliveryUnknown(_NO_EVENT).quoting(_shorten(value))
    if failed is not None:
        raise failed


async def _event_list(response: aiohttp.ClientResponse) -> list[JsonObject]:
    events = json_or_text(await body_of(response))
    if not isinstance(events, list | None):
        raise DeliveryUnknown(_NO_EVENT).quoting(_shorten(events))
    return [event for event in events or [] if isinstance(event, dict)]


_NO_EVENT = "The agent's server sent something that is no event."


def _refusal(what: str, status: int, body: Json) -> str:
    return f"{what}, {status}: {_detail(body)}"


def _detail(body: Json) -> str:
    return _shorten(body.get("detail", body) if isinstance(body, dict) else body)


def _shorten(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:299] + "…"


def _words(error: BaseException) -> str:
    check = ". Check that it runs, and its address" if isinstance(error, aiohttp.ClientConnectorError) else ""
    return f"{why_unreached(error)}{check}"
