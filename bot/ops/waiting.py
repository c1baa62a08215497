"""`adk-confirm pending` and `grants`: what waits for people, and what runs without asking them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any

import click

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.exact_values import spell_on_one_line
from adk_confirm.blocks.rich_text import Say, join_list, spoken
from adk_confirm.blocks.text import fit_visible, visible
from adk_confirm.bot.audit.ledger import stamp
from adk_confirm.bot.confirmation.confirmation import Confirmation, Grant, VoteKind
from adk_confirm.bot.confirmation.shown import free_in, shown_of
from adk_confirm.bot.ops.changes import read_parked
from adk_confirm.bot.ops.command import CommandLine, format_time, in_columns, options, paint, read_stamp, wrapped
from adk_confirm.bot.policy.policies import Policies, may_decide
from adk_confirm.bot.policy.redaction import Redactor
from adk_confirm.bot.store.grants_in_force import all_grants, uses_of
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.letters import read_pause
from adk_confirm.bot.store.repository import now, read_confirmation
from adk_confirm.bot.store.sealed_rows import STORED, load
from adk_confirm.bot.telemetry.metrics import RUNNING
from adk_confirm.runtime.jsontypes import JsonObject, as_object, texts
from adk_confirm.runtime.store.database import Database, Tx

PAGE = 200
_TITLE = 60


@click.command()
@options(json=True, names=True)
async def pending(call: CommandLine) -> None:
    """List the calls that wait for approval: who may decide, since when, and until when.

    It also lists work that failed so often that it is not retried, and says whether runs are paused.
    """
    waiting: list[JsonObject] = []
    parked: list[JsonObject] = []
    async with call.reading() as database:
        names, at, pause = await call.known_names(database), await database.read(now), await database.read(read_pause)
        async for stored in stored_confirmations(database, "(c.state = 'waiting' OR c.outcome = 'unknown')"):
            row = await database.read(load, stored)
            if row is not None:
                waiting.append(_waits(row))
                continue
            trouble = "Somebody changed it in the database. Nobody can decide on it any more, and it ends."
            parked.append({"kind": "confirmation", "name": stored.id, "since": None, "trouble": trouble})
        parked += await database.read(read_parked)
        running = await database.read(lambda tx: int(tx.value(RUNNING)))
    lines = list[str]()
    if pause is not None:
        by = f" by {visible(pause.by)}" if pause.by else ""
        why = f" ({visible(pause.reason)})" if pause.reason else ""
        said = f"Runs have been paused since {format_time(pause.since)}{by}{why}."
        lines.append(paint(f"{said} `adk-confirm resume` starts them again.", "yellow"))
    rows = [("id", "call", "approvals", "asked by", "expires"), *(_waits_row(one, at, names) for one in waiting)]
    lines += [visible(line) for line in in_columns(rows)] if waiting else ["Nothing waits for approval."]
    lines += [f"{running} approved {'call runs' if running == 1 else 'calls run'} now."] if running else []
    for one in parked:
        since = one["since"]
        what = f"is not retried since {format_time(read_stamp(since))}" if since else "can't be read"
        lines.append(paint(visible(f"{one['kind']} {one['name']} {what}: {one['trouble']}"), "red"))
    done: JsonObject = {
        "paused_since": None if pause is None else stamp(pause.since),
        "paused_by": None if pause is None else pause.by,
        "waiting": [*waiting],
        "running": running,
        "parked": [*parked],
    }
    call.tell(done, *lines)


async def stored_confirmations(database: Database, which: str) -> AsyncIterator[Any]:
    """The confirmations for which this condition holds, as they are stored, oldest first. They are read page by
    page."""
    page = f"{STORED} WHERE {which} AND (c.created, c.id) > (:at, :id) ORDER BY c.created, c.id LIMIT :most"

    def read(tx: Tx, at: float, id_: str) -> list[Any]:
        return tx.all(page, at=at, id=id_, most=PAGE)

    at, id_ = 0.0, ""
    while True:
        found = await database.read(read, at, id_)
        for stored in found:
            yield stored
        if len(found) < PAGE:
            return
        at, id_ = found[-1].created, found[-1].id


def _waits(row: Confirmation) -> JsonObject:
    """A confirmation that waits for people, masked: for "approval", or "outcome" (did the call take effect?)."""
    arguments, hidden = row.redactor.mask_call(row.revision.arguments)
    unknown = row.unknown and row.outcome is not None
    votes = row.standing_votes(VoteKind.RUN_AGAIN if unknown else VoteKind.APPROVE)
    return {
        "id": row.id,
        "waits_for": "outcome" if unknown else "approval",
        "tool": row.asked.tool,
        "title": headline(shown_of(row)),
        "arguments": arguments,
        "hidden": hidden,
        "session": row.asked.session.id,
        "channel": row.asked.channel,
        "asked_by": row.asked.asked_by.user,
        "since": stamp(row.outcome.at if unknown and row.outcome else row.asked_at),
        "until": stamp(row.unknown_until or row.deadline if unknown else row.deadline),
        "approvers": [*map(str, may_decide(row.policy, row.escalated))],
        "votes": [*dict.fromkeys(vote.voter.user for vote in votes)],
        "quorum": row.policy.quorum,
        "revision": row.revision.number,
    }


def _waits_row(one: JsonObject, now: datetime, names: KnownNames) -> tuple[str, ...]:
    """One confirmation: what, how many of how many, for whom, who asked where, and until when."""
    unknown = one["waits_for"] == "outcome"
    title = f"{fit_visible(str(one['title']), _TITLE).text}{' (did it take effect?)' if unknown else ''}"
    votes = [*map(names.short, texts(one["votes"]))]
    by = f" ({', '.join(votes)})" if votes else ""
    # As a policy writes them, `group:S0ONCALL`, until their names are known.
    called = (
        names.alone(entry) or entry.removeprefix("user:").replace(":", " ", 1) for entry in texts(one["approvers"])
    )
    who = ", ".join(called) or "nobody"
    counted = f"{len(votes)} of {one['quorum']}"
    counted = f"{who} can answer; {counted} votes to rerun{by}" if unknown else f"{counted}{by} from {who}"
    until = read_stamp(one["until"])
    asked = names.short(str(one["asked_by"])) + (f" in {names.short(str(one['channel']))}" if one["channel"] else "")
    left = f"in {words.duration((until - now).total_seconds())}" if until > now else "now"
    return str(one["id"])[:8], title, counted, asked, left


# Grants


@click.command()
@options(json=True, names=True)
async def grants(call: CommandLine) -> None:
    """List the grants in force: which calls run without asking, until when, who gave it, and how often it was used.

    `adk-confirm revoke ID` ends one.
    """
    async with call.reading() as database:
        found = await database.read(lambda tx: [_grant(tx, one, call.settings.policies) for one in all_grants(tx)])
        names, at = await call.known_names(database), await database.read(now)
    lines = [line for one in found for line in _grant_lines(one, at, names)]
    call.tell({"grants": [*found]}, *lines or ["No grants are in force: every call asks."])


def _grant(tx: Tx, grant: Grant, policies: Policies) -> JsonObject:
    """A grant, masked. `on`: the arguments that must be the same; `free`: those that may differ, and `limits`: how far.
    `uses`: how many calls it let through so far, of `most`; None if the ledger can't say."""
    row = read_confirmation(tx, grant.id)
    redactor, free = (row.redactor, free_in(row)) if row is not None else (Redactor(("*",)), ())
    return {
        "id": grant.id,
        "tool": grant.tool,
        "on": redactor.mask_call(grant.on)[0],
        "free": [one.name for one in free],
        "limits": {one.name: one.limit for one in free if one.limit},
        "given_by": [giver.user for giver in grant.given_by],
        "given_at": stamp(grant.given_at),
        "until": stamp(grant.until),
        "session": grant.session.id,
        "channel": row.asked.channel if row is not None else None,
        "uses": uses_of(tx, grant),
        "most": grant.uses,
        "policy_changed": grant.policy not in policies.fingerprints,
    }


def _grant_lines(one: JsonObject, now: datetime, names: KnownNames) -> Iterator[str]:
    """Lines about one grant: what it covers, who gave it, until when, how often it was used."""
    covers = [f"{visible(name)} {spell_on_one_line(value)}" for name, value in as_object(one["on"]).items()]
    limits = as_object(one["limits"])
    covers += [f"{visible(name)} {limit}" for name, limit in limits.items()]
    free = join_list([Say(visible(name)) for name in texts(one["free"]) if name not in limits], last=" or ")
    covers += [f"any {''.join(map(spoken, free))}"] if free else []
    yield paint(f"{str(one['id'])[:8]}  {visible(str(one['tool']))}{' with ' if covers else ''}{', '.join(covers)}")
    match one["uses"], one["most"]:
        case None, _:
            used = "uses not known, since the ledger was changed (`adk-confirm audit verify` says where)"
        case 0, None:
            used = "not used yet"
        case uses, None:
            used = f"used {uses} time{'' if uses == 1 else 's'}"
        case uses, most:
            used = f"{uses} of {most} uses"
    used += "; it allows nothing: the policy changed" if one["policy_changed"] else ""
    until = read_stamp(one["until"])
    left = f"until {format_time(until)}, {words.duration((until - now).total_seconds())} left"
    given_by = ", ".join(map(names.short, texts(one["given_by"])))
    where = f"one thread of {names.short(str(one['channel']))}" if one["channel"] else f"session {one['session']}"
    yield from wrapped(visible(f"by {given_by}, for {where}; {left}; {used}"), "    ")
