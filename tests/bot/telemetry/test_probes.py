"""`/healthz` and `/readyz`, as an orchestrator asks for them, over HTTP and in Socket Mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from adk_confirm.bot.app import running_bot
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import AT_ONCE, Opens, configured
from tests.support.scraping import get
from tests.support.waiting import until

TASKS = (
    *("worker-confirmation", "worker-card", "worker-session", "worker-thread", "worker-reply"),
    *("checkpoints", "names"),
)


async def answers(url: str, fits: Callable[[int, str], bool]) -> str:
    """What `/readyz` says, once it is this."""

    async def look() -> tuple[int, str] | None:
        answer = await get(f"{url}/readyz")
        return answer if fits(*answer) else None

    _, text = await until(look)
    return text


@pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
async def test_ready_says_what_it_looked_at(open_office: Opens, socket: bool) -> None:
    async with open_office(socket=socket) as at:
        assert await get(f"{at.bot.url}/healthz") == (200, "ok\n")
        slack = "Slack: ok\n" if socket else ""
        status, said = await get(f"{at.bot.url}/readyz")
        assert status == 200
        assert said == f"store: ok\n{slack}" + "".join(f"{task}: ok\n" for task in TASKS)
        assert socket or await at.slack.verifies_url()


async def test_a_store_that_does_not_answer(open_office: Opens) -> None:
    async with open_office() as at:
        await at.bot.database.close()
        said = await answers(at.bot.url, lambda status, _: status == 503)
        assert "store: The store is closed." in said
        assert await get(f"{at.bot.url}/healthz") == (200, "ok\n"), "alive it is all the same"


async def test_a_store_that_another_version_has_changed(open_office: Opens) -> None:
    async with open_office() as at:
        await at.bot.database.run(lambda tx: tx.run("UPDATE adk_confirm_versions SET version = 9"))
        status, said = await get(f"{at.bot.url}/readyz")
    assert status == 503
    assert "tables are of version 9, and this program's 1: a newer program was started on it. Use that one." in said


async def test_a_store_that_can_not_be_asked_for_its_version(open_office: Opens) -> None:
    async with open_office() as at:
        await at.bot.database.run(lambda tx: tx.run("ALTER TABLE adk_confirm_versions RENAME version TO gone"))
        status, said = await get(f"{at.bot.url}/readyz")
    assert status == 503
    assert "store: could not be asked: OperationalError\n" in said


@pytest.mark.slow
async def test_a_socket_that_was_cut(open_office: Opens) -> None:
    async with open_office(socket=True) as at:
        refused = at.slack.faults.fails("apps.connections.open", times=None)
        at.slack.socket.drop()
        said = await answers(at.bot.url, lambda status, _: status == 503)
        assert "Slack: the Socket Mode connection is down" in said
        refused.left = 0
        await answers(at.bot.url, lambda status, _: status == 200)


async def test_not_ready_while_it_stops(sqlite_url: str) -> None:
    """The doors stay open until what runs has ended, so that a balancer sees it in time."""
    async with FakeSlack(our_app()) as slack:
        ann = slack.person("ann")
        slack.channel("deploys", ann, id="C0DEPLOYS")
        async with running_bot(configured(slack, sqlite_url), limits=AT_ONCE) as bot:
            slack.sends_to(f"{bot.url}/slack/events")
            held = slack.faults.hangs("chat.postMessage")
            await ann.says("@adk-confirm hello", "C0DEPLOYS")
            await held.reached()

            async def asks_on() -> str:
                said = await answers(bot.url, lambda status, _: status == 503)
                held.release()
                return said

            asking = asyncio.create_task(asks_on())
        assert await asking == "adk-confirm: is being stopped\n"
