"""The contract of ADK's HTTP API, which any ADK client may rely on. What is stored is tested on both databases."""

from __future__ import annotations

import json

import pytest

from tests.support.twins.client import Client, answers_with, responses
from tests.support.twins.scenes import call, say, script

RUN = {"appName": "clerk", "userId": "ada", "sessionId": "s"}


def words(text: str) -> dict[str, object]:
    return {"role": "user", "parts": [{"text": text}]}


async def test_what_there_is(quick: Client) -> None:
    _, version = await quick.request("GET", "/version")
    assert version["language"] == "python"
    assert {"version", "language_version"} <= version.keys()
    assert await quick.request("GET", "/list-apps") == (200, ["clerk", "front", "keeper"])
    _, listed = await quick.request("GET", "/list-apps?detailed=true")
    assert [app["rootAgentName"] for app in listed["apps"]] == ["clerk", "front", "keeper"]


async def test_what_may_be_asked_is_described_and_there(quick: Client) -> None:
    status, described = await quick.request("GET", "/openapi.json")
    assert status == 200
    assert described["components"]["schemas"]["RunAgentRequest"]["properties"].keys() == {
        "appName", "userId", "sessionId", "newMessage", "streaming", "stateDelta", "customMetadata", "invocationId",
    }  # fmt: skip
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            names = {parameter["name"]: "none" for parameter in operation["parameters"]}
            status, body = await quick.request(method.upper(), path.format(**names))
            assert (status, body) not in [(404, {"detail": "Not Found"}), (405, {"detail": "Method Not Allowed"})]


async def test_what_an_app_consists_of(quick: Client) -> None:
    _, info = await quick.request("GET", "/apps/front/app-info")
    assert (info["name"], info["rootAgentName"], info["language"]) == ("front", "front", "python")
    assert sorted(info["agents"]) == ["copilot", "front", "payer", "pilot"]
    assert info["agents"]["front"]["subAgents"] == ["payer", "pilot"]
    [declared] = info["agents"]["front"]["tools"][0]["functionDeclarations"]
    assert declared["name"] == "lookup"
    assert declared["parametersJsonSchema"]["required"] == ["topic"]
    assert await quick.request("GET", "/apps/nobody/app-info") == (404, {"detail": "Agent not found: nobody"})


async def test_a_session_is_made_looked_at_and_removed(ada: Client) -> None:
    await ada.request("DELETE", f"{ada.sessions}/s")
    status, made = await ada.request("POST", ada.sessions, json={"sessionId": "s", "state": {"a": 1}})
    assert status == 200
    assert {**made, "lastUpdateTime": 0} == {
        "id": "s", "appName": "clerk", "userId": "ada", "state": {"a": 1}, "events": [], "lastUpdateTime": 0,
    }  # fmt: skip
    assert await ada.look() == made
    _, listed = await ada.request("GET", ada.sessions)
    assert listed == [made]
    assert await ada.request("DELETE", f"{ada.sessions}/s") == (200, None)
    assert await ada.request("GET", f"{ada.sessions}/s") == (404, {"detail": "Session not found: s"})
    assert await ada.request("DELETE", f"{ada.sessions}/s") == (404, {"detail": "Session not found: s"})
    assert await ada.request("GET", ada.sessions) == (200, [])


async def test_nobody_finds_another_users_session(ada: Client) -> None:
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/calls")):
        path = f"/apps/clerk/users/bob/sessions/s{path}"
        status, refused = await ada.request(method, path, json={"stateDelta": {}})
        assert (status, refused) == (404, {"detail": "Session not found: s"})
    for endpoint in ("/run", "/run_sse"):
        body = {**RUN, "userId": "bob", "newMessage": words("hello")}
        assert await ada.request("POST", endpoint, json=body) == (404, {"detail": "Session not found: s"})


@pytest.mark.parametrize(
    ("event", "wrong"),
    [
        ({"longRunningToolIds": ["x"]}, "long-running tool IDs"),
        ({"actions": {"stateDelta": {"a": 1}}}, "event actions"),
        (
            {"content": {"parts": [{"functionCall": {"id": "x", "name": "adk_request_confirmation", "args": {}}}]}},
            "ADK protocol function calls",
        ),
    ],
)
async def test_it_may_not_begin_with_what_only_a_run_brings_about(
    quick: Client, event: dict[str, object], wrong: str
) -> None:
    body = {"sessionId": "new", "events": [{"author": "user", "content": words("hi")}, {"author": "clerk", **event}]}
    status, refused = await quick.request("POST", quick.sessions, json=body)
    assert (status, refused) == (400, {"detail": f"Session initialization event 1 cannot include {wrong}."})
    assert (await quick.request("GET", f"{quick.sessions}/new"))[0] == 404


async def test_a_stream_is_one_data_line_an_event_and_no_mark_at_its_end(quick: Client) -> None:
    body = {**RUN, "newMessage": words(script(say("One two."))), "streaming": True}
    async with quick.http.post("/run_sse", json=body) as response:
        assert (response.status, response.content_type) == (200, "text/event-stream")
        text = await response.text()
    assert text.endswith("}\n\n")
    lines = text.split("\n\n")[:-1]
    assert all(line.startswith("data: {") and "\n" not in line for line in lines)
    one, two, whole = (json.loads(line.removeprefix("data: ")) for line in lines)
    assert [event["content"]["parts"][0]["text"] for event in (one, two, whole)] == ["One", "two.", "One two."]
    assert [event.get("partial") for event in (one, two, whole)] == [True, True, None]
    assert one["id"] == two["id"] == whole["id"]
    assert [event["id"] for event in (await quick.look())["events"]][1:] == [whole["id"]]


async def test_an_app_that_is_not_there_has_no_sessions(quick: Client) -> None:
    assert await quick.request("GET", "/apps/nobody/users/ada/sessions") == (404, {"detail": "Agent not found: nobody"})
    _, listed = await quick.request("GET", f"{quick.sessions}/")
    assert [session["id"] for session in listed] == ["s"]


async def test_ids_that_need_quoting_find_their_way(ada: Client) -> None:
    odd = "a b/c?d#é%2F"
    _, made = await ada.request("POST", ada.sessions, json={"sessionId": odd})
    assert made["id"] == odd
    status, found = await ada.request("GET", f"{ada.sessions}/a%20b%2Fc%3Fd%23%C3%A9%252F")
    assert (status, found["id"]) == (200, odd)


async def test_an_edited_approval_runs_and_another_answer_is_a_conflict(ada: Client) -> None:
    await ada.say(call("deploy", service="checkout", version="2.4.1"), say("It is out."))
    approval = {"confirmed": True, "payload": {"version": "2.4.0"}}
    status, refused = await ada.post("/run", answers_with((ada.request_id(), {"confirmed": True, "payload": 3})))
    assert (status, "must be an object with arguments of deploy" in refused["detail"]) == (400, True)
    events = await ada.answer((ada.request_id(), approval))
    assert responses(events) == [{"deployed": "checkout", "version": "2.4.0"}]
    [held] = (await ada.request("GET", f"{ada.sessions}/s/calls"))[1]
    assert held["args"] == {"service": "checkout", "version": "2.4.1"}
    assert held["runArgs"] == {"service": "checkout", "version": "2.4.0"}
    before = await ada.look()
    assert await ada.answer((ada.request_id(), approval)) == []
    for endpoint in ("/run", "/run_sse"):
        for request, status, said in ((ada.request_id(), 409, "already approved"), ("adk-none", 404, "adk-none")):
            answered = await ada.post(endpoint, answers_with((request, {"confirmed": False})))
            assert (answered[0], said in answered[1]["detail"]) == (status, True)
    assert await ada.look() == before
