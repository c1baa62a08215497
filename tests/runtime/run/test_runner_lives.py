"""Runs go on without their callers, and end when the runner closes, the store fails or the lease is lost."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import pytest
from pydantic import AfterValidator

from adk_confirm import (
    Agent,
    Answer,
    Busy,
    FunctionTool,
    ModelRequest,
    ModelResponse,
    Runner,
    ScriptedModel,
    StoreError,
    call,
)
from adk_confirm.runtime.run.arrival import RunControl
from adk_confirm.runtime.run.sequencer import Run
from adk_confirm.runtime.store.database import Database, OutcomeUnknown
from adk_confirm.runtime.store.lease import Lease
from tests.runtime.conftest import MakeRunner
from tests.support.counting import counted_work
from tests.support.dialogue import Chat, heard, lines_of, shown
from tests.support.forked import ROOT
from tests.support.stores import a_lease
from tests.support.waiting import until
from tests.support.watched import Watched, When

log: list[str] = []

FROZEN = 0.3
TAKE_OVER = """
    UPDATE jobs SET lease_token = 'another'
    WHERE key IN (SELECT CAST(key AS TEXT) FROM runtime_sessions WHERE app = :app AND id = :id)
"""


@pytest.fixture
def store(either_store: str) -> str:
    return either_store


def slowly(text: str) -> str:
    time.sleep(FROZEN)
    return text


class Work:
    """A tool that runs until it is told to end."""

    def __init__(self) -> None:
        self.running, self.may_end = asyncio.Event(), asyncio.Event()

    async def work(self) -> str:
        log.append("began")
        self.running.set()
        await self.may_end.wait()
        log.append("ended")
        return "done"

    def worker(self, *after: str, gated: bool = True) -> Agent:
        tools = [FunctionTool(self.work, require_confirmation=gated)]
        return Agent("worker", ScriptedModel(call("work"), *after), tools=tools)


def greeter() -> Agent:
    return Agent("greeter", ScriptedModel(reply=lambda request: f"Hello {len(request.contents)}."))


# Callers that go away


async def test_a_caller_may_be_cancelled_at_any_moment(run: MakeRunner) -> None:
    runner = run(greeter())
    await runner.open()
    for steps in (*range(12), 15, 20, 30, 50, 100):
        chat = Chat(runner)
        starting = asyncio.create_task(chat.start("One"))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait([starting])
        async with asyncio.timeout(5):
            await chat.say("Two")
        texts = [event.text for event in await chat.history()]
        assert texts in (["One", "Hello 1.", "Two", "Hello 3."], ["Two", "Hello 1."]), steps


async def test_who_comes_late_or_twice_still_hears_everything(run: MakeRunner) -> None:
    chat = Chat(run(greeter()))
    started = await chat.start("Hi")
    await chat.say("Hi again")  # which comes after
    assert started.ended
    assert (await heard(started)).texts == ["Hello 1."]
    assert (await heard(started)).texts == []


# Runners that close


async def test_a_closing_runner_lets_runs_end_that_end_soon(run: MakeRunner) -> None:
    work = Work()
    chat = Chat(run(work.worker("Finished.")))
    request = (await chat.say("Work")).request
    answered = await chat.start(Answer(request.id, True).as_content())
    await work.running.wait()
    closing = asyncio.create_task(chat.runner.close())
    await asyncio.sleep(0)
    with pytest.raises(Busy, match="closing"):
        await chat.say("One more thing")
    work.may_end.set()
    await closing
    assert (await heard(answered)).texts == ["Finished."]


@pytest.mark.parametrize("gated", [True, False])
async def test_a_runner_that_closes_on_a_running_tool_leaves_its_call_to_the_next(run: MakeRunner, gated: bool) -> None:
    work = Work()
    chat = Chat(run(work.worker("Said later.", gated=gated)))
    if gated:
        request = (await chat.say("Work")).request
        running = await chat.start(Answer(request.id, True).as_content())
    else:
        running = await chat.start("Work")
    await work.running.wait()
    await chat.runner.close(patience=0)
    with pytest.raises(Busy, match="closed before the run ended"):
        await heard(running)

    lines = (await chat.taken_up()).lines
    if gated:
        assert [line.partition(":")[0] for line in lines] == ["worker fails OUTCOME_UNKNOWN"]
    else:
        assert lines == [
            'worker got work: {"error":"The process stopped while this tool ran; its result is lost."}',
            "worker says Said later.",
        ]
    assert (await chat.taken_up()).events == []
    assert log == ["began"]


async def test_a_thread_that_a_closed_runner_leaves_keeps_its_session_until_it_ends(
    database: Database, app: str
) -> None:
    may_end = threading.Event()

    def work() -> str:
        log.append("began")
        may_end.wait(20)
        log.append("ended")
        return "done"

    agent = Agent("worker", ScriptedModel(call("work"), "Finished."), tools=[FunctionTool(work, idempotent=True)])
    chat = Chat(Runner(agent, database, app_name=app, lease_term=0.3))
    await chat.start("Work")
    await until(lambda: log)
    await chat.runner.close(patience=0)
    async with Runner(agent, database, app_name=app) as other:
        attending = asyncio.create_task(other.attend())
        with counted_work() as counted:
            await until(lambda: counted["renew"] > 5 or len(log) > 1)  # by then a lease that nobody renews has ended
            assert log == ["began"]
            may_end.set()
            await until(lambda: log == ["began", "ended"] * 2)
        attending.cancel()
        await asyncio.wait([attending])


async def test_a_caller_that_waits_when_the_runner_closes_gets_an_error(run: MakeRunner) -> None:
    work = Work()
    chat = Chat(run(work.worker()))
    request = (await chat.say("Work")).request
    await chat.start(Answer(request.id, True).as_content())
    await work.running.wait()
    waiting = asyncio.create_task(chat.say("Hello?"))
    for _ in range(10):
        await asyncio.sleep(0)
    await chat.runner.close(patience=0)
    with pytest.raises(Busy, match="look at the session before sending again"):
        await waiting


def test_a_runner_belongs_to_one_event_loop(sqlite_url: str) -> None:
    runner = Runner(greeter(), sqlite_url)
    chat = Chat(runner)

    async def twice() -> None:
        await chat.say("Hi")
        await runner.close()
        await chat.say("Hi again")

    asyncio.run(twice())

    async def once_more() -> None:
        await chat.say("Hello?")

    with pytest.raises(StoreError, match="another event loop"):
        asyncio.run(once_more())


def test_a_script_that_closes_nothing_ends_all_the_same(sqlite_url: str) -> None:
    script = f"""
import asyncio
from adk_confirm import Agent, Runner, ScriptedModel

async def main():
    for store in ("sqlite://", {sqlite_url!r}):
        runner = Runner(Agent("a", ScriptedModel("Hello.")), store)
        async for event in runner.run(user_id="u", session_id="s", message="Hi"):
            print(event.text)

asyncio.run(main())
"""
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Hello.\nHello.\n", "")


# Stores in trouble


class Trouble:
    """Fails the writes it is told to: before they happen, or after, when nobody knows whether they did."""

    def __init__(self) -> None:
        self.before: list[Exception] = []
        self.after: list[Exception] = []
        self.renewals = True

    async def __call__(self, when: str, what: str) -> None:
        failures = self.before if when == "before" else self.after
        if failures and (what == "write" or (what == "renew" and not self.renewals)):
            raise failures.pop(0)


async def at_work(database: Database, app: str) -> tuple[Work, Trouble, Chat, Run]:
    """An approved run whose tool is at work."""
    work, trouble = Work(), Trouble()
    agent = work.worker("Finished.", "Hello.")
    chat = Chat(Runner(agent, Watched(database, trouble), app_name=app, lease_term=0.6))
    request = (await chat.say("Work")).request
    running = await chat.start(Answer(request.id, True).as_content())
    await work.running.wait()
    return work, trouble, chat, running


FINISHED = ['worker got work: {"result":"done"}', "worker says Finished."]


async def test_a_result_is_not_lost_when_the_store_is_away_for_a_moment(database: Database, app: str) -> None:
    work, trouble, chat, running = await at_work(database, app)
    trouble.before = [StoreError("away"), Busy("too much to do")]
    work.may_end.set()
    assert (await heard(running)).lines == FINISHED
    assert log == ["began", "ended"]
    await chat.runner.close()


async def test_a_write_whose_outcome_was_unknown_is_not_written_twice(database: Database, app: str) -> None:
    work, trouble, chat, running = await at_work(database, app)
    trouble.after = [OutcomeUnknown("cut"), OutcomeUnknown("cut again")]
    work.may_end.set()
    assert (await heard(running)).lines == FINISHED
    history = await chat.history()
    assert len({event.id for event in history}) == len(history)
    assert [line for event in history for line in lines_of(event)][-2:] == FINISHED
    assert (await chat.say("Hello")).texts == ["Hello."]
    await chat.runner.close()


async def test_a_store_that_stays_away_ends_the_run_and_the_call_is_unknown(
    database: Database, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adk_confirm.runtime.run.journal._PAUSES", (0.05, 0.2))
    work, trouble, chat, running = await at_work(database, app)
    trouble.before = [StoreError("away")] * 50
    trouble.renewals = False
    work.may_end.set()
    with pytest.raises(StoreError, match="away"):
        await heard(running)
    trouble.before.clear()
    assert (await chat.taken_up()).errors == ["OUTCOME_UNKNOWN"]
    assert log == ["began", "ended"]
    await chat.runner.close()


@pytest.mark.parametrize("whole_machine", [False, True])
async def test_a_tool_does_not_begin_when_its_process_was_frozen_after_the_intent(
    database: Database, app: str, monkeypatch: pytest.MonkeyPatch, *, whole_machine: bool
) -> None:
    """If the whole machine was paused, only its wall clock says so."""
    intents: list[str] = []

    async def freeze(when: str, what: str) -> None:
        if (when, what) != ("after", "write"):
            return
        intents.append(what)
        if len(intents) == 2:  # the first write stored the request
            await database.run(lambda tx: tx.run(TAKE_OVER, app=app, id=chat.session))
            if whole_machine:
                monkeypatch.setattr(watched, "clock", lambda: time.time() + FROZEN)
            else:
                time.sleep(FROZEN)  # nothing of this process goes on, and no lease is renewed

    watched = Watched(database, freeze)
    chat = Chat(Runner(Work().worker(), watched, app_name=app, lease_term=2 * FROZEN))
    request = (await chat.say("Work")).request
    with pytest.raises(Busy, match="Another process took over"):
        await chat.approve(request)
    assert log == []
    await chat.runner.close()


async def test_nor_when_its_process_was_frozen_as_another_of_the_same_turn_began(database: Database, app: str) -> None:
    async def first() -> None:
        log.append("first")
        time.sleep(FROZEN)  # nothing of this process goes on

    async def second() -> None:
        log.append("second")

    async def take_over(when: str, what: str) -> None:
        if (when, what) == ("after", "write"):
            await database.run(lambda tx: tx.run(TAKE_OVER, app=app, id=chat.session))

    agent = Agent("worker", ScriptedModel([call("first"), call("second")]), tools=[first, second])
    chat = Chat(Runner(agent, Watched(database, take_over), app_name=app, lease_term=2 * FROZEN))
    with pytest.raises(Busy, match="Another process took over"):
        await chat.say("Work")
    assert log == ["first"]
    await chat.runner.close()


async def test_a_tool_begins_though_its_arguments_take_long_to_bind(database: Database, app: str) -> None:
    async def write(text: Annotated[str, AfterValidator(slowly)]) -> None:
        log.append(text)

    agent = Agent("worker", ScriptedModel(call("write", text="begun"), "Written."), tools=[write])
    chat = Chat(Runner(agent, database, app_name=app, lease_term=2 * FROZEN))
    async with asyncio.timeout(20):
        await chat.say("Work")
    assert log == ["begun"]
    await chat.runner.close()


async def test_a_tool_that_begins_under_a_lease_that_lapsed_is_not_begun_elsewhere(
    database: Database, app: str
) -> None:
    """The store was away for longer than a lease. As it is back, a tool begins before its lease is renewed, and another
    process looks for what is left. Nothing has come of the tool yet, and it says so itself."""
    intents: list[str] = []

    async def lapse(when: str, what: str) -> None:
        if (when, what) == ("before", "write"):
            intents.append(what)
            if len(intents) == 2:  # the first write stored the request
                await database.run(lambda tx: tx.run("UPDATE jobs SET lease_until = 1.0"))

    work = Work()
    tools = [FunctionTool(work.work, require_confirmation=True, verify=lambda: False)]
    agent = Agent("worker", ScriptedModel(call("work"), "Finished."), tools=tools)
    chat = Chat(Runner(agent, Watched(database, lapse), app_name=app))
    request = (await chat.say("Work")).request
    running = await chat.start(Answer(request.id, True).as_content())
    await work.running.wait()
    async with Runner(agent, database, app_name=app) as other:
        with counted_work() as counted:
            attending = asyncio.create_task(other.attend())
            await until(lambda: counted["claim_due"])
            await asyncio.wait({attending}, timeout=0.3)
        assert log == ["began"]
        attending.cancel()
        await asyncio.wait([attending])
    work.may_end.set()
    assert (await heard(running)).lines == FINISHED
    await chat.runner.close()


# What is taken up


async def start(chat: Chat, words: str, mark: str | None = None, held: Lease | None = None) -> Run:
    return await chat.runner.start(
        user_id=chat.user, session_id=chat.session, message=words, mark=mark, create=True, control=RunControl(held=held)
    )


@asynccontextmanager
async def left_by_another(
    database: Database, app: str, *script: str, mark: str | None = None
) -> AsyncIterator[tuple[Chat, ScriptedModel]]:
    """A session that a runner left in the middle of a tool's run, another runner, and its model."""
    work, model = Work(), ScriptedModel(*script)
    first = Chat(Runner(work.worker(gated=False), database, app_name=app))
    await start(first, "Work", mark)
    await work.running.wait()
    await first.runner.close(patience=0)
    async with Runner(Agent("worker", model, tools=[work.work]), database, app_name=app) as second:
        yield Chat(second, first.session), model


async def test_a_message_goes_on_with_what_a_crash_has_left_and_the_model_sees_both(
    database: Database, app: str
) -> None:
    async with left_by_another(database, app, "It broke; hello.") as (chat, model):
        said = await chat.say("Hello")
    lost = 'got work: {"error":"The process stopped while this tool ran; its result is lost."}'
    assert said.lines == [f"worker {lost}", "worker says It broke; hello."]
    assert shown(model.requests[0]) == ["user: Work", "user: Hello", "model calls work {}", f"user {lost}"]


async def test_the_same_words_under_one_mark_are_stored_once(database: Database, app: str) -> None:
    async with left_by_another(database, app, "I lost it.", "Hello.", mark="m1") as (chat, _):
        assert (await heard(await start(chat, "Work", "m1"))).texts == ["I lost it."]
        assert (await heard(await start(chat, "Work", "m1"))).events == []
        assert (await heard(await start(chat, "Work", "m2"))).texts == ["Hello."]
        assert [event.text for event in await chat.history() if event.author == "user"] == ["Work", "Work"]


@pytest.mark.parametrize("known", [True, False], ids=["in memory", "read again"])
async def test_what_its_sender_keeps_is_stored_with_the_answer_and_once(
    database: Database, app: str, known: bool
) -> None:
    """A run breaks off while the model thinks: its message is said again, and stands there once for the model too."""
    thinking, model = asyncio.Event(), ScriptedModel("Hello.", "Hello again.", "What did you say?")

    class Thoughtful(ScriptedModel):
        async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
            thinking.set()
            await asyncio.Event().wait()
            async for response in super().generate(request):
                yield response

    def runner(of: ScriptedModel) -> Runner:
        return Runner(Agent("greeter", of), database, app_name=app)

    held, first, thoughtful = await a_lease(database, app), Chat(runner(model)), Chat(runner(Thoughtful()))
    thoughtful.session = first.session
    await heard(await start(first, "One", "m1", held))
    await held.write_carried()
    broken = await start(thoughtful, "Two", "m2", held)
    await thinking.wait()
    assert [event.text for event in await first.history()] == ["One", "Hello."]
    await broken.close()
    again = first if known else Chat(runner(model), first.session)
    await heard(await start(again, "Two", "m2", held))
    await heard(await start(again, "Three", "m3", held))
    await held.write_carried()  # as with the sender's next transaction
    said = ["One", "Hello.", "Two", "Hello again.", "Three", "What did you say?"]
    assert [event.text for event in await first.history()] == said
    assert [content.text for content in model.requests[-1]] == said[:-1]
    for chat in (first, thoughtful, again):
        await chat.runner.close()


async def test_a_session_at_work_is_not_taken_up(database: Database, app: str) -> None:
    work = Work()
    first = Chat(Runner(work.worker("Finished.", gated=False), database, app_name=app, lease_term=0.3))
    running = await first.start("Work")
    await work.running.wait()
    second = Runner(greeter(), database, app_name=app, lease_term=0.3)
    looks = list[str]()

    async def note(when: When, what: str) -> None:
        looks.extend([what] if (when, what) == ("after", "claim_due") else [])

    runners = [Runner(r.agent, Watched(database, note), app_name=app, lease_term=0.3) for r in (first.runner, second)]
    attending = [asyncio.create_task(runner.attend()) for runner in (first.runner, *runners)]
    await until(lambda: len(looks) > 6)
    work.may_end.set()
    assert (await heard(running)).texts == ["Finished."]
    for task in attending:
        task.cancel()
    await asyncio.wait(attending)


async def test_a_runner_that_stood_still_takes_nothing_from_itself(database: Database, app: str) -> None:
    """Its lease has lapsed, and nobody else was there."""
    work = Work()
    chat = Chat(Runner(work.worker("Finished.", gated=False), database, app_name=app))
    running = await chat.start("Work")
    await work.running.wait()
    await database.run(lambda tx: tx.run("UPDATE jobs SET lease_until = 1.0 WHERE kind = :kind", kind=f"anyone:{app}"))
    attending = asyncio.create_task(chat.runner.attend())
    for _ in range(5):
        await database.read(lambda tx: tx.now())
    work.may_end.set()
    assert (await heard(running)).texts == ["Finished."]
    attending.cancel()
    await asyncio.wait([attending])


@pytest.mark.parametrize("marred", ["DELETE FROM jobs", "UPDATE jobs SET due_at = NULL, parked_at = 1.0"])
async def test_work_is_found_whose_job_is_gone_or_parked(database: Database, app: str, marred: str) -> None:
    async with left_by_another(database, app, "I lost it.") as (chat, _):
        await database.run(lambda tx: tx.run(f"{marred} WHERE kind = :kind", kind=f"anyone:{app}"))
        assert (await chat.taken_up()).texts == ["I lost it."]
