"""What is sent to an ADK server, depending on its session: nothing twice, and nothing while an earlier attempt may
arrive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Literal

import pytest
from aiohttp import web

from adk_confirm.bot.confirmation.confirmation import HostRequest, OutcomeKind
from adk_confirm.bot.confirmation.outcome import kind_of
from adk_confirm.bot.hosts.adk_host import AdkHost
from adk_confirm.bot.hosts.host import (
    AgentMessage,
    CallAltered,
    DeliveryUnknown,
    RequestLost,
    RunBroken,
    TurnBegun,
    UserWords,
)
from adk_confirm.runtime.adk.signing import MARK, Announcement, announcement_metadata
from adk_confirm.runtime.calls.call import Word
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.run.arrival import RunControl
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.lease import LeaseLost
from adk_confirm.runtime.wire import SessionId
from tests.support.foreign.ear import Ear, listening
from tests.support.foreign.visit import answer_to, texts
from tests.support.stores import a_lease, change_job

OURS = SessionId("clerk", "slack-T1-U0ANN", "slack-T1-C1-1.1")
ASK = "adk_request_confirmation"
CALL: JsonObject = {"id": "c1", "name": "reimburse", "args": {"amount": 1500}}
NOON = 1_900_000_000.0
ASKED = HostRequest(request_id="r1", call_id="c1", tool="reimburse", arguments={"amount": 1500}, agent="clerk")
ANSWER = answer_to(ASKED, mark="m1")


def event(author: str, part: JsonObject) -> JsonObject:
    content: JsonObject = {"role": "user" if author == "user" else "model", "parts": [part]}
    return {"id": f"x{id(part)}", "author": author, "invocationId": "e-1", "timestamp": NOON, "content": content}


def asked(call: JsonObject = CALL) -> list[JsonObject]:
    hint: JsonObject = {"hint": "Approve?", "confirmed": False}
    asking: JsonObject = {"id": "r1", "name": ASK, "args": {"originalFunctionCall": call, "toolConfirmation": hint}}
    waits: JsonObject = {"error": "This tool call requires confirmation, please approve or reject."}
    return [
        event("user", {"text": "pay"}),
        event("clerk", {"functionCall": call}),
        {**event("clerk", {"functionCall": asking}), "longRunningToolIds": ["r1"]},
        event("clerk", {"functionResponse": {"id": "c1", "name": "reimburse", "response": waits}}),
    ]


def approved() -> JsonObject:
    return event("user", {"functionResponse": {"id": "r1", "name": ASK, "response": {"confirmed": True}}})


def paid() -> JsonObject:
    return event("clerk", {"functionResponse": {"id": "c1", "name": "reimburse", "response": {"paid": 1500}}})


@dataclass
class There:
    """A server whose session and clock a test sets, and that cuts each run."""

    ear: Ear
    at: float = NOON
    events: list[JsonObject] | None = field(default_factory=asked)
    sent: int = 0
    after_sending: list[JsonObject] | None = None
    host: AdkHost = field(init=False)

    def __post_init__(self) -> None:
        self.host = AdkHost(self.ear.server(), clock=lambda: self.at)
        self.ear.instead[f"/apps/clerk/users/{OURS.user_id}/sessions/{OURS.id}"] = self._session
        self.ear.instead["/run_sse"] = self._run
        self.after_sending = self.events

    async def _session(self, _: web.Request) -> web.Response:
        if self.events is None:
            return web.json_response({"detail": "Session not found"}, status=404)
        return web.json_response({"id": OURS.id, "events": self.events})

    async def _run(self, request: web.Request) -> web.StreamResponse:
        self.sent += 1
        self.events = self.after_sending
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    @property
    def patience(self) -> float:
        return self.host.server.patience

    async def answers(self, ago: float | None = None) -> list[str]:
        return await texts(self.host.answer(OURS, [replace(ANSWER, ago=ago)]))

    async def settles(self, word: Word, attempt: int = 1) -> list[str]:
        return await texts(self.host.answer(OURS, [answer_to(ASKED, word, attempt)]))


@pytest.fixture
async def there() -> AsyncIterator[There]:
    async with listening(Ear()) as ear:
        made = There(ear)
        yield made
        await made.host.close()


async def test_after_a_second_sending_the_wait_counts_from_that_one(there: There) -> None:
    with pytest.raises(DeliveryUnknown):
        await there.answers()
    there.at += there.patience + 1
    with pytest.raises(DeliveryUnknown):
        await there.answers(ago=there.at - NOON)
    assert there.sent == 2
    there.at += there.patience / 2
    with pytest.raises(DeliveryUnknown, match="may still arrive") as cut:
        await there.answers(ago=there.at - NOON)
    assert cut.value.again_after == pytest.approx(there.patience / 2, abs=0.01)
    assert there.sent == 2
    there.at += there.patience
    with pytest.raises(DeliveryUnknown):
        await there.answers(ago=there.at - NOON)
    assert there.sent == 3


@pytest.mark.parametrize("marked", [True, False], ids=["by their mark", "by their text"])
@pytest.mark.parametrize("replied", [True, False], ids=["replied", "no reply"])
async def test_words_that_are_in_the_session_are_not_said_again(there: There, marked: bool, replied: bool) -> None:
    """The process that sent them died before it noted that, or lost the server's answer."""
    assert there.events is not None
    if marked:
        there.events[0]["customMetadata"] = {MARK: "w1"}
    del there.events[4 if replied else 1 :]
    said = [one async for one in there.host.say(OURS, UserWords(text="pay", mark="w1", since=NOON))]
    begun, broken, *told = said
    assert (begun, broken) == (TurnBegun(str(there.events[0]["invocationId"])), RunBroken())
    assert [isinstance(one, AgentMessage) and one.failed for one in told] == ([] if replied else [True])
    assert there.sent == 0


async def test_an_answer_costs_two_readings_and_the_second_shows_what_became_of_it(there: There) -> None:
    assert there.events is not None
    there.after_sending = [*there.events, approved(), paid()]
    session = f"/apps/clerk/users/{OURS.user_id}/sessions/{OURS.id}"
    await there.answers()
    after = await there.host.look(OURS, after_exchange=True)
    assert kind_of(after.calls["r1"]) is OutcomeKind.DONE
    assert len(there.ear.at(session)) == 2
    await there.host.look(OURS)
    assert len(there.ear.at(session)) == 3


async def test_the_same_words_said_later_go_to_the_agent(there: There) -> None:
    there.at += 60
    with pytest.raises(DeliveryUnknown):
        await texts(there.host.say(OURS, UserWords(text="pay", mark="w2", since=there.at)))
    assert there.sent == 1


async def test_what_a_process_before_this_one_sent_is_waited_for_too(there: There) -> None:
    """By how long ago that was: this process's clock may be another."""
    there.at -= 3600
    with pytest.raises(DeliveryUnknown, match="may still arrive"):
        await texts(there.host.say(OURS, UserWords(text="pay more", mark="w3", since=NOON - 1, ago=1.0)))
    with pytest.raises(DeliveryUnknown, match="may still arrive"):
        await there.answers(ago=1.0)
    assert there.sent == 0
    with pytest.raises(DeliveryUnknown):
        await there.answers(ago=there.patience + 1)
    assert there.sent == 1


@pytest.mark.parametrize("word", ["approved", "run again", "it happened", "words"])
async def test_who_loses_the_lease_after_reading_the_session_sends_nothing(
    there: There, database: Database, word: Word | Literal["words"]
) -> None:
    """As a process that was frozen before it sends: another one has sent it meanwhile, and the server runs it again."""
    assert there.events is not None
    there.events += [approved()] if word in ("run again", "it happened") else []
    lease = await a_lease(database)

    async def read(_: web.Request) -> web.Response:
        await database.run(change_job, "reply", lease_token="another's")
        return web.json_response({"id": OURS.id, "events": there.events})

    there.ear.instead[f"/apps/clerk/users/{OURS.user_id}/sessions/{OURS.id}"] = read
    said = UserWords(text="pay more", mark="w4")
    answers = [answer_to(ASKED, "approved" if word == "words" else word, mark="m1")]
    with pytest.raises(LeaseLost):
        await texts(
            there.host.say(OURS, said, RunControl(sure=lease.sure))
            if word == "words"
            else there.host.answer(OURS, answers, RunControl(sure=lease.sure))
        )
    assert there.sent == 0


@pytest.mark.parametrize(
    ("since_asked", "sent"),
    [([approved(), approved()], 0), ([approved()], 1), ([approved(), paid()], 0)],
    ids=["it was sent already", "only an earlier attempt was", "a result came after all"],
)
async def test_a_run_again_is_sent_once_and_not_needed_with_a_result(
    there: There, since_asked: list[JsonObject], sent: int
) -> None:
    assert there.events is not None
    there.events += since_asked
    with pytest.raises(DeliveryUnknown) if sent else nullcontext():
        assert await there.settles("run again") == []
    assert there.sent == sent


async def test_a_session_that_is_gone_after_the_sending_is_unknown(there: There) -> None:
    """The answer may have got there, and the tool may have run, before the session was deleted."""
    there.after_sending = None
    with pytest.raises(RequestLost) as lost:
        await there.answers()
    assert lost.value.may_have_run


@pytest.mark.parametrize("ago", [None, 1000.0])
async def test_a_session_that_is_gone_before_may_have_run_what_was_sent_before(there: There, ago: float | None) -> None:
    there.events = None
    with pytest.raises(RequestLost) as lost:
        await there.answers(ago=ago)
    assert lost.value.may_have_run is (ago is not None)
    assert there.sent == 0


async def test_a_settlement_goes_for_the_attempt_it_is_about(there: There) -> None:
    """Each attempt is settled for itself: the mark keeps the word about one from being taken for another's."""
    assert there.events is not None
    there.events += [approved()]
    for attempt in (1, 2):
        with pytest.raises(DeliveryUnknown):
            await there.settles("it happened", attempt)
    assert there.sent == 2


async def test_another_call_under_the_request_is_not_answered(there: There) -> None:
    """Somebody rewrote the session: what was approved is not what would run."""
    there.events = asked({**CALL, "args": {"amount": 99_999}})
    with pytest.raises(CallAltered):
        await there.answers()
    assert there.sent == 0


async def test_what_now_announces_another_preview_is_not_answered(there: There) -> None:
    """Each reading of the session says something else about what the call would do."""
    assert there.events is not None
    saw, now = (Announcement(gated=True, preview={"shows": what}) for what in ("pays one", "pays all"))
    there.events[2]["customMetadata"] = announcement_metadata({"c1": saw})
    (asked,) = (await there.host.look(OURS)).requests
    there.events[2]["customMetadata"] = announcement_metadata({"c1": now})
    with pytest.raises(CallAltered):
        await texts(there.host.answer(OURS, [answer_to(asked, mark="m1")]))
    assert there.sent == 0


async def test_what_somebody_answers_while_another_answer_is_given_is_not_answered_again(there: There) -> None:
    """Each agent's answers go in a message of their own, and a run may take long."""
    others = json.loads(
        json.dumps(asked()).replace('"clerk"', '"payer"').replace('"c1"', '"c2"').replace('"r1"', '"r2"')
    )
    both = [*asked(), *others[1:]]
    there.events = both

    async def runs(_: web.Request) -> web.Response:
        there.sent += 1
        elsewhere = json.loads(json.dumps(approved()).replace('"r1"', '"r2"'))
        there.events = [*both, approved(), paid(), elsewhere]
        return web.Response(text="", content_type="text/event-stream")

    there.ear.instead["/run_sse"] = runs
    await texts(there.host.answer(OURS, [ANSWER, answer_to(replace(ASKED, request_id="r2", call_id="c2"), mark="m2")]))
    assert there.sent == 1


async def test_a_call_whose_run_is_under_way_is_running_and_not_unknown(there: There) -> None:
    began, ends = asyncio.Event(), asyncio.Event()

    async def runs(_: web.Request) -> web.Response:
        there.events = [*asked(), approved()]
        began.set()
        await ends.wait()
        there.events = [*asked(), approved(), paid()]
        return web.Response(text="", content_type="text/event-stream")

    there.ear.instead["/run_sse"] = runs
    answering = asyncio.create_task(there.answers())
    await asyncio.wait_for(began.wait(), 20)
    (during,) = (await there.host.look(OURS)).calls.values()
    ends.set()
    await answering
    (after,) = (await there.host.look(OURS)).calls.values()
    assert (kind_of(during), kind_of(after)) == (OutcomeKind.RUNNING, OutcomeKind.DONE)
