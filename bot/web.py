"""The bot's HTTP side: Slack's signed requests, and whether it is alive. Bad input is a clean 4xx, never a 500."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from urllib.parse import parse_qsl

from aiohttp import web
from slack_bolt.adapter.aiohttp import to_aiohttp_response
from slack_bolt.async_app import AsyncApp
from slack_bolt.request.async_request import AsyncBoltRequest

from bot.shapes import misshapen
from runtime.jsontypes import JsonObject

MOST_BYTES = 3 * 1024 * 1024
_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def make_site(app: AsyncApp | None) -> web.Application:
    """`app` is None in Socket Mode alone: then nothing of Slack's is served here."""
    site = web.Application(client_max_size=MOST_BYTES)
    if app is not None:
        slack = app

        async def events(request: web.Request) -> web.StreamResponse:
            return await _events(slack, request)

        site.router.add_post("/slack/events", events)
    site.router.add_get("/healthz", _alive)
    return site


async def _alive(request: web.Request) -> web.Response:  # noqa: ARG001  (aiohttp's handlers take one)
    return web.Response(text="ok\n")


async def _events(app: AsyncApp, request: web.Request) -> web.StreamResponse:
    """Bolt answers 500 to headers that it can't compute with, to JSON that is none or not Slack's: those end here."""
    try:
        body = await request.text()
    except (UnicodeDecodeError, LookupError):
        return _bad("The body is not UTF-8.")
    if not _TIMESTAMP.fullmatch(request.headers.get("X-Slack-Request-Timestamp", "")):
        return _bad("X-Slack-Request-Timestamp is missing or no number.")
    if not request.headers.get("X-Slack-Signature", "").isascii():
        return _bad("X-Slack-Signature is none.")
    parsed = _read(body, request.content_type)
    if isinstance(parsed, str):
        return _bad(parsed)
    return await to_aiohttp_response(await app.async_dispatch(_asked(request, body, parsed)))


def _asked(request: web.Request, body: str, parsed: JsonObject) -> AsyncBoltRequest:
    """Bolt's request with the body as it was read already: reading it is much of what a click costs."""
    asked = AsyncBoltRequest(body=parsed, query=request.query_string, headers=_headers(request), mode="socket_mode")
    asked.raw_body, asked.mode = body, "http"  # from here on as if it had read it itself
    return asked


def _headers(request: web.Request) -> dict[str, str | Sequence[str]]:
    return {name: request.headers.getall(name) for name in request.headers}


def _read(body: str, content_type: str) -> JsonObject | str:
    """What Slack says, or what is wrong with it."""
    text = body
    if content_type == "application/x-www-form-urlencoded":
        fields: JsonObject = dict(parse_qsl(body, keep_blank_values=True))
        payload = fields.get("payload")
        if not isinstance(payload, str):
            return fields  # a slash command, which carries plain fields
        text = payload
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return "The body is no JSON."
    if not isinstance(parsed, dict):
        return "The body must be a JSON object."
    return misshapen(parsed) or parsed


def _bad(sentence: str) -> web.Response:
    return web.json_response({"error": sentence}, status=400)
