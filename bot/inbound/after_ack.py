"""Work that follows an ack and is not stored: opening forms, sending lists, notes to one person.

Slack does not deliver the click again, so if this work fails, the person who waits gets a message, and the log has the
reason. People take turns, so somebody who clicks again and again does not delay others.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from adk_confirm.blocks.kit import Message
from adk_confirm.blocks.mentions import mentions_in_view, view_with_names
from adk_confirm.blocks.notices import NOT_POSSIBLE, notice_message, notice_modal
from adk_confirm.bot.cards.modals import with_seat
from adk_confirm.bot.confirmation.confirmation import Seat
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.names import NameLookup
from adk_confirm.bot.slack.rate_limits import UPDATE_VIEW
from adk_confirm.bot.slack.troubles import Gone, Later, SlackTrouble, Unsure
from adk_confirm.runtime.errors import ConfirmError, StoreError, reason
from adk_confirm.runtime.jsontypes import JsonObject

log = logging.getLogger(__name__)

PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, *(30.0,) * 20)
"""The pauses between attempts to show somebody something while Slack is down. After ten minutes nobody waits for it."""
LONGEST_PAUSE = 120.0
"""If Slack asks for a longer pause, the message is dropped."""


MOST_EACH = 4
"""How many votes of one person are stored at once."""


class FairTurns:
    """Votes on one confirmation are stored one after another. Without turns, each waiting vote would hold a database
    connection that others need."""

    def __init__(self) -> None:
        self._gates: dict[Hashable, _Gate] = {}

    @asynccontextmanager
    async def of(self, person: Hashable, confirmation: str) -> AsyncIterator[None]:
        """Hold this while a vote is stored. Locks are always taken in the same order, so there is no deadlock."""
        async with self._turn(("person", person), MOST_EACH), self._turn(("confirmation", confirmation), 1):
            yield

    @asynccontextmanager
    async def form(self, person: Hashable) -> AsyncIterator[None]:
        """Hold this while a form of somebody is built or read: one at a time."""
        async with self._turn(("form", person), 1):
            yield

    @asynccontextmanager
    async def _turn(self, key: Hashable, most: int) -> AsyncIterator[None]:
        gate = self._gates.setdefault(key, _Gate(most))
        gate.users += 1
        try:
            async with gate.slots:
                yield
        finally:
            gate.users -= 1
            if not gate.users:
                del self._gates[key]


class _Gate:
    def __init__(self, most: int) -> None:
        self.slots, self.users = asyncio.Semaphore(most), 0


class AfterAck:
    def __init__(self, slack: Slack, names: NameLookup) -> None:
        self._slack, self._names, self._turns = slack, names, FairTurns()
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = asyncio.Event()

    def begin(self, what: str, work: Coroutine[Any, Any, object], seat: Seat | None = None, url: str = "") -> None:
        """Does the work in the background. `what` names it in the log and in the message to the person if it fails."""
        task = asyncio.create_task(self._run(what, work, seat, url), name="adk-confirm-errand")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def tell(self, sentence: str, seat: Seat, url: str = "", title: str = NOT_POSSIBLE) -> None:
        """Tells one person something: at the URL that came with the click, or else in a window, if there is a trigger
        for one, or else in a message that only this person sees."""
        self.begin("a notice", self._notify(notice_message(sentence), notice_modal(sentence, title), seat, url))

    def open_form(self, seat: Seat, url: str, compose: Callable[[], Awaitable[JsonObject]]) -> None:
        """Opens a form, or the window that is shown instead of it."""
        self.begin("the form", self._open_view(seat, url, compose), replace(seat, trigger=""), url)

    async def drain(self) -> None:
        """Waits for the work that has begun. Nothing is retried any more."""
        self._stopping.set()
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def _run(self, what: str, work: Coroutine[Any, Any, object], seat: Seat | None, url: str) -> None:
        try:
            await work
            return
        except ConfirmError as error:
            failed: Exception = error
            # Nothing here is retried, so the log has no advice about that.
            log.warning(
                "%s failed: %s", what, f"{error.method}: {error.code}" if isinstance(error, Later) else reason(error)
            )
        except Exception as error:
            failed = error
            log.error("%s failed: %s", what, reason(error), exc_info=error)
        if seat is not None:
            self.tell(why_not(what, failed), seat, url)

    async def _open_view(self, seat: Seat, url: str, compose: Callable[[], Awaitable[JsonObject]]) -> None:
        self._slack.turn_for_view(seat.person.user)
        async with self._turns.form(seat.person):
            composed = await compose()
        # The card is there already, so its names are known. A trigger is too short to ask Slack for others.
        composed = view_with_names(composed, self._names.known(mentions_in_view(composed)))
        shown = with_seat(composed, replace(seat, window=""), url if seat.lists else "")
        if seat.window:
            await self._slack.call(UPDATE_VIEW, view_id=seat.window, view=shown)
        else:
            await self._slack.open_view(seat.trigger, shown)

    async def _notify(self, message: Message, window: JsonObject, seat: Seat, url: str) -> None:
        if url and await self._slack.respond(url, message, thread_ts=seat.thread_ts):
            return
        await self.retried(partial(self._slack.whisper, seat, message, window))

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
