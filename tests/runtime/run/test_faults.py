"""Random faults: a store that fails before or after a write, callers that disappear, several runners.

Whatever happens, a call runs at most once, never when it was denied, and every session comes to rest.
"""

from __future__ import annotations

import asyncio
import gc
import random
from collections import Counter

import pytest

from adk_confirm import (
    Agent,
    Answer,
    ConfirmError,
    Conflict,
    FunctionCall,
    FunctionTool,
    ModelRequest,
    Runner,
    ScriptedModel,
    StoreError,
    call,
)
from adk_confirm.runtime.calls.call import Call, CallState
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.store.database import Database, OutcomeUnknown
from tests.support.dialogue import Chat
from tests.support.waiting import until
from tests.support.watched import Watched

TERM = 0.4


@pytest.fixture
def store(either_store: str) -> str:
    return either_store


class Faults:
    """Strikes a part of all writes; half of them before, when nothing is stored, half after, when all is."""

    def __init__(self, seed: int, share: float) -> None:
        self.dice = random.Random(seed)
        self.share = share
        self.struck = 0

    async def __call__(self, when: str, what: str) -> None:
        if what not in ("write", "enter", "renew", "give_back", "release") or self.dice.random() >= self.share / 2:
            return
        self.struck += 1
        if when == "before":
            raise StoreError("The store is away: nothing was stored.")
        raise OutcomeUnknown("The connection broke: look before trying again.")


def operator(log: list[str], model: ScriptedModel | None = None) -> Agent:
    async def deploy(version: str) -> str:
        log.append(version)
        for _ in range(3):
            await asyncio.sleep(0)
        return f"{version} is live"

    def reply(request: ModelRequest) -> ScriptLine:
        last = request.contents[-1]
        words = last.text.split()
        if not any(last.responses()) and words[0] == "ship":
            return [call("deploy", version=word) for word in words[1:]]
        return "Noted."

    model = model or ScriptedModel(reply=reply)
    return Agent("operator", model, tools=[FunctionTool(deploy, require_confirmation=True)])


async def person(chats: list[Chat], seed: int, verdicts: dict[str, bool]) -> None:
    """One session, through several runners; says everything until it is heard, and vanishes now and then."""
    dice = random.Random(seed)
    names = [f"{chats[0].session}-{n}" for n in range(dice.randint(1, 3))]
    await insist(chats, dice, f"ship {' '.join(names)}")
    calls = await asked(chats[0], len(names))
    for call_id, version in calls.items():
        verdicts[version] = dice.random() < 0.7
        await insist(chats, dice, Answer(call_id, verdicts[version]))


async def insist(chats: list[Chat], dice: random.Random, said: str | Answer) -> None:
    async def attempt() -> bool:
        chat = dice.choice(chats)
        saying = asyncio.create_task(chat.say(said) if isinstance(said, str) else chat.answer(said))
        if isinstance(said, Answer) and dice.random() < 0.3:
            for _ in range(dice.randint(0, 40)):
                await asyncio.sleep(0)
            saying.cancel()
        [ended] = await asyncio.gather(saying, return_exceptions=True)
        if not isinstance(ended, BaseException):
            return True
        assert isinstance(ended, ConfirmError | asyncio.CancelledError), ended
        assert not isinstance(ended, Conflict), ended
        return isinstance(said, str) and await was_heard(chat)

    await until(attempt)


async def was_heard(chat: Chat) -> bool:
    session = await chat.runner.get_session(user_id=chat.user, session_id=chat.session)
    return session is not None and bool(session.events)


async def asked(chat: Chat, number: int) -> dict[str, str]:
    """The calls that wait, by id, as soon as there are so many."""

    async def look() -> dict[str, str] | None:
        calls = await chat.calls()
        if len(calls) == number and all(one.state is CallState.HELD for one in calls):
            return {one.id: str(one.args["version"]) for one in calls}
        return None

    return await until(look)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
async def test_faults_run_nothing_twice_and_strand_nothing(database: Database, app: str, seed: int) -> None:
    log: list[str] = []
    faults = Faults(seed, share=0.15)
    runners = [Runner(operator(log), Watched(database, faults), app_name=app, lease_term=TERM) for _ in range(2)]
    people = [[Chat(runner, f"{app}-{n}") for runner in runners] for n in range(6)]
    verdicts: dict[str, bool] = {}
    attending = [asyncio.create_task(runner.attend()) for runner in runners]
    await asyncio.gather(*(person(chats, seed * 100 + n, verdicts) for n, chats in enumerate(people)))
    assert faults.struck > 0

    faults.share = 0.0

    async def ended() -> list[Call]:
        calls = [c for chats in people for c in await runners[0].calls(user_id="ann", session_id=chats[0].session)]
        return calls if all(one.told and (one.settled or one.state is CallState.UNKNOWN) for one in calls) else []

    calls = await until(ended)
    for task in attending:
        task.cancel()
    await asyncio.wait(attending)
    ran = Counter(log)
    assert ran.total() == len(ran), "nothing ran twice"
    for one in calls:
        version = str(one.args["version"])
        if one.state is CallState.DONE:
            assert (verdicts[version], ran[version]) == (True, 1)
        elif one.state is CallState.REFUSED:
            assert (verdicts[version], ran[version]) == (False, 0)
        else:
            assert (verdicts[version], one.state) == (True, CallState.UNKNOWN)
    for chats in people:
        history = await chats[0].history()
        assert len({event.id for event in history}) == len(history)
        results = Counter(
            response.id
            for event in history
            for response in event.responses()
            if event.author == "operator" and response.id not in event.actions.requested_tool_confirmations
        )
        assert all(number == 1 for number in results.values())
        assert (await chats[1].say("Hello?")).errors == []
    for runner in runners:
        await runner.close()


async def test_an_error_for_a_sender_who_is_gone_is_not_reported_as_forgotten(database: Database, app: str) -> None:
    entering, gone = asyncio.Event(), asyncio.Event()

    async def trouble(when: str, what: str) -> None:
        if (when, what) == ("before", "enter"):
            entering.set()
            await gone.wait()
            raise StoreError("The store is away: nothing was stored.")

    forgotten: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: forgotten.append(context))
    runner = Runner(operator([]), Watched(database, trouble), app_name=app)
    saying = asyncio.create_task(Chat(runner, app).say("Hello?"))
    await entering.wait()
    saying.cancel()
    await asyncio.wait({saying})
    gone.set()
    await runner.close()
    del saying
    gc.collect()
    assert forgotten == []


async def test_a_store_that_does_not_answer_is_no_failure_of_the_model(database: Database, app: str) -> None:
    """It is away as the history is read for the model: the run goes on once it is back, and nobody reads its address
    in the thread."""
    log: list[str] = []
    away = "PostgreSQL at postgresql://bot@db/confirm can't be reached."

    async def trouble(when: str, what: str) -> None:
        if (when, what) == ("before", "read_events_and_size") and log and away not in log:
            log.append(away)
            raise StoreError(away)

    first, second = (Runner(operator(log), Watched(database, trouble), app_name=app) for _ in range(2))
    asked = await Chat(first, app).say("ship 2.4.1")
    there = Chat(second, app)  # another replica, which has nothing in memory
    with pytest.raises(StoreError):
        await there.approve(asked.request)
    assert (await there.taken_up()).lines == ["operator says Noted."]
    assert log == ["2.4.1", away]
    assert [event.error_code for event in await there.history() if event.error_code] == []
    for runner in (first, second):
        await runner.close()


async def test_what_a_model_said_outlives_a_store_that_can_not_say_which_ids_are_taken(
    database: Database, app: str
) -> None:
    async def trouble(when: str, what: str) -> None:
        if (when, what) == ("before", "known_calls"):
            raise StoreError("The store is away.")

    log: list[str] = []
    model = ScriptedModel(FunctionCall(id="c1", name="deploy", args={"version": "2.4.1"}), "Noted.")
    runner = Runner(operator(log, model), Watched(database, trouble), app_name=app)
    chat = Chat(runner)
    asked = await chat.say("ship 2.4.1")
    assert asked.errors == []
    assert (await chat.approve(asked.request)).texts == ["Noted."]
    assert log == ["2.4.1"]
    await runner.close()
