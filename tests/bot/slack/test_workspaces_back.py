"""Workspaces that install the app again, or that an organisation takes out and lets in: what was asked before is
closed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bot.confirmation.model import State
from bot.sandbox.server.server import FakeSlack
from runtime.jsontypes import JsonObject
from tests.support.office import Office, office
from tests.support.waiting import until
from tests.support.workspaces import PATIENCE, Branch, comes_to, distributed, install, several, system_lines, two

# slack_sdk still makes its Authorization header with what aiohttp 4 will have no more.
pytestmark = [pytest.mark.filterwarnings("ignore:BasicAuth is deprecated"), pytest.mark.slow]

SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket"])
CLOSED = "the app was removed from this workspace"


@SOCKET
async def test_slack_tells_of_the_removal_only_after_it_is_installed_again(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool
) -> None:
    async with two(sqlite_stocked, tmp_path, monkeypatch, socket=socket) as (at, globex):
        before = await globex.ask("reimburse 1700 for the offsite")
        ours = await at.ask("reimburse 1500 for the team dinner")
        await at.rests()
        removed = at.slack.outbox.payloads.envelope(globex.install, {"type": "app_uninstalled"})
        at.slack.revokes(globex.install, silently=True)
        await at.later(minutes=1)
        assert (await install(at.bot.url, globex.approver)).status == 200
        after = await globex.ask("reimburse 1800 for the offsite")

        assert (await at.slack.outbox.deliver("events_api", removed)).acked

        await globex.asker.finds(CLOSED, globex.channel, thread=before, timeout=PATIENCE)
        await comes_to(at, State.WITHDRAWN, State.WAITING, State.WAITING)
        await until(lambda: "[Approve]" not in str(globex.asker.now(before)))
        lines = await system_lines(at)
        # A card that is drawn in that minute hears of it from Slack's answer, before the event comes.
        heard = ("uninstalled", "token_revoked")
        assert any("T0GLOBEX" in line and any(word in line for word in heard) for line in lines)
        await at.slack.outbox.deliver("events_api", {**removed, "event_id": "Ev0AGAIN"})
        assert await system_lines(at) == lines

        await globex.approver.clicks(after, "Approve")
        await globex.asker.finds("Done: Reimburse", globex.channel, thread=after, timeout=PATIENCE)
        await at.bob.clicks(ours, "Approve")
        await at.ann.finds("Done: Reimburse", at.deploys, thread=ours, timeout=PATIENCE)
        assert [call["amount"] for call in at.ran()] == [1800, 1500]


ORGANISATION = """
[[policy]]
team = "E0CORP"
tools = ["*"]
approvers = ["user:U0NORTHBOSS", "user:U0SOUTHBOSS"]
"""


@asynccontextmanager
async def organisation(
    url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, *, socket: bool
) -> AsyncIterator[tuple[Office, Branch, Branch]]:
    """Two of its workspaces, and one installation for both."""
    async with FakeSlack(distributed()) as slack:
        north, south = (Branch.of(slack, name, enterprise="E0CORP") for name in ("North", "South"))
        options = {"slack": slack, "env": several(slack), "time_moves": True, "socket": socket}
        async with office(url, folder / "tools.log", monkeypatch, ORGANISATION, **options) as at:  # type: ignore[arg-type]
            assert (await install(at.bot.url, north.approver, everywhere=True)).status == 200
            north.invites()
            south.invites()
            yield at, north, south


@SOCKET
async def test_an_organisation_takes_the_app_away_from_one_workspace_and_gives_it_back(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, socket: bool
) -> None:
    async with organisation(sqlite_stocked, tmp_path, monkeypatch, socket=socket) as (at, north, south):
        theirs = await south.ask("reimburse 1700 for the offsite")
        ours = await north.ask("reimburse 1500 for the team dinner")
        everywhere = south.install

        at.slack.withholds(everywhere, south.team)
        await comes_to(at, State.WITHDRAWN, State.WAITING)
        await at.rests()
        assert "E0CORP (E0CORP) may not use the app in T0SOUTH any more." in " ".join(await system_lines(at))
        asked = len(at.slack.calls)
        await at.later(minutes=30)
        await at.rests()
        assert [made.error for made in at.slack.calls[asked:] if made.error] == []
        await north.approver.clicks(ours, "Approve")
        await north.asker.finds("Done: Reimburse", north.channel, thread=ours, timeout=PATIENCE)

        at.slack.grants(everywhere, south.team)
        await south.asker.finds(CLOSED, south.channel, thread=theirs, timeout=PATIENCE)
        await until(lambda: "[Approve]" not in str(south.asker.now(theirs)))
        again = await south.ask("reimburse 1800 for the offsite")
        await south.approver.clicks(again, "Approve")
        await south.asker.finds("Done: Reimburse", south.channel, thread=again, timeout=PATIENCE)
        assert [call["amount"] for call in at.ran()] == [1500, 1800]
        assert "E0CORP (E0CORP) may use the app in T0SOUTH again." in " ".join(await system_lines(at))


async def test_what_slack_tells_of_a_workspace_is_for_its_organisation(
    sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slack's documentation has the workspace in the envelope, of which there is no token: it is heard all the same,
    also when it comes again, and when what was before comes after."""
    async with organisation(sqlite_stocked, tmp_path, monkeypatch, socket=False) as (at, _, south):
        everywhere = south.install

        def access_event(kind: str, second: int) -> JsonObject:
            event: JsonObject = {
                "type": kind,
                "team_ids": ["T0SOUTH"],
                "event_ts": f"{int(at.slack.clock.now()) + second}.5",
            }
            named: JsonObject = {"enterprise_id": "E0CORP", "team_id": "T0SOUTH", "is_enterprise_install": False}
            whole = at.slack.outbox.payloads.envelope(everywhere, event)
            return {**whole, "team_id": "T0SOUTH", "authorizations": [named]}

        taken, given = access_event("team_access_revoked", 10), access_event("team_access_granted", 20)
        await south.ask("reimburse 1700 for the offsite")
        assert (await at.slack.outbox.deliver("events_api", taken)).acked
        await comes_to(at, State.WITHDRAWN)
        assert (await at.slack.outbox.deliver("events_api", given)).acked
        lines = await system_lines(at)
        for late in (taken, given):
            assert (await at.slack.outbox.deliver("events_api", late)).acked
        assert await system_lines(at) == lines
        assert [line for line in lines if "T0SOUTH" in line] == [
            "E0CORP (E0CORP) may not use the app in T0SOUTH any more.",
            "E0CORP (E0CORP) may use the app in T0SOUTH again.",
        ]
        await south.ask("reimburse 1800 for the offsite")
