"""What a task shows about a call in each of its states. It never shows what a policy hides."""

from __future__ import annotations

from dataclasses import replace

import pytest

from blocks.tasks import TaskView, chunk, in_words, plan
from bot.cards.tasks import is_open, task_views
from bot.confirmation.model import OutcomeKind, State
from bot.hosts.host import Task, TaskState
from bot.hosts.tasks import LONGEST_RESULT, one_line, tasks_in
from bot.sandbox.blockkit.limits import check_blocks
from runtime.jsontypes import Json
from runtime.wire import Content, Event, FunctionCall, FunctionResponse, Part
from tests.support.deciding import Desk, make_asked, make_policy
from tests.support.states import every_state

CALL = Task(call_id="c1", tool="deploy", state=TaskState.WAITING)
ALONE = Task(call_id="c9", tool="check_health", state=TaskState.DONE, result="the token is s3cr3t-value")


LINK = "https://a.example/card"


def test_each_state_of_a_call_says_what_it_is_and_a_spinner_is_looked_at_again() -> None:
    seen = {}
    for row in every_state(Desk(make_policy(), make_asked()).row):
        (view,) = task_views([CALL], [row], {row.id: LINK}, over=True)
        if row.outcome is None or row.state is State.APPROVED:
            seen[row.outcome.kind if row.outcome else row.state] = view
        assert view.link == LINK
        assert view.note or view.status == "complete"
        assert is_open(CALL, [row]) or view.status in ("complete", "error")
        assert not is_open(ALONE, [row])
        check_blocks([plan([view], "b1")])
    assert {kind for kind, view in seen.items() if view.status == "in_progress"} == {OutcomeKind.RUNNING}
    assert {kind for kind, view in seen.items() if view.status == "pending"} == {State.WAITING, State.APPROVED}
    for kind, words in (
        (State.DENIED, "Denied"), (State.EXPIRED, "Expired"), (OutcomeKind.REFUSED, "Did not run"),
        (OutcomeKind.UNKNOWN, "Outcome unknown"), (State.LAPSED, "did not start in time"),
    ):  # fmt: skip
        assert seen[kind].status == "error"
        assert words in seen[kind].note
    assert seen[OutcomeKind.DONE].note == "deployed"


def test_a_call_without_a_card_ends_with_its_run() -> None:
    calls = [replace(ALONE, state=state, result="") for state in TaskState]
    drawn = [(view.status, view.note) for view in task_views(calls, [], over=True)]
    assert drawn == [("error", "Ended without a result"), ("error", "Did not run"), ("complete", ""), ("error", "")]


def test_a_policy_that_came_meanwhile_hides_what_a_task_would_say() -> None:
    desk = Desk(make_policy(redact=["token"]), make_asked(arguments={"token": "s3cr3t-value", "version": "2.4.1"}))
    views = task_views([CALL, ALONE], [desk.row], over=True)
    assert "s3cr3t" not in str(views)
    assert views[0].title == "Deploy (version 2.4.1)"


def test_nothing_in_a_task_is_markup() -> None:
    text = "<!channel> `a` *b* _c_ ~d~ https://e.example :tada: @here\n&amp; \u202e"
    view = TaskView("c1", text, "error", text, None)
    drawn = (chunk(view), plan([view], "b1"), in_words([view]))
    for live in ("<", "`", "*", "_c_", "~d~", "https://", ":tada:", "@here", "\u202e"):
        assert not [one for one in drawn if live in str(one)]
    check_blocks([plan([view], "b1")])
    assert "\n" not in in_words([view])


@pytest.mark.parametrize(
    ("result", "line"),
    [
        ({"status": "deployed", "version": "2.4.1"}, "deployed"),
        ({"error": "no such version", "status": "failed"}, "no such version"),
        ({"load": 0.3, "up": True}, '{"load": 0.3, "up": true}'),
        ({"result": "two\n lines"}, "two lines"),
        ({"status": ""}, '{"status": ""}'),
        ([1, 2], "[1, 2]"),
    ],
)
def test_a_result_is_one_line(result: Json, line: str) -> None:
    assert one_line(result) == line


def test_a_large_result_is_cut() -> None:
    larges: list[Json] = [{"status": "x" * 10**6}, {"rows": ["x" * 1000] * 10**4}, {str(n): n for n in range(10**5)}]
    for large in larges:
        assert len(one_line(large)) <= LONGEST_RESULT


def test_what_the_framework_calls_is_no_task() -> None:
    names = ("transfer_to_agent", "adk_request_credential", "set_model_response", "adk_request_input")
    parts = [Part(function_call=FunctionCall(id=name, name=name, args={})) for name in names]
    parts += [Part(function_response=FunctionResponse(id=name, name=name, response={})) for name in names]
    assert list(tasks_in(Event(author="a", content=Content(role="model", parts=parts)))) == []


def test_what_waits_is_not_ended_by_the_answer_that_says_so() -> None:
    ended = replace(CALL, state=TaskState.DONE, result="pending")
    assert CALL.then(ended) == CALL
    assert ended.then(CALL) == CALL
