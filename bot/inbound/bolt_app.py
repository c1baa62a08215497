"""Connects Bolt over signed HTTP or Socket Mode, measures how long each ack takes, and gives clicks priority."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
from collections.abc import Callable
from contextlib import AsyncExitStack
from http import HTTPStatus
from typing import Any

from aiohttp import web
from pydantic import SecretStr
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_bolt.response import BoltResponse
from slack_sdk.signature import SignatureVerifier
from slack_sdk.web.async_client import AsyncWebClient
from yarl import URL

from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.inbound.payloads import NotSlacks, is_ignored
from adk_confirm.bot.slack.own_identity import APP_TOKEN_FIXES, BotIdentity
from adk_confirm.bot.slack.troubles import UNANSWERED, Later, trouble_from
from adk_confirm.bot.telemetry.readiness import Readiness, socket_probe
from adk_confirm.bot.worker.supervision import LAST_REQUESTS, Shutdown, StopDeadline
from adk_confirm.runtime.errors import reason
from adk_confirm.runtime.rest.listening import (
    NOT_ENCODED,
    CannotServe,
    Served,
    body_of,
    headers_of,
    is_encoded,
    listen,
)
from adk_confirm.runtime.store.transaction import goes_first

_WAYS = {"block_actions": "button", "view_submission": "form"}
"""How somebody acted, by what Slack calls it."""


logging.getLogger("slack_bolt.AsyncApp").addFilter(
    # Bolt finds SLACK_BOT_TOKEN in the environment and warns that it does not use it. That is intended.
    lambda record: not str(record.msg).startswith("As you gave `client` as well")
)


log = logging.getLogger(__name__)

NOT_READ = (AttributeError, LookupError, TypeError)
"""What Bolt raises for a body of another shape, before it asks a listener."""

AckMeter = Callable[[str, float, bool], None]
"""Counts an ack: how somebody acted, how many seconds the ack took, and whether the click was stored."""


class TimedApp(AsyncApp):
    """Bolt with a meter for acks. While a click is being answered, its transactions go first. Messages that are
    ignored are only acknowledged."""

    def __init__(self, meter: AckMeter, **settings: Any) -> None:
        super().__init__(**settings)  # Bolt's own
        self._meter = meter

    async def async_dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        if is_ignored(req.body):
            return BoltResponse(status=HTTPStatus.OK)  # our own posts come back: Bolt would ask all of its listeners
        _make_storable(req.body)
        way = "command" if "command" in req.body else _WAYS.get(str(req.body.get("type")))  # nobody waits for an event
        if way is None:
            return await self._dispatch(req)
        began = time.perf_counter()
        with goes_first():
            answer = await self._dispatch(req)
        if answer.status in (HTTPStatus.OK, HTTPStatus.INTERNAL_SERVER_ERROR):
            self._meter(way, time.perf_counter() - began, answer.status == HTTPStatus.OK)
        return answer

    async def _dispatch(self, req: AsyncBoltRequest) -> BoltResponse:
        try:
            return await super().async_dispatch(req)
        except NOT_READ as error:  # Bolt keeps only some errors of its own from its callers
            return await on_error(error) or BoltResponse(status=HTTPStatus.INTERNAL_SERVER_ERROR)


async def on_error(error: Exception) -> BoltResponse | None:
    """Refuses what can't be Slack's, so that it is not sent again. All other errors are answered with 500: Slack tries
    again, or tells the person."""
    if isinstance(error, NotSlacks):
        return refusal(str(error))
    if isinstance(error, NOT_READ) and _is_bolts(error):
        log.warning("Bolt can't read what came: %s", type(error).__name__)
        return refusal("This is not what Slack sends.")
    log.error("a listener failed: %s", reason(error), exc_info=error)
    return None


def _is_bolts(error: Exception) -> bool:
    """Whether Bolt itself raised the error, and not a listener by a wrong call (`slack_bolt.context`)."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    module = str(frame.f_globals.get("__name__"))
    return module.startswith("slack_bolt.") and not module.startswith("slack_bolt.context.")


def refusal(sentence: str) -> BoltResponse:
    return BoltResponse(status=HTTPStatus.BAD_REQUEST, body=json.dumps({"error": sentence}))


def _make_storable(body: dict[str, Any]) -> None:
    """JSON may hold half of a surrogate pair, which is in no text: the ledger and the agent could not take it."""
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        body |= json.loads(json.dumps(body, ensure_ascii=False).encode(errors="replace"))


def bolt(settings: Settings, identity: BotIdentity, meter: AckMeter) -> AsyncApp:
    environment = settings.environment
    secret = environment.signing_secret
    assert environment.bot_token is not None
    token = environment.bot_token.get_secret_value()

    async def authorize(team_id: str | None) -> AuthorizeResult | None:
        """Makes no calls, since a click must not be lost because Slack does not answer. Bolt's own way would call
        `auth.test` between a click and its ack."""
        if team_id != identity.team:
            return None  # Bolt's word for a workspace without the app
        return AuthorizeResult(
            enterprise_id=None, team_id=team_id, bot_user_id=identity.user, bot_id=identity.bot, bot_token=token
        )

    app = TimedApp(
        meter,
        name="adk-confirm",  # without a name Bolt reads its callers' source files to find one
        # Without a token of its own: with one, Bolt asks Slack before the first click, and still acks it if that fails.
        client=AsyncWebClient(base_url=environment.api_url, retry_handlers=[]),
        authorize=authorize,
        user_facing_authorize_error_message="This app is not installed in your workspace: nothing was done.",
        signing_secret=secret.get_secret_value() if secret else None,
        request_verification_enabled=False,  # `http` has checked it over the bytes, before anything else
        ssl_check_enabled=False,
        # A listener does one transaction and then acks. One that fails must answer 500, so that Slack tries again.
        process_before_response=True,
        raise_error_for_unhandled_request=False,
    )
    app.error(on_error)
    return app


async def listen_to_slack(stack: AsyncExitStack, settings: Settings, site: web.Application, stop: Shutdown) -> str:
    """HTTP for Slack's events if there is a signing secret, and always for the operator's probes."""
    served = Served(site, shutdown_timeout=LAST_REQUESTS)
    await served.setup()
    stack.push_async_callback(stop.close_part, "the listener", served.cleanup, StopDeadline.REQUESTS)
    return await listen(served, settings.slack.host, settings.slack.port, "slack.listen")


async def connect(stack: AsyncExitStack, token: SecretStr, app: AsyncApp, stop: Shutdown, readiness: Readiness) -> None:
    handler = AsyncSocketModeHandler(app, token.get_secret_value())
    stack.push_async_callback(stop.close_part, "Socket Mode", handler.close_async, StopDeadline.SOCKET)
    try:
        handler.client.wss_uri = (await app.client.apps_connections_open(app_token=token.get_secret_value()))["url"]
    except UNANSWERED as error:
        trouble = trouble_from("apps.connections.open", error, repeatable=True)
        if not isinstance(trouble, Later):
            fix = APP_TOKEN_FIXES.get(trouble.code, f"was refused ({trouble.code})")
            raise CannotServe(f"SLACK_APP_TOKEN {fix}.") from None
        log.warning("%s", trouble)
    await handler.connect_async()  # type: ignore[no-untyped-call]  # Bolt gives it no types
    readiness.watch("Slack", socket_probe(handler.client))


MOST_BYTES = 3 * 1024 * 1024
MOST_FIELDS = 100
"""The most fields of a form. A slash command has about twenty, everything else one."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")
_OLDEST = 300.0
"""The oldest request that is accepted, in seconds, as Slack recommends, so that nobody can replay a recorded one."""


_UNSIGNED = (
    "A request to /slack/events was refused: its signature or its time does not fit. If Slack sent it, correct "
    "SLACK_SIGNING_SECRET (it is under Basic Information), or this machine's clock."
)
_SAID_EVERY = 60.0
"""Seconds: strangers could fill the log."""


def make_site(app: AsyncApp | None, signing_secret: str | None = None) -> web.Application:
    """The HTTP site. `app` is None if only Socket Mode is used: then Slack sends nothing here. With an app,
    `signing_secret` is needed."""
    site = web.Application(client_max_size=MOST_BYTES)
    if app is not None:
        assert signing_secret
        slack, verifier = app, SignatureVerifier(signing_secret)
        quiet_until = 0.0

        async def events(request: web.Request) -> web.StreamResponse:
            nonlocal quiet_until
            response = await _events(slack, verifier, request)
            if response.status == HTTPStatus.UNAUTHORIZED and time.monotonic() >= quiet_until:
                quiet_until = time.monotonic() + _SAID_EVERY
                log.warning(_UNSIGNED)
            return response

        site.router.add_post("/slack/events", events)
    return site


async def _events(app: AsyncApp, verifier: SignatureVerifier, request: web.Request) -> web.StreamResponse:
    """Answers a request of Slack. If the head alone is wrong, the body is not read, since it may take long to come."""
    if is_encoded(request):
        return _error_response(NOT_ENCODED)
    if not _TIMESTAMP.fullmatch(timestamp := request.headers.get("X-Slack-Request-Timestamp", "")):
        return _error_response("X-Slack-Request-Timestamp is missing or no number.")
    if not _SIGNATURE.fullmatch(signature := request.headers.get("X-Slack-Signature", "")):
        return _error_response("X-Slack-Signature is missing or none.", HTTPStatus.UNAUTHORIZED)
    if abs(time.time() - int(timestamp)) > _OLDEST:
        return _error_response("X-Slack-Request-Timestamp is not of the last five minutes.", HTTPStatus.UNAUTHORIZED)
    try:
        body = (await body_of(request)).decode()  # whatever charset the sender names, Slack sends UTF-8
    except UnicodeDecodeError:
        return _error_response("The body is not UTF-8.")
    if not verifier.is_valid(body, timestamp, signature):
        return _error_response("X-Slack-Signature is not that of this body.", HTTPStatus.UNAUTHORIZED)
    try:
        text = _json_in(body, request.content_type)
        asked = AsyncBoltRequest(body=text, query=request.query_string, headers=headers_of(request))
    except NotSlacks as error:
        return _error_response(str(error))
    except (ValueError, RecursionError):
        return _error_response("The body is not JSON.")
    except NOT_READ:
        return _error_response("This is not what Slack sends.")
    return await to_aiohttp_response(await app.async_dispatch(asked))


def _json_in(body: str, content_type: str) -> str:
    """The JSON in the body, which Bolt reads. A slash command has plain fields instead.

    A click carries its card, in more than a thousand escapes: yarl takes a tenth of the time of Bolt's `parse_qsl`,
    and Bolt takes a command for nothing whose text has the word "payload".
    """
    text = body
    if content_type == "application/x-www-form-urlencoded":
        if body.count("&") >= MOST_FIELDS:
            raise NotSlacks(f"The form has more than {MOST_FIELDS} fields.")
        fields = dict(URL.build(query_string=body, encoded=True).query.items())
        text = fields["payload"] if "payload" in fields else json.dumps(fields)
    if not text.startswith("{"):
        raise NotSlacks("The body is not JSON, or no object.")
    return text


def _error_response(sentence: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> web.Response:
    return web.json_response({"error": sentence}, status=status)
