"""An agent of google-adk in the bot's own process, as people in Slack see it."""

from __future__ import annotations

from pathlib import Path

import pytest

from adk_confirm.bot.config.settings import parse_settings
from adk_confirm.bot.ops.check import checks
from adk_confirm.bot.ops.findings import Severity
from tests.support.foreign.alone import ran
from tests.support.foreign.fifos import all_let_go, hold
from tests.support.office import ONE, Opens
from tests.support.waiting import until

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself

TARGETS = "tests.support.foreign.in_process"


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOL_LOG", str(tmp_path / "tools.log"))
    monkeypatch.setenv("TOOL_FIFO", str(tmp_path / "fifo"))


@pytest.mark.parametrize(("target", "in_memory"), [("clerk", False), ("shop", True)])
async def test_check_says_which_sessions_would_be_lost(target: str, in_memory: bool, tmp_path: Path) -> None:
    store = {"DATABASE_URL": f"sqlite:///{tmp_path / 'bot.db'}"}
    settings = parse_settings(f'[agent]\ntarget = "{TARGETS}:{target}"', store)
    found = [one async for one in checks(settings, (), [], {})]
    about = [finding for finding in found if finding.what == "agent"]
    assert all(finding.mark is not Severity.FIX for finding in about)
    assert any("kept in memory" in finding.said for finding in about) is in_memory
    assert [*tmp_path.glob("*.db")] == []  # it looks, and leaves nothing behind


async def test_while_a_tool_blocks_others_decide(open_office: Opens, tmp_path: Path) -> None:
    hold(tmp_path, "long")
    async with open_office(target=f"{TARGETS}:stalling", time_moves=False) as at:
        with all_let_go(tmp_path):
            first, second = await at.ask("please linger long"), await at.ask("please linger on")
            await at.bob.clicks(first, "Approve")
            await until(ran)

            await at.denies(at.bob, second, "One is enough")
            await at.sees(second, "Denied")

        await at.sees(first, "Done: Linger")
        assert [*map(list, ran())] == [["tool", "begun"], ["tool", "ended"]]


IN_ANOTHER_CHANNEL = ONE.replace('["*"]', '["reimburse"]') + 'channel = "C0MONEY"\n'


async def test_what_is_asked_after_an_answer_waits_for_slack_and_not_for_what_was_asked_with_it(
    open_office: Opens,
) -> None:
    """google-adk asks in the same invocation as before. What was decided then was sent already."""
    async with open_office(IN_ANOTHER_CHANNEL + ONE, target=f"{TARGETS}:clerk") as at:
        money = at.slack.channel("money", at.ann, at.bob, id="C0MONEY")
        card = await at.ask("please deploy one then deploy two and pay 1500")
        at.slack.faults.limits("conversations.info", retry_after=60, where=lambda args: args["channel"] == money.id)
        await at.bob.clicks(card, "Approve")
        second = await at.sees(card, "Deploy two?")
        await at.later(seconds=61)
        third = await at.bob.finds("Reimburse: amount 1,500?", money)

        await at.bob.clicks(second, "Approve")
        await at.sees(card, "deploy runs once reimburse is decided")
        assert [line.get("service") for line in ran()] == ["one"]
        await at.bob.clicks(third, "Approve")
        await at.sees(card, "I am done with")
        assert [line.get("service") for line in ran()] == ["one", "two", None]


async def test_what_nobody_was_asked_about_yet_holds_back_what_overtakes_a_message(open_office: Opens) -> None:
    """The message was sent before, but then Slack could not be asked about the second of its calls."""
    async with open_office(IN_ANOTHER_CHANNEL + ONE, target=f"{TARGETS}:clerk") as at:
        money, order = at.slack.channel("money", at.ann, at.bob, id="C0MONEY"), {"order.txt": b"Twenty."}
        other = await at.ask("please deploy two")
        third = await at.sees(await at.ann.says("@adk-confirm please deploy three", at.deploys, thread=other), "three?")
        at.slack.faults.limits("conversations.info", retry_after=60, where=lambda args: args["channel"] == money.id)
        said = await at.ann.says("@adk-confirm please deploy one and pay 1500", at.deploys, files=order)
        first = await at.sees(said, "Deploy one?")
        at.slack.faults.hangs("download", times=None)
        await at.later(seconds=61)
        await at.ann.says("@adk-confirm read this", at.deploys, thread=other, files=order)
        await at.bob.clicks(first, "Approve")
        await at.bob.clicks(other, "Approve")
        await until(ran)
        await at.bob.clicks(third, "Approve")
        await until(lambda: len(ran()) > 1)  # a second has passed since the other overtook the file
        assert [line["service"] for line in ran()] == ["two", "three"]

        at.slack.faults.clear()
        await at.bob.clicks(await at.bob.finds("Reimburse: amount 1,500?", money), "Approve")
        await at.sees(said, "I got")
        assert [line["tool"] for line in ran()] == ["deploy"] * 3 + ["reimburse"]
