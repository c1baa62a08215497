"""One way to Slack: `slack.call(METHOD, **arguments)`, and a function for each thing that takes more than one call.

Each call waits for its turn by Slack's rates, has a time limit, and raises an error that says what to do next. Only a
call that Slack refused with a 429 is made again here, if its turn comes soon. Any other is made again by its job when
`Later` says so, and the SDK's own retries are off, since they repeat a post whose answer was lost, and wait without a
limit. `slack.at(lease)` is the same for the holder of a lease: right before
the call it makes sure that the lease is still held.

A post is not idempotent. If its answer is lost, it raises `Unsure`. The caller then repeats it with `sure=False`: the
message is first looked for by its `metadata`. If it is found, it is kept, and further copies are deleted.
"""

from __future__ import annotations

import asyncio
import copy
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any, cast

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from adk_confirm.blocks.click_ids import identity
from adk_confirm.blocks.kit import Message
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.slack.lookups import LookupCache
from adk_confirm.bot.slack.rate_limits import (
    DELETE,
    EPHEMERAL,
    HISTORY,
    MINUTE,
    OPEN_DM,
    OPEN_VIEW,
    PERMALINK,
    POST,
    REPLIES,
    STOP_STREAM,
    UPDATE,
    WHOAMI,
    Limiter,
    Method,
    Rate,
)
from adk_confirm.bot.slack.troubles import (
    OVERSIZE_OR_ODD,
    UNANSWERED,
    Gone,
    Later,
    RefusedBySlack,
    Revoked,
    SlackTrouble,
    Unfound,
    Unsure,
    trouble_from,
)
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object, as_text, objects
from adk_confirm.runtime.store.lease import Lease

log = logging.getLogger(__name__)

QUIET = logging.getLogger("adk_confirm.bot.slack.calls.sdk")
QUIET.setLevel(logging.INFO)  # at DEBUG the SDK logs what it sends

_CONNECTIONS, _KEPT = 100, 5.0
"""How many connections are open at most, and for how many seconds one stays open without a call."""
_TO_CONNECT, _LONGEST, _TO_RESPOND = 5.0, 30.0, 5
"""Seconds until a call that got no connection is put off, the longest that any call may take, and the longest that a
response URL may."""

WHISPERS, VIEWS = 20, 30
"""The most ephemeral messages to one person, and the most views for one person, in a minute. Nobody reads more, and
others share Slack's limit."""

_PAGE, _PAGES = 200, 20
_EARLIER = 300.0
"""How much Slack's clock and ours may differ when an earlier attempt is looked for."""

Meter = Callable[[str, str, float], None]
"""Counts an answer of Slack: its method, "ok" or Slack's error code, and how many seconds it took."""


@dataclass(frozen=True)
class CallLimits:
    """`patience`: the longest that a call waits for its turn; then it raises `Later`. `posts`: how many posts may go
    into one channel at once, and how many in any `posts` seconds: one a second, with the short bursts that Slack
    allows. `lookups`: the longest that a decision waits for a lookup while Slack fails."""

    time_limit: float = 10.0
    patience: float = 5.0
    lookups: float = 20.0
    posts: int = 5


@dataclass(frozen=True)
class SentMessage:
    """One of our messages, as it is in Slack."""

    ts: str
    metadata: Json


def slack_session() -> aiohttp.ClientSession:
    """Connections to Slack that stay open for the next call. Has to be closed.

    A connection is closed after a few seconds without a call, long before Slack would close it. If Slack closed it
    during a post, nobody would know whether the post arrived.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEPT),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=_LONGEST, connect=_TO_CONNECT),
    )


async def pages(ask: Callable[[str | None], Awaitable[JsonObject]], most: int) -> AsyncIterator[JsonObject]:
    """Slack's answers, page by page, but no more than `most`. `ask` takes the cursor, which is None for the first."""
    cursor: str | None = None
    for _ in range(most):
        yield (page := await ask(cursor))
        cursor = as_text(as_object(page.get("response_metadata")).get("next_cursor")) or None
        if cursor is None:
            return


class Slack:
    """Calls Slack. `client` retries nothing and does not log what it sends. Requests outside the Web API use it too."""

    def __init__(
        self,
        client: AsyncWebClient,
        *,
        limits: CallLimits | None = None,
        meter: Meter = lambda *_: None,
        session: aiohttp.ClientSession | None = None,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`session`: of `slack_session`; without one, each call opens a connection of its own."""
        self.client = copy.copy(client)
        self.client.retry_handlers = []
        self.client._logger = QUIET
        self.client.session = session
        self.clock, self.pause = clock, pause
        self._limits, self._meter = limits or CallLimits(), meter
        self._limiter, self._lease = Limiter(clock), cast("Lease | None", None)
        self._free = self  # not bound to a lease, for what is shared by all who wait for it
        self._links: LookupCache[tuple[str, str], str] = LookupCache(clock=clock)
        self._dms: LookupCache[str, str] = LookupCache(clock=clock)
        self._own: LookupCache[None, str] = LookupCache()

    def at(self, lease: Lease) -> Slack:
        """The same calls for the holder of a lease: the lease is checked right before each call, after the wait for its
        turn, and an error is raised if it is lost."""
        bound = copy.copy(self)
        bound._lease = lease
        return bound

    async def call(self, method: Method, **arguments: Any) -> JsonObject:
        """Makes a call. Returns Slack's answer, or raises a `SlackTrouble`. Arguments that are None are left out."""
        given = {name: value for name, value in arguments.items() if value is not None}
        rates: list[Rate] = [(method.name, method.per_minute, MINUTE)]
        if method.posts:
            rates.append((given["channel"], self._limits.posts, float(self._limits.posts)))
        patience = self._limits.patience if method.patience is None else method.patience
        who = None if method.patience is not None else self._who(method, given)
        until = self.clock() + patience
        while True:
            wait = self._limiter.take(method.name, rates, max(0.0, until - self.clock()), who=who)
            if wait > 0:
                await self.pause(wait)
            if self._lease is not None:
                await self._lease.sure()
            try:
                return await self._call_once(method, given)
            except Later as later:
                if later.limited:
                    # Slack does not say which limit it was, so the channel's own, which is lower, is assumed.
                    self._limiter.close(rates[-1], later.after)
                if not later.limited or self.clock() + later.after > until:
                    raise

    def _who(self, method: Method, given: JsonObject) -> object:
        """Who gets the place in line if this call is sent away: the job at work, or who makes the same call again."""
        if self._lease is not None:
            return self._lease.work
        return method.name, *(value for value in given.values() if isinstance(value, str))

    async def _call_once(self, method: Method, given: JsonObject) -> JsonObject:
        if not self.client.token:
            raise Revoked(method.name, "not_authed")  # a command without a token: there is nothing to ask with
        began, outcome = self.clock(), "abandoned"
        how: dict[str, Any] = {"http_verb": "GET", "params": given} if method.reads else {"json": given}
        asking = self.client.api_call(method.name, **how)
        try:
            async with asyncio.timeout(min(self._limits.time_limit, method.within)):
                response = await asking
            outcome = "ok"
            return cast("JsonObject", response.data)
        except UNANSWERED as error:
            trouble: SlackTrouble = trouble_from(method.name, error, repeatable=method.repeatable)
            outcome = trouble.code
            raise trouble from None  # the SDK's error quotes what Slack answered, which may be the message itself
        finally:
            self._meter(method.name, outcome, self.clock() - began)

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
        try:
            answer = await self._or_plain(
                POST,
                message,
                channel=channel,
                thread_ts=thread_ts,
                reply_broadcast=broadcast or None,
                unfurl_links=False,
                unfurl_media=False,
            )
        except Unsure as unsure:
            raise unsure if wanted is None else Unfound(unsure.method, unsure.code) from None
        return str(answer["ts"])

    async def update(self, channel: str, ts: str, message: Message) -> None:
        await self._or_plain(UPDATE, message, channel=channel, ts=ts)

    async def _or_plain(self, method: Method, message: Message, **where: Any) -> JsonObject:
        """If Slack refuses a message as it is, sends its bare text. So no card is lost, and no button stays that does
        not work any more."""

        async def send(content: Message) -> JsonObject:
            blocks = list(content.blocks) or (None if method.posts else [])
            return await self.call(method, text=content.text, blocks=blocks, metadata=content.metadata or None, **where)

        try:
            return await send(message)
        except RefusedBySlack as refused:
            if refused.code not in OVERSIZE_OR_ODD:
                raise
            log.error("sent as plain text: %s", refused)
            return await send(Message(message.text, (), {} if "metadata" in refused.code else message.metadata))

    async def delete(self, channel: str, ts: str) -> None:
        """Deletes a message. It may be gone already."""
        try:
            await self.call(DELETE, channel=channel, ts=ts)
        except Gone as gone:
            if gone.code != "message_not_found":
                raise

    async def permalink(self, channel: str, ts: str) -> str:
        async def look() -> str:
            return str((await self._free.call(PERMALINK, channel=channel, message_ts=ts))["permalink"])

        return await self._links.get((channel, ts), look)

    async def open_dm(self, user: str) -> str:
        """Opens the direct message with a person, and returns its channel."""

        async def open_() -> str:
            return str(as_object((await self._free.call(OPEN_DM, users=user))["channel"])["id"])

        return await self._dms.get(user, open_)

    async def whisper(self, seat: Seat, message: Message, window: JsonObject | None = None) -> None:
        """Tells one person something where they look: in their channel and thread, if they are in one.

        If the seat has the trigger of a click, the `window` opens, which says the same. A window appears on top of
        what they look at, but a trigger lives for three seconds. Otherwise the message is ephemeral. Outside of
        channels, and where Slack does not show it to them, it is a direct message. Slack's limit is for all people
        together, so nobody has more than a share of it: beyond that it raises `Later`.
        """
        user, channel = seat.person.user, seat.channel
        theirs = ("whispers", user), WHISPERS, MINUTE
        who = self._who(EPHEMERAL, {"user": user, "text": message.text})
        self._limiter.take(EPHEMERAL.name, [theirs], who=who)
        if window is not None and seat.trigger:
            try:
                await self.open_view(seat.trigger, window)
                return
            except SlackTrouble as trouble:  # if only the answer was lost, they read it twice
                log.info("sent as a message instead of a window: %s", trouble)
        if channel:
            content: JsonObject = {"text": message.text, "blocks": list(message.blocks) or None}
            try:
                await self.call(EPHEMERAL, channel=channel, user=user, thread_ts=seat.thread_ts or None, **content)
                return
            except Gone as gone:
                log.info("sent as a direct message instead: %s", gone)
        await self.post(await self.open_dm(user), message)

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

    async def stop_stream(self, channel: str, ts: str, status: str | None = None) -> None:
        """Ends a message's growth. It may have ended already. `status`: of Slack's agent session from then on; without
        one, Slack shows that it is the person's turn."""
        for given in [status, None] if status else [None]:
            try:
                await self.call(STOP_STREAM, channel=channel, ts=ts, session_status=given)
                return
            except (Gone, RefusedBySlack) as trouble:
                log.info("a message had stopped growing: %s", trouble)

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
        method, where = (REPLIES if thread_ts else HISTORY), {"channel": channel, "ts": thread_ts, "oldest": oldest}
        ask = partial(self.call, method, **where, include_all_metadata=True, limit=_PAGE)
        found: list[SentMessage] = []
        async for page in pages(lambda cursor: ask(cursor=cursor), _PAGES):
            ours = [message for message in objects(page.get("messages")) if message.get("user") == own]
            found += [SentMessage(as_text(message.get("ts")), message.get("metadata")) for message in ours]
        return sorted(found, key=lambda one: one.ts)

    async def newest(self, channel: str) -> str:
        """The layout of our own newest messages in a channel, as JSON."""
        own = await self._own_user()
        page = await self.call(HISTORY, channel=channel, limit=_PAGE)
        return json.dumps([one.get("blocks") for one in objects(page.get("messages")) if one.get("user") == own])

    async def _own_user(self) -> str:
        """The app's own user. This matters because anybody can write metadata that looks like ours."""

        async def who() -> str:
            return as_text((await self._free.call(WHOAMI)).get("user_id"))

        return await self._own.get(None, who)

    # Views

    def turn_for_view(self, user: str) -> None:
        """Call this before a view for somebody is made. Slack's limit is for all people together, so nobody gets more
        than a share of it: beyond that it raises `Later`."""
        self._limiter.take(OPEN_VIEW.name, [(("views", user), VIEWS, MINUTE)])

    async def open_view(self, trigger_id: str, view: JsonObject) -> str:
        """Opens a view, and returns its id."""
        answer = await self.call(OPEN_VIEW, trigger_id=trigger_id, view=view)
        return as_text(as_object(answer.get("view")).get("id"))
