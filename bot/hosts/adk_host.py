"""The host for agents of google-adk and other ADKs: their sessions are on a server or in this process.

ADK keeps no record of what was sent, and runs a tool twice if it gets an approval twice. So before anything is sent,
the session is read to make sure that it is not there yet. After a broken connection nothing is sent until the first
attempt can't arrive any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from bot.confirmation.model import Ask, SessionKey
from bot.hosts import reading
from bot.hosts.events import event_from, message_in, run_output
from bot.hosts.host import (
    AgentMessage,
    CallAltered,
    Capabilities,
    DeliveryUnknown,
    HostAnswer,
    HostFailed,
    RefusedByHost,
    RequestLost,
    RunOutput,
    SessionSnapshot,
    Unreachable,
    UserWords,
)
from bot.hosts.host_texts import (
    ANOTHER,
    ASKED_ANEW,
    GONE,
    NOT_KEPT,
    broken_connection_message,
    denial_message,
    nobody_answered,
    settlement_message,
)
from bot.hosts.reading import AdkRequest, RequestStatus, SessionReading
from bot.hosts.server import Server
from bot.hosts.signed import MENDED_BY_PEOPLE, NOT_SIGNED, NOT_TAKEN, Signer, was_refused
from bot.hosts.stopping import read_until_stopped
from runtime.adk.signing import MARK, SIGNATURES
from runtime.calls.call import Word
from runtime.confirming import Answer
from runtime.errors import Invalid
from runtime.jsontypes import JsonObject, same
from runtime.wire import Content, Part

RESEND_AFTER = 30.0
"""The most seconds before a lost message is sent again. Delivering a message twice does little harm."""

CLOCK_TOLERANCE = 1.0
"""How many seconds the server's clock may be behind ours when a message is looked for by its time."""


class AdkHost:
    tells = False

    def __init__(self, server: Server, *, secret: str | None = None, clock: Callable[[], float] | None = None) -> None:
        self.server, self._signer = server, Signer(server.app, secret)
        self._clock = clock or time.time
        self._sent: dict[str, float] = {}  # marks of messages whose sending broke off: when they were sent
        self._stops: dict[SessionKey, asyncio.Event] = {}
        self._running: dict[SessionKey, dict[str, int]] = {}

    @property
    def app(self) -> str:
        return self.server.app

    async def capabilities(self) -> Capabilities:
        about = await self.server.about()
        ours = about.settle is not None  # this server counts answers itself
        return Capabilities(
            name=about.name,
            exactly_once=ours,
            edits=ours,
            siblings_together=not ours,
            patience=self.server.patience,
            notes=about.notes,
        )

    async def close(self) -> None:
        await self.server.close()

    async def look(self, session: SessionKey) -> SessionSnapshot:
        about = await self.server.about()
        before = self._running.get(session, {})
        found = await self._read(session)
        # A call may have ended while this was read, and the result may show the state before or after.
        running = {**self._running.get(session, {}), **before}
        return found.look(running, about.schemas)

    # Messages

    async def say(
        self, session: SessionKey, words: UserWords, *, stop: asyncio.Event | None = None
    ) -> AsyncIterator[RunOutput]:
        with self._stoppable(session, stop):
            async for said in self._send_message(session, words.as_content(), words.mark, words.since):
                yield said

    async def _send_message(
        self, session: SessionKey, message: Content, mark: str, since: float | None
    ) -> AsyncIterator[RunOutput]:
        """Sends a message to the agent, unless the session has it already."""
        before = await self._read(session)
        if not before.exists:
            await self.server.create(session)
        since = None if since is None else since - CLOCK_TOLERANCE
        if (heard := before.heard(mark, message.text, since)) is not None:
            if not heard.replied and not self._is_stopped(session):
                yield broken_connection_message(heard.event)
            return
        if self._is_stopped(session):
            return
        self._wait_out(mark, None, min(RESEND_AFTER, self.server.patience))
        began = self._clock()
        try:
            async for said in self._run(session, message, mark):
                yield said
        except RefusedByHost as refused:
            yield AgentMessage(event=f"refused:{mark}", author="", text=f"{refused} Say it differently.", failed=True)
        except DeliveryUnknown as cut:
            self._sent[mark] = began
            heard = (await self._read_after(cut, session)).heard(mark, message.text, began - CLOCK_TOLERANCE)
            if heard is None:
                raise DeliveryUnknown(str(cut), min(RESEND_AFTER, self.server.patience)) from cut
            if not heard.replied and not self._is_stopped(session):
                yield broken_connection_message(heard.event, str(cut))

    # Answers

    async def answer(
        self, session: SessionKey, answers: Sequence[HostAnswer], *, stop: asyncio.Event | None = None
    ) -> AsyncIterator[RunOutput]:
        with self._stoppable(session, stop):
            async for said in self._answer_all(session, answers):
                yield said

    async def _answer_all(self, session: SessionKey, answers: Sequence[HostAnswer]) -> AsyncIterator[RunOutput]:
        before = await self._read(session)
        statuses = {answer.request_id: before.status(answer.request_id) for answer in answers}
        if any(
            (adk_request := before.adk_request(one.request_id)) is not None and adk_request.overtaken for one in answers
        ):
            raise RequestLost(ASKED_ANEW)
        if RequestStatus.GONE in statuses.values():
            raise RequestLost(
                GONE, may_have_run=any(answer.confirmed and answer.since is not None for answer in answers)
            )
        left = [
            answer for answer in answers if (found := before.adk_request(answer.request_id)) is not None and found.open
        ]
        for answer in left:
            adk_request = before.adk_request(answer.request_id)
            if _is_another(adk_request, answer):
                raise CallAltered(ANOTHER)
            if self._signer.lacks_secret(adk_request):
                raise RefusedByHost(NOT_SIGNED, MENDED_BY_PEOPLE)
            self._wait_out(answer.mark, answer.since, self.server.patience)
        for group in _by_agent(left, before):
            async for said in self._send_group(session, group):
                yield said
        for answer in answers:
            async for said in self._explain(session, before.adk_request(answer.request_id), answer):
                yield said

    async def _send_group(self, session: SessionKey, answers: Sequence[HostAnswer]) -> AsyncIterator[RunOutput]:
        """Sends all answers in one message, since an app that is not resumable shows its model an error for each
        missing answer, and others end an agent with its first answer."""
        before = await self._read(session)
        made = [
            (one, self._signer.part(session, before.adk_request(one.request_id), _answer_for(one, before)))
            for one in answers
        ]
        parts = [part for _, part in made if part is not None]
        sent = [answer for answer, part in made if part is not None]
        if sent:
            async for said in self._send_answers(
                session, before, parts, [one.request_id for one in sent], [one.mark for one in sent]
            ):
                yield said

    async def settle(
        self,
        session: SessionKey,
        answer: HostAnswer,
        word: Word,
        attempt: int,
        stop: asyncio.Event | None = None,
    ) -> AsyncIterator[RunOutput]:
        with self._stoppable(session, stop):
            async for said in self._send_settlement(session, answer, word, attempt):
                yield said

    async def _send_settlement(
        self, session: SessionKey, answer: HostAnswer, word: Word, attempt: int
    ) -> AsyncIterator[RunOutput]:
        before, request_id = await self._read(session), answer.request_id
        adk_request = before.adk_request(request_id)
        if adk_request is None:
            raise RequestLost(GONE)
        if word == "run again" and _is_another(adk_request, answer):
            raise CallAltered(ANOTHER)
        if (settle := (await self.server.about()).settle) is not None:
            if word != "nobody knows":  # our API says so by itself after a day
                with self._marked_running(session, {request_id: len(adk_request.given) - 1}):
                    async for raw in settle(session, adk_request.call_id, word, attempt):
                        for heard in _events_heard(raw):
                            yield heard
            return
        mark = f"settled:{answer.call_id}:{attempt}:{word}"
        if word != "run again":
            if adk_request.ask is not Ask.CONFIRMATION:
                return  # a message would restart its workflow
            text = Content.of_text(settlement_message(adk_request, word))
            async for said in self._send_message(session, text, mark, 0.0):
                yield said
            return
        if adk_request.status is RequestStatus.SETTLED or len(adk_request.given) > attempt:
            return  # the result arrived, or this was sent before
        self._wait_out(mark, None, self.server.patience)
        part = self._signer.part(session, adk_request, _answer_for(answer, before))
        if part is None:
            return
        async for said in self._send_answers(session, before, [part], [request_id], [mark]):
            yield said

    async def _send_answers(
        self, session: SessionKey, before: SessionReading, parts: list[Part], requests: list[str], marks: list[str]
    ) -> AsyncIterator[RunOutput]:
        given = {
            one: len(adk_request.given) for one in requests if (adk_request := before.adk_request(one)) is not None
        }
        message, began = Content(role="user", parts=parts), self._clock()
        signatures = self._signer.signatures(session, [before.adk_request(one) for one in requests], parts)
        try:
            with self._marked_running(session, given):
                running = [one.call_id for key in requests if (one := before.adk_request(key)) is not None]
                async for said in self._run(session, message, marks[0], signatures, running):
                    yield said
        except DeliveryUnknown as cut:
            self._sent.update(dict.fromkeys(marks, began))
            if not await self._has_arrived(cut, session, given):
                if was_refused(cut):
                    self._forget(marks)
                    raise RefusedByHost(NOT_TAKEN, MENDED_BY_PEOPLE) from cut
                raise DeliveryUnknown(str(cut), self.server.patience) from cut
            if isinstance(cut, HostFailed):
                yield AgentMessage(event=f"cut:{marks[0]}", author=self.app, text=str(cut), failed=True)
        else:
            if not await self._has_arrived(DeliveryUnknown(NOT_KEPT), session, given):
                self._sent.update(dict.fromkeys(marks, began))
                raise DeliveryUnknown(NOT_KEPT, max(self.server.patience, RESEND_AFTER))

    async def _has_arrived(self, cut: DeliveryUnknown, session: SessionKey, given: Mapping[str, int]) -> bool:
        """Whether the session has all the answers, beyond those `given` before. The session decides this, even after a
        run that ended well."""
        after = await self._read_after(cut, session)
        now = {key: after.adk_request(key) for key in given}
        if None in now.values():
            raise RequestLost(GONE, may_have_run=True) from cut
        return all(one is not None and len(one.given) > given[key] for key, one in now.items())

    async def _explain(
        self, session: SessionKey, adk_request: AdkRequest | None, answer: HostAnswer
    ) -> AsyncIterator[RunOutput]:
        """Sends a denial's reason as a message of its own, since ADK does not give it to the model without the
        plugin."""
        if adk_request is None or answer.confirmed or not answer.reason:
            return
        asked = adk_request.asked
        if adk_request.ask is Ask.INPUT and asked is not None and not asked.by_node and not asked.takes_errors:
            text = Content.of_text(nobody_answered(adk_request, answer.reason))
        elif adk_request.announcement is not None or adk_request.ask is not Ask.CONFIRMATION:
            return  # the plugin passes it on, or a message would restart the workflow
        else:
            text = Content.of_text(denial_message(adk_request, answer.reason))
        async for said in self._send_message(session, text, f"{answer.mark}:reason", 0.0):
            yield said

    # The server

    async def _read(self, session: SessionKey) -> SessionReading:
        return reading.read(await self.server.events(session))

    async def _read_after(self, cut: DeliveryUnknown, session: SessionKey) -> SessionReading:
        """Reads the session after a run. If that fails, the message may have arrived, or may still arrive."""
        try:
            return await self._read(session)
        except Unreachable as error:
            raise DeliveryUnknown(str(cut), error.again_after) from error

    def _forget(self, marks: list[str]) -> None:
        """Forgets a message that was refused: it can't arrive later."""
        for mark in marks:
            self._sent.pop(mark, None)

    def _wait_out(self, mark: str, since: float | None, limit: float) -> None:
        """Raises while the same message, sent before, may still arrive."""
        last = max((at for at in (self._sent.get(mark), since) if at is not None), default=None)
        rest = 0.0 if last is None else last + limit - self._clock()
        if rest > 0:
            raise DeliveryUnknown("It was sent before, and may still arrive.", rest)
        self._sent.pop(mark, None)

    async def _run(
        self,
        session: SessionKey,
        message: Content,
        mark: str,
        signatures: JsonObject | None = None,
        running: Sequence[str] = (),
    ) -> AsyncIterator[RunOutput]:
        about = await self.server.about()
        extra: JsonObject = {}
        if about.metadata:
            extra["customMetadata"] = {MARK: mark, **({SIGNATURES: signatures} if signatures else {})}
        events, stop = self.server.run(session, message, extra), self._stops.get(session)
        async for raw in events if stop is None else read_until_stopped(events, stop, running):
            for heard in _events_heard(raw):
                yield heard

    @contextmanager
    def _stoppable(self, session: SessionKey, stop: asyncio.Event | None) -> Iterator[None]:
        if stop is not None:
            self._stops[session] = stop
        try:
            yield
        finally:
            self._stops.pop(session, None)

    def _is_stopped(self, session: SessionKey) -> bool:
        stop = self._stops.get(session)
        return stop is not None and stop.is_set()

    @contextmanager
    def _marked_running(self, session: SessionKey, given: dict[str, int]) -> Iterator[None]:
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
    yield from run_output(event, message_in(event) if raw.get("id") else None)


def _is_another(adk_request: AdkRequest | None, answer: HostAnswer) -> bool:
    """Whether the session now has a different call under the request that was decided."""
    if adk_request is None or not answer.confirmed or answer.arguments is None:
        return False
    return adk_request.twice or not same(adk_request.call, [answer.call_id, answer.tool, answer.arguments])


def _by_agent(answers: Sequence[HostAnswer], before: SessionReading) -> list[list[HostAnswer]]:
    """Groups the answers by agent and branch, because google-adk resumes one agent for each message."""
    groups: dict[str, list[HostAnswer]] = {}
    for answer in answers:
        adk_request = before.adk_request(answer.request_id)
        siblings = adk_request.siblings if adk_request is not None else ""
        groups.setdefault(siblings or answer.request_id, []).append(answer)
    return list(groups.values())


def _answer_for(answer: HostAnswer, before: SessionReading) -> Answer:
    """The payload of a denial. A tool that asked with a payload gets it back, because google-adk calls the tool, which
    may read it."""
    adk_request, payload = before.adk_request(answer.request_id), answer.payload
    if not answer.confirmed and adk_request is not None and adk_request.announcement is None:
        payload = adk_request.request.payload
    return Answer(answer.request_id, answer.confirmed, payload, answer.reason)
