"""Works on one session: passes messages and decisions to its agent, and stores what the agent says and asks.

Each session has one writer at a time. Replies are stored in the outbox and posted elsewhere, so no run waits for a
post. Some steps wait for Slack: fetching files, and finding the place of a new card. Decisions still reach the agent
meanwhile. While an agent on a server runs, its session is read regularly for calls that began.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from adk_confirm.bot.agents.intake import NOTHING_NEW, Intake, read_known
from adk_confirm.bot.agents.letters_to_host import Deliveries, Exchange, delivery_unknown_line, unreachable_line
from adk_confirm.bot.agents.streaming import RunDisplay
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.confirmation import DOOR, Confirmation, HostRequest, OutcomeKind
from adk_confirm.bot.confirmation.outcome import copy_outcome
from adk_confirm.bot.hosts.host import (
    AgentMessage,
    DeliveryUnknown,
    Host,
    MessageDelta,
    RequestLost,
    RunBroken,
    RunOutput,
    SendSeparately,
    SessionSnapshot,
    TurnBegun,
    Unreachable,
)
from adk_confirm.bot.policy.redaction import mask_said
from adk_confirm.bot.slack import files
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.store.agent_status import keep_at_work
from adk_confirm.bot.store.letters import (
    STOPS,
    DecisionsAhead,
    Letter,
    Mail,
    RunsPaused,
    approvals_held_back,
    is_stopped,
    read_mail,
    refuse_letter,
    session_done,
)
from adk_confirm.bot.store.marks import earlier_attempt
from adk_confirm.bot.store.outbox import NextPost, say, say_waits
from adk_confirm.bot.store.repository import (
    BROKEN,
    Session,
    note_broken_run,
    note_turn,
    now,
    read_session,
    session_confirmations,
)
from adk_confirm.bot.store.requests import Opening, asked_call, open_and_finish, open_request, take_in
from adk_confirm.bot.store.transactions import follow_outcome, record_out_of_reach
from adk_confirm.bot.telemetry.spans import work_span
from adk_confirm.runtime.errors import ConfirmError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import NotNow, PutOff
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.store.wakeups import Waiter
from adk_confirm.runtime.wire import Blob

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_WHILE_RUNNING = 1.0
"""Seconds until the first look at the session of a running agent, to find calls that began. Each later pause is twice
as long, up to `LONGEST_PAUSE`, since a look reads the whole session."""

LONGEST_PAUSE = 30.0

LOOK_FOR_STOPS = 3.0
"""Seconds between checks for a stop while an agent runs, in case the notification of the stop was lost."""

LOOK_AGAIN = 10.0
"""Seconds between looks at a session in which the outcome of a call is open."""


@dataclass(frozen=True)
class News:
    """What a session says and asks, to be stored in one transaction, in this order. Then `taken_in` is called."""

    said: Sequence[NextPost]
    asks: Opening | None
    taken_in: Callable[[], None]


@dataclass
class SessionWorker:
    """Works on sessions. `callers`: the host of the door's sessions. `stopping`: once set, no run begins here."""

    host: Host
    slack: Slack
    database: Database
    intake: Intake
    rules: Rules
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    callers: Host | None = None

    def look(self, tx: Tx, key: str) -> tuple[Session, Mail]:
        """What is due for a session."""
        return read_session(tx, key), read_mail(tx, key, alone=not self.host_of(key).tells)

    async def attend(self, key: str, lease: Lease, look: tuple[Session, Mail]) -> None:
        """Does everything that is due for a session."""
        with lease.waiter(STOPS) as stops:
            await _LeasedSession(self, self.host_of(key), lease, stops).attend(key, *look)

    def host_of(self, key: str) -> Host:
        return self.callers if self.callers is not None and key.startswith(f"{DOOR}/") else self.host


class _LeasedSession:
    """One period of work on a session, while this process holds its lease."""

    def __init__(self, parts: SessionWorker, host: Host, lease: Lease, stops: Waiter) -> None:
        self._parts = parts
        self._host, self._slack, self._database = host, parts.slack, parts.database
        self._intake, self._rules = parts.intake, parts.rules
        self._lease, self._stops = lease, stops
        self._deliveries = Deliveries(lease, host)
        self._under_way: frozenset[int] = frozenset()

    async def attend(self, key: str, session: Session, mail: Mail) -> None:
        sent_any, alone = False, not self._host.tells
        while letters := mail.letters:
            if (forged := next((letter for letter in letters if not letter.sealed), None)) is not None:
                await self._lease.run(refuse_letter, key, forged)
                mail = await self._lease.read(read_mail, key, alone=alone)
                continue
            if (wait := self._wait(mail)) is not None:
                if any(row.outcome is not None and row.outcome.kind is OutcomeKind.RUNNING for row in mail.rows):
                    with suppress(Unreachable):  # a call whose process died has ended, paused or not
                        look = await self._host.look(session.session, held=self._lease)
                        await self._copy_outcomes(mail.rows, look)
                raise wait
            self._under_way = frozenset(letter.id for letter in letters)
            try:
                with work_span("run", session=session.session, parent=letters[0].trace, letter=letters[0].kind):
                    held: list[NextPost] = []
                    heard = await self._deliver(session, mail, held)
                    news = await self._store_news(session, mail.rows, letters[0], held, after_exchange=heard)
            except SendSeparately as error:
                log.info("answers are sent one by one: %s", error)
                alone = True
                mail = await self._lease.read(read_mail, key, alone=alone)
                continue
            except Unreachable as error:
                await self._say_unreachable(session, letters, error)
                raise NotNow(error.again_after, str(error)) from error
            # The runs of a host that `tells` have ended by now, so the session may be done.
            received = (news.said, news.asks, self._rules.limits, letters)
            mail = await self._lease.finish_if(
                lambda mail: mail.ended, open_and_finish, key, *received, alone=alone, may_end=self._host.tells
            )
            news.taken_in()
            if mail.ended:
                return
            sent_any = True
        again = await self._look_again(session, sent_any)
        told = await self._say_held_back(session, mail.rows)
        await self._lease.finish(session_done, key, again=again, told=told)

    def _wait(self, mail: Mail) -> NotNow | None:
        """Why the agent gets no mail from this process now. None if it does."""
        if mail.paused:
            return RunsPaused()
        stops = "This process is being stopped. Another one continues, or the next start."
        return NotNow(0.0, stops) if self._parts.stopping.is_set() else None

    async def _wait_and_send_decisions(
        self, session: Session, asking: Coroutine[Any, Any, T], turns: Collection[str] = ()
    ) -> T:
        """Waits for a question to Slack about the letters that are `under_way`, and sends decisions to the agent
        meanwhile. Such a decision stays in the mailbox. It is sent again in its turn, as after a crash, and its results
        are stored then."""
        task, sent = asyncio.ensure_future(asking), set(self._under_way)
        try:
            while not (await asyncio.wait({task}, timeout=LOOK_WHILE_RUNNING))[0]:
                await self._send_decisions(session, sent, turns)
            if isinstance(task.exception(), PutOff):
                await self._send_decisions(session, sent, turns)
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})

    async def _send_decisions(self, session: Session, sent: set[int], turns: Collection[str]) -> None:
        """Sends the decisions in the mailbox, except those whose ids are in `sent`, and adds the ids of these."""
        while True:
            ahead, alone = DecisionsAhead(frozenset(sent), turns), not self._host.tells
            mail = await self._lease.read(read_mail, session.key, alone=alone, decisions_ahead=ahead)
            if not mail.letters or self._wait(mail) or not all(one.sealed for one in mail.letters):
                return
            sent.update(one.id for one in mail.letters)
            try:
                held: list[NextPost] = []
                await self._deliver(session, mail, held)
                if not self._may_hide(mail.rows):  # otherwise all is masked and said in the decision's turn
                    await self._say(session, held)
                await self._observe(session)
            except (Unreachable, SendSeparately, NotNow) as error:
                log.info("said again when its turn comes: %s", error)
                return

    # Out: messages and decisions for the agent

    async def _deliver(self, session: Session, mail: Mail, held: list[NextPost]) -> bool:
        """Sends letters and shows what the agent does. Returns whether there was an exchange that came to its end."""
        letters = mail.letters
        attachments: tuple[Blob, ...] = ()
        stopped = mail.stopped
        if letters[0].files:
            turns = await self._turns_not_asked(session, mail.rows)
            fetching = files.attachments(self._slack.client, letters[0].files)
            attachments = await self._wait_and_send_decisions(session, fetching, turns)
            stopped = await self._lease.read(is_stopped, session.key, letters[0].id)
        if mail.shown or letters[0].files:  # a decision that was sent meanwhile may be shown
            await self._lease.run(keep_at_work, session.key, letters[0].id)
        stop = asyncio.Event()
        if stopped:
            stop.set()
        exchange = await self._deliveries.exchange(session, mail, attachments, stop)
        if exchange is None:
            return False
        await self._lease.sure()
        display = RunDisplay(self._slack, self._database, self._lease, session, letters[0].id)
        try:
            listening = self._listen(session, letters[0], exchange, display, held, hides=self._may_hide(mail.rows))
            await self._run_and_watch(session, letters[0], listening, stop)
            return True
        except Unreachable:
            await self._deliveries.record_not_reached(session, letters)
            raise
        except RequestLost as lost:
            await self._deliveries.record_lost(letters, lost)
        except DeliveryUnknown as error:
            if error.again_after is not None:
                await self._say(session, [_post(delivery_unknown_line(letters[0]))])
                raise NotNow(error.again_after, str(error)) from error
            # The session is read for the outcome. The error is not logged, since it may quote the call.
            log.warning("a run broke off at the agent's server (%s)", type(error).__name__)
            await self._lease.run(note_broken_run, session.key)
        finally:
            if isinstance(exchange, AsyncGenerator):
                await exchange.aclose()  # a run that goes on ends before the session is released
            await display.end()
        return False

    async def _turns_not_asked(self, session: Session, rows: Sequence[Confirmation]) -> Collection[str]:
        """The turns with requests about which nobody was asked yet: a message may have been sent before."""
        if self._host.tells:
            return ()
        look, asked = await self._host.look(session.session), {row.asked.request_id for row in rows}
        return {request.turn for request in look.requests if request.request_id not in asked}

    async def _say_unreachable(self, session: Session, letters: Sequence[Letter], error: Unreachable) -> None:
        """Says on the cards of approved calls, and once in the thread, that delivery is tried again."""
        for letter in letters:
            if letter.confirmation is not None:
                await self._lease.run(record_out_of_reach, letter.confirmation)
        await self._say(session, [_post(unreachable_line(letters[0], error))])

    async def _say_held_back(self, session: Session, rows: Sequence[Confirmation]) -> Collection[str]:
        """Says once, for each approval that waits for other decisions of its turn, why nothing happens. Returns their
        ids."""
        held_back = [*approvals_held_back(rows)]
        for row, undecided in held_back:
            text = decision_texts.held_back(row.asked.tool, [one.asked.tool for one in undecided])
            said = AgentMessage(event=f"held:{row.id}", author="", text=text, failed=True)
            await self._say(session, [_post(said)])
        return [row.id for row, _ in held_back]

    async def _listen(
        self,
        session: Session,
        letter: Letter,
        exchange: Exchange,
        display: RunDisplay,
        held: list[NextPost],
        *,
        hides: bool,
    ) -> None:
        """Stores what the agent says. `held` collects messages that are stored with the end of the letter: the last
        ones, or all if a policy `hides` something, since they may quote a call before it is known what to hide.

        If something can't be stored, the rest is heard to its end all the same, since a server stops a tool whose
        reader hangs up. Then the error is raised, and the letter is sent again as after a crash.
        """
        looks, noted = self._looks(letter), set[RunOutput]()
        failed: ConfirmError | None = None
        async for item in exchange:
            if failed is None and isinstance(item, TurnBegun | RunBroken) and item not in noted:
                noted.add(item)
                failed = await self._note(session, letter, item)
            if failed is not None or isinstance(item, TurnBegun | RunBroken):
                continue
            if looks:  # the thread shows the outcome of a call before the agent's words about it
                await self._look_while_running(session)
            looks = self._looks(letter) and isinstance(item, AgentMessage)
            if isinstance(item, MessageDelta):
                if not hides:
                    display.add_part(item)
            elif hides or self._lease.carries:
                into = display.end_reply()
                display.taken_over(into)  # if it is never stored, the thread's worker looks for that message
                held.append(_post(item, letter, into))
            else:
                try:
                    post = _post(item, letter, display.end_reply())
                    if await self._lease.run(say, session.key, post):
                        display.taken_over(post.into)
                except ConfirmError as error:
                    log.warning("what an agent said could not be stored: %s", error)
                    failed = error
        if failed is not None:
            raise failed

    async def _note(self, session: Session, letter: Letter, news: TurnBegun | RunBroken) -> ConfirmError | None:
        """Notes which turn a letter began, or that its run may go on unheard. Returns the error if that can't be
        stored."""
        try:
            if isinstance(news, RunBroken):
                await self._lease.run(note_broken_run, session.key)
            elif news.invocation_id:
                await self._lease.run(note_turn, letter.id, news.invocation_id)
        except ConfirmError as error:
            return error
        return None

    def _may_hide(self, rows: Sequence[Confirmation]) -> bool:
        """Whether a policy, of the current file or of a stored call, may hide something in this session."""
        policies = (*self._rules.policies.entries, *(row.policy for row in rows))
        return any(policy.redact for policy in policies)

    async def _run_and_watch(
        self, session: Session, letter: Letter, exchange: Awaitable[None], stop: asyncio.Event
    ) -> None:
        """Runs the exchange. Meanwhile reads the outcomes of the session's calls, and looks for a stop. No error
        there ends the exchange, not even a lost lease: an end would interrupt a tool."""
        pause, running, looks = LOOK_WHILE_RUNNING, asyncio.ensure_future(exchange), self._looks(letter)
        watching = asyncio.create_task(self._watch(session, letter, stop), name="adk-confirm-stop")
        try:
            while not (await asyncio.wait({running}, timeout=pause if looks else None))[0]:
                await self._look_while_running(session)
                pause = min(2 * pause, LONGEST_PAUSE)
        finally:
            watching.cancel()
            if not running.done():
                running.cancel()
                await asyncio.wait({running})
        await running

    async def _watch(self, session: Session, letter: Letter, stop: asyncio.Event) -> None:
        """Sets `stop` when somebody stops the run, here or at another replica. A stop before the mail was read is
        already known."""
        while not stop.is_set():
            await self._stops.wait(LOOK_FOR_STOPS)
            try:
                if await self._lease.read(is_stopped, session.key, letter.id):
                    stop.set()
            except ConfirmError as error:
                log.info("not known whether the run is stopped: %s", error)

    def _looks(self, letter: Letter) -> bool:
        """Whether the session is looked at while the agent works on this letter."""
        return letter.confirmation is not None and not self._host.tells

    async def _look_while_running(self, session: Session) -> None:
        try:
            await self._observe(session)
        except ConfirmError as error:
            log.info("not looked at: %s", error)  # the run itself may be fine
        except Exception:
            log.exception("not looked at")

    # In: what the session says

    async def _store_news(
        self,
        session: Session,
        rows: Sequence[Confirmation] = (),
        letter: Letter | None = None,
        held: Sequence[NextPost] = (),
        *,
        after_exchange: bool = False,
    ) -> News:
        """Stores what the agent says and asks. `rows`: the confirmations known before. `letter`: what it just got, if
        anything. Returns the rest, which the caller stores in one transaction with its own changes."""
        look = await self._host.look(session.session, after_exchange=after_exchange)
        asked, known = {row.asked.request_id for row in rows}, NOTHING_NEW
        if look.calls or look.said or look.waits or any(one.request_id not in asked for one in look.requests):
            known = await self._lease.read(read_known, session, look)
            rows = known.rows
        # First, so that the agent's words about a call come after its outcome, and are masked.
        await self._copy_outcomes(rows, look)
        kept = {row.asked.request_id for row in rows if not row.is_void}
        secret = (*look.open_requests, *(one for one in look.closed if one.request_id not in kept))
        heard = {one.event: _post(one, letter) for one in look.said} | {_event(post): post for post in held}
        said = [await self._mask(session, post, secret) for event, post in heard.items() if event not in known.spoken]
        operations = [one.request for one in look.waits if one.request and self._intake.decides(session, one.request)]
        new = [request for request in (*look.requests, *operations) if request.request_id in known.asked_by]
        if look.calls or look.waits or len(new) > 1:  # what follows comes after these messages
            said = await self._say(session, said)
        for waits in look.waits:
            if waits.said.event not in known.spoken and waits.request not in operations:
                log.warning("the agent %s waits for %s, which is not answered from here", waits.said.author, waits.kind)
                await self._lease.run(say_waits, session.key, waits)
        turns, last = {request.turn for request in new}, None
        try:
            for request in new:
                if last is not None:
                    await self._open(session, last)
                with work_span("ask", session=session.session, tool=request.tool):
                    preparing = self._intake.prepare(self._lease, session, request, known)
                    last = await self._wait_and_send_decisions(session, preparing, turns)
        except BaseException:
            await self._say(session, said)
            raise
        if last is not None and {request.request_id for request in new} & look.calls.keys():
            await self._open(session, last)
            await self._copy_outcomes(await self._lease.read(session_confirmations, session.key), look)
            last = None
        return News(said, last, look.taken_in)

    async def _say(self, session: Session, said: Sequence[NextPost]) -> list[NextPost]:
        """Puts messages into the outbox at once. Returns those that are left: none."""
        for post in said:
            await self._lease.run(say, session.key, post)
        return []

    async def _open(self, session: Session, opening: Opening) -> None:
        await self._lease.run(open_request, session.key, opening, self._rules.limits)

    async def _mask(self, session: Session, post: NextPost, requests: Sequence[HostRequest]) -> NextPost:
        """Masks what the policies of these `requests` hide: they are open, or nobody was asked about them, or their row
        is void. The thread masks what the policies of stored calls hide."""
        assert post.said is not None
        calls = (asked_call(session, request, session.starter).facts() for request in requests)
        (text,) = await mask_said(map(self._rules.policies.redactor, calls), post.said.text)
        return replace(post, said=replace(post.said, text=text))

    async def _look_again(self, session: Session, sent_any: bool) -> float | None:
        """Seconds until the session must be looked at again because a run that broke off may still end, or None."""
        patience = self._host.patience
        try:
            # The last look is after the host's patience: what came right before its end is heard too.
            if not patience or not await self._lease.read(may_still_end, session.key, patience + LONGEST_PAUSE):
                return None
            if not sent_any:
                news = await self._store_news(session)
                await self._lease.run(take_in, session.key, news.said, news.asks, self._rules.limits)
                news.taken_in()
        except Unreachable as error:
            raise NotNow(error.again_after, str(error)) from error
        return LOOK_AGAIN if await self._lease.read(may_still_end, session.key, patience) else None

    async def _observe(self, session: Session) -> None:
        """Reads what became of the session's calls, unless the host tells."""
        if not self._host.tells:
            look = await self._host.look(session.session)
            await self._copy_outcomes(await self._lease.read(session_confirmations, session.key), look)

    async def _copy_outcomes(self, rows: Sequence[Confirmation], look: SessionSnapshot) -> None:
        for row in rows:
            call = look.calls.get(row.asked.request_id)
            if call is not None and copy_outcome(row, call, row.changed_at).row is not row:
                await self._lease.run(follow_outcome, row.id, call)


def _post(said: AgentMessage, letter: Letter | None = None, into: str | None = None) -> NextPost:
    """What the thread gets of a message. If the agent failed on a person's message (`letter`), the person can try
    again. Other failures are retried automatically. `into`: the message that showed it while it was written."""
    words_of_somebody = letter is not None and letter.kind == "words" and said.failed and said.invocation_id
    return NextPost(said=said, retry=str(letter.id) if letter is not None and words_of_somebody else None, into=into)


def _event(post: NextPost) -> str:
    return post.said.event if post.said is not None else ""


def may_still_end(tx: Tx, key: str, patience: float) -> bool:
    """Whether a call of the session runs, or a run broke off so recently that it may still end, or ask."""
    at, broken = now(tx), earlier_attempt(tx, key, BROKEN)
    return (broken is not None and tx.now() - broken < patience) or any(
        row.outcome is not None
        and row.outcome.kind in (OutcomeKind.RUNNING, OutcomeKind.UNKNOWN)
        and (at - row.outcome.at).total_seconds() < patience
        for row in session_confirmations(tx, key)
    )
