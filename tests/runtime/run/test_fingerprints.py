"""An attacker writes to the runner's tables without its key: no call runs but the approved one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from bot.audit.fingerprint import Fingerprints
from runtime import Agent, Answer, FunctionTool, ScriptedModel, call
from runtime.calls.call import ALTERED, Approve, Approved, Begin, Call, CallState, GateKind, call_digest, step
from runtime.jsontypes import Json, JsonObject
from runtime.run.fingerprints import CallFingerprints, CallGuard, Sealer
from runtime.store.database import Tx
from runtime.store.lookup import read_calls
from runtime.store.records import CALL, InvocationStatus, SessionId
from runtime.store.sessions import find
from runtime.store.tables import calls, invocations
from tests.runtime.conftest import MakeRunner
from tests.support.dialogue import Chat

pytestmark = pytest.mark.every_case

SEALER = Fingerprints("the key that only the runner has", "stored call").of
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


def rewrites(tx: Tx, name: SessionId, change: Callable[[Call], Call]) -> None:
    """What a database writer does to the session's calls; the session then seems to owe something."""
    session = find(tx, name)
    assert session is not None
    for one in read_calls(tx, session.key):
        after = change(one)
        here = (calls.c.session == session.key, calls.c.id == one.id)
        tx.execute(update(calls).where(*here).values(body=CALL.dump_json(after).decode(), state=after.state.value))
    owing = update(invocations).where(invocations.c.session == session.key)
    tx.execute(owing.values(status=InvocationStatus.ACTIVE.value))


def name_of(chat: Chat) -> SessionId:
    return SessionId(chat.runner.app_name, chat.user, chat.session)


async def held(run: MakeRunner, amount: Json = 10, **tool: bool) -> tuple[Chat, str, Call]:
    """A call that waits, under a runner that seals."""
    chat = Chat(run(payer(amount, **tool), guard=CallGuard(SEALER)))
    request = (await chat.say("Pay")).request
    (waiting,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    return chat, request.id, waiting


async def approve(chat: Chat, request: str, waiting: Call, approved: JsonObject, payload: Json = None) -> Call:
    """What the desk does with what people saw."""
    about = Approved(waiting.id, "pay", approved)
    run = await chat.runner.start(
        user_id=chat.user,
        session_id=chat.session,
        message=Answer(request, True, payload),
        approved={request: about},
    )
    [_ async for _ in run]
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    return after


@pytest.mark.parametrize(("asked", "stored"), [(1, True), (1, 1.0), (True, 1), (1.0, 1), ("1", 1), (10, 99999)])
async def test_i_change_the_held_call(run: MakeRunner, asked: Json, stored: Json) -> None:
    """Python calls `1`, `True` and `1.0` equal, and they are three different payments."""
    chat, request, waiting = await held(run, asked)
    changed = replace(waiting, args={"amount": stored}, seal=None)  # an older runner would have left it without a seal
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda _: changed)
    after = await approve(chat, request, waiting, {"amount": asked})
    assert (after.state, after.reason, paid) == (CallState.REFUSED, ALTERED, [])


async def test_i_make_it_something_that_is_not_a_number(run: MakeRunner) -> None:
    chat, request, waiting = await held(run, 10)
    changed = CALL.dump_json(waiting).decode().replace('"amount":10', '"amount":NaN')

    def writes(tx: Tx) -> None:
        tx.execute(update(calls).where(calls.c.id == waiting.id).values(body=changed))

    await (await chat.runner.open()).run(writes)
    after = await approve(chat, request, waiting, {"amount": 10})
    assert (after.state, after.reason, paid) == (CallState.REFUSED, ALTERED, [])


async def test_an_approved_edit_that_does_not_fit_reaches_the_agent(run: MakeRunner) -> None:
    """Nobody waits for an error message any more: people have decided."""

    def send(amount: int) -> str:
        paid.append(amount)
        return "sent"

    model = ScriptedModel(call("send", amount=10), "It did not fit.")
    tools = [FunctionTool(send, require_confirmation=True)]
    chat = Chat(run(Agent("payer", model, tools=tools), guard=CallGuard(SEALER)))
    request = (await chat.say("Send")).request
    about = Approved(str(request.call.id), "send", {"amount": "ten"})
    started = await chat.runner.start(
        user_id=chat.user,
        session_id=chat.session,
        message=Answer(request.id, True, {"amount": "ten"}),
        approved={request.id: about},
    )
    assert [event.text async for event in started][-1] == "It did not fit."
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    assert (after.state, paid) == (CallState.REFUSED, [])
    assert after.reason is not None
    assert "amount: Input should be a valid integer" in after.reason


async def test_what_was_approved_runs_and_an_edit_counts_to_the_letter(run: MakeRunner) -> None:
    chat, request, waiting = await held(run, 1.0)
    after = await approve(chat, request, waiting, {"amount": 1}, payload={"amount": 1})
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
    left = CallFingerprints(SEALER, name_of(chat)).seal(ready(waiting))
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda _: left)
    await take_up(chat)
    assert paid == [10]


@pytest.mark.parametrize(
    "attack",
    [
        ready,
        lambda one: dearer(ready(one)),
        lambda one: replace(ready(one), seal=None),
        lambda one: replace(ready(one), seal="é"),
        lambda one: replace(one, state=CallState.READY, gate=GateKind.NONE, asked=(), seal=None),
        lambda one: dearer(CallFingerprints(SEALER, SessionId("other", "other", "other")).seal(ready(one))),
        lambda one: CallFingerprints(SEALER, SessionId("other", "other", "other")).seal(ready(one)),
        lambda one: CallFingerprints(
            Fingerprints("a key that I guessed", "stored call").of, SessionId("a", "b", "c")
        ).seal(one),
    ],
)
async def test_i_write_that_a_call_may_begin(
    run: MakeRunner, attack: Callable[[Call], Call], caplog: pytest.LogCaptureFixture
) -> None:
    chat, _, _ = await held(run)
    await (await chat.runner.open()).run(rewrites, name_of(chat), attack)
    with caplog.at_level(logging.ERROR):
        await take_up(chat)
    assert paid == []
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    assert after.state in (CallState.REFUSED, CallState.HELD)
    assert (after.state is CallState.HELD) or "changed the database" in caplog.text


async def test_i_change_what_ran_when_its_process_died(run: MakeRunner) -> None:
    """The tool may run again by itself, since it is idempotent; not with other arguments, though."""
    chat, _, waiting = await held(run, idempotent=True)
    running = CallFingerprints(SEALER, name_of(chat)).seal(step(ready(waiting), Begin(), 0.0))
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda _: dearer(running))
    await take_up(chat)
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
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


@pytest.mark.parametrize("sealer", [SEALER, None], ids=["sealed", "without a key"])
async def test_i_change_it_after_the_comparison_and_before_the_tool(run: MakeRunner, sealer: Sealer | None) -> None:
    meddling = Meddling()
    model = ScriptedModel(call("pay", amount=10), "Done.")
    chat = Chat(run(Agent("payer", model, tools=[meddling]), guard=CallGuard(sealer)))
    request = (await chat.say("Pay")).request
    database = await chat.runner.open()

    async def meddle() -> None:
        await database.run(rewrites, name_of(chat), dearer)

    meddling.meddle = meddle
    (waiting,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    after = await approve(chat, request.id, waiting, {"amount": 10})
    assert (after.state, after.args, paid) == (CallState.DONE, {"amount": 10}, [10])


async def test_people_want_it_again_and_i_change_it(run: MakeRunner) -> None:
    chat, _, waiting = await held(run)
    fingerprints = CallFingerprints(SEALER, name_of(chat))
    begun = step(ready(waiting), Begin(), 0.0)
    unknown = replace(begun, state=CallState.UNKNOWN, told=True)
    await (await chat.runner.open()).run(rewrites, name_of(chat), lambda _: dearer(fingerprints.seal(unknown)))
    again = await chat.runner.settle(
        user_id=chat.user,
        session_id=chat.session,
        call_id=waiting.id,
        word="run again",
        attempt=1,
        approved=Approved(waiting.id, "pay", {"amount": 10}),
    )
    [_ async for _ in again]
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    assert (after.state, after.reason, paid) == (CallState.REFUSED, ALTERED, [])


async def test_a_runner_without_a_key_seals_nothing(run: MakeRunner) -> None:
    chat = Chat(run(payer(10)))
    await chat.approve((await chat.say("Pay")).request)
    (after,) = await chat.runner.calls(user_id=chat.user, session_id=chat.session)
    assert (after.seal, paid) == (None, [10])
