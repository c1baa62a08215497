"""Names of people and user groups, for messages that name somebody without notifying them.

Decisions need Slack's rate limits more than names do, so Slack is asked for names only while calls are left over.
Somebody without a known name is mentioned instead. What Slack says also goes to `seen`, which keeps it in the store for
the output of commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial

from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.lookups import LookupCache
from adk_confirm.bot.slack.rate_limits import GROUP_NAMES, MINUTE, USER_NAME, Limiter
from adk_confirm.bot.slack.troubles import Gone, SlackTrouble
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

Seen = Callable[[str, str], None]

OF_THESE = 30
"""How many calls a minute may ask for names. The rest is for questions that decisions wait for."""
KNOWN_FOR = 3600.0
PATIENCE = 2.0
_GROUPS = ""


class NameLookup:
    def __init__(self, slack: Slack, seen: Seen | None = None) -> None:
        self._slack, self._limiter = slack, Limiter(slack.clock)
        self._known: LookupCache[str, str] = LookupCache(KNOWN_FOR, clock=slack.clock)
        self.seen: Seen = seen or (lambda *_: None)
        """Hears a name, of a person, a group or a channel, as people read it."""

    async def of(self, users: Collection[str]) -> Mapping[str, str]:
        """The names of these users, as far as they are known or Slack gives them in time."""
        await asyncio.gather(*(self._look_up(user, partial(self._ask, user)) for user in users))
        return self.known(users)

    def known(self, users: Collection[str]) -> Mapping[str, str]:
        """The names of these users, as far as they are known. Slack is not asked."""
        known = {user: self._known.peek(user) for user in users}
        return {user: name for user, name in known.items() if name}

    async def groups(self, ids: Collection[str]) -> Mapping[str, str]:
        """The handles of these user groups; for an unknown one, its id."""
        if any(self._known.peek(group) is None for group in ids):
            await self._look_up(_GROUPS, self._ask_groups, anew=True)
        return {group: f"@{self._known.peek(group) or group}" for group in ids}

    def note(self, user: str, answer: JsonObject) -> None:
        """Keeps a name from an answer of `users.info` to another caller."""
        self._known.put(user, self._name(user, answer))

    def forget(self, user: str) -> None:
        self._known.forget(lambda known: known == user)

    async def _look_up(self, key: str, ask: Callable[[], Awaitable[str]], *, anew: bool = False) -> None:
        """Asks for a name that is not known yet. If no answer comes in time, the next card asks again."""
        with suppress(SlackTrouble, TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._known.get(key, ask, anew=anew)

    async def _ask(self, user: str) -> str:
        self._limiter.take("names", [("names", OF_THESE, MINUTE)])
        try:
            return self._name(user, await self._slack.call(USER_NAME, user=user))
        except Gone:
            return ""

    def _name(self, user: str, answer: JsonObject) -> str:
        self.seen(user, name := person_name(as_object(answer.get("user"))))
        return name

    async def _ask_groups(self) -> str:
        answer = await self._slack.call(GROUP_NAMES)
        for group, handle in handles(answer.get("usergroups")):
            self._known.put(group, handle)
            self.seen(group, handle and f"@{handle}")
        return ""


def person_name(user: JsonObject) -> str:
    """What Slack's clients call somebody. Empty if Slack does not say."""
    profile = as_object(user.get("profile"))
    real = as_text(profile.get("real_name")) or as_text(user.get("real_name"))
    return (as_text(profile.get("display_name")) or real or as_text(user.get("name"))).strip()


def handles(groups: Json) -> Iterator[tuple[str, str]]:
    """The ids and the handles of user groups, as `usergroups.list` gives them."""
    for group in objects(groups):
        yield as_text(group.get("id")), as_text(group.get("handle"))
