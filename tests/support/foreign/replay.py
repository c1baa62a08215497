"""ADK servers according to their documents and sources, replayed where the real ones can't run.

Here is what they have in common: REST, the agents of `wishes`, tools. `go` and `java` have what is special to
each. As in ADK, a call runs as often as it gets an approval.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from aiohttp import web

from tests.support.foreign import tools
from tests.support.foreign.kept import Sessions, answered, asked_in, key_of, response_to, shown
from tests.support.foreign.mcp_calls import called_over_mcp
from tests.support.foreign.wishes import TRANSFER, Plain, reply

APPS = ["clerk", "filer", "front"]
"""Each is called as its root agent; `filer` uses an MCP server, `front` has a sub-agent."""

TOOLS: dict[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        *(tools.reimburse, tools.deploy, tools.linger, tools.break_down),
        *(tools.lookup, tools.request_time_off),
    )
}
"""The other tools are the MCP server's."""


class Refused(Exception):
    """The server refuses the request."""


class Replay:
    """One server. Subclasses implement what is special to their ADK."""

    def __init__(self, sessions: Sessions | None = None) -> None:
        self._sessions = sessions or Sessions()

    # What differs

    def stamped(self) -> Plain:
        """An event with its time, in this ADK's format."""
        return {"timestamp": time.time()}

    def no_session(self) -> web.Response:
        return web.json_response({"error": "session not found"}, status=404)

    def taken(self, body: Plain) -> None:
        """Raises `Refused` for a request that this server does not accept."""

    def asking(self, call: Plain, confirmation: Plain) -> Iterable[tuple[list[Plain], Plain]]:
        """The events that ask about a call: their parts, and their other fields."""
        raise NotImplementedError

    def denied(self, call: Plain) -> Plain:
        raise NotImplementedError

    def failed(self, call: Plain, error: Exception) -> Plain:
        """The result of a tool that raised."""
        raise NotImplementedError

    def from_mcp(self, result: Plain) -> Plain:
        """What the agent sees of an MCP server's result."""
        raise NotImplementedError

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
        return web.json_response(APPS)

    async def listed(self, request: web.Request) -> web.Response:
        ids = self._sessions.of(key_of(**request.match_info, session=""))
        return web.json_response([{"id": one, "events": []} for one in ids])

    async def get(self, request: web.Request) -> web.Response:
        events = self._sessions.all.get(key_of(**request.match_info))
        if events is None:
            return self.no_session()
        return web.json_response({"id": request.match_info["session"], "events": events})

    async def create(self, request: web.Request) -> web.Response:
        self._sessions.all.setdefault(key_of(**request.match_info), [])
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
        """Checks the request before anything runs."""
        body = await request.json()
        try:
            self.taken(body)
        except Refused as refused:
            raise web.HTTPBadRequest(text=str(refused)) from refused
        key = key_of(body["appName"], body["userId"], body["sessionId"])
        if key not in self._sessions.all:
            raise web.HTTPNotFound(text="session not found")
        return key, body["newMessage"]["parts"]

    # A run

    async def _events(self, key: str, parts: list[Plain]) -> AsyncIterator[Plain]:
        invocation, asked = f"e-{uuid4()}", self._asked_calls(key)
        given = [part["functionResponse"] for part in parts if "functionResponse" in part]
        answers = {one["id"]: one["response"] for one in given}
        for id_ in answers:
            if id_ not in asked:
                raise Refused(f"no request {id_}")
        said = [event["author"] for event in self._sessions.all[key] if event["author"] != "user"]
        self._add(key, "user", invocation, parts)
        owner = next((asked[id_][0] for id_ in answers), None)
        agent = owner or (said[-1] if said else key.partition("/")[0])
        async for event in self._turn(key, agent, invocation, answers):
            yield event

    async def _turn(self, key: str, agent: str, invocation: str, answers: dict[str, Plain]) -> AsyncIterator[Plain]:
        """An agent runs those of its calls that were answered. Then its model is asked what to do."""
        asked = self._asked_calls(key)
        own = {id_: answers.pop(id_) for id_ in [*answers] if asked[id_][0] == agent}
        last = {asked[id_][1]["id"]: (asked[id_][1], given) for id_, given in own.items()}  # of calls under one id
        for call, given in last.values():
            yield self._add(key, agent, invocation, [response_to(call, await self._run_confirmed(call, given))])
        if own and not asked.keys() <= answered(self._sessions.all[key]):
            return
        said = reply(shown(self._sessions.all[key]), agent)
        calls = [part["functionCall"] for part in said if "functionCall" in part]
        for call in calls:
            call.setdefault("id", f"call-{uuid4()}")
        yield self._add(key, agent, invocation, said)
        for call in calls:
            async for event in self._call_events(key, agent, invocation, call, answers):
                yield event

    async def _call_events(
        self, key: str, agent: str, invocation: str, call: Plain, answers: dict[str, Plain]
    ) -> AsyncIterator[Plain]:
        if call["name"] in (TRANSFER, "lookup"):
            to: str = call["args"].get("agent_name", agent)
            actions = {"transferToAgent": to} if call["name"] == TRANSFER else {}
            result = {"result": None} if call["name"] == TRANSFER else tools.lookup(**call["args"])
            yield self._add(key, agent, invocation, [response_to(call, result)], actions=actions)
            async for event in self._turn(key, to, invocation, answers):
                yield event
            return
        if call["name"] not in (*TOOLS, "delete_file"):
            yield self._add(key, agent, invocation, [response_to(call, {"error": f"tool {call['name']} not found"})])
            async for event in self._turn(key, agent, invocation, answers):
                yield event
            return
        confirmation: Plain = {"hint": f"May {call['name']} run?", "confirmed": False}
        if call["name"] == "request_time_off":
            confirmation["payload"] = {"approved_days": 0}
        for parts, more in self.asking(call, confirmation):
            yield self._add(key, agent, invocation, parts, **more)

    async def _run_confirmed(self, call: Plain, given: Plain) -> Plain:
        if given.get("confirmed") is not True:
            return self.denied(call)
        if call["name"] not in TOOLS:
            return self.from_mcp(await called_over_mcp(call["name"], call["args"]))
        tool, arguments = TOOLS[call["name"]], dict(call["args"])
        if "tool_context" in inspect.signature(tool).parameters:
            confirmation = SimpleNamespace(confirmed=True, payload=given.get("payload"))
            arguments["tool_context"] = SimpleNamespace(tool_confirmation=confirmation)
        try:
            result = tool(**arguments)
            found: Plain = await result if inspect.isawaitable(result) else result
        except ValueError as error:  # raised by `break_down`
            return self.failed(call, error)
        return found

    # The session

    def _add(self, key: str, author: str, invocation: str, parts: list[Plain], **more: Any) -> Plain:
        role = "user" if author == "user" else "model"
        event = {"id": str(uuid4()), "author": author, "invocationId": invocation, **self.stamped()}
        return self._sessions.add(key, {**event, "content": {"role": role, "parts": parts}, **more})

    def _asked_calls(self, key: str) -> dict[str, tuple[str, Plain]]:
        """The author and the call of each request, by the request's id."""
        return {id_: (event["author"], call) for event in self._sessions.all[key] for id_, call in asked_in(event)}


def serve(kind: type[Replay]) -> None:
    """Prints its port, and serves until it is killed. Sessions are in SESSIONS, a file, or in memory."""
    asyncio.run(_serve(kind(Sessions(os.environ.get("SESSIONS")))))


async def _serve(replay: Replay) -> None:
    app = web.Application()
    app.add_routes(replay.routes())
    running = web.AppRunner(app, access_log=None)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", int(os.environ.get("PORT", "0")), reuse_address=True).start()
    print(running.addresses[0][1], flush=True)
    await asyncio.Event().wait()
