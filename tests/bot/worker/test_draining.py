"""A drain: a service that is told to stop begins no run any more, and lets those that began end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import ONE, Staff
from tests.support.serving import Service, service
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

LONG = f'{ONE}[serve]\ndrain = "90s"\n'
SHORT = f'{ONE}[serve]\ndrain = "2s"\n'
RESTARTING = "once the app has restarted."


@dataclass
class Replica:
    at: Staff
    bot: Service
    gate: Path

    def goes_on(self) -> None:
        """The tools that it runs may end."""
        self.gate.touch()


@asynccontextmanager
async def replica(
    slack: FakeSlack, url: str, directory: Path, policies: str, at: Staff | None = None
) -> AsyncIterator[Replica]:
    directory.mkdir()
    staff = at or Staff.of(slack, directory / "tools.log")
    async with service(slack, url, directory, policies, socket=False) as bot:
        await bot.starts()
        yield Replica(staff, bot, directory / "gate")


async def at_work(on: Replica, tool: str = "work") -> Seen:
    """A thread whose tool is at it."""
    card = await on.at.ask(f'{tool} {{"on": "it"}}')
    await on.at.bob.clicks(card, "Approve")
    await until(on.at.ran)
    return card


def asked(at: Staff, thread: Seen) -> Seen | None:
    """What of this thread waits for people."""
    return next((one for one in at.offers(thread) if "Approve" in one.buttons), None)


async def shows(at: Staff, card: Seen, words: str) -> None:
    await at.slack.until(lambda: words in at.bob.now(card).text, what=f"the card to show {words}")


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_what_began_ends_and_what_is_approved_meanwhile_starts_after_the_restart(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(kind)
    async with FakeSlack(our_app()) as slack, replica(slack, url, tmp_path / "one", LONG) as on:
        at, deploys = on.at, on.at.deploys
        other = await at.ask('pay {"to": "Ada", "amount": 20}')
        card = await at_work(on)
        beside = await at.ask('work {"on": "that"}')
        await on.bot.begins_to_stop()
        for later in (other, beside):
            assert (await at.bob.clicks(later, "Approve")).acked
            await shows(at, later, RESTARTING)
        await at.ann.says('@adk-confirm work {"on": "more"}', deploys, thread=card)
        assert [line["tool"] for line in at.ran()] == ["begins"]

        on.goes_on()
        stopped = await on.bot.ended()
        assert stopped.code == 0
        assert "nothing that runs was left behind" in stopped.log, stopped.log
        assert "Done" in at.bob.now(card).text, at.bob.now(card).text
        assert [line["tool"] for line in at.ran()] == ["begins", "work"]

        assert asked(at, card) is None

        await on.bot.starts()
        await slack.until(lambda: asked(at, card), what="the card that was asked for meanwhile")
        for later in (other, beside):
            await shows(at, later, "Done")
            assert RESTARTING not in at.bob.now(later).text
        assert sorted(str(line["tool"]) for line in at.ran()) == ["begins", "begins", "pay", "work", "work"]
        assert not [one for one in at.ann.messages(deploys, thread=card) if "Did this take effect" in one.text]


async def test_another_replica_starts_what_is_approved_meanwhile(postgres_url: str, tmp_path: Path) -> None:
    """At once in other threads, and in the same thread once the run has ended."""
    async with FakeSlack(our_app()) as slack, replica(slack, postgres_url, tmp_path / "one", LONG) as old:
        at = old.at
        other = await at.ask('pay {"to": "Ada", "amount": 20}')
        card = await at_work(old)
        async with replica(slack, postgres_url, tmp_path / "two", LONG, at) as new:
            await old.bot.begins_to_stop()
            old.bot.gets_events()  # the click comes to the one that stops
            assert (await at.bob.clicks(other, "Approve")).acked
            await shows(at, other, "Done")
            new.bot.gets_events()
            await at.ann.says('@adk-confirm pay {"to": "Bob", "amount": 30}', at.deploys, thread=card)
            old.goes_on()
            assert (await old.bot.ended()).code == 0
            last = await slack.until(lambda: asked(at, card), what="the next card")
            await at.bob.clicks(last, "Approve")
            await shows(at, last, "Done")
        assert [line["tool"] for line in at.ran()] == ["begins", "work"]
        assert len((tmp_path / "two" / "tools.log").read_text().splitlines()) == 2


async def test_when_the_time_is_over_people_are_asked_as_ever(sqlite_url: str, tmp_path: Path) -> None:
    async with FakeSlack(our_app()) as slack, replica(slack, sqlite_url, tmp_path / "one", SHORT) as on:
        card = await at_work(on)
        stopped = await on.bot.stops()
        assert stopped.code == 0
        assert 2 < stopped.seconds < 12, stopped.log
        assert "left unfinished, and continued at the next start: session" in stopped.log
        await on.bot.starts()
        await on.at.ann.finds("Did this take effect?", on.at.deploys, thread=card)
        assert [line["tool"] for line in on.at.ran()] == ["begins"]


async def test_a_second_signal_does_not_wait_for_a_drain(sqlite_url: str, tmp_path: Path) -> None:
    async with FakeSlack(our_app()) as slack, replica(slack, sqlite_url, tmp_path / "one", LONG) as on:
        await at_work(on)
        await on.bot.begins_to_stop()
        stopped = await on.bot.stops()
        assert stopped.code == 128 + 15
        assert stopped.seconds < 4
