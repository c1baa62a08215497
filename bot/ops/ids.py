"""`adk-confirm ids`: finds the ids of people, groups and channels by their names, for the settings."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial

import click
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from adk_confirm.blocks.text import visible
from adk_confirm.bot.config.settings import Environment
from adk_confirm.bot.ops.command import CommandLine, in_columns, options
from adk_confirm.bot.slack.calls import pages
from adk_confirm.bot.slack.names import person_name
from adk_confirm.bot.slack.troubles import PATIENT, UNANSWERED, Later, code_of, trouble_from, why_slack_is_unreached
from adk_confirm.runtime.errors import ConfirmError, Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, objects

PAGE = 1000
PAGES = 50
"""How many pages of a very large workspace are read."""


@click.command()
@click.argument("text", default="")
@options(json=True, config=False)
async def ids(call: CommandLine, text: str) -> None:
    """Find the ids of people, groups and channels for the settings, by a part of their name or address.

    It needs SLACK_BOT_TOKEN, and no settings file yet.
    """
    found = await _find(os.environ, text)
    rows = [(f"{one['entry']}", f"{one['name']}" + (f"  ({one['note']})" if one["note"] else "")) for one in found]
    nobody = f"Nobody, no group and no channel that the app sees has “{text}” in its name."
    call.tell({"found": [*found]}, *(map(visible, in_columns(rows)) if rows else [nobody]))


async def _find(env: Mapping[str, str], wanted: str) -> list[JsonObject]:
    """Everything whose name, address or id contains `wanted`, in any case. `entry` is what the settings need: `user:…`
    or `group:…` for approvers, or a channel's bare id."""
    environment = Environment.read(env)
    if environment.bot_token is None:
        raise Invalid("SLACK_BOT_TOKEN is not set, so Slack can't be asked. Set it as the service has it.")
    token = environment.bot_token.get_secret_value()
    client = AsyncWebClient(token, base_url=environment.api_url, retry_handlers=PATIENT)
    try:
        return [
            {"entry": entry, "name": name, "note": note}
            async for entry, name, note in _everything(client)
            if wanted.lower().lstrip("@#") in f"{entry} {name} {note}".lower()
        ]
    except UNANSWERED as error:
        if isinstance(error, SlackApiError) and (code := code_of(error)):
            method = str(error.response.api_url).rpartition("/")[2]
            trouble = trouble_from(method, error, repeatable=True)
            if isinstance(trouble, Later):
                raise ConfirmError(f"Slack takes no {method} now ({code}). Run this again in a minute.") from error
            raise trouble from error
        raise ConfirmError(f"Slack can't be reached: {why_slack_is_unreached(error)}. Check the network.") from error


async def _everything(client: AsyncWebClient) -> AsyncIterator[tuple[str, str, str]]:
    """Groups; channels that the app sees, which are all public ones and the private ones that it is in; and people who
    may decide, so no bots, guests or deactivated accounts."""
    for group in objects((await client.usergroups_list(include_count=True)).get("usergroups")):
        yield f"group:{as_text(group.get('id'))}", f"@{as_text(group.get('handle'))}", as_text(group.get("name"))
    ask = partial(client.conversations_list, types="public_channel,private_channel", exclude_archived=True)
    async for channel in _all(ask, "channels"):
        outside = "" if channel.get("is_member") else "the app is not in it: invite it with /invite"
        yield as_text(channel.get("id")), f"#{as_text(channel.get('name'))}", outside
    other = ("deleted", "is_bot", "is_restricted", "is_ultra_restricted", "is_stranger")
    async for user in _all(client.users_list, "members"):
        if not any(user.get(flag) for flag in other) and user.get("id") != "USLACKBOT":
            address = as_text(as_object(user.get("profile")).get("email"))
            yield f"user:{as_text(user.get('id'))}", person_name(user), address


async def _all(ask: Callable[..., Awaitable[AsyncSlackResponse]], what: str) -> AsyncIterator[JsonObject]:
    """What Slack lists under this name, page by page."""

    async def one_page(cursor: str | None) -> JsonObject:
        answer = await ask(limit=PAGE, cursor=cursor)
        return {name: answer.get(name) for name in (what, "response_metadata")}

    async for page in pages(one_page, PAGES):
        for one in objects(page.get(what)):
            yield one
