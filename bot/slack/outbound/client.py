"""Calls to Slack: one method for each thing that the app posts, changes, opens or looks up.

A post is not idempotent. If its answer is lost, it raises `Unsure`. The caller then repeats it with `sure=False`: the
message is first looked for by its `metadata`. If it is found, it is kept, and further copies are deleted.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from slack_sdk.webhook.async_client import AsyncWebhookClient

from blocks.ids import identity
from blocks.kit import Message
from bot.slack.cache import LookupCache
from bot.slack.outbound.calls import QUIET, Call, Calls, Sure
from bot.slack.outbound.errors import OVERSIZE_OR_ODD, Gone, Later, RefusedBySlack, SlackTrouble
from bot.slack.outbound.methods import (
    DELETE,
    EPHEMERAL,
    HISTORY,
    OPEN_DM,
    OPEN_VIEW,
    PERMALINK,
    POST,
    PUBLISH,
    REPLIES,
    STOP_STREAM,
    UPDATE,
    UPDATE_VIEW,
    WHOAMI,
    Method,
)
from bot.slack.outbound.rates import MINUTE, Rates
from runtime.jsontypes import Json, JsonObject, as_object, as_text, objects

log = logging.getLogger(__name__)

_FOR_A_TRIGGER = 1.0
_TO_RESPOND = 5

WHISPERS = 20
"""The most ephemeral messages to one person in a minute. Nobody reads more, and others need Slack's limit too."""


VIEWS = 30
"""The most views that one person opens in a minute, for the same reason."""


_PAGE, _PAGES = 200, 20
_EARLIER = 300.0
"""How much Slack's clock and ours may differ when an earlier attempt is looked for."""


@dataclass(frozen=True)
class SentMessage:
    """One of our messages, as it is in Slack."""

    ts: str
    metadata: Json


class Sender:
    def __init__(self, calls: Calls) -> None:
        self._calls, clock = calls, calls.clock
        self._sure: Sure | None = None
        self._whispers, self._views = Rates(clock), Rates(clock)
        self._links: LookupCache[tuple[str, str], str] = LookupCache(clock=clock)
        self._dms: LookupCache[str, str] = LookupCache(clock=clock)
        self._own: LookupCache[None, str] = LookupCache()

    async def ask(
        self,
        method: Method,
        call: Call,
        *,
        into: str | None = None,
        patience: float | None = None,
    ) -> JsonObject:
        """Makes any other call in its turn. Raises `SlackTrouble`."""
        return await self._calls.ask(method, call, into=into, patience=patience, sure=self._sure)

    def under(self, sure: Sure) -> Sender:
        """The same sender for a lease holder: `sure` is awaited right before each call, after the wait for its turn,
        and raises if the lease is lost."""
        bound = copy.copy(self)
        bound._sure = sure
        return bound

    def client(self) -> AsyncWebClient:
        """A client for requests outside the Web API."""
        return self._calls.client()

    # Messages

    async def post(
        self,
        channel: str,
        message: Message,
        *,
        thread_ts: str | None = None,
        broadcast: bool = False,
        sure: bool = True,
        since: float | None = None,
    ) -> str:
        """Posts a message, and returns its ts. `broadcast`: the channel shows it too, besides the thread. `sure` is
        False if an earlier attempt, made at `since` or later, may have succeeded."""
        wanted = identity(message.metadata)
        if not sure and wanted is not None:
            found = await self.find_sent(channel, wanted, thread_ts=thread_ts, since=since)
            if found is not None:
                return found

        async def send(content: Message) -> JsonObject:
            return await self.ask(
                POST,
                lambda client: client.chat_postMessage(
                    channel=channel,
                    text=content.text,
                    blocks=content.blocks or None,
                    metadata=content.metadata or None,
                    thread_ts=thread_ts,
                    reply_broadcast=broadcast or None,
                    unfurl_links=False,
                    unfurl_media=False,
                ),
                into=channel,
            )

        return str((await _or_plain(send, message))["ts"])

    async def update(self, channel: str, ts: str, message: Message) -> None:

        async def send(content: Message) -> JsonObject:
            return await self.ask(
                UPDATE,
                lambda client: client.chat_update(
                    channel=channel,
                    ts=ts,
                    text=content.text,
                    blocks=content.blocks,
                    metadata=content.metadata or None,
                ),
            )

        await _or_plain(send, message)

    async def delete(self, channel: str, ts: str) -> None:
        """Deletes a message. It may be gone already."""
        try:
            await self.ask(DELETE, lambda client: client.chat_delete(channel=channel, ts=ts))
        except Gone as gone:
            if gone.code != "message_not_found":
                raise

    async def ephemeral(self, channel: str, user: str, message: Message, *, thread_ts: str | None = None) -> None:
        await self.ask(
            EPHEMERAL,
            lambda client: client.chat_postEphemeral(
                channel=channel, user=user, text=message.text, blocks=message.blocks or None, thread_ts=thread_ts
            ),
        )

    async def permalink(self, channel: str, ts: str) -> str:
        async def look() -> str:
            answer = await self._calls.ask(  # shared by all who wait for it, so not bound to a lease
                PERMALINK, lambda client: client.chat_getPermalink(channel=channel, message_ts=ts)
            )
            return str(answer["permalink"])

        return await self._links.get((channel, ts), look)

    async def open_dm(self, user: str) -> str:
        """Opens the direct message with a person, and returns its channel."""

        async def open_() -> str:
            answer = await self._calls.ask(OPEN_DM, lambda client: client.conversations_open(users=user))
            return str(as_object(answer["channel"])["id"])

        return await self._dms.get(user, open_)

    async def whisper(self, target: JsonObject, message: Message, window: JsonObject | None = None) -> None:
        """To one person, where they look: `target` names team, user and, if they are in one, channel and thread.

        If `target` has the `trigger` of a click, the `window` opens, which says the same. A window appears on top of
        what they look at, but a trigger lives for three seconds. Otherwise the message is ephemeral. Outside of
        channels, and where Slack does not show it to them, it is a direct message. Slack's limit is for all people
        together, so nobody has more than a share of it: beyond that it raises `Later`.
        """
        user, channel = as_text(target.get("user")), as_text(target.get("channel"))
        theirs = (user, WHISPERS, MINUTE)
        if self._whispers.wait(*theirs) > 0:
            raise Later("chat.postEphemeral", self._whispers.promise(*theirs))
        self._whispers.take(*theirs)
        if window is not None and await self._in_window(as_text(target.get("trigger")), window):
            return
        if channel:
            thread_ts = as_text(target.get("thread_ts")) or None
            try:
                await self.ephemeral(channel, user, message, thread_ts=thread_ts)
                return
            except Gone as gone:
                log.info("sent as a direct message instead: %s", gone)
        await self.post(await self.open_dm(user), message)

    async def _in_window(self, trigger: str, window: JsonObject) -> bool:
        """Whether a view could be opened. If Slack's answer was lost, this is unknown, and the message is sent as
        well."""
        if not trigger:
            return False
        try:
            await self.open_view(trigger, window)
        except SlackTrouble as trouble:
            log.info("sent as a message instead of a window: %s", trouble)
            return False
        return True

    async def respond(self, url: str, message: Message, *, replace_original: bool = False, thread_ts: str = "") -> bool:
        """Sends a message to one person, at the URL that came with their action. Returns whether Slack accepted it."""
        body: JsonObject = {**message.payload(), "replace_original": replace_original}
        body |= {"response_type": "ephemeral"} | ({"thread_ts": thread_ts} if thread_ts else {})
        try:
            client = AsyncWebhookClient(url, logger=QUIET, timeout=_TO_RESPOND)
            status = (await client.send_dict(body)).status_code
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.warning("no answer at a response URL: %s", type(error).__name__)  # the URL itself is a secret
            return False
        if status != HTTPStatus.OK:
            log.warning("a response URL answered %s", status)
        return status == HTTPStatus.OK

    # Messages that were sent

    async def find_sent(
        self,
        channel: str,
        wanted: tuple[str | int, ...],
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

        return await self.ask(*((REPLIES, replies) if thread_ts else (HISTORY, history)))

    async def _own_user(self) -> str:
        """The app's own user. This matters because anybody can write metadata that looks like ours."""

        async def who() -> str:
            # shared by all who wait for it, so not bound to a lease
            return as_text((await self._calls.ask(WHOAMI, lambda client: client.auth_test())).get("user_id"))

        return await self._own.get(None, who)

    # Views

    def turn_for_view(self, user: str) -> None:
        """Call this before a view for somebody is made. Slack's limit is for all people together, so nobody gets more
        than a share of it: beyond that it raises `Later`."""
        theirs = (user, VIEWS, MINUTE)
        if (wait := self._views.wait(*theirs)) > 0:
            raise Later(OPEN_VIEW.name, wait)
        self._views.take(*theirs)

    async def open_view(self, trigger_id: str, view: JsonObject) -> str:
        """Opens a view, and returns its id. Does not wait, since a trigger is valid for three seconds only."""
        answer = await self.ask(
            OPEN_VIEW,
            lambda client: client.views_open(trigger_id=trigger_id, view=view),
            patience=_FOR_A_TRIGGER,
        )
        return as_text(as_object(answer.get("view")).get("id"))

    async def update_view(self, view_id: str, view: JsonObject) -> None:
        await self.ask(UPDATE_VIEW, lambda client: client.views_update(view_id=view_id, view=view))

    async def publish_home(self, user: str, view: JsonObject) -> None:
        await self.ask(PUBLISH, lambda client: client.views_publish(user_id=user, view=view))

    async def stop_stream(self, channel: str, ts: str, status: str | None = None) -> None:
        """Ends a message's growth. It may have ended already. `status`: of Slack's agent session from then on; without
        one, Slack shows that it is the person's turn."""
        for given in [{"session_status": status}, {}] if status else [{}]:
            try:
                await self.ask(
                    STOP_STREAM,
                    lambda client, given=given: client.chat_stopStream(channel=channel, ts=ts, **given),  # type: ignore[misc]
                )
                return
            except (Gone, RefusedBySlack) as trouble:
                log.info("a message had stopped growing: %s", trouble)


def _sent_message(message: JsonObject) -> SentMessage:
    return SentMessage(as_text(message.get("ts")), message.get("metadata"))


async def _or_plain(send: Callable[[Message], Awaitable[JsonObject]], message: Message) -> JsonObject:
    """If Slack refuses a message as it is, sends its bare text. So no card is lost, and no button stays that does not
    work any more."""
    try:
        return await send(message)
    except RefusedBySlack as refused:
        if refused.code not in OVERSIZE_OR_ODD:
            raise
        log.error("sent as plain text: %s", refused)
        return await send(Message(message.text, (), {} if "metadata" in refused.code else message.metadata))
