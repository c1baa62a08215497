"""Sessions as each ADK writes them, and what the bot reads from them."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm.bot.confirmation.confirmation import Ask, HostRequest, OutcomeKind
from adk_confirm.bot.confirmation.outcome import kind_of
from adk_confirm.bot.hosts import session_reading
from adk_confirm.bot.hosts.asked import RequestStatus
from adk_confirm.bot.hosts.host import ServerInfo, SessionSnapshot
from adk_confirm.bot.hosts.host_events import event_from
from adk_confirm.bot.hosts.session_reading import SessionReading
from adk_confirm.runtime.adk.signing import MARK, Announcement, announcement_about, announcement_metadata
from adk_confirm.runtime.calls.call import CallState
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import Json, JsonObject
from tests.support.foreign.visit import Became, what_became

ASK = "adk_request_confirmation"
CALL: JsonObject = {"id": "c1", "name": "reimburse", "args": {"amount": 1500}}
HINT: JsonObject = {"hint": "Approve?", "confirmed": False}
WAITS = "This tool call requires confirmation, please approve or reject."
ADK = ServerInfo(name="")


def read(events: Sequence[JsonObject] | None) -> SessionReading:
    return asyncio.run(session_reading.read(events))


def event(author: str, *parts: JsonObject, **more: Json) -> JsonObject:
    content: JsonObject = {"role": "user" if author == "user" else "model", "parts": [*parts]}
    return {"author": author, "invocationId": "e-1", "timestamp": 1795224227.5, "content": content, **more}


def called() -> JsonObject:
    return {"functionCall": CALL}


def responded(result: JsonObject, name: str = "reimburse", call: str = "c1") -> JsonObject:
    return {"functionResponse": {"id": call, "name": name, "response": result}}


def answered(response: JsonObject, request: str) -> JsonObject:
    return {"functionResponse": {"id": request, "name": ASK, "response": response}}


def answers(confirmed: bool, request: str = "r1", **more: Json) -> JsonObject:
    """What a person decided."""
    return event("user", answered({"confirmed": confirmed}, request), **more)


def said(text: str) -> JsonObject:
    return {"text": text}


def asks(call: JsonObject, request: str = "r1", author: str = "clerk", **more: Json) -> JsonObject:
    """A request for a confirmation of this call."""
    args: JsonObject = {"originalFunctionCall": call, "toolConfirmation": HINT}
    part: JsonObject = {"functionCall": {"id": request, "name": ASK, "args": args}}
    return event(author, part, longRunningToolIds=[request], **more)


@dataclass(frozen=True)
class Shape:
    """How one ADK writes a session up to the point where it asks."""

    name: str
    request: str
    events: Callable[[], list[JsonObject]]


def python() -> list[JsonObject]:
    asked: JsonObject = {"requestedToolConfirmations": {"c1": HINT}, "skipSummarization": True}
    return [
        event("user", said("pay"), id="1"),
        event("clerk", called(), id="2"),
        asks(CALL, id="3"),
        event("clerk", responded({"error": WAITS}), id="4", actions=asked),
    ]


def javascript() -> list[JsonObject]:
    """No placeholder, milliseconds, the request's content is the user's."""
    events = [one for one in python() if one["id"] != "4"]
    for one in events:
        one["timestamp"] = 1795224227500
    events[2]["content"] = {**events[2]["content"], "role": "user"}  # type: ignore[dict-item]  # an object
    return events


def go() -> list[JsonObject]:
    """Nulls where there is nothing; no times; words of its own for what waits."""
    nothing: JsonObject = {"errorCode": "", "longRunningToolIds": None, "partial": False, "groundingMetadata": None}
    events = [{**nothing, **one} for one in python()]
    waits = 'error tool "reimburse" requires confirmation, please approve or reject'
    events[3] = event("clerk", responded({"error": waits}), id="4")
    for one in events:
        del one["timestamp"]
    return events


def java() -> list[JsonObject]:
    """Milliseconds; a sibling's response stands before the request."""
    events = python()
    events = [*events[:2], event("clerk", responded({"found": 1}, "lookup", "c0"), id="9"), *events[2:]]
    for one in events:
        one["timestamp"] = 1795224227500
    return events


def rust() -> list[JsonObject]:
    asking: JsonObject = {
        "functionResponse": {
            "id": "c1",
            "name": ASK,
            "willContinue": True,
            "response": {"originalFunctionCall": CALL, "toolConfirmation": HINT},
        }
    }
    return [*python()[:2], event("clerk", asking, id="3", longRunningToolIds=["c1"])]


def snake() -> list[JsonObject]:
    text = json.dumps(python())
    for camel, plain in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        text = text.replace(f'"{camel}"', f'"{plain}"')
    found: list[JsonObject] = json.loads(text.replace('"invocationId"', '"invocation_id"'))
    return found


SHAPES = [
    Shape("python", "r1", python),
    Shape("javascript", "r1", javascript),
    Shape("go", "r1", go),
    Shape("java", "r1", java),
    Shape("rust", "c1", rust),
    Shape("snake case", "r1", snake),
]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)


def looked(events: Sequence[JsonObject], running: dict[str, int] | None = None) -> SessionSnapshot:
    return read(events).look(running or {}, ADK)


def outcome(events: Sequence[JsonObject], running: dict[str, int] | None = None) -> Became:
    (found,) = looked(events, running).calls.values()
    return what_became(found)


@shapes
class TestEachADK:
    def test_a_request_is_read_with_what_it_is_about(self, shape: Shape) -> None:
        (request,) = looked(shape.events()).requests
        assert request == HostRequest(
            request_id=shape.request,
            call_id="c1",
            tool="reimburse",
            arguments={"amount": 1500},
            agent="clerk",
            invocation_id="e-1",
            hint="Approve?",
            unbound=True,
            can_edit=False,
            siblings='["e-1","","clerk"]',
        )

    def test_absent_begun_settled(self, shape: Shape) -> None:
        events, statuses = shape.events(), []
        for more in (None, answers(True, shape.request), event("clerk", responded({}))):
            events += [more] if more is not None else []
            statuses.append(read(events).status(shape.request))
        assert statuses == [RequestStatus.ABSENT, RequestStatus.BEGUN, RequestStatus.SETTLED]

    def test_the_outcome_of_an_approval(self, shape: Shape) -> None:
        approved = [*shape.events(), answers(True, shape.request, timestamp=10.0)]
        assert outcome(approved).became is OutcomeKind.UNKNOWN
        assert outcome(approved, {shape.request: 0}).became is OutcomeKind.RUNNING
        assert looked(approved, {shape.request: 1}).calls == {}  # sent again, and not there yet
        done = outcome([*approved, event("clerk", responded({"paid": 1500}), timestamp=12.0)])
        assert (done.became, done.confirmed, done.begun_at) == (OutcomeKind.DONE, True, 10.0)
        assert done.text == '{"paid":1500}'
        failed = outcome([*approved, event("clerk", responded({"error": "no money"}))])
        assert (failed.became, failed.text) == (OutcomeKind.FAILED, "no money")

    def test_the_outcome_of_a_denial(self, shape: Shape) -> None:
        denied = [*shape.events(), answers(False, shape.request)]
        assert (outcome(denied).became, outcome(denied).confirmed) == (OutcomeKind.REFUSED, False)
        assert [(one.request_id, one.arguments) for one in looked(denied).closed] == [(shape.request, {"amount": 1500})]
        assert looked(shape.events()).closed == ()
        refused = outcome([*denied, event("clerk", responded({"error": "This tool call is rejected."}))])
        assert (refused.became, refused.confirmed) == (OutcomeKind.REFUSED, False)


class TestHoles:
    def test_the_placeholder_may_come_before_the_request(self) -> None:
        events = python()
        events[2], events[3] = events[3], events[2]
        ran = [*events, answers(False), event("clerk", responded({"paid": 1}))]
        assert read(events).status("r1") is RequestStatus.ABSENT
        assert (outcome(ran).became, outcome(ran).confirmed) == (OutcomeKind.DONE, None)

    def test_a_denied_call_that_ran_all_the_same_is_no_refusal(self) -> None:
        ran = [*python(), answers(False), event("clerk", responded({"paid": 1}))]
        assert (outcome(ran).became, outcome(ran).confirmed) == (OutcomeKind.DONE, None)

    def test_a_tool_that_asked_itself_may_answer_a_denial_as_it_likes(self) -> None:
        events = python()
        events[3] = event("clerk", responded({"status": "Manager approval is required."}), id="4")
        refused = [*events, answers(False), event("clerk", responded({"ok": 0}))]
        assert outcome(refused).became is OutcomeKind.REFUSED

    def test_a_tool_that_failed_in_java_has_failed(self) -> None:
        failed = responded({"status": "error", "message": "An internal error occurred."})
        events = [*java(), answers(True), event("clerk", failed)]
        assert outcome(events).became is OutcomeKind.FAILED

    @pytest.mark.parametrize("no_error", [None, False, 0])
    def test_a_result_that_says_that_there_was_no_error_is_none(self, no_error: Json) -> None:
        """Approved, it ran and did not fail. Denied, it ran all the same, and nobody may read that it did not."""
        paid = event("clerk", responded({"paid": 1, "error": no_error}))
        assert outcome([*python(), answers(True), paid]).became is OutcomeKind.DONE
        ran = [*python(), answers(False), paid]
        assert (outcome(ran).became, outcome(ran).confirmed) == (OutcomeKind.DONE, None)

    @pytest.mark.parametrize(
        ("clock", "at"),
        [
            ({"timestamp": 1795224227.5}, 1795224227.5),
            ({"timestamp": 1795224227500}, 1795224227.5),
            ({"timestamp": "2026-11-21T01:23:47.5Z"}, 1795224227.5),
            ({}, None),
            ({"timestamp": "yesterday"}, None),
            ({"timestamp": 10**400}, None),
            ({"timestamp": -5}, None),
        ],
    )
    def test_any_clock_is_read_and_none_is_made_up(self, clock: JsonObject, at: float | None) -> None:
        approval = answers(True)
        del approval["timestamp"]
        assert outcome([*python(), {**approval, **clock}]).begun_at == at

    def test_an_answer_that_no_server_takes_settles_nothing(self) -> None:
        wrongs: list[JsonObject] = [{"confirmed": "sure"}, {"confirmed": True, "why": "x"}, {"response": "no json"}]
        for wrong in wrongs:
            events = [*python(), event("user", answered(wrong, "r1"))]
            assert read(events).status("r1") is RequestStatus.ABSENT
            assert states([*events, answers(True), event("clerk", responded({"paid": 1500}))]) == [CallState.DONE]

    def test_if_a_result_follows_a_server_took_it(self) -> None:
        taken = event("user", answered({"Confirmed": True}, "r1"))
        assert states([*python(), taken, event("clerk", responded({"paid": 1500}))]) == [CallState.DONE]

    @pytest.mark.parametrize(
        "answer",
        [
            {"confirmed": "yes"},
            {"confirmed": 1, "payload": {"days": 2}},
            {"response": '{"confirmed": false, "confirmed": true}'},
            {"response": '{"confirmed": true, "payload": NaN}'},
        ],
    )
    def test_an_answer_that_google_adk_takes_in_a_way_of_its_own_was_given(self, answer: JsonObject) -> None:
        assert read([*python(), event("user", answered(answer, "r1"))]).status("r1") is RequestStatus.BEGUN

    def test_the_answer_to_one_request_is_not_that_of_another(self) -> None:
        assert read([*python(), answers(True, "r2")]).status("r1") is RequestStatus.ABSENT
        assert read(python()).status("r2") is RequestStatus.GONE

    @pytest.mark.parametrize("change", [{"author": "user"}, {"partial": True}])
    def test_what_a_user_wrote_and_what_is_partial_asks_nothing(self, change: JsonObject) -> None:
        events = python()
        events[2].update(change)
        assert looked(events).requests == ()

    def test_a_request_that_cannot_be_read_is_reported_and_asks_nobody(self) -> None:
        events = python()
        events[2] = event(
            "clerk", {"functionCall": {"id": "r1", "name": ASK, "args": {}}}, id="3", longRunningToolIds=["r1"]
        )
        look = looked(events)
        assert look.requests == ()
        assert [(one.event, one.failed) for one in look.said] == [("event:3", True)]
        assert "originalFunctionCall" in look.said[0].text

    @pytest.mark.parametrize("name", ["adk_request_input", "get_user_choice", "adk_request_credential"])
    def test_a_question_that_the_agent_answered_itself_waits_for_nobody(self, name: str) -> None:
        arguments: JsonObject = {"message": "Which?", "options": ["east", "west"]}
        asks = event("clerk", {"functionCall": {"id": "q", "name": name, "args": arguments}}, longRunningToolIds=["q"])
        answers = event("clerk", {"functionResponse": {"id": "q", "name": name, "response": {"result": "east"}}})
        open_now = [(look.requests, look.waits) for look in (looked([asks]), looked([asks, answers]))]
        assert [any(both) for both in open_now] == [True, False]

    @pytest.mark.parametrize(
        ("response", "more", "waits"),
        [
            ({"name": "adk_request_credential", "willContinue": True}, {}, "a sign-in"),
            ({"name": "adk_request_credential"}, {"longRunningToolIds": ["c1"]}, "a sign-in"),
            ({"name": "adk_request_visa", "willContinue": True}, {}, "adk_request_visa"),
        ],
    )
    def test_a_response_that_says_what_its_call_waits_for_is_no_result(
        self, response: JsonObject, more: JsonObject, waits: str
    ) -> None:
        part: JsonObject = {"functionResponse": {"id": "c1", "response": {"authConfig": "hush"}, **response}}
        events = [*python(), answers(True), event("clerk", part, **more)]
        became = outcome(events)
        assert became.became is OutcomeKind.RUNNING
        assert f"It waits for {waits}." in str(became.text)
        (wait,) = looked(events).waits
        assert "hush" not in f"{became}{wait}"
        done = [*events, event("clerk", responded({"paid": 1}))]
        assert (outcome(done).became, looked(done).waits) == (OutcomeKind.DONE, ())

    def test_a_sign_in_that_nobody_was_asked_for_ends_its_call_with_the_run(self) -> None:
        needs = event("clerk", responded({"key": "hush"}), actions={"requestedAuthConfigs": {"c1": {"key": "hush"}}})
        events = [*python(), answers(True), needs]
        during, after = outcome(events, {"r1": 0}), outcome(events)
        assert (during.became, after.became) == (OutcomeKind.RUNNING, OutcomeKind.FAILED)
        assert ("asked no client for one" in str(after.text), "hush" in f"{during}{after}{looked(events).waits}") == (
            True,
            False,
        )
        asking: JsonObject = {"id": "s1", "name": "adk_request_credential", "args": {"functionCallId": "c1"}}
        asked = event("clerk", {"functionCall": asking}, longRunningToolIds=["s1"])
        assert outcome([*events, asked]).became is OutcomeKind.RUNNING
        assert outcome([*events, asked, event("clerk", responded({"paid": 1}))]).became is OutcomeKind.DONE

    def test_after_the_sign_in_adk_rs_asks_again_under_the_same_id(self) -> None:
        """The first answer says nothing about the second request, and the second answer is sent to the same id."""
        call: JsonObject = {"originalFunctionCall": CALL, "toolConfirmation": HINT}
        asked: JsonObject = {"functionResponse": {"id": "c1", "name": ASK, "response": call, "willContinue": True}}
        signs: JsonObject = {"functionResponse": {"id": "c1", "name": "adk_request_credential", "willContinue": True}}
        events = [event("clerk", called(), id="1"), event("clerk", asked, longRunningToolIds=["c1"], id="2")]
        events = [*events, answers(True, "c1", id="3"), event("clerk", signs, id="4"), event("clerk", asked, id="5")]
        look = looked(events)
        assert [one.request_id for one in look.requests] == ["c1@5"]
        assert (states(events), look.waits) == ([CallState.REFUSED, CallState.HELD], ())
        (_, again) = read(events).requests.values()
        assert again.part_id == "c1"

        events = [*events, answers(True, "c1", id="6"), event("clerk", responded({"paid": 1}), id="7")]
        assert states(events) == [CallState.REFUSED, CallState.DONE]

    @pytest.mark.parametrize("of", ["functionCallId", "function_call_id"], ids=["google-adk", "@google/adk"])
    def test_a_sign_in_that_a_client_can_answer_is_told_once_and_so(self, of: str) -> None:
        """ADKs ask for it with a call, and note it with the call's response too."""
        asking: JsonObject = {"id": "s1", "name": "adk_request_credential", "args": {of: "c1"}}
        events = [
            *python()[:2],
            event("clerk", {"functionCall": asking}, longRunningToolIds=["s1"]),
            event("clerk", responded({"pending": True}), actions={"requestedAuthConfigs": {"c1": {}}}),
        ]
        for order in (events, [*events[:2], events[3], events[2]]):
            (wait,) = looked(order).waits
            assert "answer it in another client" in wait.said.text

    def test_a_model_that_calls_for_a_sign_in_hides_none(self) -> None:
        asking: JsonObject = {"id": "s1", "name": "adk_request_credential", "args": {"functionCallId": "c1"}}
        events = [
            *python()[:2],
            event("clerk", {"functionCall": asking}),
            event("clerk", responded({"pending": True}), actions={"requestedAuthConfigs": {"c1": {}}}),
        ]
        (wait,) = looked(events).waits
        assert "the agent asked no client for one" in wait.said.text

    def test_an_invocation_that_an_answer_began_follows_from_whose_request_it_was(self) -> None:
        first = [*python(), answers(True, invocationId="e-2"), event("clerk", responded({}), invocationId="e-2")]
        again = asks({**CALL, "id": "c2"}, "r2", invocationId="e-2")
        more = [again, answers(False, "r2", invocationId="e-3"), event("user", said("hello"), invocationId="e-4")]
        assert looked([*first, *more]).origins == {"e-2": "e-1", "e-3": "e-1"}
        assert looked([*python(), answers(True)]).origins == {"e-1": "e-1"}, "google-adk 2.13 goes on in the same one"

    def test_an_answer_under_an_id_that_two_turns_have_follows_from_neither(self) -> None:
        """A model may choose the id of its call."""
        other = event("clerk", called(), invocationId="e-9")
        assert looked([*rust(), other, answers(True, "c1", invocationId="e-2")]).origins == {"e-2": ""}

    def test_no_session_is_not_an_empty_one(self) -> None:
        assert not read(None).exists
        assert read([]).exists


class TestUnknown:
    """An answer without a result is unknown, whatever else the session says: people decide."""

    @pytest.mark.parametrize(
        "later",
        [
            event("clerk", said("It did not work.")),
            event("clerk", said("Hm."), branch="fork.other"),
            event("clerk", said("Hm."), partial=True),
            event("clerk", errorCode="ValueError", errorMessage="Tool 'reimburse' is not registered."),
            event("flow", actions={"endOfAgent": True}),
            event("clerk", responded({"error": "aborted"}), errorCode="INVOCATION_ABORTED"),
        ],
        ids=["went on", "in another branch", "in part", "refused by name", "ended", "aborted"],
    )
    def test_whatever_follows_the_answer(self, later: JsonObject) -> None:
        assert outcome([*python(), answers(True), later]).became is OutcomeKind.UNKNOWN
        assert looked([*python(), answers(True), later]).requests == ()

    def test_an_agent_that_went_on_before_anybody_answered_still_waits(self) -> None:
        events = [*python(), event("flow", actions={"agentState": {"current_sub_agent": "last"}})]
        assert [one.request_id for one in looked(events).requests] == ["r1"]
        assert outcome([*events, answers(True)]).became is OutcomeKind.UNKNOWN

    def test_what_a_server_ignored_in_company_is_not_sent_again(self) -> None:
        other: JsonObject = {"id": "c2", "name": "deploy", "args": {}}
        both = event("user", answered({"confirmed": True}, "r1"), answered({"confirmed": True}, "r2"))
        deployed = event("clerk", responded({"ok": 1}, "deploy", "c2"))
        look = looked([*python(), asks(other, "r2"), both, deployed])
        assert look.requests == ()
        assert {request: kind_of(one) for request, one in look.calls.items()} == {
            "r1": OutcomeKind.UNKNOWN,
            "r2": OutcomeKind.DONE,
        }


class TestWords:
    def test_by_their_mark(self) -> None:
        events = [event("user", said("yes"), customMetadata={MARK: "m1"}), event("user", said("yes"), id="2")]
        assert (heard := read(events).heard("m1", "anything", None)) is not None
        assert heard.replied is False
        assert read(events).heard("m2", "no", None) is None

    def test_by_text_and_time_where_no_mark_is_kept(self) -> None:
        events = [event("user", said("yes"), timestamp=100.0), event("clerk", said("Fine."), id="2")]
        assert read(events).heard("m1", "yes", None) is None  # never tried before: it is somebody's earlier yes
        assert read(events).heard("m1", "yes", 101.0) is None
        assert (heard := read(events).heard("m1", "yes", 99.0)) is not None
        assert heard.replied

    def test_by_text_alone_where_no_time_is_kept_either(self) -> None:
        earlier, hello = event("user", said("yes")), event("user", said("hello"), id="2")
        for one in (earlier, hello):
            del one["timestamp"]
        assert read([earlier, hello]).heard("m1", "yes", 99.0) is None  # others spoke since
        assert read([earlier, hello]).heard("m1", "hello", None) is None
        assert read([earlier, hello]).heard("m1", "hello", 99.0) is not None
        assert read([earlier, hello]).heard("m1", "yes", 0.0) is not None  # at any time

    def test_what_another_mark_stands_on_is_not_taken_for_it(self) -> None:
        events = [event("user", said("yes"), timestamp=100.0, customMetadata={MARK: "m1"})]
        assert read(events).heard("m2", "yes", 99.0) is None

    def test_what_agents_say_and_fail_at_is_reported(self) -> None:
        blocked = event("clerk", id="3", errorCode="SAFETY", errorMessage="blocked")
        events = [event("user", said("hi"), id="1"), event("clerk", said("Hello."), id="2"), blocked]
        assert [(one.text, one.failed) for one in looked(events).said] == [("Hello.", False), ("blocked", True)]


NO_AMOUNT, A_TEXT = "'amount' is not an argument (there are: sum)", "'amount' must be of type string"
TWISTED: JsonObject = {"properties": {"amount": {"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}] * 20}}}


def asking(ask: Ask, args: JsonObject) -> tuple[list[JsonObject], str]:
    """The events of a call that waits, and the id under which it is announced."""
    call: JsonObject = {"id": "c9", "name": "reserve", "args": args}
    if ask is Ask.NODE:
        payload: JsonObject = {"tool_name": "reserve", "args": args}
        call = {"id": "wf_tool_confirmation:flow@1/t@1", "name": "adk_request_input", "args": {"payload": payload}}
    asks: JsonObject = {
        "id": "r9",
        "name": "adk_request_confirmation",
        "args": {"originalFunctionCall": call, "toolConfirmation": HINT},
    }
    part: JsonObject = {"functionCall": asks if ask is Ask.CONFIRMATION else call}
    waits = event("clerk", part, longRunningToolIds=["r9" if ask is Ask.CONFIRMATION else call["id"]])
    return [event("user", said("reserve")), waits], str(call["id"])


class TestPlugin:
    def test_what_it_announces_is_offered(self) -> None:
        schema: JsonObject = {"type": "object", "properties": {"amount": {"type": "number"}}}
        events = python()
        events[2]["customMetadata"] = announcement_metadata(
            {"c1": Announcement(gated=True, edits=True, signed=True, schema=schema)}
        )
        (request,) = looked(events).requests
        assert (request.can_edit, request.tool_schema) == (True, schema)

    @pytest.mark.parametrize("place", ["functionCall", "functionResponse", "announcement"])
    def test_what_it_bound_is_part_of_the_call(self, place: str) -> None:
        """Our runtime says it in the request, in either dialect; the plugin says it in what it announces."""
        events, bound = (
            rust() if place == "functionResponse" else python(),
            Announcement(gated=True, title="Pay {amount}"),
        )
        if place == "announcement":
            bound = replace(bound, defaults={"force": False})
        else:
            asking: Any = events[2]["content"]
            asking["parts"][0][place]["args" if place == "functionCall" else "response"] |= {
                "defaults": {"force": False}
            }
        events[2]["customMetadata"] = announcement_metadata({"c1": bound})
        (request,) = read(events).look({}, ServerInfo(name="", schemas={"reimburse": {"properties": {}}})).requests
        assert (request.arguments, request.defaults) == ({"amount": 1500, "force": False}, ("force",))
        assert (request.title, request.misfit, request.unbound) == ("Pay {amount}", "", False)

    @pytest.mark.parametrize(
        ("schema", "misfit", "unbound"),
        [
            (None, "", True),
            ({"properties": {"amount": {}}, "x-adk-confirm-title": "Pay nothing"}, "", False),
            ({"properties": {"sum": {}}}, NO_AMOUNT, False),
            ({"properties": {"sum": {}}, "additionalProperties": False}, NO_AMOUNT, False),
            ({"properties": {"sum": {}}, "additionalProperties": True}, "", False),
            ({"properties": {"sum": {}}, "additionalProperties": {"type": "number"}}, "", False),
            ({"properties": {"sum": {}}, "additionalProperties": {"type": "string"}}, A_TEXT, False),
            ({"properties": {"amount": {"anyOf": [{"type": "string"}]}}}, A_TEXT, False),
            (
                {"$ref": "#/$defs/args", "$defs": {"args": {"properties": {"amount": {"type": "string"}}}}},
                A_TEXT,
                False,
            ),
            (TWISTED, "too large to compare", False),
        ],
    )
    def test_without_it_the_servers_schema_says_which_arguments_there_are(
        self, schema: JsonObject | None, misfit: str, unbound: bool
    ) -> None:
        (request,) = (
            read(python()).look({}, ServerInfo(name="", schemas={"reimburse": schema} if schema else {})).requests
        )
        assert (misfit in request.misfit, request.unbound, request.title) == (True, unbound, None)
        assert bool(request.misfit) == bool(misfit)

    @pytest.mark.parametrize(
        ("inside", "misfit"),
        [
            ({"hours": 2}, ""),
            ({"hours": 2, "alarm": True}, "'window.alarm' is not an argument (there are: hours)"),
            ({"hours": "2"}, "'window.hours' must be of type integer"),
            ({"hours": True}, "'window.hours' must be of type integer"),
        ],
    )
    @pytest.mark.parametrize("announced", [None, Announcement(gated=False, bound=False, signed=True)])
    @pytest.mark.parametrize("ask", [Ask.CONFIRMATION, Ask.NODE, Ask.OPERATION])
    def test_at_every_depth_and_whoever_asks(
        self, ask: Ask, announced: Announcement | None, inside: JsonObject, misfit: str
    ) -> None:
        """A signed answer is no sign that anybody bound the arguments."""
        events, call_id = asking(ask, {"window": inside})
        if announced is not None:
            events[1]["customMetadata"] = announcement_metadata({call_id: announced})
        window: JsonObject = {"type": "object", "properties": {"hours": {"type": "integer"}}}
        declared: JsonObject = {"properties": {"window": window}}
        for schemas in ({"reserve": declared}, {}):
            look = read(events).look({}, ServerInfo(name="", schemas=schemas))
            request = look.requests[0] if look.requests else look.waits[0].request
            assert request is not None
            assert (request.misfit, request.unbound) == ((misfit, False) if schemas else ("", True))

    def test_what_it_bound_for_an_operation_comes_with_its_first_response(self) -> None:
        events, call_id = asking(Ask.OPERATION, {"seats": 2})
        events.append(event("clerk", responded({"status": "pending"}, "reserve", call_id)))
        events[-1]["customMetadata"] = announcement_metadata(
            {call_id: Announcement(gated=False, defaults={"vip": True})}
        )
        (waits,) = read(events).look({}, ADK).waits
        assert waits.request is not None
        assert (waits.request.arguments, waits.request.defaults) == ({"seats": 2, "vip": True}, ("vip",))
        assert not waits.request.unbound

    def test_an_operation_that_failed_at_once_has_not_begun(self) -> None:
        events, call_id = asking(Ask.OPERATION, {"seats": 2})
        assert len(read(events).look({}, ADK).waits) == 1
        events.append(event("clerk", responded({"error": "no such argument"}, "reserve", call_id)))
        assert read(events).look({}, ADK).waits == ()

    def test_others_metadata_announces_nothing(self) -> None:
        others: list[JsonObject | None] = [None, {}, {"adkConfirm": 1}, {"adkConfirm": {"calls": {"c1": "yes"}}}]
        for metadata in others:
            assert announcement_about(metadata, "c1") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
keys = st.sampled_from(["content", "author", "partial", "id", "timestamp", "actions", "customMetadata", "errorCode"])


@given(st.lists(st.dictionaries(keys, json_values, max_size=5), max_size=5))
def test_whatever_a_server_sends_is_read(events: list[JsonObject]) -> None:
    """An event that means nothing is left out, and said; it never keeps the others from being read."""
    reading = read([*events, *python()])
    assert isinstance(reading, SessionReading)
    assert reading.status("r1") is RequestStatus.ABSENT
    for one in events:
        try:
            event_from(one)
        except Invalid:
            assert any(said.failed for said in reading.said)


histories = st.lists(st.sampled_from(["approve", "deny", "response", "chat", "reply"]), max_size=8)


@given(histories)
def test_no_order_of_events_makes_an_unanswered_call_look_answered(history: list[str]) -> None:
    events = python()
    for step in history:
        events.append(
            {
                "approve": answers(True),
                "deny": answers(False),
                "response": event("clerk", responded({"paid": 1})),
                "chat": event("user", said("hello")),
                "reply": event("clerk", said("Hm.")),
            }[step]
        )
    given = [i for i, step in enumerate(history) if step in ("approve", "deny")]
    status = read(events).status("r1")
    if not given:
        assert status is RequestStatus.ABSENT
        assert [one.request_id for one in looked(events).requests] == ["r1"]
    else:
        settled = "response" in history[given[0] :]
        assert status is (RequestStatus.SETTLED if settled else RequestStatus.BEGUN)
        assert looked(events).requests == ()
        unknown = not settled and history[given[0]] == "approve"
        assert (outcome(events).became is OutcomeKind.UNKNOWN) == unknown


@pytest.mark.parametrize(
    ("other", "twice"),
    [
        (CALL, False),
        ({**CALL, "args": {"amount": 99999}}, True),
        ({**CALL, "args": {"amount": 1500.0}}, True),
        ({**CALL, "name": "deploy"}, True),
        ({**CALL, "id": "c2"}, True),
        ({**CALL, "args": {"amount": float("nan")}}, True),
    ],
)
def test_a_request_that_comes_again_about_another_call_is_known(other: JsonObject, twice: bool) -> None:
    """People would see the first one, and google-adk would run the last one."""
    asking = read([*python(), asks(other, author="hr")]).requests["r1"]
    assert asking.twice is twice
    assert asking.request.call.arguments == {"amount": 1500}


def test_one_response_says_what_became_of_one_call() -> None:
    """A message answered two requests about calls with one id, and ADK Go ran the last one."""
    second: JsonObject = {**CALL, "args": {"amount": 9000}}
    both = [*python()[:2], asks(CALL, id="3"), asks(second, "r2", id="4")]
    together = event("user", answered({"confirmed": True}, "r1"), answered({"confirmed": True}, "r2"), id="5")
    response = event("clerk", responded({"paid": 1}), id="6")
    assert states([*both, together, response]) == [CallState.UNKNOWN, CallState.UNKNOWN]

    first = [*both, answers(True, id="5"), response]
    assert states(first) == [CallState.DONE, CallState.HELD]
    assert states([*first, answers(True, "r2", id="7")]) == [CallState.DONE, CallState.UNKNOWN]
    again = event("clerk", responded({"paid": 2}), id="8")
    assert states([*first, answers(True, "r2", id="7"), again]) == [CallState.DONE, CallState.DONE]

    lost = [*both, together, response, answers(True, id="7"), again]
    assert states(lost) == [CallState.DONE, CallState.UNKNOWN], "it ran again, as people wanted"


def states(events: Sequence[JsonObject]) -> list[CallState]:
    return [call.state for call in looked(events).calls.values()]


def test_requests_under_one_id_are_no_silence() -> None:
    """adk-rs gives each request its call's id, so an answer to one would be an answer to the other."""
    call: JsonObject = {"originalFunctionCall": CALL, "toolConfirmation": HINT}
    part: JsonObject = {"functionResponse": {"id": "c1", "name": ASK, "response": call, "willContinue": True}}
    look = looked([event("clerk", part, part, longRunningToolIds=["c1", "c1"], id="1")])
    assert look.requests == ()
    (waits,) = look.waits
    assert "several calls that have the same id" in waits.said.text


@pytest.mark.parametrize(
    ("after", "replied"),
    [
        ([], False),
        ([event("clerk", called(), id="2")], False),
        ([event("clerk", said("Paid."), id="2")], True),
        ([asks(CALL, id="2")], True),
    ],
    ids=["nothing", "a call", "words", "a request"],
)
def test_a_call_is_no_reply_yet(after: list[JsonObject], replied: bool) -> None:
    """ADK Java broke off between the two, and nobody was told."""
    (words,) = read([event("user", said("pay"), id="1"), *after]).words
    assert words.replied is replied


def test_a_long_session_is_read_in_one_go() -> None:
    """Each response was looked for among all requests: a server could make hours of a few megabytes."""
    many = 300
    events = python()[:2]
    for number in range(many):
        call: JsonObject = {"id": f"c{number}", "name": "reimburse", "args": {}}
        events.append(asks(call, f"r{number}", id=f"a{number}"))
    for number in range(many):
        events.append(answers(True, f"r{number}", id=f"b{number}"))
        events.append(event("clerk", responded({"result": number}, call=f"c{number}"), id=f"d{number}"))
    with_same = [event("clerk", responded({"result": number}, call="c7"), id=f"e{number}") for number in range(many)]
    began = steps_of(lambda: read([*events[: len(events) // 4], *with_same[: many // 4]]))
    whole = steps_of(lambda: read([*events, *with_same]))
    assert whole < 6 * began
    assert [one.after for one in read([*events, *with_same]).requests.values()] == [
        ({"result": number}, 1795224227.5) for number in range(many)
    ]


def steps_of(work: Callable[[], object]) -> int:
    """How many lines of `adk_confirm.bot.hosts.session_reading` it takes: the same on a slow machine."""
    steps = 0

    def in_reading(frame: FrameType, what: str, arg: object) -> object:
        nonlocal steps
        steps += what == "line"
        return in_reading

    def trace(frame: FrameType, what: str, arg: object) -> object:
        return in_reading if frame.f_code.co_filename == session_reading.__file__ else None

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]  # typeshed knows no nested ones
    try:
        work()
    finally:
        sys.settrace(before)
    return steps


def test_of_two_requests_under_one_id_the_older_takes_no_answer() -> None:
    """A workflow's node asks under one id each time; google-adk gives an answer to the last request."""
    node = "wf_tool_confirmation:flow@1/pay@1"

    def asks(amount: int, event_id: str) -> JsonObject:
        payload: JsonObject = {"tool_name": "pay", "args": {"amount": amount}}
        args: JsonObject = {"interruptId": node, "payload": payload, "message": "Pay?"}
        call: JsonObject = {"functionCall": {"id": node, "name": "adk_request_input", "args": args}}
        return event("flow", call, id=event_id, longRunningToolIds=[node])

    reading = read([asks(5, "e1"), asks(9000, "e2")])
    assert [reading.status(f"{node}@{one}") for one in ("e1", "e2")] == [RequestStatus.GONE, RequestStatus.ABSENT]
    assert [one.arguments for one in reading.look({}, ADK).requests] == [{"amount": 9000}]
