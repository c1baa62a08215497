"""Slack in a storm: the sandbox's Slack without HTTP, as replicas reach it and as it reaches them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from http import HTTPStatus
from random import Random
from typing import TYPE_CHECKING, Any, cast

import aiohttp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adk_confirm.blocks.click_ids import CardMark, parse_mark
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.sandbox.methods.call import CallRecord
from adk_confirm.sandbox.reading import JsonObject
from adk_confirm.sandbox.refusals import ApiRefusal
from adk_confirm.sandbox.server.api_request import ApiRequest
from adk_confirm.sandbox.server.delivery import Delivery
from adk_confirm.sandbox.server.server import FakeSlack
from tests.storms.faults import Weather
from tests.storms.loop import StormLoop

if TYPE_CHECKING:
    from tests.storms.office import Office, Replica


class StormClient:
    """What the product has of Slack's SDK: `api_call`."""

    base_url = "https://slack.example/api/"
    retry_handlers: list[object] = []  # noqa: RUF012  (the product replaces it)
    session: object = None
    _logger: object = None

    def __init__(self, wire: SlackWire, replica: Replica) -> None:
        self._wire, self._replica = wire, replica
        self.token = wire.slack.bot_token

    async def api_call(
        self,
        method: str,
        *,
        http_verb: str = "POST",  # noqa: ARG002  (the SDK's)
        params: Mapping[str, Any] | None = None,
        json: Mapping[str, Any] | None = None,
    ) -> AsyncSlackResponse:
        return await self._wire.call(self._replica, method, dict(params or json or {}))

    async def auth_test(self) -> AsyncSlackResponse:
        return await self.api_call("auth.test")


class StormSlack(Slack):
    async def _call_once(self, method: Any, given: JsonObject) -> JsonObject:
        replica = cast("StormClient", self.client)._replica
        store = replica.office.store
        if self._lease is not None and (not store.held_by(self._lease) or store.is_over(self._lease)):
            replica.office.watch.unheld(replica, self._lease, method.name)
        return await super()._call_once(method, given)

    async def respond(self, *_: object, **__: object) -> bool:
        """Lists that are drawn again: nothing that is promised depends on it."""
        return True


class SlackWire:
    def __init__(self, slack: FakeSlack, loop: StormLoop, dice: Random, weather: Weather) -> None:
        self.slack, self._loop, self._dice, self._weather = slack, loop, dice, weather

    def latency(self) -> float:
        return self._dice.choice((0.005, 0.02, 0.05, 0.2)) * (0.5 + self._dice.random())

    async def call(self, replica: Replica, method: str, given: JsonObject) -> AsyncSlackResponse:
        """A call takes its way, is done, and its answer takes its way back. Slack goes on if the caller does not."""
        loop, weather, world = self._loop, self._weather, self._loop.world.context
        answer: asyncio.Future[tuple[int, JsonObject, dict[str, str]]] = loop.create_future()
        there, back = self.latency(), self.latency()
        fault = weather.take("Slack says 429", "Slack fails", "Slack cuts", "Slack is slow", method=method)
        fault = fault or weather.take("Slack is late", "Slack answers late", method=method)
        kind = fault.kind if fault else ""
        if fault is not None and kind in ("Slack is slow", "Slack is late"):
            there += fault.seconds
        if fault is not None and kind in ("Slack is slow", "Slack answers late"):
            back += fault.seconds
        args = cast("JsonObject", json.loads(json.dumps(given)))
        replica.office.watch.sends(replica, method, args)

        fails = fault is not None and kind in ("Slack fails", "Slack cuts") and not fault.acted

        def arrive() -> None:
            if kind == "Slack says 429":
                assert fault is not None
                after = max(1, round(fault.seconds))
                replica.office.watch.refused(args)
                done = 429, cast("JsonObject", {"ok": False, "error": "ratelimited"}), {"Retry-After": str(after)}
            elif fails or (method == "users.info" and args["user"] in replica.office.unknown):
                done = 500, {}, {}
            else:
                done = self._act(replica, method, args)
                if kind in ("Slack fails", "Slack cuts"):
                    done = 500, {}, {}
            office = replica.office
            if done[0] == HTTPStatus.OK and method == "chat.postMessage" and weather.take("Slack loses"):
                office.loses(str(done[1]["channel"]), str(done[1]["ts"]))
                replica.office.watch.refused(args)  # whoever asks for it hears that it is not there
            if office.store.told is not None:
                office.store.told(replica, f"{method} {json.dumps(args)[:200]}: {done[0]} {done[1].get('error', '')}")
            loop.call_later(back, give, done, context=world)

        def give(done: tuple[int, JsonObject, dict[str, str]]) -> None:
            if answer.done():
                return
            if kind in ("Slack cuts", "Slack is late"):
                answer.set_exception(aiohttp.ServerDisconnectedError())
            else:
                answer.set_result(done)

        loop.call_later(there, arrive, context=world)
        if kind == "Slack is late":  # the caller hears at once that it was cut, and Slack does it later
            loop.call_later(back, give, (0, {}, {}), context=world)
        status, data, headers = await answer
        response = AsyncSlackResponse(
            client=cast("Any", None),
            http_verb="POST",
            api_url=method,
            req_args={},
            data=cast("Any", data),
            headers=headers,
            status_code=status,
        )
        return cast("AsyncSlackResponse", response.validate())  # type: ignore[no-untyped-call]

    def _act(self, replica: Replica, method: str, args: JsonObject) -> tuple[int, JsonObject, dict[str, str]]:
        api = self.slack.api
        made = CallRecord(method, args, self._loop.now, self.slack.install.team_id)
        api.calls.append(made)
        try:
            answer = api._run(method, ApiRequest(args, self.slack.bot_token, "", ""))
        except ApiRefusal as refused:
            replica.office.watch.refused(args)
            made.status, made.answer = refused.status, refused.body()
            return refused.status, refused.body(), dict(refused.headers or {})
        made.status, made.answer, made.acted = 200, answer, True
        self.slack.workspace.changes.tell("call", team=made.team_id)
        if method in ("chat.postMessage", "chat.update"):
            message = self.slack.workspace.messages.find(str(answer["channel"]), str(answer["ts"]))
            if isinstance(parse_mark(message.metadata), CardMark):
                replica.office.copies.append(message.copy())
            replica.office.struck("post" if method == "chat.postMessage" else "update", replica)
        return 200, cast("JsonObject", json.loads(json.dumps(answer))), {}


async def transmit(office: Office, made: Delivery) -> None:
    """Slack's request reaches one of the replicas, whichever the door chooses."""
    loop, weather = office.loop, office.weather
    office.watch.acts(made)
    await asyncio.sleep(office.wire.latency())
    if weather.take("request is lost"):
        raise ConnectionResetError
    if fault := weather.take("request is late"):
        await asyncio.sleep(fault.seconds)
    up = [one for one in office.replicas if one.bolt is not None]
    if not up:
        raise ConnectionRefusedError
    replica = office.dice.choice(up)
    waiting = [_serve(office, replica, made)]
    if weather.take("request comes twice"):
        waiting.append(_serve(office, office.dice.choice(up), made))
    status, text = await waiting[0]
    await asyncio.sleep(office.wire.latency())
    made.status, made.answer = status, text
    assert loop is asyncio.get_running_loop()


def _serve(office: Office, replica: Replica, made: Delivery) -> asyncio.Future[tuple[int, str]]:
    answer: asyncio.Future[tuple[int, str]] = office.loop.create_future()
    bolt = replica.bolt
    headers = {"content-type": ["application/json"]}
    if made.attempt:
        headers["x-slack-retry-num"] = [str(made.attempt)]
    request = AsyncBoltRequest(body=json.dumps(made.body), headers=cast("Any", headers))

    async def serve() -> None:
        assert bolt is not None
        try:
            response = await bolt.async_dispatch(request)
        except Exception:  # noqa: BLE001  (an HTTP server answers 500)
            status, text = 500, ""
        else:
            status, text = response.status, response.body or ""
        if status == 200:
            office.acked(replica, made)
        if not answer.done():
            answer.set_result((status, text))

    replica.requests = [one for one in replica.requests if not one.done()]
    replica.requests.append(answer)
    office.loop.create_task(serve(), context=replica.process.context)
    return answer
