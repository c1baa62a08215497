"""`adk-confirm explain`: which policy a call would fall under, why none before it, and what that means. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from blocks.values import quick
from bot.audit.fingerprint import Seal
from bot.confirmation import words
from bot.confirmation.decision import open_confirmation
from bot.confirmation.edits import editable
from bot.confirmation.model import AskedCall, Confirmation, SessionKey
from bot.policy.approvers import Approver, ApproverKind, Person
from bot.policy.durations import spell_duration
from bot.policy.model import CallFacts, Governs, Policies, Policy, may_decide
from bot.policy.redaction import Redactor


@dataclass(frozen=True)
class Explanation:
    lines: tuple[str, ...]
    governed: bool


def explain(policies: Policies, call: CallFacts) -> Explanation:
    found = policies.resolve(call)
    last = found.index if found.index is not None else len(policies.entries)
    earlier = [f"policy[{index}] no: {_why_not(policy, call)}" for index, policy in enumerate(policies.entries[:last])]
    if not isinstance(found, Governs):
        refused = ["The call would be refused to the agent at once, and nobody asked:", words.ungoverned(found)]
        return Explanation((*earlier, *refused), governed=False)
    policy = found.policy
    said = [
        _governing(found, call),
        *(_who_answers(policies, policy, call) if call.question else _who(policies, policy, call)),
        *_when(policy),
        *_what(policy, call),
    ]
    return Explanation((*earlier, *said), governed=True)


def _governing(found: Governs, call: CallFacts) -> str:
    if found.index is None:
        return f"No policy is about this question, so it is for {call.asker}, who asked the agent."
    return f"policy[{found.index}] governs this {'question' if call.question else 'call'}{_by(found.policy)}."


def _who_answers(policies: Policies, policy: Policy, call: CallFacts) -> Iterator[str]:
    barred = policies.barred(call)
    yield f"Who may answer: {_named(may_decide(policy, escalated=False), barred)}."
    if policy.escalate_after is not None:
        yield f"After {spell_duration(policy.escalate_after)} also: {_named(policy.escalate_to, barred)}."
    if barred:
        yield f"Barred, whatever else names them: {', '.join(map(str, barred))}."


def _why_not(policy: Policy, call: CallFacts) -> str:
    """The first of its conditions that the call does not meet, in the order in which they are asked."""
    if policy.team not in (None, call.team, call.enterprise):
        return f"it is for the workspace {policy.team}, and the call is {_in(call.team)}"
    if not policy.covers(call):
        kind, names = ("inputs", policy.inputs) if policy.inputs else ("tools", policy.tools)
        return f"its {kind} are {', '.join(names)}"
    return f"its `when` is false: {policy.when}"


def _about(policy: Policy) -> str:
    return f"inputs {', '.join(policy.inputs)}" if policy.inputs else f"tools {', '.join(policy.tools)}"


def _in(team: str) -> str:
    return f"in {team}" if team else "in none that was named; name one with --team"


def _by(policy: Policy) -> str:
    conditions = [_about(policy)]
    if policy.when is not None:
        conditions.append(f"when {policy.when}")
    if policy.team is not None:
        conditions.append(f"team {policy.team}")
    return f" ({'; '.join(conditions)})"


def _who(policies: Policies, policy: Policy, call: CallFacts) -> Iterator[str]:
    barred = policies.barred(call)
    people = "1 person has" if policy.quorum == 1 else f"{policy.quorum} people have"
    yield f"{people} to approve; one Deny decides."
    yield f"Who may decide: {_named(may_decide(policy, escalated=False), barred)}."
    if policy.escalate_after is not None:
        added = _named(policy.escalate_to, barred)
        yield f"After {spell_duration(policy.escalate_after)} also: {added}."
    if barred:
        yield f"Barred, whatever else names them: {', '.join(map(str, barred))}."
    yield from _requester(policy, call)


def _named(entries: tuple[Approver, ...], barred: tuple[Approver, ...]) -> str:
    """Who is behind a group, an address or a function is only known when a vote is counted."""
    left = [entry for entry in entries if entry not in barred]
    return "; ".join(f"{_HOW[entry.kind]} {entry.value}" for entry in left) or "nobody, as all of them are barred"


_HOW = {
    ApproverKind.USER: "the user",
    ApproverKind.GROUP: "whoever is then in the group",
    ApproverKind.EMAIL: "whoever then has the address",
    ApproverKind.PYTHON: "whoever is then named by",
}


def _requester(policy: Policy, call: CallFacts) -> Iterator[str]:
    asker = f", {call.asker} included" if call.asker else ""
    match policy.allow_requester:
        case True:
            yield "Who asked may approve too, if named above."
        case False:
            yield f"Nobody who spoke to the agent in the session may approve{asker}; they may deny."
        case "speakers":
            yield f"Who asked for it may not approve{asker}; others who spoke to the agent may."


def _when(policy: Policy) -> Iterator[str]:
    if policy.remind_after is not None:
        yield f"A reminder comes after {spell_duration(policy.remind_after)}."
    yield f"Without a decision it expires after {spell_duration(policy.expires_after)}."
    yield f"Once approved, it must begin within {spell_duration(policy.start_within)}, else it lapses."


def _what(policy: Policy, call: CallFacts) -> Iterator[str]:
    row = _as_asked(policy, call)
    shown, hidden = row.redactor.mask_object(call.args)
    yield f"Arguments: {', '.join(f'{name} {quick(value)}' for name, value in shown.items()) or 'none'}."
    if hidden:
        yield f"Hidden everywhere: {hidden} value{'s' if hidden > 1 else ''}, by redact = {_listed(policy.redact)}."
    fields = editable(row)
    masked = Redactor(policy.redact)
    yield f"May be edited: {', '.join(map(masked.mask_text, fields)) or 'nothing'}."
    if policy.deny_reason == "required":
        yield "A Deny needs a reason."
    if policy.max_denials is not None:
        yield f"After {policy.max_denials} denials of this tool in a session within 10 minutes, nobody is asked."
    if policy.grant is not None:
        terms = policy.grant
        length = "the session" if terms.length == "session" else spell_duration(terms.length)
        length += f", {terms.uses} at most" if terms.uses else ""
        on = "all arguments" if policy.grant_on is None else ", ".join(policy.grant_on) or "no argument"
        yield f'Approvers may let "the next ones like this" pass for {length}; alike means the same {on}.'
    yield f"The card goes to {policy.channel or 'the thread of the session'}."
    if policy.shared_channels:
        yield "It may stand in a channel that is shared with another company."


def _listed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(names)}]"


def _as_asked(policy: Policy, call: CallFacts) -> Confirmation:
    """The confirmation that the call would become: what may be done with one is asked of one, here as there."""
    asked = AskedCall(
        session=SessionKey(call.app, call.asker, call.session),
        request_id="explained",
        call_id="explained",
        tool=call.tool,
        arguments=call.args,
        agent=call.agent,
        asked_by=Person(call.team, call.asker),
        team=call.team,
        channel=call.channel,
    )
    return open_confirmation("explained", asked, policy, Seal("explained", "call"), datetime.fromtimestamp(0, UTC)).row
