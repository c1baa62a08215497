"""`adk-confirm reapply`: puts waiting calls under the policies that the file has now."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import click

from adk_confirm.blocks.text import visible
from adk_confirm.bot.audit.ledger import LineKind
from adk_confirm.bot.config.settings import Rules
from adk_confirm.bot.confirmation import decision_texts
from adk_confirm.bot.confirmation.authorise import Facts, Reason, Refusal, authorise
from adk_confirm.bot.confirmation.confirmation import Confirmation, State, Vote
from adk_confirm.bot.confirmation.decision import deny, step_of
from adk_confirm.bot.confirmation.edits import check_edit
from adk_confirm.bot.confirmation.states import Illegal, Step, Transition, next_version
from adk_confirm.bot.confirmation.votes import approve_if_enough, claim_of, drop_votes, refusal_without_asking
from adk_confirm.bot.ops.command import CommandLine, options
from adk_confirm.bot.ops.waiting import stored_confirmations
from adk_confirm.bot.policy.approvers import OPERATOR, Person, Unresolved
from adk_confirm.bot.policy.policies import CallRefusal, GoverningPolicy, Policies
from adk_confirm.bot.policy.redaction import own_words
from adk_confirm.bot.slack.calls import Slack
from adk_confirm.bot.slack.directory import Directory
from adk_confirm.bot.slack.own_identity import slack_client
from adk_confirm.bot.store.repository import (
    chain_of,
    find_session,
    lock_confirmation,
    now,
    save,
    session_is_sealed,
)
from adk_confirm.bot.store.sealed_rows import load
from adk_confirm.bot.worker.worker import PeopleLookup
from adk_confirm.runtime.jsontypes import JsonObject, texts
from adk_confirm.runtime.store.database import Database, Tx

_TIMES = 5

Found: TypeAlias = GoverningPolicy | CallRefusal


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@options(changes=True)
async def reapply(call: CommandLine, dry_run: bool) -> int:
    """Put waiting calls under the policies as they are in the file now.

    New calls come under a changed file at once. A call that waits stays under the policy that it was asked under,
    until you run this. An approval by somebody who may no longer decide stops counting. The exit code is 1 if a call
    could not be changed.
    """
    async with call.reading(sealed=True) if dry_run else call.changing() as database:
        policies = call.settings.policies
        # Slack is asked only if somebody has to be looked up. `_facts_in_turn` waits as long as Slack says.
        people = Directory(Slack(slack_client(call.settings)), Rules(policies))
        work = Reapplying(database, people, policies, call.person, call.reason, dry_run)
        rows = [row async for row in work.rows()]
    left = sum(row["trouble"] is not None for row in rows)
    lines = [reapplied_line(row, dry_run=dry_run) for row in rows]
    lines = lines or ["Every waiting call is already under the policies in the file."]
    lines += [f"{left} left as they were: fix what is said above, then run this again."] if left else []
    call.tell({"rows": [*rows]}, *lines)
    return 1 if left else 0


def reapplied_line(one: JsonObject, *, dry_run: bool) -> str:
    begins = f"{str(one['id'])[:8]}  {one['tool']}: "
    if one["trouble"] is not None:
        return visible(f"{begins}left as it was; {one['trouble']}")
    is_now, stop = ("would be", "would stop") if dry_run else ("is now", "stopped")
    parts = [f"{is_now} under the file's policy" if one["why"] is None else str(one["why"])]
    if fell := texts(one["fell"]):
        parts.append(f"the approval{'s' if len(fell) > 1 else ''} of {', '.join(fell)} {stop} counting")
    if one["state"] != State.WAITING:
        parts.append(f"it {is_now} {one['state']}")
    return visible(begins + "; ".join(parts))


@dataclass(frozen=True)
class Reapplying:
    """A run of the command. `by` and `reason` are for thread and audit; a dry run writes nothing."""

    database: Database
    people: PeopleLookup
    policies: Policies
    by: Person = OPERATOR
    reason: str | None = None
    dry_run: bool = False

    async def rows(self) -> AsyncIterator[JsonObject]:
        """Each waiting confirmation that these policies would treat differently."""
        async for stored in stored_confirmations(self.database, "c.state = 'waiting'"):
            row = await self.database.read(load, stored)
            if row is None:
                unread: JsonObject = {"id": stored.id, "tool": "?", "state": str(State.WAITING), "quorum": 0}
                yield {**unread, "fell": [], "why": None, "trouble": "somebody changed it in the database"}
            elif (done := await self._reapply(row)) is not None:
                yield done

    async def _reapply(self, row: Confirmation) -> JsonObject | None:
        for _ in range(_TIMES):
            found = await asyncio.to_thread(self.policies.resolve, row.asked.facts(row.revision.arguments))
            if _same_policy(row, found):
                return None
            facts = await self._facts_in_turn(row, found)
            # A vote ends because its author may not decide, never because Slack gave no answer just now.
            answers = (answer for one in facts.values() for answer in (one.account, *one.members.values()))
            unknown = next((answer for answer in answers if isinstance(answer, Unresolved)), None)
            if unknown is not None:
                return _report(row, trouble=f"{unknown.what} could not be looked up: {unknown.why}")
            work = self.database.read if self.dry_run else self.database.run
            done = await work(self._put_under, row, found, facts)
            if not isinstance(done, Confirmation):
                return _report(done.row, done.steps) if done is not None else None
            row = done  # it has changed or the facts are too old: once more
        return _report(row, trouble="people vote on it right now")

    async def _facts_in_turn(self, row: Confirmation, found: Found) -> dict[str, Facts]:
        """The facts about everybody who approved, under the policy that now covers the call. It waits as long as
        Slack's rate limit requires."""
        if not isinstance(found, GoverningPolicy):
            return {}
        for _ in range(_TIMES):
            rows = {vote.id: _before(_under_policy(row, found), vote) for vote in row.approvals}
            facts = {vote.id: await self.people.facts(rows[vote.id], vote, self.policies) for vote in row.approvals}
            pauses = [one.after for one in facts.values() if one.after is not None]
            if pauses:
                await asyncio.sleep(min(pauses))
                continue
            if self._are_fresh(row, found, facts):
                break
        return facts

    def _are_fresh(self, row: Confirmation, found: GoverningPolicy, facts: dict[str, Facts]) -> bool:
        """Replaces each of the `facts` with what the cache knows now. False if some are too old by now: while one
        person was looked up, or the store stood still, another may have left a group."""
        fresh = True
        for vote in row.approvals:
            before, late = _before(_under_policy(row, found), vote), "it took so long that the answer is too old"
            known = self.people.fresh_facts(before, vote, self.policies, facts[vote.id])
            facts[vote.id] = known or replace(facts[vote.id], account=Unresolved(vote.voter.user, late))
            fresh = fresh and known is not None
        return fresh

    def _put_under(
        self, tx: Tx, looked_at: Confirmation, found: Found, facts: dict[str, Facts]
    ) -> Transition | Confirmation | None:
        """Makes and returns the change. Returns the row, to try again, if it has changed, if the facts are too old by
        now, or if a vote is still to be counted. Returns None if the call no longer waits."""
        if self.dry_run:
            session, row = find_session(tx, chain_of(looked_at.asked.session)), looked_at
        else:
            session, row = lock_confirmation(tx, looked_at.id)
        if row.state is not State.WAITING or now(tx) >= row.deadline:
            return None
        if row != looked_at or row.pending_votes:  # a stored vote counts before anything that follows from the file
            return row
        if isinstance(found, GoverningPolicy) and not self._are_fresh(row, found, facts):
            return row
        speakers = session.speakers if session is not None else frozenset()
        known = session is not None and session_is_sealed(tx, session)
        said = {id_: replace(of, speakers=of.speakers | speakers, speakers_known=known) for id_, of in facts.items()}
        change = put_under(row, found, said, now(tx), self.policies, self.by, self.reason)
        if not self.dry_run:
            assert session is not None
            save(tx, session, change)
        return change


def _report(row: Confirmation, steps: Sequence[Step] = (), *, trouble: str | None = None) -> JsonObject:
    """What happened, or would happen, to one confirmation. `fell`: whose votes ended. `why`: if no policy covers the
    call any more. With `trouble`, nothing was changed."""
    named: JsonObject = {"id": row.id, "tool": row.asked.tool, "state": str(row.state), "quorum": row.policy.quorum}
    fell = [step.who.user for step in steps if step.kind is LineKind.VOTE_FELL and step.who is not None]
    why = next((step.text for step in steps if step.kind is LineKind.REAPPLIED), None)
    return {**named, "fell": [*fell], "why": why, "trouble": trouble}


# The change. Pure.


def put_under(
    row: Confirmation,
    found: Found,
    facts: Mapping[str, Facts],
    now: datetime,
    policies: Policies,
    by: Person = OPERATOR,
    reason: str | None = None,
) -> Transition:
    """Puts a waiting confirmation under the policy that was found for it.

    `facts` has an entry for each standing approval, by the vote's id. An approval ends if its author may not decide any
    more, or if nothing is known about them. If the votes left are enough, they decide. If no policy is left, nobody
    can.
    """
    if row.state is not State.WAITING:
        raise Illegal(row, "reapply")
    if _same_policy(row, found):
        return Transition(row=row)
    step = step_of(row, LineKind.REAPPLIED, now)
    if by != OPERATOR:
        step = replace(step, who=by, reason=own_words(reason) if reason else None)
    if not isinstance(found, GoverningPolicy):
        step = replace(step, text=own_words(decision_texts.ungoverned(found)))
        return deny(row, now, None, decision_texts.ungoverned_to_model(found)).after(step)
    row = next_version(_under_policy(row, found), now)
    step = replace(step, quorum=row.policy.quorum, until=row.deadline)
    lost: dict[str, Refusal] = {}
    for vote in row.approvals:
        known = facts.get(vote.id)
        ruling = authorise(row.policy, claim_of(row, vote), known) if known else Refusal(reason=Reason.CANNOT_ASK)
        before = _before(row, vote)
        refusal = refusal_without_asking(before, vote)
        ruling = refusal or (check_edit(before, vote.edit, policies) if vote.edit else None) or ruling
        if isinstance(ruling, Refusal):
            lost[vote.id] = ruling
    row, fallen = drop_votes(row, lost, now)
    in_time = now < row.deadline  # the file may now say that it is too late already
    return (approve_if_enough(row, now) if in_time else Transition(row=row)).after(step, *fallen)


def _before(row: Confirmation, vote: Vote) -> Confirmation:
    """The confirmation as it was when the vote came: without it, and without what its edit made."""
    revisions = tuple(one for one in row.revisions if one.number <= vote.revision)
    return replace(row, votes=tuple(other for other in row.votes if other.id != vote.id), revisions=revisions)


def _same_policy(row: Confirmation, found: Found) -> bool:
    return isinstance(found, GoverningPolicy) and found.policy.fingerprint == row.policy.fingerprint


def _under_policy(row: Confirmation, found: GoverningPolicy) -> Confirmation:
    """The row under another policy. Times count from when it was asked. People who were notified are not notified
    again. A grant that was given with a vote was for what the old policy offered."""
    old, new = row.policy, found.policy
    same_offer = (old.grant, old.grant_on, old.when) == (new.grant, new.grant_on, new.when)
    reminded = old.remind_after is not None and row.remind_at is None
    return replace(
        row,
        policy=new,
        votes=tuple(replace(vote, grant=vote.grant and same_offer) for vote in row.votes),
        deadline=row.asked_at + new.expires_after,
        remind_at=row.asked_at + new.remind_after if new.remind_after and not reminded else None,
        escalate_at=row.asked_at + new.escalate_after if new.escalate_after else None,
        escalated=row.escalated and old.escalate_to == new.escalate_to,
    )
