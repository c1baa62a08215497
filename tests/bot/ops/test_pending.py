"""`adk-confirm pending`, as somebody on call reads it."""

from __future__ import annotations

import json
import re
from datetime import timedelta

from adk_confirm.bot.confirmation.confirmation import OutcomeKind, VoteKind
from adk_confirm.bot.confirmation.outcome import tick
from adk_confirm.bot.ops.command import account, format_time
from adk_confirm.bot.store.repository import lock_confirmation, now, save
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.jobs import JobKind
from adk_confirm.runtime.store.lease import Lease
from tests.support.backoffice import Backoffice
from tests.support.deciding import ANNA, BEN
from tests.support.stores import change_job, claim_due, nothing

ESCALATES = """
[[policy]]
tools = ["*"]
approvers = ["group:S0ONCALL"]
escalate_after = "20m"
escalate_to = ["group:S0LEADS"]
"""


async def test_nothing_waits(at: Backoffice) -> None:
    assert (await at.command("pending")).out == "Nothing waits for approval.\n"
    assert json.loads((await at.command("pending", "--json")).out) == {
        "paused_since": None,
        "paused_by": None,
        "waiting": [],
        "running": 0,
        "parked": [],
    }


async def test_what_waits_for_whom_since_and_until_when(at: Backoffice) -> None:
    deploy = await at.asks("deploy", {"version": "2.4.1", "dry": False})
    await at.vote(deploy, ANNA)
    at.clock.passes(hours=1)
    refund = await at.asks("refund", {})
    denied = await at.asks("lookup")
    await at.vote(denied, ANNA, VoteKind.DENY)
    shown = [re.split(r" {2,}", line) for line in (await at.command("pending")).lines]
    listed = {one["id"]: one["title"] for one in json.loads((await at.command("audit", "list", "--json")).out)["calls"]}
    where = "U0ASKER in C0DEPLOYS"
    assert shown == [
        ["id", "call", "approvals", "asked by", "expires"],
        [deploy[:8], listed[deploy], "1 of 2 (U0ANNA) from U0ANNA, U0BEN", where, "in 23 h"],
        [refund[:8], listed[refund], "0 of 1 from U0ANNA", where, "in 1 d"],
    ]


async def test_a_group_whose_name_is_not_known_yet_is_called_one(at: Backoffice) -> None:
    at.policies(ESCALATES)
    await at.asks("deploy")
    assert "0 of 1 from group S0ONCALL" in (await at.command("pending")).out


async def test_a_long_title_is_cut(at: Backoffice) -> None:
    await at.asks("deploy", {"notes": "long " * 600})
    assert max(map(len, (await at.command("pending")).lines)) < 150
    (one,) = json.loads((await at.command("pending", "--json")).out)["waiting"]
    assert one["arguments"] == {"notes": "long " * 600}


async def test_the_same_for_programs(at: Backoffice) -> None:
    at.policies(ESCALATES)
    at.clock.passes(hours=-1)
    deploy = await at.asks("deploy", {"token": "abc"})
    asked = at.clock.now
    at.clock.passes(hours=1)
    await at.database.run(keep_time, deploy)
    (one,) = json.loads((await at.command("pending", "--json")).out)["waiting"]
    assert one == {
        "id": deploy,
        "waits_for": "approval",
        "tool": "deploy",
        "title": one["title"],  # as `audit list` has it
        "arguments": {"token": "abc"},
        "hidden": 0,
        "session": "slack-T0ACME-C0DEPLOYS-1.1",
        "channel": "C0DEPLOYS",
        "asked_by": "U0ASKER",
        "since": asked.isoformat(timespec="microseconds"),
        "until": (asked + timedelta(days=1)).isoformat(timespec="microseconds"),
        "approvers": ["group:S0ONCALL", "group:S0LEADS"],
        "votes": [],
        "quorum": 1,
        "revision": 1,
    }


def keep_time(tx: Tx, confirmation: str) -> None:
    session, row = lock_confirmation(tx, confirmation)
    save(tx, session, tick(row, now(tx)))


async def test_an_outcome_that_nobody_knows_waits_for_people(at: Backoffice) -> None:
    deploy = await at.asks("deploy")
    for voter in (ANNA, BEN):
        await at.vote(deploy, voter)
    await at.runs(deploy, kind=OutcomeKind.UNKNOWN)
    (one,) = json.loads((await at.command("pending", "--json")).out)["waiting"]
    assert (one["waits_for"], one["votes"], one["revision"]) == ("outcome", [], 2)
    line = (await at.command("pending")).lines[1]
    who = "U0ANNA, U0BEN"
    assert line.startswith(
        f"{deploy[:8]}  {one['title']} (did it take effect?)  {who} can answer; 0 of 2 votes to rerun  "
    )


async def test_what_stopped_being_tried_says_why(at: Backoffice) -> None:
    deploy = await at.asks("deploy")

    def park(tx: Tx) -> None:
        when = {"parked_at": tx.now(), "failures": 20}
        change_job(tx, "confirmation", trouble="The channel is archived.", **when)
        change_job(tx, "session", trouble="The agent\n\x1b[2J is broken.", **when)

    await at.database.run(park)
    since = format_time(at.clock.now)
    assert (await at.command("pending")).lines[-2:] == [
        f"confirmation {deploy} is not retried since {since}: The channel is archived.",
        f"session {at.key} is not retried since {since}: The agent\\n\\u001b[2J is broken.",
    ]
    parked = json.loads((await at.command("pending", "--json")).out)["parked"]
    assert [(one["kind"], one["name"]) for one in parked] == [("confirmation", deploy), ("session", at.key)]


async def test_paused_stands_first(at: Backoffice) -> None:
    await at.command("pause")
    first, *_ = (await at.command("pending")).lines
    assert first.startswith("Runs have been paused since 20")
    assert first.endswith(f" by operator {account()}. `adk-confirm resume` starts them again.")
    assert json.loads((await at.command("pending", "--json")).out)["paused_since"].startswith("20")


async def test_what_is_not_a_confirmation_is_listed_last(at: Backoffice) -> None:
    deploy, other = await at.asks("deploy"), await at.asks("deploy")
    await at.database.run(lambda tx: tx.run("UPDATE bot_confirmations SET body = '{}' WHERE id = :id", id=deploy))
    said = await at.command("pending")
    assert said.lines[1].startswith(other[:8])
    assert said.lines[-1].startswith(f"confirmation {deploy} can't be read: Somebody changed it in the database.")


async def test_what_stopped_is_tried_again_when_somebody_says_so(at: Backoffice) -> None:
    deploy = await at.asks("deploy")
    await at.is_posted()
    assert (await at.command("retry")).out == "Nothing needs a retry.\n"

    def park(tx: Tx) -> None:
        when = {"parked_at": tx.now(), "failures": 20, "due_at": None, "trouble": "The channel is archived."}
        change_job(tx, "confirmation", **when)
        change_job(tx, "session", **when)

    await at.database.run(park)
    refused = await at.refusal("retry", "nonsense")
    assert refused == "No failed work has a name that begins with nonsense. `adk-confirm pending` lists what failed."
    assert (await at.command("retry", deploy[:8])).lines == [
        f"confirmation {deploy} is retried. It had stopped because: The channel is archived."
    ]
    at.clock.passes(hours=1)
    kind = JobKind("confirmation", nothing, _never)
    ((again, _),), *_ = await at.database.run(claim_due, kind, 10, 30.0)
    assert again == deploy
    parked = json.loads((await at.command("pending", "--json")).out)["parked"]
    assert [one["kind"] for one in parked] == ["session"]
    assert (await at.command("retry")).lines == [
        f"session {at.key} is retried. It had stopped because: The channel is archived."
    ]
    assert json.loads((await at.command("pending", "--json")).out)["parked"] == []


async def _never(key: str, lease: Lease, found: None) -> None:
    raise AssertionError("it is only claimed")
