"""Long dialogues over HTTP and in Socket Mode, in which many things go wrong."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import select

from bot.audit.ledger import LineKind
from bot.sandbox.people.seen import Modal
from bot.sandbox.server.delivery import Delivery
from bot.store.ledger_lines import read_lines
from bot.store.tables import chains, confirmations
from runtime.jsontypes import Json
from runtime.store.database import Tx
from tests.support.office import Office, Opens, operates
from tests.support.scraping import get, scrape
from tests.support.talking import FAILURE, Mouth
from tests.support.talking import mouth as the_mouth

pytestmark = pytest.mark.slow

SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
GRANTING = """
[[policy]]
tools = ["deploy*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
grant = "30m"
grant_on = ["service"]
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
"""
PATIENCE = 15.0
NEXT: dict[str, Json] = {"Next time": ["Also allow the next ones like this"]}


@pytest.fixture
def database_url(sqlite_stocked: str) -> str:
    """What is told here does not differ by the database."""
    return sqlite_stocked


@pytest.fixture
def mouth() -> Mouth:
    return the_mouth.begins_anew()


async def lines(at: Office, *kinds: LineKind) -> list[str]:
    """Of all sessions, the kinds of those lines that are of these."""

    def read(tx: Tx) -> list[str]:
        every = tx.execute(chains.select()).all()
        return [str(line.kind) for one in every for line in read_lines(tx, one.chain) if line.kind in kinds]

    return await at.bot.database.read(read)


async def closed_too_soon(at: Office, modal: Modal, values: dict[str, Json] | None = None) -> Delivery:
    """Submitted, and closed while the bot still asks Slack who may decide."""
    await at.later(minutes=2)  # what it knew of people is old
    hang = at.slack.faults.hangs("use*", times=None)
    made = await modal.submits(values)
    assert made is not None
    assert made.acked
    await hang.reached()
    at.slack.faults.clear("use*")
    return made


# Feels alive


@SOCKET
async def test_an_agent_is_heard_whatever_slack_says_to_it(open_office: Opens, mouth: Mouth, socket: bool) -> None:
    async with open_office(target="tests.support.talking:agent", socket=socket) as at:
        said = await at.ann.says("@adk-confirm hello", at.deploys)
        await at.slack.until(lambda: at.deploys.sessions.get(said.ts))
        thread = said.thread

        # Put off in the middle of a stream.
        mouth.say("It is ", "**fine** ")
        await grows(at, mouth, "today, ", thread)
        put_off = at.slack.faults.limits("chat.appendStream", retry_after=30)
        await mouth.goes_on(at.slack, "still, ", until=lambda: put_off.met)
        mouth.say("and tomorrow.", None)
        await at.ann.finds("and tomorrow.", at.deploys, thread=thread)
        await at.rests()
        (whole,) = [seen for seen in at.ann.messages(at.deploys, thread=thread) if "It is" in seen]
        assert whole.message.streaming_since is None
        assert "**fine**" in str(whole.message.blocks)

        await at.later(minutes=1)

        # A long one, with a file for the agent, where a stream expires at Slack's end.
        at.slack.workspace.streams_live = 60.0
        await at.ann.says("@adk-confirm look", at.deploys, thread=said, files={"log.txt": b"boom"})
        numbers = [f"#{number:05}" for number in range(4000)]
        mouth.say("A list: ")
        await grows(at, mouth, "first, ", thread)
        at.slack.clock.advance(300)
        mouth.say(" ".join(numbers), None)
        await at.ann.finds(numbers[-1], at.deploys, thread=thread)
        await at.rests()
        shown = at.ann.sees(at.deploys, thread=thread)
        places = [shown.index(number) for number in numbers]
        assert places == sorted(places)
        assert [shown.count(number) for number in numbers] == [1] * len(numbers)
        assert len([seen for seen in at.ann.messages(at.deploys, thread=thread) if "#0" in seen]) > 1
        assert [file.data for file in mouth.files] == [b"boom"]

        await at.later(minutes=1)

        # No stream at all: posted whole.
        refused = at.slack.faults.refuses("chat.startStream", "missing_scope", times=None)
        await at.ann.says("@adk-confirm and now?", at.deploys, thread=said)
        mouth.say("Now ", "it ")
        await mouth.goes_on(at.slack, "grows, ", until=lambda: refused.met)
        mouth.say("and ends.", None)
        await at.ann.finds("and ends.", at.deploys, thread=thread)
        assert refused.met == 1
        assert at.ann.sees(at.deploys, thread=thread).count("Now it") == 1

        await at.later(minutes=1)

        # The agent fails, and is asked again by a click that comes twice.
        mouth.say(FAILURE)
        await at.ann.says("@adk-confirm once more", at.deploys, thread=said)
        failed = await at.ann.finds("could not answer", at.deploys, thread=thread)
        mouth.say("It works.", None)
        click = await at.ann.clicks(failed, "Try again", stale=True)
        assert (await at.slack.repeats(click)).acked
        await at.ann.finds("It works.", at.deploys, thread=thread)
        await at.rests()
        assert [words.partition(" ")[0] for words in mouth.heard].count("once") == 2


async def grows(at: Office, mouth: Mouth, words: str, thread: str) -> None:
    """The agent goes on until these words are seen."""
    await mouth.goes_on(at.slack, words, until=lambda: words in at.ann.sees(at.deploys, thread=thread))


# Inbox


@SOCKET
async def test_home_list_help_and_history(open_office: Opens, socket: bool) -> None:
    async with open_office(socket=socket) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        at.slack.faults.limits("views.publish")
        home = await at.bob.opens_home("Waiting for you (1)", timeout=PATIENCE)
        assert "the team dinner" in home
        assert "Withdraw" in (await at.ann.opens_home("You asked for", timeout=PATIENCE)).buttons

        at.slack.faults.cuts("response_url")
        await at.bob.commands("/approvals", "", at.deploys)
        listed = await at.bob.finds("Waiting for you (1)", at.deploys)
        assert listed.ephemeral
        await at.oscar.commands("/approvals", "help", at.deploys)
        assert (await at.oscar.finds("Only you see the list", at.deploys)).ephemeral
        await at.oscar.commands("/approvals", "", at.deploys)
        assert "Approve" not in (await at.oscar.finds("Waiting in this channel (1)", at.deploys)).buttons

        click = await home.clicks("Approve")
        assert (await at.slack.repeats(click)).acked
        done = await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        await at.bob.clicks(listed, "Approve", stale=True)  # what an old list still offers
        await at.bob.gets_modal("You are too late")
        await at.bob.sees_home("Nothing waits for you.", timeout=PATIENCE)
        await at.oscar.shortcut("adk_confirm_history", done)
        await at.oscar.gets_modal("approved reimburse: 1 of 1")
        assert len(at.ran()) == 1
        assert await lines(at, LineKind.APPROVAL, LineKind.APPROVED) == ["approval", "approved"]


# Grants


@SOCKET
async def test_a_grant_is_given_used_and_revoked_once(open_office: Opens, socket: bool) -> None:
    async with open_office(GRANTING, socket=socket) as at:
        card = await at.ask("deploy checkout 2.4.1 to prod")
        await at.bob.clicks(card, "Approve")
        given = await closed_too_soon(at, await at.bob.gets_modal("Also allow the next ones like this"), NEXT)
        line = await at.ann.finds("run without asking until", at.deploys, thread=card)
        assert re.search(r"run without asking until \w{3} \d+, \d{4} at \d\d:\d\d, in this conversation\.", str(line))
        assert (await at.slack.repeats(given)).acked

        await at.ann.says("@adk-confirm deploy checkout 2.4.2 to prod", at.deploys, thread=card)
        await at.ann.finds("Deploy checkout 2.4.2 to prod runs without asking, because", at.deploys, thread=card)
        await at.slack.until(lambda: len(at.ran()) == 2 or None)
        await at.rests()
        assert "through oncall · deploy" not in at.ann.sees(at.deploys, thread=card)

        granting = at.cyd.now(card)
        revoked = await at.cyd.clicks(granting, "Revoke grant", sure=True)
        assert (await at.slack.repeats(revoked)).acked
        await at.ann.finds("revoked the grant", at.deploys, thread=card)
        await at.bob.clicks(granting, "Revoke grant", stale=True, sure=True)
        await at.bob.gets_modal("This grant has already ended")

        await at.ann.says("@adk-confirm deploy checkout 2.4.3 to prod", at.deploys, thread=card)
        await at.bob.finds("through oncall · deploy", at.deploys, thread=card)
        await at.rests()
        kinds = (LineKind.APPROVAL, LineKind.GRANTED, LineKind.GRANT_USED, LineKind.GRANT_REVOKED)
        assert await lines(at, *kinds) == ["approval", "granted", "grant used", "grant revoked"]
        assert [line["version"] for line in at.ran()] == ["2.4.1", "2.4.2"]


# Operations


@SOCKET
async def test_an_operator_looks_after_it_while_slack_is_away(
    open_office: Opens, database_url: str, socket: bool
) -> None:
    async with open_office(socket=socket) as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        other = await at.ask("reimburse 1700 for the offsite")
        assert await operates(at, database_url, "pause") == {"changed": True}
        assert await operates(at, database_url, "pause") == {"changed": False}
        await at.ann.finds("Runs are paused by", at.deploys, thread=card)
        click = await at.bob.clicks(card, "Approve")
        assert (await at.slack.repeats(click)).acked
        await at.ann.finds("Paused: Reimburse", at.deploys, thread=card)
        assert (await scrape(at.bot.url)).value("adk_confirm_paused") == 1
        assert at.ran() == []

        away = at.slack.faults.limits("chat.update", retry_after=0.2, times=2)
        (waiting,) = await at.bot.database.read(still_waiting)
        withdrawn = await operates(at, database_url, "withdraw", waiting[:10])
        assert withdrawn == {"id": waiting, "state": "withdrawn", "counted": True}
        assert await operates(at, database_url, "resume") == {"changed": True}
        await away.reached()
        at.slack.faults.clear("chat.update")
        await at.later(minutes=1)

        await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        gone = await at.ann.finds("Withdrawn: Reimburse", at.deploys, thread=other)
        assert gone.buttons == ("See everything", "History")
        assert [line["amount"] for line in at.ran()] == [1500]
        assert await get(f"{at.bot.url}/healthz") == (200, "ok\n")
        assert (await get(f"{at.bot.url}/readyz"))[0] == 200
        page = await scrape(at.bot.url)
        assert page.value("adk_confirm_decided_total", verdict="approved", tool="reimburse") == 1
        assert page.value("adk_confirm_slack_rate_limited_total", method="chat.update") >= 1


def still_waiting(tx: Tx) -> list[str]:
    return list(tx.execute(select(confirmations.c.id).where(confirmations.c.state == "waiting")).scalars())
