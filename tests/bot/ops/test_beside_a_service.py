"""Commands as processes of their own, beside `adk-confirm serve` in another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import pytest

from adk_confirm.bot.ops.command import open_for_reading
from adk_confirm.bot.store.audit_log import verify_ledger
from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import as_object
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.kill import child, here
from tests.support.office import POLICY, SERVICE_SECRET, Staff, command, config, environment, operates
from tests.support.serving import Serving, serving

pytestmark = pytest.mark.timeout(150)

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class Beside:
    """A service, and a shell beside it."""

    at: Staff
    bot: Serving
    url: str

    async def asked(self, text: str) -> tuple[Seen, str]:
        """A card, and the id of its confirmation."""
        card = await self.at.ask(text)
        mark = self.at.ann.now(card).message.metadata or {}
        return card, str(as_object(mark.get("event_payload"))["confirmation"])

    async def says_consistent(self) -> None:
        async with open_for_reading(self.url) as database:
            report = await database.read(verify_ledger, Seal(SERVICE_SECRET), None)
        assert report.broken is None


@pytest.fixture
async def beside(database_url: str, tmp_path: Path) -> AsyncIterator[Beside]:
    async with FakeSlack(our_app()) as slack, serving(slack, database_url, tmp_path, POLICY, target=TARGET) as bot:
        await bot.starts()
        at = Staff.of(slack, tmp_path / "tools.log")
        at.target = TARGET
        yield Beside(at, bot, database_url)


TARGET = "adk_confirm.examples.oncall:agent"


async def stops_in(name: str, *line: str) -> None:
    """In the child: a command that stands still inside this transaction, after all that it does."""
    run = Database.run

    async def stopping(database: Database, fn: Callable[Concatenate[Tx, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        def stopped(tx: Tx, /, *args: P.args, **kwargs: P.kwargs) -> R:
            done = fn(tx, *args, **kwargs)
            if fn.__name__ == name:
                here(name)
            return done

        return await run(database, stopped, *args, **kwargs)

    Database.run = stopping  # type: ignore[method-assign,assignment]  # a probe, in a process that is there to be killed
    await command(*line)


async def test_a_command_killed_in_the_middle_has_done_nothing(beside: Beside, tmp_path: Path) -> None:
    at = beside.at
    card, confirmation = await beside.asked("reimburse 1500 for the team dinner")
    async with at_the_point(beside, "cast_as_operator", "withdraw", confirmation) as kill:
        clicked = asyncio.create_task(at.bob.clicks(card, "Approve"))
        kill()
        assert (await clicked).acked
    await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
    assert len(at.ran()) == 1
    refused = await operates(at, beside.url, "withdraw", confirmation, refused=True)
    assert refused == {"error": f"Confirmation {confirmation} is already approved, so it can't be withdrawn."}
    await beside.says_consistent()


@asynccontextmanager
async def at_the_point(beside: Beside, point: str, *line: str) -> AsyncIterator[Callable[[], None]]:
    file = beside.at.log.with_name("operator.toml")
    file.write_text(config(POLICY, TARGET))
    env = environment(beside.at.slack, beside.url)
    async with child(stops_in, point, "--config", str(file), *line, env=env) as process:
        await process.reached(point)
        yield process.kill
        await process.gone()


async def test_commands_at_once_beside_people_who_click(beside: Beside) -> None:
    """Nobody gets an error, and everything is done once."""
    at = beside.at
    asked = [await beside.asked(f"reimburse {1500 + number} for the team dinner") for number in range(6)]
    withdrawn, approved = asked[:3], asked[3:]
    done = await asyncio.gather(
        *(operates(at, beside.url, "withdraw", confirmation) for _, confirmation in withdrawn),
        *(operates(at, beside.url, name) for name in ("pause", "pause", "resume", "resume")),
        *(clicks(at, card) for card, _ in approved),
    )
    assert [one["state"] for one in done[:3] if one] == ["withdrawn"] * 3
    await operates(at, beside.url, "resume")
    for card, _ in withdrawn:
        await at.ann.finds("Withdrawn: Reimburse", at.deploys, thread=card)
    for card, _ in approved:
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
    assert sorted(line["amount"] for line in at.ran()) == [1503, 1504, 1505]  # type: ignore[type-var]  # numbers
    await beside.says_consistent()


async def clicks(at: Staff, card: Seen) -> None:
    assert (await at.bob.clicks(card, "Approve")).acked
