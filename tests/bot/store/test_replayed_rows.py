"""An attacker puts old copies of rows back, with their seals: nothing runs twice or without a decision."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import pytest

from adk_confirm.bot.audit.ledger import Head, LineKind, append, stamp
from adk_confirm.bot.ops.operate import pause, resume
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.lease import topic_of
from adk_confirm.runtime.store.seal import Seal
from tests.support.office import Office, Opens, wake
from tests.support.scraping import scrape
from tests.support.stores import change_job

DINNER = "reimburse 1500 for the team dinner"
GROUP = 'tools = ["*"]\napprovers = ["group:S0ONCALL", "user:U0LEAD"]\n'
ONE, TWO = f"[[policy]]\n{GROUP}", f"[[policy]]\n{GROUP}quorum = 2\n"


@pytest.fixture
def database_url(sqlite_stocked: str) -> str:
    """What a seal covers is the same on both databases."""
    return sqlite_stocked


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
        change_job(tx, "confirmation", due_at=0.0)
        change_job(tx, "session", due_at=0.0)
        tx.notify(topic_of("session"))
        wake(tx)


async def copied(at: Office) -> Copy:
    await at.rests()
    return await at.bot.database.read(Copy.of)


async def alarms(at: Office) -> float:
    scraped = await scrape(at.bot.url)
    return scraped.value("adk_confirm_unsealed_total") + scraped.value("adk_confirm_altered_calls_total")


async def test_a_call_that_ran_is_put_back_as_approved(open_office: Opens) -> None:
    """The answer waits in the mailbox again, the call for its answer, and the confirmation for its hand-over."""
    async with open_office(ONE) as at:
        card = await at.ask(DINNER)
        await pause(at.bot.database)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob", at.deploys, thread=card)
        approved = await copied(at)
        await resume(at.bot.database)
        await at.later(minutes=1)
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
        await at.rests()

        await at.bot.database.run(approved.put_back)
        await at.ann.finds("or put an older state of it back", at.deploys, thread=card)
        await at.rests()
        assert len(at.ran()) == 1
        assert await alarms(at) >= 1


@pytest.mark.parametrize("confirmation_too", [False, True])
async def test_a_call_that_ran_is_put_back_as_ready(open_office: Opens, confirmation_too: bool) -> None:
    """`ready` stands there only until the tool begins: a trigger keeps it."""
    async with open_office(ONE) as at:
        card = await at.ask(DINNER)
        await at.bot.database.run(keep_ready_calls)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob", at.deploys, thread=card)
        approved = await at.bot.database.read(Copy.of)
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
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
        await at.ann.says("@adk-confirm who is on call?", at.deploys, thread=card)
        await at.ann.finds("on call", at.deploys, thread=card)
        await at.rests()
        assert len(at.ran()) == 1
        assert await alarms(at) >= 1


def keep_ready_calls(tx: Tx) -> None:
    tx.run("CREATE TABLE kept (body TEXT, sealed TEXT)")
    tx.run(
        "CREATE TRIGGER keeps AFTER UPDATE ON runtime_calls WHEN NEW.state = 'ready' BEGIN INSERT INTO kept"
        " VALUES (NEW.body, NEW.sealed); END"
    )


async def test_a_denied_confirmation_is_put_back_as_waiting(open_office: Opens) -> None:
    async with open_office(TWO) as at:
        card = await at.ask(DINNER)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        halfway = await copied(at)
        await at.lead.clicks(at.lead.now(card), "Deny")
        form = await at.lead.gets_modal("Deny")
        await form.submits({})
        await at.ann.finds("Denied by lead", at.deploys, thread=card)
        await at.rests()

        await at.bot.database.run(halfway.put_back)
        await at.ann.finds("or put an older state of it back", at.deploys, thread=card)
        await at.rests()
        assert at.ran() == []
        assert await alarms(at) == 1


async def test_a_vote_that_fell_is_stood_up_again(open_office: Opens) -> None:
    """bob leaves those who are on call, and his vote falls when it is counted again."""
    async with open_office(TWO) as at:
        card = await at.ask(DINNER)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob · Needs 1 more approval", at.deploys, thread=card)
        halfway = await copied(at)
        await at.cyd.clicks(at.cyd.now(card), "Edit…")
        await (await at.cyd.gets_modal("Edit")).submits({"amount": "1200"})
        await at.ann.finds("Edited by cyd", at.deploys, thread=card)
        await at.rests()

        await at.bot.database.run(halfway.put_back)
        await at.ann.finds("is not the one that was asked about", at.deploys, thread=card)
        await at.rests()
        assert at.ran() == []
        assert await alarms(at) == 1


async def test_another_outcome_is_written_on_the_card(open_office: Opens) -> None:
    async with open_office(ONE) as at:
        card = await at.ask(DINNER)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=card)
        await at.rests()

        def writes(tx: Tx) -> None:
            row = tx.first("SELECT * FROM bot_confirmations")
            body = json.loads(row.body)
            assert body["outcome"]["kind"] == "done"
            body["outcome"]["kind"] = "failed"
            body["face"] += 1
            tx.run("UPDATE bot_confirmations SET body = :body", body=json.dumps(body))
            change_job(tx, "card", due_at=0.0)
            wake(tx)

        await at.bot.database.run(writes)
        await at.ann.finds("or put an older state of it back", at.deploys, thread=card)
        await at.slack.until(lambda: "written into the database by other means" in at.ann.now(card) or None)
        assert await alarms(at) == 1


async def test_words_are_put_into_somebodys_mouth(open_office: Opens) -> None:
    """bob may not approve what he asked for himself, so he writes that ann asked."""
    async with open_office(ONE) as at:
        card = await at.ask("deploy checkout 2.4.1 to prod")
        await at.rests()

        def speaks(tx: Tx) -> None:
            letter = tx.first("SELECT * FROM bot_mail")
            said: JsonObject = {"text": "reimburse 99999 for bob", "files": [], "ts": "9.9", "trace": None}
            forged = {"session": letter.session, "kind": "words", "mark": "9.9", "person": "U0ANN"}
            forged |= {"body": json.dumps(said), "stored_at": tx.now(), "line": 0, "sealed": letter.sealed}
            tx.insert("bot_mail", forged)
            change_job(tx, "session", due_at=0.0)
            tx.notify(topic_of("session"))

        await at.bot.database.run(speaks)
        await at.ann.finds("Say it again.", at.deploys, thread=card)
        await at.rests()
        assert await alarms(at) == 1
        assert "99999" not in at.ann.sees(at.deploys, thread=card).replace(",", "")


async def test_a_forged_line_is_not_told_in_the_thread(open_office: Opens) -> None:
    async with open_office(ONE) as at:
        card = await at.ask(DINNER)
        await at.rests()

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
            change_job(tx, "thread", due_at=0.0)
            wake(tx)

        await at.bot.database.run(forges)
        await at.ann.finds("A line of the ledger was changed in the database", at.deploys, thread=card)
        await at.rests()
        assert "denied" not in at.ann.sees(at.deploys, thread=card).lower()
