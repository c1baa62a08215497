"""A process is killed at each step of a call, and the next process on the same store finishes it.

The way of a gated call, and where a kill may cut it:

    the message is stored · the model is asked · it answers · the request is stored and waits
    the approval is stored · the intent is written · the tool begins · it ends · its result is stored
    the model is asked again · it answers · the answer is stored
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from adk_confirm import (
    Agent,
    Answer,
    Conflict,
    FunctionTool,
    ModelRequest,
    Request,
    Runner,
    ScriptedModel,
    ToolContext,
    call,
    requests_in,
)
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.store.tables import open_store
from tests.runtime.run.test_exactly_once import Log
from tests.support.dialogue import Chat, Heard, shown
from tests.support.kill import child, here
from tests.support.watched import Watched

SESSION = "story"
LEASE = 0.4
LOST = "The process stopped while this tool ran; its result is lost."


pytestmark = pytest.mark.slow


@pytest.fixture
def store(either_store: str) -> str:
    return either_store


# The agent: deploys version a, and says what came of it


def nowhere(_: str) -> None:
    """No point to stop at."""


def agent(
    kind: str, log: Log, stop: Callable[[str], None] = nowhere, sibling_stored: asyncio.Event | None = None
) -> Agent:
    def deploy(version: str, tool_context: ToolContext) -> str:
        log.write(f"began {version} as attempt {tool_context.attempt}")
        stop("in the tool")
        log.write(f"ended with key {tool_context.idempotency_key}")
        return f"{version} is live"

    def dynamic(version: str, tool_context: ToolContext) -> str:
        if tool_context.tool_confirmation is None:
            stop("asking")
            tool_context.request_confirmation(hint="Sure?")
            return "waiting"
        return deploy(version, tool_context)

    async def both(version: str, tool_context: ToolContext) -> str:
        log.write(f"began {version}")
        tool_context.state[version] = "deployed"
        if version == "a":
            if sibling_stored is not None:
                await sibling_stored.wait()
            stop("in the tool")
        log.write(f"ended {version}")
        return f"{version} is live"

    dynamic.__name__ = both.__name__ = "deploy"
    asked = 0

    def reply(request: ModelRequest) -> ScriptLine:
        nonlocal asked
        asked += 1
        stop(f"in the model {asked}")
        last = request.contents[-1]
        responses = [response.response for response in last.responses()]
        if responses:
            return f"It came to {responses[-1]}."
        if last.text != "Ship a":
            return "I am waiting, too."
        return [call("deploy", version=version) for version in ("ab" if kind == "two" else "a")]

    def looks(version: str, tool_context: ToolContext) -> JsonObject:
        log.write(f"looked for {version}")
        tool_context.state["looked"] = True
        return {"status": "found"}

    previewed = 0

    def plan(version: str) -> Json:
        nonlocal previewed
        previewed += 1
        stop(f"in preview {previewed}")
        return [line for line in log.lines if "began" in line or line == "moved"]

    tools = {
        "gated": FunctionTool(deploy, require_confirmation=True),
        "previewed": FunctionTool(deploy, require_confirmation=True, preview=plan),
        "two": FunctionTool(both, require_confirmation=True),
        "ungated": FunctionTool(deploy),
        "dynamic": FunctionTool(dynamic),
        "idempotent": FunctionTool(deploy, require_confirmation=True, idempotent=True, preview=plan),
        "can be asked": FunctionTool(deploy, require_confirmation=True, verify=looks),
    }
    return Agent("operator", ScriptedModel(reply=reply), tools=[tools[kind]])


async def story(url: str, app: str, log: str, kind: str, point: str) -> None:
    """In a process of its own: the whole way, standing still at one point."""

    def stop(reached: str) -> None:
        if reached == point:
            here(point)

    passed: dict[str, int] = {}

    async def watch(when: str, what: str) -> None:
        if when == "before":
            passed[what] = passed.get(what, 0) + 1
        if (when, what, passed[what]) == ("after", "write", 3):
            sibling_stored.set()
        stop(f"{when} {what} {passed[what]}")

    sibling_stored = asyncio.Event()
    database = Watched(await open_store(url), watch)
    operator = agent(kind, Log(log), stop, sibling_stored)
    chat = Chat(Runner(operator, database, app_name=app, lease_term=LEASE), SESSION)
    requests = (await chat.say("Ship a")).requests
    if requests:
        await chat.answer(*(Answer(request.id, True) for request in requests))
    await chat.runner.close()
    stop("at the end")


@dataclass
class Story:
    """What a kill has left, and a new process to go on with it."""

    chat: Chat
    log: Log

    @property
    def runner(self) -> Runner:
        return self.chat.runner

    async def recovered(self) -> Heard:
        """What the new process does by itself, as soon as the dead one's lease has lapsed."""
        return await self.chat.taken_up()

    async def request(self) -> Request:
        return [request for event in await self.chat.history() for request in requests_in(event)][-1]

    async def settle(self, word: Word) -> Heard:
        (unknown,) = await self.chat.calls()
        return await self.chat.settle(unknown.id, word, unknown.attempt)

    async def told_to_the_model(self) -> list[str]:
        model = self.runner.agent.model
        assert isinstance(model, ScriptedModel)
        return shown(model.requests[-1])


@asynccontextmanager
async def killed(url: str, app: str, path: Path, kind: str, point: str, *, later: float = 0.0) -> AsyncIterator[Story]:
    log = Log(path / "log")
    async with child(story, url, app, str(log.path), kind, point) as process:
        await process.reached(point)
        process.kill()
        await process.gone()
    clock = (lambda: time.time() + later) if later else None
    async with Runner(agent(kind, log), url, app_name=app, clock=clock) as runner:
        yield Story(Chat(runner, SESSION), log)


BEGAN = "began a as attempt 1"
LIVE = "operator says It came to {'result': 'a is live'}."


# Before the request is stored: the model is asked again, and nothing has run


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("after enter 1", id="message stored"),
        pytest.param("in the model 1", id="model asked"),
        pytest.param("before write 1", id="model answered"),
    ],
)
async def test_killed_before_the_request_was_stored(store: str, app: str, tmp_path: Path, point: str) -> None:
    async with killed(store, app, tmp_path, "gated", point) as left:
        asked = await left.recovered()
        assert asked.lines[1] == "operator asks deploy: Approve execution of tool deploy?"
        assert left.log.lines == []
        assert (await left.chat.approve(asked.request)).lines[-1] == LIVE
        assert left.log.lines[0] == BEGAN
        assert len(left.log.lines) == 2
        assert [event.text for event in await left.chat.history() if event.author == "user"] == ["Ship a", ""]


# After the approval is stored, before the intent: it runs, once


@pytest.mark.parametrize(
    "point",
    [pytest.param("after enter 2", id="approval stored"), pytest.param("before write 2", id="before the intent")],
)
@pytest.mark.parametrize("by", ["recovery", "the same answer", "a message"])
async def test_killed_between_approval_and_intent(store: str, app: str, tmp_path: Path, point: str, by: str) -> None:
    async with killed(store, app, tmp_path, "gated", point) as left:
        request = await left.request()
        if by == "recovery":
            went_on = await left.recovered()
        elif by == "the same answer":
            went_on = await left.chat.approve(request)
        else:
            went_on = await left.chat.say("Hello?")
        assert went_on.lines == ['operator got deploy: {"result":"a is live"}', LIVE] or by == "a message"
        assert left.log.lines[0] == BEGAN
        assert len(left.log.lines) == 2
        assert (await left.chat.approve(request)).events == []
        with pytest.raises(Conflict):
            await left.chat.deny(request)
        assert len(left.log.lines) == 2


@pytest.mark.parametrize("meanwhile", ["nothing", "moved"])
async def test_killed_between_the_second_preview_and_the_start(
    store: str, app: str, tmp_path: Path, meanwhile: str
) -> None:
    async with killed(store, app, tmp_path, "previewed", "in preview 2") as left:
        if meanwhile == "moved":
            left.log.write("moved")
            (asked,) = (await left.recovered()).requests
            assert left.log.lines == ["moved"]
            assert (await left.chat.approve(asked)).lines[-1] == LIVE
        else:
            assert (await left.recovered()).lines[-1] == LIVE
        assert left.log.lines.count(BEGAN) == 1


# After the intent, before the result is stored: nobody knows


UNKNOWN_POINTS = [
    pytest.param("after write 2", [], id="intent written"),
    pytest.param("in the tool", [BEGAN], id="in the tool"),
    pytest.param("before write 3", [BEGAN, "ended"], id="tool ended"),
]


def same(log: Log, expected: list[str]) -> bool:
    return len(log.lines) == len(expected) and all(
        line.startswith(start) for line, start in zip(log.lines, expected, strict=True)
    )


@pytest.mark.parametrize(("point", "done"), UNKNOWN_POINTS)
@pytest.mark.parametrize("kind", ["gated", "dynamic"])
async def test_killed_while_the_tool_ran_leaves_it_unknown_and_never_runs_it_again_by_itself(
    store: str, app: str, tmp_path: Path, kind: str, point: str, done: list[str]
) -> None:
    if kind == "dynamic":  # its first pass, which asks, has an intent and a result of its own
        point = {"after write 2": "after write 3", "before write 3": "before write 4"}.get(point, point)
    async with killed(store, app, tmp_path, kind, point) as left:
        reply = await left.recovered()
        assert reply.errors == ["OUTCOME_UNKNOWN"]
        assert reply.events[0].error_message == (
            "The process stopped while deploy ran. Nobody knows whether it took effect: look, then say that it "
            "happened, that it did not, or that it should run again."
        )
        assert same(left.log, done)
        assert (await left.recovered()).events == []
        assert (await left.chat.approve(await left.request())).events == []
        assert same(left.log, done)

        # It holds the turn, and people may talk meanwhile.
        assert (await left.chat.say("Any news?")).texts == ["I am waiting, too."]
        assert same(left.log, done)

        settled = await left.settle("it happened")
        assert settled.result("deploy") == {"status": "It took effect: people looked. Its own result is lost."}
        assert len(settled.texts) == 1
        assert same(left.log, done)
        with pytest.raises(Conflict):
            await left.settle("run again")


async def test_after_a_day_the_model_learns_that_nobody_knows(store: str, app: str, tmp_path: Path) -> None:
    async with killed(store, app, tmp_path, "gated", "in the tool") as left:
        await left.recovered()
        assert (await left.recovered()).events == []
        await left.runner.close()
        tomorrow = Runner(left.runner.agent, store, app_name=app, clock=lambda: time.time() + 25 * 3600)
        later = Story(Chat(tomorrow, SESSION), left.log)
        said = await later.recovered()
        assert "Nobody knows whether it took effect" in str(said.result("deploy")["error"])
        assert len(said.texts) == 1
        assert (await later.recovered()).events == []
        assert left.log.lines == [BEGAN]
        await tomorrow.close()


async def test_of_two_calls_that_ran_together_only_the_interrupted_one_is_unknown(
    store: str, app: str, tmp_path: Path
) -> None:
    async with killed(store, app, tmp_path, "two", "in the tool") as left:
        reply = await left.recovered()
        assert reply.result("deploy") == {"result": "b is live"}
        assert reply.errors == ["OUTCOME_UNKNOWN"]
        assert reply.texts == []
        assert await left.chat.state() == {"b": "deployed"}
        calls = await left.chat.calls()
        assert [str(one.state) for one in calls] == ["unknown", "done"]
        assert len((await left.chat.settle(calls[0].id, "it happened")).texts) == 1
        assert await left.told_to_the_model() == [
            "user: Ship a",
            'model calls deploy {"version":"a"}',
            'model calls deploy {"version":"b"}',
            'user got deploy: {"status":"It took effect: people looked. Its own result is lost."}',
            'user got deploy: {"result":"b is live"}',
        ]
        assert sorted(line.partition(" as ")[0] for line in left.log.lines) == ["began a", "began b", "ended b"]


# Tools that can be asked, or run again


@pytest.mark.parametrize(("point", "done"), UNKNOWN_POINTS)
async def test_an_idempotent_tool_runs_again_with_the_same_key(
    store: str, app: str, tmp_path: Path, point: str, done: list[str]
) -> None:
    async with killed(store, app, tmp_path, "idempotent", point) as left:
        said = await left.recovered()
        assert said.lines == ['operator got deploy: {"result":"a is live"}', LIVE]
        assert same(left.log, [*done, BEGAN, "ended"])
        assert len({line for line in left.log.lines if line.startswith("ended")}) == 1


async def test_a_tool_that_can_be_asked_is_not_run_again(store: str, app: str, tmp_path: Path) -> None:
    """Which answers there are, and what each leads to: `test_recovering.py`."""
    async with killed(store, app, tmp_path, "can be asked", "in the tool") as left:
        said = await left.recovered()
        assert said.result("deploy") == {"status": "found"}
        assert len(said.texts) == 1
        assert left.log.lines == [BEGAN, "looked for a"]
        assert await left.chat.state() == {}


@pytest.mark.parametrize(("kind", "point"), [("ungated", "in the tool"), ("dynamic", "asking")])
async def test_an_ungated_call_that_was_interrupted_is_an_error_for_the_model(
    store: str, app: str, tmp_path: Path, kind: str, point: str
) -> None:
    async with killed(store, app, tmp_path, kind, point) as left:
        said = await left.recovered()
        assert said.lines == [
            f'operator got deploy: {{"error":"{LOST}"}}',
            f"operator says It came to {{'error': '{LOST}'}}.",
        ]
        assert await left.told_to_the_model() == [
            "user: Ship a",
            'model calls deploy {"version":"a"}',
            f'user got deploy: {{"error":"{LOST}"}}',
        ]
        assert left.log.lines == ([BEGAN] if kind == "ungated" else [])


# After the result is stored: the model is asked, and the tool is not run again


@pytest.mark.parametrize(
    "point",
    [
        pytest.param("after write 3", id="result stored"),
        pytest.param("in the model 2", id="model asked again"),
        pytest.param("before write 4", id="before the final text"),
    ],
)
async def test_killed_after_the_result_was_stored(store: str, app: str, tmp_path: Path, point: str) -> None:
    async with killed(store, app, tmp_path, "gated", point) as left:
        assert (await left.recovered()).lines == [LIVE]
        assert len(left.log.lines) == 2
        assert (await left.chat.approve(await left.request())).events == []
        texts = [event.text for event in await left.chat.history() if event.text]
        assert texts == ["Ship a", LIVE.removeprefix("operator says ")]
