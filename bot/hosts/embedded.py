"""The host for our own agents: runs them in this process, with sessions in the bot's own database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adk_confirm import Agent, Answer, Conflict, Content, Event, NotFound, Runner
from adk_confirm.bot.confirmation.confirmation import SLACK, Ask, AskedCall, HostRequest
from adk_confirm.bot.confirmation.edits import answer_from_form
from adk_confirm.bot.hosts.asked import request_about
from adk_confirm.bot.hosts.host import (
    AgentMessage,
    Capabilities,
    HostAnswer,
    RequestLost,
    RunOutput,
    SendSeparately,
    SessionSnapshot,
    UserWords,
)
from adk_confirm.bot.hosts.host_events import run_output
from adk_confirm.runtime.calls.call import Call, CallState, Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.recent_dict import RecentDict
from adk_confirm.runtime.run.arrival import FREE, RunControl
from adk_confirm.runtime.run.journal import Position, SessionNews
from adk_confirm.runtime.run.sequencer import Run
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import TERM, Lease
from adk_confirm.runtime.store.sessions import OnChange
from adk_confirm.runtime.wire import USER, SessionId

_LAST_WORDS = 0.5
_REMEMBERED = 500


class EmbeddedHost:
    """Runs our own agents. Their sessions accept answers only from this app."""

    tells, patience = True, 0.0

    def __init__(
        self,
        agent: Agent,
        database: Database,
        clock: Callable[[], float] | None = None,
        on_change: OnChange | None = None,
        *,
        lease_term: float = TERM,
        asks_why: Callable[[str], bool] | None = None,
    ) -> None:
        self.runner = Runner(
            agent, database, clock=clock, on_change=on_change, desk=SLACK, lease_term=lease_term, asks_why=asks_why
        )
        self.app = self.runner.app_name
        # Up to where a session was read, and its open requests then. An event that a run yielded is not read again.
        self._seen: RecentDict[SessionId, tuple[Position, dict[str, HostRequest]]] = RecentDict(_REMEMBERED)
        self._told: RecentDict[SessionId, SessionNews] = RecentDict(_REMEMBERED)

    def _start(self, session: SessionId, message: Content, control: RunControl, **how: Any) -> Awaitable[Run]:
        return self.runner.start(**_named(session), message=message, streaming=True, control=control, **how)

    def say(self, session: SessionId, words: UserWords, control: RunControl = FREE) -> AsyncIterator[RunOutput]:
        begin = partial(self._start, session, words.as_content(), control, create=True, mark=words.mark)
        return self._heard(session, begin, control)

    def answer(
        self, session: SessionId, answers: Sequence[HostAnswer], control: RunControl = FREE
    ) -> AsyncIterator[RunOutput]:
        begin: Callable[[], Awaitable[Run]]
        match answers[0].delivery.word if answers else None:
            case "approved" | "denied":
                begin = partial(self._give, session, answers, control)
            case None:
                begin = partial(self._take_up, session, control)
            case word:
                begin = partial(self._pass_on, session, answers[0], word, control)
        return self._heard(session, begin, control)

    async def _heard(
        self, session: SessionId, begin: Callable[[], Awaitable[Run]], control: RunControl
    ) -> AsyncGenerator[RunOutput]:
        run = await begin()
        self._told.pop(session, None)
        try:
            async for event in run:
                for heard in run_output(event, self.message_in(event)):
                    yield heard
        finally:
            await run.close()  # whoever stops listening releases the session next
        since, _ = self._seen.get(session, (None, {}))
        if run.news is not None and run.news.since == since:
            self._told[session] = run.news
        elif control.held is not None:  # the session will be read
            await control.held.write_carried()

    async def _give(self, session: SessionId, answers: Sequence[HostAnswer], control: RunControl) -> Run:
        """Gives the answers to the runner. If a request has another answer already, `look` shows what became of it."""
        message = Content(role=USER, parts=[_as_answer(one).as_part() for one in answers])
        previews = {one.asked.request_id: seen for one in answers if (seen := Preview.of(one.delivery.preview))}
        try:
            return await self._start(session, message, control, previews=previews)
        except (Conflict, NotFound) as error:
            if len(answers) > 1:
                raise SendSeparately(str(error)) from error
            if isinstance(error, NotFound):
                raise RequestLost(str(error)) from error
            return await self._take_up(session, control)

    async def _pass_on(self, session: SessionId, answer: HostAnswer, word: Word, control: RunControl) -> Run:
        about, attempt = answer.asked.call_id, answer.delivery.lost_attempt
        try:
            return await self.runner.settle(
                **_named(session), call_id=about, word=word, attempt=attempt, control=control
            )
        except Conflict:
            return await self._take_up(session, control)

    async def _take_up(self, session: SessionId, control: RunControl) -> Run:
        """For what was stored before, or is too late: a process that died then may have left its run unfinished."""
        return await self.runner.take_up(**_named(session), control=control)

    async def look(
        self, session: SessionId, *, after_exchange: bool = False, held: Lease | None = None
    ) -> SessionSnapshot:
        if held is not None:
            async for _ in await self.runner.take_up(**_named(session), control=RunControl(held=held), begins=False):
                pass
        since, before = self._seen.get(session, (None, {}))
        told = self._told.pop(session, None)
        told = told if after_exchange else None
        news = told or await self.runner.news(**_named(session), since=since)
        if news is None:
            return SessionSnapshot()
        # People are asked about these calls, or they were refused before anybody was asked.
        told_of = (call for call in news.calls if call.request is not None or call.state is CallState.REFUSED)
        new = {call.id: _request(call) for call in told_of}
        asked = (before if news.since else {}) | new
        waiting = news.held
        if waiting is None:
            waiting = {call.id for call in news.calls if call.state is CallState.HELD} | (before.keys() - new.keys())
        still = {call: one for call, one in asked.items() if call in waiting}

        def taken_in() -> None:
            self._seen[session] = news.position, still

        return SessionSnapshot(
            requests=tuple(still.values()),
            said=() if told else tuple(filter(None, map(self.message_in, news.events))),
            closed=tuple(one for call, one in asked.items() if call not in waiting),
            taken_in=taken_in,
        )

    def message_in(self, event: Event) -> AgentMessage | None:
        """What people read of an event."""
        failed = bool(event.error_code) and "callId" not in (event.custom_metadata or {})
        why = event.error_message or event.error_code if failed else None
        text = "\n\n".join(filter(None, [event.text, why]))
        if event.author == USER or not text.strip():
            return None
        return AgentMessage(
            event=event.id, author=event.author, text=text, invocation_id=event.invocation_id, failed=failed
        )

    async def preview(self, asked: AskedCall, arguments: JsonObject) -> Preview:
        return await self.runner.preview(**_named(asked.session), call_id=asked.call_id, arguments=arguments)

    async def capabilities(self) -> Capabilities:
        return Capabilities(name="adk-confirm's own runtime")

    async def close(self) -> None:
        """Closes the runtime. The caller has waited for runs to end; the rest continues at the next start."""
        await self.runner.close(patience=_LAST_WORDS)


def _named(session: SessionId) -> dict[str, Any]:
    return {"user_id": session.user_id, "session_id": session.id}


def _as_answer(given: HostAnswer) -> Answer:
    request, delivery = given.asked.request_id, given.delivery
    if given.asked.ask is Ask.CONFIRMATION:
        return Answer(request, delivery.approves, delivery.payload, delivery.reason)
    value = answer_from_form(given.asked.payload_schema, delivery.payload) if delivery.approves else None
    return Answer(request, delivery.approves, value, delivery.reason, question=True)


def _request(call: Call) -> HostRequest:
    if call.request is None:
        return HostRequest(request_id=call.id, call_id=call.id, tool=call.tool, arguments=call.args, agent="")
    about = request_about(call, Ask.INPUT if call.asks_input else Ask.CONFIRMATION)
    return replace(about, previews_edits=about.can_edit and about.preview is not None)
