"""`adk-confirm grants` and `revoke` beside the service."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from bot.confirmation.authorise import Facts
from bot.confirmation.model import VoteKind
from bot.operations.operator_times import format_time
from bot.store.casting import SubmittedVote, cast
from tests.support.backoffice import backoffice
from tests.support.deciding import ANNA, full_member

SESSION = "slack-T0ACME-C0DEPLOYS-1.1"
GRANTING = '[[policy]]\ntools = ["deploy*"]\napprovers = ["user:U0ANNA"]\ngrant = "session"\n'


async def test_a_grant_ends_and_an_unknown_one_is_reported(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with backoffice(database_url, tmp_path, monkeypatch, capsys) as at:
        at.policies(GRANTING)
        await at.hears("deploy it")
        deploy = await at.asks("deploy", {"version": "2.4.1"})
        assert await at.refusal("revoke", deploy) == (
            f"Grant {deploy} is not in force. `adk-confirm grants` lists those that are."
        )
        ballot = SubmittedVote(
            id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
        )
        await at.database.run(cast, ballot, at.rules.policies, lambda *_: Facts(account=full_member(ANNA)))

        listed = (await at.command("grants")).lines
        assert listed[0] == f"{deploy}  deploy  with version 2.4.1"
        until = format_time(at.clock.now + timedelta(days=1))
        assert listed[1] == f"    given by U0ANNA in C0DEPLOYS, session {SESSION}; until {until}, 1d left; not used yet"
        await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: Facts(account=full_member(ANNA))})
        (one,) = json.loads((await at.command("grants", "--json")).out)["grants"]
        assert (one["id"], one["given_by"], one["on"], one["uses"]) == (deploy, ["U0ANNA"], {"version": "2.4.1"}, 1)
        assert one["most"] is None

        said = await at.command("revoke", deploy[:10])

        assert said.out == f"Grant {deploy} is revoked. Calls like it ask again.\n"
        assert await at.refusal("revoke", deploy) == (
            f"Grant {deploy} is not in force. `adk-confirm grants` lists those that are."
        )
        assert [line.kind for line in await at.lines()][-2:] == ["grant revoked", "vote refused"]
        assert (await at.command("grants")).out == "No grants are in force: every call needs approval.\n"


async def test_a_grant_for_some_uses_says_how_many_are_left(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with backoffice(database_url, tmp_path, monkeypatch, capsys) as at:
        at.policies(GRANTING.replace('"session"', '{ for = "30m", uses = 3 }'))
        await at.hears("deploy it")
        deploy = await at.asks("deploy", {"version": "2.4.1"})
        ballot = SubmittedVote(
            id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
        )
        await at.database.run(cast, ballot, at.rules.policies, lambda *_: Facts(account=full_member(ANNA)))
        assert (await at.command("grants")).lines[1].endswith("left; 0 of 3 uses")

        await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: Facts(account=full_member(ANNA))})

        assert (await at.command("grants")).lines[1].endswith("left; 1 of 3 uses")
