"""A server behind several bots, or bots that are killed: one run at a time per session, and nothing is sent twice."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.foreign.rig import Foreign, foreign, replay
from tests.support.office import POLICY, Staff
from tests.support.serving import Serving, serving

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

LONG = 90


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Foreign]:
    with foreign(tmp_path_factory.mktemp("adk"), *replay("java")) as started:
        yield started


@pytest.fixture
async def at(server: Foreign, tmp_path: Path) -> AsyncIterator[Staff]:
    server.count_anew()
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


def agent(server: Foreign, timeout: str) -> str:
    return f'url = "{server.url}"\napp = "clerk"\ntimeout = "{timeout}"'


@pytest.fixture
async def bot(at: Staff, server: Foreign, sqlite_url: str, tmp_path: Path) -> AsyncIterator[Serving]:
    async with serving(at.slack, sqlite_url, tmp_path, POLICY, target=agent(server, "3s")) as serves:
        yield serves


async def asked_for_two(at: Staff) -> tuple[Seen, list[Seen]]:
    said = await at.ann.says("@adk-confirm please pay 1500 and deploy search", at.deploys)
    return said, [await at.ann.finds(card, at.deploys, thread=said) for card in ("Reimburse: amount", "Deploy search")]


async def both_ran_once(at: Staff, server: Foreign, said: Seen) -> None:
    for tool in ("reimburse", "deploy"):
        await at.ann.finds(f"Done: {tool.capitalize()}", at.deploys, thread=said, timeout=LONG)
    assert sorted(str(line["tool"]) for line in server.ran()) == ["deploy", "reimburse"]


@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the other way round"])
async def test_killed_between_two_answers_of_one_turn_both_go_together(
    at: Staff, bot: Serving, server: Foreign, turned: bool
) -> None:
    await bot.starts()
    said, cards = await asked_for_two(at)
    first, second = reversed(cards) if turned else cards
    await at.bob.clicks(first, "Approve")
    await at.ann.finds("Approved by bob", at.deploys, thread=said)
    await bot.killed()
    await bot.starts()
    assert server.ran() == []

    await at.bob.clicks(at.bob.now(second), "Approve")
    await both_ran_once(at, server, said)


@pytest.mark.parametrize("nth", [1, 2])
async def test_killed_right_before_the_answers_are_sent_they_are_sent_once_they_can_not_arrive_any_more(
    at: Staff, bot: Serving, server: Foreign, nth: int
) -> None:
    await bot.starts("hand_over", nth)
    said, (first, second) = await asked_for_two(at)
    await at.bob.clicks(first, "Approve")
    await at.ann.finds("Approved by bob", at.deploys, thread=said)
    await at.bob.clicks(at.bob.now(second), "Approve")
    assert await bot.reached() == "hand_over"
    await bot.killed()
    assert server.ran() == []

    await bot.starts()
    await both_ran_once(at, server, said)


async def test_killed_while_the_tool_runs_its_end_is_read_from_the_session(
    at: Staff, server: Foreign, sqlite_url: str, tmp_path: Path
) -> None:
    word = server.holds()
    async with serving(at.slack, sqlite_url, tmp_path, POLICY, target=agent(server, "60s")) as bot:
        await bot.starts()
        card = await at.ask(f"please linger {word}")
        await at.bob.clicks(card, "Approve")
        await server.has_begun(word)
        await bot.killed()
        await bot.starts()
        await at.bob.finds("Did this take effect? Linger", at.deploys, thread=card, timeout=LONG)

        server.go_on(word)  # the server never noticed
        await at.ann.finds("Done: Linger", at.deploys, thread=card, timeout=LONG)
    assert server.lingered(word) == ["begun", "ended"]


async def test_two_bots_run_one_thing_at_a_time_in_a_session(
    at: Staff, server: Foreign, postgres_url: str, tmp_path: Path
) -> None:
    word = server.holds()
    async with AsyncExitStack() as stack:
        for name in ("one", "two"):
            room = tmp_path / name
            room.mkdir()
            each = serving(at.slack, postgres_url, room, POLICY, target=agent(server, "60s"))
            await (await stack.enter_async_context(each)).starts()
        lingering = await at.ask(f"please linger {word}")
        made = await at.bob.clicks(lingering, "Approve")
        await server.has_begun(word)
        await at.slack.repeats(made)
        await at.ann.says("@adk-confirm hello", at.deploys, thread=lingering)

        others = [await at.ask(f"please deploy {name}") for name in ("a", "b", "c", "d")]
        for card in others:
            await at.bob.clicks(card, "Approve")
        for card in others:
            await at.ann.finds("Done: Deploy", at.deploys, thread=card, timeout=LONG)

        assert "I see: hello" not in at.ann.sees(at.deploys, thread=lingering)
        server.go_on(word)
        await at.ann.finds("Done: Linger", at.deploys, thread=lingering, timeout=LONG)
        await at.ann.finds("I see: hello", at.deploys, thread=lingering, timeout=LONG)
    assert server.lingered(word) == ["begun", "ended"]
    ran = [line for line in server.ran() if line["tool"] == "deploy"]
    assert sorted(str(line["service"]) for line in ran) == ["a", "b", "c", "d"]


async def test_a_bot_takes_over_from_one_that_was_killed_and_sends_nothing_again(
    at: Staff, server: Foreign, postgres_url: str, tmp_path: Path
) -> None:
    word = server.holds()
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    target = agent(server, "90s")
    async with (
        serving(at.slack, postgres_url, one, POLICY, target=target) as first,
        serving(at.slack, postgres_url, two, POLICY, target=target) as second,
    ):
        await first.starts()
        card = await at.ask(f"please linger {word}")
        await at.bob.clicks(card, "Approve")
        await server.has_begun(word)
        await second.starts()
        await first.killed()

        await at.bob.finds("Did this take effect? Linger", at.deploys, thread=card, timeout=LONG)
        assert server.lingered(word) == ["begun"]
        server.go_on(word)
        await at.ann.finds("Done: Linger", at.deploys, thread=card, timeout=LONG)
    assert server.lingered(word) == ["begun", "ended"]
