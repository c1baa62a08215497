"""A stranger who can reach the server's port, and answers the requests that wait there."""

from __future__ import annotations

import aiohttp

from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, SessionId
from adk_confirm.sandbox.people.seen import Seen
from tests.support.foreign.rig import Foreign
from tests.support.office import Staff


def session_of(at: Staff, seen: Seen) -> SessionId:
    """The agent's session behind a thread that ann began."""
    team = at.ann.user.team_id
    return SessionId("clerk", f"slack-{team}-{at.ann.id}", f"slack-{team}-{seen.channel}-{seen.thread}")


async def answered_by_others(server: Foreign, at: Staff, card: Seen, *, confirmed: bool, takes: int = 200) -> None:
    """Sends an answer without the bot. `takes`: the server's response to it."""
    (asked,) = await asked_there(server, at, card)
    given: JsonObject = {"id": asked, "name": REQUEST_CONFIRMATION, "response": {"confirmed": confirmed}}
    await sent_by_others(server, at, card, given, takes)


async def asked_there(server: Foreign, at: Staff, card: Seen) -> list[Json]:
    """The ids of the requests in the session."""
    asking = [one.get("functionCall") or one.get("functionResponse") or {} for one in await parts_of(server, at, card)]
    return [as_object(one)["id"] for one in asking if as_object(one).get("name") == REQUEST_CONFIRMATION]


async def parts_of(server: Foreign, at: Staff, card: Seen) -> list[JsonObject]:
    """The parts of the session's events."""
    async with aiohttp.ClientSession(server.url) as http, http.get(_place_of(at, card)) as response:
        events = (await response.json())["events"]
    return [part for event in events for part in (event.get("content") or {}).get("parts") or ()]


async def forgotten_by_others(server: Foreign, at: Staff, card: Seen) -> None:
    """Deletes the session without the bot."""
    async with aiohttp.ClientSession(server.url) as http, http.delete(_place_of(at, card)) as response:
        assert response.ok


async def sent_by_others(server: Foreign, at: Staff, card: Seen, given: JsonObject, takes: int = 200) -> None:
    """Sends a function response without the bot."""
    await _sent(server, at, card, {"functionResponse": given}, takes)


async def told_by_others(server: Foreign, at: Staff, card: Seen, text: str) -> None:
    """Says this to the agent without the bot."""
    await _sent(server, at, card, {"text": text}, 200)


async def _sent(server: Foreign, at: Staff, card: Seen, part: JsonObject, takes: int) -> None:
    session = session_of(at, card)
    body = {
        "appName": session.app,
        "userId": session.user_id,
        "sessionId": session.id,
        "newMessage": {"role": "user", "parts": [part]},
    }
    async with aiohttp.ClientSession(server.url) as http, http.post("/run", json=body) as ran:
        assert ran.status == takes
        await ran.read()


def _place_of(at: Staff, card: Seen) -> str:
    session = session_of(at, card)
    return f"/apps/{session.app}/users/{session.user_id}/sessions/{session.id}"
