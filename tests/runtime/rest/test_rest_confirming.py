"""A confirmation over HTTP, as docs/runtime.md describes it for a client with curl."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.twins.client import REQUEST, Client, responses
from tests.support.twins.scenes import call, say

DEPLOY = call("deploy", service="checkout", version="2.4.1")


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


async def test_the_same_answer_again_changes_nothing_and_another_one_is_a_conflict(ada: Client) -> None:
    await ada.say(DEPLOY, say("It is out."))
    await ada.answer((ada.request_id(), {"confirmed": True}))
    before = await ada.look()
    assert await ada.answer((ada.request_id(), {"confirmed": True})) == []
    status, sentence = await refusal(ada, {"confirmed": False})
    assert (status, "already approved" in sentence) == (409, True)
    assert await ada.look() == before


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"confirmed": "true"}, "'confirmed' must be true or false"),
        ({"confirmed": True, "payload": 3}, "payload must be an object with arguments of deploy"),
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


async def test_what_names_no_request_is_not_found_and_not_stored(quick: Client) -> None:
    await quick.say(DEPLOY, say("It is out."))
    status, sentence = await refusal(quick, {"confirmed": True}, request="adk-none")
    assert (status, "adk-none" in sentence) == (404, True)
    assert await still_waits(quick)


async def test_edited_arguments_replace_those_that_are_named(ada: Client) -> None:
    await ada.say(DEPLOY, say("It is out."))
    events = await ada.answer((ada.request_id(), {"confirmed": True, "payload": {"version": "2.4.0"}}))
    assert responses(events) == [{"deployed": "checkout", "version": "2.4.0"}]
    [held] = (await ada.request("GET", f"{ada.sessions}/s/calls"))[1]
    assert held["args"] == {"service": "checkout", "version": "2.4.1"}
    assert held["runArgs"] == {"service": "checkout", "version": "2.4.0"}
