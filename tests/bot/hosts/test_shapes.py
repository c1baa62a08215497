"""Approvals and denials for agents of google-adk in the shapes that its documentation has, in every order.

What counts is that an approved call runs once, or is unknown: then people say whether it took effect.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adk_confirm.bot.config.settings import AgentSettings
from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import RequestLost
from adk_confirm.bot.hosts.open_host import open_host
from adk_confirm.bot.store.open import open_store
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.wire import Content
from tests.support.foreign.alone import ran
from tests.support.foreign.visit import Visit, texts
from tests.support.stores import SECRET, temporary_store

pytest.importorskip("google.adk.workflow")
pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

Visiting = Callable[[str], Awaitable[Visit]]


@pytest.fixture
async def visiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Visiting]:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    async with AsyncExitStack() as stack:

        async def visit(target: str) -> Visit:
            store = stack.enter_context(temporary_store())
            database = await open_store(store, SECRET)
            stack.push_async_callback(database.close)
            agent = AgentSettings(target=f"tests.support.foreign.shapes:{target}")
            host = await open_host(agent, database, store_url=store)
            stack.push_async_callback(host.close)
            return Visit(host)

        yield visit


@pytest.mark.parametrize("target", ["branches__plain", "branches__resumable"])
async def test_answers_of_others_that_reached_no_agent_are_unknown_and_never_sent_again(
    visiting: Visiting, target: str
) -> None:
    """google-adk gives a message with answers for several branches to the first of them only."""
    visit = await visiting(target)
    await visit.say("go")
    requests = await visit.requests()
    parts = [Answer(one.request_id, confirmed=True).as_part() for one in requests]
    assert isinstance(visit.host, AdkHost)
    async for _ in visit.host.server.run(visit.session, Content(role="user", parts=parts), {}):
        pass
    reached = [one for one in requests if one.siblings == requests[0].siblings]
    assert await visit.requests() == []
    assert [await visit.became(one) for one in requests] == [
        OutcomeKind.DONE if one in reached else OutcomeKind.UNKNOWN for one in requests
    ]
    await visit.give([(one, visit.answer(one, True)) for one in requests])
    assert sorted(str(one["service"]) for one in ran()) == sorted(str(one.arguments["service"]) for one in reached)


BROKEN_BY_ADK = ("branches_in_turn__resumable", "turns_in_branches__resumable")
"""google-adk goes on after the first branch that was answered: nothing makes it run what the other branches asked."""

RUNS_ALL = [
    f"{shape}{kind}"
    for shape in ("alone", "branches", "in_turn", "loop", "handed_over", "single_turn")
    for kind in ("__plain", "__resumable")
]


@pytest.mark.parametrize("target", RUNS_ALL)
async def test_what_is_approved_runs_once(visiting: Visiting, target: str) -> None:
    """In order, and where the app is resumable in the other order."""
    visit, turned = await visiting(target), target.endswith("resumable")
    await visit.say("go")
    asked: list[HostRequest] = []
    while requests := sorted(await visit.requests(), key=lambda one: str(one.arguments), reverse=turned):
        asked += requests
        await visit.give([(one, visit.answer(one, True)) for one in requests])
    assert [await visit.became(one) for one in asked] == [OutcomeKind.DONE] * len(asked)
    assert sorted(str(one["service"]) for one in ran()) == sorted(str(one.arguments["service"]) for one in asked)


@pytest.mark.parametrize("target", [*BROKEN_BY_ADK, "handed_to_branches__plain", "handed_to_branches__resumable"])
async def test_what_google_adk_passes_over_is_unknown_and_does_not_run(visiting: Visiting, target: str) -> None:
    visit = await visiting(target)
    await visit.say("go")
    asked: list[HostRequest] = []
    while requests := await visit.requests():
        asked += requests
        await visit.give([(one, visit.answer(one, True)) for one in requests])
    became = [(one, await visit.became(one)) for one in asked]
    assert OutcomeKind.UNKNOWN in {kind for _, kind in became} <= {OutcomeKind.DONE, OutcomeKind.UNKNOWN}
    done = [str(one.arguments["service"]) for one, kind in became if kind is OutcomeKind.DONE]
    assert sorted(str(one["service"]) for one in ran()) == sorted(done)


async def test_a_tool_that_asks_again_is_reported_to_wait_in_vain(visiting: Visiting) -> None:
    visit = await visiting("asks_twice__plain")
    request = await visit.asks("go")
    await visit.approve(request, payload={"stage": 1})
    assert await visit.requests() == []
    (waits,) = (await visit.host.look(visit.session)).waits
    assert "ask_twice asked for one more approval" in waits.said.text
    assert ran() == []


async def test_an_answer_to_what_was_asked_again_meanwhile_says_so(visiting: Visiting) -> None:
    visit = await visiting("asks_both__plain")
    await visit.say("go")
    colour, size = await visit.requests()
    first = visit.answer(colour, True, payload={"answer": "red"})
    second = visit.answer(size, True, payload={"answer": "small"}, ago=1000.0)
    await texts(visit.host.answer(visit.session, [first]))
    with pytest.raises(RequestLost, match="Use the newer card") as lost:
        await texts(visit.host.answer(visit.session, [second]))
    assert not lost.value.may_have_run
    (newer,) = await visit.requests()
    again = visit.answer(newer, True, payload={"answer": "small"})
    await texts(visit.host.answer(visit.session, [again]))
    assert ran() == [{"tool": "chosen", "colour": "red", "size": "small"}]


@pytest.mark.parametrize("target", RUNS_ALL[::2])
async def test_what_is_denied_does_not_run(visiting: Visiting, target: str) -> None:
    visit = await visiting(target)
    await visit.say("go")
    asked: list[HostRequest] = []
    while requests := await visit.requests():
        asked += requests
        await visit.give([(one, visit.answer(one, False)) for one in requests])
    assert {await visit.became(one) for one in asked} == {OutcomeKind.REFUSED}
    assert ran() == []
