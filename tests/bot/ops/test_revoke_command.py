"""`adk-confirm grants` and `revoke` beside the service."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from bot.confirmation.authorise import Facts
from bot.confirmation.model import VoteKind
from bot.ops.times import format_time
from bot.store.casting import SubmittedVote, cast
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, full_member
from tests.support.stores import unguarded

SESSION = "slack-T0ACME-C0DEPLOYS-1.1"
GRANTING = '[[policy]]\ntools = ["deploy*"]\napprovers = ["user:U0ANNA"]\ngrant = "session"\n'
FACTS = Facts(account=full_member(ANNA))


async def granted(at: Backoffice, policies: str) -> str:
    """A call that Anna approved, and the next ones like it; the grant's id."""
    at.policies(policies)
    await at.hears("deploy it")
    deploy = await at.asks("deploy", {"version": "2.4.1"})
    assert await at.refusal("revoke", deploy) == (
        f"Grant {deploy} is not in force. `adk-confirm grants` lists those that are."
    )
    ballot = SubmittedVote(
        id="one", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=ANNA, grant=True, way="form"
    )
    await at.database.run(cast, ballot, at.rules.policies, lambda *_: FACTS)
    return deploy


async def test_a_grant_ends_and_an_unknown_one_is_reported(at: Backoffice) -> None:
    deploy = await granted(at, GRANTING)
    listed = (await at.command("grants")).lines
    assert listed[0] == f"{deploy}  deploy  with version 2.4.1"
    until = format_time(at.clock.now + timedelta(days=1))
    assert listed[1] == f"    given by U0ANNA in C0DEPLOYS, session {SESSION}; until {until}, 1d left; not used yet"
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    (one,) = json.loads((await at.command("grants", "--json")).out)["grants"]
    assert (one["id"], one["given_by"], one["on"], one["uses"]) == (deploy, ["U0ANNA"], {"version": "2.4.1"}, 1)
    assert one["most"] is None

    said = await at.command("revoke", deploy[:10])

    assert said.out == f"Grant {deploy} is revoked. Calls like it ask again.\n"
    assert "is not in force" in await at.refusal("revoke", deploy)
    assert [line.kind for line in await at.lines()][-2:] == ["grant revoked", "vote refused"]
    assert (await at.command("grants")).out == "No grants are in force: every call needs approval.\n"


async def test_a_grant_for_some_uses_says_how_many_are_left(at: Backoffice) -> None:
    await granted(at, GRANTING.replace('"session"', '{ for = "30m", uses = 3 }'))
    assert (await at.command("grants")).lines[1].endswith("left; 0 of 3 uses")
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    assert (await at.command("grants")).lines[1].endswith("left; 1 of 3 uses")


@pytest.mark.parametrize("allowed", ['"session"', '{ for = "30m", uses = 3 }'])
async def test_a_use_that_somebody_deleted_is_not_passed_over(at: Backoffice, allowed: str) -> None:
    await granted(at, GRANTING.replace('"session"', allowed))
    await at.asks("deploy", {"version": "2.4.1"}, rights={ANNA: FACTS})
    await at.database.run(unguarded)
    await at.database.run(lambda tx: tx.run("DELETE FROM bot_ledger WHERE kind = 'grant used'"))
    assert "left; uses not known, since the ledger was changed" in (await at.command("grants")).lines[1]
