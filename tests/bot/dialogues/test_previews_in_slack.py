"""What a call would do is shown with it, and it starts only if that still holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from adk_confirm import Runner
from adk_confirm.runtime.jsontypes import Json
from adk_confirm.sandbox.people.seen import Seen
from tests.support import lab
from tests.support.office import BOTH_WAYS, LAB, ONE, Office, Opens
from tests.support.served import served

HIDING = ONE + 'redact = ["password"]\n'
DIFF = "--- a/t.sql\n+++ b/t.sql\n@@ -1,2 +1,3 @@\n id int\n-old text\n+new text\n+more text\n"


@pytest.fixture(autouse=True)
def _no_plan() -> Iterator[None]:
    lab.plan.clear()
    yield
    lab.plan.clear()


@pytest.mark.office(ONE, target=LAB)
async def test_a_diff_is_shown_and_counted_and_the_call_runs_at_one_press(at: Office) -> None:
    lab.plan["shows"] = DIFF
    card = await at.ask('migrate {"table": "users"}')
    assert "Plan · t.sql · +2 −1" in card.text
    assert "- old text\n+ new text" in card.text
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")
    assert [one["table"] for one in at.ran()] == ["users"]


@BOTH_WAYS
@pytest.mark.office(ONE, target=LAB)
async def test_if_it_changes_before_the_start_nothing_runs_and_people_decide_anew(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    assert "drops users.old" in card.text
    lab.plan["shows"] = "drops users"
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "bob approved an older plan. Those votes no longer count.")
    assert "was drops users.old\nnow drops users" in anew.text
    await at.rests()
    assert at.ran() == []
    old = at.ann.now(card)
    assert "Its plan changed before it started. Use the newer card" in old.text
    there = f"/p{anew.ts.replace('.', '')}"
    assert there in old.text, "it leads there"
    told = await at.sees(card, "the plan changed, so it did not start. Decide again")
    assert there in told.fallback, "and so does the thread"
    await at.cyd.clicks(anew, "Approve")
    await at.sees(card, ", done")
    assert len(at.ran()) == 1


@pytest.mark.office(ONE, target=LAB)
async def test_a_diff_that_changed_shows_then_and_now_and_the_new_one_whole(at: Office) -> None:
    lab.plan["shows"] = DIFF
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = DIFF.replace("more", "less")
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "bob approved an older plan. Those votes no longer count.")
    assert "was + more text\nnow + less text" in anew.text
    assert "+ less text" in anew.text.rpartition("Plan")[2], "and the new one whole"


ALLOWING = ONE + 'preview_drift = "allow"\n'


@pytest.mark.office(ALLOWING, target=LAB)
async def test_where_the_policy_allows_a_change_it_starts_and_thread_and_ledger_say_what_changed(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = "drops users.old\ndrops users.older"
    await at.bob.clicks(card, "Approve")
    said = await at.sees(card, "started, though its plan has changed since it was approved")
    assert "+drops users.older" in said.text
    await at.sees(card, ", done")
    assert len(at.ran()) == 1
    kinds = await at.bot.database.read(lambda tx: tx.column("SELECT kind FROM bot_ledger ORDER BY chain, seq"))
    assert kinds[-4:] == ["approved", "preview changed", "begun", "done"]


@pytest.mark.office(ALLOWING, target=LAB)
async def test_even_so_it_asks_about_what_nobody_has_seen(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = ConnectionError("no route")
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "Use the newer card.")
    await at.rests()
    assert at.ran() == []


@pytest.mark.office(ONE, target=LAB)
async def test_who_is_asked_anew_about_an_unknown_call_knows_that_it_may_have_run(at: Office) -> None:
    """And what people say about its second attempt is of that attempt, and reaches the agent."""
    lab.plan["breaks"] = True
    card = await at.ask('migrate {"table": "users"}')
    await at.bob.clicks(card, "Approve")
    asks = await at.sees(card, "Did this take effect?")
    lab.plan["shows"] = "drops users"
    await at.bob.clicks(asks, "Run again…", sure=True)
    anew = await at.sees(card, "Run again? Migrate users")
    assert "Attempt 1 may have taken effect: check first." in anew.text
    assert "Nobody knows whether an earlier attempt took effect." in at.ann.now(card).text
    await at.rests()
    assert len(at.ran()) == 1
    await at.bob.clicks(anew, "Approve", sure=True)
    await at.sees(card, "Did this take effect?")
    await at.bob.clicks(anew, "Yes, it did", sure=True)
    await at.sees(card, "It took effect: people looked")
    assert len(at.ran()) == 2


async def changed(at: Office, card: Seen, *, now: str) -> Seen:
    """The card after an edit, once it says what the edited call would do."""
    await at.edits(at.bob, card, table="orders")
    await at.sees(card, now)
    return at.bob.now(card)


@pytest.mark.office(ONE, target=LAB)
async def test_an_edited_card_says_what_the_edited_call_would_do_and_that_is_approved_once(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    assert "The card then has the new plan. Approve it there." in form.text
    await form.submits({"table": "orders"})
    await at.sees(card, "Plan, changed by the edit")
    edited = at.bob.now(card)
    assert "drops orders.old" in edited.text
    assert "since it was approved" not in edited.text
    assert "Approved by" not in edited.text, "whoever edited has not seen yet what that does"
    await at.rests()
    assert at.ran() == []
    await at.bob.clicks(edited, "Approve")
    await at.sees(card, ", done")
    assert [one["table"] for one in at.ran()] == ["orders"]
    assert len(at.cards()) == 1


@pytest.mark.office(ONE + "quorum = 2\n", target=LAB)
async def test_what_others_had_approved_falls_and_two_approve_what_the_edit_does(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    await at.cyd.clicks(card, "Approve")
    edited = await changed(at, card, now="drops orders.old")
    assert "Needs 2 approvals" in edited.text
    await at.cyd.clicks(edited, "Approve")
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.sees(card, ", done")
    assert [one["table"] for one in at.ran()] == ["orders"]


@pytest.mark.office(ONE, target=LAB)
async def test_if_that_changes_after_its_approval_the_new_card_says_so_and_not_that_the_edit_did_it(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    edited = await changed(at, card, now="drops orders.old")
    lab.plan["shows"] = "drops orders"
    await at.bob.clicks(edited, "Approve")
    anew = await at.sees(card, "bob approved an older plan. Those votes no longer count.")
    assert "was drops orders.old\nnow drops orders" in anew.text
    assert "changed by the edit" not in anew.text
    await at.rests()
    assert at.ran() == []


@pytest.mark.office(ALLOWING, target=LAB)
async def test_where_the_policy_allows_a_change_an_edited_call_starts_too(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    edited = await changed(at, card, now="drops orders.old")
    lab.plan["shows"] = "drops orders"
    await at.bob.clicks(edited, "Approve")
    await at.sees(card, "started, though its plan has changed since it was approved", ", done")


@pytest.mark.office(ONE, target=LAB)
async def test_while_it_is_looked_up_nobody_can_approve_and_anybody_who_decides_can_deny(
    at: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    card = await at.ask('migrate {"table": "users"}')
    await at.edits(at.bob, card, table="slow")
    await at.sees(card, "The edited call gets its plan.")
    waiting = at.bob.now(card)
    assert not {"Approve", "Approve…", "Review…"} & {*waiting.buttons}
    assert "drops users.old" not in waiting.text
    await at.denies(at.cyd, waiting, "not now")
    await at.sees(card, "Denied by")
    assert at.ran() == []


@pytest.mark.parametrize("policy", ["required", "optional"])
@pytest.mark.office(ONE, target=LAB)
async def test_one_that_hangs_ends_and_the_policy_says_whether_it_may_be_approved(
    at: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setenv("LAB_GATE", str(tmp_path / "gate"))
    if policy == "optional":
        await at.stops()
        await at.starts(ONE + 'preview = "optional"\n')
    card = await at.ask('reindex {"table": "users"}')
    edited = await changed_to_slow(at, card)
    assert ("Approve" in edited.buttons) is (policy == "optional")
    if policy == "optional":
        await at.bob.clicks(edited, "Approve")
        await at.sees(card, ", done")
    else:
        await at.edits(at.bob, edited, table="orders")
        await at.sees(card, "drops orders.old")
        await at.bob.clicks(at.bob.now(card), "Approve")
        await at.sees(card, ", done")
    assert [one["table"] for one in at.ran()] == ["slow" if policy == "optional" else "orders"]


async def changed_to_slow(at: Office, card: Seen) -> Seen:
    await at.edits(at.bob, card, table="slow")
    await at.sees(card, "The preview took longer than 0.2 s.")
    return at.bob.now(card)


@pytest.mark.office(ONE, target=LAB)
async def test_one_that_lies_asks_a_few_times_and_then_nothing_runs(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    for lie in ("drops a", "drops b", "drops c"):
        lab.plan["shows"] = lie
        await at.bob.clicks(card, "Approve")
        await at.sees(card, f"now {lie}")
        card = next(one for one in at.cards() if f"now {lie}" in one)
    lab.plan["shows"] = "drops everything"
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "would do changed after each approval, 4 times. Nothing ran.")
    await at.rests()
    assert at.ran() == []
    assert not any("Approve" in one.buttons for one in at.cards())


@pytest.mark.office(ONE, target=LAB)
async def test_what_does_not_fit_is_opened_before_it_is_approved(at: Office) -> None:
    lab.plan["shows"] = "\n".join(f"drops partition {number}" for number in range(500))
    card = await at.ask('migrate {"table": "users"}')
    assert "… 489 more lines …" in card.text
    assert "Approve" not in card.buttons
    await at.bob.clicks(card, "Review…")
    form = await at.bob.gets_modal("Approve")
    assert "drops partition 250" in form.text
    await form.submits()
    await at.sees(card, ", done")


@pytest.mark.office(ONE + 'approve_note = "optional"\n', target=LAB)
async def test_one_that_fails_can_be_denied_and_not_approved(at: Office) -> None:
    lab.plan["shows"] = ConnectionError("no route to the database")
    said = await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys)
    card = await at.sees(said, "to try again, or deny it. The reason: ConnectionError: no route to the database")
    assert not any("Approve" in button for button in card.buttons)
    assert "@oncall can deny" in card.text
    assert "Needs" not in card.text
    await at.denies(at.bob, card, "not now")
    await at.sees(card, "Denied")
    assert at.ran() == []


@pytest.mark.office(ONE + 'preview = "optional"\n', target=LAB)
async def test_one_that_fails_may_be_approved_if_the_policy_says_so(at: Office) -> None:
    lab.plan["shows"] = ConnectionError("no route to the database")
    card = await at.ask('migrate {"table": "users"}')
    assert "Its plan failed: ConnectionError" in card.text
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")


HOSTILE: dict[str, Json | Exception] = {
    "text": "<!channel> <@U0ANN> *approved* <https://evil.test|fine>\u202e\x00\x1b[2J\n```",
    "json": {"password": "hunter2-and-more", "tables": ["a"]},
    "half a character": "\ud800",
    "error": ConnectionError("<!channel> \ud800\x00\u202e"),
}


@pytest.mark.parametrize("when", ["asked", "edited"])
@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.office(HIDING, target=LAB)
async def test_a_hostile_one_is_text_and_what_is_hidden_stays_hidden(at: Office, kind: str, when: str) -> None:
    if when == "edited":
        card = await at.ask('migrate {"table": "users"}')
        lab.plan["shows"] = HOSTILE[kind]
        await at.edits(at.bob, card, table="orders")
    else:
        lab.plan["shows"] = HOSTILE[kind]
        card = await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys)
    fails = kind in ("error", "half a character")
    await at.sees(card, "Nobody can approve this" if fails else "Plan")
    await at.rests()
    [card] = at.cards()
    assert "hunter2" not in card.text
    assert not {"\u202e", "\x00", "\x1b", "\ud800"} & {*card.text}
    if kind == "text":
        assert "<!channel> <@U0ANN>" in card.text, "as a text, which pings nobody"
    await at.denies(at.bob, card, "not now")
    await at.sees(card, "Denied")


SAFE = "hunter2-and-more"


@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_what_the_policy_hides_of_it_is_no_one_press_approval(at: Office) -> None:
    lab.plan["shows"] = {"token": SAFE, "drops": "users"}
    card = await at.ask('migrate {"table": "users"}')
    assert "The policy hides some of it." in card.text
    assert "Approve" not in card.buttons
    await at.bob.clicks(card, "Review…")
    form = await at.bob.gets_modal("Approve")
    assert "hunter2" not in form.text
    assert "The policy hides some of it." in form.text
    await form.submits()
    await at.sees(card, ", done")


@pytest.mark.parametrize("shows", [SAFE, {"token": "another secret"}, f"{SAFE} and {'more of it ' * 200}"])
@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_of_what_is_hidden_as_a_whole_nobody_has_seen_anything(at: Office, shows: Json) -> None:
    """Who writes the arguments could choose a hidden one so that it hides what the call would do."""
    lab.plan["shows"] = shows
    token = shows[:600] if isinstance(shows, str) else SAFE
    said = await at.ann.says(f'@adk-confirm migrate {{"table": "users", "token": "{token}"}}', at.deploys)
    card = await at.sees(said, "Nobody can approve this", "The policy hides all of it.")
    assert not {"Approve", "Approve…", "Review…"} & {*card.buttons}
    await at.denies(at.bob, card, "not now")
    await at.sees(card, "Denied")


@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_no_argument_hides_a_part_of_what_the_call_would_do(at: Office) -> None:
    """Who writes the arguments would choose which part."""
    lab.plan["shows"] = "adds an index\ndrops orders\n"
    said = await at.ann.says('@adk-confirm migrate {"table": "users", "token": "drops orders"}', at.deploys)
    card = await at.sees(said, "Nobody can approve this", "It repeats a value that the policy hides")
    assert not {"Approve", "Approve…", "Review…"} & {*card.buttons}


@pytest.mark.office(ONE + 'grant = "1h"\n', target=LAB)
async def test_no_grant_is_for_what_nobody_has_seen(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    assert "Allow more…" not in str(card.message.blocks)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, ", done")


@pytest.mark.office(ONE, target=LAB)
async def test_a_difference_that_no_line_shows_is_said(at: Office) -> None:
    lab.plan["shows"] = '{\n  "drops": 1\n}'
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = {"drops": 1}
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "bob approved an older plan. Those votes no longer count.")
    assert "The difference is in a hidden value, or in how the same is written." in anew.text
    await at.bob.clicks(anew, "Approve")
    await at.sees(card, ", done")


@pytest.mark.parametrize("length", [90_000, 20], ids=["preview", "arguments"])
@pytest.mark.office(ONE, target=LAB)
async def test_if_it_is_too_long_to_be_shown_the_refusal_names_it(at: Office, length: int) -> None:
    lab.plan["shows"] = "💥" * length
    table = "orders" if length > 20 else "💥" * 40_000
    said = await at.ann.says(f'@adk-confirm migrate {{"table": "{table}"}}', at.deploys)
    refused = await at.sees(said, "can't be approved")
    assert ("Its plan is too long for a window in Slack." in refused.text) is (length > 20)


async def test_another_server_asks_once_more_about_what_an_edit_does(
    open_office: Opens, sqlite_stocked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our own API, for a bot that has nothing of ours in its process."""
    async with (
        served(Runner(lab.agent)) as url,
        open_office(ONE + "quorum = 2\n", target=f'url = "{url}"\napp = "lab"') as at,
    ):
        card = await at.ask('migrate {"table": "users"}')
        assert "before the edit" not in card.text
        await at.edits(at.bob, card, table="orders")
        edited = await at.sees(card, "That was made before the edit. If the new one differs, you are asked again.")
        await at.cyd.clicks(edited, "Approve")
        anew = await at.sees(card, "Plan, changed by the edit")
        assert "drops orders.old" in anew.text
        assert "since it was approved" not in anew.text
        await at.rests()
        assert at.ran() == []
        assert "Its plan changed before it started." in at.ann.now(card).text
        await at.bob.clicks(anew, "Approve")
        await at.cyd.clicks(at.bob.now(anew), "Approve")
        await at.sees(card, ", done")
        assert [one["table"] for one in at.ran()] == ["orders"]


@pytest.mark.office(ONE, target=LAB)
async def test_if_it_is_too_long_after_an_edit_nobody_can_approve_that(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = "💥" * 90_000
    await at.edits(at.bob, card, table="orders")
    await at.sees(card, "The reason: Its plan is too long for a window in Slack.")
    del lab.plan["shows"]
    await at.edits(at.bob, at.bob.now(card), table="mails")
    await at.sees(card, "drops mails.old")
    await at.bob.clicks(at.bob.now(card), "Approve")
    await at.sees(card, ", done")


@pytest.mark.office(ONE + 'approve_note = "required"\n', target=LAB)
async def test_an_edit_that_approves_nothing_needs_no_note_and_the_approval_does(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    await at.bob.clicks(card, "Edit…")
    form = await at.bob.gets_modal("Edit")
    assert "Note" not in form.text
    await form.submits({"table": "orders"})
    await at.sees(card, "drops orders.old")
    await at.bob.clicks(at.bob.now(card), "Approve…")
    await (await at.bob.gets_modal("Approve")).submits({"Note": "agreed with ann"})
    await at.sees(card, ", done", "agreed with ann")
