"""Deliveries to the app: signed HTTP requests or Socket Mode envelopes. Each has 3 s; events are retried."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Literal, NamedTuple
from urllib.parse import urlencode

import aiohttp

from adk_confirm.sandbox.reading import Json, JsonObject, as_object
from adk_confirm.sandbox.server.payloads import Payloads, name_of
from adk_confirm.sandbox.server.sockets import ConnectionLost, SocketMode
from adk_confirm.sandbox.workspace.messages import Happening
from adk_confirm.sandbox.workspace.records import Channel, Install, User
from adk_confirm.sandbox.workspace.workspace import Workspace

Kind = Literal["events_api", "interactive", "slash_commands"]
ACK_WITHIN = 3.0
RETRIES_AFTER = (0.0, 60.0, 300.0)
_ROBOT = "Slackbot 1.0 (+https://api.slack.com/robots)"


def sign(secret: str, timestamp: str, body: str) -> str:
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:{body}".encode(), hashlib.sha256).hexdigest()
    return f"v0={digest}"


@dataclass(slots=True)
class Delivery:
    """One attempt to deliver something to the app, and the app's answer."""

    kind: Kind
    what: str
    body: JsonObject
    at: float
    attempt: int = 0
    reason: str = ""
    status: int | None = None
    answer: str = ""
    acked_after: float | None = None
    no_retry: bool = False
    """The app asked not to retry (`X-Slack-No-Retry`)."""

    @property
    def acked(self) -> bool:
        return self.status is not None and 200 <= self.status < 300

    @property
    def json(self) -> JsonObject:
        try:
            parsed: Json = json.loads(self.answer)
        except ValueError:
            return {}
        return as_object(parsed)


class Reply(NamedTuple):
    status: int
    text: str
    no_retry: bool


class Outbox:
    ack_within = ACK_WITHIN
    """Tests raise it: on a busy machine an app may need longer than Slack allows."""

    def __init__(self, workspace: Workspace, payloads: Payloads, socket: SocketMode) -> None:
        self._workspace = workspace
        self.payloads = payloads
        self._socket = socket
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None] | None] = set()
        self._app_is_there = asyncio.Event()
        self.request_url = ""
        self.retries_after: tuple[float, ...] = RETRIES_AFTER
        self.deliveries: list[Delivery] = []
        workspace.messages.listeners.append(self._deliver_events)
        workspace.directory.listeners.append(self._user_changed)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def event(self, install: Install, event: JsonObject, channel: Channel | None = None) -> None:
        """An event for one installation, if the app subscribed to it; delivered until it is acknowledged."""
        if event["type"] in self._workspace.app.events:
            self._start(self._until_acked(self.payloads.envelope(install, event, channel)))

    async def deliver(self, kind: Kind, body: JsonObject, *, attempt: int = 0, reason: str = "") -> Delivery:
        """One attempt. Clicks, views and commands get only one. The `body` of a command is its form."""
        made = Delivery(kind, name_of(body), body, self._workspace.clock.now(), attempt, reason)
        self.deliveries.append(made)
        self._workspace.changes.tell("delivery")
        started = time.perf_counter()
        try:
            await self._workspace.clock.within(self.ack_within, self._transmit(made))
            made.acked_after = time.perf_counter() - started if made.acked else None
        except TimeoutError:
            made.reason = made.reason or "http_timeout"
        except (aiohttp.ClientError, ConnectionLost, ConnectionError):
            made.reason = made.reason or "connection_failed"
        self._workspace.changes.tell("delivery")
        return made

    async def post(self, body: str, headers: dict[str, str]) -> Reply:
        """A request that did not come from Slack: forged, stale or broken."""
        async with self._http().post(self.request_url, data=body.encode(), headers=headers) as answer:
            return Reply(answer.status, await answer.text(), answer.headers.get("X-Slack-No-Retry") == "1")

    def signed(self, body: str, content_type: str, *, timestamp: str = "") -> dict[str, str]:
        timestamp = timestamp or str(int(time.time()))
        return {
            "Content-Type": content_type,
            "User-Agent": _ROBOT,
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": sign(self._workspace.app.signing_secret, timestamp, body),
        }

    async def settled(self) -> None:
        """Waits until everything that is due now is delivered. Retries in a minute do not count."""
        while self._working:
            seen = self._workspace.changes.number
            await self._workspace.changes.after(seen)

    def app_is_there(self) -> None:
        """Events that wait for their next attempt are delivered now. Slack itself would let them wait."""
        waited_for, self._app_is_there = self._app_is_there, asyncio.Event()
        waited_for.set()

    async def _transmit(self, made: Delivery) -> None:
        if self._socket.connections:
            payload = await self._socket.send(made.kind, made.body, made.attempt, made.reason)
            made.status, made.answer = 200, payload if isinstance(payload, str) else _dump(payload)
            return
        if not self.request_url:
            raise ConnectionRefusedError("the app has no request URL and no socket")
        body, content_type = _encode(made)
        headers = self.signed(body, content_type)
        if made.attempt:
            headers |= {"X-Slack-Retry-Num": str(made.attempt), "X-Slack-Retry-Reason": made.reason}
        made.status, made.answer, made.no_retry = await self.post(body, headers)

    async def _until_acked(self, body: JsonObject) -> None:
        there = self._app_is_there
        made = await self.deliver("events_api", body)
        for attempt, pause in enumerate(self.retries_after, 1):
            if made.acked or made.no_retry:
                return
            if pause:
                await self._pause(pause, there)
            there = self._app_is_there
            reason = made.reason if made.status is None else "http_error"
            made = await self.deliver("events_api", body, attempt=attempt, reason=reason)

    def _deliver_events(self, happening: Happening) -> None:
        channel = happening.channel
        for team_id in sorted(channel.teams):
            install = self._workspace.directory.installed_in(team_id)
            if install is not None and install.bot_user_id in channel.members:
                for event in self.payloads.events_of(happening, install):
                    self._start(self._until_acked(self.payloads.envelope(install, event, channel)))
                return

    def _user_changed(self, user: User) -> None:
        install = self._workspace.directory.installed_in(user.team_id)
        if install is not None:
            profile = user.to_json(self._workspace.clock.now(), install.team_id, with_email=True)
            self.event(install, {"type": "user_change", "user": profile})

    async def _pause(self, pause: float, there: asyncio.Event) -> None:
        task = asyncio.current_task()
        self._stops_working(task)
        with contextlib.suppress(TimeoutError):
            await self._workspace.clock.within(pause, there.wait())
        self._working.add(task)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        self._working.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._stops_working)

    def _stops_working(self, task: asyncio.Task[None] | None) -> None:
        self._working.discard(task)
        self._workspace.changes.tell("delivery")

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
        return self._session


def _encode(made: Delivery) -> tuple[str, str]:
    if made.kind == "events_api":
        return json.dumps(made.body), "application/json"
    form = made.body if made.kind == "slash_commands" else {"payload": json.dumps(made.body)}
    return urlencode(form), "application/x-www-form-urlencoded"


def _dump(payload: Json) -> str:
    return "" if payload is None else json.dumps(payload)
