"""Delivers letters (messages, decisions) from a session's mailbox to the agent's host. Skips those that come too
late."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import Ask, Confirmation, HostRequest, State
from adk_confirm.bot.confirmation.states import Delivery, Illegal
from adk_confirm.bot.confirmation.stored_json import from_object
from adk_confirm.bot.hosts.host import (
    SENT_WITHIN,
    AgentMessage,
    CallAltered,
    Host,
    HostAnswer,
    Misconfigured,
    RefusedByHost,
    RequestLost,
    RunOutput,
    SessionSnapshot,
    Unreachable,
    UserWords,
)
from adk_confirm.bot.store.letters import Letter, Mail
from adk_confirm.bot.store.marks import begin_attempt, earlier_attempt, forget_attempt
from adk_confirm.bot.store.repository import Session, note_broken_run, read_confirmation, seconds
from adk_confirm.bot.store.transactions import (
    follow_outcome,
    hand_over,
    keep_time,
    record_not_arrived,
    record_out_of_reach,
)
from adk_confirm.runtime.calls.call import ALTERED, Call, CallState
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.arrival import RunControl
from adk_confirm.runtime.store.database import Clocks, Tx
from adk_confirm.runtime.store.jobs import NotNow
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.wire import Blob

log = logging.getLogger(__name__)

Exchange = AsyncIterator[RunOutput]


class Deliveries:
    """Turns a session's letters into calls to the host, and records what became of them."""

    def __init__(self, lease: Lease, host: Host) -> None:
        self._lease, self._host = lease, host
        self._first_tries: set[str] = set()

    async def exchange(
        self,
        session: Session,
        mail: Mail,
        attachments: tuple[Blob, ...],
        stop: asyncio.Event | None = None,
    ) -> Exchange | None:
        """Starts the exchange with the host for this mail: one letter, or the answers of one turn. Returns None if
        nothing needs to be sent any more. A host that tells is asked even then: it ends what was begun. `stop` is set
        when somebody stops the run."""
        letter, noted = mail.letters[0], self._lease.clocks()
        if letter.kind == "words":
            since = await self._first_attempt(session, letter)
            ago = await self._ago(session, letter, since)
            text = str(letter.body["text"])
            user_words = UserWords(mark=letter.mark, text=text, since=since, ago=ago, attachments=attachments)
            sure = self._sure(session, [letter.mark], noted if ago is None else None)
            return self._host.say(session.session, user_words, RunControl(stop, self._lease, sure))
        answers = [answer for one in mail.letters if (answer := await self._answer(session, mail, one)) is not None]
        first = all(one.ago is None for one in answers)
        sure = self._sure(session, [one.mark for one in answers], noted if first else None)
        if not answers and not self._host.tells:
            return None
        return self._host.answer(session.session, answers, RunControl(stop, self._lease, sure))

    async def record_not_reached(self, session: Session, letters: Sequence[Letter]) -> None:
        """Records that the host did not get the letters. Approved calls are sent again, until the approval expires."""
        for letter in letters:
            if letter.mark in self._first_tries:  # otherwise an earlier one may still arrive
                await self._lease.run(forget_attempt, session.key, _mark(letter))
            if letter.confirmation is not None:
                with suppress(Illegal):  # not an approval, or not being delivered
                    await self._lease.run(record_not_arrived, letter.confirmation)
                await self._lease.run(record_out_of_reach, letter.confirmation)

    async def record_lost(self, letters: Sequence[Letter], lost: RequestLost) -> None:
        """Records that the session or the request no longer exists at the host. An approved call will not run, but it
        may have run just before."""
        state = CallState.UNKNOWN if lost.may_have_run else CallState.REFUSED
        for letter in letters:
            if letter.confirmation is None:
                continue
            row = await self._lease.read(read_confirmation, letter.confirmation)
            if row is None or row.state is not State.APPROVED or row.outcome is not None:
                continue
            altered = isinstance(lost, CallAltered) and lost.request == row.asked.request_id
            why = decision_texts.BESIDE_ALTERED if isinstance(lost, CallAltered) and not altered else str(lost)
            result: JsonObject | None = None if lost.may_have_run else {"error": why}
            reason = ALTERED if altered else None
            call = Call(row.asked.call_id, row.asked.tool, {}, "", "", state=state, result=result, reason=reason)
            await self._lease.run(follow_outcome, row.id, call)

    async def _first_attempt(self, session: Session, letter: Letter) -> float | None:
        """When sending this letter was first tried, or None if this is the first attempt. A host that tells knows the
        letter by its mark or its request."""
        if self._host.tells:
            return None
        before = await self._lease.run(begin_attempt, session.key, _mark(letter))
        if before is None:
            self._first_tries.add(letter.mark)
        else:
            self._first_tries.discard(letter.mark)
        return before

    async def _ago(self, session: Session, letter: Letter, first: float | None) -> float | None:
        """How many seconds ago sending the letter was last noted, by the store's clock, since ours may differ."""
        return None if first is None else await self._lease.read(time_since, session.key, letter.mark, first)

    def _sure(self, session: Session, marks: Sequence[str], noted: Clocks | None) -> Callable[[], Awaitable[None]]:
        """A function to await right before these letters are sent. When it returns, the lease holds, and the note that
        they are sent is fresh: made at `noted`, or anew. Other processes count from that note."""

        async def sure() -> None:
            nonlocal noted
            while True:
                await self._lease.sure()
                if noted is not None and noted.are_within(SENT_WITHIN, self._lease.clocks()):
                    return
                noted = self._lease.clocks()
                await self._lease.run(note_again, session.key, marks)

        return sure

    async def _answer(self, session: Session, mail: Mail, letter: Letter) -> HostAnswer | None:
        if letter.kind == "refusal":
            asked = HostRequest(
                request_id=str(letter.body["request"]),
                call_id=str(letter.body["call"]),
                tool="",
                arguments={},
                agent="",
                ask=Ask(str(letter.body["ask"])),
            )
            refused = Delivery(word="denied", reason=str(letter.body["reason"]), arguments={}, revision=0)
            ago = await self._ago(session, letter, await self._first_attempt(session, letter))
            return HostAnswer(asked=asked, delivery=refused, mark=letter.mark, ago=ago)
        assert letter.confirmation is not None
        row, delivery = mail.about(letter), _delivery(letter)
        if row is None:  # void: this ends it
            row = await self._lease.run(keep_time, letter.confirmation)
        since = seconds(row.handed_at) if delivery.approves else await self._first_attempt(session, letter)
        ago = await self._ago(session, letter, since)
        if delivery.approves and (row.is_void or not await self._may_begin(row, delivery, ago)):
            if ago is not None and not self._host.tells:  # the run of the process that sent it may go on unheard
                await self._lease.run(note_broken_run, session.key)
            return None
        return HostAnswer(asked=row.asked, delivery=delivery, mark=letter.mark, ago=ago)

    async def _may_begin(self, row: Confirmation, delivery: Delivery, ago: float | None) -> bool:
        """Whether an approval may be sent now. A host that tells may get it again, since the start itself is checked.
        Any other gets it once: if the process died while sending, this asks its session whether it arrived."""
        if self._host.tells:
            return row.state is State.APPROVED and row.attempt == delivery.attempt and not row.unknown
        patience = self._host.patience
        if ago is not None and row.attempt == delivery.attempt and row.outcome is None:
            look = await self._host.look(row.asked.session)
            if not _open(row, look):  # the host has the answer, and gets it again only if it did not act on it
                return not _has_outcome(row, look)
            if ago < patience:
                raise NotNow(patience - ago, "It was sent before, and may still arrive.")
            await self._lease.run(record_not_arrived, row.id)
        elif patience and delivery.answers:
            look = await self._host.look(row.asked.session)
            if _has_outcome(row, look) and not _open(row, look):
                return False  # somebody else answered; the outcome is copied from the session
        try:
            handed = await self._lease.run(hand_over, row.id, delivery)
        except Illegal as error:
            log.info("not begun: %s", error)
            return False
        return handed.handed_at is not None  # otherwise `hand_over` refused the call


def time_since(tx: Tx, scope: str, mark: str, first: float) -> float:
    """Seconds since sending the letter was last noted. `first`: when that was first noted."""
    return max(0.0, tx.now() - max(first, earlier_attempt(tx, scope, f"mail:{mark}:again") or first))


def note_again(tx: Tx, scope: str, marks: Sequence[str]) -> None:
    """Notes that the letters with these marks are sent only now, and not when that was noted before."""
    for mark in marks:
        forget_attempt(tx, scope, f"mail:{mark}:again")
        begin_attempt(tx, scope, f"mail:{mark}:again")


def _delivery(letter: Letter) -> Delivery:
    return from_object(Delivery, letter.body)


def unreachable_line(letter: Letter, error: Unreachable) -> AgentMessage:
    """The thread's line when a letter can't be delivered, with the reason: the agent is down, or refuses it."""
    if isinstance(error, RefusedByHost):
        return AgentMessage(event=f"refused:{letter.mark}", author="", text=error.words, failed=True)
    approves = letter.confirmation is not None and _delivery(letter).approves
    text = decision_texts.UNREACHABLE_APPROVED if approves else decision_texts.UNREACHABLE
    if isinstance(error, Misconfigured):
        text = decision_texts.MISCONFIGURED.format(why=error.words)
    return AgentMessage(event=f"unreachable:{letter.mark}", author="", text=text, failed=True)


def delivery_unknown_line(letter: Letter) -> AgentMessage:
    """The thread's line while it is unknown whether a letter arrived."""
    return AgentMessage(event=f"cut:{letter.mark}", author="", text=decision_texts.ON_ITS_WAY, failed=True)


def _mark(letter: Letter) -> str:
    return f"mail:{letter.mark}"


def _open(row: Confirmation, look: SessionSnapshot) -> bool:
    return any(request.request_id == row.asked.request_id for request in look.open_requests)


def _has_outcome(row: Confirmation, look: SessionSnapshot) -> bool:
    return row.asked.request_id in look.calls
