"""What an agent's model sees of a session, for any order of events."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.runtime.calls.model_history import ModelHistory
from adk_confirm.runtime.calls.turn import PLACEHOLDER
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.wire import (
    REQUEST_CONFIRMATION,
    ConfirmationRequest,
    Content,
    Dialect,
    Event,
    EventActions,
    FunctionCall,
    FunctionResponse,
    Part,
    ToolConfirmation,
)
from tests.support.dialogue import shown

OWN, OTHER = "own", "other"


@dataclass
class Conversation:
    """Events as the runner tells them, in an order that hypothesis chooses."""

    dialect: Dialect = "call"
    events: list[Event] = field(default_factory=list)
    waiting: dict[str, FunctionCall] = field(default_factory=dict)  # calls without their result, by id
    calls: int = 0
    words: int = 0

    def say(self, author: str, *, partial: bool = False) -> None:
        self.words += 1
        role = "user" if author == "user" else "model"
        content = Content.of_text(f"words {self.words}", role)
        self.events.append(Event(author=author, content=content, partial=partial or None))

    def call(self, author: str, number: int, *, with_words: bool) -> None:
        made = [FunctionCall(id=f"c{self.calls + n}", name="tool", args={"n": self.calls + n}) for n in range(number)]
        self.calls += number
        if author == OWN:
            self.waiting.update({str(one.id): one for one in made})
        parts = [Part(text="I call")] if with_words else []
        parts += [Part(function_call=one) for one in made]
        self.events.append(Event(author=author, content=Content(role="model", parts=parts)))

    def hold(self, ids: list[str]) -> None:
        asked = {one: ToolConfirmation(hint="Sure?") for one in ids}
        parts = [
            ConfirmationRequest(original_function_call=self.waiting[one], tool_confirmation=asked[one]).as_part(
                f"r-{one}" if self.dialect == "call" else one, self.dialect
            )
            for one in ids
        ]
        actions = EventActions(requested_tool_confirmations=asked)
        if self.dialect == "response":
            self.events.append(Event(author=OWN, content=Content(role="user", parts=parts), actions=actions))
            return
        self.events.append(Event(author=OWN, content=Content(role="model", parts=parts)))
        responses = [_response(one, PLACEHOLDER) for one in ids]
        self.events.append(Event(author=OWN, content=Content(role="user", parts=responses), actions=actions))

    def answer(self, one: str) -> None:
        part = FunctionResponse(id=f"r-{one}", name=REQUEST_CONFIRMATION, response={"confirmed": True})
        self.events.append(Event(author="user", content=Content(role="user", parts=[Part(function_response=part)])))

    def settle(self, ids: list[str]) -> None:
        for one in ids:
            del self.waiting[one]
        parts = [_response(one, {"result": one}) for one in ids]
        self.events.append(Event(author=OWN, content=Content(role="user", parts=parts)))


def _response(one: str, response: JsonObject) -> Part:
    return Part(function_response=FunctionResponse(id=one, name="tool", response=response))


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    talk = Conversation(draw(st.sampled_from(["call", "response"])))
    talk.say("user")
    for _ in range(draw(st.integers(0, 25))):
        some = sorted(draw(st.sets(st.sampled_from(sorted(talk.waiting))))) if talk.waiting else []
        match draw(st.sampled_from(["user", "own", "other", "partial", "failure", "call", "hold", "answer", "settle"])):
            case "user" | "own" | "other" as author:
                talk.say(author)
            case "partial":
                talk.say(OWN, partial=True)
            case "failure":
                talk.events.append(Event(author=OWN, error_code="MODEL_TIMEOUT", error_message="Nothing came."))
            case "call":
                talk.call(draw(st.sampled_from([OWN, OTHER])), draw(st.integers(1, 3)), with_words=draw(st.booleans()))
            case "hold" if some:
                talk.hold(some)
            case "answer" if some:
                talk.answer(some[0])
            case "settle" if some:
                talk.settle(some)
    return talk.events


def seen(events: list[Event], agent: str = OWN) -> ModelHistory:
    view = ModelHistory(agent)
    for event in events:
        view.add(event)
    return view


@given(conversations())
def test_requests_and_answers_are_never_shown(events: list[Event]) -> None:
    for agent in (OWN, OTHER):
        for content in seen(events, agent).contents:
            assert content.parts
            assert REQUEST_CONFIRMATION not in content.to_json()


@given(conversations())
def test_calls_are_followed_at_once_by_exactly_their_responses(events: list[Event]) -> None:
    view = ModelHistory(OWN)
    for event in events:
        view.add(event)
        contents = view.contents
        for place, content in enumerate(contents):
            calls = [(one.id, one.name) for one in content.calls()]
            before = list(contents[place - 1].calls()) if place else []
            assert bool(list(content.responses())) == bool(before)
            if calls:
                assert content.role == "model"
                assert contents[place + 1].role == "user"
                responses = [(one.id, one.name) for one in contents[place + 1].responses()]
                assert responses == calls
                assert len(contents[place + 1].parts or ()) == len(calls)


@given(conversations())
def test_each_thing_is_shown_once(events: list[Event]) -> None:
    view = seen(events)
    made = [one.id for event in events if event.author == OWN for one in event.calls() if one.name == "tool"]
    calls = [one.id for content in view.contents for one in content.calls()]
    assert sorted(map(str, calls)) == sorted(map(str, made))
    texts = " ".join(shown(view.contents))
    for event in events:
        for part in (event.content.parts if event.content else None) or ():
            if part.text and part.text.startswith("words"):
                assert texts.split().count(part.text.split()[1]) >= (0 if event.partial else 1)
                assert (f"{part.text} " in f"{texts} ") == (not event.partial)


@given(conversations())
def test_each_call_shows_the_last_response_to_it(events: list[Event]) -> None:
    last: dict[str, object] = {}
    for event in events:
        if event.author == OWN:
            for one in event.responses():
                last[str(one.id)] = PLACEHOLDER if one.name == REQUEST_CONFIRMATION else one.response
    for content in seen(events).contents:
        for one in content.responses():
            assert one.response == last.get(str(one.id), {"error": "No response to this call is recorded."})


@given(conversations())
def test_a_view_grown_event_by_event_is_the_one_read_from_the_store(events: list[Event]) -> None:
    stored = [Event.model_validate_json(event.to_json()) for event in events]
    for agent in (OWN, OTHER):
        grown = ModelHistory(agent)
        for number, event in enumerate(events, 1):
            grown.add(event)
            assert shown(grown.contents) == shown(seen(stored[:number], agent).contents)


@given(conversations())
def test_no_call_follows_the_models_own_words_when_it_came_late(events: list[Event]) -> None:
    """Gemini wants a function call to come right after a user's turn or a function's response."""
    view = ModelHistory(OWN)
    for event in events:
        places = {id(content): place for place, content in enumerate(view.contents)}
        view.add(event)
        for place, content in enumerate(view.contents):
            if any(content.calls()) and places.get(id(content), place) < place:
                assert view.contents[place - 1].role == "user"


def test_thoughts_of_another_agent_are_its_own() -> None:
    thought = Content(role="model", parts=[Part(text="secret", thought=True)])
    assert seen([Event(author=OTHER, content=thought)]).contents == []
    assert len(seen([Event(author=OWN, content=thought)]).contents) == 1


def test_a_response_to_nothing_is_not_shown() -> None:
    orphan = Content(role="user", parts=[_response("nobody", {"result": 1})])
    assert seen([Event(author=OWN, content=orphan)]).contents == []
