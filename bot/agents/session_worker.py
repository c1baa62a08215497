"""A session's mailbox: what is told to its agent, and what the agent says and asks in turn. One writer a session.

What people read is told by the teller, so no run waits for a post. Slack is asked for files that came with somebody's
words, and for the places of new cards: meanwhile the agent hears what was decided. While the agent runs, which may take
long, the session is looked at for calls that began.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from bot.agents.deliver import Deliveries, Exchange, on_its_way, unreachable
from bot.agents.intake import Intake, request_facts
from bot.agents.progress import Showing, Stage
from bot.agents.sign_ins import SignIns
from bot.audit.ledger import LineKind
from bot.config.rules import RulesInForce
from bot.confirmation import words
from bot.confirmation.model import Confirmation, OutcomeKind, State, turn_of
from bot.confirmation.outcome import HostReport
from bot.confirmation.states import Illegal
from bot.hosts.host import (
    AgentMessage,
    Attachment,
    Capabilities,
    DeliveryUnknown,
    Host,
    HostOutcome,
    MessageDelta,
    RequestLost,
    SendSeparately,
    SessionSnapshot,
    Task,
    Unreachable,
)
from bot.leasing.backpressure import Backpressure
from bot.leasing.lease_loop import NotNow
from bot.leasing.put_off import PutOff
from bot.store.mailbox import (
    Letter,
    Mail,
    Overtaking,
    held_back,
    is_stopped,
    read_first,
    read_mail,
    refuse_letter,
    rest,
    then_next_mail,
)
from bot.store.outbox import all_spoken, cut_left, say_later, say_waits
from bot.store.repository import Session, moment, now, session_confirmations
from bot.store.requests import open_request
from bot.store.stops import STOPS
from bot.store.transactions import answered_elsewhere, not_asked_any_longer, out_of_reach, see
from bot.telemetry.tracing import following
from runtime.errors import ConfirmError
from runtime.jsontypes import JsonObject
from runtime.store.database import Tx
from runtime.store.lease import Lease
from runtime.telemetry import tracing

log = logging.getLogger(__name__)

T = TypeVar("T")

GLANCE = 1.0
"""While an agent runs, its session is looked at this often for calls that began."""

LOOK_FOR_STOPS = 3.0
"""A stop is told at once. Should that get lost, it is found within so many seconds."""

LOOK_AGAIN = 10.0
"""So often a session is looked at in which a call's outcome is open."""


class RunThread(Stage, Protocol):
    """The thread as a run needs it. Everything that stays there goes through the outbox."""

    async def fetch(self, session: Session, files: Sequence[JsonObject]) -> tuple[Attachment, ...]:
        """The files that came with a message."""
        ...


class SessionWorker:
    def __init__(
        self,
        host: Host,
        thread: RunThread,
        intake: Intake,
        rules: RulesInForce,
        sign_ins: SignIns,
        clicks: Backpressure | None = None,
    ) -> None:
        self._host, self._thread, self._intake, self._rules = host, thread, intake, rules
        self._sign_ins, self._clicks = sign_ins, clicks or Backpressure()

    async def attend(self, key: str, lease: Lease) -> None:
        """Does everything that is due for a session."""
        parts = (self._host, self._thread, self._intake, self._rules, self._sign_ins, self._clicks)
        await _Stretch(lease, *parts).attend(key)


class _Stretch:
    """One stretch of work on a session, under its lease."""

    def __init__(
        self,
        lease: Lease,
        host: Host,
        thread: RunThread,
        intake: Intake,
        rules: RulesInForce,
        sign_ins: SignIns,
        clicks: Backpressure,
    ) -> None:
        self._lease, self._host, self._thread, self._clicks = lease, host, thread, clicks
        self._intake, self._rules, self._sign_ins = intake, rules, sign_ins
        self._deliveries = Deliveries(lease, host, rules, sign_ins)
        self._under_way: frozenset[int] = frozenset()
        self._stops = lease.waiter(STOPS)
        self._started: Callable[[], None] = _nothing

    async def attend(self, key: str) -> None:
        with self._stops:
            await self._attend(key)

    async def _attend(self, key: str) -> None:
        can = await self._capabilities()
        together, several = can is None or can.siblings_together, can is not None and can.several_answers
        session, mail = await self._lease.read(read_first, key, together=together, several=several)
        told = False
        while letters := mail.letters:
            if (forged := next((letter for letter in letters if not letter.stands), None)) is not None:
                await self._lease.run(refuse_letter, key, forged)
                mail = await self._lease.read(read_mail, key, together=together, several=several)
                continue
            if mail.paused:
                raise NotNow(5.0, "Runs are paused.")
            self._under_way = frozenset(letter.id for letter in letters)
            try:
                with following("run", session=session.session, parent=letters[0].trace, letter=letters[0].kind):
                    held: list[AgentMessage] = []
                    with self._going_first(letters[0]) as self._started:
                        tasks = await self._deliver(session, mail, held)
                    await self._take_in(session, letters[0], held)
                    await self._say_tasks(session, letters[0], tasks)
            except SendSeparately as error:
                log.info("answers are sent one by one: %s", error)
                several = False
                mail = await self._lease.read(read_mail, key, together=together, several=several)
                continue
            except Unreachable as error:
                self._sign_ins.hide_in(error)
                await self._say_unreachable(session, letters, error)
                raise NotNow(error.again_after, str(error)) from error
            mail = await self._lease.run(then_next_mail, key, letters, together=together, several=several)
            await self._deliveries.done(letters)
            told = True
        again = await self._look_again(session, told)
        if together:
            await self._say_held_back(session, mail.rows)
        await self._lease.finish(rest, key, together=together, again=again)

    async def _capabilities(self) -> Capabilities | None:
        """None while the host can't be asked."""
        try:
            return await self._host.capabilities()
        except Unreachable:
            return None

    async def _decisions_first(
        self, session: Session, asking: Coroutine[Any, Any, T], turns: Collection[str] = ()
    ) -> T:
        """Waits for what Slack is asked about the letters that are `under_way`. Meanwhile decisions go to the agent.
        Such a decision stays in the mailbox and is sent again in its turn, as after a crash, and what followed from it
        is taken in then."""
        task, told = asyncio.ensure_future(asking), set(self._under_way)
        try:
            while not (await asyncio.wait({task}, timeout=GLANCE))[0]:
                await self._tell_decisions(session, told, turns)
            if isinstance(task.exception(), PutOff):
                await self._tell_decisions(session, told, turns)
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _tell_decisions(self, session: Session, told: set[int], turns: Collection[str]) -> None:
        """Sends the decisions in the mailbox, except those in `told`."""
        can = await self._capabilities()
        together, several = can is None or can.siblings_together, can is not None and can.several_answers
        while True:
            ahead = Overtaking(frozenset(told), turns)
            mail = await self._lease.read(read_mail, session.key, together=together, several=several, overtaking=ahead)
            if not mail.letters or mail.paused or not all(one.stands for one in mail.letters):
                return
            told.update(one.id for one in mail.letters)
            try:
                with self._going_first(mail.letters[0]) as self._started:
                    tasks = await self._deliver(session, mail, [])
                await self._observe(session, await self._host.look(session.session))
                await self._say_tasks(session, mail.letters[0], tasks)
            except (Unreachable, SendSeparately, NotNow) as error:
                log.info("said again when its turn comes: %s", error)
                return

    # Out: what the agent is told

    def _going_first(self, letter: Letter) -> AbstractContextManager[Callable[[], None]]:
        """What people decided goes before all that can wait, until the agent says something."""
        return nullcontext(_nothing) if letter.confirmation is None else self._clicks.starting()

    async def _deliver(self, session: Session, mail: Mail, held: list[AgentMessage]) -> tuple[Task, ...]:
        """Returns the tool calls that people see and after which the agent said nothing."""
        letters = mail.letters
        attachments: tuple[Attachment, ...] = ()
        stopped = mail.stopped
        if letters[0].files:
            attachments = await self._decisions_first(session, self._thread.fetch(session, letters[0].files))
            stopped = await self._lease.read(is_stopped, session.key, letters[0].id)
        stop = asyncio.Event()
        if stopped:
            stop.set()
        if mail.left:
            await self._lease.run(cut_left, session.key)
        exchange = await self._deliveries.exchange(session, mail, attachments, stop)
        if exchange is None:
            return ()
        await self._lease.sure()
        showing = Showing(self._thread, self._lease, session)
        hides = self._hides(mail.rows)
        for task in [] if hides else self._deliveries.begun(mail):
            showing.task(task)
        try:
            listening = self._listen(session, letters[0], exchange, showing, held if hides else None)
            await self._meanwhile(session, letters[0], listening, stop)
        except Unreachable:
            await self._deliveries.not_reached(session, letters)
            raise
        except RequestLost as lost:
            await self._deliveries.lost(letters, lost)
        except DeliveryUnknown as error:
            self._sign_ins.hide_in(error)
            if error.again_after is not None:
                await self._say(session, on_its_way(letters[0]))
                raise NotNow(error.again_after, str(error)) from error
            # What it came to is read from the session; what the server said of it may quote the call.
            log.warning("a run broke off at the agent's server (%s)", type(error).__name__)
        finally:
            showing.end()
        return showing.rest()

    async def _say_tasks(self, session: Session, letter: Letter, tasks: Sequence[Task]) -> None:
        """A reply that shows tool calls, and has no words."""
        invocation = next((task.invocation_id for task in tasks if task.invocation_id), "")
        if invocation:
            said = AgentMessage(event=f"tasks:{letter.mark}"[:256], author="", text="", invocation_id=invocation)
            await self._lease.run(say_later, session.key, said, None, tasks)

    async def _say_unreachable(self, session: Session, letters: Sequence[Letter], error: Unreachable) -> None:
        """Says on the cards of approved calls, and once in the thread, that delivery is tried again."""
        for letter in letters:
            if letter.confirmation is not None:
                await self._lease.run(out_of_reach, letter.confirmation)
        await self._say(session, unreachable(letters[0], error))

    async def _say_held_back(self, session: Session, rows: Sequence[Confirmation]) -> None:
        """Says, once for each approval that waits for others of its turn, why nothing happens."""
        for row, undecided in held_back(rows):
            text = words.held_back(row.asked.tool, [one.asked.tool for one in undecided])
            said = AgentMessage(event=f"held:{row.id}", author="", text=text, failed=True)
            await self._say(session, said)

    async def _listen(
        self, session: Session, letter: Letter, exchange: Exchange, showing: Showing, held: list[AgentMessage] | None
    ) -> None:
        """With a list to hold them, the agent's words wait until it is known what a policy hides in them, since they
        may come before the call, or before its result."""
        looks = letter.confirmation is not None
        async for heard in exchange:
            self._started()
            if isinstance(heard, Task):
                if held is None:
                    showing.task(replace(heard, result=self._sign_ins.hide(heard.result)))
                continue
            if looks:  # what became of the call stands in the thread before the words about it
                await self._glance(session, letter)
            looks = letter.confirmation is not None and isinstance(heard, AgentMessage)
            if held is not None:
                held += [heard] if isinstance(heard, AgentMessage) else []
            elif isinstance(heard, MessageDelta):
                showing.piece(replace(heard, text=self._sign_ins.hide(heard.text)))
            else:
                await self._say(session, heard, letter, showing.whole())

    def _hides(self, rows: Sequence[Confirmation]) -> bool:
        """Whether a call of this session may hold something hidden, by the file now or before."""
        policies = (*self._rules.now.policies.entries, *(row.policy for row in rows))
        return any(policy.redact for policy in policies)

    async def _meanwhile(
        self, session: Session, letter: Letter, exchange: Awaitable[None], stop: asyncio.Event
    ) -> None:
        """Reads the outcomes of the session's calls while the agent runs, and notices if somebody stops it."""
        running = asyncio.ensure_future(exchange)
        watching = asyncio.create_task(self._watch(session, letter, stop), name="adk-confirm-stop")
        try:
            while True:
                ended, _ = await asyncio.wait({running}, timeout=GLANCE)
                if ended:
                    break
                await self._glance(session, letter)
        finally:
            watching.cancel()
            if not running.done():
                running.cancel()
        await running

    async def _watch(self, session: Session, letter: Letter, stop: asyncio.Event) -> None:
        """Sets `stop` when the run is stopped, here or at another replica. What was stopped before its mail was read
        is known."""
        while not stop.is_set():
            await self._stops.wait(LOOK_FOR_STOPS)
            try:
                if await self._lease.read(is_stopped, session.key, letter.id):
                    stop.set()
            except ConfirmError as error:
                log.info("not known whether the run is stopped: %s", error)

    async def _glance(self, session: Session, letter: Letter) -> None:
        if letter.confirmation is not None:
            try:
                await self._observe(session, await self._host.look(session.session))
            except Unreachable as error:
                log.info("not looked at: %s", error)  # the run itself may be fine

    # In: what the session says

    async def _take_in(self, session: Session, letter: Letter, held: Sequence[AgentMessage] = ()) -> None:
        look = await self._host.look(session.session)
        said_now = (*look.said, *held)
        rows, spoken = await self._lease.read(read_known, session.key)
        await self._copy_outcomes(rows, look)  # words about a call come after its outcome, and hide what it hides
        for said in said_now:
            if said.event not in spoken:
                spoken.add(said.event)
                await self._say(session, self._hidden(session, said, look), letter)
        operations = [one.request for one in look.waits if one.request and self._intake.decides(session, one.request)]
        for waits in look.waits:
            if waits.said.event not in spoken and waits.request not in operations:
                log.warning("the agent %s waits for %s, which is not answered from here", waits.said.author, waits.kind)
                await self._lease.run(say_waits, session.key, waits)
        known = {row.asked.request_id for row in rows}
        new = [request for request in (*look.requests, *operations) if request.request_id not in known]
        turns = {turn_of(request.ask, request.siblings, request.invocation_id) for request in new}
        for request in new:
            with following("ask", session=session.session, tool=request.tool):
                preparing = self._intake.prepare(self._lease, session, request, letter)
                opening = await self._decisions_first(session, preparing, turns)
                opening = replace(opening, trace=tracing.carried())
                await self._lease.run(open_request, session.key, opening, self._rules.now)
        if {request.request_id for request in new} & {outcome.request_id for outcome in look.outcomes}:
            await self._observe(session, look)

    def _hidden(self, session: Session, said: AgentMessage, look: SessionSnapshot) -> AgentMessage:
        """Masks words that come with a call that nobody was asked about yet; the thread knows the others."""
        text = said.text
        for request in look.open_requests:
            hidden = self._rules.now.policies.redactor(request_facts(session, request), request.payload)
            text = hidden.mask_text(text)
        return replace(said, text=text)

    async def _look_again(self, session: Session, told: bool) -> float | None:
        """A run that broke off may still end. While it may, its session is looked at again in so many seconds."""
        try:
            patience = (await self._host.capabilities()).patience
            if not patience or not await self._lease.read(in_the_air, session.key, patience):
                return None
            if not told:
                await self._observe(session, await self._host.look(session.session))
        except Unreachable as error:
            raise NotNow(error.again_after, str(error)) from error
        return LOOK_AGAIN if await self._lease.read(in_the_air, session.key, patience) else None

    async def _observe(self, session: Session, look: SessionSnapshot) -> None:
        await self._copy_outcomes(await self._lease.read(session_confirmations, session.key), look)

    async def _copy_outcomes(self, rows: Sequence[Confirmation], look: SessionSnapshot) -> None:
        outcomes = {outcome.request_id: outcome for outcome in look.outcomes}
        for row in rows:
            outcome = outcomes.get(row.asked.request_id)
            if outcome is not None:
                await self._copy(row, outcome)

    async def _copy(self, row: Confirmation, outcome: HostOutcome) -> None:
        if row.state is not State.APPROVED and (line := _pointless(outcome)) is not None:
            await self._lease.run(not_asked_any_longer, row.id, line)
            return
        kind = outcome.became
        if kind is None or (row.outcome is not None and row.outcome.kind is kind):
            return
        if _others_answered(row, outcome):
            await self._lease.run(answered_elsewhere, row.id, outcome.confirmed)
        if outcome.confirmed is False and row.state is not State.APPROVED:
            return  # our own denial, come true
        begun = moment(outcome.begun_at) if outcome.begun_at is not None else None
        try:
            text = None if outcome.text is None else self._sign_ins.hide(outcome.text)
            await self._lease.run(
                see, row.id, HostReport(kind=kind, text=text, begun_at=begun, altered=outcome.altered)
            )
        except Illegal as error:
            log.info("not copied: %s", error)  # the row moved on meanwhile; the next look tells

    async def _say(
        self, session: Session, said: AgentMessage, letter: Letter | None = None, tasks: Sequence[Task] = ()
    ) -> None:
        """Puts words into the outbox. If a turn failed on somebody's message (`letter`), they can try it again;
        anything else that failed is tried again by itself."""
        words_of_somebody = letter is not None and letter.kind == "words" and said.failed and said.invocation_id
        retry = str(letter.id) if letter is not None and words_of_somebody else None
        said = replace(said, text=self._sign_ins.hide(said.text))
        await self._lease.run(say_later, session.key, said, retry, tasks)


def _nothing() -> None:
    """For what goes before nothing."""


def _pointless(outcome: HostOutcome) -> LineKind | None:
    """Why an answer would do nothing any more."""
    if outcome.asked_anew:
        return LineKind.ASKED_ANEW
    return LineKind.LEFT_BEHIND if outcome.left_behind else None


def _others_answered(row: Confirmation, outcome: HostOutcome) -> bool:
    """What nobody decided here, or what was denied there although it was approved here and not handed over yet."""
    ours_waits = row.state is State.APPROVED and row.handed_at is None and row.outcome is None
    return row.state is State.WAITING or (ours_waits and outcome.confirmed is False)


def read_known(tx: Tx, key: str) -> tuple[list[Confirmation], set[str]]:
    """The session's confirmations, and the agent's events that are in the outbox or in the thread already."""
    return session_confirmations(tx, key), all_spoken(tx, key)


def in_the_air(tx: Tx, key: str, patience: float) -> bool:
    """Whether a call of the session runs, or broke off so recently that it may still end."""
    at = now(tx)
    return any(
        row.outcome is not None
        and row.outcome.kind in (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)
        and (at - row.outcome.at).total_seconds() < patience
        for row in session_confirmations(tx, key)
    )
