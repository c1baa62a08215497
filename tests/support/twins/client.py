"""A client of ADK's API that keeps a transcript, so that a scene can be played on two servers and compared."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.support.twins.normal import Normal
from tests.support.twins.scenes import Plain, script

REQUEST = "adk_request_confirmation"


@dataclass
class Client:
    """One app's client on one server. It adds everything that it sees to the transcript, normalised."""

    http: aiohttp.ClientSession
    app: str = "clerk"
    user: str = "ada"
    session: str = "s"
    sse: bool = False
    transcript: list[Any] = field(default_factory=list)
    asked: list[Plain] = field(default_factory=list)  # the asking parts of all requests so far, in order
    events: list[Plain] = field(default_factory=list)
    normal: Normal = field(default_factory=Normal)

    @property
    def sessions(self) -> str:
        return f"/apps/{self.app}/users/{self.user}/sessions"

    async def request(self, method: str, path: str, **kwargs: Any) -> tuple[int, Any]:
        """One exchange: the status, and the body as JSON (events for a stream, else text)."""
        async with self.http.request(method, path, **kwargs) as response:
            text = await response.text()
            if response.content_type == "text/event-stream":
                body: Any = [json.loads(line.removeprefix("data: ")) for line in text.split("\n\n") if line]
            elif response.content_type == "application/json":
                body = json.loads(text)
            else:
                body = text
        self.transcript.append([method, path.partition("?")[0], response.status, self.normal.of(body)])
        return response.status, body

    async def create(self, **body: object) -> None:
        await self.request("POST", self.sessions, json={"sessionId": self.session, **body})

    async def say(self, *lines: Plain | list[Plain], **more: object) -> list[Plain]:
        """A message that contains the model's script."""
        return await self.send({"role": "user", "parts": [{"text": script(*lines)}]}, **more)

    async def answer(self, *answers: tuple[str, object], **more: object) -> list[Plain]:
        """Answers requests: each an id and a response."""
        return await self.send(answers_with(*answers), **more)

    async def send(self, message: Plain | None, **more: object) -> list[Plain]:
        """Sends a message. Returns the events that follow; none if it was refused."""
        status, events = await self.post("/run_sse" if self.sse else "/run", message, **more)
        if status != 200:
            return []
        self.events += events
        self.asked += [part for event in events for part in asking_parts(event)]
        return list(events)

    async def post(self, endpoint: str, message: Plain | None, **more: object) -> tuple[int, Any]:
        body: Plain = {"appName": self.app, "userId": self.user, "sessionId": self.session, **more}
        if message is not None:
            body["newMessage"] = message
        return await self.request("POST", endpoint, json=body)

    async def look(self) -> Any:
        """The session, as the server returns it."""
        _, body = await self.request("GET", f"{self.sessions}/{self.session}")
        return body

    def request_id(self, number: int = -1) -> str:
        """The id of a request that was seen; by default the latest."""
        found: str = self.asked[number]["id"]
        return found


def answers_with(*answers: tuple[str, object]) -> Plain:
    """The message with these answers, each an id and a response."""
    parts = [{"functionResponse": {"id": one, "name": REQUEST, "response": given}} for one, given in answers]
    return {"role": "user", "parts": parts}


def responses(events: Iterable[Plain]) -> list[Any]:
    """The responses of tools and people, in order."""
    return [part["functionResponse"]["response"] for part in _parts(events) if "functionResponse" in part]


def texts(events: Iterable[Plain]) -> list[str]:
    return [part["text"] for part in _parts(events) if "text" in part]


def _parts(events: Iterable[Plain]) -> list[Plain]:
    return [part for event in events for part in (event.get("content") or {}).get("parts") or ()]


def asking_parts(event: Plain) -> Iterable[Plain]:
    if event.get("partial"):
        return
    for part in (event.get("content") or {}).get("parts") or ():
        for kind in ("functionCall", "functionResponse"):
            if kind in part and part[kind].get("name") == REQUEST and event.get("author") != "user":
                yield part[kind]
