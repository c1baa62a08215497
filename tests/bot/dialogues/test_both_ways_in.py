"""Long dialogues over HTTP and in Socket Mode, in which many things go wrong."""

from __future__ import annotations

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.store.ledger_lines import read_lines
from adk_confirm.runtime.store.database import Tx
from tests.support.office import Office, Opens
from tests.support.talking import FAILURE, Mouth
from tests.support.talking import mouth as the_mouth

pytestmark = pytest.mark.slow

SOCKET = pytest.mark.parametrize("socket", [False, True], ids=["http", "socket mode"])
PATIENCE = 15.0


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
        every = tx.column("SELECT chain FROM bot_chains")
        return [str(line.kind) for chain in every for line in read_lines(tx, chain) if line.kind in kinds]

    return await at.bot.database.read(read)


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
        await at.sees(said, "and tomorrow.")
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
        await at.sees(said, "and ends.")
        assert refused.met == 1
        assert at.ann.sees(at.deploys, thread=thread).count("Now it") == 1

        await at.later(minutes=1)

        # The agent fails, and is asked again by a click that comes twice.
        mouth.say(FAILURE)
        await at.ann.says("@adk-confirm once more", at.deploys, thread=said)
        failed = await at.sees(said, "could not answer")
        mouth.say("It works.", None)
        click = await at.ann.clicks(failed, "Try again", stale=True)
        assert (await at.slack.repeats(click)).acked
        await at.sees(said, "It works.")
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
        done = await at.sees(card, "Done: Reimburse")
        await at.bob.clicks(listed, "Approve", stale=True)  # what an old list still offers
        await at.bob.gets_modal("You are too late")
        await at.bob.sees_home("Nothing waits for you.", timeout=PATIENCE)
        await at.oscar.shortcut("adk_confirm_history", done)
        await at.oscar.gets_modal("approved reimburse: 1 of 1")
        assert len(at.ran()) == 1
        assert await lines(at, LineKind.APPROVAL, LineKind.APPROVED) == ["approval", "approved"]
