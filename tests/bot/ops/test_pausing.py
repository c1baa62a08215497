"""`adk-confirm pause` and `resume` beside a running bot: no call begins meanwhile, and every card says why."""

from __future__ import annotations

import pytest

from tests.support.office import Office, Opens, operates

PAUSED = "Approved calls start once they are resumed."


async def unheard(at: Office) -> int:
    """How many letters no agent was told."""
    waiting = "SELECT count(*) FROM bot_mail WHERE done_at IS NULL"
    return int(await at.bot.database.read(lambda tx: tx.value(waiting)))


async def test_nothing_begins_and_the_cards_say_so(open_office: Opens, database_url: str) -> None:
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        other = await at.ask("reimburse 1700 for the offsite")

        assert await operates(at, database_url, "pause") == {"changed": True}
        for shown in (card, other):
            waiting = await at.ann.finds(PAUSED, at.deploys, thread=shown)
            assert waiting.ts == shown.ts
        await at.bob.clicks(card, "Approve")
        held = await at.ann.finds("Paused: Reimburse", at.deploys, thread=card)
        assert PAUSED in held
        await at.ann.says("@adk-confirm reimburse 1900 for the taxi", at.deploys)
        await at.slack.settled()
        await at.later(minutes=1)
        assert at.ran() == []
        assert await unheard(at) == 2

        assert await operates(at, database_url, "resume") == {"changed": True}
        await at.later(seconds=10)
        done = await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        assert done.ts == card.ts
        assert PAUSED not in done
        await at.ann.finds("Reimburse €1,900", at.deploys)
        await at.rests()
        assert PAUSED not in at.ann.now(other)
        assert [line["amount"] for line in at.ran()] == [1500]


async def test_what_runs_may_end(open_office: Opens, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_office(target="tests.support.lab:agent") as at:
        gate = at.log.with_name("gate")
        monkeypatch.setenv("LAB_GATE", str(gate))
        card = await at.ask('work {"on": "the roof"}')
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Running:", at.deploys, thread=card)
        await operates(at, database_url, "pause")
        gate.touch()
        await at.ann.finds("Done: Work", at.deploys, thread=card)
