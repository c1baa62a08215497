"""The bot's HTTP server: Slack's signed requests, and health checks. Bad input gets a clean 4xx, never a 500.

Anybody can send requests here. Until a request's signature is checked, its bytes are only counted, read as UTF-8 and
hashed: nothing is unpacked or parsed, and nothing is read as the sender says.
"""

from __future__ import annotations

import json
import re
import time
from http import HTTPStatus

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.signature import SignatureVerifier
from yarl import URL

from adk_confirm.bot.inbound.bolt_app import NOT_READ
from adk_confirm.bot.inbound.payloads import NotSlacks
from adk_confirm.runtime.rest.listening import NOT_ENCODED, body_of, headers_of, is_encoded

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
        slack, verifier = app, SignatureVerifier(signing_secret)

        async def events(request: web.Request) -> web.StreamResponse:
            return await _events(slack, verifier, request)

        site.router.add_post("/slack/events", events)
    site.router.add_get("/healthz", _liveness)
    return site


async def _liveness(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
    return web.Response(text="ok\n")


async def _events(app: AsyncApp, verifier: SignatureVerifier, request: web.Request) -> web.StreamResponse:
    """What can be refused by its head is not read: a body may take its time to arrive."""
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
