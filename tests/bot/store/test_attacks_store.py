"""An attacker writes to the database without the secret: only what was shown can run, and every change raises an
alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.ops.operate import pause, resume
from adk_confirm.bot.store.ledger_lines import read_lines
from adk_confirm.runtime.calls.call import call_digest
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import LAB, Office
from tests.support.scraping import scrape
from tests.support.stores import rewrite

pytestmark = pytest.mark.every_case

CALLS = "runtime_calls"


def pays_99999(call: JsonObject) -> None:
    call["args"] = {"purpose": "the team dinner", "amount": 99999.0}


def deploys_6_6_6(call: JsonObject) -> None:
    call["args"] = {**call["args"], "version": "6.6.6"}  # type: ignore[dict-item]  # a call's own shape


async def kinds(at: Office) -> list[LineKind]:
    """What the ledger tells, of all sessions."""

    def read(tx: Tx) -> list[LineKind]:
        return [line.kind for chain in tx.column("SELECT chain FROM bot_chains") for line in read_lines(tx, chain)]

    return await at.bot.database.read(read)


async def is_loud(at: Office, card: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing ran; card, thread, ledger, metrics and log say so."""
    await at.sees(card, "it is not the call that was approved")
    await at.rests()
    assert at.ran() == []
    assert "Did not run:" in at.ann.now(card)
    assert "somebody changed the database" in at.ann.now(card)
    written = await kinds(at)
    assert (written.count(LineKind.ALTERED), written.count(LineKind.DONE)) == (1, 0)
    assert (await scrape(at.bot.url)).value("adk_confirm_altered_calls_total") == 1
    assert any(record.levelname == "ERROR" and "changed the database" in record.message for record in caplog.records)


async def test_the_card_shows_1500_and_i_make_the_held_call_99999(
    at: Office, card: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    await at.bot.database.run(rewrite, CALLS, pays_99999)
    assert "€1,500" in at.ann.now(card)
    await at.bob.clicks(card, "Approve")
    await is_loud(at, card, caplog)


async def test_i_make_it_another_tool(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.bot.database.run(rewrite, CALLS, lambda call: call.update(tool="lookup"))
    await at.bob.clicks(card, "Approve")
    await is_loud(at, card, caplog)


async def test_i_make_the_request_of_a_small_sum_mean_a_large_one(at: Office, card: Seen) -> None:
    await at.ann.says("@adk-confirm reimburse 99999 for me", at.deploys, thread=card)
    await at.sees(card, "99,999")
    await at.rests()

    def swaps(tx: Tx) -> None:
        (one, first), (other, second) = tx.all("SELECT id, call FROM runtime_requests")
        for request, call in ((one, second), (other, first)):
            tx.run("UPDATE runtime_requests SET call = :call WHERE id = :request", request=request, call=call)

    await at.bot.database.run(swaps)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")
    assert [ran["amount"] for ran in at.ran()] == [1500]


async def test_i_change_a_field_that_nobody_edited(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    """An edit replaces one argument; the others come from the held call."""
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.bot.database.run(rewrite, CALLS, deploys_6_6_6)
    await at.edits(at.bob, card, env="staging")
    await is_loud(at, card, caplog)


async def test_i_let_the_payload_pass_for_arguments(at: Office, caplog: pytest.LogCaptureFixture) -> None:
    """The tool itself asked for a payload. As a statically gated call it would take it for its arguments."""
    card = await at.ask("I need 5 days off")
    await at.bot.database.run(rewrite, CALLS, lambda call: call.update(gate="static", args={"days": 99}))
    await at.bob.clicks(card, "Approve")
    await (await at.bob.gets_modal("Approve")).submits()
    await is_loud(at, card, caplog)


def and_pays_99999(call: JsonObject) -> None:
    pays_99999(call)
    call.update(state="ready", approved=call_digest("reimburse", call["args"]))  # type: ignore[arg-type]  # a call's own shape


def needs_no_approval(call: JsonObject) -> None:
    call.update(state="ready", gate="none", asked=[])


@pytest.mark.parametrize("ready", [and_pays_99999, needs_no_approval])
async def test_nobody_approves_so_i_write_that_it_may_begin(
    at: Office, card: Seen, caplog: pytest.LogCaptureFixture, ready: Callable[[JsonObject], None]
) -> None:
    """The next words in the session take up what seems to be left of a process that died."""

    def begins(tx: Tx) -> None:
        rewrite(tx, CALLS, ready)
        tx.run("UPDATE runtime_invocations SET status = 'active'")

    await at.bot.database.run(begins)
    await at.ann.says("@adk-confirm who is on call?", at.deploys, thread=card)
    await at.sees(card, "on call")
    await at.rests()
    assert at.ran() == []
    assert any("changed the database" in record.message for record in caplog.records)


@pytest.mark.office(target=LAB)
async def test_the_first_run_got_lost_and_i_change_what_shall_run_again(
    at: Office, caplog: pytest.LogCaptureFixture
) -> None:
    card = await at.ask('loses {"what": "in the middle"}')
    await at.bob.clicks(card, "Approve")
    asks = await at.sees(card, "Did this take effect? Loses")
    await at.rests()
    pays: JsonObject = {"tool": "pay", "args": {"to": "me", "amount": 99999}}
    await at.bot.database.run(rewrite, CALLS, lambda call: call.update(pays))
    await at.bob.clicks(asks, "Run again", sure=True)
    await is_loud(at, card, caplog)


async def test_i_rewrite_the_bot_s_own_row(at: Office, card: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """What is approved is then paused: between the decision and the run there is time to write."""
    await pause(at.bot.database)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Approved by bob")

    def pays(row: JsonObject) -> None:
        pays_99999(row["revisions"][-1])  # type: ignore[index,arg-type]
        row["asked"].update(arguments={"amount": 99999.0})  # type: ignore[union-attr]

    await at.bot.database.run(rewrite, CALLS, pays_99999)
    await at.bot.database.run(rewrite, "bot_confirmations", pays)
    await resume(at.bot.database)
    await at.later(minutes=1)
    await is_loud(at, card, caplog)
    assert [record.message for record in caplog.records if record.exc_info] == []
