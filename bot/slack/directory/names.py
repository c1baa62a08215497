"""What people are called, for messages that name somebody without notifying them.

A name is worth less than a decision: it is asked for only while Slack has calls to spare. Who has no known name is
mentioned instead.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping

from bot.slack.answers import obj, objects, text
from bot.slack.outbound.calls import Method, Workspace
from bot.slack.outbound.client import Sender
from bot.slack.outbound.errors import SlackTrouble
from bot.slack.outbound.rates import MINUTE, Rates
from runtime.jsontypes import JsonObject

ASKED = Method("users.info", 100, lookup=True)
GROUPS = Method("usergroups.list", 20, lookup=True)
OF_THESE = 30
"""So many of them a minute are for names. The rest is for questions that decisions wait for."""
KNOWN_FOR = 3600.0
PATIENCE = 2.0
_KEEP = 5000


class Names:
    def __init__(self, sender: Sender, clock: Callable[[], float] = time.monotonic) -> None:
        self._sender, self._clock, self._rates = sender, clock, Rates(clock)
        self._known: dict[tuple[str, str], tuple[float, str]] = {}

    async def of(self, at: Workspace, users: Collection[str]) -> Mapping[str, str]:
        """The names of those who have a known one."""
        await asyncio.gather(*(self._ask(at, user) for user in users if self._get(at, user) is None))
        known = {user: self._get(at, user) for user in users}
        return {user: name for user, name in known.items() if name}

    async def groups(self, at: Workspace, ids: Collection[str]) -> Mapping[str, str]:
        """What these user groups are called; of an unknown one, its id."""
        if ids and any(self._get(at, group) is None for group in ids):
            await self._ask_groups(at)
        return {group: f"@{self._get(at, group) or group}" for group in ids}

    def note(self, at: Workspace, user: str, answer: JsonObject) -> None:
        """Slack said who somebody is, to whoever asked. An empty name means that Slack did not say."""
        found = obj(answer.get("user"))
        profile = obj(found.get("profile"))
        name = text(profile.get("display_name")) or text(profile.get("real_name")) or text(found.get("name"))
        self._put(at, user, name)

    def _put(self, at: Workspace, id_: str, name: str) -> None:
        self._known.pop((at.team, id_), None)
        self._known[at.team, id_] = (self._clock(), name.strip())
        while len(self._known) > _KEEP:
            del self._known[next(iter(self._known))]

    def forget(self, user: str) -> None:
        for key in [key for key in self._known if key[1] == user]:
            del self._known[key]

    def _get(self, at: Workspace, user: str) -> str | None:
        noted, name = self._known.get((at.team, user), (float("-inf"), ""))
        return name if self._clock() - noted < KNOWN_FOR else None

    async def _ask(self, at: Workspace, user: str) -> None:
        if self._rates.wait(at.team, OF_THESE, MINUTE) > 0:
            return
        self._rates.take(at.team, OF_THESE, MINUTE)
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._sender.ask(at, ASKED, lambda client: client.users_info(user=user), patience=0)
        except (SlackTrouble, TimeoutError):
            answer = {}
        self.note(at, user, answer)

    async def _ask_groups(self, at: Workspace) -> None:
        team = at.team if at.enterprise else None
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._sender.ask(
                    at, GROUPS, lambda client: client.usergroups_list(team_id=team), patience=0
                )
        except (SlackTrouble, TimeoutError):
            return
        for group in objects(answer.get("usergroups")):
            self._put(at, text(group.get("id")), text(group.get("handle")))
