"""SIGTERM: the process ends within ten seconds, whatever hangs. The log names what is left, and the next start
continues it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import BOTH_WAYS, POLICY, Staff, withdraws
from tests.support.serving import Service, Stopped, service, serving
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(150)]

WITHIN = 10.0
"""The promise."""

LEFT = "left unfinished, and continued at the next start: session"


@dataclass
class Watch:
    at: Staff
    bot: Service
    gate: Path

    async def begun(self) -> None:
        """The tool is at it."""
        await until(self.at.ran)

    def goes_on(self) -> None:
        self.gate.touch()


@asynccontextmanager
async def watch(url: str, directory: Path, *, socket: bool, policies: str = POLICY) -> AsyncIterator[Watch]:
    async with FakeSlack(our_app()) as slack:
        at = Staff.of(slack, directory / "tools.log")
        async with service(slack, url, directory, policies, socket=socket) as bot:
            await bot.starts()
            yield Watch(at, bot, directory / "gate")


def in_time(stopped: Stopped) -> Stopped:
    assert stopped.code == 0, stopped.log
    assert stopped.seconds < WITHIN, stopped.log
    assert "Traceback" not in stopped.log
    return stopped


@BOTH_WAYS
async def test_with_nothing_to_do_it_ends_at_once(sqlite_url: str, tmp_path: Path, socket: bool) -> None:
    async with watch(sqlite_url, tmp_path, socket=socket) as on:
        stopped = in_time(await on.bot.stops())
    assert "nothing that runs was left behind" in stopped.log


@pytest.mark.parametrize(("tool", "socket"), [("work", True), ("sleeps", False), ("freezes", False)])
async def test_a_tool_that_hangs(sqlite_url: str, tmp_path: Path, tool: str, socket: bool) -> None:
    """Nobody knows what it did: at the next start people are asked."""
    async with watch(sqlite_url, tmp_path, socket=socket) as on:
        card = await on.at.ask(f'{tool} {{"on": "x"}}')
        await on.at.bob.clicks(card, "Approve")
        await on.begun()
        stopped = in_time(await on.bot.stops())
        if tool == "freezes":
            assert "not everything ended in time" in stopped.log
        else:
            assert LEFT in stopped.log

        await on.bot.starts()
        asked = await on.at.ann.finds(f"Did this take effect? {tool.capitalize()}", on.at.deploys, thread=card)
        await on.at.bob.clicks(asked, "No, it didn't", sure=True)
        await on.at.ann.finds("did not take effect", on.at.deploys, thread=card)
        in_time(await on.bot.stops())
    assert [line["tool"] for line in on.at.ran()] == ["begins"]


async def test_a_slack_that_hangs(sqlite_url: str, tmp_path: Path) -> None:
    async with watch(sqlite_url, tmp_path, socket=False) as on:
        on.goes_on()
        card = await on.at.ask('work {"on": "x"}')
        hanging = on.at.slack.faults.hangs("chat.*", times=None)
        await on.at.bob.clicks(card, "Approve")
        await hanging.reached()
        stopped = in_time(await on.bot.stops())
        assert "left unfinished, and continued at the next start: " in stopped.log

        on.at.slack.faults.clear()
        await on.bot.starts()
        await on.at.ann.finds("Done: Work", on.at.deploys, thread=card)
        in_time(await on.bot.stops())
    assert [line["tool"] for line in on.at.ran()] == ["begins", "work"]


async def test_a_drawing_that_slack_does_after_the_next_start_does_not_stay(sqlite_url: str, tmp_path: Path) -> None:
    policies = f"{POLICY}quorum = 2\n"
    async with watch(sqlite_url, tmp_path, socket=True, policies=policies) as on:
        card = await on.at.ask('work {"on": "x"}')
        hang = on.at.slack.faults.hangs("chat.update")
        await on.at.bob.clicks(card, "Approve")
        await hang.reached()
        in_time(await on.bot.stops())

        await on.bot.starts()
        await withdraws(on.at.ann, card)
        await on.at.slack.until(lambda: "Approve" not in on.at.bob.now(card).buttons, what="the card to show the end")
        hang.release()
        await on.at.slack.until(lambda: "Approve" in on.at.bob.now(card).buttons, what="the late drawing")
        in_time(await on.bot.stops())

        async with serving(on.at.slack, sqlite_url, tmp_path, policies, socket=True) as later:
            await later.starts(hours_later=1)
            await on.at.slack.until(lambda: "Approve" not in on.at.bob.now(card).buttons, what="the end once more")


async def test_a_reply_that_does_not_end(sqlite_url: str, tmp_path: Path) -> None:
    async with watch(sqlite_url, tmp_path, socket=True) as on:
        said = await on.at.ann.says("@adk-confirm speak", on.at.deploys)
        await on.at.ann.finds("goes on", on.at.deploys, thread=said)
        stopped = in_time(await on.bot.stops())
        assert LEFT in stopped.log

        on.goes_on()
        await on.bot.starts()
        await on.at.ann.finds("and ends.", on.at.deploys, thread=said)
        in_time(await on.bot.stops())


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
async def test_a_store_that_is_held_up(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Somebody else has it locked, and does not let go."""
    url = request.getfixturevalue(kind)
    async with watch(url, tmp_path, socket=False) as on:
        on.goes_on()
        card = await on.at.ask('work {"on": "x"}')
        async with locked(url):
            clicking = asyncio.create_task(on.at.bob.clicks(card, "Approve"))
            await asyncio.sleep(0)
            in_time(await on.bot.stops())
        await clicking

        await on.bot.starts()
        await on.at.bob.clicks(on.at.bob.now(card), "Approve")
        await on.at.ann.finds("Done: Work", on.at.deploys, thread=card)
        in_time(await on.bot.stops())
    assert [line["tool"] for line in on.at.ran()] == ["begins", "work"]


@asynccontextmanager
async def locked(url: str) -> AsyncIterator[None]:
    if url.startswith("sqlite"):
        with held(url.removeprefix("sqlite:///")):
            yield
        return
    async with await psycopg.AsyncConnection.connect(url) as connection:
        # One table: whoever locks two can get into a deadlock with the bot, which locks rows of both.
        await connection.execute("LOCK TABLE bot_confirmations IN ACCESS EXCLUSIVE MODE")
        yield


@contextmanager
def held(path: str) -> Iterator[None]:
    connection = sqlite3.connect(path, isolation_level=None, timeout=20)
    connection.execute("BEGIN IMMEDIATE")
    yield
    connection.close()


async def test_a_socket_that_went_silent(sqlite_url: str, tmp_path: Path) -> None:
    """Not even its farewell is answered."""
    async with watch(sqlite_url, tmp_path, socket=True) as on:
        on.at.slack.socket.silence()
        in_time(await on.bot.stops())


async def test_a_second_signal_ends_it_at_once(sqlite_url: str, tmp_path: Path) -> None:
    async with watch(sqlite_url, tmp_path, socket=False) as on:
        card = await on.at.ask('sleeps {"on": "x"}')
        await on.at.bob.clicks(card, "Approve")
        await on.begun()
        await on.bot.begins_to_stop()
        stopped = await on.bot.stops()
    assert stopped.code == 128 + 15
    assert stopped.seconds < 4


async def test_background_tasks_that_fail_hold_no_stop_up(sqlite_url: str, tmp_path: Path) -> None:
    async with watch(sqlite_url, tmp_path, socket=False) as on:
        with sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), timeout=20) as connection:
            connection.execute("ALTER TABLE jobs RENAME TO gone")
        connection.close()
        await on.bot.logs("the background task worker failed")
        in_time(await on.bot.stops())
