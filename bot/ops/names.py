"""Names for the ids that commands print: of people, groups and channels, if Slack answers in time."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from blocks.text import visible
from bot.config.settings import Settings
from bot.slack.identity import slack_client
from bot.slack.names import handles, person_name
from runtime.jsontypes import Json, as_object, as_text

PATIENCE = 5.0
AT_ONCE = 8
MOST = 300
"""How many people and channels Slack is asked about. In a longer export the others keep their ids."""

_PERSON, _GROUP, _CHANNEL = re.compile(r"[UW][A-Z0-9_]+"), re.compile(r"S[A-Z0-9_]+"), re.compile(r"[CG][A-Z0-9_]+")


@dataclass(frozen=True)
class KnownNames:
    known: Mapping[str, str] = field(default_factory=dict)

    def of(self, id_: str) -> str:
        """
        >>> names = KnownNames({"U0LEE": "Lee", "S0ON": "@on"})
        >>> names.of("U0LEE"), names.of("U0ANN"), names.of("group:S0ON")
        ('Lee (U0LEE)', 'U0ANN', '@on (group:S0ON)')
        """
        name = self.known.get(id_.rpartition(":")[2])
        return f"{visible(name)} ({id_})" if name else id_

    def alone(self, id_: str) -> str:
        """The name, or nothing."""
        return self.known.get(id_, "")


NO_NAMES = KnownNames()


async def names_of(client: AsyncWebClient | None, ids: Iterable[str]) -> KnownNames:
    """The names that Slack gives within five seconds. Other ids stay as they are; a missing name is never an error."""
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
    return KnownNames(known)


async def _name(client: AsyncWebClient, id_: str) -> str:
    if _CHANNEL.fullmatch(id_):
        answer = await client.conversations_info(channel=id_)
        name = as_text(as_object(answer.get("channel")).get("name"))
        return f"#{name}" if name else ""
    return person_name(as_object((await client.users_info(user=id_)).get("user")))


async def _groups(client: AsyncWebClient, known: dict[str, str]) -> None:
    try:
        answer = await client.usergroups_list(include_disabled=True)
    except (SlackApiError, aiohttp.ClientError, OSError):
        return
    known.update({group: f"@{handle}" for group, handle in handles(answer.get("usergroups")) if handle})


_PLACE = re.compile(r"slack-T[A-Z0-9_]+-(?P<channel>[CGD][A-Z0-9_]+)-[\d.]+$")


def channel_of(session: str) -> str | None:
    """The channel of a session that Slack opened, from its id or its chain.

    >>> channel_of("oncall/slack-T0ACME-U0ANN/slack-T0ACME-C0DEPLOYS-1700000000.000100")
    'C0DEPLOYS'
    """
    found = _PLACE.search(session)
    return found["channel"] if found else None


def ids_in(content: Json) -> Iterator[str]:
    """The people and groups that a ledger line names."""
    match content:
        case {"team": str(), "user": str() as user}:
            yield user
        case dict():
            for part in content.values():
                yield from ids_in(part)
        case list():
            for part in content:
                yield from ids_in(part)
        case str() if content.startswith(("group:", "user:")):
            yield content


class Namer:
    """Asks Slack for names, each once."""

    def __init__(self, settings: Settings) -> None:
        self._client = None if settings.environment.bot_token is None else slack_client(settings, patient=True)
        self._asked: set[str] = set()
        self.names = NO_NAMES

    async def learn(self, ids: Iterable[str]) -> KnownNames:
        """All names known so far, these `ids` included."""
        wanted = set(ids) - self._asked
        self._asked |= wanted
        self.names = KnownNames({**self.names.known, **(await names_of(self._client, wanted)).known})
        return self.names
