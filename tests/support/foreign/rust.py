"""adk-rs as its documents describe it, replayed: a request is a response that will continue, with the call's own id.

`python -m tests.support.foreign.rust`; it keeps its sessions in SESSIONS, a file, or in memory.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import time
from collections.abc import AsyncIterator, Callable
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


class Sessions:
    """All sessions, written down after each event."""

    def __init__(self, file: str | None) -> None:
        self._file = Path(file) if file else None
        stored = self._file is not None and self._file.exists()
        self.all: dict[str, list[Plain]] = json.loads(self._file.read_text()) if self._file and stored else {}

    def add(self, key: str, author: str, invocation: str, parts: list[Plain], **more: Any) -> Plain:
        role = "user" if author == "user" else "model"
        event = {
            "id": str(uuid4()),
            "timestamp": time.time(),
            "author": author,
            "invocationId": invocation,
            "content": {"role": role, "parts": parts},
            **more,
        }
        self.all[key].append(event)
        if self._file is not None:
            self._file.write_text(json.dumps(self.all))
        return event


class Rust:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    def routes(self) -> list[web.RouteDef]:
        one = "/apps/{app}/users/{user}/sessions/{session}"
        return [
            web.get("/list-apps", self.list_apps),
            web.get(one, self.get),
            web.post(one, self.create),
            web.post("/run_sse", self.run),
        ]

    async def list_apps(self, _: web.Request) -> web.Response:
        return web.json_response(["clerk"])

    async def get(self, request: web.Request) -> web.Response:
        events = self._sessions.all.get(_key(**request.match_info))
        if events is None:
            return web.json_response({"error": "session not found"}, status=404)
        return web.json_response({"id": request.match_info["session"], "events": events})

    async def create(self, request: web.Request) -> web.Response:
        self._sessions.all.setdefault(_key(**request.match_info), [])
        return web.json_response({"id": request.match_info["session"], "events": []})

    async def run(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        key = _key(body["appName"], body["userId"], body["sessionId"])
        if key not in self._sessions.all:
            return web.json_response({"error": "session not found"}, status=404)
        stream = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await stream.prepare(request)
        try:
            async for event in self._events(key, body["newMessage"]["parts"]):
                await stream.write(f"data: {json.dumps(event)}\n\n".encode())
        except ValueError as error:
            await stream.write(f"event: error\ndata: {json.dumps(str(error))}\n\n".encode())
        return stream

    async def _events(self, key: str, parts: list[Plain]) -> AsyncIterator[Plain]:
        invocation = f"e-{uuid4()}"
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        asked = {call["id"]: call for call in self._calls(key)}
        for answer in answers:
            if answer["id"] not in asked:
                raise ValueError(f"no request {answer['id']}")
        if parts:
            self._sessions.add(key, "user", invocation, parts)
        for answer in answers:
            result = await self._confirmed(asked[answer["id"]], answer["response"])
            yield self._sessions.add(key, "clerk", invocation, [_response(asked[answer["id"]], result)])
        if answers and self._waits(key):
            return
        said = reply(self._shown(key), "clerk")
        for part in said:
            if "functionCall" in part:
                part["functionCall"]["id"] = f"call-{uuid4()}"
        yield self._sessions.add(key, "clerk", invocation, said)
        for part in said:
            if "functionCall" in part:
                async for event in self._called(key, invocation, part["functionCall"]):
                    yield event

    async def _called(self, key: str, invocation: str, call: Plain) -> AsyncIterator[Plain]:
        if call["name"] == "lookup":
            yield self._sessions.add(key, "clerk", invocation, [_response(call, tools.lookup(**call["args"]))])
            async for event in self._events(key, []):
                yield event
            return
        asking: Plain = {"hint": f"May {call['name']} run?", "confirmed": False}
        if call["name"] == "request_time_off":
            asking["payload"] = {"approved_days": 0}
        response = {
            "id": call["id"],
            "name": ASK,
            "response": {"originalFunctionCall": call, "toolConfirmation": asking},
            "willContinue": True,
        }
        part = {"functionResponse": response}
        yield self._sessions.add(key, "clerk", invocation, [part], longRunningToolIds=[call["id"]])

    async def _confirmed(self, call: Plain, given: Plain) -> Plain:
        if given.get("confirmed") is not True:
            return {"error": "rejected"}
        tool, arguments = TOOLS[call["name"]], dict(call["args"])
        if "tool_context" in inspect.signature(tool).parameters:
            confirmation = SimpleNamespace(confirmed=True, payload=given.get("payload"))
            arguments["tool_context"] = SimpleNamespace(tool_confirmation=confirmation)
        result = tool(**arguments)
        found: Plain = await result if inspect.isawaitable(result) else result
        return found

    def _calls(self, key: str) -> list[Plain]:
        return [part["functionCall"] for part in self._parts(key) if "functionCall" in part]

    def _parts(self, key: str) -> list[Plain]:
        return [part for event in self._sessions.all[key] for part in event["content"]["parts"]]

    def _waits(self, key: str) -> bool:
        answered = {p["functionResponse"]["id"] for p in self._parts(key) if _is_result(p)}
        return any(call["id"] not in answered for call in self._calls(key))

    def _shown(self, key: str) -> list[Plain]:
        """What a model sees: no requests, no answers."""
        shown = []
        for event in self._sessions.all[key]:
            kept = [p for p in event["content"]["parts"] if "functionResponse" not in p or _is_result(p)]
            if kept:
                shown.append({**event["content"], "parts": kept})
        return shown


def _is_result(part: Plain) -> bool:
    return "functionResponse" in part and part["functionResponse"]["name"] != ASK


def _response(call: Plain, result: Plain) -> Plain:
    return {"functionResponse": {"id": call["id"], "name": call["name"], "response": result}}


def _key(app: str, user: str, session: str) -> str:
    return f"{app}/{user}/{session}"


async def main() -> None:
    app = web.Application()
    app.add_routes(Rust(Sessions(os.environ.get("SESSIONS"))).routes())
    running = web.AppRunner(app, access_log=None)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", int(os.environ.get("PORT", "0")), reuse_address=True).start()
    print(running.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
