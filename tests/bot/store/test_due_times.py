"""When cards and lines of a call that was just approved are due: with its end, or after a while."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.bot.confirmation.model import OutcomeKind
from adk_confirm.bot.store.slack_lanes import CARDS_FIRST, SOON, mark_thread_due
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from tests.support.backoffice import Backoffice, backoffice
from tests.support.deciding import ANNA


@pytest.fixture
async def at(
    either_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> AsyncIterator[Backoffice]:
    async with backoffice(either_url, tmp_path, monkeypatch, capsys) as made:
        made.policies('[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\n')
        yield made


async def due(at: Backoffice) -> dict[str, float | None]:
    """In how many seconds the card and the thread are due."""

    def read(tx: Tx) -> dict[str, float | None]:
        found = {kind: tx.value(f"SELECT due_at FROM jobs WHERE kind = '{kind}'") for kind in ("card", "thread")}
        return {name: None if when is None else round(when - tx.now(), 3) for name, when in found.items()}

    return await at.database.read(read)


async def test_an_approved_call_waits_for_its_end_but_for_nothing_else(at: Backoffice) -> None:
    name = await at.asks("deploy")
    assert await due(at) == {"card": 0, "thread": CARDS_FIRST}
    await at.is_posted()
    await at.vote(name, ANNA)
    assert await due(at) == {"card": SOON, "thread": SOON}

    at.clock.passes(seconds=SOON / 4)
    await at.database.run(mark_thread_due, at.key, SOON)
    assert await due(at) == {"card": SOON * 3 / 4, "thread": SOON * 3 / 4}

    await at.database.run(mark_thread_due, at.key)
    assert await due(at) == {"card": SOON * 3 / 4, "thread": 0}

    await at.runs(name)
    assert await due(at) == {"card": 0, "thread": 0}


async def test_a_call_that_begins_at_once_has_no_line_of_its_own(at: Backoffice) -> None:
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    await at.is_posted()
    at.clock.passes(seconds=SOON / 4)
    await at.runs(name, kind=OutcomeKind.RUNNING)
    assert (await due(at))["thread"] == SOON * 3 / 4


async def test_a_call_that_begins_late_has_its_line_at_once(at: Backoffice) -> None:
    name = await at.asks("deploy")
    await at.vote(name, ANNA)
    await at.is_posted()
    at.clock.passes(seconds=2 * SOON)
    await at.runs(name, kind=OutcomeKind.RUNNING)
    assert (await due(at))["thread"] == 0


async def test_deadlines_hours_away_wake_nobody(at: Backoffice) -> None:
    with at.database.waiter(topic_of("confirmation")) as waiter:
        name = await at.asks("deploy")
        await at.vote(name, ANNA)
        assert not await waiter.wait(0.1)
