"""People who may not decide, whatever way they try. If nobody may decide, the thread says so."""

from __future__ import annotations

import threading

import psycopg
import pytest

from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.sandbox.people.people import Person
from tests.support import python_approvers
from tests.support.office import AT_ONCE, IMPATIENT, LAB, ON_POSTGRES, Office, Opens, withdraws

DINNER = "reimburse 1500 for the team dinner"
PYTHON = "python:tests.support.python_approvers:"


def policy(*approvers: str, more: str = "") -> str:
    names = ", ".join(f'"{approver}"' for approver in approvers)
    return f'[[policy]]\ntools = ["*"]\napprovers = [{names}]\n{more}\n'


pytestmark = pytest.mark.office(policy("group:S0ONCALL"))


async def is_refused(at: Office, person: Person, why: str, text: str = DINNER, *, opens: bool = False) -> None:
    """By the button, and by the form: when it is pressed, or, where nobody knows (`opens`), when it is submitted."""
    card = await at.ask(text)
    await person.clicks(card, "Approve")
    (await person.gets_modal(why)).closes()

    async def edits() -> None:
        await person.clicks(card, "Edit…")
        await (await person.gets_modal("Edit")).submits({"amount": "1200"})

    await at.rests()
    if opens:
        await edits()
    else:
        await person.clicks(card, "Edit…")
    (await person.gets_modal(why)).closes()
    await at.rests()
    assert person.modal() is None
    assert not any(one.ephemeral for one in person.messages(at.deploys)), "it is said in the windows alone"
    assert "Needs 1 approval" in at.ann.now(card)
    assert "amount €1,500.00" in at.ann.now(card)
    assert "Approve" in at.ann.now(card).buttons
    assert at.ran() == []


@pytest.mark.office(policy("user:U0EVE"))
@pytest.mark.parametrize(
    ("flag", "why"),
    [
        ("is_bot", "Bots can't decide"),
        ("is_restricted", "Guest accounts can't decide"),
        ("is_ultra_restricted", "Guest accounts can't decide"),
        ("deleted", "This account is deactivated"),
        ("is_stranger", "Accounts of other companies can't decide"),
    ],
)
async def test_accounts_that_never_decide_though_the_policy_names_them(at: Office, flag: str, why: str) -> None:
    eve = at.slack.person("eve", id="U0EVE", **{flag: True})  # type: ignore[arg-type]  # one of its flags
    at.slack.workspace.directory.set_members(at.deploys.id, add=(eve.id,))
    await is_refused(at, eve, why)


async def test_somebody_who_became_a_guest_decides_nothing_from_then_on(at: Office) -> None:
    first, second = await at.ask(DINNER), await at.ask("reimburse 1700 for the offsite")
    await at.bob.clicks(first, "Approve")
    await at.sees(first, "Done: Reimburse")
    at.slack.workspace.directory.change_user(at.bob.id, is_restricted=True)
    await at.slack.settled()
    await at.refuses(at.bob, second, "Approve", "Guest accounts can't decide")
    assert len(at.ran()) == 1


@pytest.mark.office(policy("user:U0LEAD"))
async def test_a_refused_voter_learns_who_may_decide(at: Office) -> None:
    await is_refused(at, at.oscar, "you are not an approver. @lead can")


@pytest.mark.office(policy("group:S0ONCALL", more='barred = ["group:S0BANNED"]'))
async def test_whoever_asked_is_refused_when_they_press_though_nobody_was_looked_up_yet(at: Office) -> None:
    card = await at.ask(DINNER)
    await at.refuses(at.ann, card, "Edit…", "You can't approve this, because you asked for it")


@pytest.mark.office(policy("user:U0LEAD"))
async def test_whoever_asked_and_wants_to_deny_it_can_withdraw_it_there(at: Office) -> None:
    card = await at.ask(DINNER)
    await at.ann.clicks(card, "Deny…")
    refused = await at.ann.gets_modal("you are not an approver. @lead can")
    await refused.clicks("Withdraw")
    await at.sees(card, "Withdrawn: Reimburse")
    assert at.ran() == []


@pytest.mark.parametrize(
    ("text", "button", "more"),
    [(DINNER, "Deny…", 'deny_reason = "required"'), ("I need 3 days off", "Approve…", "")],
    ids=["a denial needs a reason", "an approval needs an answer"],
)
async def test_whoever_is_not_named_is_refused_when_they_press_before_they_fill_in_a_form(
    open_office: Opens, text: str, button: str, more: str
) -> None:
    async with open_office(policy("user:U0LEAD", more=more)) as at:
        card = await at.ask(text)
        await at.oscar.clicks(card, button)
        await at.oscar.gets_modal("you are not an approver")


def of_another_company(at: Office) -> Person:
    """hank, who sees the channel, because it is shared with his."""
    globex = at.slack.workspace.directory.add_team("Globex")
    hank = at.slack.person("hank", team=globex, id="U0HANK")
    at.slack.workspace.directory.set_members(at.deploys.id, add=(hank.id,))
    at.deploys.shared_with = frozenset({globex.id})
    return hank


@pytest.mark.office(policy("user:U0HANK", "user:U0LEAD", more="shared_channels = true"))
async def test_somebody_of_another_company_in_a_shared_channel(at: Office) -> None:
    hank = of_another_company(at)
    card = await at.ask(DINNER)

    made = await hank.clicks(card, "Approve")

    assert made.acked
    await hank.gets_modal("can't decide")
    assert "Needs 1 approval" in at.ann.now(card)
    await at.lead.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")


@pytest.mark.office(policy("user:U0LEAD", more="shared_channels = true"))
async def test_somebody_of_another_company_may_ask_and_take_it_back(at: Office) -> None:
    hank = of_another_company(at)
    card = await at.ask(DINNER, hank)

    await at.refuses(at.ann, card, "Withdraw…", "Only the person who asked can withdraw it")
    await withdraws(hank, card)

    await at.sees(card, "Withdrawn: Reimburse")
    assert at.ran() == []


@pytest.mark.office(policy("user:U0LEAD", more="shared_channels = true"))
async def test_in_a_channel_that_another_company_shares_with_us_our_people_decide(at: Office) -> None:
    """Slack's events name the workspace that made the channel; `authorizations` says for whom they are."""
    made_by = at.slack.workspace.directory.add_team("Globex").id
    at.deploys.team_id, at.deploys.shared_with = made_by, frozenset({at.slack.team.id})

    card = await at.ask(DINNER)
    await at.lead.clicks(card, "Approve")

    await at.sees(card, "I reimbursed 1500")


@pytest.mark.office
async def test_no_card_is_posted_where_another_company_can_read(at: Office) -> None:
    at.deploys.shared_with = frozenset({at.slack.workspace.directory.add_team("Globex").id})

    said = await at.ann.says(f"@adk-confirm {DINNER}", at.deploys)

    await at.sees(said, "This channel is shared with another company", "where nothing may be approved")
    assert "Approve" not in at.ann.sees(at.deploys)
    assert at.ran() == []


@pytest.mark.office(target=LAB, limits=IMPATIENT)
async def test_a_call_that_was_refused_is_put_to_nobody_once_slack_answers_again(at: Office) -> None:
    """Words that came meanwhile are told to the agent before the refusal is, and then the call still waits there."""
    silence = at.slack.faults.hangs("conversations.info")
    said = await at.ann.says('@adk-confirm pay {"to": "Ada", "amount": 20}', at.deploys)
    await silence.reached()
    await at.cyd.says("@adk-confirm hello", at.deploys, thread=said)

    await at.sees(said, "You said: hello", "nothing may be approved in it for now")
    await at.rests()

    assert at.cards() == []
    assert at.ann.sees(at.deploys).count("Pay can't be approved") == 1
    assert at.ran() == []


# Groups


@pytest.mark.parametrize("disabled", [False, True], ids=["emptied", "switched off"])
async def test_a_group_with_nobody_in_it_leaves_nobody(at: Office, disabled: bool) -> None:
    at.slack.group("oncall", *[at.bob] * disabled, id="S0ONCALL", disabled=disabled)
    await is_refused(at, at.bob, "Nobody can decide this one")


@pytest.mark.office(policy("group:S0NEVER"))
async def test_a_group_that_never_was_lets_nobody_through(at: Office) -> None:
    await is_refused(at, at.bob, "group:S0NEVER could not be looked up", opens=True)


@pytest.mark.parametrize(
    ("method", "how"),
    [*(("usergroups.users.list", how) for how in ("fails", "cuts", "hangs", "garbles")), ("users.info", "fails")],
)
async def test_while_slack_can_not_be_asked_nobody_decides_and_it_is_reported(
    open_office: Opens, method: str, how: str
) -> None:
    quick = CallLimits(time_limit=1, posts=AT_ONCE.posts, lookups=1)
    async with open_office(policy("group:S0ONCALL"), limits=quick) as at:
        card = await at.ask(DINNER)
        away = {
            "fails": lambda: at.slack.faults.fails(method, times=None),
            "cuts": lambda: at.slack.faults.cuts(method, times=None),
            "hangs": lambda: at.slack.faults.hangs(method, times=None),
            "garbles": lambda: at.slack.faults.garbles(method, times=None),
        }
        away[how]()

        assert (await at.bob.clicks(card, "Approve")).acked
        await at.bob.gets_modal("could not find out whether you may decide")
        assert "Needs 1 approval" in at.ann.now(card)
        assert at.ran() == []

        at.slack.faults.clear()
        await at.later(minutes=2)
        await at.bob.clicks(card, "Approve")
        await at.sees(card, "I reimbursed 1500")


@pytest.mark.office(policy("group:S0NEVER", "user:U0LEAD"))
async def test_a_group_out_of_order_does_not_keep_a_named_person_from_deciding(at: Office) -> None:
    card = await at.ask(DINNER)
    await at.lead.clicks(card, "Approve")
    await at.sees(card, "I reimbursed 1500")


# Direct messages


@pytest.mark.office
async def test_more_than_ten_approvers_are_not_written_to_one_by_one(at: Office) -> None:
    crowd = [at.slack.person(f"voter{n}", id=f"U0VOTER{n}") for n in range(11)]
    at.slack.group("oncall", *crowd, id="S0ONCALL")

    await at.ann.says(DINNER)

    await at.ann.finds("cards go to 10 at most as direct messages. Name a channel in the policy")
    await at.ann.finds("can't be asked by direct message")
    assert all(person.messages() == [] for person in crowd)
    assert at.ran() == []


def takes_no_message(at: Office, person: Person) -> None:
    at.slack.faults.refuses(
        "conversations.open", "user_disabled", times=None, where=lambda args: args.get("users") == person.id
    )


@pytest.mark.office(policy("user:U0BOB", "user:U0LEAD"))
async def test_an_approver_who_takes_no_message_keeps_no_other_from_being_asked(at: Office) -> None:
    takes_no_message(at, at.bob)
    await at.ann.says(DINNER)
    await at.lead.clicks(await at.lead.finds("Approve"), "Approve")
    await at.ann.finds("I reimbursed 1500")


@pytest.mark.parametrize(
    ("approver", "why"),
    [
        ("user:U0BOB", "Nobody can be asked by direct message: This account is deactivated. Or ask the agent in a"),
        ("group:S0EMPTY", "Nobody is behind the policy's names"),
        (f"{PYTHON}fails", f"message: {PYTHON}fails could not be looked up: it raised KeyError. Or ask the agent in a"),
        (
            "group:S0NEVER",
            "message: group:S0NEVER could not be looked up: Slack knows no user group of this id. Or ask",
        ),
    ],
)
async def test_where_nobody_can_be_written_to_the_asker_reads_why(open_office: Opens, approver: str, why: str) -> None:
    async with open_office(policy(approver)) as at:
        at.slack.group("empty", id="S0EMPTY")
        takes_no_message(at, at.bob)
        await at.ann.says(DINNER)
        await at.ann.finds(why)
        assert at.ran() == []


@pytest.mark.parametrize("function", ["fails", "nowhere"])
async def test_a_function_that_names_nobody_is_not_blamed_on_slack(open_office: Opens, function: str) -> None:
    entry = f"{PYTHON}{function}"
    async with open_office(policy(entry)) as at:
        card = await at.ask(DINNER)
        await at.refuses(at.bob, card, "Approve", f"{entry} could not be looked up")
        assert at.ran() == []


async def test_a_function_that_stays_holds_up_nobody_elses_click(
    open_office: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An async one that lets its loop do nothing else."""
    rules = policy("group:S0ONCALL").replace('"*"', '"deploy*"')
    async with open_office(f"{rules}{policy(f'{PYTHON}stays', 'user:U0LEAD')}") as at:
        monkeypatch.setattr(python_approvers, "hanging", answers := threading.Event())
        monkeypatch.setattr(python_approvers, "stayed", stayed := list[bool]())
        dinner, deploy = await at.ask(DINNER), await at.ask("deploy checkout 2.4.1 to prod")
        await at.bob.clicks(dinner, "Approve")
        await at.cyd.clicks(deploy, "Approve")
        await at.sees(deploy, "Done: Deploy")
        assert stayed == []
        answers.set()
        await at.bob.gets_modal("you are not an approver")
        assert stayed == [True]


# Who asked


@pytest.mark.parametrize(
    ("allowed", "speaker_may", "asker_may"),
    [("false", False, False), ('"speakers"', True, False), ("true", True, True)],
)
async def test_whether_those_who_spoke_to_the_agent_may_decide(
    open_office: Opens, allowed: str, speaker_may: bool, asker_may: bool
) -> None:
    rules = policy("user:U0ANN", "user:U0BOB", "group:S0ONCALL", more=f"allow_requester = {allowed}\nquorum = 3")
    async with open_office(rules) as at:
        said = await at.bob.says("@adk-confirm what runs as checkout?", at.deploys)
        await at.bob.finds("2.4.0", at.deploys, thread=said)
        await at.ann.says(f"@adk-confirm {DINNER}", at.deploys, thread=said)
        card = await at.sees(said, "Approve")

        for person, may in ((at.bob, speaker_may), (at.ann, asker_may)):
            await person.clicks(card, "Approve")
            if may:
                voted = f"· approved by {'@bob and ' if speaker_may and person is at.ann else ''}@{person.name} ·"
                await at.sees(said, voted)
            else:
                await person.gets_modal("You can't approve this, because you")
        assert at.ran() == []


@pytest.mark.office(policy("user:U0ANN", "user:U0BOB"))
async def test_who_asked_may_deny(at: Office) -> None:
    """Denying harms nobody."""
    card = await at.ask(DINNER)
    await at.denies(at.ann, card, "I found the receipt")
    await at.sees(card, "🚫 Denied by ann")
    assert at.ran() == []


@pytest.mark.office(policy("group:S0ONCALL", "user:U0LEAD", more="quorum = 2"))
async def test_a_vote_of_who_left_the_group_meanwhile_makes_no_quorum(at: Office) -> None:
    card = await at.ask(DINNER)
    await at.bob.clicks(card, "Approve")
    await at.sees(card, "· approved by bob ·")
    at.slack.group("oncall", at.cyd, id="S0ONCALL")
    await at.later(minutes=1)

    await at.lead.clicks(card, "Approve")

    await at.sees(card, "by bob no longer counts: they are no longer an approver.")


@pytest.mark.office(policy("group:S0ONCALL", more=f'barred = ["{PYTHON}hangs"]'))
async def test_who_left_the_group_while_something_else_was_looked_up_decides_nothing(
    at: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_approvers, "hanging", answers := threading.Event())
    card = await at.ask(DINNER)
    before = len(at.slack.calls_of("usergroups.users.list"))
    await at.bob.clicks(card, "Approve")
    await at.slack.until(lambda: len(at.slack.calls_of("usergroups.users.list")) > before, what="the group to be asked")
    at.slack.group("oncall", at.cyd, id="S0ONCALL")
    at.slack.clock.advance(31)
    answers.set()
    await at.bob.finds("you are not an approver", at.deploys, thread=card)
    assert at.ran() == []


@ON_POSTGRES
@pytest.mark.parametrize("by", ["a vote", "a grant"])
async def test_who_left_the_group_while_the_store_stood_still_decides_nothing(
    open_office: Opens, database_url: str, by: str
) -> None:
    async with open_office(policy("group:S0ONCALL", more='grant = "30m"')) as at:
        card = await at.ask(DINNER)
        if by == "a grant":
            await at.bob.clicks(card, "Allow more")
            await (await at.bob.gets_modal("Allow more")).submits()
            await at.sees(card, "Done")
            await at.rests()
        ran, asks = len(at.ran()), at.slack.faults.hangs("usergroups.users.list")
        if by == "a grant":
            await at.ann.says(f"@adk-confirm {DINNER}", at.deploys, thread=card)
        else:
            await at.bob.clicks(card, "Approve")
        await asks.reached()
        async with await psycopg.AsyncConnection.connect(database_url) as stalled:
            await stalled.execute("SELECT 1 FROM bot_sessions FOR UPDATE")
            asks.release()
            waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))"
            while await (await stalled.execute(waits)).fetchone() is None:
                pass
            at.slack.group("oncall", at.cyd, id="S0ONCALL")
            at.slack.clock.advance(31)
        if by == "a grant":
            await at.bob.finds("Needs 1 approval", at.deploys, thread=card)
        else:
            await at.bob.finds("you are not an approver", at.deploys, thread=card)
        assert len(at.ran()) == ran


@pytest.mark.parametrize("bar", ["email:gone@example.com", "group:S0GONE"])
async def test_a_bar_that_names_nobody_lets_nobody_decide_and_says_so(open_office: Opens, bar: str) -> None:
    async with open_office(policy("group:S0ONCALL", more=f'barred = ["{bar}"]')) as at:
        at.slack.group("gone", at.bob, id="S0GONE", disabled=True)
        card = await at.ask(DINNER)
        for _ in range(2):
            await at.bob.clicks(card, "Approve")
            (await at.bob.gets_modal(f"{bar} could not be looked up")).closes()
        assert at.ran() == []
