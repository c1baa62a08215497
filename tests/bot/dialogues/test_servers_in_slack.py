"""Another project's server behind the whole bot. The log of its tools says what happened.

Fast with a stand-in that starts at once; slow with the real ones, each in its own language.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web
from yarl import URL

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.store.ledger_rows import read_lines
from adk_confirm.bot.store.repository import chain_of
from adk_confirm.runtime.adk.signing import REQUEST_CREDENTIAL
from adk_confirm.runtime.jsontypes import JsonObject, as_object
from adk_confirm.runtime.wire import REQUEST_CONFIRMATION
from tests.support.foreign.ear import Ear, listening
from tests.support.foreign.kinds import KINDS, ONE_ID, Kind
from tests.support.foreign.passers_by import (
    answered_by_others,
    asked_there,
    forgotten_by_others,
    parts_of,
    sent_by_others,
    session_of,
    told_by_others,
)
from tests.support.foreign.rig import Foreign, foreign, google_adk, replay
from tests.support.office import Office, Opens

SERVERS = [
    "stand-in",
    *(
        pytest.param(name, marks=[pytest.mark.slow, pytest.mark.timeout(300)])
        for name in ("adk-2-database", "js", "go", "java", "rust")
    ),
]
ON_REAL_ONES = pytest.mark.parametrize("kind", SERVERS[1:], indirect=True)
LONG = 60
STEPS = 12  # of a run: adk-rs ends one after 16


@pytest.fixture(scope="module", params=SERVERS)
def kind(request: pytest.FixtureRequest) -> Kind:
    (found,) = [kind for kind in KINDS if kind.name == request.param]
    return found


@pytest.fixture(scope="module")
def server(kind: Kind, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with kind.served(tmp_path_factory.mktemp("adk")) as started:
        yield started


@pytest.fixture
async def at(server: Foreign, open_office: Opens) -> AsyncIterator[Office]:
    async with open_office(target=agent(server)) as opened:
        yield opened


def agent(server: Foreign, timeout: str = "20s") -> str:
    if server.process is None:
        server.start()
    server.count_anew()
    return f'url = "{server.url}"\napp = "clerk"\ntimeout = "{timeout}"'


async def test_an_approval_runs_the_call_on_their_server(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    assert "amount 1,500" in card.text
    unknown = "does not list this tool's arguments" in card.text
    assert unknown is ("tests.support.foreign.google" not in server.command), "only google-adk describes its tools"

    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Done: Reimburse", "paid")
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


@ON_REAL_ONES
async def test_a_call_that_no_gate_holds_runs_and_asks_nobody(at: Office, server: Foreign) -> None:
    said = await at.ann.says("@adk-confirm please pay 20", at.deploys)
    await at.sees(said, "I got", "paid")
    assert at.offers(said) == []
    assert server.ran() == [{"tool": "reimburse", "amount": 20}]


@ON_REAL_ONES
async def test_their_agent_learns_why_a_call_was_denied(at: Office, server: Foreign) -> None:
    card = await at.ask("please deploy search")
    await at.denies(at.bob, card, "Not in May")
    await at.sees(card, "Denied: Deploy search", "I see: The call deploy", "was denied: Not in May")
    assert server.ran() == []


@ON_REAL_ONES
async def test_what_people_fill_in_is_what_their_tool_gets(at: Office, server: Foreign, kind: Kind) -> None:
    card = await at.ask("please rest 5")
    if "payload" in kind.never:
        await at.bob.clicks(card, "Approve")
    else:
        await at.bob.clicks(card, "Approve…")
        await (await at.bob.gets_modal("Approve")).submits({"approved days": "3"})
    if "payload" in kind.lacks:
        await at.sees(card, "did this take effect? Request time off", "Tool confirmation rejected")
        assert server.ran() == []
        return
    await at.sees(card, "Done: Request time off")
    assert server.ran() == [{"tool": "request_time_off", "days": 5 if "payload" in kind.never else 3}]


@ON_REAL_ONES
async def test_two_calls_under_one_id_are_never_taken_for_one_another(at: Office, server: Foreign, kind: Kind) -> None:
    said = await at.ann.says("@adk-confirm please as one deploy a and deploy b", at.deploys)
    if kind.how.get("one_id") == ONE_ID:  # adk-rs asks about both as one, ADK Java breaks off
        await at.sees(said, "have the same id" if kind.name == "rust" else "broke before the agent answered")
        await at.rests()
        assert (at.offers(said), server.ran()) == ([], [])
        return
    await at.sees(said, "Deploy a?")
    await at.rests()
    for card in at.offers(said):
        await at.bob.clicks(card, "Approve")
    await at.rests()
    done = [service for service in "ab" if f"Done: Deploy {service}" in at.ann.sees(at.deploys, thread=said)]
    assert sorted(str(line["service"]) for line in server.ran()) == done
    assert done == ([] if "one_id" in kind.how else ["a", "b"])


async def test_arguments_that_their_tool_does_not_declare_are_refused(open_office: Opens, tmp_path: Path) -> None:
    schema = json.dumps({"type": "object", "properties": {"sum": {}}})
    with foreign(tmp_path, *replay("go"), DECLARES=schema) as server:
        async with open_office(target=agent(server), time_moves=False) as at:
            said = await at.ann.says("@adk-confirm please pay 1500", at.deploys)
            await at.sees(
                said,
                "The tool does not take these arguments: 'amount' is not an argument (there are: sum).",
                "I see: The call reimburse",
            )
            await at.rests()
            assert at.offers(said) == []
        assert server.ran() == []


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
    cards = [await at.sees(said, call) for call in ("Reimburse: amount", "Deploy search")]
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


@pytest.mark.parametrize(
    ("confirmed", "verdict", "alarm"),
    [
        (True, "approved", "🚨 Somebody answered the agent directly, outside this app. Find out who."),
        (False, "denied", "🚨 Denied outside this app: Reimburse"),
    ],
    ids=["approved", "denied"],
)
async def test_an_answer_from_elsewhere_is_an_alarm(
    at: Office, server: Foreign, confirmed: bool, verdict: str, alarm: str
) -> None:
    card = await at.ask("please pay 1500")
    await answered_by_others(server, at, card, confirmed=confirmed)
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)

    alarmed = await at.sees(card, f"was {verdict} outside this app", alarm)
    assert "answered the agent" in alarmed.text
    assert alarmed.buttons == ("All details", "History")
    assert len(server.ran()) == confirmed


async def test_what_was_denied_elsewhere_does_not_run_here_and_is_an_alarm(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await answered_by_others(server, at, card, confirmed=False)
    await at.bob.clicks(card, "Approve")

    await at.sees(card, "was denied outside this app", "Somebody answered the agent directly")
    assert server.ran() == []
    lines = await at.bot.database.read(read_lines, chain_of(session_of(at, card)), 0)
    assert [line.kind for line in lines].count(LineKind.ELSEWHERE) == 1


async def test_what_google_adk_ran_on_an_answer_that_only_it_reads_is_an_alarm(
    open_office: Opens, tmp_path: Path
) -> None:
    with foreign(tmp_path / "adk", *google_adk()) as server:
        async with open_office(target=agent(server)) as at:
            card = await at.ask("please pay 1500")
            (asked,) = await asked_there(server, at, card)
            odd: JsonObject = {"response": '{"confirmed": false, "confirmed": true}'}
            await sent_by_others(server, at, card, {"id": asked, "name": REQUEST_CONFIRMATION, "response": odd})
            assert len(server.ran()) == 1

            await at.denies(at.bob, card, "No")
            denied = await at.sees(card, "was approved outside this app", "Somebody answered the agent directly")
            assert "It may have run all the same." in denied
            assert "It did not run" not in at.bob.sees(at.deploys, thread=card)


@ON_REAL_ONES
async def test_a_call_that_is_gone_gets_no_answer(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    await forgotten_by_others(server, at, card)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Did not run: Reimburse", "its session is gone, or was started again")
    assert server.ran() == []


# Down, and back


async def test_a_server_that_is_down_is_tried_again(at: Office, server: Foreign) -> None:
    card = await at.ask("please pay 1500")
    server.kill()
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Trying again until", "We keep trying until the approval expires")
    assert server.ran() == []

    server.start()
    await at.later(minutes=1)
    if "SESSIONS" not in server.env:
        await at.sees(card, "Did not run: Reimburse", "its session is gone, or was started again")
        assert server.ran() == []
        return
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
    open_office: Opens, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken_off(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    async with listening(Ear()) as ear, open_office(target=f'url = "{ear.url}"\napp = "clerk"\ntimeout = "2s"') as at:
        card = await at.ask("please pay 1500")
        ear.instead["/run_sse"] = broken_off
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "send it again only when it can no longer arrive")
        ear.instead.clear()
        await at.later(seconds=2)
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card, timeout=LONG)
        assert at.ran() == [{"tool": "reimburse", "amount": 1500}]


@ON_REAL_ONES
async def test_a_server_that_dies_while_a_tool_runs_leaves_the_call_to_people(at: Office, server: Foreign) -> None:
    word = server.holds()
    card = await at.ask(f"please linger {word}")
    await at.bob.clicks(card, "Approve")
    await server.has_begun(word)
    server.kill()
    server.start()
    await at.later(minutes=1)
    await at.ann.finds("did this take effect? Linger", at.deploys, thread=card, timeout=LONG)
    assert server.lingered(word) == ["begun"]


@asynccontextmanager
async def relayed(url: str) -> AsyncIterator[tuple[str, Callable[[], None]]]:
    """An address that leads to this server, and what cuts every connection that goes through it."""
    there, ends = URL(url), set[asyncio.StreamWriter]()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, onwards = await asyncio.open_connection(there.host, there.port)
        ends.update((writer, onwards))
        await asyncio.gather(pass_on(reader, onwards), pass_on(answers, writer))

    def cut() -> None:
        for end in ends:
            end.transport.abort()

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as relay:
        yield f"http://127.0.0.1:{relay.sockets[0].getsockname()[1]}", cut


@ON_REAL_ONES
async def test_a_connection_that_breaks_in_mid_run_leaves_the_call_to_people(
    open_office: Opens, server: Foreign
) -> None:
    target = agent(server)
    async with relayed(server.url) as (url, cut), open_office(target=target.replace(server.url, url)) as at:
        word = server.holds()
        card = await at.ask(f"please linger {word}")
        await at.bob.clicks(card, "Approve")
        await server.has_begun(word)
        cut()
        await at.later(minutes=1)
        await at.ann.finds("did this take effect? Linger", at.deploys, thread=card, timeout=LONG)
        server.go_on(word)
        await at.rests()
        assert server.lingered(word) in (["begun"], ["begun", "ended"])  # some servers go on although the bot hung up


# Long


@ON_REAL_ONES
async def test_a_session_of_a_thousand_events_is_no_hindrance(at: Office, server: Foreign) -> None:
    said = await at.ann.says("@adk-confirm hello", at.deploys)
    await at.sees(said, "I see: hello")
    steps = " then ".join(f"see {number}" for number in range(STEPS))
    for _ in range(1000 // (2 * STEPS + 2)):
        await told_by_others(server, at, said, f"please {steps}")
    assert len(await parts_of(server, at, said)) > 950
    await at.ann.says("@adk-confirm please pay 1500", at.deploys, thread=said)
    card = await at.sees(said, "Reimburse: amount 1,500?")
    await at.bob.clicks(card, "Approve")
    await at.sees(said, "Done: Reimburse", "paid")
    assert server.ran() == [{"tool": "reimburse", "amount": 1500}]


# A sign-in


@pytest.mark.slow
async def test_an_approved_call_that_needs_a_sign_in_is_not_done(open_office: Opens, tmp_path: Path) -> None:
    """adk-rs asks for it with a response to the call. After it, the approval is forgotten, and adk-rs asks again."""
    (kind,) = [kind for kind in KINDS if kind.name == "rust"]
    with kind.served(tmp_path) as server:
        async with open_office(target=agent(server), time_moves=False) as at:
            card = await at.ask("please read Monday")
            await at.bob.clicks(card, "Approve")
            waits = "The agent waits for a sign-in, which can't be answered from Slack"
            await at.sees(card, waits, "answer it in another client")
            running = await at.sees(card, "Running: Read calendar", "It waits for a sign-in")
            await at.rests()
            assert server.ran() == []
            assert "Done" not in at.ann.sees(at.deploys)
            lines = await at.bot.database.read(read_lines, chain_of(session_of(at, card)), 0)
            shown = "".join(str(made.args) for made in at.slack.calls) + str(lines)
            assert ("auth_scheme" in shown, "hush" in shown) == (False, False)

            responses = [as_object(one.get("functionResponse")) for one in await parts_of(server, at, card)]
            (asked,) = [one for one in responses if one.get("name") == REQUEST_CREDENTIAL]
            signed_in: JsonObject = {"auth_type": "o_auth2", "oauth2": {"client_id": "us", "access_token": "a key"}}
            config: JsonObject = {**as_object(asked["response"]), "exchanged_auth_credential": signed_in}
            given: JsonObject = {"id": asked["id"], "name": REQUEST_CREDENTIAL, "response": config}
            await sent_by_others(server, at, card, given)
            await at.sees(running, "asked again; the newer request counts")
            again = await at.sees(running, "Needs 1 approval")
            assert server.ran() == []

            await at.bob.clicks(again, "Approve")
            await at.sees(running, "Done: Read calendar", "Monday")
            assert server.ran() == [{"tool": "read_calendar", "day": "Monday"}]
