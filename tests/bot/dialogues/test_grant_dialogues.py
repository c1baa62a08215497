"""Grants in Slack: what a grant lets through, what it does not, and how it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from adk_confirm import Agent, FunctionTool, ModelRequest, ScriptedModel, call
from adk_confirm.runtime.jsontypes import as_object
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.sandbox.people.seen import Seen
from tests.support import python_approvers
from tests.support.office import LAB, PAY, Office, Opens, operates

PYTHON = "python:tests.support.python_approvers:"

GRANTING = """
[[policy]]
tools = ["deploy*"]
approvers = ["group:S0ONCALL", "user:U0LEAD"]
grant = "30m"
grant_on = ["service"]
barred = ["group:S0BARRED"]

[[policy]]
tools = ["reimburse"]
when = "args.amount <= 2000"
approvers = ["group:S0ONCALL"]
grant = { for = "30m", uses = 2 }
grant_on = []
format = { amount = "EUR" }

[[policy]]
tools = ["reimburse"]
approvers = ["group:S0ONCALL"]
"""


@pytest.fixture
async def at(open_office: Opens) -> AsyncIterator[Office]:
    async with open_office(GRANTING) as opened:
        opened.slack.group("barred", opened.oscar, id="S0BARRED")
        yield opened


async def granted(at: Office) -> Seen:
    """A first deploy of checkout, approved by bob, and the next ones like it."""
    card = await at.ask("deploy checkout 2.4.1 to prod")
    await at.bob.clicks(card, "Allow more")
    modal = await at.bob.gets_modal("Runs without asking")
    assert "in this thread for 30 min after your approval: deploy with service checkout, any version or env." in modal
    assert modal.title == "Allow more"
    await modal.submits()
    await at.sees(card, "Done: Deploy", "allowed more until ")
    return card


async def again(at: Office, card: Seen, service: str = "checkout", version: str = "2.4.2") -> None:
    await at.ann.says(f"@adk-confirm deploy {service} {version} to prod", at.deploys, thread=card)


async def waiting(at: Office, card: Seen) -> Seen:
    return await at.bob.finds("Needs 1 approval", at.deploys, thread=card)


async def test_the_next_similar_call_runs_without_a_card_and_with_a_line(at: Office) -> None:
    card = await granted(at)

    await again(at, card)

    await at.sees(card, "Deploy checkout 2.4.2 to prod runs without asking, because", "2.4.2")
    await at.slack.until(lambda: len(at.ran()) == 2 or None)
    await at.slack.until(lambda: at.ann.sees(at.deploys, thread=card).count(", done") == 2 or None)
    assert "Needs 1 approval" not in at.ann.sees(at.deploys, thread=card)
    assert [line["version"] for line in at.ran()] == ["2.4.1", "2.4.2"]


async def test_a_grant_for_two_calls_lets_two_through_and_then_ends(at: Office) -> None:
    card = await at.ask("reimburse 1500 for a train")
    await at.bob.clicks(card, "Allow more")
    await (await at.bob.gets_modal("Runs without asking")).submits()
    await at.slack.until(lambda: len(at.ran()) == 1 or None)

    for count, amount in ((2, 1600), (3, 1700)):
        await at.ann.says(f"@adk-confirm reimburse {amount} for a train", at.deploys, thread=card)
        await at.slack.until(partial(_ran, at, count))

    await at.sees(card, "it was used as often as it could be")
    await at.sees(card, "done: Reimburse €1,700.00")
    told = at.ann.sees(at.deploys, thread=card)
    for paid in ("1,600", "1,700"):
        assert f"done: Reimburse €{paid}.00 for a train.\nReturned status ok" in told, "not the arguments once more"
        assert f" {paid}" not in told
    await at.slack.until(lambda: "Stop allowing…" not in at.ann.now(card).buttons or None)
    await at.ann.says("@adk-confirm reimburse 1800 for a train", at.deploys, thread=card)
    await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
    assert len(at.ran()) == 3


def _ran(at: Office, count: int) -> bool | None:
    return len(at.ran()) == count or None


@pytest.mark.parametrize("opened", [False, True], ids=["one press", "the form closed"])
async def test_without_the_form_nothing_is_granted(at: Office, opened: bool) -> None:
    card = await at.ask("deploy checkout 2.4.1 to prod")
    if opened:
        await at.bob.clicks(card, "Allow more")
        (await at.bob.gets_modal("Runs without asking")).closes()
    await at.bob.clicks(card, "Approve")
    done = await at.sees(card, "Done: Deploy")
    assert "Stop allowing…" not in done.buttons

    await again(at, card)

    await waiting(at, card)
    assert len(at.ran()) == 1


async def test_it_is_revoked_on_the_card_by_whoever_may_decide(at: Office) -> None:
    card = await granted(at)
    done = at.ann.now(card)
    assert "Stop allowing…" in done.buttons

    await at.ann.clicks(done, "Stop allowing…", sure=True)
    await at.ann.gets_modal("you are not an approver")
    await at.cyd.clicks(card, "Stop allowing…", sure=True)

    await at.sees(card, "stopped allowing more")
    await at.slack.until(lambda: "Stop allowing…" not in at.ann.now(card).buttons or None)
    assert "Decided by you" not in await at.cyd.opens_home("Nothing waits for you.")
    await again(at, card)
    await waiting(at, card)
    assert len(at.ran()) == 1


async def test_it_is_revoked_in_the_home_of_who_gave_it(at: Office) -> None:
    card = await granted(at)
    home = await at.bob.opens_home("Allowed by you (1)")
    assert "in a thread of #deploys" in home
    assert "also by" not in home, "it is the reader's own"
    assert "used" not in home
    await again(at, card)
    await at.slack.until(lambda: len(at.ran()) == 2 or None)
    home = await at.bob.opens_home("used 1 time")

    await home.clicks("Stop allowing…")

    await at.sees(card, "stopped allowing more")
    await at.bob.opens_home("Nothing waits for you.")
    await again(at, card)
    await waiting(at, card)


async def test_home_leaves_out_what_the_file_does_not_allow_any_more(at: Office) -> None:
    await granted(at)
    await at.stops()
    await at.starts(GRANTING.replace('"30m"\ngrant_on', '"20m"\ngrant_on'))
    assert "Allowed by you" not in await at.bob.opens_home("Nothing waits for you.")


async def test_it_is_revoked_from_the_command_line_once(at: Office, database_url: str) -> None:
    card = await granted(at)
    mark = at.ann.now(card).message.metadata or {}
    confirmation = str(as_object(mark.get("event_payload"))["confirmation"])

    because = ("--as", "lee", "--reason", "wrong version")
    done = await operates(at, database_url, "revoke", confirmation[:12], *because)
    assert done["id"] == confirmation
    twice = await operates(at, database_url, "revoke", confirmation, refused=True)
    assert "is not in force" in str(twice["error"])

    revoked = await at.sees(card, "operator lee stopped allowing more")
    assert "wrong version" in revoked
    await again(at, card)
    await waiting(at, card)


async def test_it_ends_with_its_time(at: Office) -> None:
    card = await granted(at)

    await at.later(minutes=31)

    await at.slack.until(lambda: "Stop allowing…" not in at.ann.now(card).buttons or None)
    await again(at, card)
    await waiting(at, card)
    assert len(at.ran()) == 1


# Rights that were lost


@pytest.mark.parametrize("way", ["left the group", "is barred", "may be barred, for all that Slack says"])
async def test_who_could_not_approve_it_now_grants_nothing(at: Office, way: str) -> None:
    card = await granted(at)
    if way == "left the group":
        at.slack.group("oncall", at.cyd, id="S0ONCALL")
    else:
        await at.later(minutes=1)
    if way == "is barred":
        at.slack.group("barred", at.bob, id="S0BARRED")
    elif way.startswith("may be"):
        at.slack.faults.refuses("usergroups.users.list", "missing_scope", times=None)

    await again(at, card)

    await at.cyd.finds("Needs 1 approval", at.deploys, thread=card)
    assert len(at.ran()) == 1


async def test_while_a_revocation_waits_for_slack_calls_ask(at: Office) -> None:
    card = await granted(at)
    silence = at.slack.faults.hangs("users.info", times=None, where=lambda args: args.get("user") == at.cyd.id)
    await at.cyd.clicks(card, "Stop allowing…", sure=True)
    await silence.reached()
    await again(at, card)
    await waiting(at, card)
    silence.release()
    await at.sees(card, "stopped allowing more")
    assert len(at.ran()) == 1


async def test_who_left_the_group_while_something_else_was_looked_up_grants_nothing(
    open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_office(GRANTING.replace("group:S0BARRED", f"{PYTHON}hangs")) as at:
        monkeypatch.setattr(python_approvers, "hanging", answers := threading.Event())
        answers.set()
        card = await granted(at)
        answers.clear()
        before = len(at.slack.calls_of("usergroups.users.list"))
        await again(at, card)
        await at.slack.until(
            lambda: len(at.slack.calls_of("usergroups.users.list")) > before, what="the group to be asked"
        )
        at.slack.group("oncall", at.cyd, id="S0ONCALL")
        at.slack.clock.advance(31)
        answers.set()
        await at.cyd.finds("Needs 1 approval", at.deploys, thread=card)
        assert len(at.ran()) == 1


async def test_while_slack_is_away_calls_ask_and_the_grant_stays(at: Office) -> None:
    card = await granted(at)
    at.slack.faults.refuses("users.info", "missing_scope", times=None)

    await again(at, card)
    await waiting(at, card)
    at.slack.faults.clear()
    await at.later(minutes=2)
    await again(at, card, version="2.4.3")

    await at.sees(card, "2.4.3", "Deploy checkout 2.4.3 to prod runs without asking, because")
    await at.rests()
    assert "Stop allowing…" in at.ann.now(card).buttons


# Only calls like the one with which it was given


def wipe(database: str) -> str:
    """Empties a copy of the database."""
    return f"{database} is empty"


def _emptying(name: str, *below: Agent) -> Agent:
    """`prod: orders` is for the sub-agent, which has a tool of the same name and title."""

    def reply(request: ModelRequest) -> ScriptLine:
        if any(one.name == "wipe" for one in request.contents[-1].responses()):
            return "That was it."
        said = next(one.text for one in reversed(request.contents) if one.text.endswith(": orders"))
        whose, _, database = said.partition(": ")
        return call("wipe", database=database) if whose == name else call("transfer_to_agent", agent_name=whose)

    tool = FunctionTool(wipe, require_confirmation=True, title="Empty {database}")
    return Agent(name, ScriptedModel(reply=reply), tools=[tool], sub_agents=[*below])


staging = _emptying("staging", _emptying("prod"))
WIPES = '[[policy]]\ntools = ["wipe"]\napprovers = ["group:S0ONCALL"]\ngrant = "30m"\n'


async def test_a_grant_for_one_agents_tool_lets_no_other_agents_tool_of_that_name_through(open_office: Opens) -> None:
    async with open_office(WIPES, target=f"{__name__}:staging") as at:
        card = await at.ask("staging: orders")
        await at.bob.clicks(card, "Allow more")
        await (await at.bob.gets_modal("Runs without asking")).submits()
        await at.sees(card, "allowed more until ", "That was it.")
        await at.ann.says("@adk-confirm prod: orders", at.deploys, thread=card)
        asked = await at.bob.finds("Asked by ann through prod", at.deploys, thread=card)
        await at.rests()
        assert "Approve" in at.bob.now(asked).buttons
        assert "runs without asking, because" not in at.ann.sees(at.deploys, thread=card)


@pytest.mark.parametrize("name", ["too", "to.id"])
async def test_a_grant_that_would_bind_nothing_is_neither_offered_nor_given(open_office: Opens, name: str) -> None:
    rules = f'[[policy]]\ntools = ["pay"]\napprovers = ["group:S0ONCALL"]\ngrant = "30m"\ngrant_on = ["{name}"]\n'
    async with open_office(rules, target=LAB) as at:
        card = await at.ask(PAY)
        assert not any("Allow more" in button for button in at.bob.now(card).buttons)
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "Done: Pay")
        await at.ann.says('@adk-confirm pay {"to": "Mallory", "amount": 999999}', at.deploys, thread=card)
        await at.bob.finds("to Mallory", at.deploys, thread=card)
        await at.rests()
        assert [one["to"] for one in at.ran()] == ["Ada"]


async def test_once_somebody_approved_without_allowing_more_nobody_is_offered_to(open_office: Opens) -> None:
    two = '[[policy]]\ntools = ["*"]\napprovers = ["group:S0ONCALL"]\nquorum = 2\ngrant = "30m"\n'
    async with open_office(two, target=LAB) as at:
        card = await at.ask(PAY)
        await at.cyd.clicks(card, "Allow more")
        form = await at.cyd.gets_modal("Every approver must allow it")
        await at.bob.clicks(card, "Approve")
        approved = await at.sees(card, "approved by bob")
        assert "Allow more…" not in approved.buttons
        assert "stops asking" not in approved.text
        await form.submits()
        (await at.cyd.gets_modal("The card changed.")).closes()
        await at.cyd.clicks(approved, "Approve")
        await at.sees(card, "Done: Pay")


async def test_whoever_may_decide_only_after_the_escalation_is_not_offered_to_allow_more(open_office: Opens) -> None:
    """The next call is not escalated yet: they could not approve it, so their grant would let none through."""
    later = 'grant = "30m"\nescalate_after = "20m"\nescalate_to = ["user:U0LEAD"]\n'
    async with open_office(f'[[policy]]\ntools = ["*"]\napprovers = ["user:U0BOB"]\n{later}', target=LAB) as at:
        card = await at.ask(PAY)
        assert "Allow more…" in card.buttons
        await at.later(minutes=21)
        escalated = await at.sees(card, "*Needs 1 approval* from @bob or @lead")
        assert "Allow more…" not in escalated.buttons
        assert "stops asking" not in escalated.text


def scale(service: str, **options: object) -> str:
    """Takes more names than it declares."""
    return f"{service} is scaled with {len(options)} options"


def _scaling(request: ModelRequest) -> ScriptLine:
    results = [str(one.response) for one in request.contents[-1].responses()]
    return " ".join(results) or call("scale", **json.loads(request.contents[-1].text))


scaling = Agent("scaling", ScriptedModel(reply=_scaling), tools=[FunctionTool(scale, require_confirmation=True)])
SCALES = '[[policy]]\ntools = ["scale"]\napprovers = ["group:S0ONCALL"]\ngrant = "30m"\ngrant_on = ["service"]\n'


async def test_a_grant_covers_no_call_with_an_argument_of_which_nobody_read(open_office: Opens) -> None:
    async with open_office(SCALES, target=f"{__name__}:scaling") as at:
        card = await at.ask('{"service": "checkout"}')
        await at.bob.clicks(card, "Allow more")
        await (await at.bob.gets_modal("scale with exactly service checkout.")).submits()
        await at.sees(card, "allowed more until ")
        await at.ann.says('@adk-confirm {"service": "checkout", "force": true}', at.deploys, thread=card)
        await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
        await at.ann.says('@adk-confirm {"service": "checkout"}', at.deploys, thread=card)
        await at.sees(card, "Scale checkout runs without asking, because")


async def test_what_may_differ_is_what_its_policy_leaves_of_it(at: Office) -> None:
    """Form, card, thread and Home say so. Beyond it people are asked."""
    card = await at.ask("reimburse 1500 for a train")
    covers = "reimburse with amount up to €2,000.00 each, any purpose."
    assert f"stops asking in this thread for 30 min: {covers} 2 calls at most." in card.text
    await at.bob.clicks(card, "Allow more")
    await (await at.bob.gets_modal(covers)).submits()
    await at.sees(card, "Done: Reimburse", "Runs without asking", covers, "allowed more until ")
    await at.bob.opens_home(covers.rstrip("."))

    await at.ann.says("@adk-confirm reimburse 5000 for a train", at.deploys, thread=card)

    await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
    assert len(at.ran()) == 1
