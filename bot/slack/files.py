"""Downloads files that people attach, for the model. Size and number are limited, and files only come from Slack.

A file that can't be read is replaced by a sentence, so that the model knows that there was one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.jsontypes import JsonObject, as_text
from adk_confirm.runtime.wire import Blob

MOST_FILES = 10
MOST_BYTES = 10 * 1024 * 1024
TIME_LIMIT = 30.0
_SLACK = "slack.com"


class Unread(ConfirmError):
    """Why a file could not be read."""


async def attachments(client: AsyncWebClient, files: Sequence[JsonObject]) -> tuple[Blob, ...]:
    found = [await _attachment(client, file) for file in files[:MOST_FILES]]
    left_out = [_in_words(_name(file), f"only {MOST_FILES} files are read") for file in files[MOST_FILES:]]
    return (*found, *left_out)


async def _attachment(client: AsyncWebClient, file: JsonObject) -> Blob:
    name = _name(file)
    try:
        async with asyncio.timeout(TIME_LIMIT):
            return Blob(display_name=name, mime_type=_kind(file), data=await _download(client, file))
    except Unread as error:
        return _in_words(name, str(error))
    except (aiohttp.ClientError, OSError, ValueError):  # the last for an address that is none
        return _in_words(name, "Slack did not hand it out in time")


async def _download(client: AsyncWebClient, file: JsonObject) -> bytes:
    address = as_text(file.get("url_private_download"))
    if not address:  # such as in a channel that another company shares
        raise Unread("Slack does not say where it is")
    if not _is_slacks(address, client.base_url):
        raise Unread("it is not kept at Slack")  # the token is sent only to Slack
    async with (
        aiohttp.ClientSession(trust_env=client.trust_env_in_session) as session,
        session.get(
            address,
            headers={"Authorization": f"Bearer {client.token}"},
            allow_redirects=False,
            ssl=client.ssl or True,
            proxy=client.proxy,
        ) as answer,
    ):
        if answer.status in (302, 401, 403) or (answer.content_type == "text/html" and _kind(file) != "text/html"):
            raise Unread("Slack does not hand it out to this app, which lacks the scope files:read")
        if answer.status != 200:
            raise Unread(f"Slack does not hand it out ({answer.status})")
        data = await answer.content.read(MOST_BYTES + 1)
        while len(data) <= MOST_BYTES and (more := await answer.content.read(MOST_BYTES + 1 - len(data))):
            data += more
    if len(data) > MOST_BYTES:
        raise Unread(f"it is larger than {MOST_BYTES // 1024 // 1024} MB")
    return data


def _is_slacks(address: str, base_url: str) -> bool:
    """Whether the URL is Slack's own, over TLS, or on the server of the API, which may be a local one."""
    asked, api = urlsplit(address), urlsplit(base_url)
    if (asked.scheme, asked.netloc) == (api.scheme, api.netloc) and asked.netloc:
        return True
    host = asked.hostname or ""
    return asked.scheme == "https" and (host == _SLACK or host.endswith(f".{_SLACK}"))


def _kind(file: JsonObject) -> str:
    return as_text(file.get("mimetype")) or "application/octet-stream"


def _name(file: JsonObject) -> str:
    return as_text(file.get("name")) or "file"


def _in_words(name: str, why: str) -> Blob:
    return Blob(display_name=name, mime_type="text/plain", data=f"The file {name} could not be read: {why}.".encode())
