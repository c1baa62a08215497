"""What Slack says of channels: whether one is shared with another company, and who can read it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from bot.lookups import Lookups
from bot.people import Unresolved
from bot.sender import Sender
from bot.slack_calls import Method, Workspace
from bot.slack_json import obj, text, texts

INFO = Method("conversations.info", 50)
MEMBERS = Method("conversations.members", 50)

_PAGE, _PAGES = 1000, 20

T = TypeVar("T")


class InTime(Protocol):
    async def __call__(self, what: str, ask: Callable[[], Awaitable[T]], /) -> T | Unresolved: ...


@dataclass(frozen=True)
class ChannelFacts:
    shared: bool
    public: bool


class Channels:
    def __init__(self, sender: Sender, in_time: InTime, known_for: float, clock: Callable[[], float]) -> None:
        self._sender, self._in_time = sender, in_time
        self._info: Lookups[tuple[Workspace, str], ChannelFacts | Unresolved] = Lookups(
            known_for, good=_answered, clock=clock
        )
        self._members: Lookups[tuple[Workspace, str], frozenset[str] | Unresolved] = Lookups(
            known_for, good=_answered, clock=clock
        )

    async def shared(self, at: Workspace, channel: str) -> bool | None:
        facts = await self._facts(at, channel)
        return None if isinstance(facts, Unresolved) else facts.shared

    async def can_see(self, at: Workspace, channel: str, user: str) -> bool:
        facts = await self._facts(at, channel)
        if isinstance(facts, Unresolved) or facts.public:
            return not isinstance(facts, Unresolved)
        return await self.is_in(at, channel, user)

    async def is_in(self, at: Workspace, channel: str, user: str) -> bool:
        members = await self._members.get(
            (at, channel), lambda: self._in_time(channel, lambda: self._ask_members(at, channel))
        )
        return not isinstance(members, Unresolved) and user in members

    async def _facts(self, at: Workspace, channel: str) -> ChannelFacts | Unresolved:
        return await self._info.get((at, channel), lambda: self._in_time(channel, lambda: self._ask_info(at, channel)))

    async def _ask_info(self, at: Workspace, channel: str) -> ChannelFacts:
        answer = await self._sender.ask(at, INFO, lambda client: client.conversations_info(channel=channel))
        found = obj(answer.get("channel"))
        private = any(found.get(flag) for flag in ("is_private", "is_im", "is_mpim", "is_group"))
        return ChannelFacts(shared=bool(found.get("is_ext_shared")), public=not private)

    async def _ask_members(self, at: Workspace, channel: str) -> frozenset[str]:
        found: set[str] = set()
        cursor: str | None = None
        for _ in range(_PAGES):
            answer = await self._sender.ask(
                at,
                MEMBERS,
                lambda client, cursor=cursor: client.conversations_members(  # type: ignore[misc]  # a default binds it
                    channel=channel, cursor=cursor, limit=_PAGE
                ),
            )
            found.update(texts(answer.get("members")))
            cursor = text(obj(answer.get("response_metadata")).get("next_cursor")) or None
            if cursor is None:
                break
        return frozenset(found)


def _answered(answer: object) -> bool:
    return not isinstance(answer, Unresolved)
