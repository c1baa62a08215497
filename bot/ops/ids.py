"""`adk-confirm ids`: finds the ids of people, groups and channels by their names, for the settings."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.errors import PATIENT, why_unreached
from bot.slack.names import person_name
from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject, as_object, as_text, objects

PAGE = 1000
PAGES = 50
"""How many pages of a very large workspace are read."""


class LookupFailed(ConfirmError):
    """Slack did not answer the question; the message says what to do."""


@dataclass(frozen=True)
class NamedId:
    """`entry` is what the settings need: `user:…` or `group:…` for approvers, or a channel's bare id."""

    entry: str
    name: str
    note: str = ""

    def to_json(self) -> JsonObject:
        return asdict(self)


async def ids(token: str, api_url: str, wanted: str) -> list[NamedId]:
    """Everything whose name, address or id contains `wanted`, in any case: groups, then channels, then people."""
    client = AsyncWebClient(token, base_url=api_url, retry_handlers=PATIENT)
    try:
        found = [one async for one in _groups(client)]
        found += [one async for one in _channels(client)]
        found += [one async for one in _people(client)]
    except SlackApiError as error:
        code = str(error.response["error"])
        if code == "ratelimited":
            raise LookupFailed("Slack wants to be asked less often. Run this again in a minute.") from error
        raise LookupFailed(f"Slack refused ({code}). `adk-confirm check` says what is wrong with the token.") from error
    except (aiohttp.ClientError, OSError) as error:
        raise LookupFailed(f"Slack can't be reached: {why_unreached(error)}. Check the network.") from error
    text = wanted.lower().lstrip("@#")
    return [one for one in found if text in f"{one.entry} {one.name} {one.note}".lower()]


async def _groups(client: AsyncWebClient) -> AsyncIterator[NamedId]:
    answer = await client.usergroups_list(include_count=True)
    for group in objects(answer.get("usergroups")):
        yield NamedId(
            f"group:{as_text(group.get('id'))}", f"@{as_text(group.get('handle'))}", as_text(group.get("name"))
        )


async def _channels(client: AsyncWebClient) -> AsyncIterator[NamedId]:
    """The channels that the app sees: all public ones, and the private ones that it is in."""
    cursor = ""
    for _ in range(PAGES):
        answer = await client.conversations_list(
            types="public_channel,private_channel", exclude_archived=True, limit=PAGE, cursor=cursor or None
        )
        for channel in objects(answer.get("channels")):
            inside = "" if channel.get("is_member") else "the app is not in it: invite it with /invite"
            yield NamedId(as_text(channel.get("id")), f"#{as_text(channel.get('name'))}", inside)
        cursor = as_text(as_object(answer.get("response_metadata")).get("next_cursor"))
        if not cursor:
            return


async def _people(client: AsyncWebClient) -> AsyncIterator[NamedId]:
    """People who may decide: no bots, guests or deactivated accounts."""
    cursor = ""
    for _ in range(PAGES):
        answer = await client.users_list(limit=PAGE, cursor=cursor or None)
        for user in objects(answer.get("members")):
            other = ("deleted", "is_bot", "is_restricted", "is_ultra_restricted", "is_stranger")
            if not any(user.get(flag) for flag in other) and as_text(user.get("id")) != "USLACKBOT":
                address = as_text(as_object(user.get("profile")).get("email"))
                yield NamedId(f"user:{as_text(user.get('id'))}", person_name(user), address)
        cursor = as_text(as_object(answer.get("response_metadata")).get("next_cursor"))
        if not cursor:
            return
