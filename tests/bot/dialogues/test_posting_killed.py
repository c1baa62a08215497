"""The bot is killed after Slack got a post and before Slack's answer: the post is found, and nobody sees it twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.audit.ledger import LineKind
from bot.cards.cards import Cards
from bot.cards.thread import Thread
from bot.confirmation.effects import Step
from bot.confirmation.model import Confirmation
from bot.confirmation.stored_json import places_from_json, places_to_json, row_from_json, row_to_json
from bot.hosts.host import AgentMessage
from bot.slack.directory.directory import Directory
from bot.slack.outbound.calls import Calls
from bot.slack.outbound.client import Sender
from bot.store.open import open_store
from bot.store.repository import Session
from runtime.store.lease import Lease
from tests.support.deciding import make_policy
from tests.support.kill import child
from tests.support.leased import a_lease
from tests.support.outgoing import NO_RULES, Outgoing, a_session, lines_of, outgoing
from tests.support.secret import SECRET

pytestmark = [pytest.mark.slow, pytest.mark.every_case]


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing() as ready:
        ready.open(make_policy())
        yield ready


async def post(what: str, lease: Lease, sender: Sender, row: Confirmation, session: Session) -> None:
    """One post, as the worker would make it."""
    directory = Directory(sender, NO_RULES)
    thread = Thread(sender, directory.names)
    if what == "draw":
        await Cards(sender, directory).draw(lease, row, session)
    elif what == "tell":
        await thread.post_lines(
            lease, session, lines_of(session, [Step(kind=LineKind.EXPIRED, at=row.asked_at)]), [row]
        )
    else:
        await thread.say(lease, session, AgentMessage(event="e1", author="oncall", text="I shall deploy it."))


async def post_from_elsewhere(what: str, store: str, base: str, token: str, stored: str, places: str) -> None:
    """The same in a process of its own."""
    database = await open_store(store, SECRET)
    row = replace(row_from_json(stored), places=places_from_json(places))
    session = a_session(row.asked.channel, row.places[0].thread_ts or "")
    await post(what, await a_lease(database, "one"), _sender(base, token), row, session)
    await database.close()


def _sender(base: str, token: str) -> Sender:
    return Sender(Calls(AsyncWebClient(token, base_url=base)))


@pytest.mark.parametrize("acted", [True, False])
@pytest.mark.parametrize("what", ["draw", "tell", "say"])
async def test_killed_between_a_post_and_its_answer(out: Outgoing, database_url: str, what: str, acted: bool) -> None:
    hang = out.slack.faults.hangs("chat.postMessage", acted=acted)
    stored = (row_to_json(out.desk.row), places_to_json(out.desk.row.places))
    arguments = (what, database_url, out.slack.url, out.slack.bot_token, *stored)
    async with child(post_from_elsewhere, *arguments) as process:
        await hang.reached()
        process.kill()
        await process.gone()

    restarted = await open_store(database_url, SECRET)
    sender = _sender(out.slack.url, out.slack.bot_token)
    await post(what, await a_lease(restarted, "two"), sender, out.desk.row, out.session)
    await restarted.close()

    seen = [one for one in out.asker.messages(out.deploys) if one.author == "adk-confirm"]
    assert len(seen) == 1
    assert ("Asked by" in seen[0], "Expired with" in seen[0], "I shall" in seen[0]).index(True) == (
        ["draw", "tell", "say"].index(what)
    )
