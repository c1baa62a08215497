"""Finds a message that we posted but whose answer was lost, in Slack's history."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.slack.cache import LookupCache
from bot.slack.outbound.calls import Call
from bot.slack.outbound.errors import Gone
from bot.slack.outbound.message_ids import MessageId, identity
from bot.slack.outbound.methods import DELETE, HISTORY, REPLIES, WHOAMI, Method
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

log = logging.getLogger(__name__)

_PAGE, _PAGES = 200, 20
_EARLIER = 300.0
"""How much Slack's clock and ours may differ when an earlier attempt is looked for."""


@dataclass(frozen=True)
class SentMessage:
    """One of our messages, as it is in Slack."""

    ts: str
    metadata: Json


AskSlack = Callable[[Method, Call], Awaitable[JsonObject]]


class SentMessages:
    def __init__(
        self, ask: AskSlack, whoami: AskSlack | None = None, own: LookupCache[None, str] | None = None
    ) -> None:
        self._ask, self._whoami = ask, whoami or ask
        self._own: LookupCache[None, str] = own or LookupCache()

    def asking(self, ask: AskSlack) -> SentMessages:
        """The same with another way of calling. The app's identity, which all callers share, is asked for as before."""
        return SentMessages(ask, self._whoami, self._own)

    async def find(
        self,
        channel: str,
        wanted: MessageId,
        *,
        thread_ts: str | None = None,
        since: float | None = None,
        keep: str | None = None,
    ) -> str | None:
        """Finds our message with this identity: the one to `keep`, or else the first. Deletes all other copies."""
        sent = await self.sent(channel, thread_ts=thread_ts, since=since)
        found = [one.ts for one in sent if identity(one.metadata) == wanted]
        kept = keep if keep in found else next(iter(found), None)
        for stray in found:
            if stray != kept:
                log.info("another copy of a message is deleted")
                await self.delete(channel, stray)
        return kept

    async def sent(
        self, channel: str, *, thread_ts: str | None = None, since: float | None = None
    ) -> list[SentMessage]:
        """Our own messages in a thread, or in a channel outside its threads, oldest first."""
        own = await self._own_user()
        oldest = None if since is None else f"{max(0.0, since - _EARLIER):.6f}"
        found: list[SentMessage] = []
        cursor: str | None = None
        for _ in range(_PAGES):
            page = await self._page(channel, thread_ts, oldest, cursor)
            found += [_sent_message(message) for message in objects(page.get("messages")) if message.get("user") == own]
            cursor = as_text(as_object(page.get("response_metadata")).get("next_cursor")) or None
            if cursor is None:
                break
        return sorted(found, key=lambda one: one.ts)

    async def delete(self, channel: str, ts: str) -> None:
        """Deletes a message. It may be gone already."""
        try:
            await self._ask(DELETE, lambda client: client.chat_delete(channel=channel, ts=ts))
        except Gone as gone:
            if gone.code != "message_not_found":
                raise

    async def _page(self, channel: str, thread_ts: str | None, oldest: str | None, cursor: str | None) -> JsonObject:
        def replies(client: AsyncWebClient) -> Awaitable[AsyncSlackResponse]:
            return client.conversations_replies(
                channel=channel,
                ts=thread_ts or "",
                include_all_metadata=True,
                oldest=oldest,
                cursor=cursor,
                limit=_PAGE,
            )

        def history(client: AsyncWebClient) -> Awaitable[AsyncSlackResponse]:
            return client.conversations_history(
                channel=channel, include_all_metadata=True, oldest=oldest, cursor=cursor, limit=_PAGE
            )

        return await self._ask(*((REPLIES, replies) if thread_ts else (HISTORY, history)))

    async def _own_user(self) -> str:
        """The app's own user. This matters because anybody can write metadata that looks like ours."""

        async def who() -> str:
            return as_text((await self._whoami(WHOAMI, lambda client: client.auth_test())).get("user_id"))

        return await self._own.get(None, who)


def _sent_message(message: JsonObject) -> SentMessage:
    return SentMessage(as_text(message.get("ts")), message.get("metadata"))
