"""Reads a session of another server: requests, answers, outcomes and messages. Pure.

The session may come from any ADK (Python, Go, Java, JS, adk-rs). Only the parts that matter here are read, and an event
that can't be understood becomes a sentence for people instead of a guess. For each request, the session shows one of
three states. *Absent*: nobody has answered it. *Begun*: there is an answer and no response of the agent to the call, so
the tool may have run. *Settled*: such a response follows the answer.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from adk_confirm.bot.confirmation.confirmation import Ask
from adk_confirm.bot.confirmation.outcome import has_failed
from adk_confirm.bot.hosts.asked import (
    CHOICE_TOOL,
    OF_THE_FRAMEWORK,
    AdkRequest,
    RequestStatus,
    asked_in,
    read_stored_answer,
)
from adk_confirm.bot.hosts.host import AgentMessage, ServerInfo, SessionSnapshot, UnansweredWait
from adk_confirm.bot.hosts.host_events import ABORTED, HostEvent, event_from, message_in, said_in, unread
from adk_confirm.bot.hosts.waits import (
    ASKED_TWICE,
    awaited,
    other_waits_in,
    pause_of,
    sign_ins_in,
    unanswered,
    unfinished_operation,
)
from adk_confirm.runtime.adk.signing import MARK, WORKFLOW_CONFIRMATION, announcement_about, bound_to_event
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_text, same
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION, USER, FunctionResponse


@dataclass
class AdkMessage:
    """A message to the agent. `mark`: if the server kept it. `at`: when, if the server says. `replied`: the agent said
    something afterwards, or waits."""

    event: str
    invocation_id: str
    text: str
    at: float | None
    mark: str | None
    replied: bool = False


@dataclass
class SessionReading:
    """What was read so far. A session may have a hundred thousand of each part, so each is found by its key."""

    exists: bool = True
    requests: dict[str, AdkRequest] = field(default_factory=dict)
    words: list[AdkMessage] = field(default_factory=list)
    said: list[AgentMessage] = field(default_factory=list)
    resumes: bool = False  # the app notes how far its agents are, so it can be resumed
    origins: dict[str, str] = field(default_factory=dict)  # by invocation that an answer began: the one that had asked
    _asked_in: dict[str, str] = field(default_factory=dict)  # by a call's id: its invocation; empty if several share it
    _waits: dict[str, UnansweredWait] = field(default_factory=dict)
    _by_call: dict[str, AdkRequest] = field(default_factory=dict)  # the last confirmation of each call
    _by_part: dict[str, AdkRequest] = field(default_factory=dict)  # the last other request with each part's id
    _running: dict[str, AdkRequest | None] = field(default_factory=dict)  # answered requests, by call; None if several
    _signing_in: set[str] = field(default_factory=set)  # waits that a client can answer: another sentence says so
    _unread: dict[str, AdkRequest] = field(default_factory=dict)  # with an answer that we can't read, by call
    _responses: dict[str, JsonObject] = field(default_factory=dict)  # the last of each call
    _answered: Counter[str] = field(default_factory=Counter)  # how many answers requests with these siblings got

    def status(self, request_id: str) -> RequestStatus:
        return asks.status if (asks := self.requests.get(request_id)) is not None else RequestStatus.GONE

    def waiting(self, request_id: str) -> AdkRequest | None:
        """The request, if an answer may be sent."""
        return self.requests.get(request_id) if self.status(request_id) is RequestStatus.ABSENT else None

    def heard(self, mark: str, text: str, since: float | None) -> AdkMessage | None:
        """Finds a message in the session: by its mark, or by its text. Ignores messages from before `since`."""
        for words in reversed(self.words):
            if words.mark == mark:
                return words
            if words.mark is None and since is not None and words.text == text:
                # Without times only the last message can be the one just sent. `since <= 0`: any message may be.
                in_time = words is self.words[-1] if words.at is None else words.at >= since
                if since <= 0 or in_time:
                    return words
        return None

    def look(self, running: Mapping[str, int], about: ServerInfo) -> SessionSnapshot:
        """The session for the bot. `running`: the requests whose answers are being sent, and how many answers there
        were before."""
        waiting = [asks for asks in self.requests.values() if asks.status is RequestStatus.ABSENT]
        operations = [asks for asks in waiting if asks.ask is Ask.OPERATION]
        calls = ((key, asks.as_told(running.get(key))) for key, asks in self.requests.items())
        return SessionSnapshot(
            requests=tuple(asks.for_people(about) for asks in waiting if asks.ask is not Ask.OPERATION),
            calls={key: call for key, call in calls if call is not None},
            said=tuple(self.said),
            waits=(
                *(one for key, one in self._waits.items() if key not in self._by_call and key not in self._signing_in),
                *(unfinished_operation(asks, about) for asks in operations if not has_failed(asks.before or {})),
            ),
            closed=tuple(
                asks.for_people(about) for asks in self.requests.values() if asks.status is not RequestStatus.ABSENT
            ),
            origins=self.origins,
        )

    # One event after the other

    def add(self, event: HostEvent) -> None:
        if event.partial or (event.author != USER and event.error_code == ABORTED):
            return
        if event.author == USER:
            self._add_words(event)
            return
        told = len(self.said)
        self.resumes = self.resumes or not {"agentState", "endOfAgent"}.isdisjoint(event.actions.model_extra or ())
        origin = self.origins.get(event.invocation_id, event.invocation_id)
        for call in event.calls():
            if call.id and self._asked_in.setdefault(call.id, origin) != origin:
                self._asked_in[call.id] = ""
        for asks in asked_in(event):
            self._add_request(asks)
        self._waits.update(other_waits_in(event))
        self._signing_in.update(sign_ins_in(event))
        self._add_output(event)
        for response in event.responses():
            self._add_response(event, response, response.id or "")
        if (said := message_in(event)) is not None:
            self.said.append(said)
        if self.words and (event.long_running_tool_ids or len(self.said) > told):
            self.words[-1].replied = True

    def end(self) -> SessionReading:
        for key, asks in [*self.requests.items()]:
            is_operation = asks.ask is Ask.OPERATION
            asks.unasked = asks.unasked and pause_of(asks.call_id) not in self._signing_in
            if is_operation and asks.part_id in self._by_call:
                del self.requests[key]  # adk-rs marks a call that waits for confirmation as long running
            elif not asks.given:
                asks.before = self._responses.get(asks.part_id if is_operation else asks.call_id)
        return self

    def _add_request(self, asks: AdkRequest) -> None:
        if asks.ask is not Ask.CONFIRMATION:
            if (older := self._by_part.get(asks.part_id)) is not None:
                older.asked_anew, asks.answered = True, older.answered
            self.requests[asks.request.id] = self._by_part[asks.part_id] = asks
            return
        first = self.requests.setdefault(asks.request.id, asks)
        if first is asks:
            while asks.siblings and (answered := self._answered[asks.siblings]):  # it asks more in the same turn
                asks.siblings += f" {answered}"
            older = self._by_call.get(asks.call_id)
            if older is not None and older.given and asks.announcement and asks.announcement.approved_preview:
                older.held_again = asks.announcement
            self._by_call[asks.call_id] = asks
        elif not same(first.shown, asks.shown):
            first.twice = True

    def _add_output(self, event: HostEvent) -> None:
        """The output of a workflow's node is the result of the call that people were asked about. The output of the
        whole workflow is its last message."""
        node, value = event.node_info, event.output
        asks = self._by_part.get(f"{WORKFLOW_CONFIRMATION}{node.path}") if node.path else None
        failed = event.error_code
        if asks is not None and asks.given:
            if failed:
                asks.after = {"error": f"{failed}: {event.error_message}" if event.error_message else failed}, event.at
            elif value is not None and node.output_for:
                asks.after = value if isinstance(value, dict) else {"result": value}, event.at
            asks.ended_empty = asks.ended_empty or (event.is_empty and not failed)
        if node.path and node.is_whole and isinstance(value, str) and value.strip() and not event.text.strip():
            told = {(one.text, one.invocation_id) for one in self.said}
            if not failed and (value, event.invocation_id) not in told:
                self.said.append(said_in(event, value))

    def _add_response(self, event: HostEvent, response: FunctionResponse, call_id: str) -> None:
        pause, confirmed = self._by_part.get(call_id), self._by_call.get(call_id)
        if (response.name or "").startswith(OF_THE_FRAMEWORK) or response.name == CHOICE_TOOL:
            # A question that the agent answered by itself, such as in a callback, waits for nobody.
            self._waits.pop(call_id, None)
            if pause is not None and not pause.given:
                del self._by_part[call_id], self.requests[pause.request.id]
        elif pause is not None and (announced := announcement_about(event.custom_metadata, call_id)) is not None:
            pause.announcement = announced
        if call_id in event.actions.requested_tool_confirmations and confirmed is not None and confirmed.given:
            text = ASKED_TWICE.format(name=response.name or "")
            self._waits[f"{call_id}!again"] = unanswered(event, call_id, "second approval", text)
        running = self._running.get(call_id)
        if kind := awaited(event, response):
            if running is not None:
                running.awaits, running.unasked = kind, kind != response.name
        elif response.name == REQUEST_CONFIRMATION:
            if running is not None and running.awaits:
                # adk-rs has forgotten the approval once somebody has signed in: it asks again, and lists no id.
                bound = bound_to_event(running.part_id, event.id)
                asked = replace(running.request, id=bound, invocation_id=event.invocation_id)
                running.asked_anew = True
                del self._running[running.call_id]
                self._waits.pop(pause_of(running.call_id), None)
                self.requests[asked.id] = self._by_call[running.call_id] = AdkRequest(asked, running.part_id)
        else:
            self._waits.pop(pause_of(call_id), None)
            if (unread := self._unread.pop(call_id, None)) is not None and not unread.given:
                unread.given.append((Answer(unread.request.id, confirmed=True), event.at))
                running = unread
            if running is not None:
                running.after = response.response or {}, event.at
            self._running.pop(call_id, None)
            self._responses[call_id] = response.response or {}

    def _add_words(self, event: HostEvent) -> None:
        mark = (event.custom_metadata or {}).get(MARK)
        if event.text or mark is not None:
            self.words.append(AdkMessage(event.id, event.invocation_id, event.text, event.at, as_text(mark) or None))
        for response in event.responses():
            if event.invocation_id and (asked_in := self._asked_in.get(response.id or "")) is not None:
                self.origins.setdefault(event.invocation_id, asked_in)
            self._waits.pop(response.id or "", None)
            if (asks := self._answered_by(response)) is not None:
                self._add_answer(asks, response, event.at)

    def _answered_by(self, response: FunctionResponse) -> AdkRequest | None:
        """The request that an answer belongs to. To google-adk it is the last one that asked with this id. In some
        dialects a confirmation is answered under its call's id."""
        part, is_confirmation = response.id or "", response.name == REQUEST_CONFIRMATION
        if part in self._by_part and not (is_confirmation and part in self._by_call):
            return self._by_part[part]
        asks = self._by_call.get(part)
        asks = asks if asks is not None and asks.part_id == part else self.requests.get(part, asks)
        return asks if is_confirmation else None

    def _add_answer(self, asks: AdkRequest, response: FunctionResponse, at: float | None) -> None:
        try:
            answer = read_stored_answer(asks, response)
        except Invalid:
            self._unread[asks.call_id] = asks  # a correct answer may still come, unless the call's result does
            return
        if asks.ask is Ask.CONFIRMATION and asks.after is None:
            if not asks.given:
                asks.before = self._responses.get(asks.call_id)
            # Of several calls under one id, nobody knows which one the next response is about.
            self._running[asks.call_id] = asks if self._running.get(asks.call_id, asks) is asks else None
        asks.given.append((answer, at))
        asks.answered += 1
        self._answered[asks.siblings] += 1


async def read(events: Sequence[JsonObject] | None) -> SessionReading:
    """Reads the session's events, oldest first. None is a session that does not exist."""
    found = SessionReading(exists=events is not None)
    for index, raw in enumerate(events or ()):
        if index % 100 == 99:
            await asyncio.sleep(0)  # others get their turn: a server may send a million
        try:
            found.add(event_from(raw, index))
        except Invalid as error:
            found.said.append(unread(raw, index, error))
    return found.end()
