"""The local Slack. With `async with FakeSlack(App(…)) as slack` it listens on a free port of loopback."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar, Unpack

from aiohttp import web

from adk_confirm.sandbox.methods.call import CallRecord
from adk_confirm.sandbox.people import waiting
from adk_confirm.sandbox.people.gestures import Gestures
from adk_confirm.sandbox.people.people import Person
from adk_confirm.sandbox.server.delivery import Delivery, Outbox
from adk_confirm.sandbox.server.faults import Faults
from adk_confirm.sandbox.server.hooks import Hooks
from adk_confirm.sandbox.server.payloads import Payloads
from adk_confirm.sandbox.server.rates import Rates
from adk_confirm.sandbox.server.sockets import SocketMode
from adk_confirm.sandbox.server.storage import Storage
from adk_confirm.sandbox.server.web_api import WebApi
from adk_confirm.sandbox.workspace.clock import Clock
from adk_confirm.sandbox.workspace.directory import UserFlags
from adk_confirm.sandbox.workspace.records import Channel, Install, Team
from adk_confirm.sandbox.workspace.registration import App
from adk_confirm.sandbox.workspace.workspace import Workspace

T = TypeVar("T")


class FakeSlack:
    """One app, installed in one workspace. Raises `OSError` if its port is taken."""

    def __init__(self, app: App, *, team: str = "Acme", port: int = 0) -> None:
        self.workspace = Workspace(app)
        payloads = Payloads(self.workspace)
        self.socket = SocketMode(self.workspace.app, self.workspace.changes)
        self.outbox = Outbox(self.workspace, payloads, self.socket)
        self.api = WebApi(self.workspace, self.outbox.event, self.socket.open)
        self.gestures = Gestures(self.workspace, payloads, self.outbox)
        self.hooks = Hooks(self.workspace, self.gestures, self.api.faults)
        self.storage = Storage(self.workspace, self.api.faults)
        self.team: Team = self.workspace.directory.add_team(team, id=f"T0{team.upper()}")
        self.install: Install = self.workspace.directory.install(self.team)
        self._port = port
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self.routes(), access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, "127.0.0.1", self._port).start()
        except OSError:
            await self._runner.cleanup()
            raise
        self.base = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.faults.clear()
        await self.socket.close()
        await self.outbox.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def hang_up(self) -> int:
        """Closes every connection that the app keeps open. Returns how many there were."""
        assert self._runner is not None
        assert self._runner.server is not None
        kept = [each.transport for each in self._runner.server.connections if each.transport is not None]
        for transport in kept:
            transport.close()
        return len(kept)

    def routes(self) -> web.Application:
        """The routes for apps. A page adds its own."""
        served = web.Application(client_max_size=16 * 1024 * 1024)
        served.router.add_route("*", "/api/{method}", self.api.handle)
        served.router.add_get("/link/", self.socket.handle)
        served.router.add_get("/files-pri/{file}/{name}", self.storage.download)
        for family in ("actions", "commands", "app"):
            served.router.add_post(f"/{family}/{{secret}}", self.hooks.handle)
        return served

    # What the app under test is configured with

    @property
    def base(self) -> str:
        return self.api.base

    @base.setter
    def base(self, base: str) -> None:
        self.api.base = self.socket.base = self.gestures.base = base

    @property
    def url(self) -> str:
        """For `SLACK_API_URL` and the SDK's `base_url`."""
        return f"{self.base}/api/"

    @property
    def bot_token(self) -> str:
        return self.install.token

    @property
    def app_token(self) -> str:
        return self.workspace.app.app_token

    @property
    def signing_secret(self) -> str:
        return self.workspace.app.signing_secret

    def sends_to(self, request_url: str) -> None:
        """Where the app listens, unless it connects in Socket Mode."""
        self.outbox.request_url = request_url

    def revokes(self, install: Install) -> None:
        """The token stops working."""
        install.revoked = True
        self.workspace.changes.tell("install", team=install.team_id)

    async def verifies_url(self) -> bool:
        """What Slack does when somebody enters the request URL: the app must return the challenge."""
        challenge = secrets.token_hex(8)
        body = json.dumps(
            {"token": self.workspace.app.verification_token, "challenge": challenge, "type": "url_verification"}
        )
        reply = await self.outbox.post(body, self.outbox.signed(body, "application/json"))
        return reply.status == 200 and challenge in reply.text

    # People and places

    def person(self, name: str, *, team: Team | None = None, id: str = "", **flags: Unpack[UserFlags]) -> Person:  # noqa: A002
        user = self.workspace.directory.add_user(team or self.team, name, id=id, **flags)
        return Person(user.id, self.workspace, self.gestures, self.until)

    def channel(
        self,
        name: str,
        *people: Person,
        with_app: bool = True,
        private: bool = False,
        id: str = "",  # noqa: A002 - Slack's word
        shared_with: tuple[Team, ...] = (),
    ) -> Channel:
        members = [person.id for person in people] + ([self.install.bot_user_id] if with_app else [])
        return self.workspace.directory.add_channel(
            self.team, name, members=tuple(members), private=private, id=id,
            shared_with=tuple(team.id for team in shared_with),
        )  # fmt: skip

    def group(self, handle: str, *people: Person, id: str = "", disabled: bool = False) -> str:  # noqa: A002
        """Creates or replaces a user group. Returns its id."""
        members = tuple(person.id for person in people)
        return self.workspace.directory.set_group(self.team, handle, members, id=id, disabled=disabled).id

    # What happened

    @property
    def clock(self) -> Clock:
        return self.workspace.clock

    @property
    def faults(self) -> Faults:
        return self.api.faults

    @property
    def rates(self) -> Rates:
        return self.api.rates

    @property
    def calls(self) -> list[CallRecord]:
        return self.api.calls

    @property
    def deliveries(self) -> list[Delivery]:
        return self.outbox.deliveries

    def calls_of(self, method: str) -> list[CallRecord]:
        return [made for made in self.calls if made.method == method]

    async def repeats(self, delivery: Delivery) -> Delivery:
        """Delivers the same again, as a network may do: same body, new signature."""
        return await self.outbox.deliver(delivery.kind, delivery.body, attempt=delivery.attempt)

    async def until(self, look: Callable[[], T | None], *, timeout: float = waiting.PATIENCE, what: str = "it") -> T:
        """Returns what `look` finds, as soon as it finds something. It looks after every change."""
        scene = functools.partial(waiting.scene, self.workspace, self.calls, self.deliveries)
        return await waiting.until(self.workspace, look, timeout=timeout, what=what, scene=scene)

    async def settled(self) -> None:
        """Waits until no event is being delivered."""
        await self.outbox.settled()
