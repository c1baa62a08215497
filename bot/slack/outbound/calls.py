"""Makes one call to Slack: within its rate limit, with a time limit, and with errors that say what to do next.

The SDK's own retries are off: they repeat a post whose answer was lost, and wait without a limit.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import cast

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from bot.slack.outbound.errors import Later, Revoked, SlackTrouble, trouble_from
from bot.slack.outbound.methods import Method
from bot.slack.outbound.rates import MINUTE, Rates
from runtime.jsontypes import JsonObject

_CONNECTIONS, _KEPT = 100, 5.0
"""How many connections are open at most, and for how many seconds one stays open without a call."""

_TO_CONNECT, _LONGEST = 5.0, 30.0
"""Seconds until a call that got no connection is put off, and the longest that any call may take."""

QUIET = logging.getLogger("bot.slack.outbound.calls.sdk")
QUIET.setLevel(logging.INFO)  # at DEBUG the SDK logs what it sends


Call = Callable[[AsyncWebClient], Awaitable[AsyncSlackResponse]]
"""Makes a call with a client."""

Sure = Callable[[], Awaitable[None]]
"""Raises if the caller may not make the call any more."""


Meter = Callable[[str, str, float], None]
"""Counts an answer of Slack: its method, "ok" or Slack's error code, and how many seconds it took."""


@dataclass(frozen=True)
class CallLimits:
    """`patience`: the longest that a call waits for its turn; then it raises `Later`. `posts`: how many posts may go
    into one channel at once, and how many in any `posts` seconds: one a second, with the short bursts that Slack
    allows. `lookups`: the longest that a decision waits for a lookup while Slack fails."""

    time_limit: float = 10.0
    patience: float = 5.0
    lookups: float = 30.0
    posts: int = 5


def slack_session() -> aiohttp.ClientSession:
    """Connections to Slack that stay open for the next call. Has to be closed.

    They close after a few seconds without a call, long before Slack would close them: a post on a connection that
    Slack has just closed may or may not have arrived.
    """
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEPT),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=_LONGEST, connect=_TO_CONNECT),
    )


class Calls:
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
        self._client = client
        self._limits, self._meter = limits or CallLimits(), meter
        self._session = session
        self.clock, self._pause = clock, pause
        self._rates = Rates(clock)

    async def ask(
        self,
        method: Method,
        call: Call,
        *,
        into: str | None = None,
        patience: float | None = None,
        sure: Sure | None = None,
    ) -> JsonObject:
        """Makes a call. Returns Slack's answer, or raises a `SlackTrouble`. `into`: the channel that the call posts to,
        which has a limit of its own. `patience`: for calls that are worth nothing later; other calls are repeated when
        a `Later` says so. `sure` is awaited right before each sending."""
        left = self._limits.patience if patience is None else patience
        tries = 2 if method.repeatable and not method.lookup else 1
        while True:
            left -= await self._turn(method, into, left, comes_back=patience is None)
            if sure is not None:
                await sure()
            try:
                return await self._call_once(method, call)
            except Later as later:
                if later.limited:
                    self._close(method, into, later.after)
                else:
                    tries -= 1
                if not tries or later.after > left:
                    raise

    async def _turn(self, method: Method, into: str | None, patience: float, *, comes_back: bool) -> float:
        """Waits for a slot in every window that applies to the call, and returns how long that took. `comes_back`: a
        caller that is sent away tries again, after all who were sent away earlier."""
        windows = self._windows(method, into)
        wait = max(self._rates.wait(*window) for window in windows)
        if wait > patience:
            if comes_back:
                wait = max(self._rates.promise(*window) for window in windows)
            raise Later(method.name, wait)
        wait = max(self._rates.take(*window) for window in windows)
        if wait > 0:
            await self._pause(wait)
        return wait

    def _close(self, method: Method, into: str | None, after: float) -> None:
        """Closes a window after a 429. Slack does not say which limit it was, so the channel's own, which is lower, is
        assumed."""
        self._rates.close(*self._windows(method, into)[-1], after)

    def _windows(self, method: Method, into: str | None) -> list[tuple[str, int, float]]:
        windows = [(method.name, method.per_minute, MINUTE)]
        if into is not None:
            windows.append((into, self._limits.posts, float(self._limits.posts)))
        return windows

    async def _call_once(self, method: Method, call: Call) -> JsonObject:
        client = self.client()
        if not client.token:
            raise Revoked(method.name, "not_authed")  # a command without a token: there is nothing to ask with
        began, outcome = self.clock(), "abandoned"
        asking = call(client)  # a mistake of ours in how it is called is no failure of Slack
        try:
            async with asyncio.timeout(min(self._limits.time_limit, method.within)):
                response = await asking
            outcome = "ok"
            return cast("JsonObject", response.data)
        except (SlackClientError, aiohttp.ClientError, OSError, TimeoutError, AttributeError) as error:
            # AttributeError: the SDK fails on a 200 whose body is plain text, such as a proxy's.
            trouble: SlackTrouble = trouble_from(method.name, error, repeatable=method.repeatable)
            outcome = trouble.code
            raise trouble from None  # the SDK's error quotes what Slack answered, which may be the message itself
        finally:
            self._meter(method.name, outcome, self.clock() - began)

    def client(self) -> AsyncWebClient:
        """A client for requests outside the Web API. It retries nothing and does not log what it sends."""
        client = copy.copy(self._client)
        client.retry_handlers = []
        client._logger = QUIET
        client.session = self._session
        return client
