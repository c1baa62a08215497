"""The bot is killed with SIGKILL while a workspace removes or installs the app: the next start finishes the work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from bot.sandbox.server.server import FakeSlack
from tests.support.office import Staff
from tests.support.serving import serving
from tests.support.waiting import until
from tests.support.workspaces import begin, distributed, install, several

pytestmark = [pytest.mark.filterwarnings("ignore:BasicAuth is deprecated"), pytest.mark.slow]

POLICIES = '[[policy]]\nteam = "T0ACME"\ntools = ["*"]\napprovers = ["user:U0LEAD"]\n'
PAY = '@adk-confirm pay {"to": "Ada", "amount": 20}'
PATIENCE = 30.0


def reached_at(slack: FakeSlack) -> str:
    return slack.outbox.request_url.removesuffix("/slack/events")


async def test_a_removal_is_finished_whenever_the_process_dies(database_url: str, tmp_path: Path) -> None:
    """Right after it was noted, and right after what waited was closed."""
    async with (
        FakeSlack(distributed()) as slack,
        serving(slack, database_url, tmp_path, POLICIES, env=several(slack)) as bot,
    ):
        at = Staff.of(slack, tmp_path / "tools.log")
        await bot.starts("_depart")
        assert (await install(reached_at(slack), at.lead)).status == 200
        said = await at.ann.says(PAY, at.deploys)
        card = await at.ann.finds("[Approve]", at.deploys, thread=said, timeout=PATIENCE)
        acme = slack.workspace.directory.installed_in("T0ACME")
        assert acme is not None

        slack.uninstalls(acme)
        await bot.reached()
        await bot.killed()
        await bot.starts("close_some")
        await bot.reached()
        await bot.killed()
        await bot.starts()
        assert (await install(reached_at(slack), at.lead)).status == 200
        await at.ann.finds("the app was removed from this workspace", at.deploys, thread=said, timeout=PATIENCE)
        await at.ann.finds("before anybody decided", at.deploys, timeout=PATIENCE)

        await until(lambda: "[Approve]" not in str(at.ann.now(card)))
        assert at.ran() == []


async def test_an_installation_that_was_stored_is_there_although_nobody_saw_the_page(
    database_url: str, tmp_path: Path
) -> None:
    async with (
        FakeSlack(distributed()) as slack,
        serving(slack, database_url, tmp_path, POLICIES, env=several(slack)) as bot,
    ):
        at = Staff.of(slack, tmp_path / "tools.log")
        await bot.starts("_save")
        begun = await begin(reached_at(slack))
        back = at.lead.allows(begun.asked_at)

        async def looks_at_the_page() -> None:
            with pytest.raises(aiohttp.ClientError):
                await begun.goes(back)

        page = asyncio.create_task(looks_at_the_page())
        await bot.reached()
        await bot.killed()
        await page
        await bot.starts()
        said = await at.ann.says(PAY, at.deploys)
        card = await at.ann.finds("[Approve]", at.deploys, thread=said, timeout=PATIENCE)
        await at.lead.clicks(card, "Approve")
        await at.ann.finds("Done: Pay", at.deploys, thread=said, timeout=PATIENCE)
        assert len(at.ran()) == 1
