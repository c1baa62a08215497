"""The bot's HTTP server: Slack's signed requests, and health checks. Bad input gets a clean 4xx, never a 500.

Anybody can send requests here. Until a request's signature is checked, its bytes are only counted and hashed: nothing
is decoded, unpacked or parsed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import time
from http import HTTPStatus

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from yarl import URL

from bot.inbound.shapes import shape_problem
from runtime.jsontypes import JsonObject
from runtime.rest.listening import NOT_ENCODED, body_of, headers_of, is_encoded

MOST_BYTES = 3 * 1024 * 1024
MOST_FIELDS = 100
"""The most fields of a form. A slash command has about twenty, everything else one."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}")
_SIGNATURE = re.compile(r"v0=[0-9a-f]{64}")
_OLDEST = 300.0
"""The oldest request that is accepted, in seconds, as Slack recommends, so that nobody can replay a recorded one."""


def make_site(app: AsyncApp | None, signing_secret: str | None = None) -> web.Application:
    """`app` is None if only Socket Mode is used: then nothing of Slack's is served here. With an app there is a
    secret."""
    site = web.Application(client_max_size=MOST_BYTES)
    if app is not None:
        assert signing_secret
        slack, secret = app, signing_secret.encode()

        async def events(request: web.Request) -> web.StreamResponse:
            return await _events(slack, secret, request)

        site.router.add_post("/slack/events", events)
    site.router.add_get("/healthz", _liveness)
    return site


async def _liveness(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
    return web.Response(text="ok\n")


async def _events(app: AsyncApp, secret: bytes, request: web.Request) -> web.StreamResponse:
    """Checks the shape first, because Bolt answers 500 to JSON that is malformed or not Slack's."""
    if is_encoded(request):
        return _error_response(NOT_ENCODED)
    if not _TIMESTAMP.fullmatch(timestamp := request.headers.get("X-Slack-Request-Timestamp", "")):
        return _error_response("X-Slack-Request-Timestamp is missing or no number.")
    if not _SIGNATURE.fullmatch(signature := request.headers.get("X-Slack-Signature", "")):
        return _error_response("X-Slack-Signature is missing or none.", HTTPStatus.UNAUTHORIZED)
    if abs(time.time() - int(timestamp)) > _OLDEST:
        return _error_response("X-Slack-Request-Timestamp is not of the last five minutes.", HTTPStatus.UNAUTHORIZED)
    body = await body_of(request)
    if not hmac.compare_digest(_signature(secret, timestamp, body), signature):
        return _error_response("X-Slack-Signature is not that of this body.", HTTPStatus.UNAUTHORIZED)
    try:
        text = body.decode()  # whatever charset the sender names, Slack sends UTF-8
    except UnicodeDecodeError:
        return _error_response("The body is not UTF-8.")
    parsed = _read(text, request.content_type)
    if isinstance(parsed, str):
        return _error_response(parsed)
    return await to_aiohttp_response(await app.async_dispatch(_bolt_request(request, text, parsed)))


def _signature(secret: bytes, timestamp: str, body: bytes) -> str:
    return f"v0={hmac.new(secret, b'v0:' + timestamp.encode() + b':' + body, hashlib.sha256).hexdigest()}"


def _bolt_request(request: web.Request, body: str, parsed: JsonObject) -> AsyncBoltRequest:
    """Bolt's request with the body that was read already, since reading it is much of what a click costs."""
    asked = AsyncBoltRequest(body=parsed, query=request.query_string, headers=headers_of(request), mode="socket_mode")
    asked.raw_body, asked.mode = body, "http"  # from here on it looks as if the request had read it
    return asked


def _read(body: str, content_type: str) -> JsonObject | str:
    """What Slack says, or what is wrong with it."""
    text = body
    if content_type == "application/x-www-form-urlencoded":
        if body.count("&") >= MOST_FIELDS:
            return f"The form has more than {MOST_FIELDS} fields."
        # A click carries its card, in more than a thousand escapes: yarl takes a tenth of the time of `parse_qsl`.
        fields: JsonObject = dict(URL.build(query_string=body, encoded=True).query.items())
        payload = fields.get("payload")
        if not isinstance(payload, str):
            return fields  # a slash command, which carries plain fields
        text = payload
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return "The body is not JSON."
    if not isinstance(parsed, dict):
        return "The body must be a JSON object."
    return shape_problem(parsed) or parsed


def _error_response(sentence: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST) -> web.Response:
    return web.json_response({"error": sentence}, status=status)
