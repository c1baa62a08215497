"""The same scenes on a real `google-adk` server and on ours: a client sees the same.

Cases in which ours is stricter (docs/protocol.md) are left out. `tests/support/twins/normal.py` says what is ignored.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.served import browsing
from tests.support.twins.adk import adk_server
from tests.support.twins.client import Client
from tests.support.twins.improvised import improvise
from tests.support.twins.ours import our_server
from tests.support.twins.repertoire import SCENES, Scene
from tests.support.twins.scenes import Plain


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


@pytest.mark.parametrize("sse", [False, True], ids=["run", "run_sse"])
@pytest.mark.parametrize("played", SCENES, ids=lambda played: played.__name__)
async def test_a_client_sees_the_same(adk: str, ours: str, played: Scene, sse: bool) -> None:
    theirs = await transcript(adk, played, sse=sse)
    assert await transcript(ours, played, sse=sse) == theirs
    assert theirs


@pytest.mark.parametrize("seed", [1, 2, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 13))])
async def test_in_scenes_that_nobody_wrote_too(adk: str, ours: str, seed: int) -> None:
    async def improvised(url: str) -> list[object]:
        async with browsing(url) as http:
            client = Client(http, user=f"improvised-{seed}")
            await improvise(client, seed)
            return client.transcript

    theirs = await improvised(adk)
    assert await improvised(ours) == theirs


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
