"""Who asked for a call is what its session says, and never whoever speaks next."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.store.ledger_rows import read_lines
from adk_confirm.bot.store.repository import chain_of
from tests.support.foreign.breaking import breaking
from tests.support.foreign.passers_by import session_of, told_by_others
from tests.support.foreign.rig import foreign, replay
from tests.support.office import Opens

SPEAKERS = """
[[policy]]
tools = ["*"]
approvers = ["user:U0ANN", "user:U0BOB"]
allow_requester = "speakers"
"""
UNNAMED = "It is not known who asked for it: no message here began it. Whoever wants it asks the agent again."
BROKE = "broke before the agent answered"


def agent(url: str) -> str:
    return f'url = "{url}"\napp = "clerk"\ntimeout = "30s"'


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))


@pytest.mark.parametrize("speaks", [False, True], ids=["nobody speaks", "bob speaks"])
@pytest.mark.parametrize("kind", ["go", "java", "marks"])
async def test_a_call_after_a_broken_connection_was_asked_for_by_who_began_it(
    open_office: Opens, kind: str, speaks: bool
) -> None:
    """Ann's own approval does not count, though bob spoke last. Without him the card comes by itself."""
    async with breaking(kind) as server, open_office(SPEAKERS, target=agent(server.url)) as at:
        server.breaks = True
        said = await at.ann.says("@adk-confirm please pay 9000", at.deploys)
        await at.sees(said, BROKE)
        await server.ends()
        if speaks:
            await at.bob.says("@adk-confirm hello", at.deploys, thread=said)
        else:
            await at.later(seconds=11)
        card = await at.sees(said, "Reimburse: amount 9,000?")
        assert "Asked by @ann" in card
        await at.refuses(at.ann, card, "Approve", "because you asked for it")
        assert at.ran() == []
        await at.bob.clicks(card, "Approve")
        await at.sees(said, "Done: Reimburse")
        assert at.ran() == [{"tool": "reimburse", "amount": 9000}]


async def test_what_a_server_says_right_before_it_is_waited_for_no_longer_is_heard(open_office: Opens) -> None:
    """The next look comes only when the server's time is over."""
    async with breaking("marks") as server, open_office(target=agent(server.url).replace("30s", "5s")) as at:
        server.breaks = True
        said = await at.ann.says("@adk-confirm please pay 9000", at.deploys)
        await at.sees(said, BROKE)
        await server.ends()
        await at.later(seconds=11)
        await at.sees(said, "Reimburse: amount 9,000?")


async def test_a_call_that_nobody_can_be_named_for_is_refused(open_office: Opens) -> None:
    """The server does not say which turn a message began, and the connection broke before it said anything else."""
    async with breaking("nameless") as server, open_office(SPEAKERS, target=agent(server.url)) as at:
        server.breaks = True
        said = await at.ann.says("@adk-confirm please pay 9000", at.deploys)
        await at.sees(said, BROKE)
        await server.ends()
        await at.bob.says("@adk-confirm hello", at.deploys, thread=said)
        await at.sees(said, UNNAMED)
        await at.rests()
        assert (at.offers(said), at.ran()) == ([], [])


@pytest.mark.parametrize("kind", ["go", "java"])
async def test_what_follows_from_an_answer_was_asked_for_by_the_same_person(open_office: Opens, kind: str) -> None:
    """The answer begins an invocation of its own there, and its connection breaks. Nobody speaks."""
    async with breaking(kind) as server, open_office(SPEAKERS, target=agent(server.url)) as at:
        card = await at.ask("please pay 1500 then deploy search")
        server.breaks = True
        await at.bob.clicks(card, "Approve")
        await server.begun.wait()
        await server.ends()
        await at.later(seconds=11)
        second = await at.sees(card, "Deploy search?")
        assert "Asked by @ann" in second
        await at.refuses(at.ann, second, "Approve", "because you asked for it")
        await at.bob.clicks(second, "Approve")
        await at.sees(card, "Done: Deploy")
        assert [one["tool"] for one in at.ran()] == ["reimburse", "deploy"]


@pytest.mark.parametrize("confirmed", [True, False], ids=["approved", "denied"])
async def test_what_follows_from_an_answer_is_heard_although_the_bot_was_stopped_meanwhile(
    open_office: Opens, confirmed: bool
) -> None:
    """The run goes on there, and its agent asks after the next process has found the call's result in the session."""
    async with breaking("go") as server, open_office(SPEAKERS, target=agent(server.url)) as at:
        card = await at.ask("please pay 1500 then deploy search")
        server.breaks = server.hangs = True
        await (at.bob.clicks(card, "Approve") if confirmed else at.denies(at.bob, card, ""))
        await server.begun.wait()
        await at.stops()
        await at.starts(at.policies)
        await at.later(seconds=11)
        await at.sees(card, "Done: Reimburse" if confirmed else "Denied: Reimburse")
        await at.rests()
        await server.ends()
        await at.later(seconds=11)
        assert "Asked by @ann" in await at.sees(card, "Deploy search?")


async def test_what_another_client_began_was_asked_for_by_nobody_here(open_office: Opens, tmp_path: Path) -> None:
    with foreign(tmp_path, *replay("go")) as server:
        async with open_office(SPEAKERS, target=agent(server.url)) as at:
            said = await at.ann.says("@adk-confirm hello", at.deploys)
            await at.sees(said, "I see: hello")
            await told_by_others(server, at, said, "please pay 9000")
            await at.bob.says("@adk-confirm hello again", at.deploys, thread=said)
            await at.sees(said, UNNAMED)
            await at.rests()
            assert (at.offers(said), server.ran()) == ([], [])
            lines = await at.bot.database.read(read_lines, chain_of(session_of(at, said)), 0)
            (refused,) = [one for one in lines if one.kind is LineKind.CALL_REFUSED]
            assert '"who"' not in str(refused.content)
