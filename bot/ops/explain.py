"""`adk-confirm explain`: which policy governs a call, why the policies before it do not, and what follows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from blocks.values import spell_on_one_line
from bot.confirmation import decision_texts
from bot.confirmation.decision import open_confirmation
from bot.confirmation.edits import editable_names
from bot.confirmation.model import AskedCall, Confirmation, SessionKey
from bot.ops.names import NO_NAMES, KnownNames
from bot.policy.approvers import Approver, ApproverKind, Person
from bot.policy.durations import spell_duration
from bot.policy.model import CallFacts, GoverningPolicy, Policies, Policy, may_decide
from bot.policy.redaction import Redactor


def ids_in(policies: Policies, call: CallFacts) -> Iterator[str]:
    """The ids of people, groups and channels that an explanation names."""
    yield call.asker
    for policy in policies.entries:
        yield from (entry.value for entry in (*policy.approvers, *policy.escalate_to, *policy.barred))
        if policy.channel is not None:
            yield policy.channel


@dataclass(frozen=True)
class Explanation:
    lines: tuple[str, ...]
    governed: bool
    concerned: tuple[int, ...]
    """The policies for this tool. Warnings about others say nothing about the call."""


def explain(policies: Policies, call: CallFacts, names: KnownNames = NO_NAMES) -> Explanation:
    found = policies.resolve(call)
    last = found.index if found.index is not None else len(policies.entries)
    earlier = [
        f"policy[{index}] does not apply: {_why_not(policy, call)}"
        for index, policy in enumerate(policies.entries[:last])
    ]
    if not isinstance(found, GoverningPolicy):
        refused = ["The call would be refused at once, and nobody would be asked:", decision_texts.ungoverned(found)]
        return Explanation((*earlier, *refused), governed=False, concerned=_covering(policies, call))
    policy = found.policy
    said = [
        _governing(found, call),
        *(_who_answers if call.question else _who_decides)(policies, policy, call, names),
        *_when_words(policy),
        *_what_is_shown(policy, call, names),
    ]
    return Explanation((*earlier, *said), governed=True, concerned=_covering(policies, call))


def _covering(policies: Policies, call: CallFacts) -> tuple[int, ...]:
    return tuple(i for i, policy in enumerate(policies.entries) if policy.covers(call))


def _governing(found: GoverningPolicy, call: CallFacts) -> str:
    if found.index is None:
        return f"No policy is about this question, so it is for {call.asker}, who asked the agent."
    return (
        f"policy[{found.index}] applies to this {'question' if call.question else 'call'}{_conditions(found.policy)}."
    )


def _who_answers(policies: Policies, policy: Policy, call: CallFacts, names: KnownNames) -> Iterator[str]:
    barred = policies.barred(call)
    yield f"Who may answer: {_name_entries(may_decide(policy, escalated=False), barred, names)}."
    yield from _others(policy, barred, names)


def _others(policy: Policy, barred: tuple[Approver, ...], names: KnownNames) -> Iterator[str]:
    if policy.escalate_after is not None:
        added = _name_entries(policy.escalate_to, barred, names)
        yield f"After {spell_duration(policy.escalate_after)} also: {added}."
    if barred:
        yield f"May not, even if named above: {', '.join(names.of(str(entry)) for entry in barred)}."


def _why_not(policy: Policy, call: CallFacts) -> str:
    """The first of the policy's conditions that the call does not meet, in the order in which they are checked."""
    if not policy.covers(call):
        kind, names = ("inputs", policy.inputs) if policy.inputs else ("tools", policy.tools)
        return f"its {kind} are {', '.join(names)}"
    return f"its `when` is false: {policy.when}"


def _subject(policy: Policy) -> str:
    return f"inputs {', '.join(policy.inputs)}" if policy.inputs else f"tools {', '.join(policy.tools)}"


def _conditions(policy: Policy) -> str:
    conditions = [_subject(policy)]
    if policy.when is not None:
        conditions.append(f"when {policy.when}")
    return f" ({'; '.join(conditions)})"


def _who_decides(policies: Policies, policy: Policy, call: CallFacts, names: KnownNames) -> Iterator[str]:
    barred = policies.barred(call)
    people = "1 person has" if policy.quorum == 1 else f"{policy.quorum} people have"
    yield f"{people} to approve. One Deny is enough to stop it."
    yield f"Who may decide: {_name_entries(may_decide(policy, escalated=False), barred, names)}."
    yield from _others(policy, barred, names)
    yield from _requester(policy, call, names)


def _name_entries(entries: tuple[Approver, ...], barred: tuple[Approver, ...], names: KnownNames) -> str:
    """Says who may decide. Members of groups, addresses and functions are looked up only when a vote is counted."""
    left = [entry for entry in entries if entry not in barred]
    return "; ".join(f"{_HOW[entry.kind]}{names.of(entry.value)}" for entry in left) or "nobody: all are barred"


_HOW = {
    ApproverKind.USER: "",
    ApproverKind.GROUP: "members of the group ",
    ApproverKind.EMAIL: "the account with the address ",
    ApproverKind.PYTHON: "those whom this function names: ",
}


_HERE = {
    "both": "the thread of the session, and its channel shows it",
    "thread": "the thread of the session",
    "channel": "the channel of the session",
}


def _requester(policy: Policy, call: CallFacts, names: KnownNames) -> Iterator[str]:
    asker = f", {names.of(call.asker)} included" if call.asker else ""
    match policy.allow_requester:
        case True:
            yield "Who asked may approve too, if named above."
        case False:
            yield f"Nobody who spoke to the agent in the session may approve{asker}; they may deny."
        case "speakers":
            yield f"Who asked for it may not approve{asker}; others who spoke to the agent may."


def _when_words(policy: Policy) -> Iterator[str]:
    if policy.remind_after is not None:
        yield f"A reminder comes after {spell_duration(policy.remind_after)}."
    yield f"Without a decision it expires after {spell_duration(policy.expires_after)}."
    yield f"Once approved, it must start within {spell_duration(policy.start_within)}, or it does not run."


def _what_is_shown(policy: Policy, call: CallFacts, names: KnownNames) -> Iterator[str]:
    row = _hypothetical(policy, call)
    shown, hidden = row.redactor.mask_call(call.args)
    yield f"Arguments: {', '.join(f'{name} {spell_on_one_line(value)}' for name, value in shown.items()) or 'none'}."
    if hidden:
        yield f"Hidden everywhere: {hidden} value{'s' if hidden > 1 else ''}, by redact = {_bracketed(policy.redact)}."
    others = () if isinstance(policy.edit, bool) else policy.edit
    fields = [*editable_names(row), *(f"{name} (not in this call)" for name in others if name not in call.args)]
    masked = Redactor(policy.redact)
    yield f"May be edited: {', '.join(map(masked.mask_text, fields)) or 'nothing'}."
    if policy.long_running == "decide":
        yield "For a long-running tool they decide how the operation ends, once it has started."
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
    yield f"The card goes to {names.of(policy.channel) if policy.channel else _HERE[policy.card]}."
    if policy.notify:
        yield f"Notified in place of the approvers: {_bracketed(tuple(map(str, policy.notify)))}."
    if policy.dm:
        yield "Each approver also gets a direct message that leads to the card."
    if policy.shared_channels:
        yield "It may be posted in a channel that is shared with another company."


def _bracketed(names: tuple[str, ...]) -> str:
    return f"[{', '.join(names)}]"


def _hypothetical(policy: Policy, call: CallFacts) -> Confirmation:
    """The confirmation that the call would become, so that the same functions say what people may do with it."""
    asked = AskedCall(
        session=SessionKey(call.app, call.asker, call.session),
        request_id="explained",
        call_id="explained",
        tool=call.tool,
        arguments=call.args,
        agent=call.agent,
        asked_by=Person("", call.asker),
        team="",
        channel=call.channel,
    )
    return open_confirmation("explained", asked, policy, datetime.fromtimestamp(0, UTC)).row
