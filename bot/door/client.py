"""A caller's side of the door: sends each request until it is answered, with the same key, so that it counts once."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp

from adk_confirm.runtime.errors import ConfirmError, Invalid, why_unreached
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text

WAIT = 45.0
"""Seconds that one request waits for people."""
_LONGEST, _PAUSE = 60.0, 1.0


class NoDesk(ConfirmError):
    """The door can't be reached, or does not take what this caller asks."""


class Refused(ConfirmError):
    """The door says no to one request: somebody else has claimed the call, or it is over."""


@dataclass(frozen=True)
class DoorClient:
    """Sends a caller's requests. `patience`: for how many seconds it tries a door that does not answer."""

    http: aiohttp.ClientSession
    url: str
    patience: float

    async def send(self, method: str, path: str, body: JsonObject | None = None, key: str = "") -> JsonObject:
        """The answer. Raises `Refused` for a conflict, and `NoDesk` for what no repetition would change."""
        until, headers = time.monotonic() + self.patience, {"Idempotency-Key": key} if key else {}
        while True:
            try:
                async with self.http.request(method, f"{self.url}{path}", json=body, headers=headers) as answer:
                    said, status = as_object(await answer.json(content_type=None)), answer.status
            except (aiohttp.ClientError, OSError, ValueError) as error:
                why = "what answers there sends no JSON" if isinstance(error, ValueError) else why_unreached(error)
                said, status = {"error": {"message": f"No answer from {self.url}: {why}."}}, 503
            if status < 400 and said.keys() & {"task", "tools"}:
                return said
            sentence = as_text(as_object(said.get("error")).get("message"))
            why = sentence or f"What answers at {self.url} is no door ({status})."
            if status == 409:
                raise Refused(why)
            if status not in (429, 503) or time.monotonic() >= until:
                raise NoDesk(why)
            await asyncio.sleep(_PAUSE)

    async def ask(self, body: JsonObject, key: str, wait: float, until: str = "decided") -> JsonObject:
        """Asks, and returns what became of it after at most this many seconds."""
        end = time.monotonic() + wait
        said = await self.send("POST", f"/v1/asks?{_waiting(end, until)}", body, key)
        while not is_over(said, until) and time.monotonic() < end:
            at = as_text(as_object(said["task"]).get("status_endpoint"))
            said = await self.send("GET", f"{at}?{_waiting(end, until)}")
        return said


def _waiting(end: float, until: str) -> str:
    return f"wait={max(1, round(min(WAIT, end - time.monotonic())))}s&until={until}"


def is_over(said: JsonObject, until: str = "decided") -> bool:
    """Whether what is waited for has come: a decision, or the end of the call."""
    task = as_object(said.get("task"))
    return task.get("over") is True if until == "over" else task.get("status") != "pending"


@asynccontextmanager
async def door_client(url: str, token: str, patience: float) -> AsyncIterator[DoorClient]:
    if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", url):
        raise Invalid(f"{url!r} is no address of a door. Write one such as http://127.0.0.1:3001.")
    timeout = aiohttp.ClientTimeout(total=_LONGEST)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}, timeout=timeout) as http:
        yield DoorClient(http, url.rstrip("/"), patience)
