"""A foreign server behind the whole bot, as people in Slack live it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.foreign.rig import Foreign, foreign, google_adk
from tests.support.office import POLICY, Office, office


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    room = tmp_path_factory.mktemp("adk")
    with foreign(room, *google_adk(), SESSIONS=f"sqlite:///{room / 'adk.db'}") as started:
        yield started


@pytest.fixture
async def at(
    server: Foreign, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Office]:
    if server.process is None:
        server.start()
    server.count_anew()
    async with office(database_url, tmp_path / "log", monkeypatch, target=agent(server)) as opened:
        yield opened


def agent(server: Foreign) -> str:
    return f'url = "{server.url}"\napp = "clerk"\ntimeout = "20s"'


async def test_an_approval_runs_the_call_on_their_server(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    assert "amount 1500" in card.text

    await at.bob.clicks(card, "Approve")
    await at.ann.finds("reimburse is done", at.deploys, thread=card)
    await at.ann.finds("paid", at.deploys, thread=card)
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


async def test_a_reason_reaches_the_agent(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")

    await at.bob.clicks(card, "Deny")
    modal = await at.bob.gets_modal("Deny")
    await modal.submits({"Reason": "Book the cheaper place"})

    await at.ann.finds("I see: The call reimburse", at.deploys, thread=card)
    assert server.ran() == []


async def test_an_edit_is_a_denial_that_says_what_is_wanted(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")

    await at.bob.clicks(card, "Edit…")
    modal = await at.bob.gets_modal("Edit")
    assert "denies this call" in str(modal)
    await modal.submits({"amount": "1200"})

    await at.ann.finds('again with these arguments changed: {"amount":1200}', at.deploys, thread=card)
    assert server.ran() == []


async def test_a_form_is_filled_in_by_who_approves(at: Office, server: Foreign) -> None:
    card = await at.ask("please rest 5")

    await at.bob.clicks(card, "Approve")
    modal = await at.bob.gets_modal("Approve")
    await modal.submits({"approved_days": "2"})

    await at.ann.finds("is done", at.deploys, thread=card)
    assert server.ran() == [{"tool": "request_time_off", "days": 2}]


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the other way round"])
async def test_requests_of_one_turn_are_told_together(at: Office, server: Foreign, turned: bool) -> None:
    said = await at.ann.says("@adk-confirm please pay 1500 and deploy search", at.deploys)
    cards = [await at.ann.finds(f"Approve {tool}?", at.deploys, thread=said) for tool in ("reimburse", "deploy")]
    first, second = reversed(cards) if turned else cards

    await at.bob.clicks(first, "Approve")
    await at.ann.finds("1 of 1", at.deploys, thread=said)
    assert server.ran() == []
    await at.bob.clicks(at.bob.now(second), "Approve")

    for tool in ("reimburse", "deploy"):
        await at.ann.finds(f"{tool} is done", at.deploys, thread=said)
    assert sorted(str(line["tool"]) for line in server.ran()) == ["deploy", "reimburse"]


async def test_a_chat_waits_until_the_tool_is_done(at: Office, server: Foreign) -> None:
    server.holds(f"{id(at)}")
    card = await at.ask(f"please linger {id(at)}")
    await at.bob.clicks(card, "Approve")
    await server.has_begun(f"{id(at)}")
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)
    await at.ann.finds("is running", at.deploys, thread=card)
    server.go_on(f"{id(at)}")

    await at.ann.finds("linger is done", at.deploys, thread=card)
    await at.ann.finds("I see: hello", at.deploys, thread=card)
    assert server.lingered(f"{id(at)}") == ["begun", "ended"]


async def test_an_answer_from_elsewhere_is_an_alarm(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await elsewhere(at, server)
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)

    await at.ann.finds("was approved outside this app", at.deploys, thread=card)
    alarmed = await at.ann.finds("Somebody answered the agent directly", at.deploys, thread=card)
    assert alarmed.buttons == ()
    assert len(server.ran()) == 1


async def test_a_server_that_is_down_is_tried_again(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    server.kill()
    await at.bob.clicks(card, "Approve")
    await at.ann.finds("can't be reached", at.deploys, thread=card)
    assert server.ran() == []

    server.start()
    await at.ann.finds("reimburse is done", at.deploys, thread=card, timeout=40)
    assert len(server.ran()) == 1


async def test_killed_while_it_ran_people_say_what_happened(at: Office, server: Foreign) -> None:
    server.holds(f"killed-{id(at)}")
    card = await at.ask(f"please linger killed-{id(at)}")
    await at.bob.clicks(card, "Approve")
    await server.has_begun(f"killed-{id(at)}")
    server.kill()
    server.start()

    unknown = await at.bob.finds("It happened", at.deploys, thread=card, timeout=60)
    await at.bob.clicks(unknown, "It happened", sure=True)
    await at.ann.finds("I see: People looked into the call linger", at.deploys, thread=card)
    assert server.lingered(f"killed-{id(at)}") == ["begun"]


async def test_what_can_not_begin_in_time_lapses(
    server: Foreign, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.process is None:
        server.start()
    server.count_anew()
    policy = f'{POLICY}start_within = "2s"\n'
    async with office(sqlite_url, tmp_path / "log", monkeypatch, policy, target=agent(server)) as at:
        card = await at.ask("please pay 1500")
        server.kill()
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("lapsed", at.deploys, thread=card, timeout=20)
        server.start()
        await at.ann.finds("I got", at.deploys, thread=card, timeout=60)
        assert server.ran() == []


async def elsewhere(at: Office, server: Foreign) -> None:
    """Somebody finds the server's port, and approves what waits there."""
    import aiohttp

    async with aiohttp.ClientSession(server.url) as http:
        users = f"/apps/clerk/users/slack-{at.ann.user.team_id}-{at.ann.id}/sessions"
        async with http.get(users) as listed:
            newest = max(await listed.json(), key=lambda session: float(session["lastUpdateTime"]))
        async with http.get(f"{users}/{newest['id']}") as response:
            events = (await response.json())["events"]
        parts = [part for event in events for part in (event.get("content") or {}).get("parts") or ()]
        (asked,) = [
            part["functionCall"]["id"]
            for part in parts
            if part.get("functionCall", {}).get("name") == "adk_request_confirmation"
        ]
        given = {"id": asked, "name": "adk_request_confirmation", "response": {"confirmed": True}}
        body = {
            "appName": "clerk",
            "userId": newest["userId"],
            "sessionId": newest["id"],
            "newMessage": {"role": "user", "parts": [{"functionResponse": given}]},
        }
        async with http.post("/run", json=body) as ran:
            assert ran.status == 200
