"""`adk-confirm audit purge`, as a privacy officer checks it: old content is deleted, and what waits is untouched."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from adk_confirm.bot.cli import main
from adk_confirm.bot.confirmation.authorise import Facts
from adk_confirm.bot.confirmation.confirmation import OutcomeKind, Seat, State, VoteKind
from adk_confirm.bot.hosts import host
from adk_confirm.bot.ops.command import open_for_reading
from adk_confirm.bot.store.cast_vote import SubmittedVote, cast
from adk_confirm.bot.store.marks import begin_attempt
from adk_confirm.bot.store.outbox import ThreadDone, note_and_look, note_answered, say_later
from adk_confirm.bot.store.purge import purge_sessions
from adk_confirm.bot.store.repository import find_session, lock_confirmation, now
from adk_confirm.runtime.errors import NotFound
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.sessions import create
from adk_confirm.runtime.store.tables import tables
from adk_confirm.runtime.wire import SessionId
from tests.support.backoffice import Backoffice, CommandOutput
from tests.support.deciding import ANNA, BEN, MALLORY, full_member
from tests.support.office import ON_POSTGRES, ON_SQLITE, office
from tests.support.stores import change_job

pytestmark = pytest.mark.every_case

SECRET = "hunter-the-second"
IN_USE = "1 session is still in use, and kept whole."


@pytest.fixture
async def at(back: Backoffice) -> Backoffice:
    """It is a hundred days ago, and somebody says something."""
    back.clock.passes(days=-100)
    await back.hears(f"deploy it for {SECRET}")
    return back


async def deployed(at: Backoffice) -> str:
    deploy = await at.asks("deploy", {"note": SECRET}, hint=SECRET)
    await at.vote(deploy, ANNA, note=f"{SECRET}!")
    await at.vote(deploy, BEN)
    await at.runs(deploy, json.dumps({"for": SECRET}))
    return deploy


async def purged(at: Backoffice) -> CommandOutput:
    said = await at.command("audit", "purge", "--before", "90d")
    assert said.code == 0, said.err
    assert (await at.command("audit", "verify")).code == 0
    return said


def everything(tx: Tx) -> str:
    """All that any table holds."""
    ours = sorted(table for table in tables(tx) if table.startswith(("bot_", "runtime_")))
    return "\n".join(str(tuple(row)) for table in ours for row in tx.all(f"SELECT * FROM {table}"))


async def test_what_was_said_and_done_is_gone_and_that_it_was_is_not(at: Backoffice) -> None:
    deploy = await deployed(at)
    await at.is_posted()
    at.clock.passes(days=100)
    assert SECRET in await at.database.read(everything)
    said = await purged(at)
    assert said.lines[0].endswith(" UTC is purged: 7 lines, 1 confirmation, 2 letters.")
    assert said.lines[-1].startswith("Messages in Slack, backups of the store and an agent's own server keep what they")
    assert SECRET not in await at.database.read(everything)
    lines = await at.lines()
    assert [line.kind for line in lines] == ["asked", "edited", "approval", "approved", "begun", "done", "heard"]
    assert {line.content for line in lines} == {None}
    (purge_line,) = await at.lines("system")
    content = json.loads(purge_line.content or "")
    assert (purge_line.kind, content["who"]["user"], content["text"]) == (
        "purged",
        "operator",
        "7 lines, 1 confirmation, 2 letters",
    )
    story = (await at.command("audit", "show", deploy)).lines
    assert story[-1].endswith("done (deploy): its content was purged")
    assert await at.refusal("withdraw", deploy) == (
        f"Confirmation {deploy} was purged: only its ledger lines are left."
    )
    assert (await purged(at)).out.startswith("Nothing is left to purge from before ")
    assert len(await at.lines("system")) == 1, "where nothing was purged there is nothing to tell"


async def test_nothing_is_left_of_what_was_noted_about_posts_and_people(at: Backoffice) -> None:
    deploy = await deployed(at)
    await at.is_posted()
    for scope, mark in ((deploy, "card:C0DEPLOYS:"), (at.key, f"reply hint:{BEN.user}")):
        await at.database.run(begin_attempt, scope, mark)
    at.clock.passes(days=100)
    await purged(at)
    assert await at.database.read(lambda tx: tx.column("SELECT mark FROM bot_attempts")) == []


async def test_what_voters_were_told_long_ago_is_gone(at: Backoffice) -> None:
    """Each answer is kept for a day, and goes with the next one. Nobody may have been told anything since."""
    deploy = await at.asks("deploy")
    ballot = SubmittedVote(
        id="c1", confirmation=deploy, revision=1, kind=VoteKind.APPROVE, voter=MALLORY, seat=Seat(person=MALLORY)
    )
    await at.database.run(cast, ballot, at.rules.policies, lambda *_: Facts(account=full_member(MALLORY)))
    await at.database.run(note_answered, "c1")
    at.clock.passes(days=100)
    await purged(at)
    left = "SELECT mark FROM bot_outbox UNION ALL SELECT key FROM jobs WHERE kind = 'reply'"
    assert await at.database.read(lambda tx: tx.column(left)) == []


async def test_what_waits_is_never_touched(at: Backoffice) -> None:
    at.policies('[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\nexpires_after = "300d"')
    waits = await at.asks("deploy", {"note": SECRET})
    unknown = await at.asks("deploy")
    await at.vote(unknown, ANNA)
    await at.runs(unknown, kind=OutcomeKind.UNKNOWN)
    approved = await at.asks("deploy")
    await at.vote(approved, ANNA)
    over = await at.asks("refund", {"note": "gone"})
    await at.vote(over, ANNA, VoteKind.DENY)
    await at.is_posted()
    at.clock.passes(days=100)
    before = await at.database.read(everything)
    said = await purged(at)
    assert said.lines[0].startswith("Nothing is left to purge from before ")
    assert said.lines[1] == IN_USE
    assert await at.database.read(everything) == before
    await at.vote(waits, ANNA)
    assert (await at.row(waits)).state is State.APPROVED
    assert (await at.command("audit", "verify")).code == 0


async def test_a_story_goes_as_a_whole_once_it_has_ended(at: Backoffice) -> None:
    at.policies('[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANNA"]\nexpires_after = "300d"')
    deploy = await at.asks("deploy", {"note": SECRET})
    await at.is_posted()
    at.clock.passes(days=50)
    await at.vote(deploy, ANNA, VoteKind.DENY)
    await at.is_posted()
    at.clock.passes(days=50)
    await purged(at)
    assert (await at.row(deploy)).revision.arguments == {"note": SECRET}
    assert all(line.content for line in await at.lines())
    assert (await at.command("audit", "purge", "--before", "40d")).code == 0
    assert SECRET not in await at.database.read(everything)


async def test_a_session_in_use_is_kept_whole_until_it_has_ended(at: Backoffice) -> None:
    over = await at.asks("deploy", {"note": SECRET})
    await at.vote(over, ANNA, VoteKind.DENY)
    await at.is_posted()
    at.clock.passes(days=100)
    await at.hears("one more thing", ANNA)
    await at.is_posted()
    before = await at.database.read(everything)
    assert (await purged(at)).lines[1] == IN_USE
    assert await at.database.read(everything) == before
    at.clock.passes(days=100)
    assert (await purged(at)).lines[0].endswith(" UTC is purged: 4 lines, 1 confirmation, 3 letters.")
    assert SECRET not in await at.database.read(everything)


def gives_up(tx: Tx, at: float) -> None:
    for kind in ("session", "thread"):
        change_job(tx, kind, parked_at=at, trouble="The channel is gone.")


async def test_nothing_of_a_session_goes_that_is_owed_something(at: Backoffice) -> None:
    over = await at.asks("deploy")
    await at.vote(over, ANNA, VoteKind.DENY)
    at.clock.passes(days=100)
    nothing, kept = (await purged(at)).lines
    assert nothing.startswith("Nothing is left to purge from before ")
    assert kept == IN_USE
    assert all(line.content for line in await at.lines())
    await at.database.run(gives_up, at.clock.at)
    await at.is_drawn()
    assert (await purged(at)).lines[0].endswith("is purged: 2 lines, 1 confirmation, 2 letters.")


async def test_a_session_is_kept_until_its_grant_has_ended(at: Backoffice) -> None:
    def give(tx: Tx, until: float) -> None:
        tx.run("UPDATE bot_confirmations SET granted_until = :until", until=until)

    await deployed(at)
    await at.is_posted()
    await at.database.run(give, (at.clock.now + timedelta(days=200)).timestamp())
    at.clock.passes(days=100)
    assert (await purged(at)).lines[1] == IN_USE, "a grant is in force"
    at.clock.passes(days=200)
    assert "1 confirmation" in (await purged(at)).lines[0]


async def test_sessions_that_came_over_rest_go_too(at: Backoffice) -> None:
    def begin(tx: Tx) -> None:
        for user, name in (("ann", "old"), ("ann", "new"), ("bob", "old")):
            create(tx, SessionId("oncall", user, name), "oncall", {"note": SECRET, "user:note": f"of {user}"})
        tx.run("UPDATE runtime_sessions SET updated = :updated WHERE id = 'new'", updated=at.clock.at + 99 * 86400)

    await at.database.run(begin)
    await at.is_posted()
    at.clock.passes(days=100)
    said = await purged(at)
    assert "2 histories" in said.lines[0]
    left = await at.database.read(everything)
    assert left.count(SECRET) == 1, "the one that is in use"
    assert "of ann" in left, "she has another session"
    assert "of bob" not in left


async def test_a_thread_whose_agent_has_forgotten_begins_anew(at: Backoffice) -> None:
    """What stood in it is not told again, and nobody is held to what nobody knows any more."""
    await deployed(at)
    await at.is_posted()
    session = await at.database.read(find_session, at.key)
    assert session is not None
    name = session.session
    await at.database.run(create, name, "oncall", {}, "desk")
    await at.database.run(say_later, at.key, host.AgentMessage(event="e1", author="oncall", text="Hello."))
    await at.database.run(note_and_look, at.key, ThreadDone(said="e1"))
    await at.database.run(lambda tx: tx.run("UPDATE runtime_sessions SET updated = :updated", updated=at.clock.at))
    at.clock.passes(days=100)
    assert (await purged(at)).lines[0].endswith("is purged: 7 lines, 1 confirmation, 2 letters, 1 history.")
    await at.hears("and again", BEN)
    session = await at.database.read(find_session, at.key)
    assert session is not None
    assert (session.told_seq, {who.user for who in session.speakers}) == (7, {"U0BEN"})
    again = await at.asks("deploy")
    assert (await at.lines())[-1].kind == "asked"
    assert (await at.row(again)).state is State.WAITING
    assert (await at.command("audit", "verify")).code == 0


@pytest.mark.parametrize(
    ("before", "sentence"),
    [
        ("2999-01-01", "--before 2999-01-01 is in the future. Only what has ended can be purged"),
        ("tomorrow", "--before 'tomorrow' is not a point in time. Write 2030-01-31"),
        ("0d", "--before '0d' is not a point in time"),
    ],
)
async def test_a_day_that_is_not_before_today_is_refused(at: Backoffice, before: str, sentence: str) -> None:
    assert (await at.refusal("audit", "purge", "--before", before)).startswith(sentence)


# With all the parts


async def test_after_a_real_conversation_nothing_of_it_is_in_the_store(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The bot, its agent, the store: whatever any of them wrote down, in whatever table, also in the file itself."""
    async with office(database_url, tmp_path / "tools.log", monkeypatch) as at:
        card = await at.ask(f"reimburse 1500 for {SECRET}")
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
        await at.ann.finds("Done: Reimburse", at.deploys, thread=card)
        await at_rest(at.bot.database)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("ADK_CONFIRM_SECRET", "not a secret, but long enough")
    (tmp_path / "adk-confirm.toml").write_text(f'[store]\nurl = "{database_url}"\n')
    now = datetime.now(UTC).isoformat()
    assert await asyncio.to_thread(main, ["audit", "purge", "--before", now]) == 0
    assert "1 confirmation, " in (said := capsys.readouterr().out), said
    assert ", 1 history." in said
    async with open_for_reading(database_url) as database:
        assert SECRET not in await database.read(everything)
    stored = [path for path in tmp_path.iterdir() if path.name.startswith("store.db")]
    assert [path.name for path in stored if SECRET.encode() in path.read_bytes()] == []


async def at_rest(database: Database) -> None:
    """Returns when nothing is owed to anybody."""
    owed = "SELECT 1 FROM jobs WHERE kind = 'session' AND due_at IS NOT NULL"
    with database.waiter("jobs:session", "jobs:confirmation") as waiter:
        while await database.read(lambda tx: tx.first(owed)) is not None:
            await waiter.wait(0.05)


@ON_SQLITE
async def test_a_purge_beside_a_service_reaches_the_file_too(at: Backoffice, tmp_path: Path) -> None:
    await at.hears(f"deploy it for {SECRET}" * 500)
    await deployed(at)
    await at.is_posted()
    at.clock.passes(days=100)
    await at.command("audit", "purge", "--before", "90d")
    stored = [path for path in tmp_path.iterdir() if path.name.startswith("store.db") and path.is_file()]
    assert [path.name for path in stored if SECRET.encode() in path.read_bytes()] == []


@ON_POSTGRES
async def test_what_is_purged_while_somebody_waits_for_its_session_is_not_found(at: Backoffice) -> None:
    name = await deployed(at)
    await at.is_posted()
    at.clock.passes(days=100)
    purging = asyncio.Event()
    loop = asyncio.get_running_loop()

    def purges_until_somebody_waits(tx: Tx) -> None:
        assert purge_sessions(tx, [at.key], now(tx) - timedelta(days=90)).confirmations == 1
        loop.call_soon_threadsafe(purging.set)
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
        while tx.first(waits) is None:
            pass

    purge = asyncio.create_task(at.database.run(purges_until_somebody_waits))
    await purging.wait()
    with pytest.raises(NotFound, match=name):
        await at.database.run(lock_confirmation, name)
    await purge
