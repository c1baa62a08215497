"""A call that waits for its approval, for those who then write to the database."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from adk_confirm.bot.confirmation.confirmation import VoteKind
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.people.seen import Seen
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, BEN
from tests.support.left import KINDS, RELEASES, Left, laid_down
from tests.support.office import BOTH_IN_CI, Office, empty_store, wake

DINNER = "reimburse 1500 for the team dinner"


@pytest.fixture(params=BOTH_IN_CI)
def database_url(request: pytest.FixtureRequest) -> str:
    return empty_store(request)


@pytest.fixture
async def card(at: Office) -> Seen:
    """What ann asks for in the office that is open. Nothing else is left to do."""
    asked = await at.ask(DINNER)
    await at.rests()
    return asked


@pytest.fixture(params=product(RELEASES, KINDS), ids=" on ".join)
def left(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Left]:
    """A store as an earlier release left it."""
    release, kind = request.param
    server = request.getfixturevalue("postgres") if kind == "postgresql" else None
    with laid_down(release, kind, tmp_path, server) as it:
        yield it


async def decide_two(at: Backoffice) -> None:
    """A deploy is approved and runs, and a refund is denied: eight lines of the ledger."""
    deploy = await at.asks("deploy", {"version": "2.4.1"})
    await at.vote(deploy, ANNA)
    await at.vote(deploy, BEN)
    await at.runs(deploy)
    await at.vote(await at.asks("refund", {"amount": 1500}), ANNA, VoteKind.DENY)


def sends(tx: Tx, kind: str, body: str, /, **more: object) -> None:
    """A letter to the agent under the seal of a true one."""
    true = tx.first("SELECT * FROM bot_mail")
    mine = {"session": true.session, "kind": kind, "mark": "9.9", "body": body, "stored_at": tx.now(), "line": 0}
    tx.insert("bot_mail", {**mine, "sealed": true.sealed, **more})
    wake(tx, "session")
