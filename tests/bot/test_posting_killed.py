"""Killed while Slack has the post and we don't know: whoever comes after finds it, and nobody sees it twice."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.attempts import StoredAttempts
from bot.cards import Cards
from bot.directory import Directory
from bot.hosts.host import Said
from bot.ledger import LineKind
from bot.row import Confirmation
from bot.row_json import row_from_json, row_to_json
from bot.rows import Session
from bot.sender import Sender
from bot.steps import Step
from bot.store import open_store
from runtime.database import Database
from tests.support.deciding import make_policy
from tests.support.kill import child
from tests.support.outgoing import Outgoing, a_session, lines_of, outgoing
from tests.support.secret import SECRET

pytestmark = pytest.mark.slow


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as ready:
        ready.open(make_policy())
        yield ready


async def post(what: str, cards: Cards, row: Confirmation, session: Session) -> None:
    """One post, as the worker would make it."""
    if what == "draw":
        await cards.draw(row, session)
    elif what == "tell":
        await cards.tell(session, lines_of(session, [Step(kind=LineKind.ASKED, at=row.asked_at)]), [row])
    else:
        await cards.say(session, Said(event="e1", author="oncall", text="I shall deploy it."))


async def post_from_elsewhere(what: str, store: str, base: str, token: str, stored: str) -> None:
    """The same in a process of its own."""
    database = await open_store(store, SECRET)
    row = row_from_json(stored)
    await post(what, _cards(database, base, token), row, a_session(row.asked.channel, row.places[0].thread_ts or ""))
    await database.close()


def _cards(database: Database, base: str, token: str) -> Cards:
    async def client_for(enterprise: str | None, team: str) -> AsyncWebClient:
        return AsyncWebClient(token, base_url=base)

    sender = Sender(client_for)
    return Cards(sender, Directory(sender), StoredAttempts(database))


@pytest.mark.parametrize("acted", [True, False])
@pytest.mark.parametrize("what", ["draw", "tell", "say"])
async def test_killed_between_a_post_and_its_answer(out: Outgoing, database_url: str, what: str, acted: bool) -> None:
    hang = out.slack.faults.hangs("chat.postMessage", acted=acted)
    arguments = (what, database_url, out.slack.url, out.slack.bot_token, row_to_json(out.desk.row))
    async with child(post_from_elsewhere, *arguments) as process:
        await hang.reached()
        process.kill()
        await process.gone()

    restarted = await open_store(database_url, SECRET)
    await post(what, _cards(restarted, out.slack.url, out.slack.bot_token), out.desk.row, out.session)
    await restarted.close()

    seen = [one for one in out.asker.messages(out.deploys) if one.author == "adk-confirm"]
    assert len(seen) == 1
    assert ("Approve deploy?" in seen[0], "needs approval" in seen[0], "I shall" in seen[0]).index(True) == (
        ["draw", "tell", "say"].index(what)
    )
