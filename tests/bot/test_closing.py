"""What becomes of a confirmation whose workspace removed the app: nothing begins any more, and it says why."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import insert, select, update

from bot import words
from bot.attend import Kind, claim_due, put_aside
from bot.closing import abandon
from bot.departures import Removal, arrive, depart, departed, gone
from bot.installations import Installed, bots
from bot.ledger import LineKind
from bot.people import SLACK
from bot.policy import Governs, Unfit
from bot.row import OutcomeKind, State, VoteKind
from bot.slack_calls import Workspace
from bot.slack_trouble import NotInstalled
from bot.tables import homes, switches
from bot.workspaces import unfit
from runtime.database import Database, Tx
from runtime.lease import Lease
from tests.support.deciding import ANNA, NOON, Desk, make_policy

ACME = Workspace("T0ACME", "E0CORP")


def test_what_waits_is_withdrawn_and_the_agent_is_told_why() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.approve(ANNA)
    desk.took(abandon(desk.row, desk.now))
    assert desk.state() is State.WITHDRAWN
    assert desk.told[-1] is LineKind.WITHDRAWN
    assert (desk.answer.confirmed, desk.answer.reason) == (False, words.REMOVED_TO_MODEL)
    assert abandon(desk.row, desk.now).row is desk.row  # once


def test_what_was_approved_and_has_not_begun_does_not_begin() -> None:
    desk = Desk(make_policy())
    desk.approve(ANNA)
    desk.took(abandon(desk.row, desk.now))
    assert desk.state() is State.LAPSED
    assert [delivery.confirmed for delivery in desk.deliveries if hasattr(delivery, "confirmed")] == [True, False]


def test_what_was_given_to_the_host_ends_as_it_ends() -> None:
    desk = Desk(make_policy())
    desk.approve(ANNA)
    desk.begin()
    assert abandon(desk.row, desk.now).row is desk.row
    desk.host_says(OutcomeKind.DONE, "{}")
    assert abandon(desk.row, desk.now).row is desk.row


def test_a_second_attempt_leaves_what_was_unknown_as_unknown_as_it_was() -> None:
    desk = Desk(make_policy())
    desk.approve(ANNA)
    desk.begin()
    desk.host_says(OutcomeKind.UNKNOWN)
    desk.vote(VoteKind.RUN_AGAIN, ANNA)
    assert desk.row.attempt == 2
    desk.took(abandon(desk.row, desk.now))
    assert (desk.state(), desk.row.unknown, desk.row.attempt) == (State.APPROVED, True, 1)


def test_a_grant_ends_with_it_by_nobodys_word() -> None:
    desk = Desk(make_policy(grant="30m"))
    desk.approve(ANNA, grant=True)
    desk.begin()
    desk.host_says(OutcomeKind.DONE, "{}")
    assert desk.row.grant_until is not None
    change = abandon(desk.row, NOON)
    assert change.row.grant_until is None
    assert change.revoked_by == SLACK
    assert [(step.kind, step.who) for step in change.steps] == [(LineKind.GRANT_REVOKED, None)]


# The marks


def installed(tx: Tx, team: str | None, at: float = 100.0) -> Installed:
    """As the SDK's store would leave it."""
    one = Installed(team=team, enterprise="E0CORP", name="Acme", at=at)
    tx.execute(
        insert(bots).values(
            client_id="1.2", app_id="A1", team_id=team, enterprise_id="E0CORP", bot_token="sealed", bot_id="B1",
            bot_user_id="U1", is_enterprise_install=team is None,
        )
    )  # fmt: skip
    return one


async def test_a_workspace_that_left_is_gone_unless_its_organisation_serves_it(database: Database) -> None:
    def leaves(tx: Tx) -> None:
        assert not gone(tx, ACME)
        assert depart(tx, installed(tx, "T0ACME"), Removal(at=ACME, sentence="gone", event="Ev1"))
        assert (gone(tx, ACME), departed(tx)) == (True, ["T0ACME"])
        everywhere = installed(tx, None)
        assert not gone(tx, ACME)
        assert depart(tx, everywhere, Removal(at=Workspace("", "E0CORP"), sentence="gone too", event="Ev2"))
        assert gone(tx, ACME)
        arrive(tx, installed(tx, "T0ACME"), "back")
        assert not gone(tx, ACME)

    await database.run(leaves)


async def test_with_several_installed_a_policy_that_names_none_governs_nothing(database: Database) -> None:
    """Whoever finds a way past the pages that would not have let the second one in."""
    nameless, theirs = (Governs(make_policy(**keys), 0) for keys in ({}, {"team": "T0ACME"}))

    def look(tx: Tx) -> None:
        installed(tx, "T0ACME")
        assert unfit(tx, "1.2", ACME, nameless) is None
        one = installed(tx, "T0GLOBEX")
        assert unfit(tx, "1.2", ACME, nameless) is Unfit.WHOSE_POLICY
        assert unfit(tx, "1.2", ACME, theirs) is None
        assert unfit(tx, "another app", ACME, nameless) is None
        depart(tx, one, Removal(at=one.workspace, sentence="gone"))
        assert unfit(tx, "1.2", ACME, nameless) is None
        assert unfit(tx, "1.2", Workspace("T0GLOBEX"), theirs) is Unfit.REMOVED

    await database.run(look)


async def test_the_same_event_again_and_one_from_before_remove_nothing(database: Database) -> None:
    def leaves(tx: Tx) -> None:
        one = installed(tx, "T0ACME", at=100.7)
        told = Removal(at=ACME, sentence="gone", event="Ev1", before=100.0)
        assert not depart(tx, one, replace(told, before=99.0))
        assert depart(tx, one, told)
        assert not depart(tx, installed(tx, "T0ACME"), told)
        assert tx.execute(select(bots.c.team_id)).scalars().all() == ["T0ACME"]

    await database.run(leaves)


async def test_what_can_not_be_told_there_is_put_aside_until_somebody_is_back(database: Database) -> None:
    """And is not put aside when somebody came back while it was tried."""
    key = "T0ACME/U1"

    async def attend(_: str, __: Lease) -> None:
        raise AssertionError("nobody attends here")

    kind = Kind(homes, homes.c.key, "t", attend)
    nobody = NotInstalled("T0ACME", "E0CORP")

    def opened(tx: Tx) -> Installed:
        tx.execute(
            insert(homes).values(
                key=key, team="T0ACME", enterprise="E0CORP", user_id="U1", opened_at=0, looked_at=0, version=1,
                due_at=tx.now(),
            )
        )  # fmt: skip
        one = installed(tx, "T0ACME")
        depart(tx, one, Removal(at=ACME, sentence="gone"))
        return one

    def fails(tx: Tx) -> None:
        tx.execute(update(homes).values(due_at=tx.now(), lease_token=None, lease_until=None))
        ((found, token),) = claim_due(tx, kind, 10, 30.0)[0]
        put_aside(tx, kind, found, token, nobody)

    def row(tx: Tx) -> tuple[bool, bool, int]:
        found = tx.execute(select(homes.c.parked_at, homes.c.due_at, homes.c.failures)).one()
        return found.parked_at is not None, found.due_at is not None, found.failures

    one = await database.run(opened)
    await database.run(fails)
    assert await database.read(row) == (True, False, 20)
    await database.run(arrive, one, "back")
    assert await database.read(row) == (False, True, 0)
    await database.run(fails)
    assert await database.read(row) == (False, True, 1)

    def marks(tx: Tx) -> int:
        return len(tx.execute(select(switches)).all())

    assert await database.read(marks) == 0
