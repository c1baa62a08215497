"""The bot is killed with SIGKILL while the agent replies."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.demo.slack_app import our_app
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.sandbox.people.seen import Seen
from adk_confirm.sandbox.server.server import FakeSlack
from tests.support.office import POLICY, Staff
from tests.support.serving import Serving, serving

pytestmark = pytest.mark.slow

DEAD_LETTERS = 61  # seconds after which Slack tells again what was not acknowledged
PATIENCE = 30.0


@pytest.fixture
async def at(tmp_path: Path) -> AsyncIterator[Staff]:
    async with FakeSlack(our_app()) as slack:
        yield Staff.of(slack, tmp_path / "tools.log")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    return tmp_path / "gate"


@pytest.fixture
async def bot(at: Staff, sqlite_stocked: str, tmp_path: Path, gate: Path) -> AsyncIterator[Serving]:
    """On one kind of database: `test_kills` looks at both."""
    async with serving(at.slack, sqlite_stocked, tmp_path, POLICY, env={"LAB_GATE": str(gate)}) as serves:
        yield serves


async def killed_and_started_again(at: Staff, bot: Serving) -> None:
    await bot.killed()
    at.slack.faults.clear()
    await bot.starts()
    at.slack.clock.advance(DEAD_LETTERS)


# In the middle of a reply


def whole(args: JsonObject) -> bool:
    """The reply, to take the place of what was seen of it."""
    return "and ends." in str(args.get("blocks"))


@pytest.mark.parametrize(
    "where", ["it grows", "chat.stopStream", "chat.stopStream done", "chat.update", "chat.update done"]
)
async def test_a_reply_is_there_whole_and_once(at: Staff, bot: Serving, gate: Path, where: str) -> None:
    """Wherever the process dies: what was seen of it by then does not look like the reply."""
    await bot.starts()
    said = await at.ann.says("@adk-confirm speak", at.deploys)
    await at.ann.finds("It goes on,", at.deploys, thread=said, timeout=PATIENCE)
    if where.startswith("chat."):
        method, _, acted = where.partition(" ")
        hang = at.slack.faults.hangs(method, acted=bool(acted), where=whole if method == "chat.update" else None)
        gate.touch()
        await bot.until(hang.reached())
    await killed_and_started_again(at, bot)
    gate.touch()

    reply = await at.ann.finds("and ends.", at.deploys, thread=said, timeout=PATIENCE)
    await at.slack.until(lambda: halves(at, said) == [] or None, timeout=PATIENCE)
    await at.ann.says("@adk-confirm is that all?", at.deploys, thread=said)
    await at.ann.finds("You said: is that all?", at.deploys, thread=said, timeout=PATIENCE)
    assert [seen.ts for seen in at.ann.messages(at.deploys, thread=said) if "and ends." in seen] == [reply.ts]
    assert halves(at, said) == []


async def test_killed_after_the_run_and_before_slack_has_named_what_is_seen_of_it(
    at: Staff, bot: Serving, gate: Path
) -> None:
    await bot.starts("finish_and_read_next")
    hang = at.slack.faults.hangs("chat.startStream", acted=True)
    said = await at.ann.says("@adk-confirm speak", at.deploys)
    await bot.until(hang.reached())
    assert halves(at, said)
    gate.touch()
    await bot.reached()
    await killed_and_started_again(at, bot)

    await at.ann.finds("and ends.", at.deploys, thread=said, timeout=PATIENCE)
    await at.slack.until(lambda: halves(at, said) == [], timeout=PATIENCE)


def halves(at: Staff, thread: Seen) -> list[Seen]:
    """What looks like a reply, and is none, or is still being written."""
    seen = [one for one in at.ann.messages(at.deploys, thread=thread) if one.author == "adk-confirm"]
    return [one for one in seen if one.message.streaming_since is not None or ("It " in one and "ends." not in one)]
