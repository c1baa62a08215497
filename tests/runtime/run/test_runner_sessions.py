"""Sessions: created, read, deleted, read again after a restart, and used by several runners of one store."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adk_confirm import (
    Agent,
    Conflict,
    Content,
    Event,
    FunctionTool,
    Invalid,
    ModelRequest,
    ModelResponse,
    NotFound,
    Part,
    Runner,
    ScriptedModel,
    call,
)
from adk_confirm.runtime.calls.model_history import ModelHistory
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.journal import SessionCache
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.stored_session import StoredSession
from adk_confirm.runtime.wire import Blob, SessionId
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat, shown

log: list[str] = []


@pytest.fixture
def store(either_store: str) -> str:
    return either_store


def deploy(version: str) -> str:
    log.append(f"deployed {version}")
    return "live"


def operator(*script: object, name: str = "operator") -> Agent:
    model = ScriptedModel(*script)  # type: ignore[arg-type]  # lines of any kind
    return Agent(name, model, tools=[FunctionTool(deploy, require_confirmation=True)])


SHIP_A = call("deploy", version="a")


# Restart


async def test_two_that_take_turns_see_what_the_other_has_heard(database: Database, app: str) -> None:
    """As behind a load balancer: a session that is warm here goes on elsewhere, and comes back."""
    agents = [operator(SHIP_A, "Here.", "It is live.", "Bye."), operator("There.", "There again.")]
    here, there = (Runner(agent, database, app_name=app) for agent in agents)
    chat = Chat(here)
    elsewhere = Chat(there, chat.session)
    request = (await chat.say("Ship a")).request
    await elsewhere.say("Who is it?")
    await chat.say("And now?")
    await elsewhere.say("And there?")
    await chat.approve(request)
    await chat.say("Bye")
    assert isinstance(agents[0].model, ScriptedModel)
    assert shown(agents[0].model.requests[-1]) == [
        "user: Ship a",
        "user: Who is it?",
        "model: There.",
        "user: And now?",
        "model: Here.",
        "user: And there?",
        "model: There again.",
        "user: The result of an earlier call has come in.",
        'model calls deploy {"version":"a"}',
        'user got deploy: {"result":"live"}',
        "model: It is live.",
        "user: Bye",
    ]
    for runner in (here, there):
        await runner.close()


# Deleting


async def test_a_deleted_session_is_gone_and_its_waiting_calls_with_it(run: MakeRunner) -> None:
    runner = run(operator(SHIP_A, "Hello."))
    chat = Chat(runner)
    request = (await chat.say("Ship a")).request
    assert await runner.delete_session(user_id=chat.user, session_id=chat.session)
    assert not await runner.delete_session(user_id=chat.user, session_id=chat.session)
    assert await runner.get_session(user_id=chat.user, session_id=chat.session) is None
    with pytest.raises(NotFound):
        await chat.approve(request)
    assert log == []


async def test_a_new_session_of_an_old_name_knows_nothing_of_it(run: MakeRunner) -> None:
    agent = operator("My secret is 7.", "Hello.")
    runner = run(agent)
    chat = Chat(runner)
    await chat.say("Tell me a secret")
    await runner.delete_session(user_id=chat.user, session_id=chat.session)
    await runner.create_session(user_id=chat.user, session_id=chat.session)
    for number in range(2):  # as many writes as the old one had seen
        await runner.update_state(user_id=chat.user, session_id=chat.session, delta={"n": number})
    await chat.say("Hello")
    assert isinstance(agent.model, ScriptedModel)
    assert shown(agent.model.requests[-1]) == ["user: Hello"]
    assert [event.text for event in await chat.history() if event.text] == ["Hello", "Hello."]


async def test_a_session_at_work_is_not_deleted(run: MakeRunner) -> None:
    running, may_end = asyncio.Event(), asyncio.Event()

    async def work() -> str:
        running.set()
        await may_end.wait()
        return "done"

    runner = run(Agent("worker", ScriptedModel(call("work"), "Done."), tools=[work]))
    chat = Chat(runner)
    working = asyncio.create_task(chat.say("Work"))
    await running.wait()
    with pytest.raises(Conflict, match="at work"):
        await runner.delete_session(user_id=chat.user, session_id=chat.session)
    may_end.set()
    assert (await working).texts == ["Done."]
    assert await runner.delete_session(user_id=chat.user, session_id=chat.session)


# Making and looking


@pytest.mark.parametrize("text", ["half a pair \ud800"])
async def test_a_history_that_cannot_be_stored_makes_no_session(run: MakeRunner, text: str) -> None:
    runner = run(operator())
    with pytest.raises(Invalid, match="Event 1 "):
        await runner.create_session(
            user_id="ann", session_id="odd", events=[Event(author="user", content=Content.of_text(text))]
        )
    assert await runner.get_session(user_id="ann", session_id="odd") is None


async def test_names_that_a_store_cannot_keep_are_refused(run: MakeRunner) -> None:
    runner = run(operator("Hello."))
    names = ("", "x" * 257, "nul\0", "half \ud800")
    for user, session in (*(("ann", name) for name in names), *((name, "s") for name in names)):
        with pytest.raises(Invalid, match="id is a text of 1 to 256 characters"):
            await Chat(runner, session or "", user).say("Hello") if session else await runner.start(
                user_id=user, session_id=session, message="Hello", create=True
            )
        with pytest.raises(Invalid):
            await runner.create_session(user_id=user, session_id=session)


@pytest.mark.parametrize("state", [{"x": "\ud800"}, {"x": float("nan")}])
async def test_state_that_cannot_be_stored_is_refused(run: MakeRunner, state: JsonObject) -> None:
    runner = run(operator("Hello."))
    chat = Chat(runner)
    for refused in (
        chat.say("Hello", state=state),
        runner.create_session(user_id=chat.user, session_id=chat.session, state=state),
        runner.update_state(user_id=chat.user, session_id=chat.session, delta=state),
    ):
        with pytest.raises(Invalid, match="cannot be written as JSON"):
            await refused
    assert await runner.get_session(user_id=chat.user, session_id=chat.session) is None


async def test_a_message_that_cannot_be_stored_is_refused(run: MakeRunner) -> None:
    chat = Chat(run(operator("Hello.")))
    with pytest.raises(Invalid, match="cannot be written as JSON"):
        await chat.say("half a pair \ud800")
    assert (await chat.say("a whole one 🎉, and \0")).texts == ["Hello."]
    assert [event.text for event in await chat.history()] == ["a whole one 🎉, and \0", "Hello."]


async def test_calls_are_listed_in_the_order_they_were_made(run: MakeRunner) -> None:
    runner = run(operator([call("deploy", version=str(n)) for n in range(3)], SHIP_A, "Done."))
    chat = Chat(runner)
    for request in (await chat.say("Ship")).requests:
        heard = await chat.deny(request)
    await chat.approve(heard.request)
    calls = await chat.calls()
    assert [(one.args["version"], str(one.state)) for one in calls] == [
        ("0", "refused"),
        ("1", "refused"),
        ("2", "refused"),
        ("a", "done"),
    ]
    assert await runner.calls(user_id="bob", session_id=chat.session) == []


# Beside each other


async def test_two_sessions_made_at_once_under_one_name_become_one(database: Database, app: str) -> None:
    runners = [Runner(operator(*["Hello."] * 10), database, app_name=app) for _ in range(2)]  # as two processes would
    heard = await asyncio.gather(*(Chat(runner, "one").say("Hi") for runner in runners for _ in range(10)))
    assert [answer.texts for answer in heard] == [["Hello."]] * 20
    assert len(await runners[0].list_sessions(user_id="ann")) == 1


async def test_several_apps_on_one_database_do_not_see_each_other(database: Database, app: str) -> None:
    one = Runner(operator(SHIP_A, "Live."), database, app_name=f"{app}-1")
    two = Runner(operator("Hello.", name="greeter"), database, app_name=f"{app}-2")
    request = (await Chat(one, "s").say("Ship a", state={"app:colour": "red"})).request
    await Chat(two, "s").say("Hello")
    with pytest.raises(NotFound):
        await Chat(two, "s").approve(request)
    assert await Chat(two, "s").state() == {}
    await two.close()
    assert (await Chat(one, "s").approve(request)).texts == ["Live."]  # the database is not `two`'s to close


async def test_a_database_that_somebody_else_opened_gets_its_tables(database_url: str) -> None:
    opened = await Database.open(database_url)
    try:
        assert (await Chat(Runner(operator("Hello."), opened)).say("Hi")).texts == ["Hello."]
    finally:
        await opened.close()


# In memory: only used if nobody changed them since, and limited in number


def stored(name: str = "s", *, key: int = 1, version: int = 1, events: int = 1, created: float = 1.0) -> StoredSession:
    return StoredSession(
        key=key,
        name=SessionId("app", "ann", name),
        opened_by="anyone",
        state={},
        shared={},
        agent="a",
        events=events,
        turn=0,
        version=version,
        created=created,
        updated=created,
    )


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 30), st.booleans()), max_size=60))
def test_what_is_kept_is_bounded_by_sessions_and_by_their_size(moves: list[tuple[str, int, bool]]) -> None:
    kept = SessionCache(most_sessions=4, most_bytes=50)
    last: dict[str, StoredSession] = {}
    sizes: dict[str, int] = {}
    for name, size, back in moves:
        live = kept.take(last.get(name, stored(name)))
        live.size = size
        live.views = {"a": ModelHistory("a")}
        if back:
            last[name], sizes[name] = live.stored, size
            kept.put(live)
        found = [name for name, session in last.items() if _is_kept(kept, session)]
        assert len(found) <= 4
        assert len(found) <= 1 or sum(sizes[name] for name in found) <= 50
        if back:
            assert name in found


class Brief:
    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:  # noqa: ARG002  (what a model is asked)
        yield ModelResponse(Content.of_text("Read.", "model"))


@pytest.mark.parametrize("either_store", ["sqlite"], indirect=True)
async def test_what_people_attached_does_not_stay_in_memory(run: MakeRunner) -> None:
    """Of fifty conversations with a file of a megabyte in each."""
    runner = run(Agent("reader", Brief()))
    tracemalloc.start()
    try:
        for number in range(50):
            file = Part(inline_data=Blob(mime_type="image/png", data=bytes([number]) * 2**20))
            await Chat(runner).say(Content(role="user", parts=[file]))
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 40 * 2**20
    finally:
        tracemalloc.stop()


def _is_kept(kept: SessionCache, session: StoredSession) -> bool:
    live = kept.take(session)
    if live.views:
        kept.put(live)
    return bool(live.views)
