"""An agent on a server of others, as ADK's are: it keeps its own sessions, and whoever calls it may be cut off.

It runs whatever it is told to run, as often as it is told: that nothing runs twice is left to the bot.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adk_confirm.bot.hosts.host import SENT_WITHIN, DeliveryUnknown, ServerInfo, Unreachable
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, Content, SessionId
from bench.chaos.agent import _call
from bench.chaos.plan import TOOLS
from tests.storms.faults import Fault

if TYPE_CHECKING:
    from tests.storms.office import Office, Replica

PATIENCE = 12.0
"""Longer than a lease, as it is with everybody: another process may go on while what was sent is still on its way."""
_ASKS: JsonObject = {"error": "This tool call requires confirmation, please approve or reject."}
_NO: JsonObject = {"error": "This tool call is rejected."}


class ForeignAgents:
    """The server itself. Nothing that a replica meets stops it."""

    def __init__(self, office: Office) -> None:
        self._office = office
        self.sessions: dict[SessionId, list[JsonObject]] = {}

    async def runs(self, session: SessionId, message: JsonObject, extra: JsonObject, out: asyncio.Queue[Any]) -> None:
        """A run that was begun ends within what whoever sent it waits for."""
        until = self._office.loop.now + PATIENCE
        events, turn = self.sessions.get(session), f"e-{uuid.uuid4()}"
        if events is None:
            out.put_nowait(Unreachable("There is no such session."))
            return

        def put(author: str, *parts: JsonObject, **more: Any) -> None:
            made: JsonObject = {"id": str(uuid.uuid4()), "author": author, "invocationId": turn, **more}
            made |= {"timestamp": self._office.loop.now, "content": {"role": author, "parts": [*parts]}}
            events.append(made)
            out.put_nowait(made)

        parts: Any = message["parts"]
        put("user", *parts, **({"customMetadata": extra["customMetadata"]} if extra.get("customMetadata") else {}))
        out.get_nowait()  # a server tells nobody what they have said
        given = [part["functionResponse"] for part in parts if "functionResponse" in part]
        for one in given:
            self._office.watch.answered(one["id"], confirmed=bool(one["response"].get("confirmed")))
        if given:
            results = [await self._answered(events, one, put) for one in given]
            await self._thinks(until)
            put("chaos", {"text": "\n".join(f"{name} came to {canonical(result)}" for name, result in results)})
        else:
            await self._hears("\n".join(part.get("text", "") for part in parts), put, until)
        out.put_nowait(None)

    async def _thinks(self, until: float) -> None:
        if fault := self._office.weather.take("agent thinks"):
            await asyncio.sleep(max(0.0, min(fault.seconds, until - 0.5 - self._office.loop.now)))

    async def _hears(self, text: str, put: Any, until: float) -> None:
        lines = [line.strip() for line in text.splitlines()]
        for line in lines:
            if line.startswith("think "):
                await asyncio.sleep(float(line.split()[1]))
        await self._thinks(until)
        found = [one for line in lines if (one := _call(line, {tool.name for tool in TOOLS})) is not None]
        if not found:
            put("chaos", {"text": f"You said {' '.join(line for line in lines if not line.startswith('think '))}."})
            return
        calls: list[JsonObject] = [{"id": f"adk-{uuid.uuid4()}", "name": one.name, "args": one.args} for one in found]
        put("chaos", *({"functionCall": call} for call in calls))
        asks: list[JsonObject] = [
            {
                "id": f"adk-{uuid.uuid4()}",
                "name": REQUEST_CONFIRMATION,
                "args": {
                    "originalFunctionCall": call,
                    "toolConfirmation": {"hint": f"Approve execution of tool {call['name']}?", "confirmed": False},
                },
            }
            for call in calls
        ]
        put("chaos", *({"functionCall": one} for one in asks), longRunningToolIds=[one["id"] for one in asks])
        put("chaos", *(_response(call, _ASKS) for call in calls))

    async def _answered(self, events: list[JsonObject], given: Any, put: Any) -> tuple[str, JsonObject]:
        """Runs an approved call, also if it was approved before."""
        asks = next(
            part["functionCall"]
            for event in events
            for part in _parts(event)
            if part.get("functionCall", {}).get("id") == given["id"]
        )
        call = asks["args"]["originalFunctionCall"]
        if not given["response"].get("confirmed"):
            put("chaos", _response(call, _NO))
            return str(call["name"]), _NO
        args = call["args"]
        self._office.ran("begins", call["name"], args["ticket"], args["amount"], call["id"])
        await asyncio.sleep(args["takes"])
        self._office.ran("ends", call["name"], args["ticket"], args["amount"], call["id"])
        result: JsonObject = {"ticket": args["ticket"], "amount": args["amount"]}
        put("chaos", _response(call, result))
        return str(call["name"]), result


def _parts(event: JsonObject) -> list[Any]:
    content: Any = event["content"]
    return list(content["parts"])


def _response(call: JsonObject, response: JsonObject) -> JsonObject:
    return {"functionResponse": {"id": call["id"], "name": call["name"], "response": response}}


class ForeignServer:
    """The way of a replica to it."""

    app, patience = "chaos", PATIENCE + SENT_WITHIN

    def __init__(self, agents: ForeignAgents, replica: Replica) -> None:
        self._office, self._agents, self._replica = replica.office, agents, replica

    async def about(self) -> ServerInfo:
        return ServerInfo(name="a storm's agents", metadata=True)

    async def events(self, session: SessionId) -> list[JsonObject] | None:
        await self._goes()
        found = self._agents.sessions.get(session)
        copy: list[JsonObject] | None = None if found is None else json.loads(json.dumps(found))
        self._office.struck("look", self._replica)
        await asyncio.sleep(self._office.wire.latency())
        return copy

    async def create(self, session: SessionId) -> None:
        await self._goes()
        self._agents.sessions.setdefault(session, [])

    async def run(self, session: SessionId, message: Content, extra: JsonObject) -> AsyncIterator[JsonObject]:
        """The server goes on with what was sent to it, whoever listens."""
        office, weather = self._office, self._office.weather
        chain = f"{session.app}/{session.user_id}/{session.id}"
        if office.store.lost(chain, self._replica):
            office.watch.sends_for_others(self._replica, chain)
        if weather.take("agent is away"):
            await self._away()
        said = json.loads(json.dumps(message.to_dict()))
        office.watch.reaches(said["parts"])
        cut, late, out = weather.take("agent is cut"), weather.take("agent is late"), asyncio.Queue[Any]()
        if any("functionResponse" in part for part in said["parts"]):
            late = late or weather.take("decision is late")
        if cut is not None and not cut.acted:
            await asyncio.sleep(office.wire.latency())
            raise DeliveryUnknown("The connection broke.")
        work = self._agents.runs(session, said, extra, out)
        if late is not None:  # whoever sent it hears that the connection broke, and it arrives nevertheless
            office.goes_on(max(office.wire.latency(), min(late.seconds, PATIENCE)), work)
            office.struck("tell", self._replica)
            if late.acted:  # and is stopped, so that another process goes on at once
                office.strikes(Fault("restart", 0.0), self._replica)
            raise DeliveryUnknown("The connection broke.")
        way, goes_on = office.wire.latency(), weather.take("agent goes on")
        office.goes_on(way, work)
        office.struck("tell", self._replica)
        if goes_on is not None:  # it breaks while the agent thinks
            weather.arm(replace(goes_on, kind="agent thinks", count=1, times=1))
            await asyncio.sleep(way + 0.01)
            raise DeliveryUnknown("The connection broke.")
        for count in itertools.count():
            if cut is not None and count >= cut.times:
                await asyncio.sleep(2 * office.wire.latency())
                raise DeliveryUnknown("The connection broke.")
            if (event := await out.get()) is None:
                return
            if isinstance(event, Exception):
                raise event
            await asyncio.sleep(office.wire.latency())
            yield json.loads(json.dumps(event))

    async def close(self) -> None: ...

    async def _goes(self) -> None:
        if self._office.weather.take("agent is away"):
            await self._away()
        await asyncio.sleep(self._office.wire.latency())

    async def _away(self) -> None:
        await asyncio.sleep(self._office.wire.latency())
        raise Unreachable("It can't be reached.", again_after=1.0)
