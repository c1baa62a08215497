"""Each call runs exactly once, however often and from wherever it is answered. The tools' log proves it."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from adk_confirm import (
    Agent,
    Answer,
    Busy,
    Conflict,
    FunctionTool,
    ModelRequest,
    Runner,
    ScriptedModel,
    call,
    requests_in,
)
from adk_confirm.runtime.models.scripted import ScriptLine
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat, Heard
from tests.support.kill import child, here
from tests.support.waiting import until


@pytest.fixture
def store(either_store: str) -> str:
    return either_store


class Log:
    """Written by all processes at once: each line is one append, and stays if its process dies."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def write(self, line: str) -> None:
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{line}\n".encode())
        os.close(file)

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(tmp_path / "log")


def operator(log: Log, waits: asyncio.Event | None = None) -> Agent:
    """Deploys what it is asked to, one gated call for each word, and says so in the end."""

    async def deploy(version: str) -> str:
        log.write(f"deployed {version}")
        if waits is not None:
            await waits.wait()
        await asyncio.sleep(0)
        return f"{version} is live"

    def reply(request: ModelRequest) -> ScriptLine:
        last = request.contents[-1]
        if any(last.responses()):
            return "Settled."
        words = last.text.split()
        if words[0] != "ship":
            return f"You said {last.text}."
        return [call("deploy", version=word) for word in words[1:]]

    return Agent("operator", ScriptedModel(reply=reply), tools=[FunctionTool(deploy, require_confirmation=True)])


async def outcomes(answers: list[asyncio.Task[Heard]]) -> list[Heard | BaseException]:
    return await asyncio.gather(*answers, return_exceptions=True)


# One process


async def test_the_same_answer_fifty_times_at_once_runs_once(run: MakeRunner, log: Log) -> None:
    chat = Chat(run(operator(log)))
    request = (await chat.say("ship a")).request
    heard_by_all = await asyncio.gather(*(chat.approve(request) for _ in range(50)))
    assert log.lines == ["deployed a"]
    spoke = [one for one in heard_by_all if one.events]
    assert [one.texts for one in spoke] == [["Settled."]]
    history = await chat.history()
    assert [event.text for event in history if event.text] == ["ship a", "Settled."]
    assert len([r for event in history if event.author == "user" for r in event.responses()]) == 1


async def test_approve_and_deny_at_once_come_to_one_decision(run: MakeRunner, log: Log) -> None:
    runner = run(operator(log))
    for _ in range(3):
        log.path.unlink(missing_ok=True)
        chat = Chat(runner)
        request = (await chat.say("ship a")).request
        answers = [asyncio.create_task(chat.answer(Answer(request.id, verdict))) for verdict in (True, False) * 10]
        ended = await outcomes(answers)
        conflicts = [one for one in ended if isinstance(one, Conflict)]
        spoke = [one for one in ended if isinstance(one, Heard) and one.events]
        assert (len(conflicts), len(spoke)) == (10, 1)
        approved = log.lines == ["deployed a"]
        assert approved or log.lines == []
        result = spoke[0].result("deploy")
        assert result == ({"result": "a is live"} if approved else {"error": "tool call was rejected by the user"})


async def test_a_chat_message_mid_run_disturbs_nothing(run: MakeRunner, log: Log) -> None:
    may_end = asyncio.Event()
    chat = Chat(run(operator(log, may_end)))
    request = (await chat.say("ship a")).request
    approving = asyncio.create_task(chat.approve(request))
    await until(lambda: log.lines)
    talking = [asyncio.create_task(chat.say(f"hello {n}")) for n in range(5)]
    again = asyncio.create_task(chat.approve(request))
    may_end.set()
    assert (await approving).texts == ["Settled."]
    assert (await again).events == []
    assert [(await one).texts for one in talking] == [[f"You said hello {n}."] for n in range(5)]
    assert log.lines == ["deployed a"]


# Several processes on one PostgreSQL


async def answer_from_here(url: str, app: str, log: str, session: str, verdict: str, times: str) -> None:
    """In a process of its own: the same answer, many times at once."""
    async with Runner(operator(Log(log)), url, app_name=app) as runner:
        chat = Chat(runner, session)
        requests = [request for event in await chat.history() for request in requests_in(event)]
        here("ready")
        answers = [Answer(request.id, verdict == "approve") for request in requests]
        tasks = [asyncio.create_task(chat.answer(*answers)) for _ in range(int(times))]
        ended = await outcomes(tasks)
        strange = [one for one in ended if not isinstance(one, Heard | Conflict)]
        assert strange == []
        print(f"spoke {len([one for one in ended if isinstance(one, Heard) and one.events])}")
        print(f"conflicts {len([one for one in ended if isinstance(one, Conflict)])}")


@pytest.mark.parametrize("verdicts", [("approve", "approve"), ("approve", "deny")])
async def test_two_processes_with_the_same_request_run_it_once(
    postgres_stocked: str, app: str, log: Log, verdicts: tuple[str, str]
) -> None:
    async with Runner(operator(log), postgres_stocked, app_name=app) as runner:
        chat = Chat(runner)
        await chat.say("ship a b")
        arguments = [(postgres_stocked, app, str(log.path), chat.session, verdict, "25") for verdict in verdicts]
        async with child(answer_from_here, *arguments[0]) as one, child(answer_from_here, *arguments[1]) as other:
            await asyncio.gather(one.reached("ready"), other.reached("ready"))
            one.go_on()
            other.go_on()
            said = await asyncio.gather(one.finished(), other.finished())
        spoke = [int(line.removeprefix("spoke ")) for lines in said for line in lines if line.startswith("spoke")]
        assert sum(spoke) == 1
        conflicts = [int(line.removeprefix("conflicts ")) for lines in said for line in lines if "conflicts" in line]
        assert sum(conflicts) == (25 if len(set(verdicts)) == 2 else 0)
        history = await chat.history()
        assert [event.text for event in history if event.text] == ["ship a b", "Settled."]
        won = verdicts[0] if len(set(verdicts)) == 1 else verdicts[spoke.index(1)]
        assert sorted(log.lines) == (["deployed a", "deployed b"] if won == "approve" else [])


async def work_here(url: str, app: str, log: str, session: str, term: str) -> None:
    """In a process of its own: an approved tool that stands still at a point."""

    def deploy(version: str) -> str:
        Log(log).write(f"deployed {version}")
        here("in the tool")
        return f"{version} is live"

    agent = operator(Log(log))
    agent.tools = [FunctionTool(deploy, require_confirmation=True)]
    async with Runner(agent, url, app_name=app, lease_term=float(term)) as runner:
        chat = Chat(runner, session)
        request = (await chat.say("ship a")).request
        try:
            print(*(await chat.approve(request)).texts)
        except Busy as error:
            print(error)


async def test_a_second_process_waits_for_the_first(postgres_stocked: str, app: str, log: Log) -> None:
    session = "waiting"
    async with (
        Runner(operator(log), postgres_stocked, app_name=app) as runner,
        child(work_here, postgres_stocked, app, str(log.path), session, "5") as first,
    ):
        await first.reached("in the tool")
        chat = Chat(runner, session)
        talking = asyncio.create_task(chat.say("hello"))
        request = next(request for event in await chat.history() for request in requests_in(event))
        again = asyncio.create_task(chat.approve(request))
        done, _ = await asyncio.wait([talking, again], timeout=0.5)
        assert not done
        first.go_on()
        assert await first.finished() == ["Settled."]
        assert (await again).events == []
        assert (await talking).texts == ["You said hello."]
    assert log.lines == ["deployed a"]


async def test_a_process_that_was_frozen_beyond_its_lease_can_write_nothing(
    postgres_stocked: str, app: str, log: Log
) -> None:
    session = "frozen"
    async with (
        Runner(operator(log), postgres_stocked, app_name=app) as runner,
        child(work_here, postgres_stocked, app, str(log.path), session, "1") as frozen,
    ):
        await frozen.reached("in the tool")
        os.kill(frozen.pid, signal.SIGSTOP)
        chat = Chat(runner, session)
        said = await chat.say("hello")  # waits until the lease has lapsed
        assert said.errors == ["OUTCOME_UNKNOWN"]
        assert said.texts == ["You said hello."]
        before = await chat.history()

        os.kill(frozen.pid, signal.SIGCONT)
        frozen.go_on()
        assert await frozen.finished() == [
            "Another process took over; look at the session again before trying once more."
        ]
        assert await chat.history() == before
        (unknown,) = await chat.calls()
        assert (await chat.settle(unknown.id, "it happened")).texts == ["Settled."]
    assert log.lines == ["deployed a"]
