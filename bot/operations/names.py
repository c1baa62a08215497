"""Names of people, groups and channels for people who read ids: from Slack, as far as it tells them in time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from blocks.text import visible
from bot.slack.answers import obj, objects, text
from runtime.jsontypes import JsonObject

PATIENCE = 10.0
AT_ONCE = 8
MOST = 300
"""So many people and channels are asked about; of a longer export the others keep their ids."""

_PERSON, _GROUP, _CHANNEL = re.compile(r"[UW][A-Z0-9_]+"), re.compile(r"S[A-Z0-9_]+"), re.compile(r"[CG][A-Z0-9_]+")


@dataclass(frozen=True)
class Names:
    known: Mapping[str, str] = field(default_factory=dict)

    def of(self, id_: str) -> str:
        """
        >>> Names({"U0LEE": "Lee"}).of("U0LEE"), Names().of("U0LEE"), Names({"S0ON": "@on"}).of("group:S0ON")
        ('Lee (U0LEE)', 'U0LEE', '@on (group:S0ON)')
        """
        name = self.known.get(id_.rpartition(":")[2])
        return f"{visible(name)} ({id_})" if name else id_

    def alone(self, id_: str) -> str:
        """The name, or nothing."""
        return self.known.get(id_, "")


NO_NAMES = Names()


async def names_of(client: AsyncWebClient | None, ids: Iterable[str]) -> Names:
    """What Slack does not tell within ten seconds keeps its id: a name is never worth an error."""
    wanted = sorted({one.rpartition(":")[2] for one in ids})
    if client is None or not wanted:
        return NO_NAMES
    known: dict[str, str] = {}
    turns = asyncio.Semaphore(AT_ONCE)

    async def look(id_: str) -> None:
        async with turns:
            try:
                name = await _name(client, id_)
            except (SlackApiError, aiohttp.ClientError, OSError):
                return
        if name:
            known[id_] = name

    singles = [one for one in wanted if _PERSON.fullmatch(one) or _CHANNEL.fullmatch(one)][:MOST]
    tasks = [asyncio.create_task(look(one)) for one in singles]
    if any(_GROUP.fullmatch(one) for one in wanted):
        tasks.append(asyncio.create_task(_groups(client, known)))
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=PATIENCE)
        for task in late:
            task.cancel()
    return Names(known)


async def _name(client: AsyncWebClient, id_: str) -> str:
    if _CHANNEL.fullmatch(id_):
        answer = await client.conversations_info(channel=id_)
        name = text(obj(answer.get("channel")).get("name"))
        return f"#{name}" if name else ""
    return person_name(obj((await client.users_info(user=id_)).get("user")))


def person_name(user: JsonObject) -> str:
    """As Slack's clients show it."""
    profile = obj(user.get("profile"))
    return text(profile.get("display_name")) or text(user.get("real_name")) or text(user.get("name"))


async def _groups(client: AsyncWebClient, known: dict[str, str]) -> None:
    try:
        answer = await client.usergroups_list(include_disabled=True)
    except (SlackApiError, aiohttp.ClientError, OSError):
        return
    for group in objects(answer.get("usergroups")):
        if handle := text(group.get("handle")):
            known[text(group.get("id"))] = f"@{handle}"
