"""Reading a Web API request as the SDKs send it: query, form, multipart or JSON; the token in header or body."""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import dataclass

from aiohttp import web

from adk_confirm.sandbox.reading import Json, JsonObject, as_object, as_text
from adk_confirm.sandbox.refusals import ApiRefusal


@dataclass(frozen=True, slots=True)
class ApiRequest:
    args: JsonObject
    token: str
    client_id: str
    client_secret: str


async def read(request: web.Request) -> ApiRequest:
    args: JsonObject = {**request.query}
    kind = request.content_type
    if kind == "application/json":
        args |= _json(await request.text())
    elif kind in ("application/x-www-form-urlencoded", "multipart/form-data"):
        form = await request.post()
        args |= {name: value for name, value in form.items() if isinstance(value, str)}
    elif request.can_read_body:
        raise ApiRefusal("invalid_post_type")
    header = request.headers.get("Authorization", "")
    in_body = as_text(args.pop("token", ""))
    client_id, client_secret = _basic(header) or (as_text(args.get("client_id")), as_text(args.get("client_secret")))
    return ApiRequest(
        args=args,
        token=header.removeprefix("Bearer ").strip() if header.startswith("Bearer ") else in_body,
        client_id=client_id,
        client_secret=client_secret,
    )


def _json(body: str) -> JsonObject:
    try:
        parsed: Json = json.loads(body or "{}")
    except ValueError as error:
        raise ApiRefusal("invalid_json") from error
    if not isinstance(parsed, dict):
        raise ApiRefusal("json_not_object")
    return as_object(parsed)


def _basic(header: str) -> tuple[str, str] | None:
    if not header.startswith("Basic "):
        return None
    try:
        login, _, password = base64.b64decode(header.removeprefix("Basic "), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return login, password
