"""An attacker writes to the database without the secret: only what was shown can run, and every change raises an
alarm."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.confirmation.states import Delivery
from adk_confirm.bot.confirmation.stored_json import to_json
from adk_confirm.bot.store.ledger_rows import read_lines
from adk_confirm.bot.store.pause import pause_runs, resume_runs, switch_runs
from adk_confirm.runtime.calls.call import call_digest
from adk_confirm.runtime.jsontypes import Json, JsonObject, objects
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import owe
from adk_confirm.sandbox.people.seen import Seen
from tests.bot.store.conftest import DINNER, sends
from tests.support.office import LAB, POLICY, Office, wake
from tests.support.scraping import scrape
from tests.support.stores import change, rewrite, unguarded

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


@pytest.mark.parametrize(
    ("asked", "shown", "forges", "edit"),
    [
        pytest.param(DINNER, "€1,500", pays_99999, {}, id="a sum"),
        pytest.param("deploy checkout 2.4.1 to prod", "2.4.1", lambda call: call.update(tool="lookup"), {}, id="tool"),
        pytest.param("deploy checkout 2.4.1 to prod", "2.4.1", deploys_6_6_6, {"env": "staging"}, id="an edit's rest"),
    ],
)
async def test_the_card_shows_one_call_and_i_make_the_held_one_another(
    at: Office,
    asked: str,
    shown: str,
    forges: Callable[[JsonObject], None],
    edit: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An edit replaces one argument; the others come from the held call."""
    card = await at.ask(asked)
    await at.rests()
    await at.bot.database.run(rewrite, CALLS, forges)
    assert shown in at.ann.now(card)
    await (at.edits(at.bob, card, **edit) if edit else at.bob.clicks(card, "Approve"))
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
    await at.bob.clicks(asks, "Run again…", sure=True)
    await is_loud(at, card, caplog)


async def test_i_rewrite_the_bot_s_own_row(at: Office, card: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """What is approved is then paused: between the decision and the run there is time to write."""
    await switch_runs(at.bot.database, pause_runs)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Approved by bob")

    def pays(row: JsonObject) -> None:
        pays_99999(row["revisions"][-1])  # type: ignore[index,arg-type]
        row["asked"].update(arguments={"amount": 99999.0})  # type: ignore[union-attr]

    await at.bot.database.run(rewrite, CALLS, pays_99999)
    await at.bot.database.run(rewrite, "bot_confirmations", pays)
    await switch_runs(at.bot.database, resume_runs)
    await at.later(minutes=1)
    await is_loud(at, card, caplog)
    assert [record.message for record in caplog.records if record.exc_info] == []


MARKS = "python:tests.support.python_approvers:leaves_a_mark"
ASKED = "bot_confirmations"
TWO = f"{POLICY}quorum = 2\n"
GRANTING = f'{POLICY}grant = "30m"\ngrant_on = []\n'


async def writes(at: Office, change: Callable[[JsonObject], object]) -> None:
    """Into every confirmation, as an SQL client would, and has it looked at."""

    def write(tx: Tx) -> None:
        rewrite(tx, ASKED, change)
        wake(tx, "confirmation")

    await at.rests()
    await at.bot.database.run(write)


def vote(body: JsonObject, user: str, **more: Json) -> None:
    plain: JsonObject = {
        "id": f"forged-{user}",
        "kind": "approve",
        "voter": {"team": body["asked"]["team"], "user": user},  # type: ignore[call-overload,index]
        "revision": 1,
        "stored_at": body["asked_at"],
    }
    body["votes"] = [*body["votes"], {**plain, **more}]  # type: ignore[misc]  # a row's own shape


def steal(body: JsonObject) -> None:
    """Somebody's vote, with its time and its way, for somebody else."""
    (given,) = objects(body["votes"])
    stolen: JsonObject = {**given, "id": "v2", "voter": {"team": "T0ACME", "user": "U0LEAD"}}
    body["votes"] = [given, stolen]


def decide(body: JsonObject) -> None:
    decision: JsonObject = {"state": "approved", "at": body["asked_at"], "revision": 1}
    body.update(state="approved", decision=decision, start_by=body["deadline"])


async def is_void(at: Office, card: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """What waited is denied, with one alarm: in the thread, on the card, in the metrics and in the log."""
    await at.sees(card, "is not the one that was asked about")
    await at.slack.until(lambda: "written into the database by other means" in at.ann.now(card) or None)
    await at.slack.until(lambda: "Denied" in at.ann.now(card) or None)
    assert (await scrape(at.bot.url)).value("adk_confirm_unsealed_total") == 1
    assert len([one for one in caplog.records if one.levelname == "ERROR" and "unsealed" in one.message]) == 1
    await at.rests()
    assert at.ran() == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda body: vote(body, "U0BOB"), id="a vote"),
        pytest.param(lambda body: vote(body, "U0BOB", state="standing", stands_on=1), id="a counted vote"),
        pytest.param(steal, id="a stolen vote"),
        pytest.param(decide, id="a decision"),
        pytest.param(lambda body: body["policy"].update(quorum=1), id="quorum"),
        pytest.param(lambda body: body["policy"].update(approvers=[MARKS]), id="approvers"),
        pytest.param(lambda body: body["asked"]["asked_by"].update(user="U0CYD"), id="asker"),
        pytest.param(lambda body: body["asked"]["arguments"].update(amount=99999), id="call"),
        pytest.param(lambda body: body.update(deadline="2099-01-01T00:00:00Z"), id="time"),
        pytest.param(lambda body: body.clear() or body.update(state="waiting"), id="all"),
    ],
)
@pytest.mark.office(TWO)
async def test_i_change_a_confirmation_that_waits(
    at: Office, card: Seen, change: Callable[[JsonObject], object], caplog: pytest.LogCaptureFixture
) -> None:
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "· approved by bob ·")
    await writes(at, change)
    await is_void(at, card, caplog)
    assert "[Approve]" not in at.cyd.now(card)


@pytest.mark.office(TWO)
async def test_no_vote_of_mine_and_no_function_reaches_a_person_who_says_stop(
    at: Office, card: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else looks at the row before the hint does: the worker is not woken."""
    called: list[object] = []
    monkeypatch.setattr("tests.support.python_approvers.on_call_later", called.append)

    mine: JsonObject = {"approvers": ["python:tests.support.python_approvers:on_call_later"]}
    await at.bot.database.run(rewrite, ASKED, lambda body: body["policy"].update(mine))  # type: ignore[union-attr]
    await at.cyd.says("stop", at.deploys, thread=card)
    await at.cyd.finds("mention", at.deploys, thread=card)
    await at.rests()
    assert called == []


async def test_i_decide_it_and_write_the_answer_too(at: Office, card: Seen) -> None:
    """The row says approved, and the answer lies in the session's mailbox."""

    def decides(tx: Tx) -> None:
        row = tx.first("SELECT * FROM bot_confirmations")
        body = json.loads(row.body)
        decide(body)
        change(tx, "bot_confirmations", body=json.dumps(body), state="approved")
        answer = Delivery(word="approved", arguments=body["asked"]["arguments"], revision=1)
        sends(tx, "answer", to_json(answer), confirmation=row.id)

    await at.bot.database.run(decides)
    await at.sees(card, "An answer to the agent has no seal of this app")
    await at.sees(card, "is not the one that was asked about")
    await at.rests()
    assert at.ran() == []


async def test_i_make_up_a_confirmation(at: Office, card: Seen, caplog: pytest.LogCaptureFixture) -> None:
    """A copy of a true row, for a request of mine."""

    def copies(tx: Tx) -> None:
        row = tx.first("SELECT * FROM bot_confirmations")
        tx.insert("bot_confirmations", {**row._asdict(), "id": "mine", "request_id": "mine"})
        owe(tx, "confirmation", "mine", 0.0)
        wake(tx)

    await at.bot.database.run(copies)
    await at.sees(card, "Somebody changed the card")
    await at.rests()
    assert at.ran() == []
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.sees(card, "I reimbursed 1500")
    assert len(at.ran()) == 1


# Who asked


MINE = '[[policy]]\ntools = ["*"]\napprovers = ["user:U0ANN", "user:U0BOB"]\nallow_requester = "speakers"\n'


@pytest.mark.office(MINE)
async def test_i_write_that_somebody_else_asked(at: Office) -> None:
    """An old row says that cyd asked in the turn that begins now. Who asked may not approve, and ann did."""
    if at.bot.database.dialect != "sqlite":
        pytest.skip("the trigger is SQLite's")
    first = await at.ask(DINNER)
    await at.rests()
    forges = (
        "CREATE TRIGGER forges AFTER INSERT ON runtime_invocations BEGIN UPDATE bot_confirmations SET body = "
        "json_set(body, '$.asked.invocation_id', NEW.id, '$.asked.asked_by.user', 'U0CYD'); END"
    )
    await at.bot.database.run(lambda tx: tx.run(forges))
    await at.ann.says("@adk-confirm reimburse 1200 for the drinks", at.deploys, thread=first)
    card = await at.bob.finds("€1,200", at.deploys, thread=first)
    assert "cyd" not in at.bob.now(card)
    await at.ann.clicks(at.ann.now(card), "Approve")
    await at.ann.gets_modal("because you asked for it")
    await at.rests()
    assert at.ran() == []


# Grants


async def granted(at: Office) -> Seen:
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.bob.clicks(card, "Allow more")
    form = await at.bob.gets_modal("Runs without asking")
    await form.submits()
    await at.sees(card, "Done: Deploy")
    await at.rests()
    return card


async def asks_again(at: Office, card: Seen) -> None:
    await at.ann.says("@adk-confirm deploy checkout 6.6.6 to prod", at.deploys, thread=card)
    await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
    await at.rests()
    assert [line["version"] for line in at.ran()] == ["2.4.1"]


@pytest.mark.parametrize(
    "other",
    [
        {"until": "2099-01-01T00:00:00Z"},
        {"on": {"service": "checkout"}},
        {"given_by": [{"team": "T0ACME", "user": "U0LEAD"}]},
    ],
    ids=lambda other: next(iter(other)),
)
@pytest.mark.office(GRANTING)
async def test_i_change_a_grant(at: Office, other: JsonObject) -> None:
    card = await granted(at)

    def changes(tx: Tx) -> None:
        rewrite(tx, ASKED, lambda body: body["grant"].update(other))  # type: ignore[union-attr]
        change(tx, "bot_confirmations", granted_until=tx.now() + 1000000.0)

    await at.bot.database.run(changes)
    if "until" in other:
        await at.later(minutes=31)
    await asks_again(at, card)
    assert "Allowed by you" not in await at.bob.opens_home("Waiting for you (1)")


@pytest.mark.parametrize("name", ["in the index", "its row", "for another row"])
@pytest.mark.office(GRANTING)
async def test_i_bring_back_a_grant_that_was_revoked(at: Office, name: str) -> None:
    card = await granted(at)
    before = await at.bot.database.read(lambda tx: tx.first("SELECT * FROM bot_confirmations")._asdict())
    await at.bob.clicks(at.bob.now(card), "Stop allowing…", sure=True)
    await at.sees(card, "stopped allowing more")
    await at.rests()

    def brings_back(tx: Tx) -> None:
        change(tx, "bot_confirmations", granted_until=tx.now() + 900)
        if name == "its row":
            change(tx, "bot_confirmations", **before)
        elif name == "for another row":
            tx.insert("bot_confirmations", {**before, "id": "copy", "request_id": "copy"})

    await at.bot.database.run(brings_back)
    await asks_again(at, card)
    assert "Allowed by you" not in await at.bob.opens_home("Waiting for you (1)")


async def _ran(at: Office, version: str, card: Seen) -> None:
    await at.ann.says(f"@adk-confirm deploy checkout {version} to prod", at.deploys, thread=card)
    await at.slack.until(lambda: version in [line["version"] for line in at.ran()] or None)
    await at.rests()


@pytest.mark.parametrize(
    "hides",
    [
        "DELETE FROM bot_ledger WHERE seq = :seq",
        "DELETE FROM bot_ledger WHERE seq >= :seq",
        "UPDATE bot_ledger SET at = 0 WHERE seq = :seq",
        """UPDATE bot_ledger SET content = '{"grant":"another"}' WHERE seq = :seq""",
    ],
    ids=["delete", "cut off", "date back", "another grant"],
)
@pytest.mark.office(GRANTING.replace('"30m"', '{ for = "30m", uses = 2 }'))
async def test_i_hide_that_a_grant_was_used(at: Office, hides: str) -> None:
    """It was good for two calls. If the ledger can't say how many it let through, it lets no more through."""

    def hide(tx: Tx) -> None:
        unguarded(tx)
        tx.run(hides, seq=tx.value("SELECT seq FROM bot_ledger WHERE kind = 'grant used'"))

    card = await granted(at)
    await _ran(at, "2.4.2", card)
    await at.bot.database.run(hide)
    if "SET at" in hides:  # that changes nothing
        await _ran(at, "2.4.3", card)
    await at.ann.says("@adk-confirm deploy checkout 6.6.6 to prod", at.deploys, thread=card)
    await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
    await at.rests()
    assert "6.6.6" not in [line["version"] for line in at.ran()]


@pytest.mark.parametrize("way", ["its letter is put back", "and its line is deleted"])
@pytest.mark.office(GRANTING)
async def test_i_let_the_agent_hear_a_message_again(at: Office, way: str) -> None:
    """Its call would run again under the grant."""
    card = await granted(at)
    await _ran(at, "2.4.2", card)

    def puts_back(tx: Tx) -> None:
        if way == "and its line is deleted":
            unguarded(tx)
            tx.run("DELETE FROM bot_ledger WHERE kind = 'heard'")
        tx.run("DELETE FROM runtime_invocations")
        last = tx.value("SELECT max(id) FROM bot_mail WHERE kind = 'words'")
        tx.run("UPDATE bot_mail SET done_at = NULL WHERE id = :id", id=last)
        wake(tx, "session")

    await at.bot.database.run(puts_back)
    await at.sees(card, "Say it again.")
    await _ran(at, "2.4.3", card)
    assert [line["version"] for line in at.ran()] == ["2.4.1", "2.4.2", "2.4.3"]
    assert (await scrape(at.bot.url)).value("adk_confirm_unsealed_total") == 1


@pytest.mark.office(GRANTING)
async def test_i_make_up_a_held_call_under_a_grant(at: Office) -> None:
    """It would run without a card: ann only has to say something."""
    card = await granted(at)

    def forges(tx: Tx) -> None:
        row = tx.first("SELECT * FROM runtime_calls")
        body = json.loads(row.body)
        asked = {**body["asked"][-1], "request_id": "r-evil", "confirmed": None, "answer": None}
        body |= {"id": "evil", "state": "held", "turn": 99, "asked": [asked], "result": None, "attempt": 0}
        body["args"] = {**body["args"], "version": "6.6.6-evil"}
        stored = {**row._asdict(), "id": "evil", "turn": 99, "state": "held", "body": json.dumps(body)}
        tx.insert("runtime_calls", {**stored, "sealed": ""})
        tx.run(
            "INSERT INTO runtime_requests (session, id, call) VALUES (:session, 'r-evil', 'evil')", session=row.session
        )

    await at.bot.database.run(forges)
    await at.ann.says("@adk-confirm who is on call?", at.deploys, thread=card)
    await at.sees(card, "on call")
    await at.rests()
    assert [line["version"] for line in at.ran()] == ["2.4.1"]
    assert "6.6.6" not in at.bob.sees(at.deploys, thread=card)


# What people look at before they decide


@pytest.mark.parametrize("where", ["Home", "/approvals", "a form"])
async def test_i_show_another_call_than_the_one_that_would_run(at: Office, card: Seen, where: str) -> None:
    """Nothing else is drawn from the changed row before the test ends."""

    def shows(body: Any) -> None:
        for call in (body["revisions"][0], body["asked"]):
            call["arguments"]["amount"] = 987  # in no time of day, as 42 is

    await at.bot.database.run(rewrite, ASKED, shows)
    if where == "Home":
        assert "987" not in await at.bob.opens_home("Nothing waits for you.")
    elif where == "/approvals":
        await at.bob.commands("/approvals", "", at.deploys)
        await at.bob.finds("Nothing waits", at.deploys)
        assert "987" not in at.bob.sees(at.deploys)
    else:
        await at.bob.clicks(card, "All details")
        await at.bob.gets_modal("Denied")
        await at.sees(card, "is not the one that was asked about")
    assert at.ran() == []


# Who spoke, and where


@pytest.mark.parametrize("way", ["taken out", "an older row", "another channel"])
async def test_i_change_who_spoke_or_where(at: Office, card: Seen, way: str, caplog: pytest.LogCaptureFixture) -> None:
    """bob is on call and spoke to the agent, so he may not approve what it asks for."""
    before = await at.bot.database.read(lambda tx: tx.first("SELECT * FROM bot_sessions"))
    await at.bob.says("@adk-confirm what is the weather?", at.deploys, thread=card)
    await at.rests()

    def changes(tx: Tx) -> None:
        values = {"speakers": before.speakers, "present": before.present}
        if way == "another channel":
            values = {"channel": "C0ELSE"}
        elif way == "an older row":
            values["sealed"] = before.sealed
        change(tx, "bot_sessions", **values)

    await at.bot.database.run(changes)
    voter = at.cyd if way == "another channel" else at.bob
    await voter.clicks(voter.now(card), "Approve")
    await voter.gets_modal("Somebody changed in the database who spoke here")
    if way != "another channel":
        await at.sees(card, "It is not known who spoke here")
        await at.ann.says("@adk-confirm deploy checkout 2.4.1 to prod", at.deploys, thread=card)
        await at.sees(card, "conversation was changed in the database")
    await at.rests()
    assert at.ran() == []
    assert (await scrape(at.bot.url)).value("adk_confirm_unsealed_total") == 1
    assert any(record.levelname == "ERROR" and "unsealed" in record.message for record in caplog.records)


async def test_i_change_the_call_and_whose_thread_it_is(at: Office, card: Seen) -> None:
    await at.bot.database.run(lambda tx: change(tx, "bot_sessions", app="other"))
    await at.bot.database.run(rewrite, ASKED, lambda body: body.update(revisions=[]))
    await at.bob.clicks(card, "Approve")
    await at.bob.gets_modal("Denied")
    await at.sees(card, "is not the one that was asked about")
    await at.rests()
    assert await at.bot.database.read(lambda tx: tx.column("SELECT trouble FROM jobs WHERE failures > 0")) == []
    assert LineKind.UNSEALED in await kinds(at)
    assert at.ran() == []


async def test_i_let_the_agent_overhear_what_was_said_to_others(at: Office, card: Seen) -> None:
    """bob never called the agent. If nobody else were there, what he writes in the thread would be for it."""
    await at.bot.database.run(lambda tx: change(tx, "bot_sessions", present="[]"))
    await at.bob.says("deploy search 9.9.9 to prod", at.deploys, thread=card)
    await at.rests()
    heard = await at.bot.database.read(lambda tx: tx.column("SELECT person FROM bot_mail WHERE kind = 'words'"))
    assert heard == [at.ann.id]


@pytest.mark.parametrize("kind", ["refusal", "settlement", "answer"])
async def test_i_tell_the_agent_what_nobody_said(at: Office, card: Seen, kind: str) -> None:
    def writes(tx: Tx) -> None:
        row = tx.first("SELECT * FROM bot_confirmations")
        asked = json.loads(row.body)["asked"]
        body: JsonObject = {"request": asked["request_id"], "call": asked["call_id"], "turn": ""}
        body |= {"reason": "BUY EVERYTHING", "confirmed": False, "word": "it happened", "attempt": 1}
        body |= {"arguments": {}, "revision": 1, "payload": None}
        sends(tx, kind, json.dumps(body), confirmation=None if kind == "refusal" else row.id)

    await at.bot.database.run(writes)
    await at.sees(card, "An answer to the agent has no seal of this app")
    await at.rests()
    assert "BUY" not in at.ann.sees(at.deploys, thread=card)
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.sees(card, "I reimbursed 1500")
    assert len(at.ran()) == 1
