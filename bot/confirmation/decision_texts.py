"""Texts about decisions, for the model and for the thread: refused calls, ends, and an agent that can't be reached.

Each says plainly what happened and what to do next. `blocks` writes the texts of cards, thread lines and refused votes,
from the same kinds and reasons.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta

from adk_confirm.bot.policy.durations import spell_duration
from adk_confirm.bot.policy.policies import CallRefusal, CallRefusalReason, policy_name
from adk_confirm.runtime.jsontypes import JsonObject, canonical

WITHDRAWN_TO_MODEL = "withdrawn by the person who asked; it did not run"
PREVIEW_CHANGED = "Its plan has changed since it was approved, so it did not start. Use the newer card."
CHANGED_BY_EDIT = "The edit changed its plan, so it did not start. Use the newer card."
ASKED_ANEW = "asked again; the newer request counts"
QUESTION_WITHDRAWN_TO_MODEL = "the question was withdrawn, so there is no answer"


def withdrawn_by_operator_to_model(reason: str | None) -> str:
    """
    >>> withdrawn_by_operator_to_model("wrong version")
    'withdrawn by an operator of this app (wrong version); it did not run'
    """
    why = f" ({reason})" if reason else ""
    return f"withdrawn by an operator of this app{why}; it did not run"


def expired_to_model(after: timedelta, *, question: bool) -> str:
    if question:
        return f"nobody answered within {spell_duration(after)}"
    return f"nobody decided within {spell_duration(after)}; it did not run"


def lapsed_to_model(within: timedelta) -> str:
    return f"it was approved, but did not start within {spell_duration(within)}; it did not run"


_ASK_LATER = "nobody was asked about this one. Call it again once some of them are decided"
_FULL = "Other calls of this turn may be refused too. Decide some that wait, then ask the agent again."


def ungoverned_to_model(found: CallRefusal) -> str:
    """Why nobody is asked, so clear that the model does not ask the same again."""
    match found.why:
        case CallRefusalReason.NO_POLICY:
            return "no policy covers this call, so nobody may approve it"
        case CallRefusalReason.NO_APPROVERS:
            return "the policy for this call names nobody who may approve it"
        case CallRefusalReason.WHEN_FAILED:
            return "the policies can't be applied to this call, so nobody may approve it"
        case CallRefusalReason.TOO_MANY_DENIALS:
            return "people denied this tool several times just now; don't ask again without new instructions"
        case CallRefusalReason.SESSION_FULL:
            return f"{found.detail} calls of this conversation wait for people already; {_ASK_LATER}"
        case CallRefusalReason.PERSON_FULL:
            return f"{found.detail} calls for the same person wait for people already; {_ASK_LATER}"
        case CallRefusalReason.SHARED_CHANNEL:
            return "this channel is shared with another company, where nothing may be approved"
        case CallRefusalReason.CHANNEL_UNKNOWN:
            return "Slack did not say who shares this channel, so nothing may be approved in it for now"
        case CallRefusalReason.NOBODY_TO_WRITE_TO:
            return "those who may approve this call can't be asked by direct message"
        case CallRefusalReason.MISFIT:
            return f"the tool does not take these arguments: {found.detail}. Call it with what it takes"
        case CallRefusalReason.NOT_TO_BE_SHOWN:
            return (
                f"this call can't be shown to anybody, so nobody may approve it: {found.detail} Send less in one call"
            )
        case CallRefusalReason.NOBODY_ASKED:
            return "it is not known who asked for this call, so nobody may approve it; wait for a new message"
        case CallRefusalReason.SESSION_CHANGED:
            return "this conversation was changed in the database, so nothing may be approved in it"


def ungoverned(found: CallRefusal) -> str:
    """Why nobody is asked, for people in the thread."""
    match found.why:
        case CallRefusalReason.NO_POLICY:
            return f"No policy covers it, so nobody was asked. {_KEEPER} add one."
        case CallRefusalReason.NO_APPROVERS:
            return f"Its policy names nobody who may approve it. {_KEEPER} add approvers."
        case CallRefusalReason.WHEN_FAILED:
            return f"Its policy has no answer for this call. {_KEEPER} mend it."
        case CallRefusalReason.TOO_MANY_DENIALS:
            return "It was denied too often within 10 minutes. Tell the agent what you want instead, or wait."
        case CallRefusalReason.SESSION_FULL:
            return f"{found.detail} calls wait in this conversation, and no more may (`waiting_per_session`). {_FULL}"
        case CallRefusalReason.PERSON_FULL:
            return f"{found.detail} calls of the same person wait, and no more may (`waiting_per_person`). {_FULL}"
        case CallRefusalReason.SHARED_CHANNEL:
            return "This channel is shared with another company. Ask in a channel of your own."
        case CallRefusalReason.CHANNEL_UNKNOWN:
            return "Slack did not say whether this channel is shared with another company. Try again in a minute."
        case CallRefusalReason.NOBODY_TO_WRITE_TO:
            return f"Nobody can be asked by direct message: {found.detail} Or ask the agent in a channel."
        case CallRefusalReason.MISFIT:
            return f"The tool does not take these arguments: {found.detail}. The agent was told, and can try again."
        case CallRefusalReason.NOT_TO_BE_SHOWN:
            return f"It can't be shown, so nobody can approve it. {found.detail} Ask the agent for less in one call."
        case CallRefusalReason.NOBODY_ASKED:
            return "It is not known who asked for it: no message here began it. Whoever wants it asks the agent again."
        case CallRefusalReason.SESSION_CHANGED:
            return (
                "It is not known who spoke here, because this conversation was changed in the database. "
                "Ask in a new thread."
            )


TOO_LONG = "The call is too long for a window in Slack."
PREVIEW_TOO_LONG = "Its plan is too long for a window in Slack."
ODD_NAME = "The tool's name is longer than 256 characters, or has characters that can't be stored."


_KEEPER = "Whoever keeps the policy file can"


def ungoverned_to_operator(found: CallRefusal) -> str:
    """Why nobody is asked, in `adk-confirm explain`, with how to change that."""
    policy = "The policy" if found.index is None else policy_name(found.index)
    match found.why:
        case CallRefusalReason.NO_POLICY:
            return "No policy covers this call. To allow approvals, add a [[policy]] for it."
        case CallRefusalReason.NO_APPROVERS:
            return f"{policy.capitalize()} names no approvers. To allow approvals, name some there."
        case CallRefusalReason.WHEN_FAILED:
            return f"The `when` of {policy} has no answer for this call: {found.detail}. Fix the expression."
    return ungoverned(found)


def wanted_otherwise_to_model(tool: str, amended: JsonObject) -> str:
    """What people want instead of a call that can't be changed, for the model."""
    return f"Not like this. Call {tool} again with these arguments changed: {canonical(amended)}"


def ask_anew(tool: str, call: str) -> str:
    """A person's message that makes the agent ask again. They send it unseen, so it has no words that an agent chose.

    >>> ask_anew("pay", "call-1")
    'Ask again for the call of pay with the id call-1.'
    """
    named = [f" of {tool}"] * bool(_NAME.fullmatch(tool)) + [f" with the id {call}"] * bool(_NAME.fullmatch(call))
    return f"Ask again for the call{''.join(named)}."


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


def held_back(tool: str, others: Sequence[str]) -> str:
    """A sentence for the thread about an approved call that waits for other decisions."""
    return f"{tool} runs once {' and '.join(others)} is decided: the agent takes the answers of one turn together."


UNREACHABLE = "The agent's server does not answer right now. We keep trying until it does."
MISCONFIGURED = "{why} Whoever runs this app has to mend that. We keep trying until then."
ON_ITS_WAY = (
    "The connection to the agent's server broke. We check whether our message arrived, and send it again only when it "
    "can no longer arrive."
)
UNREACHABLE_APPROVED = "The agent's server does not answer right now. We keep trying until the approval expires."
"""For the thread, when something can't be sent to the agent."""

ALTERED = (
    "What is stored is not what was approved: somebody changed the database. Nothing ran. "
    "Run `adk-confirm audit verify` to check the ledger."
)
BESIDE_ALTERED = (
    "Another call of this turn is not the one that was approved, and the agent takes the answers of one turn together. "
    "Nothing was sent."
)
ALTERED_TO_MODEL = "what was stored is not what was approved, so it did not run"
