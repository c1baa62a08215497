"""The examples of ADK's documentation behave as it says, and a client sees the same of google-adk's server and of ours.

Cases in which ours is stricter (docs/protocol.md) are left out. `tests/support/twins/normal.py` says what is ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from adk_confirm import Agent, Runner, ScriptedModel
from adk_confirm.examples import seeds
from adk_confirm.runtime.models.scripted import call
from adk_confirm.runtime.wire import Dialect, FunctionCall
from tests.support.served import browsing, served
from tests.support.twins.adk import adk_server
from tests.support.twins.client import Client, responses, texts
from tests.support.twins.ours import our_server
from tests.support.twins.repertoire import SCENES, Scene
from tests.support.twins.scenes import Plain

SESSION = "7828f575-2402-489f-8079-74ea95b6a300"


@asynccontextmanager
async def played(agent: Agent, store: str, dialect: Dialect = "call") -> AsyncIterator[Client]:
    """The agent behind the API, and a client in a session of its own."""
    runner = Runner(agent, store, dialect=dialect)
    async with served(runner) as url, browsing(url) as http:
        client = Client(http, runner.app_name, "user", SESSION)
        await client.create()
        yield client


def words(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": text}]}


@pytest.mark.parametrize(
    ("approved", "result"),
    [
        (5, {"status": "ok", "approved_days": 3}),
        (2, {"status": "ok", "approved_days": 2}),
        (0, {"status": "The time off request is rejected.", "approved_days": 0}),
    ],
)
async def test_the_advanced_confirmation_brings_its_payload_to_the_tool(
    database_url: str, approved: int, result: dict[str, object]
) -> None:
    model = ScriptedModel(call("request_time_off", days=3), "It is settled.")
    async with played(seeds.asking_above(model), database_url) as user:
        waiting = await user.send(words("Three days, please."))
        assert responses(waiting) == [{"status": "Manager approval is required."}]
        confirmation = user.asked[0]["args"]["toolConfirmation"]
        assert confirmation["payload"] == {"approved_days": 0}
        assert confirmation["hint"].startswith("Please approve or reject the tool call request_time_off()")
        answer = {"confirmed": True, "payload": {"approved_days": approved}}
        events = await user.answer((user.request_id(), answer))
        assert responses(events) == [result]
        assert texts(events) == ["It is settled."]


@pytest.mark.parametrize(
    "spelled",
    [
        {"confirmed": True},
        {"hint": "Approve this transfer?", "confirmed": True},
        {"toolConfirmation": {"hint": "", "confirmed": True}},
        {"response": {"confirmed": True}},
    ],
)
async def test_the_transfer_of_the_rust_page(database_url: str, spelled: dict[str, object]) -> None:
    model = ScriptedModel(FunctionCall(id="call-1", name="transfer_money", args={"amount": 100}), "Sent.")
    async with played(seeds.transferring(model), database_url, "response") as user:
        _, pending = await user.send(words("send $100"))
        [part] = pending["content"]["parts"]
        assert part["functionResponse"] == {
            "id": "call-1",
            "name": "adk_request_confirmation",
            "willContinue": True,
            "response": {
                "originalFunctionCall": {"id": "call-1", "name": "transfer_money", "args": {"amount": 100}},
                "toolConfirmation": {"hint": "Approve this transfer?", "confirmed": False},
            },
        }
        assert (pending["author"], pending["longRunningToolIds"]) == ("transfer", ["call-1"])
        assert pending["actions"]["requestedToolConfirmations"] == {
            "call-1": {"hint": "Approve this transfer?", "confirmed": False}
        }
        events = await user.answer(("call-1", spelled))
        assert responses(events) == [{"ok": True, "transferred": 100}]
        assert texts(events) == ["Sent."]
        assert await user.answer(("call-1", spelled)) == []


def test_each_sample_can_be_served_as_it_stands() -> None:
    names = {agent.name for agent in vars(seeds).values() if isinstance(agent, Agent)}
    assert names == {"human_tool_confirmation", "human_tool_confirmation_always", "transfer"}


@pytest.fixture(scope="module")
def adk() -> Iterator[str]:
    with adk_server() as url:
        yield url


@pytest.fixture
async def ours() -> AsyncIterator[str]:
    async with our_server() as url:
        yield url


async def transcript(url: str, played: Scene, *, sse: bool) -> list[object]:
    async with browsing(url) as http:
        # The ADK server is shared: each scene, played each way, has a user of its own there.
        client = Client(http, user=f"{played.__name__}-{sse}", sse=sse)
        await played(client)
        return client.transcript


@pytest.mark.parametrize(("played", "sse"), [*((one, True) for one in SCENES), *((one, False) for one in SCENES[:4])])
async def test_a_client_sees_the_same(adk: str, ours: str, played: Scene, sse: bool) -> None:
    theirs = await transcript(adk, played, sse=sse)
    assert await transcript(ours, played, sse=sse) == theirs
    assert theirs


FIELDS: list[Plain] = [
    {"appName": None},
    {"appName": "nobody"},
    {"sessionId": "none"},
    {"userId": 1, "sessionId": []},
    {"streaming": "maybe"},
    {"stateDelta": []},
    {"newMessage": "hello"},
    {"newMessage": {"parts": 1}},
    {"newMessage": {"part": []}},
    {"newMessage": {"parts": [{"text": 3}]}},
    {"newMessage": {"parts": [{"txt": "hello"}]}},
    {"newMessage": {"parts": [{"inlineData": {"data": "@@@"}}]}},
]
WRONG: list[tuple[str, str, Plain]] = [
    ("GET", "{sessions}/none", {}),
    ("PATCH", "{sessions}/none", {"json": {"stateDelta": {}}}),
    ("PATCH", "{sessions}/s", {"json": {}}),
    ("PATCH", "{sessions}/s", {}),
    ("POST", "{sessions}", {"json": []}),
    ("POST", "{sessions}", {"json": {"sessionId": 3}}),
    ("POST", "{sessions}", {"json": {"state": []}}),
    ("POST", "{sessions}/new", {"json": [1]}),
    ("POST", "{sessions}", {"json": {"events": [{"author": "a", "actions": {"stateDelta": {"x": 1}}}]}}),
    ("POST", "{sessions}", {"json": {"events": [{"author": "a", "longRunningToolIds": ["x"]}]}}),
    ("POST", "{run}", {}),
    ("POST", "{run}", {"json": {}}),
    ("POST", "{run}", {"json": []}),
    ("POST", "{run}", {"data": b"{", "headers": {"Content-Type": "application/json"}}),
    ("POST", "{run}", {"data": b"{}", "headers": {"Content-Type": "text/plain"}}),
    ("POST", "{run}", {"data": b"\xff\xfe", "headers": {"Content-Type": "application/json"}}),
    ("POST", "{run}", {"json": {"userId": "u", "sessionId": "s"}}),
    *(("POST", "{run}", {"json": {"appName": "clerk", "userId": "u", "sessionId": "s", **field}}) for field in FIELDS),
]


@pytest.mark.parametrize("sse", [False, True], ids=["run", "run_sse"])
async def test_what_is_wrong_is_refused_alike(adk: str, ours: str, sse: bool) -> None:
    """The status is the same, and in a list of errors the places; the sentences are each one's own."""

    async def refusals(url: str) -> list[object]:
        async with browsing(url) as http:
            client = Client(http, user=f"wrong-{sse}")
            await client.create()
            found: list[object] = []
            for method, path, body in WRONG:
                path = path.format(sessions=client.sessions, run="/run_sse" if sse else "/run")
                status, refused = await client.request(method, path, **body)
                places = [wrong["loc"] for wrong in refused["detail"] if "loc" in wrong] if status == 422 else []
                found.append([method, path, body, status, places])
            assert (await client.look())["events"] == []
            return found

    theirs = await refusals(adk)
    assert await refusals(ours) == theirs
