"""A stranger who can reach the server's port, and answers the requests that wait there."""

from __future__ import annotations

import aiohttp

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
    session = session_of(at, card)
    async with aiohttp.ClientSession(server.url) as http:
        there = f"/apps/{session.app}/users/{session.user_id}/sessions/{session.id}"
        async with http.get(there) as response:
            events = (await response.json())["events"]
        parts = [part for event in events for part in (event.get("content") or {}).get("parts") or ()]
        calls = [part["functionCall"] for part in parts if part.get("functionCall")]
        (asked,) = [call["id"] for call in calls if call["name"] == REQUEST_CONFIRMATION]
        given = {"id": asked, "name": REQUEST_CONFIRMATION, "response": {"confirmed": confirmed}}
        body = {
            "appName": session.app,
            "userId": session.user_id,
            "sessionId": session.id,
            "newMessage": {"role": "user", "parts": [{"functionResponse": given}]},
        }
        async with http.post("/run", json=body) as ran:
            assert ran.status == takes
            await ran.read()
