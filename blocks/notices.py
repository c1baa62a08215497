"""What one person sees, in a window or as an ephemeral message: after a click or a submit, and after a message that
the agent does not read at once."""

from __future__ import annotations

import re
from collections.abc import Sequence

from adk_confirm.blocks import words
from adk_confirm.blocks.call_details import headline
from adk_confirm.blocks.card import (
    able_now,
    confirm_withdraw,
    state_sentence,
    who_can,
    withdraw_button,
)
from adk_confirm.blocks.click_ids import Action, Callback, checked_id
from adk_confirm.blocks.home import decidable
from adk_confirm.blocks.kit import JsonObject, Message, actions, button, confirm, message, modal
from adk_confirm.blocks.ledger_kinds import LineKind, Reason
from adk_confirm.blocks.mentions import people_names
from adk_confirm.blocks.rich_text import (
    Box,
    Line,
    Prose,
    Say,
    TextSpan,
    User,
    call_name,
    code,
    join_list,
    line,
    name,
    say,
)
from adk_confirm.blocks.shown import OutcomeKind, Refusal, Shown, State, Verdict
from adk_confirm.blocks.text import BUTTON, fit, fit_visible, plain

NOT_POSSIBLE, TOO_LATE = "Not possible", "Too late"


def verdict_modal(call: Shown, made: Verdict, voter: str = "") -> JsonObject:
    why = made.refusal.reason if made.refusal else None
    answers = call.question or (call.stage is OutcomeKind.UNKNOWN and why is not Reason.REQUESTER)
    title = "Your answer" if answers else "Your vote"
    if why not in (None, Reason.ALREADY_VOTED):
        title = f"Not {title.lower()}" if why in _NOT_YOURS else TOO_LATE if why in _LATE else NOT_POSSIBLE
    return modal(Callback.SHOW, title, [*verdict_message(call, made, voter).blocks])


def verdict_message(call: Shown, made: Verdict, voter: str = "") -> Message:
    """The answer to a voter. A person who asked and therefore can't vote gets a button to withdraw the call."""
    own = made.refusal is not None and call.stage is State.WAITING and call.asked_by == voter
    row = actions([withdraw_button(call)], f"verdict.{call.id}") if own else []
    return message([verdict(call, made, voter)], "verdict", *row)


def notice_modal(sentence: str, title: str = NOT_POSSIBLE) -> JsonObject:
    """A window with one sentence, for example why no form opens or why nothing was done."""
    return modal(Callback.SHOW, title, [*notice_message(sentence).blocks])


def notice_message(sentence: str) -> Message:
    return message([Line((Prose(sentence),))], "verdict")


def agent_failure_message(retry: str, why: str | None) -> Message:
    """Says that the agent's turn failed: a sentence, what the agent said, and a button that tries again. `retry` is the
    letter's id."""
    pieces: list[Line | Box] = [line(words.AGENT_FAILED)]
    if why:
        pieces += [line(said) for code, said in words.CAUSES.items() if re.match(rf"{code}\d* [A-Z_]+\b", why)]
        pieces.append(Box(fit_visible(why, 600, 6, keep="\n").text))
    tell = line("If it happens again, tell whoever runs the agent.")
    row = actions([button(Action.RETRY, "Try again", checked_id(retry))], f"retry.{retry}")
    return message([*pieces, tell], f"failed.{retry}", *row)


def verdict(call: Shown, made: Verdict, voter: str) -> Line:
    """Whether the vote counts, and what to do next, in one or two sentences."""
    if made.refusal is not None:
        return Line(_refusal(call, made.refusal, voter))
    votes, tool = f"{made.votes} of {call.quorum}", name(call.tool)
    if call.question and made.kind in (LineKind.APPROVAL, LineKind.EDITED):
        return line("Your answer counts. {tool} gets it.", tool=tool)
    if made.kind is LineKind.EDITED and not made.votes:
        return line("You edited {tool}. The card has the new plan. Approve it there.", tool=tool)
    what, runs = _COUNTS.get(made.kind, ("approval", "runs"))
    last = f"Your {what} was the last one needed. {{call}} {runs}."
    template = _SAID.get(made.kind) or (last if made.decided else f"Your {what} counts: {{votes}}.")
    return line(template, call=tool if call.question else call_name(headline(call), call.tool), tool=tool, votes=votes)


_COUNTS = {LineKind.EDITED: ("edit", "runs as you edited it"), LineKind.RUN_AGAIN_VOTE: ("vote", "runs again")}
_SAID = {
    LineKind.DENIED: "You denied {call}. It won't run.",
    LineKind.WITHDRAWN: "You withdrew {call}. It won't run.",
    LineKind.SETTLED: "Noted. The agent learns what you said about {call}.",
    LineKind.GRANT_REVOKED: "Stopped. Calls of {tool} ask again.",
}


_CALL = {
    **{"decide": "decide", "act": "approve this", "approved": "approved this", "approve": "Approve"},
    **{"asked": "you asked for it", "unnamed": "you are not an approver"},
    "or_deny": " Whoever may decide can deny it.",
}
_QUESTION = {
    **{"decide": "answer", "act": "answer this", "approved": "answered", "approve": "Answer"},
    **{"asked": "the agent asks it on your behalf", "unnamed": "the policy does not name you", "or_deny": ""},
}
_UNKNOWN = {**_CALL, "decide": "answer", "act": "say whether it happened", "approved": "answered"}
_RUN_AGAIN = {**_UNKNOWN, "act": "vote to run this again"}  # whoever spoke may say how it ended
"""What a voter does, in `words.WHY`."""


def _refusal(call: Shown, refusal: Refusal, voter: str) -> tuple[TextSpan, ...]:
    """Why the vote does not count, and who can decide, from when, or what was decided."""
    names = [name(one) for one in refusal.fields[:10]]
    stage = refusal.state or call.stage
    why, called = refusal.reason, call_name(headline(call), call.tool)
    if why is Reason.TOO_LATE and stage == call.stage and stage not in (State.APPROVED, State.ELSEWHERE):
        if stage in (OutcomeKind.RUNNING, OutcomeKind.DONE, OutcomeKind.FAILED):
            ran, people = "You are too late: {call} ran already. Approved by {people}.", people_names(call.decided_by)
            return say(ran, call=called, people=people)
        return (*say(words.TOO_LATE, call=called), *state_sentence(call))
    acts = _QUESTION if call.question else _UNKNOWN if call.stage is OutcomeKind.UNKNOWN else _CALL
    acts = _RUN_AGAIN if acts is _UNKNOWN and why is Reason.REQUESTER else acts
    row = say(
        words.WHY[why],
        state=words.STATES[stage] if stage else "decided",
        fields=join_list(names) or "This",
        call=called,
        **acts,
    )
    if why is Reason.CANNOT_ASK and refusal.unresolved:
        row = (*say("{entry} could not be looked up.", entry=code(refusal.unresolved.what)), Say(" "), *row)
    if why is Reason.ALREADY_VOTED and call.stage is State.WAITING:
        missing = max(call.quorum - len(call.voted), 1)
        who = who_can(call, " answer" if call.question else " approve")
        more = f" It needs {missing} more {'person' if missing == 1 else 'people'}"
        row += (Say(f"{more}: "), *who, Say(".")) if who else (Say(f"{more}."),)
    if why not in _NOT_YOURS:
        return row
    still = ""
    if why is Reason.REQUESTER and voter in call.spoke and call.stage is State.WAITING:
        still = " You can still deny it."
    elif acts is _RUN_AGAIN:
        still = " You can still say whether it happened."
    return (*row, *_who_else(call, why, voter), *([Say(still)] if still else []))


def _who_else(call: Shown, why: Reason, voter: str) -> tuple[TextSpan, ...]:
    """After why the voter can't: ` @oncall can.`"""
    out = (voter, *call.spoke) if why is Reason.REQUESTER else (voter,)
    act = (" answer it" if call.question else " approve it") if why is Reason.NOT_APPROVER else ""
    if able_now(call, *out):
        return (Say(" "), *who_can(call, "", *out), Say("."))
    if later := who_can(call, "", *out):
        return (Say(f" Nobody can{act} yet: "), *later, Say("."))
    few = call.too_few_may and call.able
    nobody = f" {'Too few' if few else 'Nobody'} can{act}" if act or few else " Nobody else can either"
    return (Say(f"{nobody} until the policy file names more {'people' if call.question else 'approvers'}."),)


_NOT_YOURS = (Reason.NOT_APPROVER, Reason.REQUESTER, Reason.TURN_AUTHOR)
_LATE = (Reason.TOO_LATE, Reason.NOTHING_TO_SETTLE, Reason.NOTHING_TO_REVOKE, Reason.USED_UP)


_MOST = 5


def hint_message(bot: str, calls: Sequence[Shown] = ()) -> Message:
    """Says that the agent did not read a message. `calls`: those on which its writer may vote, perhaps with these
    words."""
    bars = any(call.speaking_bars for call in calls)
    template = words.REPLY_HINT if not calls else words.REPLY_HINT_BARS if bars else words.REPLY_HINT_VOTE
    items = [block for call in calls[:_MOST] for block in decidable(call, "hint", call.version)]
    return message([line(template, bot=User(bot))], "reply.hint", *items)


def spoke_message(calls: Sequence[Shown]) -> Message:
    """Tells somebody who spoke to the agent that they can't approve these calls any more."""
    named = join_list([call_name(headline(call), call.tool) for call in calls[:_MOST]])
    return message([line(words.SPOKE, calls=named)], "reply.spoke")


def queued_message(*, paused: bool) -> Message:
    said = line(
        "Runs are paused. The agent reads your message once they are resumed."
        if paused
        else "The agent is still at work. It reads your message next."
    )
    return message([said], "reply.queued")


def stop_message(calls: Sequence[Shown], person: str) -> Message:
    """A button for each call that this person can stop: they asked for it, or may deny it."""
    row = []
    for call in calls[:_MOST]:
        what, withdraws = headline(call), call.asked_by == person
        verb = words.WITHDRAW_OPENS if withdraws else words.DENY_OPENS
        label = verb if len(calls) == 1 else f"{verb} {plain(what, 60)}"
        sure = confirm(what, confirm_withdraw(call), words.WITHDRAW, "danger") if withdraws else None
        action = Action.WITHDRAW if withdraws else Action.DENY
        row.append(button(action, fit(label, BUTTON).text, call.ref.encode(), about=what, sure=sure))
    # Two buttons of one action can't stand in one block.
    blocks = [block for number, one in enumerate(row) for block in actions([one], f"reply.stop.{number}")]
    return message([line(words.STOP_IT)], "reply", *blocks)
