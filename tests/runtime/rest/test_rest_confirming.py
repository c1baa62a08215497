"""A confirmation over HTTP, as docs/runtime.md describes it for a client with curl."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.served import browsing
from tests.support.twins.client import REQUEST, Client, answers_with, responses, texts
from tests.support.twins.ours import our_server
from tests.support.twins.scenes import call, say

DEPLOY = call("deploy", service="checkout", version="2.4.1")


@pytest.fixture
async def ada(database_url: str) -> AsyncIterator[Client]:
    async with our_server(database_url) as url, browsing(url) as http:
        client = Client(http)
        await client.create()
        yield client


@pytest.fixture
async def quick() -> AsyncIterator[Client]:
    """In memory, for what is not about storing."""
    async with our_server() as url, browsing(url) as http:
        client = Client(http)
        await client.create()
        yield client


async def still_waits(client: Client) -> bool:
    """Nothing was stored of a refused answer: the request can be answered as if nothing had been."""
    before = len((await client.look())["events"])
    events = await client.answer((client.request_id(), {"confirmed": True}))
    return before == 4 and responses(events)[0] == {"deployed": "checkout", "version": "2.4.1"}


async def refusal(client: Client, answer: object, *, request: str | None = None) -> tuple[int, str]:
    """The status and the sentence."""
    part = {"functionResponse": {"id": request or client.request_id(), "name": REQUEST, "response": answer}}
    return await refusal_of(client, [part])


async def refusal_of(client: Client, parts: list[Any]) -> tuple[int, str]:
    message = {"role": "user", "parts": parts}
    one = await client.post("/run", message)
    other = await client.post("/run_sse", message)
    assert one == other
    return one[0], one[1]["detail"]


async def test_a_held_call_runs_once_it_is_approved(ada: Client) -> None:
    asked, request, placeholder = await ada.say(DEPLOY, say("It is out."))
    carried = ada.asked[0]["args"]
    assert carried["originalFunctionCall"] == asked["content"]["parts"][0]["functionCall"]
    assert carried["toolConfirmation"] == {"hint": "Approve execution of tool deploy?", "confirmed": False}
    assert request["longRunningToolIds"] == [ada.request_id()]
    assert list(placeholder["actions"]["requestedToolConfirmations"]) == [carried["originalFunctionCall"]["id"]]
    events = await ada.answer((ada.request_id(), {"confirmed": True}))
    assert responses(events) == [{"deployed": "checkout", "version": "2.4.1"}]
    assert texts(events) == ["It is out."]
    assert {event["invocationId"] for event in events} == {asked["invocationId"]}
    assert (await ada.look())["state"] == {"deployed": "checkout 2.4.1"}


async def test_the_same_answer_again_changes_nothing_and_another_one_is_a_conflict(ada: Client) -> None:
    await ada.say(DEPLOY, say("It is out."))
    await ada.answer((ada.request_id(), {"confirmed": True}))
    before = await ada.look()
    assert await ada.answer((ada.request_id(), {"confirmed": True})) == []
    status, sentence = await refusal(ada, {"confirmed": False})
    assert (status, "already approved" in sentence) == (409, True)
    assert await ada.look() == before


async def test_the_same_answer_fifty_times_at_once_runs_it_once(ada: Client) -> None:
    await ada.say(call("count", by=1), [call("deploy", service="x", version="1")], say("Done."))
    answers = [ada.answer((ada.request_id(), {"confirmed": True})) for _ in range(50)]
    results = [responses(events) for events in await asyncio.gather(*answers)]
    assert sorted(results, key=len)[-2:] == [[], [{"deployed": "x", "version": "1"}]]
    stored = responses((await ada.look())["events"])
    assert [given.get("deployed") or given.get("confirmed") for given in stored] == [None, None, True, "x"]


async def test_of_approve_and_deny_at_once_one_counts(ada: Client) -> None:
    await ada.say(DEPLOY, say("So be it."))
    messages = [answers_with((ada.request_id(), {"confirmed": number % 2 == 0})) for number in range(20)]
    answers = await asyncio.gather(*(ada.post("/run", message) for message in messages))
    by_word = {word: {status for status, _ in answers[number::2]} for number, word in enumerate(("yes", "no"))}
    assert sorted(by_word.values(), key=sorted) == [{200}, {409}]
    [result] = [given for _, body in answers if isinstance(body, list) for given in responses(body)]
    assert ("deployed" in result) is (by_word["yes"] == {200})


async def test_a_denial_never_runs_it_and_carries_its_reason(ada: Client) -> None:
    rejected = {"error": "tool call was rejected by the user"}
    for answer, result in (
        ({"confirmed": False}, rejected),
        ({}, rejected),
        ({"confirmed": False, "payload": {"amount": 1}}, rejected),
        ({"confirmed": False, "reason": "Not on a Friday."}, {**rejected, "reason": "Not on a Friday."}),
        ({"confirmed": False, "payload": {"reason": "Too dear."}}, {**rejected, "reason": "Too dear."}),
    ):
        await ada.say(DEPLOY, say("I see."))
        assert responses(await ada.answer((ada.request_id(), answer))) == [result]
    await ada.say(call("request_time_off", days=3), say("I see."))
    assert responses(await ada.answer((ada.request_id(), {"confirmed": False}))) == [rejected]
    assert (await ada.look())["state"] == {}


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"confirmed": "true"}, "'confirmed' must be true or false"),
        ({"confirmed": 1}, "'confirmed' must be true or false"),
        ({"confirmed": None}, "'confirmed' must be true or false"),
        ({"confirmed": True, "originalFunctionCall": {}}, "unknown key 'originalFunctionCall'"),
        ({"confirmed": True, "payload": 3}, "payload must be an object with arguments of deploy"),
        ({"confirmed": True, "payload": {"servce": "x"}}, "servce: is not an argument"),
        ({"confirmed": True, "payload": {"version": 2}}, "version: "),
        ({"response": "not JSON"}, "text that is not JSON"),
    ],
)
async def test_an_answer_that_means_nothing_is_refused_and_the_request_still_waits(
    quick: Client, answer: object, said: str
) -> None:
    await quick.say(DEPLOY, say("It is out."))
    status, sentence = await refusal(quick, answer)
    assert (status, said in sentence) == (400, True), sentence
    assert await still_waits(quick)


async def test_every_accepted_spelling_approves(quick: Client) -> None:
    for wrap in (
        lambda answer: {"toolConfirmation": answer},
        lambda answer: {"tool_confirmation": answer},
        lambda answer: {"response": answer},
        lambda _: {"response": '{"confirmed": true}'},
    ):
        await quick.say(DEPLOY, say("It is out."))
        assert "deployed" in responses(await quick.answer((quick.request_id(), wrap({"confirmed": True}))))[0]


async def test_the_id_of_the_call_is_taken_too_and_the_invocation_may_be_named(quick: Client) -> None:
    await quick.say(DEPLOY, say("It is out."))
    call_id = quick.asked[0]["args"]["originalFunctionCall"]["id"]
    assert "deployed" in responses(await quick.answer((call_id, {"confirmed": True})))[0]
    asked, *_ = await quick.say(DEPLOY, say("It is out."))
    for invocation in (asked["invocationId"],):
        events = await quick.answer((quick.request_id(), {"confirmed": True}), invocationId=invocation)
        assert "deployed" in responses(events)[0]


async def test_what_names_no_request_is_not_found_and_not_stored(quick: Client) -> None:
    await quick.say(DEPLOY, say("It is out."))
    status, sentence = await refusal(quick, {"confirmed": True}, request="adk-none")
    assert (status, "adk-none" in sentence) == (404, True)
    assert await still_waits(quick)


@pytest.mark.parametrize(
    "changed",
    [{"id": None}, {"id": ""}, {"name": None}, {"name": "something_else", "id": "adk-none"}],
    ids=["no id", "empty id", "no name", "another name"],
)
async def test_a_malformed_answer_approves_nothing(quick: Client, changed: dict[str, Any]) -> None:
    await quick.say(DEPLOY, say("It is out."))
    given = {"id": quick.request_id(), "name": REQUEST, "response": {"confirmed": True}, **changed}
    part = {"functionResponse": {key: value for key, value in given.items() if value is not None}}
    assert await quick.send({"role": "user", "parts": [part]}) == []
    assert await still_waits(quick)


async def test_a_client_cannot_be_the_tool(quick: Client) -> None:
    await quick.say(DEPLOY, say("It is out."))
    call_id = quick.asked[0]["args"]["originalFunctionCall"]["id"]
    for given in (call_id, quick.request_id()):
        part = {"functionResponse": {"id": given, "name": "deploy", "response": {"deployed": "by me"}}}
        status, sentence = await refusal_of(quick, [part])
        assert (status, "cannot give the result" in sentence) == (400, True)
    assert await still_waits(quick)


async def test_an_answer_comes_alone(quick: Client) -> None:
    await quick.say(DEPLOY, say("It is out."))
    answer = {"functionResponse": {"id": quick.request_id(), "name": REQUEST, "response": {"confirmed": True}}}
    assert (await refusal_of(quick, [{"text": "yes"}, answer]))[0] == 400
    no = {"functionResponse": {**answer["functionResponse"], "response": {"confirmed": False}}}
    status, sentence = await refusal_of(quick, [answer, no])
    assert (status, "twice, and differently" in sentence) == (400, True)
    assert (await refusal_of(quick, [{"functionCall": {"name": "deploy", "args": {}}}]))[0] == 400
    assert await still_waits(quick)


async def test_edited_arguments_replace_those_that_are_named(ada: Client) -> None:
    await ada.say(DEPLOY, say("It is out."))
    events = await ada.answer((ada.request_id(), {"confirmed": True, "payload": {"version": "2.4.0"}}))
    assert responses(events) == [{"deployed": "checkout", "version": "2.4.0"}]
    [held] = (await ada.request("GET", f"{ada.sessions}/s/calls"))[1]
    assert held["args"] == {"service": "checkout", "version": "2.4.1"}
    assert held["runArgs"] == {"service": "checkout", "version": "2.4.0"}


async def test_adks_own_page_sends_the_calls_arguments_with_every_word(ada: Client) -> None:
    page = {"streaming": False, "stateDelta": None, "functionCallEventId": "an-event"}
    own = {"service": "checkout", "version": "2.4.1"}
    await ada.say(DEPLOY, say("It is out."))
    events = await ada.answer((ada.request_id(), {"confirmed": True, "payload": own}), **page)
    assert responses(events) == [{"deployed": "checkout", "version": "2.4.1"}]
    await ada.say(DEPLOY, say("I see."))
    events = await ada.answer((ada.request_id(), {"confirmed": False, "payload": own}), **page)
    assert responses(events) == [{"error": "tool call was rejected by the user"}]


async def test_a_payload_reaches_a_tool_that_asks_by_itself(ada: Client) -> None:
    waiting = await ada.say(call("request_time_off", days=5), say("You have them."))
    assert responses(waiting) == [{"status": "Manager approval is required."}]
    assert texts(waiting) == []
    assert ada.asked[0]["args"]["toolConfirmation"]["payload"] == {"approved_days": 0}
    events = await ada.answer((ada.request_id(), {"confirmed": True, "payload": {"approved_days": 3}}))
    assert responses(events) == [{"status": "ok", "approved_days": 3}]


async def test_parallel_calls_are_answered_in_any_order_and_the_model_is_asked_once(ada: Client) -> None:
    both = [
        call("deploy", service="x", version="1"),
        call("lookup", topic="t"),
        call("deploy", service="y", version="2"),
    ]
    events = await ada.say(both, say("All done."))
    assert {"topic": "t", "found": True} in responses(events)
    first = await ada.answer((ada.request_id(1), {"confirmed": True}))
    assert (responses(first), texts(first)) == ([{"deployed": "y", "version": "2"}], [])
    last = await ada.answer((ada.request_id(0), {"confirmed": False}))
    assert (responses(last), texts(last)) == ([{"error": "tool call was rejected by the user"}], ["All done."])


async def test_people_may_talk_while_a_request_waits(ada: Client) -> None:
    await ada.say(DEPLOY)
    assert texts(await ada.say(say("Sure."), say("It is out now."))) == ["Sure."]
    events = await ada.answer((ada.request_id(), {"confirmed": True}))
    assert (responses(events)[0]["deployed"], len(texts(events))) == ("checkout", 1)


async def test_in_the_response_dialect_the_calls_own_id_is_asked_with_and_answered(database_url: str) -> None:
    async with our_server(database_url, "response") as url, browsing(url) as http:
        ada = Client(http)
        await ada.create()
        asked, request = await ada.say(call("deploy", "call-1", service="x", version="1"), say("It is out."))
        assert ada.asked[0]["id"] == "call-1"
        assert ada.asked[0]["willContinue"] is True
        assert request["longRunningToolIds"] == ["call-1"]
        assert responses(await ada.answer(("call-1", {"confirmed": True}))) == [{"deployed": "x", "version": "1"}]
        assert asked["author"] == request["author"] == "clerk"
