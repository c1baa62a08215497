"""The settings file changes while `adk-confirm serve` runs. People are barred at once, and new calls get the new
policies. A faulty file changes nothing. The tests use a real process and its log."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from adk_confirm.bot.config.reload import PolicyReloader
from adk_confirm.bot.config.settings import Rules, load_settings
from adk_confirm.demo.slack_app import our_app
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import LAB, PAY, Staff, config, environment
from tests.support.serving import Service, service
from tests.support.waiting import until

ONE_CALL = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
quorum = {quorum}
barred = [{barred}]
"""
pytestmark = pytest.mark.slow


@asynccontextmanager
async def serving(slack: FakeSlack, directory: Path, quorum: int) -> AsyncIterator[Service]:
    rules = ONE_CALL.format(quorum=quorum, barred="")
    async with service(slack, f"sqlite:///{directory / 'x.db'}", directory, rules) as running:
        await running.starts()
        yield running


def policies(quorum: int, barred: str = "") -> str:
    return config(ONE_CALL.format(quorum=quorum, barred=barred), LAB)


async def test_a_change_while_the_service_starts_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "adk-confirm.toml"
    file.write_text(policies(2))
    async with FakeSlack(our_app()) as slack:
        env = environment(slack, f"sqlite:///{tmp_path / 'x.db'}")
    rules = Rules(load_settings(file, env).policies)
    file.write_text(policies(1))
    watching = asyncio.create_task(PolicyReloader(file, env, rules).run())
    await until(lambda: rules.policies.entries[0].quorum == 1)
    watching.cancel()
    await asyncio.wait({watching})


async def test_a_changed_file_needs_no_restart(tmp_path: Path) -> None:
    file = tmp_path / "adk-confirm.toml"
    async with FakeSlack(our_app()) as slack, serving(slack, tmp_path, 2) as running:
        at = Staff.of(slack, tmp_path / "tools.log")
        card = await at.ask(PAY)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("· approved by bob ·", at.deploys, thread=card)

        file.write_text(policies(1).replace("quorum = 1", "quorum = 0"))
        wrong = await running.logs("the policies stay as they were")
        assert re.search(r"policy 1 \(line \d+\), quorum: must be at least 1, not 0", wrong)
        assert "Needs 2 approvals" in await at.ask(PAY)

        file.write_text(policies(1, '"user:U0BOB"'))
        await running.logs("has changed: new calls come under its policies from now on")

        await at.cyd.clicks(at.cyd.now(card), "Approve")
        await at.ann.finds("The approval of Pay: Ada, amount 20 by bob no longer counts", at.deploys, thread=card)
        await at.ann.finds("· approved by cyd ·", at.deploys, thread=card)
        await at.bob.clicks(at.bob.now(card), "Approve")
        await at.bob.gets_modal("Your account is barred")
        assert at.ran() == []

        later = await at.ask(PAY)
        assert "Needs 1 approval" in later
        await at.cyd.clicks(later, "Approve")
        await at.ann.finds(", done", at.deploys, thread=later)
        assert len(at.ran()) == 1

        file.write_text(policies(1, '"user:U0BOB"') + "[limits]\nwaiting_per_person = 3\n")
        await running.logs("has changed outside its policies: that holds once the service is started again")


async def test_a_file_that_is_gone_takes_no_policy_away(tmp_path: Path) -> None:
    file = tmp_path / "adk-confirm.toml"
    async with FakeSlack(our_app()) as slack, serving(slack, tmp_path, 1) as running:
        at = Staff.of(slack, tmp_path / "tools.log")
        file.unlink()
        assert "there is no such file" in await running.logs("the policies stay as they were")
        assert "Needs 1 approval" in await at.ask(PAY)


async def test_what_is_in_force_and_how_the_file_differs_is_told(tmp_path: Path) -> None:
    file, told = tmp_path / "adk-confirm.toml", list[tuple[str, str | None]]()
    file.write_text(policies(2))
    async with FakeSlack(our_app()) as slack:
        env = environment(slack, f"sqlite:///{tmp_path / 'x.db'}")
    rules = Rules(load_settings(file, env).policies)
    reloader = PolicyReloader(file, env, rules, lambda *said: told.append(said))

    async def changed(text: str) -> tuple[str, str | None]:
        file.write_text(text)
        await reloader.look()
        return told[-1]

    first, fine = await changed(policies(2))
    assert fine is None
    assert await changed("[[policy") == (first, f"{file} has mistakes")
    assert await changed(policies(2) + "[limits]\nwaiting_per_person = 3\n") == (
        first,
        f"{file} has changed outside its policies",
    )
    other, fine = await changed(policies(1))
    assert (other != first, fine) == (True, None)
    assert await changed(policies(2)) == (first, None)
