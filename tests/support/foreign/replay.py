"""ADK servers as their documents and sources describe them, replayed where the real ones can't run.

What they have in common is here: sessions, the agent that `wishes` describes, tools. What each ADK writes in its own
way is in `rust`, `go` and `java`. They run a call as often as they are told to, as ADK does.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from aiohttp import web

from tests.support.foreign import tools
from tests.support.foreign.wishes import Plain, reply

ASK = "adk_request_confirmation"
TOOLS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (tools.reimburse, tools.deploy, tools.linger, tools.break_down, tools.lookup, tools.request_time_off)
}


class Refused(Exception):
    """What came was not taken."""


class Sessions:
    """All sessions by (app, user, id), written down after each event where they are to outlive the process."""

    def __init__(self, file: str | None = None) -> None:
        self._file = Path(file) if file else None
        stored = self._file is not None and self._file.exists()
        self.all: dict[str, list[Plain]] = json.loads(self._file.read_text()) if self._file and stored else {}

    def add(self, key: str, event: Plain) -> Plain:
        self.all[key].append(event)
        if self._file is not None:
            self._file.write_text(json.dumps(self.all))
        return event

    def of(self, owner: str) -> list[str]:
        return [key.removeprefix(owner) for key in self.all if key.startswith(owner)]


class Replay:
    """One server; subclasses say what their ADK does in its own way."""

    def __init__(self, sessions: Sessions | None = None) -> None:
        self._sessions = sessions or Sessions()

    # What differs

    def stamped(self) -> Plain:
        """How an event tells the time."""
        return {"timestamp": time.time()}

    def no_session(self) -> web.Response:
        return web.json_response({"error": "session not found"}, status=404)

    def taken(self, body: Plain) -> None:
        """Raises `Refused` for a request that this server does not take."""

    def asking(self, call: Plain, confirmation: Plain) -> Iterable[tuple[list[Plain], Plain]]:
        """The events that ask about a call: their parts, and what else they have."""
        raise NotImplementedError

    def denied(self, call: Plain) -> Plain:
        raise NotImplementedError

    def failed(self, call: Plain, error: Exception) -> Plain:
        """The result of a tool that raised."""
        raise NotImplementedError

    def answers_by(self) -> str:
        """Whether an answer carries the id of the "request" or of the "call"."""
        return "request"

    def as_message(self, event: Plain) -> str:
        return f"data: {json.dumps(event)}\n\n"

    def as_failure(self, error: Exception) -> str:
        return f"event: error\ndata: {json.dumps({'error': str(error)})}\n\n"

    # REST

    def routes(self) -> list[web.RouteDef]:
        owner = "/apps/{app}/users/{user}/sessions"
        return [
            web.get("/list-apps", self.list_apps),
            web.get(owner, self.listed),
            web.get(f"{owner}/{{session}}", self.get),
            web.post(f"{owner}/{{session}}", self.create),
            web.post("/run", self.run),
            web.post("/run_sse", self.run_sse),
        ]

    async def list_apps(self, _: web.Request) -> web.Response:
        return web.json_response(["clerk"])

    async def listed(self, request: web.Request) -> web.Response:
        ids = self._sessions.of(_key(**request.match_info, session=""))
        return web.json_response([{"id": one, "events": []} for one in ids])

    async def get(self, request: web.Request) -> web.Response:
        events = self._sessions.all.get(_key(**request.match_info))
        if events is None:
            return self.no_session()
        return web.json_response({"id": request.match_info["session"], "events": events})

    async def create(self, request: web.Request) -> web.Response:
        self._sessions.all.setdefault(_key(**request.match_info), [])
        return web.json_response({"id": request.match_info["session"], "events": []})

    async def run(self, request: web.Request) -> web.Response:
        try:
            return web.json_response([event async for event in self._events(*await self._read(request))])
        except Refused as refused:
            return web.Response(status=500, text=str(refused))

    async def run_sse(self, request: web.Request) -> web.StreamResponse:
        key, parts = await self._read(request)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        try:
            async for event in self._events(key, parts):
                await stream.write(self.as_message(event).encode())
        except Refused as refused:
            await stream.write(self.as_failure(refused).encode())
        return stream

    async def _read(self, request: web.Request) -> tuple[str, list[Plain]]:
        """What is refused before it runs."""
        body = await request.json()
        try:
            self.taken(body)
        except Refused as refused:
            raise web.HTTPBadRequest(text=str(refused)) from refused
        key = _key(body["appName"], body["userId"], body["sessionId"])
        if key not in self._sessions.all:
            raise web.HTTPNotFound(text="session not found")
        return key, body["newMessage"]["parts"]

    # A run

    async def _events(self, key: str, parts: list[Plain]) -> AsyncIterator[Plain]:
        invocation = f"e-{uuid4()}"
        asked = self._asked(key)
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        for answer in answers:
            if answer["id"] not in asked:
                raise Refused(f"no request {answer['id']}")
        if parts:
            self._add(key, "user", invocation, parts)
        for answer in answers:
            call = asked[answer["id"]]
            result = await self._confirmed(call, answer["response"])
            yield self._add(key, "clerk", invocation, [response_to(call, result)])
        if answers and self._waits(key):
            return
        said = reply(self._shown(key), "clerk")
        for part in said:
            if "functionCall" in part:
                part["functionCall"]["id"] = f"call-{uuid4()}"
        yield self._add(key, "clerk", invocation, said)
        for part in said:
            if "functionCall" in part:
                async for event in self._called(key, invocation, part["functionCall"]):
                    yield event

    async def _called(self, key: str, invocation: str, call: Plain) -> AsyncIterator[Plain]:
        if call["name"] == "lookup":
            yield self._add(key, "clerk", invocation, [response_to(call, tools.lookup(**call["args"]))])
            async for event in self._events(key, []):
                yield event
            return
        confirmation: Plain = {"hint": f"May {call['name']} run?", "confirmed": False}
        if call["name"] == "request_time_off":
            confirmation["payload"] = {"approved_days": 0}
        for parts, more in self.asking(call, confirmation):
            yield self._add(key, "clerk", invocation, parts, **more)

    async def _confirmed(self, call: Plain, given: Plain) -> Plain:
        if given.get("confirmed") is not True:
            return self.denied(call)
        tool, arguments = TOOLS[call["name"]], dict(call["args"])
        if "tool_context" in inspect.signature(tool).parameters:
            confirmation = SimpleNamespace(confirmed=True, payload=given.get("payload"))
            arguments["tool_context"] = SimpleNamespace(tool_confirmation=confirmation)
        try:
            result = tool(**arguments)
            found: Plain = await result if inspect.isawaitable(result) else result
        except ValueError as error:  # as `break_down` does
            return self.failed(call, error)
        return found

    # The session

    def _add(self, key: str, author: str, invocation: str, parts: list[Plain], **more: Any) -> Plain:
        role = "user" if author == "user" else "model"
        event = {"id": str(uuid4()), "author": author, "invocationId": invocation, **self.stamped()}
        return self._sessions.add(key, {**event, "content": {"role": role, "parts": parts}, **more})

    def _parts(self, key: str) -> list[Plain]:
        return [part for event in self._sessions.all[key] for part in event["content"]["parts"]]

    def _asked(self, key: str) -> dict[str, Plain]:
        """The calls that were asked about, by the id that an answer has."""
        requests = [part.get("functionCall") or part.get("functionResponse") or {} for part in self._parts(key)]
        asked = {}
        for one in requests:
            told = one.get("args") or one.get("response") or {}
            if one.get("name") == ASK and "originalFunctionCall" in told:
                call = told["originalFunctionCall"]
                asked[one["id"] if self.answers_by() == "request" else call["id"]] = call
        return asked

    def _waits(self, key: str) -> bool:
        """Whether a call of the last turn has no answer yet."""
        answered = {p["functionResponse"]["id"] for p in self._parts(key) if _is_answer(p)}
        return any(id_ not in answered for id_ in self._asked(key))

    def _shown(self, key: str) -> list[Plain]:
        """What a model sees: no requests, no answers, and of the responses to a call the last."""
        last = {part["functionResponse"]["id"]: part for part in self._parts(key) if _is_result(part)}
        shown = []
        for event in self._sessions.all[key]:
            parts = [part for part in event["content"]["parts"] if not _is_confirming(part)]
            kept = [part for part in parts if not _is_result(part) or last[part["functionResponse"]["id"]] is part]
            if kept:
                shown.append({**event["content"], "parts": kept})
        return shown


def _is_answer(part: Plain) -> bool:
    response = part.get("functionResponse", {})
    return response.get("name") == ASK and "confirmed" in response["response"]


def _is_result(part: Plain) -> bool:
    return "functionResponse" in part and not _is_confirming(part)


def _is_confirming(part: Plain) -> bool:
    return any(part.get(kind, {}).get("name") == ASK for kind in ("functionCall", "functionResponse"))


def response_to(call: Plain, result: Plain) -> Plain:
    return {"functionResponse": {"id": call["id"], "name": call["name"], "response": result}}


def request_about(call: Plain, confirmation: Plain) -> Plain:
    """The part that asks, in the dialect of all but adk-rs: a call with an id of its own."""
    arguments = {"originalFunctionCall": call, "toolConfirmation": confirmation}
    return {"functionCall": {"id": f"adk-{uuid4()}", "name": ASK, "args": arguments}}


def _key(app: str, user: str, session: str) -> str:
    return f"{app}/{user}/{session}"


def serve(kind: type[Replay]) -> None:
    """Says its port, and serves until it is killed; it keeps its sessions in SESSIONS, a file, or in memory."""
    asyncio.run(_serve(kind(Sessions(os.environ.get("SESSIONS")))))


async def _serve(replay: Replay) -> None:
    app = web.Application()
    app.add_routes(replay.routes())
    running = web.AppRunner(app, access_log=None)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", int(os.environ.get("PORT", "0")), reuse_address=True).start()
    print(running.addresses[0][1], flush=True)
    await asyncio.Event().wait()
