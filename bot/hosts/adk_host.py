"""The host for agents of google-adk and other ADKs: their sessions are on a server or in this process.

ADK keeps no record of what was sent, and runs a tool twice if it gets an approval twice. So before anything is sent,
the session is read to make sure that it is not there yet. After a broken connection nothing is sent until the first
attempt can't arrive any more.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from adk_confirm.bot.confirmation.confirmation import Ask, AskedCall
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.bot.hosts import session_reading
from adk_confirm.bot.hosts.asked import AdkRequest, RequestStatus
from adk_confirm.bot.hosts.host import (
    AgentMessage,
    CallAltered,
    Capabilities,
    DeliveryUnknown,
    HostAnswer,
    HostFailed,
    RefusedByHost,
    RequestLost,
    RunBroken,
    RunOutput,
    Server,
    SessionSnapshot,
    TurnBegun,
    Unreachable,
    UserWords,
)
from adk_confirm.bot.hosts.host_events import event_from, message_in, run_output
from adk_confirm.bot.hosts.plugin import NOT_SIGNED, NOT_TAKEN, Signer, was_refused
from adk_confirm.bot.hosts.session_reading import AdkMessage, SessionReading
from adk_confirm.runtime.adk.signing import MARK, SIGNATURES
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject, same
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.run.arrival import FREE, RunControl
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.wire import Content, Part, SessionId


async def read_until_stopped(
    events: AsyncIterator[JsonObject], stop: asyncio.Event, running: Iterable[str] = ()
) -> AsyncIterator[JsonObject]:
    """The events up to the stop. `running`: the ids of calls that start with this run.

    Servers end a run when its reader disconnects, which would interrupt a running tool. So the tool's result is
    awaited.
    """
    under_way = set(running)
    came: asyncio.Queue[JsonObject | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async for event in events:
                came.put_nowait(event)
        finally:
            came.put_nowait(None)

    reading, stopped = asyncio.create_task(read()), asyncio.create_task(stop.wait())
    try:
        while not (stop.is_set() and not under_way and came.empty()):
            coming = asyncio.create_task(came.get())
            await asyncio.wait({coming} if under_way else {coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                break
            event = coming.result()
            if event is None:
                await reading  # raises the run's error, if any
                break
            under_way = _running_after(under_way, event)
            yield event
    finally:
        stopped.cancel()
        reading.cancel()
        await asyncio.wait({reading})


def _running_after(before: set[str], raw: JsonObject) -> set[str]:
    """The calls that run after this event."""
    try:
        event = event_from(raw)
    except Invalid:
        return before
    if event.partial:
        return before
    parts = (event.content.parts if event.content else None) or []
    begun = {part.function_call.id for part in parts if part.function_call is not None and part.function_call.id}
    ended = {part.function_response.id for part in parts if part.function_response is not None}
    return (before | (begun - set(event.long_running_tool_ids or ()))) - ended


MENDED_BY_PEOPLE = 60.0
RESEND_AFTER = 30.0
"""The most seconds before a lost message is sent again. Delivering a message twice does little harm."""

GONE = (
    "The agent no longer knows this request: its session is gone, or was started again. "
    "Without a database, sessions are lost when the agent's process ends."
)
ASKED_ANEW = "The agent asked again before this answer reached it, so the answer was dropped. Use the newer card."
ANOTHER = "The call at the agent's server is no longer the one that was approved. Nothing was sent."
IN_TURN = (
    "If its app can't be resumed, google-adk ends a SequentialAgent or a LoopAgent with the first approval, and later "
    "steps never run. Give the App resumability_config=ResumabilityConfig(is_resumable=True)."
)
ENDS_EARLY = (
    "If other agents should follow {} in this turn, they did not run: google-adk has ended the turn, since the app "
    "can't be resumed. Ask for what is left, or have whoever runs the agent make the app resumable."
)
NOT_KEPT = "The agent's server accepted the answer, but did not store it."

CLOCK_TOLERANCE = 1.0
"""How many seconds the server's clock may be behind ours when a message is looked for by its time."""


class AdkHost:
    tells = False

    def __init__(self, server: Server, *, secret: str | None = None, clock: Callable[[], float] | None = None) -> None:
        self.app, self.server, self.patience = server.app, server, server.patience
        self._signer = Signer(server.app, secret)
        self._clock, self._steady = clock or time.time, clock or time.monotonic
        self._sent: dict[str, float] = {}  # marks of messages whose sending broke off: when they were sent
        self._running: dict[SessionId, dict[str, int]] = {}
        self._read_after: dict[SessionId, SessionReading] = {}  # read after an exchange, and not yet looked at

    async def capabilities(self) -> Capabilities:
        about = await self.server.about()
        return Capabilities(
            name=about.name,
            notes=(*about.notes, IN_TURN) if about.ends_early else about.notes,
            ask_plugin=partial(self._signer.ask_plugin, about.why_not) if about.why_not is not None else None,
        )

    async def close(self) -> None:
        await self.server.close()

    async def look(
        self,
        session: SessionId,
        *,
        after_exchange: bool = False,
        held: Lease | None = None,  # noqa: ARG002  (of `Host`: its server knows what became of a call)
    ) -> SessionSnapshot:
        about = await self.server.about()
        before = self._running.get(session, {})
        read_after = self._read_after.pop(session, None) if after_exchange else None
        found = read_after or await self._read(session)
        # A call may have ended while this was read, and the result may show the state before or after.
        running = {**self._running.get(session, {}), **before}
        return found.look(running, about)

    async def preview(self, asked: AskedCall, arguments: JsonObject) -> Preview:  # noqa: ARG002  (of `Host`)
        return Preview(failed="The agent's server does not say what an edited call would do.")

    # Messages

    async def say(self, session: SessionId, words: UserWords, control: RunControl = FREE) -> AsyncIterator[RunOutput]:
        """Sends a message to the agent, unless the session has it already."""
        before, message, mark = await self._read(session), words.as_content(), words.mark
        if not before.exists:
            await self.server.create(session)
        since = None if words.since is None else words.since - CLOCK_TOLERANCE
        if (heard := before.heard(mark, message.text, since)) is not None:
            for said in _after_break(heard, control.stop):
                yield said
            return
        if _is_set(control.stop):
            return
        self._wait_out(mark, words.ago, min(RESEND_AFTER, self.patience))
        began, sent = self._clock(), self._steady()
        try:
            async for said in self._run(session, message, mark, control):
                yield said
        except RefusedByHost as refused:
            yield AgentMessage(
                event=f"refused:{mark}", author="", text=f"{refused.words} Say it differently.", failed=True
            )
        except DeliveryUnknown as cut:
            self._sent[mark] = sent
            heard = (await self._read_in_doubt(cut, session)).heard(mark, message.text, began - CLOCK_TOLERANCE)
            if heard is None:
                raise DeliveryUnknown(str(cut), min(RESEND_AFTER, self.patience)) from cut
            for said in _after_break(heard, control.stop, cut.words):
                yield said

    def _tell(
        self, session: SessionId, answer: HostAnswer, text: str, mark: str, control: RunControl
    ) -> AsyncIterator[RunOutput]:
        """Tells the agent something about an answer, in words."""
        return self.say(session, UserWords(mark=mark, text=text, since=0.0, ago=answer.ago), control)

    # Answers

    async def answer(
        self, session: SessionId, answers: Sequence[HostAnswer], control: RunControl = FREE
    ) -> AsyncIterator[RunOutput]:
        before = await self._read(session)
        match answers[0].delivery.word:
            case "approved" | "denied":
                sending = self._answer_all(session, answers, before, control)
            case word:
                sending = self._pass_on(session, answers[0], word, before, control)
        async for said in sending:
            yield said

    async def _answer_all(
        self, session: SessionId, answers: Sequence[HostAnswer], before: SessionReading, control: RunControl
    ) -> AsyncIterator[RunOutput]:
        gone = [one for one in answers if before.status(one.asked.request_id) is RequestStatus.GONE]
        if any((asks := before.requests.get(one.asked.request_id)) and asks.ask is Ask.INPUT for one in gone):
            raise RequestLost(ASKED_ANEW)
        if gone:
            sent = any(one.delivery.approves and one.ago is not None for one in answers)
            raise RequestLost(GONE, may_have_run=sent)
        left = [(asks, one) for one in answers if (asks := before.waiting(one.asked.request_id)) is not None]
        for asks, answer in left:
            self._check(asks, answer)
            self._wait_out(answer.mark, answer.ago, self.patience)
        if any(one.ago is not None and before.waiting(one.asked.request_id) is None for one in answers):
            yield RunBroken()  # the run of the process that sent it may go on unheard
        for nth, group in enumerate(_by_agent(left)):
            now = await self._read(session) if nth else before  # a run may take long, and much may happen meanwhile
            async for said in self._send(session, group, now, control):
                yield said
        if left and (await self.server.about()).ends_early and not before.resumes:
            one = left[0][0].request
            text = ENDS_EARLY.format(one.author)
            yield AgentMessage(event=f"ends:{one.id}", author=one.author, text=text, failed=True)
        for answer in answers:
            reason = _reason_in_words(before.requests[answer.asked.request_id], answer.delivery)
            if reason is not None:
                async for said in self._tell(session, answer, reason, f"{answer.mark}:reason", control):
                    yield said

    async def _pass_on(
        self, session: SessionId, answer: HostAnswer, word: Word, before: SessionReading, control: RunControl
    ) -> AsyncIterator[RunOutput]:
        request_id, attempt = answer.asked.request_id, answer.delivery.lost_attempt
        asks = before.requests.get(request_id)
        if asks is None:
            raise RequestLost(GONE)
        if word == "run again":
            self._check(asks, answer)
        mark = f"settled:{answer.asked.call_id}:{attempt}:{word}"
        if (say := (await self.server.about()).say_what_became) is not None:
            if word != "nobody knows":  # our API says so by itself after a day
                with self._marked_running(session, {request_id: len(asks.given) - 1}):
                    async for raw in say(session, asks.call_id, word, attempt):
                        for heard in _events_heard(raw):
                            yield heard
        elif word != "run again":
            if asks.ask is Ask.CONFIRMATION:  # a message would restart a workflow
                async for said in self._tell(session, answer, _settlement(asks, word), mark, control):
                    yield said
        elif before.status(request_id) is not RequestStatus.SETTLED and len(asks.given) <= attempt:
            # otherwise the result arrived, or this was sent before
            self._wait_out(mark, None, self.patience)
            async for said in self._send(session, [replace(answer, mark=mark)], before, control):
                yield said

    async def _send(
        self, session: SessionId, answers: Sequence[HostAnswer], before: SessionReading, control: RunControl
    ) -> AsyncIterator[RunOutput]:
        """Sends all answers in one message, since an app that is not resumable shows its model an error for each
        missing answer, and other apps end an agent with its first answer."""
        sent, parts, signatures = list[tuple[AdkRequest, str]](), list[Part](), JsonObject()
        for answer in answers:
            request_id, once = answer.asked.request_id, answer.delivery.answers
            asks = before.waiting(request_id) if once else before.requests.get(request_id)
            if asks is None:
                continue  # somebody answered it meanwhile
            self._check(asks, answer)
            if (signed := self._signer.sign(session, asks, _answer_for(answer, asks))) is not None:
                sent.append((asks, answer.mark))
                parts.append(signed[0])
                signatures |= signed[1]
        if not sent:
            return
        given, marks = {asks.request.id: len(asks.given) for asks, _ in sent}, [mark for _, mark in sent]
        message, began = Content(role="user", parts=parts), self._steady()
        calls = [asks.call_id for asks, _ in sent]
        try:
            with self._marked_running(session, given):
                async for said in self._run(session, message, marks[0], control, signatures, calls):
                    yield said
        except DeliveryUnknown as cut:
            self._sent.update(dict.fromkeys(marks, began))
            if not await self._has_arrived(cut, session, given):
                if was_refused(cut):
                    for mark in marks:
                        del self._sent[mark]  # refused, so this answer can't arrive later
                    raise RefusedByHost(NOT_TAKEN, MENDED_BY_PEOPLE) from cut
                raise DeliveryUnknown(str(cut), self.patience) from cut
            yield RunBroken()
            if isinstance(cut, HostFailed):
                yield AgentMessage(event=f"cut:{marks[0]}", author=self.app, text=cut.words, failed=True)
        else:
            if not await self._has_arrived(DeliveryUnknown(NOT_KEPT), session, given):
                self._sent.update(dict.fromkeys(marks, began))
                raise DeliveryUnknown(NOT_KEPT, max(self.patience, RESEND_AFTER))

    def _check(self, asks: AdkRequest, answer: HostAnswer) -> None:
        """Raises an error if this answer can't be given to what the session has now."""
        decided: Json = [answer.asked.call_id, answer.asked.tool, answer.asked.arguments, answer.asked.preview]
        if answer.delivery.approves and (asks.twice or not same(asks.shown, decided)):
            raise CallAltered(ANOTHER, asks.request.id)
        if self._signer.lacks_secret(asks):
            raise RefusedByHost(NOT_SIGNED, MENDED_BY_PEOPLE)

    async def _has_arrived(self, cut: DeliveryUnknown, session: SessionId, given: Mapping[str, int]) -> bool:
        """Whether the session has all the answers, beyond those `given` before. The session decides this, even after a
        run that ended well."""
        after = await self._read_in_doubt(cut, session)
        if not after.requests.keys() >= given.keys():
            raise RequestLost(GONE, may_have_run=True) from cut
        arrived = all(len(after.requests[key].given) > number for key, number in given.items())
        if arrived:
            self._read_after[session] = after
        return arrived

    # The server

    async def _read(self, session: SessionId) -> SessionReading:
        self._read_after.pop(session, None)
        return await session_reading.read(await self.server.events(session))

    async def _read_in_doubt(self, cut: DeliveryUnknown, session: SessionId) -> SessionReading:
        """Reads the session after a run. If that fails, the message may have arrived, or may still arrive."""
        try:
            return await self._read(session)
        except Unreachable as error:
            raise DeliveryUnknown(str(cut), error.again_after) from error

    def _wait_out(self, mark: str, ago: float | None, limit: float) -> None:
        """Raises `DeliveryUnknown` while the same message, which was sent before, may still arrive."""
        here = None if mark not in self._sent else self._steady() - self._sent[mark]
        rest = limit - min((one for one in (here, ago) if one is not None), default=limit)
        if rest > 0:
            raise DeliveryUnknown("It was sent before, and may still arrive.", rest)
        self._sent.pop(mark, None)

    async def _run(
        self,
        session: SessionId,
        message: Content,
        mark: str,
        control: RunControl,
        signatures: JsonObject | None = None,
        running: Sequence[str] = (),
    ) -> AsyncIterator[RunOutput]:
        about = await self.server.about()
        extra: JsonObject = {}
        if about.metadata:
            extra["customMetadata"] = {MARK: mark, **({SIGNATURES: signatures} if signatures else {})}
        events, stop = self._send_now(session, message, extra, control), control.stop
        async for raw in events if stop is None else read_until_stopped(events, stop, running):
            for heard in _events_heard(raw):
                yield heard
        if _is_set(stop):
            yield RunBroken()  # some servers go on although nobody listens

    async def _send_now(
        self, session: SessionId, message: Content, extra: JsonObject, control: RunControl
    ) -> AsyncIterator[JsonObject]:
        """Sends the message in the step in which `control.sure` allows it: the session may have been read long ago."""
        await control.sure()
        async for raw in self.server.run(session, message, extra):
            yield raw
            await asyncio.sleep(0)  # a thousand may have come at once: others get their turn

    @contextmanager
    def _marked_running(self, session: SessionId, given: dict[str, int]) -> Iterator[None]:
        self._running[session] = given
        try:
            yield
        finally:
            self._running.pop(session, None)


def _events_heard(raw: JsonObject) -> Iterable[RunOutput]:
    try:
        event = event_from(raw)
    except Invalid:
        return  # the session shows it when it is read
    yield TurnBegun(event.invocation_id)
    yield from run_output(event, message_in(event) if raw.get("id") else None)


def _is_set(stop: asyncio.Event | None) -> bool:
    return stop is not None and stop.is_set()


def _by_agent(answers: Sequence[tuple[AdkRequest, HostAnswer]]) -> list[list[HostAnswer]]:
    """Groups the answers by agent and branch, because google-adk resumes one agent for each message. Calls that
    share an id get a message each, because ADK Go runs only one of them for each message."""
    groups, times = dict[tuple[str, int], list[HostAnswer]](), Counter[tuple[str, str]]()
    for asks, answer in answers:
        agent = asks.siblings or answer.asked.request_id
        groups.setdefault((agent, times[agent, asks.call_id]), []).append(answer)
        times[agent, asks.call_id] += 1
    return list(groups.values())


def _answer_for(answer: HostAnswer, asks: AdkRequest) -> Answer:
    """The answer as it is sent. If it is a denial, a tool that asked with a payload gets that payload back, because
    without our plugin google-adk calls the tool, which may read it."""
    given, confirmed = answer.delivery, answer.delivery.approves
    payload = asks.request.payload if not confirmed and asks.announcement is None else given.payload
    return Answer(asks.request.id, confirmed, payload, None if confirmed else given.reason)


def _reason_in_words(asks: AdkRequest, given: Delivery) -> str | None:
    """A denial's reason as a message of its own, since ADK does not give it to the model without the plugin. None if
    the plugin passes it on, or if a message would restart a workflow."""
    if given.approves or not given.reason:
        return None
    if asks.ask is Ask.INPUT and not asks.by_node and not asks.takes_errors:
        question = f' "{asks.request.hint}"' if asks.request.hint else ""
        return f"Nobody answered your question{question}: {given.reason}. Go on without the answer."
    if asks.announcement is not None or asks.ask is not Ask.CONFIRMATION:
        return None
    return f"The call {asks.request.call.name} ({asks.call_id}) was denied: {given.reason}"


def _after_break(heard: AdkMessage, stop: asyncio.Event | None, why: str = "") -> Iterator[RunOutput]:
    """What is known of a run that broke off: the session has the message with which it began."""
    yield TurnBegun(heard.invocation_id)
    yield RunBroken()
    if not heard.replied and not _is_set(stop):
        text = "The connection to the agent's server broke before the agent answered. Ask again if you still want it."
        said = f"{text} ({why})" if why else text
        yield AgentMessage(event=f"broken:{heard.event}", author="", text=said, failed=True)


def _settlement(asks: AdkRequest, word: Word) -> str:
    call = f"the call {asks.request.call.name} ({asks.call_id}), whose outcome was unknown"
    match word:
        case "it happened":
            return f"People looked into {call}: it happened. Do not call it again for this."
        case "it did not":
            return f"People looked into {call}: it did not happen."
        case _:
            return f"Nobody knows what became of {call}: it may have taken effect. Do not simply call it again."
