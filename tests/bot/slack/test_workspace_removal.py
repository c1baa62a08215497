"""A workspace removes the app: no call of it begins any more, and its confirmations say why."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import insert, select, update

from bot.audit.ledger import LineKind
from bot.confirmation import decision_texts
from bot.confirmation.model import OutcomeKind, State, VoteKind
from bot.leasing.due_rows import RowKind, claim_due
from bot.leasing.lease_loop import put_aside
from bot.policy.approvers import SLACK, Person
from bot.policy.model import CallRefusalReason, GoverningPolicy
from bot.slack.outbound.calls import Workspace
from bot.slack.outbound.errors import NotInstalled
from bot.slack.workspaces.installations import bots
from bot.slack.workspaces.installed import InstalledApp
from bot.slack.workspaces.removal import (
    AccessChange,
    Departure,
    Removal,
    find_departures,
    grant,
    has_left,
    record_arrival,
    record_closed,
    record_departure,
    waits_for_installation,
    withhold,
)
from bot.slack.workspaces.removal_cleanup import abandon
from bot.slack.workspaces.tokens import unfit
from bot.store.incoming_words import SlackMessage, store_message
from bot.store.tables import homes, mail, sessions
from runtime.store.database import Database, Tx
from runtime.store.lease import Lease
from tests.support.deciding import ANNA, NOON, Desk, make_policy

ACME = Workspace("T0ACME", "E0CORP")


def test_what_waits_is_withdrawn_and_the_agent_is_told_why() -> None:
    desk = Desk(make_policy(quorum=2))
    desk.approve(ANNA)
    desk.took(abandon(desk.row, desk.now))
    assert desk.state() is State.WITHDRAWN
    assert desk.kinds[-1] is LineKind.WITHDRAWN
    assert (desk.answer.confirmed, desk.answer.reason) == (False, decision_texts.REMOVED_TO_MODEL)
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


def installed(tx: Tx, team: str | None, at: float = 100.0) -> InstalledApp:
    """As the SDK's store would leave it."""
    one = InstalledApp(team=team, enterprise="E0CORP", name="Acme", at=at)
    tx.execute(
        insert(bots).values(
            client_id="1.2", app_id="A1", team_id=team, enterprise_id="E0CORP", bot_token="sealed", bot_id="B1",
            bot_user_id="U1", is_enterprise_install=team is None,
        )
    )  # fmt: skip
    return one


async def test_a_workspace_that_left_is_gone_unless_its_organisation_serves_it(database: Database) -> None:
    def leaves(tx: Tx) -> None:
        assert not has_left(tx, ACME)
        assert record_departure(tx, installed(tx, "T0ACME"), Removal(at=ACME, sentence="gone", event="Ev1"))
        assert (has_left(tx, ACME), find_departures(tx)) == (True, [Departure(id="T0ACME")])
        everywhere = installed(tx, None)
        assert not has_left(tx, ACME)
        assert record_departure(tx, everywhere, Removal(at=Workspace("", "E0CORP"), sentence="gone too", event="Ev2"))
        assert has_left(tx, ACME)
        record_arrival(tx, installed(tx, "T0ACME"), "back")
        assert not has_left(tx, ACME)

    await database.run(leaves)


async def test_with_several_installed_a_policy_that_names_none_governs_nothing(database: Database) -> None:
    """Whoever finds a way past the pages that would not have let the second one in."""
    nameless, theirs = (GoverningPolicy(make_policy(**keys), 0) for keys in ({}, {"team": "T0ACME"}))

    def look(tx: Tx) -> None:
        installed(tx, "T0ACME")
        assert unfit(tx, "1.2", ACME, nameless) is None
        one = installed(tx, "T0GLOBEX")
        assert unfit(tx, "1.2", ACME, nameless) is CallRefusalReason.WHOSE_POLICY
        assert unfit(tx, "1.2", ACME, theirs) is None
        assert unfit(tx, "another app", ACME, nameless) is None
        record_departure(tx, one, Removal(at=one.workspace, sentence="gone"))
        assert unfit(tx, "1.2", ACME, nameless) is None
        assert unfit(tx, "1.2", Workspace("T0GLOBEX"), theirs) is CallRefusalReason.REMOVED

    await database.run(look)


async def test_the_same_event_again_and_one_from_before_remove_nothing(database: Database) -> None:
    def leaves(tx: Tx) -> None:
        one = installed(tx, "T0ACME", at=100.7)
        removal = Removal(at=ACME, sentence="gone", event="Ev1", before=100.0)
        assert not record_departure(tx, one, replace(removal, before=99.0))
        assert record_departure(tx, one, removal)
        assert not record_departure(tx, installed(tx, "T0ACME"), removal)
        assert tx.execute(select(bots.c.team_id)).scalars().all() == ["T0ACME"]

    await database.run(leaves)


async def test_what_can_not_be_told_there_is_put_aside_until_somebody_is_back(database: Database) -> None:
    """And is not put aside when somebody came back while it was tried."""
    key = "T0ACME/U1"

    async def attend(_: str, __: Lease) -> None:
        raise AssertionError("nobody attends here")

    kind = RowKind(homes, homes.c.key, "t", attend)
    nobody = NotInstalled("T0ACME", "E0CORP")

    def opened(tx: Tx) -> InstalledApp:
        tx.execute(
            insert(homes).values(
                key=key, team="T0ACME", enterprise="E0CORP", user_id="U1", opened_at=0, looked_at=0, version=1,
                due_at=tx.now(),
            )
        )  # fmt: skip
        one = installed(tx, "T0ACME")
        record_departure(tx, one, Removal(at=ACME, sentence="gone"))
        return one

    def fails(tx: Tx) -> None:
        tx.execute(update(homes).values(due_at=tx.now(), lease_token=None, lease_until=None))
        ((found, claim),) = claim_due(tx, kind, 10, 30.0)[0]
        put_aside(tx, kind, found, claim.due_at, nobody, waits_for_installation)

    def row(tx: Tx) -> tuple[bool, bool, int]:
        found = tx.execute(select(homes.c.parked_at, homes.c.due_at, homes.c.failures)).one()
        return found.parked_at is not None, found.due_at is not None, found.failures

    one = await database.run(opened)
    await database.run(fails)
    assert await database.read(row) == (True, False, 20)
    await database.run(record_arrival, one, "back")
    assert await database.read(row) == (False, True, 0)
    await database.run(fails)
    assert await database.read(row) == (False, True, 1)

    assert [mark.back is not None for mark in await database.read(find_departures)] == [True]


# Back before all was closed


EVERYWHERE = Workspace("", "E0CORP")
SOUTH = Workspace("T0SOUTH", "E0CORP")


async def test_who_is_back_at_once_finds_what_was_asked_before_closed(database: Database) -> None:
    def leaves_and_returns(tx: Tx) -> Departure:
        record_departure(tx, installed(tx, "T0ACME"), Removal(at=ACME, sentence="gone"))
        record_arrival(tx, installed(tx, "T0ACME"), "back")
        (mark,) = find_departures(tx)
        assert mark.back is not None
        assert mark.ends(tx, ACME, mark.back - 1)
        assert not mark.ends(tx, ACME, mark.back)
        return mark

    first = await database.run(leaves_and_returns)
    again = await database.run(leaves_and_returns)
    await database.run(record_closed, first)  # somebody who looked before it left once more
    assert await database.read(find_departures) == [again]
    await database.run(record_closed, again)
    assert await database.read(find_departures) == []


async def test_where_another_installation_served_it_all_the_while_nothing_is_closed(database: Database) -> None:
    def own_one_comes_and_goes(tx: Tx) -> None:
        everywhere = installed(tx, None)
        record_departure(tx, installed(tx, "T0ACME"), Removal(at=ACME, sentence="gone"))
        record_arrival(tx, installed(tx, "T0ACME"), "back")
        (mark,) = find_departures(tx)
        assert not mark.ends(tx, ACME, 0.0)
        record_closed(tx, mark)

        record_departure(tx, everywhere, Removal(at=EVERYWHERE, sentence="gone"))
        record_arrival(tx, installed(tx, None), "back")
        (mark,) = find_departures(tx)
        assert (mark.ends(tx, ACME, 0.0), mark.ends(tx, SOUTH, 0.0)) == (False, True)

    await database.run(own_one_comes_and_goes)


async def test_words_are_heard_as_long_as_somebody_serves_where_they_were_said(database: Database) -> None:
    def unheard(tx: Tx) -> list[str]:
        waiting = select(sessions.c.team).join(mail, mail.c.session == sessions.c.key).where(mail.c.done_at.is_(None))
        return sorted(tx.execute(waiting).scalars())

    def leave(tx: Tx) -> None:
        for at in (ACME, SOUTH):
            store_message(tx, words_in(at))
        everywhere, own = installed(tx, None), installed(tx, "T0ACME")
        assert unheard(tx) == ["T0ACME", "T0SOUTH"]
        record_departure(tx, own, Removal(at=ACME, sentence="gone"))
        assert unheard(tx) == ["T0ACME", "T0SOUTH"]  # the organisation's serves it
        record_arrival(tx, installed(tx, "T0ACME"), "back")
        record_departure(tx, everywhere, Removal(at=EVERYWHERE, sentence="gone"))
        assert unheard(tx) == ["T0ACME"]

    await database.run(leave)


def words_in(at: Workspace) -> SlackMessage:
    person = Person(at.team, "U0ASKER")
    return SlackMessage(
        app="oncall", team=at.team, enterprise=at.enterprise, channel="C1", thread_ts="1.1", ts="1.1", person=person,
        text="deploy it",
    )  # fmt: skip


async def test_an_organisation_brings_back_a_workspace_that_had_left_by_itself(database: Database) -> None:
    def returns(tx: Tx) -> None:
        record_departure(tx, installed(tx, "T0ACME"), Removal(at=ACME, sentence="gone"))
        record_arrival(tx, installed(tx, None), "for all")
        (mark,) = find_departures(tx)
        assert (mark.id, mark.by, mark.ends(tx, ACME, 0.0)) == ("T0ACME", "E0CORP", True)

    await database.run(returns)


# Where an organisation may use it


def change(at: float, *, granted: bool = False) -> AccessChange:
    return AccessChange(enterprise="E0CORP", teams=("T0SOUTH",), granted=granted, at=at)


async def test_a_workspace_without_its_organisations_app_is_gone_until_it_gets_it_back(database: Database) -> None:
    def changes(tx: Tx) -> None:
        organisation = installed(tx, None)
        assert withhold(tx, organisation, "T0SOUTH", change(200.5))
        assert (has_left(tx, SOUTH), has_left(tx, ACME)) == (True, False)
        assert not withhold(tx, organisation, "T0SOUTH", change(200.5))  # told again
        assert not grant(tx, organisation, "T0SOUTH", change(200.4, granted=True))  # what was before comes after
        assert has_left(tx, SOUTH)
        assert grant(tx, organisation, "T0SOUTH", change(200.6, granted=True))
        assert not has_left(tx, SOUTH)
        (mark,) = find_departures(tx)
        assert (mark.id, mark.ends(tx, SOUTH, 0.0)) == ("T0SOUTH", True)
        assert not withhold(tx, organisation, "T0SOUTH", change(200.5))
        assert not has_left(tx, SOUTH)

    await database.run(changes)


async def test_what_was_taken_away_comes_back_with_the_organisations_next_installation(database: Database) -> None:
    def changes(tx: Tx) -> None:
        organisation = installed(tx, None)
        assert not withhold(tx, organisation, "T0SOUTH", change(99.0))  # from before it was installed
        assert withhold(tx, organisation, "T0SOUTH", change(200.0))
        record_departure(tx, organisation, Removal(at=EVERYWHERE, sentence="gone"))
        record_arrival(tx, installed(tx, None, at=300.0), "back")
        assert not has_left(tx, SOUTH)
        assert {mark.id for mark in find_departures(tx)} == {"E0CORP", "T0SOUTH"}

    await database.run(changes)


async def test_a_workspace_with_an_installation_of_its_own_goes_on_without_the_organisations(
    database: Database,
) -> None:
    def changes(tx: Tx) -> None:
        organisation, own = installed(tx, None), installed(tx, "T0SOUTH")
        assert withhold(tx, organisation, "T0SOUTH", change(200.0))
        assert (has_left(tx, SOUTH), find_departures(tx)) == (False, [])
        record_departure(tx, own, Removal(at=SOUTH, sentence="gone"))
        assert has_left(tx, SOUTH)

    await database.run(changes)
