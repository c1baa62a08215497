"""An attacker writes to the database without the secret: only what was shown can run, and every change raises an
alarm."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.ops.operate import pause, resume
from adk_confirm.bot.store.ledger_lines import read_lines
from adk_confirm.runtime.calls.call import call_digest
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.sandbox.people.seen import Seen
from tests.support.office import Office, Opens
from tests.support.scraping import scrape

pytestmark = pytest.mark.every_case

Rewrite = Callable[[JsonObject], None]


def rewrites_calls(tx: Tx, rewrite: Rewrite) -> None:
    """Every stored call of the agent's runtime."""
    for row in tx.all("SELECT * FROM runtime_calls"):
        body = json.loads(row.body)
        rewrite(body)
        tx.run(
            "UPDATE runtime_calls SET body = :body, state = :state WHERE session = :session AND id = :id",
            session=row.session,
            id=row.id,
            body=json.dumps(body),
            state=body["state"],
        )


def rewrites_confirmations(tx: Tx, rewrite: Rewrite) -> None:
    """Every confirmation of the bot."""
    for row in tx.all("SELECT * FROM bot_confirmations"):
        body = json.loads(row.body)
        rewrite(body)
        tx.run("UPDATE bot_confirmations SET body = :body WHERE id = :id", id=row.id, body=json.dumps(body))


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
    await at.ann.finds("it is not the call that was approved", at.deploys, thread=card)
    await at.rests()
    assert at.ran() == []
    assert "Did not run:" in at.ann.now(card)
    assert "somebody changed the database" in at.ann.now(card)
    written = await kinds(at)
    assert (written.count(LineKind.ALTERED), written.count(LineKind.DONE)) == (1, 0)
    assert (await scrape(at.bot.url)).value("adk_confirm_altered_calls_total") == 1
    assert any(record.levelname == "ERROR" and "changed the database" in record.message for record in caplog.records)


async def test_the_card_shows_1500_and_i_make_the_held_call_99999(
    open_office: Opens, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.bot.database.run(rewrites_calls, pays_99999)
        assert "€1,500" in at.ann.now(card)
        await at.bob.clicks(card, "Approve")
        await is_loud(at, card, caplog)


async def test_i_make_it_another_tool(open_office: Opens, caplog: pytest.LogCaptureFixture) -> None:
    async with open_office() as at:
        card = await at.ask("deploy checkout 2.4.1 to prod")
        await at.bot.database.run(rewrites_calls, lambda call: call.update(tool="lookup"))
        await at.bob.clicks(card, "Approve")
        await is_loud(at, card, caplog)


async def test_i_make_the_request_of_a_small_sum_mean_a_large_one(open_office: Opens) -> None:
    async with open_office() as at:
        small = await at.ask("reimburse 1500 for the team dinner")
        await at.ann.says("@adk-confirm reimburse 99999 for me", at.deploys, thread=small)
        await at.ann.finds("99,999", at.deploys, thread=small)
        await at.rests()

        def swaps(tx: Tx) -> None:
            (one, first), (other, second) = tx.all("SELECT id, call FROM runtime_requests")
            for request, call in ((one, second), (other, first)):
                values = {"request": request, "call": call}
                tx.run("UPDATE runtime_requests SET call = :call WHERE id = :request", **values)

        await at.bot.database.run(swaps)
        await at.bob.clicks(small, "Approve")
        await at.ann.finds("I reimbursed 1500", at.deploys, thread=small)
        assert [ran["amount"] for ran in at.ran()] == [1500]


async def test_i_change_a_field_that_nobody_edited(open_office: Opens, caplog: pytest.LogCaptureFixture) -> None:
    """An edit replaces one argument; the others come from the held call."""
    async with open_office() as at:
        card = await at.ask("deploy checkout 2.4.1 to prod")
        await at.bot.database.run(rewrites_calls, deploys_6_6_6)
        await at.bob.clicks(card, "Edit…")
        await (await at.bob.gets_modal("Edit")).submits({"env": "staging"})
        await is_loud(at, card, caplog)


async def test_i_let_the_payload_pass_for_arguments(open_office: Opens, caplog: pytest.LogCaptureFixture) -> None:
    """The tool itself asked for a payload. As a statically gated call it would take it for its arguments."""
    async with open_office() as at:
        card = await at.ask("I need 5 days off")
        await at.bot.database.run(rewrites_calls, lambda call: call.update(gate="static", args={"days": 99}))
        await at.bob.clicks(card, "Approve")
        form = await at.bob.gets_modal("Approve")
        await form.submits()
        await is_loud(at, card, caplog)


async def test_nobody_approves_so_i_write_that_it_may_begin(
    open_office: Opens, caplog: pytest.LogCaptureFixture
) -> None:
    """The next words in the session take up what seems to be left of a process that died."""
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.rests()

        def begins(tx: Tx) -> None:
            def ready(call: JsonObject) -> None:
                pays_99999(call)
                approved = call_digest("reimburse", call["args"])  # type: ignore[arg-type]  # a call's own shape
                call.update(state="ready", approved=approved)

            rewrites_calls(tx, ready)
            tx.run("UPDATE runtime_invocations SET status = 'active'")

        await at.bot.database.run(begins)
        await at.ann.says("@adk-confirm who is on call?", at.deploys, thread=card)
        await at.ann.finds("on call", at.deploys, thread=card)
        await at.rests()
        assert at.ran() == []
        assert any("changed the database" in record.message for record in caplog.records)


async def test_a_call_that_i_say_needs_no_approval_does_not_run(open_office: Opens) -> None:
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await at.rests()

        def opens(tx: Tx) -> None:
            rewrites_calls(tx, lambda call: call.update(state="ready", gate="none", asked=[]))
            tx.run("UPDATE runtime_invocations SET status = 'active'")

        await at.bot.database.run(opens)
        await at.ann.says("@adk-confirm who is on call?", at.deploys, thread=card)
        await at.ann.finds("on call", at.deploys, thread=card)
        await at.rests()
        assert at.ran() == []


async def test_the_first_run_got_lost_and_i_change_what_shall_run_again(
    open_office: Opens, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_office(target="tests.support.lab:agent") as at:
        card = await at.ask('loses {"what": "in the middle"}')
        await at.bob.clicks(card, "Approve")
        asks = await at.ann.finds("Did this take effect? Loses", at.deploys, thread=card)
        await at.rests()

        def pays(tx: Tx) -> None:
            rewrites_calls(tx, lambda call: call.update(tool="pay", args={"to": "me", "amount": 99999}))

        await at.bot.database.run(pays)
        await at.bob.clicks(asks, "Run again", sure=True)
        await is_loud(at, card, caplog)


async def test_i_rewrite_the_bot_s_own_row(open_office: Opens, caplog: pytest.LogCaptureFixture) -> None:
    """What is approved is then paused: between the decision and the run there is time to write."""
    async with open_office() as at:
        card = await at.ask("reimburse 1500 for the team dinner")
        await pause(at.bot.database)
        await at.bob.clicks(card, "Approve")
        await at.ann.finds("Approved by bob", at.deploys, thread=card)

        def rewrites(tx: Tx) -> None:
            rewrites_calls(tx, pays_99999)
            rewrites_confirmations(tx, lambda row: pays_99999(row["revisions"][-1]))  # type: ignore[index,arg-type]
            rewrites_confirmations(tx, lambda row: row["asked"].update(arguments={"amount": 99999.0}))  # type: ignore[union-attr]

        await at.bot.database.run(rewrites)
        await resume(at.bot.database)
        await at.later(minutes=1)
        await is_loud(at, card, caplog)
        assert [record.message for record in caplog.records if record.exc_info] == []
