"""Socket Mode: up to ten connections of one app; each envelope goes to one of them and waits for its ack."""

from __future__ import annotations

import asyncio
import itertools
import json
import secrets
import uuid
from dataclasses import dataclass, field

from aiohttp import WSMsgType, web

from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text
from adk_confirm.sandbox.workspace.changes import Changes
from adk_confirm.sandbox.workspace.registration import App

MOST_CONNECTIONS = 10


class ConnectionLost(Exception):
    """The connection went away before the envelope was acknowledged."""


@dataclass(eq=False, slots=True)
class Connection:
    number: int
    socket: web.WebSocketResponse
    request: web.Request
    silent: bool = False
    waiting: dict[str, asyncio.Future[Json]] = field(default_factory=dict)


class SocketMode:
    def __init__(self, app: App, changes: Changes) -> None:
        self._app = app
        self._changes = changes
        self._tickets: set[str] = set()
        self._numbers = itertools.count(1)
        self._turn = itertools.count()
        self.connections: list[Connection] = []
        self.base = ""

    def open(self) -> str:
        """A WebSocket address that works once."""
        ticket = secrets.token_hex(8)
        self._tickets.add(ticket)
        return f"{self.base.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={self._app.id}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query.get("ticket", "")
        if ticket not in self._tickets:
            return web.Response(status=403, text="invalid ticket")
        self._tickets.discard(ticket)
        if len(self.connections) >= MOST_CONNECTIONS:
            return web.Response(status=429, text="too_many_websockets")
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        connection = Connection(next(self._numbers), socket, request)
        self.connections.append(connection)
        try:
            await socket.send_json(self._hello())
            self._changes.tell("socket")
            await self._listen(connection)
        finally:
            self._forget(connection)
        return socket

    async def send(self, kind: str, body: JsonObject, attempt: int, reason: str) -> Json:
        """The payload of the ack, or None."""
        connection = self.connections[next(self._turn) % len(self.connections)]
        envelope_id = str(uuid.uuid4())
        acked: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        connection.waiting[envelope_id] = acked
        envelope: JsonObject = {
            "type": kind, "envelope_id": envelope_id, "payload": body,
            "accepts_response_payload": kind != "events_api",
        }  # fmt: skip
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        self._changes.tell("socket")
        try:
            if not connection.silent:
                await connection.socket.send_json(envelope)
            return await acked
        except ConnectionError as error:
            raise ConnectionLost from error
        finally:
            connection.waiting.pop(envelope_id, None)

    async def warn(self) -> None:
        """Slack announces that it will disconnect soon."""
        await self._disconnect("warning", closing=False)

    async def refresh(self) -> None:
        """Slack asks for a fresh connection and closes this one, as it does every few hours."""
        await self._disconnect("refresh_requested", closing=True)

    def drop(self) -> None:
        """Every connection breaks without a message."""
        for connection in list(self.connections):
            self._forget(connection)
            if connection.request.transport is not None:
                connection.request.transport.abort()

    def silence(self) -> None:
        """The existing connections stay open but send nothing any more, not even a pong."""
        for connection in self.connections:
            connection.silent = True

    async def close(self) -> None:
        for connection in list(self.connections):
            await connection.socket.close()

    async def _disconnect(self, reason: str, *, closing: bool) -> None:
        for connection in list(self.connections):
            await connection.socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}}
            )
            if closing:
                self._forget(connection)
                await connection.socket.close()

    async def _listen(self, connection: Connection) -> None:
        async for message in connection.socket:
            if message.type == WSMsgType.PING and not connection.silent:
                await connection.socket.pong(message.data)
            if message.type == WSMsgType.TEXT:
                frame: Json = json.loads(message.data)
                acked = connection.waiting.get(as_text(as_object(frame).get("envelope_id")))
                if acked is not None and not acked.done():
                    acked.set_result(as_object(frame).get("payload"))

    def _forget(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)
        for acked in connection.waiting.values():
            if not acked.done():
                acked.set_exception(ConnectionLost())
        self._changes.tell("socket")

    def _hello(self) -> JsonObject:
        return {
            "type": "hello",
            "num_connections": len(self.connections),
            "debug_info": {"host": "sandbox", "build_number": 1, "approximate_connection_time": 18060},
            "connection_info": {"app_id": self._app.id},
        }
