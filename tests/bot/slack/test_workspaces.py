"""Several workspaces at once: each has its own token, its own calls, and can be removed alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import select, text

from bot.confirmation.model import SessionKey, State
from bot.sandbox.methods.call import CallRecord
from bot.sandbox.server.server import FakeSlack
from bot.sandbox.workspace.records import Channel
from bot.store.mailbox import read_session
from bot.store.repository import SESSIONS
from bot.store.tables import confirmations, sessions
from runtime.store.database import Tx
from tests.support.office import Office, office
from tests.support.waiting import until
from tests.support.workspaces import (
    PATIENCE,
    POLICIES,
    Branch,
    comes_to,
    distributed,
    install,
    several,
    system_lines,
    two,
)

# slack_sdk still makes its Authorization header with what aiohttp 4 will have no more.
pytestmark = pytest.mark.filterwarnings("ignore:BasicAuth is deprecated")


def posts(at: Office, channel: Channel) -> list[CallRecord]:
    return [made for made in at.slack.calls_of("chat.postMessage") if made.args.get("channel") == channel.id]


def read_session_at(tx: Tx, team: str) -> SessionKey:
    key = tx.execute(select(sessions.c.key).where(sessions.c.team == team)).scalar_one()
    return read_session(tx, key).session


@pytest.mark.parametrize("socket", [False, True], ids=["http", "socket"])
async def test_each_card_goes_to_its_own_workspace_with_its_own_token(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool
) -> None:
    async with two(database_url, tmp_path, monkeypatch, socket=socket) as (at, globex):
        ours = await at.ask("reimburse 1500 for the team dinner")
        theirs = await globex.ask("reimburse 1700 for the offsite")

        await globex.approver.clicks(theirs, "Approve")
        await globex.asker.finds("Done: Reimburse", globex.channel, thread=theirs, timeout=PATIENCE)
        await at.bob.clicks(ours, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=ours, timeout=PATIENCE)

        assert {made.team_id for made in posts(at, at.deploys)} == {"T0ACME"}
        assert {made.team_id for made in posts(at, globex.channel)} == {"T0GLOBEX"}
        assert not [made for made in at.slack.calls if made.error in ("channel_not_found", "invalid_auth")]
        assert [call["amount"] for call in at.ran()] == [1700, 1500]


async def test_all_else_goes_with_the_same_token(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Home, lists, forms, direct messages, replies that are streamed, files."""
    async with two(sqlite_stocked, tmp_path, monkeypatch) as (at, globex):
        before = len(at.slack.calls)
        card = await globex.ask(f"reimburse 1700 for {'the offsite ' * 400}")
        await globex.approver.opens_home("reimburse", timeout=PATIENCE)
        await globex.approver.commands("/approvals", "", globex.channel)
        await globex.approver.finds("Waiting for you", globex.channel, timeout=PATIENCE)
        await globex.approver.clicks(card, "Deny…")
        form = await globex.approver.gets_modal("Deny", timeout=PATIENCE)
        await form.submits()
        await globex.asker.finds("Denied", globex.channel, thread=card, timeout=PATIENCE)
        await globex.asker.says("what can you do?", None)
        await globex.asker.finds("I can do this", timeout=PATIENCE)
        await at.rests()

        made = at.slack.calls[before:]
        assert {"chat.postMessage", "chat.update", "views.open", "views.publish"} <= {one.method for one in made}
        assert {one.team_id for one in made} == {"T0GLOBEX"}
        met = {one.error for one in made if one.error and one.method != "agents.sessions.setStatus"}
        assert met <= {"hash_conflict"}, "with which the bot asks whether a form says Counting… yet"


async def test_nobody_of_another_workspace_decides_not_even_one_whom_the_policy_names(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a channel that both share, each sees the other's buttons."""
    async with two(sqlite_stocked, tmp_path, monkeypatch) as (at, globex):
        at.slack.workspace.directory.set_members(globex.channel.id, add=(at.bob.id,))
        card = await globex.ask("reimburse 1700 for the offsite")

        await at.bob.clicks(card, "Approve")
        await at.bob.gets_modal("Accounts of other companies can't decide")

        assert "[Approve]" in str(globex.asker.now(card))
        assert at.ran() == []
        await globex.approver.clicks(card, "Approve")
        await globex.asker.finds("Done: Reimburse", globex.channel, thread=card, timeout=PATIENCE)


ORGANISATION = """
[[policy]]
team = "E0CORP"
tools = ["*"]
approvers = ["group:S0SOUTH"]
"""


@pytest.mark.parametrize("socket", [False, True], ids=["http", "socket"])
async def test_an_organisation_installs_it_once_for_all_its_workspaces(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool
) -> None:
    async with FakeSlack(distributed()) as slack:
        north, south = (Branch.of(slack, name, enterprise="E0CORP") for name in ("North", "South"))
        slack.workspace.directory.set_group(south.team, "south", (south.approver.id,), id="S0SOUTH")
        options = {"slack": slack, "env": several(slack), "socket": socket}
        async with office(sqlite_stocked, tmp_path / "log", monkeypatch, ORGANISATION, **options) as at:  # type: ignore[arg-type]
            page = await install(at.bot.url, north.approver, everywhere=True)
            assert (page.status, "is installed in E0CORP" in page.text) == (200, True)
            north.invites()
            south.invites()

            card = await south.ask("reimburse 1500 for the team dinner")
            await north.approver.says("hello", None)  # the same token speaks to people of another of its workspaces
            await north.approver.finds("I can do this", timeout=PATIENCE)
            await south.approver.clicks(card, "Deny…")
            form = await south.approver.gets_modal("Deny", timeout=PATIENCE)
            await form.submits()
            await south.asker.finds("Denied:", south.channel, thread=card, timeout=PATIENCE)
            card = await south.ask("reimburse 1600 for the team dinner")
            await south.approver.clicks(card, "Approve")
            await south.asker.finds("Done: Reimburse", south.channel, thread=card, timeout=PATIENCE)

            assert set(await at.bot.database.read(read_places)) == {("T0SOUTH", "E0CORP")}
            slack.uninstalls(south.install)
            await comes_to(at, State.DENIED, State.APPROVED)
            await slack.settled()
            assert [line for line in await system_lines(at) if "uninstalled" in line or "revoked" in line]
            assert await at.bot.database.read(read_tokens) == []


def read_places(tx: Tx) -> list[tuple[str, str | None]]:
    return [(row.team, row.enterprise) for row in tx.execute(select(confirmations))]


def read_tokens(tx: Tx) -> list[str]:
    return list(tx.execute(text("SELECT bot_token FROM bot_installed")).scalars())


@pytest.mark.parametrize("socket", [False, True], ids=["http", "socket"])
async def test_uninstalling_closes_what_waits_there_and_nothing_else(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool
) -> None:
    async with two(database_url, tmp_path, monkeypatch, socket=socket) as (at, globex):
        theirs = await globex.ask("reimburse 1700 for the offsite")
        ours = await at.ask("reimburse 1500 for the team dinner")

        session = await at.bot.database.read(read_session_at, "T0GLOBEX")
        assert len((await at.bot.host.look(session)).requests) == 1

        at.slack.uninstalls(globex.install)
        await comes_to(at, State.WITHDRAWN, State.WAITING)
        await at.rests()
        assert (await at.bot.host.look(session)).requests == ()  # the agent was told, with nobody there to read more

        lines = await system_lines(at)
        assert [line.partition(" by ")[0] for line in lines[:2]] == [
            "The app was installed in Acme (T0ACME)",
            "The app was installed in Globex (T0GLOBEX)",
        ]
        for what in ("revoked", "uninstalled"):  # Slack tells both, in any order
            assert [line for line in lines if what in line and "T0GLOBEX" in line]
        quiet = len(at.slack.calls)
        await at.later(minutes=30)
        await at.rests()
        assert [made.method for made in at.slack.calls[quiet:] if made.team_id != "T0ACME"] == []

        await at.bob.clicks(ours, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=ours, timeout=PATIENCE)
        assert [call["amount"] for call in at.ran()] == [1500]
        assert "[Approve]" in str(globex.asker.now(theirs))  # nobody can change it any more


async def test_what_runs_when_the_app_is_removed_comes_to_its_end(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = tmp_path / "gate"
    monkeypatch.setenv("LAB_GATE", str(gate))
    async with two(sqlite_stocked, tmp_path, monkeypatch, target="tests.support.lab:agent") as (at, globex):
        card = await globex.ask('work {"on": "the roof"}')
        await globex.approver.clicks(card, "Approve")
        await globex.asker.finds("Running:", globex.channel, timeout=PATIENCE)

        at.slack.uninstalls(globex.install)
        await at.slack.settled()
        gate.touch()
        with at.bot.database.waiter(SESSIONS) as waiter:
            while await at.bot.database.read(read_outcomes) != ["done"]:
                await waiter.wait(0.2)
        assert [line["tool"] for line in at.ran()] == ["begins", "work"]


def read_outcomes(tx: Tx) -> list[str | None]:
    return list(tx.execute(select(confirmations.c.outcome)).scalars())


async def test_installing_it_again_takes_up_where_it_was_left(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(database_url, tmp_path, monkeypatch) as (at, globex):
        before = await globex.ask("reimburse 1700 for the offsite")
        at.slack.uninstalls(globex.install)
        await comes_to(at, State.WITHDRAWN)
        await at.rests()

        late = [made for made in at.slack.deliveries if made.what == "app_uninstalled"][-1]
        at.slack.clock.advance(60)
        assert (await install(at.bot.url, globex.approver)).status == 200
        await globex.asker.finds("the app was removed from this workspace", globex.channel, timeout=PATIENCE)
        await at.rests()
        await until(lambda: "[Approve]" not in str(globex.asker.now(before)))
        assert "before anybody decided" in globex.asker.now(before)

        lines = await system_lines(at)
        await at.slack.outbox.deliver("events_api", {**late.body, "event_id": "Ev0LATE"})
        assert await system_lines(at) == lines  # it tells of what is over

        after = await globex.ask("reimburse 1800 for the offsite")
        await globex.approver.clicks(after, "Approve")
        await globex.asker.finds("Done: Reimburse", globex.channel, thread=after, timeout=PATIENCE)


async def test_a_token_that_slack_takes_no_more_is_found_out_by_the_next_call(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(sqlite_stocked, tmp_path, monkeypatch) as (at, globex):
        await at.ask("reimburse 1500 for the team dinner")
        waiting = await globex.ask("reimburse 1700 for the offsite")
        acme = at.slack.workspace.directory.installed_in("T0ACME")
        assert acme is not None

        at.slack.revokes(acme, silently=True)
        await at.later(hours=2)  # somebody is to be reminded
        await comes_to(at, State.WITHDRAWN, State.WAITING)
        await at.rests()

        (found,) = [line for line in await system_lines(at) if "does not accept" in line]
        assert "Acme (T0ACME)" in found
        assert "token_revoked" in found
        failed = len([made for made in at.slack.calls if made.error == "token_revoked"])
        await at.later(hours=2)
        await at.rests()
        assert len([made for made in at.slack.calls if made.error == "token_revoked"]) == failed
        await globex.approver.clicks(waiting, "Approve")
        await globex.asker.finds("Done: Reimburse", globex.channel, thread=waiting, timeout=PATIENCE)


async def test_one_refusal_of_a_good_token_is_not_believed(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two(sqlite_stocked, tmp_path, monkeypatch) as (at, _):
        fault = at.slack.faults.refuses("chat.postMessage", "invalid_auth")
        card = await at.ask("reimburse 1500 for the team dinner")
        assert fault.met == 1
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card, timeout=PATIENCE)
        assert not [line for line in await system_lines(at) if "does not accept" in line]


async def test_where_it_is_not_installed_nobody_is_heard(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with FakeSlack(distributed()) as slack:
        options = {"slack": slack, "env": several(slack)}
        async with office(sqlite_stocked, tmp_path / "log", monkeypatch, POLICIES, **options) as at:  # type: ignore[arg-type]
            await at.ann.says("@adk-confirm reimburse 1500 for the team dinner", at.deploys)
            await slack.settled()
            assert [made.acked for made in slack.deliveries] == [True, True]
            assert slack.calls == []
            stranger = AsyncWebClient(slack.bot_token, base_url=slack.url)
            assert (await stranger.auth_test())["ok"]  # Slack has it installed, we do not
