"""What the operator's commands say, in one place. Plain, short: what happened, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

from blocks.text import visible
from blocks.values import json_text
from bot.operations.operator_times import roughly, spelled

if TYPE_CHECKING:  # each command loads what it needs, and not what the others speak of
    from bot.operations.pending import Parked, Pending
    from bot.operations.reapply import Reapplied
    from bot.store.purge import Purged

DEMO = """
  adk-confirm's sandbox: {url}

  Say “@adk-confirm deploy checkout 2.4.1 to prod” as ana, then be ben, and approve it.
  A stand-in for Slack, on this machine alone, not for production. What happens in it is forgotten at the end.
  Ctrl-C ends it.
"""
DEMO_UNSEEN = "  There is no screen here to open a browser on: open the address yourself.\n"
DEMO_ELSEWHERE = "{why} With make: `make demo PORT={port}`."
PAUSED = {
    True: "Runs are paused. Approved calls start once you run `adk-confirm resume`; the cards say so.",
    False: "Runs were paused already.",
}
RESUMED = {True: "Runs are resumed. Approved calls start now, in their time.", False: "Runs were not paused."}
WITHDRAWN = "Confirmation {id} is withdrawn. It did not run, and the agent is told so."
WITHDRAWAL_WAITS = (
    "The withdrawal of confirmation {id} is stored. Votes that came before it are counted first; "
    "`adk-confirm audit show {id}` tells what it came to."
)
REVOKED = "Grant {id} is revoked. Calls like it ask again."
REVOCATION_WAITS = (
    "The revocation of grant {id} is stored. Votes that came before it are counted first; "
    "`adk-confirm audit show {id}` tells what it came to."
)
NOTHING_WAITS = "Nothing waits."
NOTHING_TO_RETRY = "Nothing stopped being tried."
TRIED_AGAIN = "{kind} {name} is tried again. It had stopped because: {trouble}"
NOTHING_TO_REAPPLY = "Every waiting confirmation is under the policies as the file has them."
RESTART = (
    "The service has other policies than this file, so new calls fall under those: let it read this file (--config), "
    "and look into its log for what it says of it."
)
LEFT = "{count} left as they were: mend what is said above, then run this again."
ANCHOR_UNREADABLE = "{path} can't be read as an anchor: {why}. Name the file that keeps the checkpoint lines."
OUTPUT_UNWRITABLE = "{path} can't be written: {why}. Name another file with --output."
FUTURE = "--before {text} is not past yet: only what is over can be purged. Write a day that has begun."
NO_JSON = '--args is no JSON object: {why}. Write for example --args \'{{"env": "prod"}}\'.'
NOT_SIGNED_IN = (
    "SLACK_BOT_TOKEN is not set, and whether they may still decide has to be asked in Slack: set it as the service "
    "has it."
)
EXPORTED = "{count} lines are in {path}."


def paused(since: datetime) -> str:
    return f"Runs are paused since {spelled(since)}. `adk-confirm resume` ends that."


def waits(one: Pending, now: datetime) -> Iterator[str]:
    """Three lines about one confirmation: what, for whom, since and until when."""
    again = " (what happened?)" if one.what == "outcome" else ""
    yield f"{one.id}  {visible(one.tool)}{again}  {json_text(one.arguments)}"
    votes = f"{len(one.votes)} of {one.quorum}" + (f" ({', '.join(one.votes)})" if one.votes else "")
    yield visible(f"    for {', '.join(one.approvers) or 'nobody'}; {votes}; asked by {one.asked_by} in {one.session}")
    left = one.until - now
    until = f"for another {roughly(left)}" if left.total_seconds() > 0 else "which is over, and will be told"
    yield f"    since {spelled(one.since)}, {roughly(now - one.since)} ago; until {spelled(one.until)}, {until}"


def parked(one: Parked) -> str:
    since = f" since {spelled(one.since)}" if one.since else ""
    what = "stopped being tried" if one.since else "is out of reach"
    return visible(f"{one.kind} {one.name} {what}{since}: {one.trouble}")


def reapplied(one: Reapplied, *, dry_run: bool) -> str:
    """What became, or would become, of one confirmation."""
    if one.trouble is not None:
        return visible(f"{one.id}  {one.tool}: left as it was; {one.trouble}")
    would = "would come" if dry_run else "came"
    end = "would be" if dry_run else "is"
    parts = [f"{would} under the file's policy" if one.why is None else one.why]
    if one.fell:
        fall = "would fall" if dry_run else "fell"
        parts.append(f"{'the votes' if len(one.fell) > 1 else 'the vote'} of {', '.join(one.fell)} {fall}")
    if one.state != "waiting":
        parts.append(f"it {end} {one.state}")
    return visible(f"{one.id}  {one.tool}: {'; '.join(parts)}")


def purged(what: Purged, before: datetime, *, dry_run: bool) -> Iterator[str]:
    verb = "would go" if dry_run else "went"
    if not what.any:
        yield f"Nothing is left to purge from before {spelled(before)}."
    else:
        yield f"From before {spelled(before)} {verb}: {what}."
    if what.kept:
        keep = "session is" if what.kept == 1 else "sessions are"
        yield f"{what.kept} {keep} still in use, and kept what {'it needs' if what.kept == 1 else 'they need'}."
    if not dry_run and what.any:
        yield "Messages in Slack, backups of the store and an agent's own server keep what they have: see to those too."
