"""Another project's server behind the whole bot. The log of its tools says what happened.

Fast with a server that starts at once, our replay of ADK Go's; slow with a real one.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from aiohttp import web

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.store.ledger_rows import read_lines
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.runtime.adk.signing import Announcement, announcement_metadata
from tests.support.foreign import kept
from tests.support.foreign import replay as replayed
from tests.support.foreign.ear import Ear, listening
from tests.support.foreign.java import Java
from tests.support.foreign.kinds import KINDS
from tests.support.foreign.passers_by import answered_by_others, session_of
from tests.support.foreign.rig import Foreign, foreign, replay
from tests.support.foreign.wishes import Plain
from tests.support.office import Office, office

SERVERS = [
    pytest.param("adk-go", id="replayed"),
    pytest.param("adk-2-database", marks=[pytest.mark.slow, pytest.mark.timeout(300)], id="real"),
]
LONG = 60


@pytest.fixture(scope="module", params=SERVERS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    (kind,) = [kind for kind in KINDS if kind.name == request.param]
    with kind.served(tmp_path_factory.mktemp("adk")) as started:
        yield started


@pytest.fixture
async def at(
    server: Foreign, sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Office]:
    async with office(sqlite_url, tmp_path / "log", monkeypatch, target=agent(server), time_moves=True) as opened:
        yield opened


def agent(server: Foreign) -> str:
    if server.process is None:
        server.start()
    server.count_anew()
    return f'url = "{server.url}"\napp = "clerk"\ntimeout = "20s"'


async def test_an_approval_runs_the_call_on_their_server(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    assert "amount 1,500" in card.text
    unknown = "The server does not say which arguments this tool takes." in card.text
    assert unknown is ("tests.support.foreign.go" in server.command), (
        "google-adk describes its tools, ADK Go's server does not"
    )

    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Done: Reimburse", "paid")
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


async def test_arguments_that_their_tool_does_not_declare_are_refused(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.dumps({"type": "object", "properties": {"sum": {}}})
    with foreign(tmp_path, *replay("go"), DECLARES=schema) as server:
        async with office(sqlite_url, tmp_path / "log", monkeypatch, target=agent(server)) as at:
            said = await at.ann.says("@adk-confirm please pay 1500", at.deploys)
            await at.sees(
                said,
                "The tool does not take these arguments: 'amount' is not an argument (there are: sum).",
                "I see: The call reimburse",
            )
            await at.rests()
            assert at.offers(said) == []
        assert server.ran() == []


@pytest.mark.parametrize("odd", ["x" * 300, "\0", "\ud800"], ids=["long", "NUL", "half a surrogate"])
async def test_ids_that_no_database_takes(
    either_url: str, odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LiteLLM puts a model's signature into the id of its call, and a server may send anything."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "log"))
    for ids in (kept, replayed):
        monkeypatch.setattr(ids, "uuid4", lambda: f"{uuid4()}{odd}")
    async with listening(Ear()) as ear:
        target = f'url = "{ear.url}"\napp = "clerk"'
        async with office(either_url, tmp_path / "log", monkeypatch, target=target, time_moves=True) as at:
            card = await at.ask("please pay 1500")
            await at.bob.clicks(card, "Approve")
            await at.sees(card, "Done: Reimburse", 'I got [["reimburse"')
            assert at.ran() == [{"tool": "reimburse", "amount": 1500}]


@pytest.mark.parametrize("where", ["call", "form", "preview"])
async def test_a_name_that_no_database_takes_is_refused(
    either_url: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model may name an argument after half a surrogate, a server a field of a form or of a preview. The session goes
    on."""
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "log"))
    odd: Plain = {"\ud800": {"type": "string"}}
    twin = Java.asking

    def announces(self: Java, call: Plain, confirmation: Plain) -> Iterator[tuple[list[Plain], Plain]]:
        announced = announcement_metadata({call["id"]: Announcement(gated=True, preview={"shows": odd})})
        for parts, more in twin(self, call, confirmation):
            yield parts, {**more, "customMetadata": announced}

    def asks(call: Plain, confirmation: Plain) -> Plain:
        if where == "preview":
            return kept.request_about(call, confirmation)
        if where == "call":
            return kept.request_about({**call, "args": {**call["args"], **odd}}, confirmation)
        args = {"toolName": "survey", "message": "How?", "response_schema": {"type": "object", "properties": odd}}
        return {"functionCall": {"id": f"adk-{uuid4()}", "name": "adk_request_input", "args": args}}

    asking = "tests.support.foreign.java.request_about"
    monkeypatch.setattr(asking, asks)
    monkeypatch.setattr(Java, "asking", announces if where == "preview" else twin)
    async with listening(Ear()) as ear:
        target = f'url = "{ear.url}"\napp = "clerk"'
        async with office(either_url, tmp_path / "log", monkeypatch, target=target, time_moves=True) as at:
            said = await at.ann.says("@adk-confirm please pay 1500", at.deploys)
            await at.sees(said, "It can't be shown, so nobody can approve it")
            monkeypatch.setattr(asking, kept.request_about)
            monkeypatch.setattr(Java, "asking", twin)
            await at.ann.says("@adk-confirm please pay 7", at.deploys, thread=said)
            card = await at.bob.finds("amount 7", at.deploys, thread=said)
            await at.bob.clicks(card, "Approve")
            await at.sees(said, "Done: Reimburse")
            assert at.ran() == [{"tool": "reimburse", "amount": 7}]


async def test_an_edit_is_a_denial_that_says_what_is_wanted(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")

    await at.bob.clicks(card, "Edit…")
    modal = await at.bob.gets_modal("Edit")
    assert "denies this call" in str(modal)
    await modal.submits({"amount": "1200"})

    await at.sees(card, 'again with these arguments changed: {"amount":1200}')
    assert server.ran() == []


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the other way round"])
async def test_requests_of_one_turn_are_reported_together(at: Office, server: Foreign, turned: bool) -> None:
    said = await at.ann.says("@adk-confirm please pay 1500 and deploy search", at.deploys)
    cards = [await at.sees(said, call) for call in ("Reimburse (amount", "Deploy (service")]
    first, second = reversed(cards) if turned else cards

    await at.bob.clicks(first, "Approve")
    tools = ("deploy", "reimburse") if turned else ("reimburse", "deploy")
    await at.sees(said, f"{tools[0]} runs once {tools[1]} is decided")
    assert server.ran() == []
    await at.bob.clicks(second, "Approve")

    for call in ("Reimburse", "Deploy"):
        await at.sees(said, f"Done: {call}")
    assert sorted(str(line["tool"]) for line in server.ran()) == ["deploy", "reimburse"]


# Answered elsewhere


@pytest.mark.parametrize(("confirmed", "verdict"), [(True, "approved"), (False, "denied")])
async def test_an_answer_from_elsewhere_is_an_alarm(at: Office, server: Foreign, confirmed: bool, verdict: str) -> None:
    card = await at.ask("please pay 1500")
    await answered_by_others(server, at, card, confirmed=confirmed)
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)

    alarmed = await at.sees(card, f"was {verdict} outside this app", "Somebody answered the agent directly")
    assert alarmed.buttons == ("See everything", "History")
    assert len(server.ran()) == confirmed


async def test_what_was_denied_elsewhere_does_not_run_here_and_is_an_alarm(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await answered_by_others(server, at, card, confirmed=False)
    await at.bob.clicks(card, "Approve")

    await at.sees(card, "was denied outside this app", "Somebody answered the agent directly")
    assert server.ran() == []
    lines = await at.bot.database.read(read_lines, chain_of(session_of(at, card)), 0)
    assert [line.kind for line in lines].count(LineKind.ELSEWHERE) == 1


# Down, and back


async def test_a_server_that_is_down_is_tried_again(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    server.kill()
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "The agent can't be reached. Trying again until", "We keep trying until the approval expires")
    assert server.ran() == []

    server.start()
    await at.later(minutes=1)
    done = await at.ann.finds("Done: Reimburse", at.deploys, thread=card, timeout=LONG)
    assert "can't be reached" not in done
    assert at.ann.sees(at.deploys, thread=card).count("does not answer right now") == 1
    assert len(server.ran()) == 1


async def test_words_wait_for_a_server_that_is_down(at: Office, server: Foreign) -> None:
    server.kill()
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(said, "We keep trying until it does")
    server.start()
    await at.later(minutes=1)
    await at.ann.finds("I see: hello", at.deploys, thread=said, timeout=LONG)


async def test_what_broke_off_on_the_way_is_sent_again_once_it_can_not_arrive_any_more(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken_off(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    log = tmp_path / "log"
    monkeypatch.setenv("TOOL_LOG", str(log))
    async with listening(Ear()) as ear:
        target = f'url = "{ear.url}"\napp = "clerk"\ntimeout = "2s"'
        async with office(sqlite_url, log, monkeypatch, target=target, time_moves=True) as at:
            card = await at.ask("please pay 1500")
            ear.instead["/run_sse"] = broken_off
            await at.bob.clicks(card, "Approve")
            await at.sees(card, "send it again only when it can no longer arrive")
            ear.instead.clear()
            await at.later(seconds=2)
            await at.ann.finds("Done: Reimburse", at.deploys, thread=card, timeout=LONG)
            assert at.ran() == [{"tool": "reimburse", "amount": 1500}]
