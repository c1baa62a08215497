"""An attacker writes to the runner's tables without its key: no call runs but the approved one."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from adk_confirm import Agent, Answer, FunctionTool, Runner, ScriptedModel, call
from adk_confirm.runtime.calls.call import ALTERED, Approve, Begin, Call, CallState, GateKind, call_digest, step
from adk_confirm.runtime.errors import Conflict
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import owe
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.sessions import find
from adk_confirm.runtime.store.stored_session import CALL, call_key
from adk_confirm.runtime.wire import SessionId
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat
from tests.support.waiting import until

SEAL = Seal("the key that only the runner has")
paid: list[object] = []


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    paid.clear()


def pay(amount: Any) -> str:
    paid.append(amount)
    return "paid"


def payer(amount: Json, *, idempotent: bool = False) -> Agent:
    model = ScriptedModel(call("pay", amount=amount), "Done.", "Done.")
    return Agent("payer", model, tools=[FunctionTool(pay, require_confirmation=True, idempotent=idempotent)])


Sealed = tuple[Call, str]
"""A call as it is stored, and its seal."""


def rewrites(tx: Tx, name: SessionId, change: Callable[[Call, str], Sealed]) -> None:
    """What a database writer does to the session's calls; the session then seems to owe something."""
    session = find(tx, name)
    assert session is not None
    for row in tx.all("SELECT * FROM runtime_calls WHERE session = :session", session=session.key):
        after, sealed = change(CALL.validate_json(row.body), row.sealed)
        tx.run(
            "UPDATE runtime_calls SET body = :body, state = :state, sealed = :sealed WHERE session = :key AND id = :id",
            key=session.key,
            id=row.id,
            body=CALL.dump_json(after).decode(),
            state=after.state.value,
            sealed=sealed,
        )
    tx.run("UPDATE runtime_invocations SET status = 'active' WHERE session = :key", key=session.key)


def sealed(one: Call, name: SessionId, seal: Seal = SEAL) -> Sealed:
    return one, seal.of("call", call_key(name, "anyone", one.id), CALL.dump_json(one).decode())


def name_of(chat: Chat) -> SessionId:
    return SessionId(chat.runner.app_name, chat.user, chat.session)


async def held(run: MakeRunner, amount: Json = 10, **tool: bool) -> tuple[Chat, str, Call]:
    """A call that waits, under a runner that seals."""
    chat = Chat(run(payer(amount, **tool), seal=SEAL))
    request = (await chat.say("Pay")).request
    (waiting,) = await chat.calls()
    return chat, request.id, waiting


async def approve(chat: Chat, request: str, payload: Json = None) -> Call:
    run = await chat.runner.start(user_id=chat.user, session_id=chat.session, message=Answer(request, True, payload))
    [_ async for _ in run]
    (after,) = await chat.calls()
    return after


@pytest.mark.parametrize(("asked", "stored"), [(1, True), (1, 1.0), (True, 1), (1.0, 1), ("1", 1), (10, 99999)])
async def test_i_change_the_held_call(run: MakeRunner, asked: Json, stored: Json) -> None:
    """Python calls `1`, `True` and `1.0` equal, and they are three different payments."""
    chat, request, waiting = await held(run, asked)
    changed = replace(waiting, args={"amount": stored})
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda _, seal: (changed, seal))
    after = await approve(chat, request)
    assert (after.state, after.reason, paid) == (CallState.REFUSED, ALTERED, [])


async def test_i_make_it_something_that_is_not_a_number(run: MakeRunner) -> None:
    chat, request, waiting = await held(run, 10)
    changed = CALL.dump_json(waiting).decode().replace('"amount":10', '"amount":NaN')

    def writes(tx: Tx) -> None:
        tx.run("UPDATE runtime_calls SET body = :body WHERE id = :id", id=waiting.id, body=changed)

    await (await chat.runner.open()).run(writes)
    after = await approve(chat, request)
    assert (after.state, after.reason, paid) == (CallState.REFUSED, ALTERED, [])


async def test_an_approved_edit_that_does_not_fit_reaches_the_agent(run: MakeRunner) -> None:
    """Nobody waits for an error message any more: people have decided."""

    def send(amount: int) -> str:
        paid.append(amount)
        return "sent"

    model = ScriptedModel(call("send", amount=10), "It did not fit.")
    tools = [FunctionTool(send, require_confirmation=True)]
    chat = Chat(run(Agent("payer", model, tools=tools), seal=SEAL, desk="slack-"))
    request = (await chat.say("Send")).request
    started = await chat.runner.start(
        user_id=chat.user, session_id=chat.session, message=Answer(request.id, True, {"amount": "ten"})
    )
    assert [event.text async for event in started][-1] == "It did not fit."
    (after,) = await chat.calls()
    assert (after.state, paid) == (CallState.REFUSED, [])
    assert after.reason is not None
    assert "amount: Input should be a valid integer" in after.reason


@pytest.mark.parametrize("error", [KeyError("seven"), asyncio.CancelledError(), SystemExit(3), None], ids=repr)
async def test_an_approved_edit_that_breaks_a_validator_is_refused_with_a_sentence(
    run: MakeRunner, error: BaseException | None
) -> None:
    """Whatever the validator raises, or if it does not end: the conversation goes on."""

    let_go = threading.Event()

    def picky(amount: int) -> int:
        if amount == 7:
            if error is None:
                let_go.wait(30)
            else:
                raise error
        return amount

    def send(amount: int) -> str:
        paid.append(amount)
        return "sent"

    send.__annotations__["amount"] = Annotated[int, AfterValidator(picky)]
    model = ScriptedModel(call("send", amount=10), "It did not fit.", "Hello.")
    tools = [FunctionTool(send, require_confirmation=True)]
    chat = Chat(run(Agent("payer", model, tools=tools), seal=SEAL, desk="slack-", model_patience=0.5))
    request = (await chat.say("Send")).request
    assert (await chat.approve(request, {"amount": 7})).texts == ["It did not fit."]
    let_go.set()
    (after,) = await chat.calls()
    assert (after.state, paid) == (CallState.REFUSED, [])
    assert after.reason is not None
    why = "did not check them within 0.5 s" if error is None else f"could not check them ({type(error).__name__}"
    assert f"the tool {why}" in after.reason
    assert (await chat.say("Hello")).texts == ["Hello."]


async def test_what_was_approved_runs_and_an_edit_counts_to_the_letter(run: MakeRunner) -> None:
    chat = Chat(run(payer(1.0), seal=SEAL, desk="slack-"))
    request = (await chat.say("Pay")).request
    after = await approve(chat, request.id, payload={"amount": 1})
    assert after.state is CallState.DONE
    assert [repr(amount) for amount in paid] == ["1"]


def ready(waiting: Call) -> Call:
    """As a process leaves it that dies between the approval and the tool."""
    return step(waiting, Approve(), 0.0)


def dearer(one: Call) -> Call:
    """With a call_digest that fits: it has no key in it."""
    args: JsonObject = {"amount": 99999}
    return replace(one, args=args, approved=call_digest(one.tool, args))


async def take_up(chat: Chat) -> None:
    [_ async for _ in await chat.runner.take_up(user_id=chat.user, session_id=chat.session)]


async def test_what_was_approved_runs_after_a_crash(run: MakeRunner) -> None:
    """The control: it is the seal that makes the difference."""
    chat, _, waiting = await held(run)
    left = sealed(ready(waiting), name_of(chat))
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda *_: left)
    await take_up(chat)
    assert paid == [10]


OTHER = SessionId("other", "other", "other")


@pytest.mark.parametrize(
    "attack",
    [
        lambda one, seal: (ready(one), seal),
        lambda one, seal: (dearer(ready(one)), seal),
        lambda one, _: (ready(one), ""),
        lambda one, _: (ready(one), "é"),
        lambda one, _: (replace(one, state=CallState.READY, gate=GateKind.NONE, asked=()), ""),
        lambda one, _: sealed(dearer(ready(one)), OTHER),
        lambda one, _: sealed(ready(one), OTHER),
        lambda one, _: sealed(ready(one), OTHER, Seal("a key that I guessed")),
    ],
)
async def test_i_write_that_a_call_may_begin(
    run: MakeRunner, attack: Callable[[Call, str], Sealed], caplog: pytest.LogCaptureFixture
) -> None:
    chat, _, _ = await held(run)
    await (await chat.runner.open()).run(rewrites, name_of(chat), attack)
    with caplog.at_level(logging.ERROR):
        await take_up(chat)
    assert paid == []
    (after,) = await chat.calls()
    assert (after.state, after.args) == (CallState.REFUSED, {})
    assert "changed the database" in caplog.text


@pytest.mark.parametrize("state", list(CallState))
@pytest.mark.parametrize("seal", ["", "0" * 64])
async def test_a_call_without_a_seal_that_fits_is_no_call(run: MakeRunner, state: CallState, seal: str) -> None:
    """Whatever state it seems to be in: nobody sees it, and nobody can answer it so that it runs."""
    chat, request, waiting = await held(run)
    database = await chat.runner.open()
    await database.run(rewrites, name_of(chat), lambda one, _: (replace(one, state=state), seal))
    assert await chat.calls() == []
    with suppress(Conflict):  # some of these have ended
        [_ async for _ in await chat.runner.start(
            user_id=chat.user, session_id=chat.session, message=Answer(request, True)
        )]  # fmt: skip
    with suppress(Conflict):
        await chat.settle(waiting.id, "run again")
    await take_up(chat)
    assert paid == []


@pytest.mark.parametrize("state", [CallState.RUNNING, CallState.UNKNOWN])
async def test_what_i_changed_after_it_began_is_unknown_and_never_sealed_again(
    run: MakeRunner, state: CallState
) -> None:
    chat, _, waiting = await held(run)
    begun = replace(step(ready(waiting), Begin(), 0.0), state=state)
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda *_: (dearer(begun), ""))
    await take_up(chat)
    (after,) = await chat.calls()
    assert (after.state, after.args) == (CallState.UNKNOWN, {})
    await chat.settle(waiting.id, "run again", 1)
    (after,) = await chat.calls()
    assert (after.state, after.args, paid) == (CallState.REFUSED, {}, [])


async def test_i_change_what_ran_when_its_process_died(run: MakeRunner) -> None:
    """The tool may run again by itself, since it is idempotent; not with other arguments, though."""
    chat, _, waiting = await held(run, idempotent=True)
    running, seal = sealed(step(ready(waiting), Begin(), 0.0), name_of(chat))
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda *_: (dearer(running), seal))
    await take_up(chat)
    (after,) = await chat.calls()
    assert (after.state, paid) == (CallState.UNKNOWN, [])


class Meddling:
    """Its tools are asked for once more between the approval's transaction and the tool's start."""

    def __init__(self) -> None:
        self.meddle: Callable[[], Awaitable[None]] | None = None

    async def tools(self) -> Sequence[FunctionTool]:
        if self.meddle is not None:
            await self.meddle()
        return [FunctionTool(pay, require_confirmation=True)]

    async def close(self) -> None: ...


@pytest.mark.parametrize("seal", [SEAL, None], ids=["sealed", "without a key"])
async def test_i_change_it_after_the_comparison_and_before_the_tool(run: MakeRunner, seal: Seal | None) -> None:
    meddling = Meddling()
    model = ScriptedModel(call("pay", amount=10), "Done.")
    chat = Chat(run(Agent("payer", model, tools=[meddling]), seal=seal))
    request = (await chat.say("Pay")).request
    database = await chat.runner.open()

    async def meddle() -> None:
        await database.run(rewrites, name_of(chat), lambda one, before: (dearer(one), before))

    meddling.meddle = meddle
    after = await approve(chat, request.id)
    assert (after.state, after.args, paid) == (CallState.DONE, {"amount": 10}, [10])


async def test_a_runner_without_a_key_seals_nothing(run: MakeRunner) -> None:
    chat = Chat(run(payer(10)))
    await chat.approve((await chat.say("Pay")).request)
    database = await chat.runner.open()
    found = "SELECT c.sealed FROM runtime_calls c JOIN runtime_sessions s ON s.key = c.session WHERE s.app = :app"
    assert (await database.read(lambda tx: tx.column(found, app=chat.runner.app_name)), paid) == ([""], [10])


async def test_i_say_that_a_desk_s_session_is_anybody_s(run: MakeRunner) -> None:
    """And I answer it through an API on the same store, which has the secret as well."""
    desk = Chat(run(payer(99_999), seal=SEAL, desk="slack-"))
    request = (await desk.say("Pay")).request

    def lies(tx: Tx) -> None:
        tx.run("UPDATE runtime_sessions SET opened_by = 'anyone' WHERE id = :id", id=desk.session)
        tx.run("DELETE FROM adk_confirm_store WHERE name = :name", name=f"desk {desk.runner.app_name}")

    await (await desk.runner.open()).run(lies)
    await desk.runner.close()
    api = Agent("payer", ScriptedModel("Done."), tools=[FunctionTool(pay, require_confirmation=True)])
    after = await approve(Chat(run(api, seal=SEAL), desk.session, desk.user), request.id)
    assert (after.state, paid) == (CallState.REFUSED, [])


async def test_i_have_another_app_go_on_with_a_session(run: MakeRunner, store: str) -> None:
    """Its tools may have the same names, and do something else."""
    chat, _, waiting = await held(run, idempotent=True)
    name, running = name_of(chat), step(step(waiting, Approve(), 1.0), Begin(), 2.0)
    elsewhere = f"not {name.app}"
    await (await chat.runner.open()).run(rewrites, name, lambda *_: sealed(running, name))
    await chat.runner.close()
    async with Runner(payer(1, idempotent=True), store, app_name=elsewhere, seal=SEAL) as other:
        database = await other.open()
        found = await database.read(find, name)
        assert found is not None
        await database.run(owe, f"anyone:{elsewhere}", str(found.key))
        attending = asyncio.create_task(other.attend())
        due = "SELECT 1 FROM jobs WHERE kind = :kind AND (due_at IS NOT NULL OR lease_token IS NOT NULL)"

        async def is_over() -> bool:
            return bool(paid) or await database.read(lambda tx: tx.first(due, kind=f"anyone:{elsewhere}")) is None

        await until(is_over)
        attending.cancel()
    assert paid == []
