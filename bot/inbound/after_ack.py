"""Work that follows an ack and is not stored: opening forms, sending lists, notes to one person.

Slack does not deliver the click again, so if this work fails, the person who waits gets a message, and the log has the
reason.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from blocks.kit import Message
from blocks.mentions import mentions_in_view, view_with_names
from blocks.verdict import notice_message, notice_modal
from bot.cards.forms import with_target
from bot.home.query import HomeReader
from bot.inbound.fair_turns import FairTurns
from bot.inbound.payloads import Body, answer_target, person_of
from bot.slack.api import Slack
from bot.slack.errors import Gone, Later, SlackTrouble, Unsure
from bot.slack.names import NameLookup
from runtime.errors import ConfirmError, StoreError, reason
from runtime.jsontypes import JsonObject, as_text

log = logging.getLogger(__name__)

PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, *(30.0,) * 20)
"""The pauses between attempts to show somebody something while Slack is down. After ten minutes nobody waits for it."""
LONGEST_PAUSE = 120.0
"""If Slack asks for a longer pause, the message is dropped."""


@dataclass(frozen=True)
class Addressee:
    """Where one person sees a message. `target` is what `Slack.whisper` takes; the response URL is there if Slack gave
    one."""

    target: JsonObject
    url: str = ""

    @classmethod
    def of(cls, body: Body) -> Self:
        """The person who clicked or used a shortcut."""
        return cls(answer_target(body, person_of(body)), as_text(body.get("response_url")))

    @classmethod
    def reader(cls, reader: HomeReader, channel: str, url: str) -> Self:
        return cls({"user": reader.person.user, "channel": channel}, url)


class AfterAck:
    def __init__(self, slack: Slack, names: NameLookup) -> None:
        self._slack, self._names, self._turns = slack, names, FairTurns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def begin(self, what: str, work: Coroutine[Any, Any, object], waiting: Addressee | None = None) -> None:
        """Does the work in the background. `what` names it in the log and in the message to the person if it fails."""
        task = asyncio.create_task(self._run(what, work, waiting), name="adk-confirm-errand")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell(self, sentence: str, to: Addressee) -> None:
        """In a window, if the target has a trigger for one, or else in a message that only this person sees."""
        self.begin("a notice", self._notify(notice_message(sentence), notice_modal(sentence), to))

    def open_form(self, body: Body, compose: Callable[[], Awaitable[JsonObject]]) -> None:
        """Opens a form, or the window that is shown instead of it."""
        self.begin("the form", self._open_view(body, compose), Addressee.of(body))

    async def drain(self) -> None:
        """Waits for the work that has begun. Nothing is retried any more."""
        self._stopping.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, what: str, work: Coroutine[Any, Any, object], waiting: Addressee | None) -> None:
        try:
            await work
            return
        except ConfirmError as error:
            failed: Exception = error
            log.warning("%s failed: %s", what, _for_the_log(error))
        except Exception as error:
            failed = error
            log.error("%s failed: %s", what, reason(error), exc_info=error)
        if waiting is not None:
            self.tell(why_not(what, failed), waiting)

    async def _open_view(self, body: Body, compose: Callable[[], Awaitable[JsonObject]]) -> None:
        person = person_of(body)
        self._slack.turn_for_view(person.user)
        async with self._turns.form(person):
            composed = await compose()
        # The card is there already, so its names are known. A trigger is too short to ask Slack for others.
        composed = view_with_names(composed, self._names.known(mentions_in_view(composed)))
        view = with_target(composed, answer_target(body, person))
        await self._slack.open_view(body["trigger_id"], view)

    async def _notify(self, message: Message, window: JsonObject, to: Addressee) -> None:
        thread_ts = as_text(to.target.get("thread_ts"))
        if to.url and await self._slack.respond(to.url, message, thread_ts=thread_ts):
            return
        await self.retried(partial(self._slack.whisper, to.target, message, window))

    async def retried(self, work: Callable[[], Awaitable[None]]) -> None:
        """Does the work, and again while Slack puts it off."""
        for pause in PAUSES:
            try:
                await work()
                return
            except Later as later:
                if later.after > LONGEST_PAUSE or await self._stopped_within(max(pause, later.after)):
                    raise
        await work()

    async def _stopped_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                return await self._stopping.wait()
        except TimeoutError:
            return False


def why_not(what: str, error: Exception) -> str:
    """A sentence for the person who waits: what happened, and what to do."""
    match error:
        case Later(limited=True, after=after):
            seconds = math.ceil(after)
            return f"Slack does not show {what} now: too much was asked of it. Try again in {seconds} s."
        case Later():
            return f"Slack failed, and did not show {what}. Try again."
        case Unsure():
            return f"Slack did not say whether it shows {what}. If you don't see it, try again."
        case Gone():
            return str(error)
        case SlackTrouble():
            return f"Slack refused to show {what} ({error.code}). Tell whoever runs this app: its log has the reason."
        case StoreError():
            return f"The store did not answer, so {what} can't be shown. Try again in a minute."
        case ConfirmError():
            return str(error)
    return f"Something went wrong here, so {what} can't be shown. Tell whoever runs this app: its log has the reason."


def _for_the_log(error: ConfirmError) -> str:
    """The error without its advice about retries, since nothing here is retried."""
    return f"{error.method}: {error.code}" if isinstance(error, Later) else reason(error)
