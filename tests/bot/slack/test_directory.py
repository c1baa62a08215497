"""Who people are according to Slack: asked once, cached for half a minute, and unknown people decide nothing."""

from __future__ import annotations

import asyncio
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation.authorise import Permission, authorise
from adk_confirm.bot.confirmation.confirmation import Edit, Vote, VoteKind
from adk_confirm.bot.confirmation.votes import claim_of, waits_for_slack
from adk_confirm.bot.policy import python_approvers as limits
from adk_confirm.bot.policy.approvers import Account, Members, Person, Unresolved, parse_approver
from adk_confirm.bot.policy.policies import CallFacts, Policies
from adk_confirm.bot.slack.calls import CallLimits
from adk_confirm.bot.slack.directory import Directory
from tests.support import python_approvers
from tests.support.deciding import ANNA, BEN, LEAD, NOON, TEAM, make_policy, person
from tests.support.outgoing import NO_RULES, Outgoing, outgoing

CALL = CallFacts(tool="deploy", args={"version": "2.4.1", "replicas": 3}, session="s", asker="U0ASKER", team=TEAM)


@pytest.fixture
async def out() -> AsyncIterator[Outgoing]:
    async with outgoing(CallLimits(time_limit=0.6)) as ready:
        ready.open(make_policy(approvers=["group:S0ONCALL"]))
        yield ready


async def members(out: Outgoing, entry: str, call: CallFacts = CALL) -> Members:
    return await out.directory.members(parse_approver(entry), call)


# Accounts


async def test_nobody_of_that_id_is_a_stranger(out: Outgoing) -> None:
    assert await out.directory.account(person("U0GHOST")) == Account(person("U0GHOST"), stranger=True)


async def test_a_hundred_clicks_at_once_ask_slack_once(out: Outgoing) -> None:
    accounts = await asyncio.gather(*(out.directory.account(ANNA) for _ in range(100)))
    assert len(set(accounts)) == 1
    assert len(out.slack.calls_of("users.info")) == 1


async def test_what_is_known_is_asked_again_after_half_a_minute_or_when_slack_says_so(out: Outgoing) -> None:
    await out.directory.account(ANNA)
    out.slack.clock.advance(29)
    await out.directory.account(ANNA)
    assert len(out.slack.calls_of("users.info")) == 1
    out.slack.clock.advance(2)
    await out.directory.account(ANNA)
    assert len(out.slack.calls_of("users.info")) == 2
    out.directory.forget(ANNA.user)
    await out.directory.account(ANNA)
    assert len(out.slack.calls_of("users.info")) == 3


async def test_a_name_that_slack_did_not_say_is_asked_again(out: Outgoing) -> None:
    names = out.directory.names
    out.slack.faults.limits("users.info", retry_after=60)
    assert await names.of([ANNA.user]) == {}
    out.slack.clock.advance(60)
    assert (await names.of([ANNA.user])).keys() == {ANNA.user}
    asked = len(out.slack.calls_of("users.info"))
    assert (await names.of([ANNA.user])).keys() == {ANNA.user}
    assert len(out.slack.calls_of("users.info")) == asked


async def test_many_cards_that_name_somebody_ask_slack_once(out: Outgoing) -> None:
    await asyncio.gather(*(out.directory.names.of([ANNA.user]) for _ in range(100)))
    assert len(out.slack.calls_of("users.info")) == 1


async def test_an_answer_from_before_a_change_is_not_kept(out: Outgoing) -> None:
    hang = out.slack.faults.hangs("users.info", acted=True)
    early = asyncio.create_task(out.directory.account(ANNA))
    await hang.reached()
    out.directory.forget(ANNA.user)
    hang.release()
    await early
    await out.directory.account(ANNA)
    assert len(out.slack.calls_of("users.info")) == 2


async def test_a_look_up_has_a_time_limit_whatever_it_waits_for(out: Outgoing) -> None:
    out.slack.faults.hangs("users.info", times=None)
    directory = Directory(out.api, NO_RULES, patience=0.05)
    assert await directory.account(ANNA) == Unresolved(ANNA.user, "Slack did not answer within 0.05 s")


async def test_who_asks_after_somebody_else_waited_in_vain_waits_less(out: Outgoing) -> None:
    """Ten votes are counted one after another, and each asks about whoever voted first."""
    broken = out.slack.faults.hangs("users.info", times=None)
    directory = Directory(out.api, NO_RULES, patience=0.4)
    said = [await directory.account(ANNA) for _ in range(3)]
    assert said == [Unresolved(ANNA.user, f"Slack did not answer within {waited} s") for waited in (0.4, 0.1, 0.1)]
    broken.release()
    out.slack.faults.clear()
    assert isinstance(await directory.account(ANNA), Account)


# While Slack fails, and while it is not our turn


async def test_a_question_that_fails_is_asked_later_and_later_by_one_for_all(out: Outgoing) -> None:
    groups = [out.slack.group(f"g{n}", out.ann, id=f"S0G{n}") for n in range(3)]
    out.slack.rates.methods = True
    out.slack.faults.fails("usergroups.users.list", times=6)  # the three at once, and then one at a time

    answers = await asyncio.gather(*(members(out, f"group:{group}") for group in groups for _ in range(30)))

    assert set(answers) == {frozenset({ANNA})}
    assert out.waits == pytest.approx([1, 2, 4, 8], abs=0.9)
    assert [made.status for made in out.slack.calls_of("usergroups.users.list")] == [500] * 6 + [200] * 3


async def test_a_question_that_fails_keeps_no_other_from_being_answered(out: Outgoing) -> None:
    odd, fine = (out.slack.group(name, out.ann, id=f"S0{name.upper()}") for name in ("odd", "fine"))
    broken = out.slack.faults.fails(
        "usergroups.users.list", times=None, where=lambda args: args.get("usergroup") == odd
    )
    asking = asyncio.create_task(members(out, f"group:{odd}"))
    await broken.reached()
    assert await members(out, f"group:{fine}") == frozenset({ANNA})
    out.slack.faults.clear()
    assert await asking == frozenset({ANNA})


async def test_what_is_asked_too_often_is_told_when_it_can_be_asked_and_each_its_own_time(out: Outgoing) -> None:
    groups = [out.slack.group(f"g{n}", out.ann, id=f"S0G{n}") for n in range(22)]

    async def asked() -> list[Members]:
        return await asyncio.gather(*(members(out, f"group:{group}") for group in groups))

    for _ in range(3):  # asking again moves nobody's time
        answers = await asked()
        assert answers[:20] == [frozenset({ANNA})] * 20
        first, second = (found.after for found in answers[20:] if isinstance(found, Unresolved))
        assert first == pytest.approx(60, abs=2)
        assert second == pytest.approx(63, abs=2)
    assert len(out.slack.calls_of("usergroups.users.list")) == 20

    out.slack.clock.advance(65)
    late = await asyncio.gather(*(members(out, f"group:{group}") for group in groups[20:]))
    assert late == [frozenset({ANNA})] * 2


async def test_slacks_429_is_no_answer_that_is_missing_for_good(out: Outgoing) -> None:
    out.slack.faults.limits("users.info", retry_after=60)
    account = await out.directory.account(ANNA)
    assert isinstance(account, Unresolved)
    assert account.after == pytest.approx(60, abs=1)
    assert isinstance(await out.directory.account(ANNA), Unresolved)
    out.slack.clock.advance(60)
    assert isinstance(await out.directory.account(ANNA), Account)
    assert len(out.slack.calls_of("users.info")) == 2


@pytest.mark.parametrize(("retry_after", "waited"), [(8, True), (12, False)])
async def test_waiting_for_our_turn_leaves_slack_time_to_answer(out: Outgoing, retry_after: int, waited: bool) -> None:
    directory = Directory(out.api, NO_RULES, patience=20)
    out.slack.faults.limits("users.info", retry_after=retry_after)
    assert isinstance(await directory.account(ANNA), Account) is waited


# Members


async def test_a_named_person_is_asked_about_nowhere(out: Outgoing) -> None:
    assert await members(out, "user:U0LEAD") == frozenset({LEAD})
    assert [made for made in out.slack.calls if made.method != "chat.postMessage"] == []


async def test_a_function_is_asked_about_the_call(out: Outgoing) -> None:
    python_approvers.asked.clear()
    assert await members(out, "python:tests.support.python_approvers:on_call") == frozenset({ANNA, BEN})
    assert python_approvers.asked == [
        {"tool": "deploy", "args": {"version": "2.4.1", "replicas": 3}, "session": "s", "asker": "U0ASKER"}
    ]
    await members(out, "python:tests.support.python_approvers:on_call")
    assert len(python_approvers.asked) == 1
    await members(out, "python:tests.support.python_approvers:on_call", replace(CALL, args={"replicas": 4}))
    assert len(python_approvers.asked) == 2
    assert await members(out, "python:tests.support.python_approvers:on_call_later") == frozenset({BEN})


async def test_what_is_known_of_long_calls_takes_little_memory(out: Outgoing) -> None:
    """Thousands of answers are kept, and a call may be as long as a form holds."""
    ask = "python:tests.support.python_approvers:on_call_later"
    await members(out, ask)
    tracemalloc.start()
    for number in range(50):
        await members(out, ask, replace(CALL, args={"text": f"{number:0100000}"}))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 1_000_000


async def test_a_function_can_not_change_the_call(out: Outgoing) -> None:
    await members(out, "python:tests.support.python_approvers:busybody")
    assert CALL.args["replicas"] == 3


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("one_text", 'it returned str; a list of user ids is needed, such as ["U0LEAD"]'),
        ("names", "it returned '@anna' among its user ids; those look like \"U0LEAD\""),
        ("fails", "it raised KeyError"),
        ("NOBODY_IN_PARTICULAR", "it is not a function"),
        ("names_lazily", "it raised KeyError"),
        ("exits", "it raised SystemExit"),
        ("is_cancelled", "it raised CancelledError"),
        ("stays", "it did not answer within 0.1 s"),
        ("hangs", "it did not answer within 0.1 s"),
        ("hangs_later", "it did not answer within 0.1 s"),
    ],
)
async def test_a_function_that_is_wrong_names_nobody_and_it_is_said_why(
    out: Outgoing, function: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = parse_approver(f"python:tests.support.python_approvers:{function}")
    rules = Rules(Policies.of(make_policy(approvers=[str(entry)])))
    monkeypatch.setattr(limits, "TIME_LIMIT", 0.1 if "0.1 s" in why else 10.0)
    directory = Directory(out.api, rules)
    try:
        assert await directory.members(entry, CALL) == Unresolved(str(entry), why)
    finally:
        python_approvers.hanging.set()
        python_approvers.hanging.clear()


async def test_a_list_takes_no_turn_from_a_vote_and_is_whole(out: Outgoing, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many calls wait, and though the function hangs for as many as may run at once."""
    entry = parse_approver("python:tests.support.python_approvers:hangs_as_asked")
    rules = Rules(Policies.of(make_policy(approvers=[str(entry)])))
    monkeypatch.setattr(limits, "TIME_LIMIT", 1.0)
    directory = Directory(out.api, rules)
    calls = [replace(CALL, args={"number": number}) for number in range(50)]
    listed = await asyncio.gather(*(directory.members(entry, call, listing=True) for call in calls))
    assert listed == [frozenset({ANNA})] * 50

    python_approvers.still_hanging.update(range(100, 116))
    slow = [replace(CALL, args={"number": number}) for number in range(100, 117)]
    lists = asyncio.gather(*(directory.members(entry, call, listing=True) for call in slow))
    try:
        await asyncio.sleep(0)
        assert await directory.members(entry, slow[-1]) == frozenset({ANNA})  # of which the list waits for its turn
        assert not lists.done()
        late, crowded = "it did not answer within 1 s", "too many earlier calls of such functions still hang"
        why = {found.why for found in await lists if isinstance(found, Unresolved)}
        assert {late} <= why <= {late, crowded}  # the last is turned away unless a turn ends right before its own
        assert await directory.members(entry, calls[0]) == frozenset({ANNA})
    finally:
        python_approvers.hanging.set()
        python_approvers.hanging.clear()
        python_approvers.still_hanging.clear()


async def test_a_module_that_is_not_there_is_reported(out: Outgoing) -> None:
    found = await members(out, "python:my.rota:on_call")
    assert isinstance(found, Unresolved)
    assert "my" in found.why


# Facts for a vote


def vote(who: Person, **more: object) -> Vote:
    made = Vote(id="v1", kind=VoteKind.APPROVE, voter=who, revision=1, stored_at=NOON)
    return replace(made, **more)  # type: ignore[arg-type]  # fields of Vote


async def test_of_more_groups_than_can_be_asked_about_in_a_minute_each_has_its_turn(out: Outgoing) -> None:
    groups = [out.slack.group(f"g{n}", out.ann if n == 20 else out.ben, id=f"S0G{n}") for n in range(21)]
    row = out.open(make_policy(approvers=[f"group:{group}" for group in groups]))
    ours = vote(ANNA)

    facts = await out.directory.facts(row, ours, Policies.of())
    assert waits_for_slack(row, ours, facts) == pytest.approx(60, abs=2)

    out.slack.clock.advance(62)
    facts = await out.directory.facts(row, ours, Policies.of())
    assert authorise(row.policy, claim_of(row, ours), facts) == Permission(row.policy.approvers[20])


async def test_an_edit_does_not_lift_a_call_over_the_head_of_who_must_decide_it(out: Outgoing) -> None:
    policy = make_policy(approvers=["python:tests.support.python_approvers:by_size"])
    row = out.open(policy)
    entry = policy.approvers[0]
    plain = await out.directory.facts(row, vote(ANNA), Policies.of(policy))
    more = await out.directory.facts(row, vote(ANNA, edit=Edit({"replicas": 50})), Policies.of(policy))
    assert plain.members[entry] == frozenset({ANNA, LEAD})
    assert more.members[entry] == frozenset({LEAD})


# Channels, and who can be written to


async def test_a_function_that_the_file_does_not_name_is_not_even_loaded(
    out: Outgoing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "this", raising=False)
    entry = parse_approver("python:this:s")
    directory = Directory(out.api, NO_RULES)
    unresolved = Unresolved(str(entry), "no policy in the settings file names it any more")
    assert await directory.members(entry, CALL) == unresolved
    assert "this" not in sys.modules
