"""`adk-confirm revoke`, from beside the service."""

from __future__ import annotations

from pathlib import Path

import pytest

from bot.confirmation.authorise import Facts
from bot.confirmation.model import VoteKind
from bot.store.transactions import Ballot, cast
from tests.support.backoffice import backoffice
from tests.support.deciding import ANNA, full_member

GRANTING = '[[policy]]\ntools = ["deploy*"]\napprovers = ["user:U0ANNA"]\ngrant = "session"\n'


async def test_a_grant_ends_and_one_that_is_none_is_said(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with backoffice(database_url, tmp_path, monkeypatch, capsys) as at:
        at.policies(GRANTING)
        await at.hears("deploy it")
        deploy = await at.asks("deploy", {"version": "2.4.1"})
        assert await at.refusal("revoke", deploy) == (
            f"Confirmation {deploy} has no grant in force: there is nothing to revoke."
        )
        ballot = Ballot(
            id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
        )
        await at.database.run(cast, ballot, at.rules, lambda *_: Facts(account=full_member(ANNA)))

        said = await at.command("revoke", deploy[:10])

        assert said.out == f"Grant {deploy} is revoked. Calls like it ask again.\n"
        assert await at.refusal("revoke", deploy) == (
            f"Confirmation {deploy} has no grant in force: there is nothing to revoke."
        )
        assert [line.kind for line in await at.lines()][-2:] == ["grant revoked", "vote refused"]
