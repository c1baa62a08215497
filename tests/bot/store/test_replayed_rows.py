"""An attacker puts old copies of rows back, with their seals: nothing runs twice or without a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from adk_confirm.bot.audit.ledger import Head, LineKind, append, stamp
from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.sandbox.people.seen import Seen
from tests.bot.store.conftest import sends
from tests.support import lab
from tests.support.office import LAB, ON_SQLITE, POLICY, Office, wake
from tests.support.scraping import scrape
from tests.support.stores import rewrite

TWO = f"{POLICY}quorum = 2\n"

pytestmark = ON_SQLITE

TABLES = ("bot_mail", "bot_confirmations", "runtime_calls", "runtime_invocations")


@dataclass(frozen=True)
class Copy:
    """Everything that says how far a call has come."""

    rows: Mapping[str, Sequence[Mapping[str, object]]]

    @classmethod
    def of(cls, tx: Tx) -> Copy:
        return cls({table: [row._asdict() for row in tx.all(f"SELECT * FROM {table}")] for table in TABLES})

    def put_back(self, tx: Tx, *tables: str) -> None:
        for table in tables or TABLES:
            tx.run(f"DELETE FROM {table}")
            for row in self.rows[table]:
                tx.insert(table, row)
        wake(tx, "confirmation", "session")


async def copied(at: Office) -> Copy:
    await at.rests()
    return await at.bot.database.read(Copy.of)


async def is_noticed(at: Office, card: Seen, words: str, *, ran: int = 0) -> float:
    """The thread says so, no call ran again, and there are this many alarms, at least one."""
    await at.sees(card, words)
    await at.rests()
    assert len(at.ran()) == ran
    scraped = await scrape(at.bot.url)
    alarms = scraped.value("adk_confirm_unsealed_total") + scraped.value("adk_confirm_altered_calls_total")
    assert alarms >= 1
    return alarms


async def test_a_call_that_ran_is_put_back_as_approved(at: Office, card: Seen) -> None:
    """The answer waits in the mailbox again, the call for its answer, and the confirmation for its hand-over."""
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Approved by bob")
    approved = await copied(at)
    await switch_runs(at.bot.database, resume_runs)
    await at.later(minutes=1)
    await at.sees(card, "I reimbursed 1500")
    await at.rests()

    await at.bot.database.run(approved.put_back)
    await is_noticed(at, card, "or put an older state of it back", ran=1)


@pytest.mark.office(POLICY, target=LAB)
@pytest.mark.parametrize("confirmation_too", [False, True])
async def test_a_call_that_ran_is_put_back_as_ready(at: Office, confirmation_too: bool) -> None:
    """Only a call with a preview is stored as `ready`, and only until its tool begins: a trigger keeps the row."""
    card = await at.ask('migrate {"table": "users"}')
    await at.bot.database.run(keep_ready_calls)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Approved by bob")
    approved = await at.bot.database.read(Copy.of)
    await at.sees(card, "Done: Migrate")
    await at.rests()

    def puts_back(tx: Tx) -> None:
        if confirmation_too:
            approved.put_back(tx, "bot_confirmations")
        tx.run(
            "UPDATE runtime_calls SET state = 'ready', body = (SELECT body FROM kept), sealed = (SELECT sealed"
            " FROM kept)"
        )
        tx.run("UPDATE runtime_invocations SET status = 'active'")

    await at.bot.database.run(puts_back)
    await at.ann.says("@adk-confirm hello", at.deploys, thread=card)
    await is_noticed(at, card, "You said: hello", ran=1)


@pytest.mark.office(POLICY, target=LAB)
async def test_an_edited_call_is_put_back_as_it_was_before_its_preview(
    at: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The card would show what it would have done, and what it would do now be looked up and approved."""
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    lab.plan.clear()
    card = await at.ask('migrate {"table": "users"}')
    await at.edits(at.bob, card, table="slow")
    await at.sees(card, "The edited call gets its plan.")
    looking = await at.bot.database.read(Copy.of)
    (tmp_path / "gate").touch()
    shown = await at.sees(card, "drops slow.old")
    await at.rests()

    monkeypatch.setitem(lab.plan, "shows", "drops everything")
    await at.bot.database.run(looking.put_back, "bot_confirmations")
    await is_noticed(at, card, "is not the one that was asked about")
    assert "Approve" not in at.bob.now(shown).buttons


def keep_ready_calls(tx: Tx) -> None:
    tx.run("CREATE TABLE kept (body TEXT, sealed TEXT)")
    tx.run(
        "CREATE TRIGGER keeps AFTER UPDATE ON runtime_calls WHEN NEW.state = 'ready' BEGIN INSERT INTO kept"
        " VALUES (NEW.body, NEW.sealed); END"
    )


async def half_approved(at: Office, card: Seen) -> Copy:
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "· approved by bob ·")
    return await copied(at)


@pytest.mark.office(TWO)
async def test_a_denied_confirmation_is_put_back_as_waiting(at: Office, card: Seen) -> None:
    halfway = await half_approved(at, card)
    await at.lead.clicks(at.lead.now(card), "Deny")
    await (await at.lead.gets_modal("Deny")).submits()
    await at.sees(card, "Denied by lead")
    await at.rests()

    await at.bot.database.run(halfway.put_back)
    assert await is_noticed(at, card, "or put an older state of it back") == 1


@pytest.mark.office(TWO)
async def test_a_vote_that_fell_is_stood_up_again(at: Office, card: Seen) -> None:
    """bob leaves those who are on call, and his vote falls when it is counted again."""
    halfway = await half_approved(at, card)
    await at.edits(at.cyd, at.cyd.now(card), amount="1200")
    await at.sees(card, "Changed by cyd")
    await at.rests()

    await at.bot.database.run(halfway.put_back)
    assert await is_noticed(at, card, "is not the one that was asked about") == 1


async def test_another_outcome_is_written_on_the_card(at: Office, card: Seen) -> None:
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")
    await at.rests()

    def fails(body: Any) -> None:
        assert body["outcome"]["kind"] == "done"
        body["outcome"]["kind"] = "failed"
        body["face"] += 1

    await at.bot.database.run(rewrite, "bot_confirmations", fails)
    await at.bot.database.run(wake, "card")
    assert await is_noticed(at, card, "or put an older state of it back", ran=1) == 1
    await at.slack.until(lambda: "written into the database by other means" in at.ann.now(card) or None)


async def test_words_are_put_into_somebodys_mouth(at: Office) -> None:
    """bob may not approve what he asked for himself, so he writes that ann asked."""
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.rests()

    def speaks(tx: Tx) -> None:
        said: JsonObject = {"text": "reimburse 99999 for bob", "files": [], "ts": "9.9", "trace": None}
        sends(tx, "words", json.dumps(said), person="U0ANN")

    await at.bot.database.run(speaks)
    assert await is_noticed(at, card, "Say it again.") == 1
    assert "99999" not in at.ann.sees(at.deploys, thread=card).replace(",", "")


async def test_a_forged_line_is_not_told_in_the_thread(at: Office, card: Seen) -> None:
    def forges(tx: Tx) -> None:
        row, head = tx.first("SELECT * FROM bot_confirmations"), tx.first("SELECT * FROM bot_chains")
        assert head is not None
        says: JsonObject = {"people": [{"team": row.team, "user": "U0LEAD"}]}
        line = append(
            *(Head(head.seq, head.hash), head.chain, LineKind.DENIED, says, Seal("a guess")),
            at=datetime.fromtimestamp(tx.now(), UTC),
            salt="x",
            confirmation=row.id,
            tool="reimburse",
        )
        values = {**asdict(line), "at": tx.now(), "stamp": stamp(line.at), "kind": str(line.kind)}
        tx.insert("bot_ledger", values)
        tx.run(
            "UPDATE bot_chains SET seq = :seq, hash = :hash WHERE chain = :chain",
            chain=head.chain,
            seq=line.seq,
            hash=line.hash,
        )
        wake(tx, "thread")

    await at.bot.database.run(forges)
    await at.sees(card, "A line of the ledger was changed in the database")
    await at.rests()
    assert "denied" not in at.ann.sees(at.deploys, thread=card).lower()
