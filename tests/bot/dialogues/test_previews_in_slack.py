"""What a call would do is shown with it, and it starts only if that still holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adk_confirm.runtime.jsontypes import Json
from tests.support import lab
from tests.support.office import Office

LAB = "tests.support.lab:agent"
POLICIES = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\n'
HIDING = POLICIES + 'redact = ["password"]\n'
DIFF = "--- a/t.sql\n+++ b/t.sql\n@@ -1,2 +1,2 @@\n id int\n-old text\n+new text\n+more text\n"


@pytest.fixture
def database_url(sqlite_stocked: str) -> str:
    """What is shown does not depend on the database."""
    return sqlite_stocked


@pytest.fixture(autouse=True)
def _no_plan() -> Iterator[None]:
    lab.plan.clear()
    yield
    lab.plan.clear()


@pytest.mark.office(POLICIES, target=LAB)
async def test_a_diff_is_shown_and_counted_and_the_call_runs_at_one_press(at: Office) -> None:
    lab.plan["shows"] = DIFF
    card = await at.ask('migrate {"table": "users"}')
    assert "What it would do: 1 file, +2 −1" in card.text
    assert "-old text\n+new text" in card.text
    await at.bob.clicks(card, "Approve")
    await at.sees(card, " · ran")
    assert [one["table"] for one in at.ran()] == ["users"]


@pytest.mark.parametrize(
    "way",
    [
        pytest.param("http", marks=pytest.mark.office(POLICIES, target=LAB)),
        pytest.param("socket", marks=pytest.mark.office(POLICIES, target=LAB, socket=True)),
    ],
)
async def test_if_it_changes_before_the_start_nothing_runs_and_people_decide_anew(at: Office, way: str) -> None:
    card = await at.ask('migrate {"table": "users"}')
    assert "drops users.old" in card.text
    lab.plan["shows"] = "drops users"
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "⚠️ What it would do has changed since it was approved")
    assert "-drops users.old\n+drops users" in anew.text
    await at.rests()
    assert at.ran() == []
    assert "it did not start. Use the newer card." in at.ann.now(card).text
    await at.cyd.clicks(anew, "Approve")
    await at.sees(card, " · ran")
    assert len(at.ran()) == 1


@pytest.mark.office(POLICIES, target=LAB)
async def test_a_diff_that_changed_is_shown_whole_and_not_as_a_diff_of_diffs(at: Office) -> None:
    lab.plan["shows"] = DIFF
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = DIFF.replace("more", "less")
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "⚠️ What it would do has changed since it was approved")
    assert "+less text" in anew.text
    assert "-+more text" not in anew.text


ALLOWING = POLICIES + 'preview_drift = "allow"\n'


@pytest.mark.office(ALLOWING, target=LAB)
async def test_where_the_policy_allows_a_change_it_starts_and_thread_and_ledger_say_what_changed(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = "drops users.old\ndrops users.older"
    await at.bob.clicks(card, "Approve")
    said = await at.sees(card, "started, though what it would do has changed since it was approved")
    assert "+drops users.older" in said.text
    await at.sees(card, " · ran")
    assert len(at.ran()) == 1
    kinds = await at.bot.database.read(lambda tx: tx.column("SELECT kind FROM bot_ledger ORDER BY chain, seq"))
    assert kinds[-4:] == ["approved", "preview changed", "begun", "done"]


@pytest.mark.parametrize("shows", [ConnectionError("no route"), "drops orders.old"], ids=["it fails", "after an edit"])
@pytest.mark.office(ALLOWING, target=LAB)
async def test_even_so_it_asks_about_what_nobody_has_seen(at: Office, shows: Json | Exception) -> None:
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = shows
    if shows == "drops orders.old":
        await at.edits(at.bob, card, table="orders")
    else:
        await at.bob.clicks(card, "Approve")
    await at.sees(card, "it did not start. Use the newer card.")
    await at.rests()
    assert at.ran() == []


@pytest.mark.office(POLICIES, target=LAB)
async def test_who_is_asked_anew_about_an_unknown_call_knows_that_it_may_have_run(at: Office) -> None:
    """And what people say about its second attempt is of that attempt, and reaches the agent."""
    lab.plan["breaks"] = True
    card = await at.ask('migrate {"table": "users"}')
    await at.bob.clicks(card, "Approve")
    asks = await at.sees(card, "Did this take effect?")
    lab.plan["shows"] = "drops users"
    await at.bob.clicks(asks, "Run again", sure=True)
    anew = await at.sees(card, "Run again? Migrate (table users)")
    assert "Nobody knows whether an earlier attempt took effect." in anew.text
    assert "Nobody knows whether an earlier attempt took effect." in at.ann.now(card).text
    await at.rests()
    assert len(at.ran()) == 1
    await at.bob.clicks(anew, "Approve")
    await at.sees(card, "Did this take effect?")
    await at.bob.clicks(anew, "It took effect", sure=True)
    await at.sees(card, "It took effect: people looked")
    assert len(at.ran()) == 2


@pytest.mark.office(POLICIES, target=LAB)
async def test_who_edits_sees_what_the_edited_call_would_do_before_it_runs(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    await at.edits(at.bob, card, table="orders")
    anew = await at.sees(card, "drops orders.old")
    await at.rests()
    assert at.ran() == []
    await at.bob.clicks(anew, "Approve")
    await at.sees(card, " · ran")
    assert [one["table"] for one in at.ran()] == ["orders"]


@pytest.mark.office(POLICIES + "quorum = 2\n", target=LAB)
async def test_on_an_edited_card_it_is_said_to_be_older(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    assert "before the edit" not in card.text
    await at.edits(at.bob, card, table="orders")
    edited = await at.sees(card, "That was made before the edit. If the new one differs, you are asked again.")
    await at.cyd.clicks(edited, "Approve")
    await at.sees(card, "drops orders.old")
    await at.rests()
    assert at.ran() == []


@pytest.mark.office(POLICIES, target=LAB)
async def test_what_does_not_fit_is_opened_before_it_is_approved(at: Office) -> None:
    lab.plan["shows"] = "\n".join(f"drops partition {number}" for number in range(500))
    card = await at.ask('migrate {"table": "users"}')
    assert "partition 499" not in card.text
    assert "Approve" not in card.buttons
    await at.bob.clicks(card, "Approve…")
    form = await at.bob.gets_modal("Approve")
    assert "drops partition 499" in form.text
    await form.submits()
    await at.sees(card, " · ran")


@pytest.mark.office(POLICIES, target=LAB)
async def test_one_that_fails_can_be_denied_and_not_approved(at: Office) -> None:
    lab.plan["shows"] = ConnectionError("no route to the database")
    said = await at.ann.says('@adk-confirm migrate {"table": "users"}', at.deploys)
    card = await at.sees(said, "Deny it, and ask again. The reason: ConnectionError: no route to the database")
    assert not {"Approve", "Approve…", "Edit…"} & {*card.buttons}
    assert "@oncall can deny this" in card.text
    assert "Needs" not in card.text
    await at.denies(at.bob, card, "not now")
    await at.sees(card, "Denied")
    assert at.ran() == []


@pytest.mark.office(POLICIES + 'preview = "optional"\n', target=LAB)
async def test_one_that_fails_may_be_approved_if_the_policy_says_so(at: Office) -> None:
    lab.plan["shows"] = ConnectionError("no route to the database")
    card = await at.ask('migrate {"table": "users"}')
    assert "What it would do is not known: ConnectionError" in card.text
    await at.bob.clicks(card, "Approve")
    await at.sees(card, " · ran")


HOSTILE: dict[str, Json] = {
    "text": "<!channel> *approved* <https://evil.test|fine>\u202e\n```",
    "json": {"password": "hunter2-and-more", "tables": ["a"]},
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.office(HIDING, target=LAB)
async def test_a_hostile_one_is_text_and_what_is_hidden_stays_hidden(at: Office, kind: str) -> None:
    lab.plan["shows"] = HOSTILE[kind]
    card = await at.ask('migrate {"table": "users"}')
    assert "hunter2" not in card.text
    if kind == "text":
        assert "<!channel>" in card.text, "as a text, which pings nobody"
        assert "\u202e" not in card.text


SAFE = "hunter2-and-more"


@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_what_the_policy_hides_of_it_is_no_one_press_approval(at: Office) -> None:
    lab.plan["shows"] = {"token": SAFE, "drops": "users"}
    card = await at.ask('migrate {"table": "users"}')
    assert "The policy hides some of it." in card.text
    assert "Approve" not in card.buttons
    await at.bob.clicks(card, "Approve…")
    form = await at.bob.gets_modal("Approve")
    assert "hunter2" not in form.text
    assert "The policy hides some of it." in form.text
    await form.submits()
    await at.sees(card, " · ran")


@pytest.mark.parametrize("shows", [SAFE, {"token": "another secret"}, f"{SAFE} and {'more of it ' * 200}"])
@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_of_what_is_hidden_as_a_whole_nobody_has_seen_anything(at: Office, shows: Json) -> None:
    """Who writes the arguments could choose a hidden one so that it hides what the call would do."""
    lab.plan["shows"] = shows
    token = shows[:600] if isinstance(shows, str) else SAFE
    said = await at.ann.says(f'@adk-confirm migrate {{"table": "users", "token": "{token}"}}', at.deploys)
    card = await at.sees(said, "Nobody can approve this", "The policy hides all of it.")
    assert not {"Approve", "Approve…", "Edit…"} & {*card.buttons}
    await at.denies(at.bob, card, "not now")
    await at.sees(card, "Denied")


@pytest.mark.office(HIDING.replace("password", "token"), target=LAB)
async def test_no_argument_hides_a_part_of_what_the_call_would_do(at: Office) -> None:
    """Who writes the arguments would choose which part."""
    lab.plan["shows"] = "adds an index\ndrops orders\n"
    said = await at.ann.says('@adk-confirm migrate {"table": "users", "token": "drops orders"}', at.deploys)
    card = await at.sees(said, "Nobody can approve this", "It repeats a value that the policy hides")
    assert not {"Approve", "Approve…", "Edit…"} & {*card.buttons}


@pytest.mark.office(POLICIES + 'grant = "1h"\n', target=LAB)
async def test_no_grant_is_for_what_nobody_has_seen(at: Office) -> None:
    card = await at.ask('migrate {"table": "users"}')
    assert "Approve and allow for 1 hour…" not in str(card.message.blocks)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, " · ran")


@pytest.mark.office(POLICIES, target=LAB)
async def test_a_difference_that_no_line_shows_is_said(at: Office) -> None:
    lab.plan["shows"] = '{\n  "drops": 1\n}'
    card = await at.ask('migrate {"table": "users"}')
    lab.plan["shows"] = {"drops": 1}
    await at.bob.clicks(card, "Approve")
    anew = await at.sees(card, "⚠️ What it would do has changed")
    assert "The difference is in a hidden value, or in how the same is written." in anew.text
    await at.bob.clicks(anew, "Approve")
    await at.sees(card, " · ran")


@pytest.mark.parametrize("length", [90_000, 20], ids=["preview", "arguments"])
@pytest.mark.office(POLICIES, target=LAB)
async def test_if_it_is_too_long_to_be_shown_the_refusal_names_it(at: Office, length: int) -> None:
    lab.plan["shows"] = "💥" * length
    table = "orders" if length > 20 else "💥" * 40_000
    said = await at.ann.says(f'@adk-confirm migrate {{"table": "{table}"}}', at.deploys)
    refused = await at.sees(said, "refused without asking anybody")
    assert ("What it would do is too long for a window in Slack." in refused.text) is (length > 20)
