"""A foreign session, read: what was asked, what was answered, what became of it, what was said. Pure.

Whichever ADK wrote the session (Python, Go, Java, JS, adk-rs): of each event only what counts here is looked at, and an
event that can't be understood becomes a sentence for people instead of a guess. Of an answer the session says one of
four things: *absent*, no answer of anybody stands to the request; *begun*, one stands and nothing came after it, so
that the tool may have run; *passed over*, one stands and what came after it proves that the call never began;
*settled*, the agent's response to the call stands after the answer.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import count
from math import inf
from operator import itemgetter

from bot.confirmation.model import Ask, OutcomeKind
from bot.hosts.events import (
    Move,
    NodeOutput,
    asks_in_response,
    event_from,
    keeps_states,
    move_in,
    node_output,
    node_path,
    said_in,
    time_of,
    unread,
)
from bot.hosts.host import AgentMessage, HostOutcome, HostRequest, SessionSnapshot, UnansweredWait
from bot.hosts.passed_over import MOVED_ON, AnsweredRun, Moves, own_calls, why_not_begun
from bot.hosts.pauses import PauseRequest, asked_in, asked_twice, form_of, pending, read_given, stuck_in, waits_in
from runtime.adk.signing import MARK, WORKFLOW_CONFIRMATION, Announcement, announced
from runtime.confirming import Answer, Request, read_answer, requests_in
from runtime.errors import Invalid
from runtime.jsontypes import Json, JsonObject, canonical, same
from runtime.wire import REQUEST_CONFIRMATION, USER, Event, FunctionResponse

WAITS = "requires confirmation, please approve or reject"
"""Part of what every ADK answers a call with that its gate holds."""


ENDED_BY_THEIR_ANSWER = (Ask.INPUT, Ask.OPERATION, Ask.CREDENTIAL)
"""What these ask for is the answer itself: no call waits behind it."""


class RequestStatus(StrEnum):
    """What the session says about a request."""

    GONE = "gone"  # it was never asked here
    ABSENT = "absent"
    BEGUN = "begun"
    PASSED_OVER = "passed over"
    SETTLED = "settled"


@dataclass(frozen=True)
class StoredAnswer:
    """An answer that is in the session."""

    answer: Answer
    at: float | None


@dataclass(frozen=True)
class AdkRequest:
    """A request, the answers to it, and the agent's responses to its call: the last before the first answer, and the
    first after it."""

    request: Request
    call_id: str
    announcement: Announcement | None = None
    given: tuple[StoredAnswer, ...] = ()
    before: JsonObject | None = None
    after: tuple[JsonObject, float | None] | None = None
    twice: bool = False  # another call stands under the same id: nobody knows which of them an answer would run
    asked: PauseRequest | None = None  # of a question, or of a node's confirmation
    answered: int = 0  # how many answers to its part's id stand in the session, whichever event they are to
    ended_empty: bool = False  # its node ended after the answer, and returned nothing
    asked_anew: bool = False  # a later event asks under the same id: an answer would go to that one
    branch: str = ""
    siblings: str = ""  # the same for all that one agent asks in one turn, in one branch; empty: it has none
    not_begun: str | None = None  # why the call never began, although answers stand here
    in_company: bool = False  # the last answer to it came in one message with others
    place: int = 0
    by_root: bool = False  # the app's own root agent asks, which takes answers one by one if the app is resumable

    @property
    def operation(self) -> bool:
        """It has begun already, and people are asked only if a policy says so."""
        return self.ask is Ask.OPERATION

    @property
    def ask(self) -> Ask:
        return self.asked.ask if self.asked is not None else Ask.CONFIRMATION

    @property
    def standing(self) -> RequestStatus:
        if not self.given and self.not_begun is not None:
            return RequestStatus.PASSED_OVER
        if not self.given:
            return RequestStatus.GONE if self.asked_anew else RequestStatus.ABSENT
        if self.after is not None or self.ended_empty or self.ask in ENDED_BY_THEIR_ANSWER:
            return RequestStatus.SETTLED
        return RequestStatus.BEGUN if self.not_begun is None else RequestStatus.PASSED_OVER

    @property
    def open(self) -> bool:
        """Whether an answer may be sent: none was, or it was ignored because others came with it."""
        return self.standing is RequestStatus.ABSENT or (self.standing is RequestStatus.PASSED_OVER and self.in_company)

    @property
    def left_behind(self) -> bool:
        """Nobody answered it, and the agent went on: no answer makes its call run any more."""
        return not self.given and self.standing is RequestStatus.PASSED_OVER

    @property
    def overtaken(self) -> bool:
        """A question that nobody answered before the same was asked again."""
        return self.asked_anew and not self.given and self.ask is Ask.INPUT

    def turn(self, *, resumable: bool) -> str:
        """The same for what has to be answered in one message."""
        if self.siblings and resumable and self.by_root:
            return canonical([self.siblings, self.request.id])
        return self.siblings

    def is_about(self, other: AdkRequest) -> bool:
        """Whether both ask about exactly the same call."""
        return same(self.call, other.call)

    @property
    def call(self) -> list[Json]:
        return [self.call_id, self.request.call.name, self.request.call.arguments]

    @property
    def held_by_gate(self) -> bool:
        """Whether ADK holds the call. Otherwise the tool itself asked, and runs to get the answer."""
        if self.announcement is not None:
            return self.announcement.gated
        return self.before is not None and WAITS in str(self.before.get("error"))


@dataclass(frozen=True)
class AdkMessage:
    """What was said to the agent. `mark`: if the server kept it. `at`: when, if the server says. `replied`: the agent
    said or did something then."""

    event: str
    text: str
    at: float | None
    mark: str | None
    replied: bool = False


@dataclass(frozen=True)
class SessionReading:
    askings: tuple[AdkRequest, ...] = ()
    words: tuple[AdkMessage, ...] = ()
    said: tuple[AgentMessage, ...] = ()
    resumable: bool = False  # the app keeps its agents' states in the session
    exists: bool = True
    waits: tuple[UnansweredWait, ...] = ()

    def asking(self, request_id: str) -> AdkRequest | None:
        return next((one for one in self.askings if one.request.id == request_id), None)

    def standing(self, request_id: str) -> RequestStatus:
        asking = self.asking(request_id)
        return RequestStatus.GONE if asking is None else asking.standing

    def heard(self, mark: str, text: str, since: float | None) -> AdkMessage | None:
        """These words, if they are here: by their mark, or else by their text, not said before `since`."""
        for words in reversed(self.words):
            if words.mark == mark:
                return words
            if words.mark is None and since is not None and words.text == text and self._since(words, since):
                return words
        return None

    def _since(self, words: AdkMessage, since: float) -> bool:
        """If a server gives no times, only the last words can be those just sent. 0 and earlier mean any time."""
        if since <= 0:
            return True
        return words is self.words[-1] if words.at is None else words.at >= since

    def look(
        self, running: Mapping[str, int], schemas: Mapping[str, JsonObject], *, resumable: bool = False
    ) -> SessionSnapshot:
        """`running`: the requests whose answers are being sent, and how many were here before them."""
        requests = (
            replace(_request(one, schemas), siblings=one.turn(resumable=resumable))
            for one in self.askings
            if one.open and not one.operation
        )
        return SessionSnapshot(
            requests=tuple(requests),
            outcomes=tuple(outcome for one in self.askings if (outcome := _outcome(one, running)) is not None),
            said=self.said,
            waits=(
                *self.waits,
                *(
                    pending(a.asked, _plain_request(a), a.before)
                    for a in self.askings
                    if a.operation and a.open and a.asked
                ),
            ),
        )


@dataclass
class _Gathered:
    """What is in the session, each part with its position. A session may hold a hundred thousand of each."""

    askings: dict[str, AdkRequest] = field(default_factory=dict)
    by_call: dict[str, str] = field(default_factory=dict)  # the last request of each call
    given: dict[str, list[tuple[int, StoredAnswer]]] = field(default_factory=dict)
    responses: dict[str, list[tuple[int, JsonObject, float | None]]] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)  # the names of calls, by their ids
    latest: dict[str, str] = field(default_factory=dict)  # the last question, or node's confirmation, of each part's id
    answered: Counter[str] = field(default_factory=Counter)  # by the part's id
    ended_empty: set[str] = field(default_factory=set)
    waits: dict[str, UnansweredWait] = field(default_factory=dict)
    words: list[AdkMessage] = field(default_factory=list)
    said: list[AgentMessage] = field(default_factory=list)
    resumable: bool = False
    places: Iterator[int] = field(default_factory=count)
    long_running: set[str] = field(default_factory=set)  # calls that may have begun without a result
    run: AnsweredRun | None = None  # that the last message began, if it was one with answers
    runs: dict[str, list[AnsweredRun]] = field(default_factory=dict)  # that followed the answers to each request
    moves: Moves = field(default_factory=Moves)
    nodes: dict[str, str] = field(default_factory=dict)  # the path of the agent that made a call, by the call's id
    failures: Failures = field(default_factory=dict)

    def completed(self, asking: AdkRequest) -> AdkRequest:
        """With the answers to it, and the responses before and after the first of them."""
        runs = self.runs.get(asking.request.id, [])
        node = self.nodes.get(asking.call_id, "")
        not_begun = why_not_begun(asking.request, asking.branch, node, runs)
        if not_begun is None and asking.asked is None:
            until = runs[0].until if runs else inf
            passed = self.moves.passed(asking.request, asking.branch, asking.place, until)
            not_begun = MOVED_ON if passed and len(runs) < 2 else None
        given = self.given.get(asking.request.id, [])
        part_id = asking.asked.part_id if asking.asked is not None and asking.operation else None
        responses = self.responses.get(part_id or asking.call_id, [])
        first = bisect_left(responses, given[0][0], key=itemgetter(0)) if given else len(responses)
        part = asking.asked.part_id if asking.asked is not None else None
        if part is not None and first < len(responses):
            first = len(responses) - 1  # a node may fail and be tried again
        return replace(
            asking,
            not_begun=None if asking.call_id in self.long_running or part is not None else not_begun,
            in_company=bool(runs) and len(runs[-1].answers) > 1 and not_begun != MOVED_ON,
            by_root=bool(node) and "/" not in node and not asking.branch,
            answered=len(given) if part is None else self.answered[part],
            ended_empty=asking.request.id in self.ended_empty,
            asked_anew=part is not None and self.latest[part] != asking.request.id,
            given=tuple(one for _, one in given),
            before=responses[first - 1][1] if first else None,
            after=responses[first][1:] if first < len(responses) else None,
        )


Failures = Mapping[str, Mapping[int, str]]
"""What runs failed at by what their servers said meanwhile: by the request, and by how many answers it had before."""


def read(events: Sequence[JsonObject] | None, failures: Failures | None = None) -> SessionReading:
    """Reads the session's events as its server gives them, oldest first. None for a session that does not exist."""
    if events is None:
        return SessionReading(exists=False)
    gathered = _Gathered(failures=failures or {})
    for index, raw in enumerate(events):
        try:
            event = event_from(raw, index)
            _gather(gathered, event, node_path(raw), node_output(raw))
            _follow_moves(gathered, raw, event)
            _hear_second_asks(gathered, raw, event)
        except Invalid as error:
            gathered.said.append(unread(raw, index, error))
        gathered.resumable = gathered.resumable or keeps_states(raw)
    # In the dialect of adk-rs a call that waits for its confirmation stands as long running.
    askings = tuple(
        gathered.completed(one)
        for one in gathered.askings.values()
        if not (one.operation and one.asked is not None and one.asked.part_id in gathered.by_call)
    )
    waits = tuple(one for call, one in gathered.waits.items() if call not in gathered.by_call)
    return SessionReading(askings, tuple(gathered.words), tuple(gathered.said), gathered.resumable, True, waits)


def _hear_second_asks(gathered: _Gathered, raw: JsonObject, event: Event) -> None:
    """A tool that has its answer and asks again is heard by nobody."""
    asks = asks_in_response(raw) if event.author != USER else frozenset[str]()
    for response in event.responses() if asks else ():
        request = gathered.by_call.get(response.id or "")
        if response.id in asks and request in gathered.given:
            gathered.waits[f"{response.id}!again"] = asked_twice(event, response.id, response.name or "")


def _follow_moves(gathered: _Gathered, raw: JsonObject, event: Event) -> None:
    move = move_in(raw)
    if move is None or event.author == USER:
        return
    if move is Move.ENDED and gathered.run is not None:
        gathered.run.end(event)
    if not node_path(raw):
        gathered.moves.note(next(gathered.places), event, move)


def _gather(gathered: _Gathered, event: Event, node: str, output: NodeOutput | None) -> None:
    if event.partial:
        return
    if event.author == USER:
        _hear(gathered, event)
        return
    if gathered.words:
        gathered.words[-1] = replace(gathered.words[-1], replied=True)
    if gathered.run is not None:
        gathered.run.follow(event, node)
    branch, invocation = event.branch or "", event.invocation_id
    siblings = canonical([invocation, branch, event.author]) if invocation else ""
    gathered.long_running |= {call.id or "" for call in own_calls(event)} & {*(event.long_running_tool_ids or ())}
    for request in requests_in(event):
        call_id = request.call.id or request.id
        announcement = announced(event.custom_metadata, call_id)
        place = next(gathered.places)
        asking = AdkRequest(request, call_id, announcement, branch=branch, siblings=siblings, place=place)
        first = gathered.askings.setdefault(request.id, asking)
        if first is asking:
            gathered.by_call[call_id] = request.id
        elif not first.is_about(asking):
            gathered.askings[request.id] = replace(first, twice=True)
    gathered.tools.update((call.id, call.name or "") for call in own_calls(event) if call.id)
    gathered.nodes.update((call.id, node) for call in own_calls(event) if call.id and node)
    for asked in asked_in(event, node, gathered.tools):
        gathered.askings[asked.request.id] = AdkRequest(
            asked.request,
            asked.request.id,
            announced(event.custom_metadata, asked.part_id),
            asked=asked,
        )
        gathered.latest[asked.part_id] = asked.request.id
    gathered.waits.update((*waits_in(event), *stuck_in(event)))
    if output is not None:
        _came_to(gathered, event, output)
    for response in event.responses():
        if response.name != REQUEST_CONFIRMATION:
            kept = gathered.responses.setdefault(response.id or "", [])
            kept.append((next(gathered.places), response.response or {}, time_of(event)))
    said = said_in(event)
    if said is not None:
        gathered.said.append(said)


def _came_to(gathered: _Gathered, event: Event, output: NodeOutput) -> None:
    """A node's output is the result of the call that was confirmed for it. A workflow's is what it says in the end."""
    request = gathered.latest.get(f"{WORKFLOW_CONFIRMATION}{output.path}")
    if request is not None and output.nothing:
        if request in gathered.given:
            gathered.ended_empty.add(request)
    elif request is not None:
        result: JsonObject = output.value if isinstance(output.value, dict) else {"result": output.value}
        kept = gathered.responses.setdefault(request, [])
        kept.append((next(gathered.places), result, time_of(event)))
    if output.whole and isinstance(output.value, str) and output.value.strip() and not event.text.strip():
        said = AgentMessage(event=event.id, author=event.author, text=output.value, invocation_id=event.invocation_id)
        if not any(one.text == said.text and one.invocation_id == said.invocation_id for one in gathered.said):
            gathered.said.append(said)


def _hear(gathered: _Gathered, event: Event) -> None:
    if gathered.run is not None:
        gathered.run.until = next(gathered.places)
    gathered.run = AnsweredRun(event.invocation_id, event.branch or "")
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


def _is_confirmation(gathered: _Gathered, response: FunctionResponse) -> bool:
    """Whether it is of a call that waits for its confirmation under the call's own id."""
    return response.name == REQUEST_CONFIRMATION and response.id in gathered.by_call


def _answer_to_part(gathered: _Gathered, part_id: str, response: FunctionResponse, at: float | None) -> None:
    """google-adk answers the last event that asked under this id."""
    asked = gathered.askings[gathered.latest[part_id]].asked
    assert asked is not None
    gathered.answered[part_id] += 1
    given = StoredAnswer(read_given(asked, response), at)
    gathered.given.setdefault(asked.request.id, []).append((next(gathered.places), given))


def _answer(gathered: _Gathered, response: FunctionResponse, at: float | None) -> None:
    try:
        answer = read_answer(response)
    except Invalid:
        return  # it settles nothing on any server: a right one still counts
    asked = answer.id if answer.id in gathered.askings else gathered.by_call.get(answer.id)  # some take the call's id
    if asked is not None:
        gathered.given.setdefault(asked, []).append((next(gathered.places), StoredAnswer(answer, at)))
        _began_run(gathered, gathered.askings[asked])


def _began_run(gathered: _Gathered, asking: AdkRequest) -> None:
    run, before = gathered.run, gathered.runs.setdefault(asking.request.id, [])
    assert run is not None
    run.answers.append((asking.call_id, asking.request.call.name or ""))
    heard = gathered.failures.get(asking.request.id, {}).get(len(before))
    run.failures += [heard] if heard is not None else []
    before.append(run)


def _request(asking: AdkRequest, schemas: Mapping[str, JsonObject]) -> HostRequest:
    request, announcement, asked = asking.request, asking.announcement, asking.asked
    tool = request.call.name or ""
    if asked is not None and asked.ask is Ask.CREDENTIAL:
        return replace(_plain_request(asking), payload=request.payload, can_edit=False)
    if asked is not None and asked.ask is Ask.INPUT:
        schema, payload = form_of(asked.schema)
        return replace(_plain_request(asking), wants_payload=True, payload=payload, payload_schema=schema)
    payload_schema = announcement.payload_schema if announcement else None
    return replace(
        _plain_request(asking),
        wants_payload=request.payload is not None or payload_schema is not None,
        payload=request.payload,
        payload_schema=payload_schema,
        tool_schema=(announcement.schema if announcement else None) or schemas.get(tool),
        can_edit=announcement is not None and announcement.edits,
    )


def _plain_request(asking: AdkRequest) -> HostRequest:
    request = asking.request
    return HostRequest(
        request_id=request.id,
        call_id=asking.call_id,
        tool=request.call.name or "",
        arguments=request.call.arguments,
        agent=request.author,
        invocation_id=request.invocation_id,
        hint=request.hint,
        ask=asking.ask,
        siblings=asking.siblings,
    )


def _outcome(asking: AdkRequest, running: Mapping[str, int]) -> HostOutcome | None:
    if asking.left_behind:
        return HostOutcome(
            request_id=asking.request.id, became=OutcomeKind.REFUSED, text=asking.not_begun, left_behind=True
        )
    if not asking.given:
        return HostOutcome(request_id=asking.request.id, became=None, asked_anew=asking.asked_anew)
    first = asking.given[0]
    confirmed: bool | None = first.answer.confirmed
    if asking.ask in ENDED_BY_THEIR_ANSWER:
        became = OutcomeKind.DONE if confirmed else OutcomeKind.REFUSED
        return HostOutcome(request_id=asking.request.id, became=became, confirmed=confirmed)
    if asking.after is None and asking.ended_empty and asking.request.id not in running:
        became = OutcomeKind.DONE if confirmed else OutcomeKind.REFUSED
        return HostOutcome(request_id=asking.request.id, became=became, confirmed=confirmed, begun_at=first.at)
    if asking.after is None:
        on_its_way = running.get(asking.request.id) == len(asking.given)
        return None if on_its_way else _begun(asking, confirmed, running)
    result = asking.after[0]
    failed = has_failed(result)
    if not confirmed and asking.held_by_gate and not failed:
        became, confirmed = OutcomeKind.DONE, None  # it ran, whatever was answered
    elif not confirmed:
        became = OutcomeKind.REFUSED
    else:
        became = OutcomeKind.FAILED if failed else OutcomeKind.DONE
    return HostOutcome(
        request_id=asking.request.id,
        became=became,
        confirmed=confirmed,
        result=result,
        text=text_of(result),
        begun_at=first.at,
    )


def _begun(asking: AdkRequest, confirmed: bool | None, running: Mapping[str, int]) -> HostOutcome:
    on_its_way = running.get(asking.request.id)
    text, begun_at = None, asking.given[-1].at
    if on_its_way is not None and len(asking.given) > on_its_way and confirmed:
        became = OutcomeKind.RUNNING
    elif asking.open:
        return HostOutcome(request_id=asking.request.id, became=None)
    elif not confirmed:
        became = OutcomeKind.REFUSED
    elif asking.standing is RequestStatus.PASSED_OVER:
        became, text, begun_at = OutcomeKind.REFUSED, asking.not_begun, None
    else:
        became = OutcomeKind.UNKNOWN
    return HostOutcome(request_id=asking.request.id, became=became, confirmed=confirmed, text=text, begun_at=begun_at)


def has_failed(result: JsonObject) -> bool:
    """In the form of Python, Go and JavaScript, or in Java's."""
    return "error" in result or (result.get("status") == "error" and "message" in result)


def text_of(result: JsonObject) -> str:
    """A result as text."""
    error: Json = result.get("error")
    return error if isinstance(error, str) and len(result) == 1 else canonical(result)
