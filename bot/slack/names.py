"""Names of people and user groups, for messages that name somebody without notifying them.

Decisions need Slack's rate limits more than names do, so Slack is asked for names only while calls are left over.
Somebody without a known name is mentioned instead. What Slack says also goes to `seen`, which keeps it in the store for
the output of commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping

from adk_confirm.bot.slack.api import Slack
from adk_confirm.bot.slack.errors import Later, SlackTrouble
from adk_confirm.bot.slack.rate_limits import GROUP_NAMES, MINUTE, USER_NAME, Limiter
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects
from adk_confirm.runtime.recent_dict import RecentDict

Seen = Callable[[str, str], None]

OF_THESE = 30
"""How many calls a minute may ask for names. The rest is for questions that decisions wait for."""
NAMES_KNOWN_FOR = 3600.0
PATIENCE = 2.0
_KEEP = 5000


class NameLookup:
    def __init__(self, slack: Slack, seen: Seen | None = None) -> None:
        self._slack, self._limiter, self._seen = slack, Limiter(slack.clock), seen
        self._known: RecentDict[str, tuple[float, str]] = RecentDict(_KEEP)

    async def of(self, users: Collection[str]) -> Mapping[str, str]:
        """The names of these users, as far as they are known or Slack gives them in time."""
        await asyncio.gather(*(self._ask(user) for user in users if self._get(user) is None))
        return self.known(users)

    def known(self, users: Collection[str]) -> Mapping[str, str]:
        """The names of these users, as far as they are known. Slack is not asked."""
        known = {user: self._get(user) for user in users}
        return {user: name for user, name in known.items() if name}

    async def groups(self, ids: Collection[str]) -> Mapping[str, str]:
        """The handles of these user groups; for an unknown one, its id."""
        if ids and any(self._get(group) is None for group in ids):
            await self._ask_groups()
        return {group: f"@{self._get(group) or group}" for group in ids}

    def note(self, user: str, answer: JsonObject) -> None:
        """Keeps a name from an answer of `users.info` to any caller. Empty: Slack gave no name."""
        self._put(user, name := person_name(as_object(answer.get("user"))))
        self.seen(user, name)

    def seen(self, id_: str, name: str) -> None:
        """Passes on a name, of a person, a group or a channel, as people read it."""
        if self._seen is not None:
            self._seen(id_, name)

    def _put(self, id_: str, name: str) -> None:
        self._known[id_] = (self._slack.clock(), name)

    def forget(self, user: str) -> None:
        self._known.pop(user, None)

    def _get(self, user: str) -> str | None:
        noted, name = self._known.get(user, (float("-inf"), ""))
        return name if self._slack.clock() - noted < NAMES_KNOWN_FOR else None

    async def _ask(self, user: str) -> None:
        try:
            self._limiter.take("names", [("names", OF_THESE, MINUTE)])
        except Later:
            return
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._slack.call(USER_NAME, user=user)
        except (SlackTrouble, TimeoutError):
            answer = {}
        self.note(user, answer)

    async def _ask_groups(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await self._slack.call(GROUP_NAMES)
        except (SlackTrouble, TimeoutError):
            return
        for group, handle in handles(answer.get("usergroups")):
            self._put(group, handle)
            self.seen(group, handle and f"@{handle}")


def person_name(user: JsonObject) -> str:
    """What Slack's clients call somebody. Empty if Slack does not say."""
    profile = as_object(user.get("profile"))
    real = as_text(profile.get("real_name")) or as_text(user.get("real_name"))
    return (as_text(profile.get("display_name")) or real or as_text(user.get("name"))).strip()


def handles(groups: Json) -> Iterator[tuple[str, str]]:
    """The ids and the handles of user groups, as `usergroups.list` gives them."""
    for group in objects(groups):
        yield as_text(group.get("id")), as_text(group.get("handle"))
