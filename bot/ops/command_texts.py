"""The texts of the operator's commands. Each says plainly what happened and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `--help` needs these texts, and none of what fills them
    from bot.ops.grants_text import GrantInForce
    from bot.ops.names import KnownNames
    from bot.ops.reapply import ReapplyResult
    from bot.ops.waiting import ParkedRow, Pending
    from bot.store.mailbox import PausedRuns
    from bot.store.purge import PurgeResult

DEMO = """
  adk-confirm's sandbox: {url}

  The page says what to do next, step by step.
  This stands in for Slack on this machine only. It is not for production, and forgets everything when it ends.
  Ctrl-C ends it.
"""
DEMO_UNSEEN = "  No browser can be opened here: open the address yourself.\n"
DEMO_ELSEWHERE = "{why} With make: `make demo PORT={port}`."
PAUSED = {
    True: "Runs are paused. Approved calls start once you run `adk-confirm resume`; the cards say so.",
    False: "Runs were already paused.",
}
RESUMED = {True: "Runs are resumed. Approved calls start now.", False: "Runs were not paused."}
WITHDRAWN = "Confirmation {id} is withdrawn. The call did not run, and the agent learns why."
WITHDRAWAL_WAITS = (
    "The withdrawal of confirmation {id} is stored. Votes that came before it are counted first; "
    "`adk-confirm audit show {id}` shows the result."
)
REVOKED = "Grant {id} is revoked. Calls like it ask again."
REVOCATION_WAITS = (
    "The revocation of grant {id} is stored. Votes that came before it are counted first; "
    "`adk-confirm audit show {id}` shows the result."
)
NOTHING_WAITS = "Nothing waits for approval."
NO_GRANTS = "No grants are in force: every call needs approval."
NOT_COUNTED = "uses not known, since the ledger was changed (`adk-confirm audit verify` says where)"
NOTHING_TO_RETRY = "Nothing needs a retry."
RETRIED = "{kind} {name} is retried. It had stopped because: {trouble}"
NOTHING_TO_REAPPLY = "Every waiting call is already under the policies in the file."
LEFT = "{count} left as they were: fix what is said above, then run this again."
ANCHOR_UNREADABLE = "{path} can't be read as an anchor: {why}. Name the file that keeps the checkpoint lines."
OUTPUT_UNWRITABLE = "{path} can't be written: {why}. Name another file with --output."
FUTURE = "--before {text} is in the future. Only what has ended can be purged: name an earlier time."
NO_JSON = '--args is not a JSON object: {why}. Write for example --args \'{{"env": "prod"}}\'.'
EXPORTED = "{count} lines are in {path}."
NO_IDS = "Nobody, no group and no channel that the app sees has “{text}” in its name."
UNASKED = "SLACK_BOT_TOKEN is not set, so Slack can't be asked. Set it as the service has it."
NO_CALLS = "Nobody was asked about a call of {tool} yet."
NO_LINES = "No line of the audit matches{filters}."
INIT_EXISTS = "{path} exists already. Name another file with --config, or use --force to replace it."
INIT_WRITTEN = (
    "{path} is written. Put the ids of your people and channels into it; `adk-confirm check` says what is missing."
)


def unknown_tool(tool: str, tools: Collection[str]) -> str:
    from difflib import get_close_matches

    from blocks.text import visible

    near = get_close_matches(tool, tools, n=1)
    meant = f"Did you mean {near[0]}?" if near else f"It has {', '.join(sorted(tools)) or 'none'}."
    return f"The agent has no tool {visible(tool)}. {meant}"


def paused(pause: PausedRuns) -> str:
    from blocks.text import visible
    from bot.ops.operator_times import format_time

    by = f" by {visible(pause.by)}" if pause.by else ""
    why = f" ({visible(pause.reason)})" if pause.reason else ""
    return f"Runs have been paused since {format_time(pause.since)}{by}{why}. `adk-confirm resume` starts them again."


def waits(one: Pending, now: datetime, names: KnownNames) -> Iterator[str]:
    """Three lines about one confirmation: what, for whom, since and until when."""
    from blocks.text import visible
    from blocks.values import json_text
    from bot.ops.operator_times import format_duration, format_time

    again = " (did it take effect?)" if one.waits_for == "outcome" else ""
    yield f"{one.id}  {visible(one.tool)}{again}  {json_text(one.arguments)}"
    voters = ", ".join(map(names.of, one.votes))
    what = "votes to run it again" if one.waits_for == "outcome" else "approvals" if one.quorum > 1 else "approval"
    votes = f"{len(one.votes)} of {one.quorum} {what}" + (f" ({voters})" if voters else "")
    approvers = ", ".join(map(names.of, one.approvers)) or "nobody"
    where = f"{names.of(one.channel)}, session {one.session}" if one.channel else one.session
    yield visible(f"    for {approvers}; {votes}; asked for by {names.of(one.asked_by)} in {where}")
    left = one.until - now
    until = f"{format_duration(left)} left" if left.total_seconds() > 0 else "which is now over"
    ago = format_duration(now - one.since)
    yield f"    since {format_time(one.since)}, {ago} ago; until {format_time(one.until)}, {until}"


def parked(one: ParkedRow) -> str:
    from blocks.text import visible
    from bot.ops.operator_times import format_time

    since = f" since {format_time(one.since)}" if one.since else ""
    what = "is not retried" if one.since else "can't be read"
    return visible(f"{one.kind} {one.name} {what}{since}: {one.trouble}")


def grant(one: GrantInForce, now: datetime, names: KnownNames) -> Iterator[str]:
    """Two lines about one grant: what it covers, who gave it, until when, how often it was used."""
    from blocks.text import visible
    from blocks.values import spell_on_one_line
    from bot.ops.names import channel_of
    from bot.ops.operator_times import format_duration, format_time

    on = ", ".join(f"{visible(name)} {spell_on_one_line(value)}" for name, value in one.on.items())
    yield f"{one.id}  {visible(one.tool)}{f'  with {on}' if on else ''}"
    if one.uses is None:
        used = NOT_COUNTED
    elif one.most is not None:
        used = f"{one.uses} of {one.most} uses"
    else:
        used = "not used yet" if one.uses == 0 else f"used {one.uses} time{'s' if one.uses > 1 else ''}"
    until = f"until {format_time(one.until)}, {format_duration(one.until - now)} left"
    given_by = ", ".join(map(names.of, one.given_by))
    channel = channel_of(one.session)
    where = f"{names.of(channel)}, session {one.session}" if channel else one.session
    yield visible(f"    given by {given_by} in {where}; {until}; {used}")


def reapplied(one: ReapplyResult, *, dry_run: bool) -> str:
    """What happened, or would happen, to one confirmation."""
    from blocks.text import visible

    if one.trouble is not None:
        return visible(f"{one.id}  {one.tool}: left as it was; {one.trouble}")
    is_now, stop = ("would be", "would stop") if dry_run else ("is now", "stopped")
    parts = [f"{is_now} under the file's policy" if one.why is None else one.why]
    if one.fell:
        votes = "approvals" if len(one.fell) > 1 else "approval"
        parts.append(f"the {votes} of {', '.join(one.fell)} {stop} counting")
    if one.state != "waiting":
        parts.append(f"it {is_now} {one.state}")
    return visible(f"{one.id}  {one.tool}: {'; '.join(parts)}")


def purged(what: PurgeResult, before: datetime) -> Iterator[str]:
    from bot.ops.operator_times import format_time

    if not what.any:
        yield f"Nothing is left to purge from before {format_time(before)}."
    else:
        yield f"From before {format_time(before)} is purged: {what}."
    if what.kept:
        yield f"{what.kept} {'session is' if what.kept == 1 else 'sessions are'} still in use, and kept whole."
    if what.any:
        yield "Messages in Slack, backups of the store and an agent's own server keep what they have: purge those too."
