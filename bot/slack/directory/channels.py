"""Facts about channels from Slack: whether one is shared with another company, and who can read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bot.policy.approvers import Unresolved
from bot.slack.cache import LookupCache
from bot.slack.directory.questions import Questions
from bot.slack.outbound.methods import CHANNEL_INFO, CHANNEL_MEMBERS
from runtime.jsontypes import as_object, as_text, texts

_PAGE, _PAGES = 1000, 20


@dataclass(frozen=True)
class ChannelFacts:
    shared: bool
    public: bool


class Channels:
    def __init__(self, questions: Questions, known_for: float, clock: Callable[[], float]) -> None:
        self._questions = questions
        self._info: LookupCache[str, ChannelFacts] = LookupCache(known_for, clock=clock)
        self._members: LookupCache[str, frozenset[str]] = LookupCache(known_for, clock=clock)

    async def shared(self, channel: str) -> bool | Unresolved:
        """Whether a channel is shared with another company."""
        facts = await self._facts(channel)
        return facts if isinstance(facts, Unresolved) else facts.shared

    async def can_see(self, channel: str, user: str) -> bool:
        """Whether a full member can read a channel. False if Slack does not answer: a second notification does less
        harm than none."""
        facts = await self._facts(channel)
        if isinstance(facts, Unresolved) or facts.public:
            return not isinstance(facts, Unresolved)
        return await self.is_in(channel, user)

    async def is_in(self, channel: str, user: str) -> bool:
        members = await self._questions.answer(channel, self._members, channel, lambda: self._ask_members(channel))
        return not isinstance(members, Unresolved) and user in members

    async def _facts(self, channel: str) -> ChannelFacts | Unresolved:
        return await self._questions.answer(channel, self._info, channel, lambda: self._ask_info(channel))

    async def _ask_info(self, channel: str) -> ChannelFacts:
        answer = await self._questions.ask(CHANNEL_INFO, lambda client: client.conversations_info(channel=channel))
        found = as_object(answer.get("channel"))
        private = any(found.get(flag) for flag in ("is_private", "is_im", "is_mpim", "is_group"))
        return ChannelFacts(shared=bool(found.get("is_ext_shared")), public=not private)

    async def _ask_members(self, channel: str) -> frozenset[str]:
        found: set[str] = set()
        cursor: str | None = None
        for _ in range(_PAGES):
            answer = await self._questions.ask(
                CHANNEL_MEMBERS,
                lambda client, cursor=cursor: client.conversations_members(  # type: ignore[misc]  # a default binds it
                    channel=channel, cursor=cursor, limit=_PAGE
                ),
            )
            found.update(texts(answer.get("members")))
            cursor = as_text(as_object(answer.get("response_metadata")).get("next_cursor")) or None
            if cursor is None:
                break
        return frozenset(found)
