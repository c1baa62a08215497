"""A program asks at the same desk: its thread, its card, its permit, and what becomes of it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from adk_confirm.bot.door.permit import digest, jcs, read_permit
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import as_object, objects
from tests.support.door import DEPLOYS, PUBLIC, Ask, AtTheDoor, door
from tests.support.office import ONE, operates

TWO = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nquorum = 2\n'


@pytest.fixture
async def at(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[AtTheDoor]:
    async with door(database_url, tmp_path / "log", monkeypatch) as opened:
        yield opened


async def is_approved(at: AtTheDoor, **arguments: str) -> Ask:
    """Asks for a deployment, which bob approves."""
    ask = await at.ci.asks("deploy", key=None, wait="", **arguments)
    await at.bob.clicks(await at.card(), "Approve")
    assert (await ask.is_decided()).is_now == "approved"
    return ask


async def test_a_call_is_asked_approved_claimed_run_and_reported(at: AtTheDoor, database_url: str) -> None:
    ask = await at.ci.asks("deploy", service="checkout", env="prod")
    assert (ask.answer.status, ask.answer.is_now) == (202, "pending")
    card = await at.card()
    assert "Asked by ci" in card.text
    root = at.ann.messages(at.deploys)[0]
    assert root.text == "ci asks for approval."
    (waiting,) = objects((await operates(at, database_url, "pending"))["waiting"])
    assert (waiting["asked_by"], waiting["channel"]) == ("caller ci", DEPLOYS)
    await at.bob.clicks(card, "Approve")
    approved = await ask.is_decided()
    assert approved.is_now == "approved"
    assert as_object(as_object(approved.body["result"])["approval"])["approved_by"] == ["U0BOB"]
    assert "outcome" not in as_object(approved.body["result"])  # nobody has claimed it: nothing began

    given = await ask.claims()

    claims = read_permit(
        str(given.body["permit"]), PUBLIC, at.slack.clock.now(), {"env": "prod", "service": "checkout"}
    )
    assert claims["sub"] == "ci"
    assert claims["approvers"] == ["U0BOB"]
    assert claims["jti"] == f"{ask.answer.task['id']}/1"
    assert given.body["arguments"] == {"env": "prod", "service": "checkout"}
    assert (await ask.now()).outcome["kind"] == "running"
    assert (await ask.reports(version="2.4.1")).status == 200
    assert (await ask.becomes("done")).task["over"] is True
    said = await at.sees(root, ". Approved by bob.")
    assert "Approved by bob" in at.bob.now(card).text
    assert "reported by ci" in at.bob.now(card).text
    await at.rests()
    assert said.text.count("Approved by bob") == 1


async def test_who_asked_is_the_caller_or_whoever_it_asks_for(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, asker="user:U0BOB") as at:
        await at.ci.asks("deploy", env="prod")
        card = await at.card()
        assert "Asked by bob through ci" in card.text
        await at.refuses(at.bob, card, "Approve", "asked for")
        await at.cyd.clicks(card, "Approve")
        await at.sees(at.ann.messages(at.deploys)[0], "Approved by cyd")


async def test_a_denial_says_why_and_gives_no_permit(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    await at.denies(at.bob, await at.card(), "Not on a Friday")
    denied = await ask.is_decided()
    assert (denied.is_now, denied.task["over"]) == ("denied", True)
    assert "Not on a Friday" in str(denied.task["reason"])
    refused = await ask.claims()
    assert (refused.status, refused.error) == (409, "It is denied, and only an approved call can be claimed.")
    assert (await ask.reports()).status == 409


async def test_the_permit_is_for_what_people_made_of_it(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", service="checkout", version="2.4")
    await at.edits(at.bob, await at.card(), version="2.5")
    await at.bob.clicks(await at.card(), "Approve")
    approved = await ask.is_decided()
    assert as_object(as_object(approved.body["result"])["approval"])["edited"] is True

    given = await ask.claims()

    edited = {"service": "checkout", "version": "2.5"}
    assert given.body["arguments"] == edited
    permit, now = str(given.body["permit"]), at.slack.clock.now()
    assert read_permit(permit, PUBLIC, now, {**edited})["revision"] == 2
    with pytest.raises(Invalid, match="other arguments"):
        read_permit(permit, PUBLIC, now, {"service": "checkout", "version": "2.4"})


async def test_a_quorum_is_the_progress(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, TWO) as at:
        ask = await at.ci.asks("deploy", env="prod")
        assert (await ask.now()).task["progress"] == {"current_step": 0, "total_steps": 2}
        card = await at.card()
        await at.bob.clicks(card, "Approve")
        await at.rests()
        waiting = await ask.now()
        assert (waiting.is_now, waiting.task["progress"]) == ("pending", {"current_step": 1, "total_steps": 2})
        await at.cyd.clicks(at.cyd.now(card), "Approve")
        assert (await ask.is_decided()).is_now == "approved"


async def test_the_same_key_asks_once_and_another_body_is_another_ask(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", key="build 7", env="prod")
    again = await at.ci.asks("deploy", key="build 7", env="prod")
    assert again.path == ask.path
    other = await at.ci.posts({"tool": "deploy", "arguments": {"env": "staging"}}, key="build 7")
    assert (other.status, other.error) == (
        409,
        "There is another ask with this Idempotency-Key. Use a new key for a new ask.",
    )
    assert (await at.nightly.asks("deploy", key="build 7", env="prod")).path != ask.path
    await at.card()
    await at.rests()
    assert len(at.cards()) == 2
    await at.bob.clicks(next(card for card in at.cards() if "Asked by ci" in card.text), "Approve")
    assert (await ask.is_decided()).is_now == "approved"
    repeated = await at.ci.asks("deploy", key="build 7", env="prod")
    assert (repeated.answer.status, repeated.answer.is_now) == (200, "approved")  # decided at once


async def test_many_at_once_with_one_key_ask_once(at: AtTheDoor) -> None:
    asked = await asyncio.gather(*(at.ci.asks("deploy", key="one", env="prod") for _ in range(8)))
    assert len({one.path for one in asked}) == 1
    await at.card()
    await at.rests()
    assert len(at.cards()) == 1
    assert [one.text for one in at.ann.messages(at.deploys)].count("ci asks for approval.") == 1


async def test_of_two_claimants_one_gets_the_permit_and_gets_it_again(at: AtTheDoor) -> None:
    ask = await is_approved(at, env="prod")
    claims = [f"claimant number {number}" for number in range(6)]
    given = await asyncio.gather(*map(ask.claims, claims))
    won = [claim for claim, answer in zip(claims, given, strict=True) if answer.status == 200]
    assert len(won) == 1
    assert {answer.error for answer in given if answer.status == 409} == {"Another claimant has it. Do not run it."}
    again = await ask.claims(won[0])
    assert again.body["permit"] == next(answer.body["permit"] for answer in given if answer.status == 200)
    assert (await ask.reports(claim="a claimant who has nothing")).status == 409
    assert (await ask.reports(claim=won[0])).status == 200
    assert (
        await ask.reports("failed", claim=won[0])
    ).error == "It has another report already, and the first one stands."
    assert (await ask.reports(claim=won[0])).status == 200  # a lost answer is no loss
    assert (await ask.claims(won[0])).body["permit"] == again.body["permit"]


async def test_the_ledger_names_the_caller_and_says_who_reported(at: AtTheDoor, database_url: str) -> None:
    ask = await is_approved(at, env="prod")
    await ask.claims()
    await ask.reports()
    await ask.becomes("done")
    (chain,) = await at.bot.database.read(lambda tx: tx.column("SELECT DISTINCT chain FROM bot_ledger"))
    assert re.fullmatch(r"door/slack-T\w+-caller-ci/slack-ask-[0-9a-f]{32}", chain)
    call = objects((await operates(at, database_url, "audit", "list"))["calls"])[0]
    shown = await operates(at, database_url, "audit", "show", str(call["id"]))
    (done,) = (one["content"] for one in objects(shown["lines"]) if one["kind"] == "done")
    assert as_object(as_object(done)["who"])["user"] == "caller ci"
    await at.bob.clicks(next(card for card in at.cards()), "History")
    assert "caller ci reports that it ran" in (await at.bob.gets_modal("History")).text


async def test_a_restart_does_not_wait_for_what_is_claimed(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Only the claimant knows when it ends. Whichever process runs then takes the report."""
    async with door(database_url, tmp_path / "log", monkeypatch, f'{ONE}[serve]\ndrain = "10m"\n') as at:
        ask = await at.ci.asks("deploy", key="the one", env="prod")
        await at.bob.clicks(await at.card(), "Approve")
        await ask.is_decided()
        given = await ask.claims()
        async with asyncio.timeout(30):
            await at.restarts()
        ask = await at.ci.asks("deploy", key="the one", env="prod")
        assert (await ask.claims()).body["permit"] == given.body["permit"]
        assert (await ask.reports(version="2.4.1")).status == 200
        assert (await ask.becomes("done")).task["over"] is True
    assert "failed" not in caplog.text


async def test_no_grants_are_offered_on_a_callers_card(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each ask is a session of its own, so a grant would never cover another."""
    async with door(database_url, tmp_path / "log", monkeypatch, f'{ONE}grant = "30m"\n') as at:
        await at.ci.asks("deploy", env="prod")
        assert "Allow" not in " ".join((await at.card()).buttons)
        card = await at.ask("deploy checkout 2.4.1")
        assert "Allow" in " ".join(card.buttons)


async def test_a_failure_is_what_the_claimant_says(at: AtTheDoor) -> None:
    ask = await is_approved(at, env="prod")
    await ask.claims()
    await ask.reports("failed", exit=3)
    failed = await ask.becomes("failed")
    assert failed.outcome["text"] == '{"exit": 3}'
    await at.sees(at.ann.messages(at.deploys)[0], "Failed")


async def test_what_waits_can_be_cancelled(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    card = await at.card()
    assert (await ask.is_cancelled()).is_now == "cancelled"
    assert (await ask.is_cancelled()).status == 200
    await at.sees(at.ann.messages(at.deploys)[0], "ithdrawn")
    await at.rests()
    assert at.bob.now(card).buttons == ("All details", "History")
    assert "ci" in at.bob.now(card).text
    done = await is_approved(at, env="staging")
    assert (await done.is_cancelled()).error.startswith("It is approved already.")


async def test_nobody_decides_what_no_policy_covers(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, ONE.replace('"*"', '"pay"')) as at:
        ask = await at.ci.asks("deploy", wait="20s", env="prod")
        assert (ask.answer.status, ask.answer.is_now) == (200, "failed")
        assert ask.answer.task["nobody_decides"] is True
        assert "polic" in str(ask.answer.task["reason"])
        assert (await ask.claims()).status == 409


async def test_what_nobody_claims_in_time_does_not_begin(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, time_moves=True) as at:
        ask = await is_approved(at, env="prod")
        await at.later(hours=2)
        await at.sees(at.ann.messages(at.deploys)[0], "Not run: it had to start by")
        assert (await ask.now()).is_now == "expired"
        assert (await ask.claims()).status == 409
        waiting = await at.ci.asks("deploy", env="staging")
        await at.card()
        await at.later(hours=30)
        assert (await waiting.is_decided()).is_now == "expired"


async def test_no_report_in_time_is_unknown_and_run_again_is_another_permit(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, time_moves=True) as at:
        ask = await is_approved(at, env="prod")
        first = await ask.claims()
        await at.hours_pass(1.1)
        unknown = await ask.becomes("unknown")
        assert unknown.task["over"] is False
        with pytest.raises(Invalid, match="not valid at this time"):
            read_permit(str(first.body["permit"]), PUBLIC, at.slack.clock.now())
        late = await ask.reports()
        assert (late.status, "people are asked" in late.error) == (409, True)
        await at.sees(at.ann.messages(at.deploys)[0], "reports after its time")
        assert (await ask.claims("another claimant of it")).status == 409
        await at.bob.clicks(await at.card("Run again…"), "Run again…", sure=True)
        await at.rests()
        assert "outcome" not in as_object((await ask.now()).body["result"])
        again = await ask.claims("another claimant of it")
        assert (again.status, again.body["attempt"]) == (200, 2)
        assert again.body["permit"] != first.body["permit"]
        assert (await ask.claims()).status == 409  # of the first attempt
        await ask.reports(claim="another claimant of it")
        assert (await ask.becomes("done")).task["over"] is True


async def test_paused_runs_give_no_permit(at: AtTheDoor, database_url: str) -> None:
    ask = await is_approved(at, env="prod")
    await operates(at, database_url, "pause", "--reason", "an incident")
    claim = asyncio.create_task(ask.claims())
    await at.rests()
    assert "outcome" not in as_object((await ask.now()).body["result"])
    await operates(at, database_url, "resume")
    assert (await claim).status == 200


async def test_a_caller_says_why_and_what_in_its_own_words(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, f"{ONE}reason = true\n") as at:
        body = {"tool": "deploy", "arguments": {"env": "prod"}, "reason": "The fix for <!channel>", "preview": "+1 pod"}
        answer = await at.ci.posts(body)
        card = await at.card()
        assert "ci says:\n+1 pod" in card.text
        assert "The fix for" in card.text
        assert "<!channel>" not in card.fallback
        await at.bob.clicks(card, "Edit…")
        await (await at.bob.gets_modal("Edit")).submits({"env": "staging"})
        await at.slack.until(lambda: "was edited" in at.bob.now(card).text or None, what="a preview that is not known")
        assert (await at.ci.sends("GET", answer.headers["Location"])).is_now == "pending"


async def test_words_of_people_in_its_thread_are_for_the_agent(at: AtTheDoor) -> None:
    ask = await at.ci.asks("deploy", env="prod")
    card = await at.card()
    root = at.ann.messages(at.deploys)[0]
    await at.bob.says('@adk-confirm {"tool": "pay", "arguments": {}}', at.deploys, thread=root)
    await at.rests()
    assert len(at.cards()) == 1
    await at.bob.clicks(at.bob.now(card), "Approve")  # who speaks to the agent there asks for nothing here
    assert (await ask.is_decided()).is_now == "approved"


async def test_without_an_agent_the_bot_takes_calls_from_programs_only(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with door(database_url, tmp_path / "log", monkeypatch, target="") as at:
        said = await at.ann.says('@adk-confirm {"tool": "deploy", "arguments": {}}', at.deploys)
        await at.sees(said, "I take calls from programs only")
        ask = await is_approved(at, env="prod")
        await ask.claims()
        await ask.reports()
        await ask.becomes("done")
        assert len(at.cards()) == 1


# RFC 8785, appendix B and section 3.2


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (9007199254740992, "9007199254740992"),
        (295147905179352830000.0, "295147905179352830000"),
        (9.999999999999997e22, "9.999999999999997e+22"),
        (1e23, "1e+23"),
        (999999999999999700000.0, "999999999999999700000"),
        (1e21, "1e+21"),
        (9.999999999999997e-7, "9.999999999999997e-7"),
        (0.000001, "0.000001"),
        (333333333.3333332, "333333333.3333332"),
        (-0.0000033333333333333333, "-0.0000033333333333333333"),
        (1424953923781206.2, "1424953923781206.2"),
        ([True, None, 4.50, 2e-3], "[true,null,4.5,0.002]"),
        ('\u20ac$\u000f\nA\'B"\\\\"/', '"\u20ac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"'),
        ({"\U0001f600": 1, "\ufb33": 2, "\u20ac": 3, "1": 4, "\r": 5}, '{"\\r":5,"1":4,"€":3,"😀":1,"\ufb33":2}'),
    ],
)
def test_arguments_have_one_spelling(value: object, spelled: str) -> None:
    assert jcs(value) == spelled  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [2**53 + 1, -(2**60), "\ud800", {"\udfff": 1}])
def test_what_other_readers_would_take_for_something_else_has_no_spelling(value: object) -> None:
    with pytest.raises(Invalid):
        digest(value)  # type: ignore[arg-type]
