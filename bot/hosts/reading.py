"""Reads a session of another server: requests, answers, outcomes and messages. Pure.

The session may come from any ADK (Python, Go, Java, JS, adk-rs). Only the parts that matter here are read, and an event
that can't be understood becomes a sentence for people instead of a guess. For each request, the session shows one of
three states. *Absent*: nobody has answered it. *Begun*: there is an answer and no response of the agent to the call, so
the tool may have run. *Settled*: such a response follows the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from operator import itemgetter

from bot.confirmation.model import Ask, HostRequest, OutcomeKind
from bot.confirmation.outcome import HostOutcome
from bot.hosts.events import (
    ABORTED,
    NodeOutput,
    asks_in_response,
    event_from,
    message_in,
    node_output,
    node_path,
    time_of,
    told_as,
    unread,
)
from bot.hosts.host import AgentMessage, SessionSnapshot, UnansweredWait
from bot.hosts.pauses import (
    CHOICE_TOOL,
    OF_THE_FRAMEWORK,
    PauseRequest,
    form_of,
    other_waits_in,
    pause_requests_in,
    read_stored_answer,
    second_request_in,
    stuck_in,
    unfinished_operation,
)
from runtime.adk.signing import MARK, WORKFLOW_CONFIRMATION, Announcement, announcement_about
from runtime.adk.type_checks import misfit
from runtime.confirming import Answer, Request, read_answer, requests_in
from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, canonical, same
from runtime.wire import REQUEST_CONFIRMATION, USER, Event, FunctionResponse

WAITS = "requires confirmation, please approve or reject"
"""Part of every ADK's response to a call that waits for confirmation."""


ENDED_BY_THEIR_ANSWER = (Ask.INPUT, Ask.OPERATION)
"""Requests that are done once they are answered: no call waits for them."""


class RequestStatus(StrEnum):
    """What the session says about a request."""

    GONE = "gone"  # the session does not have the request
    ABSENT = "absent"
    BEGUN = "begun"
    SETTLED = "settled"


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that is in the session."""

    answer: Answer
    at: float | None


@dataclass(frozen=True)
class AdkRequest:
    """A request, the answers to it, and two responses to its call: the last before the first answer, and the first
    after it."""

    request: Request
    call_id: str
    announcement: Announcement | None = None
    given: tuple[StoredAnswer, ...] = ()
    before: JsonObject | None = None
    after: tuple[JsonObject, float | None] | None = None
    twice: bool = False  # another call has the same id, so it is unknown which of them an answer would run
    asked: PauseRequest | None = None  # for a question or a node's confirmation
    answered: int = 0  # how many answers to its part's id the session has, for any event
    ended_empty: bool = False  # its node ended after the answer without a result
    asked_anew: bool = False  # a later event asks with the same id and would get the answer
    siblings: str = ""  # the same for all requests of one agent in one turn and branch; may be empty

    @property
    def operation(self) -> bool:
        """It is a long-running operation that has begun. People are asked only if a policy says so."""
        return self.ask is Ask.OPERATION

    @property
    def ask(self) -> Ask:
        return self.asked.ask if self.asked is not None else Ask.CONFIRMATION

    @property
    def status(self) -> RequestStatus:
        if not self.given:
            return RequestStatus.GONE if self.asked_anew else RequestStatus.ABSENT
        if self.after is not None or self.ended_empty or self.ask in ENDED_BY_THEIR_ANSWER:
            return RequestStatus.SETTLED
        return RequestStatus.BEGUN

    @property
    def open(self) -> bool:
        """Whether an answer may be sent."""
        return self.status is RequestStatus.ABSENT

    @property
    def overtaken(self) -> bool:
        """Whether the same question was asked again before anybody answered."""
        return self.asked_anew and not self.given and self.ask is Ask.INPUT

    def is_about(self, other: AdkRequest) -> bool:
        """Whether both requests are about exactly the same call."""
        return same(self.call, other.call)

    @property
    def call(self) -> list[Json]:
        return [self.call_id, self.request.call.name, {**self.request.call.arguments, **self.defaults}]

    @property
    def defaults(self) -> JsonObject:
        """What the tool gets beside what the model gave, which may complete an argument. Our runtime says it in the
        request, the plugin next to it."""
        return self.request.defaults or (self.announcement.defaults if self.announcement is not None else {})

    @property
    def held_by_gate(self) -> bool:
        """Whether ADK holds the call. Otherwise the tool itself asked, and must run to get the answer."""
        if self.announcement is not None:
            return self.announcement.gated
        return self.before is not None and WAITS in str(self.before.get("error"))


@dataclass(frozen=True)
class AdkMessage:
    """A message to the agent. `mark`: if the server kept it. `at`: when, if the server says. `replied`: the agent said
    or did something afterwards."""

    event: str
    text: str
    at: float | None
    mark: str | None
    replied: bool = False


@dataclass(frozen=True)
class SessionReading:
    adk_requests: tuple[AdkRequest, ...] = ()
    words: tuple[AdkMessage, ...] = ()
    said: tuple[AgentMessage, ...] = ()
    exists: bool = True
    waits: tuple[UnansweredWait, ...] = ()

    def adk_request(self, request_id: str) -> AdkRequest | None:
        return next((one for one in self.adk_requests if one.request.id == request_id), None)

    def status(self, request_id: str) -> RequestStatus:
        adk_request = self.adk_request(request_id)
        return RequestStatus.GONE if adk_request is None else adk_request.status

    def heard(self, mark: str, text: str, since: float | None) -> AdkMessage | None:
        """Finds a message in the session: by its mark, or by its text. Ignores messages from before `since`."""
        for words in reversed(self.words):
            if words.mark == mark:
                return words
            if words.mark is None and since is not None and words.text == text and self._sent_since(words, since):
                return words
        return None

    def _sent_since(self, words: AdkMessage, since: float) -> bool:
        """If a server gives no times, only the last message can be the one just sent. 0 or less means any time."""
        if since <= 0:
            return True
        return words is self.words[-1] if words.at is None else words.at >= since

    def look(self, running: Mapping[str, int], schemas: Mapping[str, JsonObject]) -> SessionSnapshot:
        """The session for the bot. `running`: the requests whose answers are being sent, and how many answers there
        were before."""
        return SessionSnapshot(
            requests=tuple(_request(one, schemas) for one in self.adk_requests if one.open and not one.operation),
            outcomes={
                one.request.id: outcome for one in self.adk_requests if (outcome := _outcome(one, running)) is not None
            },
            said=self.said,
            waits=(
                *self.waits,
                *(
                    unfinished_operation(a.asked, _request(a, schemas), a.before)
                    for a in self.adk_requests
                    if a.operation and a.open and a.asked and not (a.before and has_failed(a.before))
                ),
            ),
        )


@dataclass
class _SessionParts:
    """The content of the session, each part with its position. A session may have a hundred thousand of each."""

    adk_requests: dict[str, AdkRequest] = field(default_factory=dict)
    by_call: dict[str, str] = field(default_factory=dict)  # the last request of each call
    given: dict[str, list[tuple[int, StoredAnswer]]] = field(default_factory=dict)
    responses: dict[str, list[tuple[int, JsonObject, float | None]]] = field(default_factory=dict)
    latest: dict[str, str] = field(default_factory=dict)  # part id: the last question or node's confirmation
    answered: Counter[str] = field(default_factory=Counter)  # by the part's id
    ended_empty: set[str] = field(default_factory=set)
    waits: dict[str, UnansweredWait] = field(default_factory=dict)
    words: list[AdkMessage] = field(default_factory=list)
    said: list[AgentMessage] = field(default_factory=list)
    places: Iterator[int] = field(default_factory=count)

    def completed(self, adk_request: AdkRequest) -> AdkRequest:
        """The request with its answers, and the responses before and after the first answer."""
        given = self.given.get(adk_request.request.id, [])
        part_id = adk_request.asked.part_id if adk_request.asked is not None and adk_request.operation else None
        responses = self.responses.get(part_id or adk_request.call_id, [])
        first = bisect_left(responses, given[0][0], key=itemgetter(0)) if given else len(responses)
        part = adk_request.asked.part_id if adk_request.asked is not None else None
        if part is not None and first < len(responses):
            first = len(responses) - 1  # a node that failed may be tried again
        return replace(
            adk_request,
            answered=len(given) if part is None else self.answered[part],
            ended_empty=adk_request.request.id in self.ended_empty,
            asked_anew=part is not None and self.latest.get(part) != adk_request.request.id,
            given=tuple(one for _, one in given),
            before=responses[first - 1][1] if first else None,
            after=responses[first][1:] if first < len(responses) else None,
        )


def read(events: Sequence[JsonObject] | None) -> SessionReading:
    """Reads the session's events, oldest first. Returns None for a session that does not exist."""
    if events is None:
        return SessionReading(exists=False)
    gathered = _SessionParts()
    for index, raw in enumerate(events):
        try:
            event = event_from(raw, index)
            _gather(gathered, event, node_path(raw), node_output(raw))
            _find_second_asks(gathered, raw, event)
        except Invalid as error:
            gathered.said.append(unread(raw, index, error))
    # adk-rs marks a call that waits for confirmation as long running.
    adk_requests = tuple(
        gathered.completed(one)
        for one in gathered.adk_requests.values()
        if not (one.operation and one.asked is not None and one.asked.part_id in gathered.by_call)
    )
    waits = tuple(one for call, one in gathered.waits.items() if call not in gathered.by_call)
    return SessionReading(adk_requests, tuple(gathered.words), tuple(gathered.said), True, waits)


def _find_second_asks(gathered: _SessionParts, raw: JsonObject, event: Event) -> None:
    """Finds requests of tools that were answered and asked again: nobody can answer these."""
    asks = asks_in_response(raw) if event.author != USER else frozenset[str]()
    for response in event.responses() if asks else ():
        request = gathered.by_call.get(response.id or "")
        if response.id in asks and request in gathered.given:
            gathered.waits[f"{response.id}!again"] = second_request_in(event, response.id, response.name or "")


def _gather(gathered: _SessionParts, event: Event, node: str, output: NodeOutput | None) -> None:
    if event.partial:
        return
    if event.author == USER:
        _add_message(gathered, event)
        return
    if event.error_code == ABORTED:
        return
    if gathered.words:
        gathered.words[-1] = replace(gathered.words[-1], replied=True)
    _gather_requests(gathered, event, node)
    gathered.waits.update((*other_waits_in(event), *stuck_in(event)))
    if output is not None:
        _add_output(gathered, event, output)
    for response in event.responses():
        if (response.name or "").startswith(OF_THE_FRAMEWORK) or response.name == CHOICE_TOOL:
            _answered_by_agent(gathered, response.id or "")
        if response.name != REQUEST_CONFIRMATION:
            kept = gathered.responses.setdefault(response.id or "", [])
            kept.append((next(gathered.places), response.response or {}, time_of(event)))
        announced = announcement_about(event.custom_metadata, response.id or "")
        if announced is not None and (begun := gathered.latest.get(response.id or "")) in gathered.adk_requests:
            gathered.adk_requests[begun] = replace(gathered.adk_requests[begun], announcement=announced)
    said = message_in(event)
    if said is not None:
        gathered.said.append(said)


def _answered_by_agent(gathered: _SessionParts, part_id: str) -> None:
    """Drops a question that the agent answered by itself, such as in a callback: it waits for nobody."""
    gathered.waits.pop(part_id, None)
    request = gathered.latest.get(part_id)
    if request is not None and request not in gathered.given:
        del gathered.latest[part_id], gathered.adk_requests[request]


def _gather_requests(gathered: _SessionParts, event: Event, node: str) -> None:
    """The confirmations that an event asks for, and the other questions to people in it."""
    invocation = event.invocation_id
    siblings = canonical([invocation, event.branch or "", event.author]) if invocation else ""
    for request in requests_in(event):
        call_id = request.call.id or request.id
        announcement = announcement_about(event.custom_metadata, call_id)
        adk_request = AdkRequest(request, call_id, announcement, siblings=siblings)
        first = gathered.adk_requests.setdefault(request.id, adk_request)
        if first is adk_request:
            gathered.by_call[call_id] = request.id
        elif not first.is_about(adk_request):
            gathered.adk_requests[request.id] = replace(first, twice=True)
    for asked in pause_requests_in(event, node):
        announcement = announcement_about(event.custom_metadata, asked.part_id)
        gathered.adk_requests[asked.request.id] = AdkRequest(asked.request, asked.request.id, announcement, asked=asked)
        gathered.latest[asked.part_id] = asked.request.id


def _add_output(gathered: _SessionParts, event: Event, output: NodeOutput) -> None:
    """A node's output is the result of the call that it was asked about. A workflow's output is its message at the
    end."""
    request = gathered.latest.get(f"{WORKFLOW_CONFIRMATION}{output.path}")
    if request is not None and output.nothing:
        if request in gathered.given:
            gathered.ended_empty.add(request)
    elif request is not None:
        result: JsonObject = output.value if isinstance(output.value, dict) else {"result": output.value}
        kept = gathered.responses.setdefault(request, [])
        kept.append((next(gathered.places), result, time_of(event)))
    if output.whole and isinstance(output.value, str) and output.value.strip() and not event.text.strip():
        said = AgentMessage(
            event=told_as(event.id), author=event.author, text=output.value, invocation_id=event.invocation_id
        )
        if not any(one.text == said.text and one.invocation_id == said.invocation_id for one in gathered.said):
            gathered.said.append(said)


def _add_message(gathered: _SessionParts, event: Event) -> None:
    mark = (event.custom_metadata or {}).get(MARK)
    if event.text or mark is not None:
        kept = mark if isinstance(mark, str) else None
        gathered.words.append(AdkMessage(event.id, event.text, time_of(event), kept))
    for response in event.responses():
        gathered.waits.pop(response.id or "", None)
        if response.id in gathered.latest and not _is_confirmation(gathered, response):
            _answer_to_part(gathered, response.id, response, time_of(event))
        elif response.name == REQUEST_CONFIRMATION:
            _answer(gathered, response, time_of(event))


def _is_confirmation(gathered: _SessionParts, response: FunctionResponse) -> bool:
    """Whether this is a call that waits for its confirmation under the call's own id."""
    return response.name == REQUEST_CONFIRMATION and response.id in gathered.by_call


def _answer_to_part(gathered: _SessionParts, part_id: str, response: FunctionResponse, at: float | None) -> None:
    """The request that an answer belongs to: google-adk answers the last event that asked with this id."""
    asked = gathered.adk_requests[gathered.latest[part_id]].asked
    assert asked is not None
    gathered.answered[part_id] += 1
    given = StoredAnswer(read_stored_answer(asked, response), at)
    gathered.given.setdefault(asked.request.id, []).append((next(gathered.places), given))


def _answer(gathered: _SessionParts, response: FunctionResponse, at: float | None) -> None:
    try:
        answer = read_answer(response)
    except Invalid:
        return  # no server accepts it, and a correct answer is still possible
    asked = (
        answer.id if answer.id in gathered.adk_requests else gathered.by_call.get(answer.id)
    )  # for some, the call's id
    if asked is not None:
        gathered.given.setdefault(asked, []).append((next(gathered.places), StoredAnswer(answer, at)))


def _request(adk_request: AdkRequest, schemas: Mapping[str, JsonObject]) -> HostRequest:
    request, announcement, asked = adk_request.request, adk_request.announcement, adk_request.asked
    tool = request.call.name or ""
    if asked is not None and asked.ask is Ask.INPUT:
        schema, payload = form_of(asked.schema)
        return replace(_plain_request(adk_request), wants_payload=True, payload=payload, payload_schema=schema)
    payload_schema = announcement.payload_schema if announcement else None
    declared = schemas.get(tool)
    foreign = announcement is None or not announcement.bound
    return replace(
        _plain_request(adk_request),
        title=announcement.title if announcement else None,
        misfit=_misfit(declared, request.call.arguments) if foreign and declared else "",
        unbound=foreign and not declared,
        wants_payload=request.payload is not None or payload_schema is not None,
        payload=request.payload,
        payload_schema=payload_schema,
        tool_schema=(announcement.schema if announcement else None) or declared,
        can_edit=announcement is not None and announcement.edits,
    )


def _misfit(schema: JsonObject, arguments: JsonObject) -> str:
    try:
        return misfit(schema, arguments)
    except Invalid as error:
        return str(error)


def _plain_request(adk_request: AdkRequest) -> HostRequest:
    request = adk_request.request
    return HostRequest(
        request_id=request.id,
        call_id=adk_request.call_id,
        tool=request.call.name or "",
        arguments={**request.call.arguments, **adk_request.defaults},
        defaults=tuple(name for name in adk_request.defaults if name not in request.call.arguments),
        agent=request.author,
        invocation_id=request.invocation_id,
        hint=request.hint,
        ask=adk_request.ask,
        siblings=adk_request.siblings,
    )


def _outcome(adk_request: AdkRequest, running: Mapping[str, int]) -> HostOutcome | None:
    if not adk_request.given:
        return HostOutcome(became=None, asked_anew=adk_request.asked_anew)
    first = adk_request.given[0]
    confirmed: bool | None = first.answer.confirmed
    if adk_request.ask in ENDED_BY_THEIR_ANSWER:
        became = OutcomeKind.DONE if confirmed else OutcomeKind.REFUSED
        return HostOutcome(became=became, confirmed=confirmed)
    if adk_request.after is None and adk_request.ended_empty and adk_request.request.id not in running:
        became = OutcomeKind.DONE if confirmed else OutcomeKind.REFUSED
        return HostOutcome(became=became, confirmed=confirmed, begun_at=first.at)
    if adk_request.after is None:
        on_its_way = running.get(adk_request.request.id) == len(adk_request.given)
        return None if on_its_way else _begun_outcome(adk_request, confirmed, running)
    result = adk_request.after[0]
    failed = has_failed(result)
    if not confirmed and adk_request.held_by_gate and not failed:
        became, confirmed = OutcomeKind.DONE, None  # it ran, whatever the answer was
    elif not confirmed:
        became = OutcomeKind.REFUSED
    else:
        became = OutcomeKind.FAILED if failed else OutcomeKind.DONE
    return HostOutcome(became=became, confirmed=confirmed, text=text_of(result), begun_at=first.at)


def _begun_outcome(adk_request: AdkRequest, confirmed: bool | None, running: Mapping[str, int]) -> HostOutcome:
    on_its_way = running.get(adk_request.request.id)
    if not confirmed:
        became = OutcomeKind.REFUSED
    elif on_its_way is not None and len(adk_request.given) > on_its_way:
        became = OutcomeKind.RUNNING
    else:
        became = OutcomeKind.UNKNOWN
    return HostOutcome(became=became, confirmed=confirmed, begun_at=adk_request.given[-1].at)


def has_failed(result: JsonObject) -> bool:
    """Whether a response is an error, in the form of Python, Go and JavaScript, or Java."""
    return "error" in result or (result.get("status") == "error" and "message" in result)


def text_of(result: JsonObject) -> str:
    """A result as text."""
    error: Json = result.get("error")
    return error if isinstance(error, str) and len(result) == 1 else canonical(result)
