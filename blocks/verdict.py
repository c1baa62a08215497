"""What one person sees, in a window or as an ephemeral message: after a click or a submit, and after words that the
agent does not read at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blocks import words
from blocks.ids import Action, Callback, Ref, checked_id
from blocks.kit import JsonObject, Message, actions, button, confirm, message, modal
from blocks.ledger_kinds import Reason
from blocks.rich import Line, Prose, Quote, Say, TextSpan, User, call_name, code, join_list, line, name, rich, say
from blocks.step_views import Counted, VerdictView
from blocks.text import BUTTON, fit, fit_visible, plain


def verdict_modal(view: VerdictView) -> JsonObject:
    title = words.TITLE_YOUR_ANSWER if view.question else words.TITLE_YOUR_VOTE
    return modal(Callback.SHOW, title, [rich([verdict(view)], "verdict")])


def verdict_message(view: VerdictView) -> Message:
    return _message(verdict(view))


def notice_modal(sentence: str, title: str = words.TITLE_NOTICE) -> JsonObject:
    """A view with one sentence: why no form opens, why nothing was done, or that something is looked up."""
    return modal(Callback.SHOW, title, [rich([_sentence(sentence)], "notice")])


def notice_message(sentence: str) -> Message:
    return _message(_sentence(sentence))


def agent_failure_message(retry: str, why: str | None) -> Message:
    """The agent's turn failed: a sentence, what it said, and a button that tries again. `retry` is the mail's id."""
    pieces: list[Line | Quote] = [line(words.AGENT_FAILED)]
    if why:
        pieces.append(Quote(fit_visible(why, 600, 6, keep="\n").text))
    row = actions([button(Action.RETRY, words.RETRY, checked_id(retry))], f"retry.{retry}")
    return message(pieces, rich(pieces, f"failed.{retry}"), *row)


def verdict(view: VerdictView) -> Line:
    """Whether the vote counts, and what to do next, in one or two sentences."""
    if view.counted is Counted.REFUSED:
        return Line(_refusal(view))
    answered = view.question and view.counted in (Counted.APPROVED, Counted.EDITED)
    template = words.VERDICT_ANSWERED if answered else _TEMPLATES[view.counted][view.decided]
    call = call_name("" if view.question else view.what, view.tool)
    return line(template, call=call, tool=name(view.tool), votes=words.votes(view.votes, view.quorum))


_TEMPLATES = {
    Counted.APPROVED: (words.VERDICT_APPROVED, words.VERDICT_APPROVED_LAST),
    Counted.EDITED: (words.VERDICT_EDITED, words.VERDICT_EDITED_LAST),
    Counted.DENIED: (words.VERDICT_DENIED, words.VERDICT_DENIED),
    Counted.WITHDRAWN: (words.VERDICT_WITHDRAWN, words.VERDICT_WITHDRAWN),
    Counted.SETTLED: (words.VERDICT_SETTLED, words.VERDICT_SETTLED),
    Counted.RUN_AGAIN: (words.VERDICT_RUN_AGAIN, words.VERDICT_RUN_AGAIN_LAST),
    Counted.REVOKED: (words.VERDICT_REVOKED, words.VERDICT_REVOKED),
}


def _refusal(view: VerdictView) -> tuple[TextSpan, ...]:
    names = [name(one) for one in view.fields[:10]]
    state = words.STATES[view.stage] if view.stage else words.DECIDED
    why = view.why or Reason.CANNOT_ASK
    row = say(
        (words.WHY_QUESTION.get(why) if view.question else None) or words.WHY[why],
        state=state,
        revision=str(view.revision),
        fields=join_list(names) or words.THIS_FIELD,
    )
    if view.why is Reason.CANNOT_ASK and view.unresolved:
        entry = code(view.unresolved)
        row = (*say(words.UNRESOLVED_ENTRY, entry=entry), Say(" "), *row)
    return row


def _sentence(sentence: str) -> Line:
    return Line((Prose(sentence),))


def _message(said: Line) -> Message:
    return message([said], rich([said], "verdict"))


_MOST = 5


@dataclass(frozen=True, slots=True)
class Stoppable:
    """A call that waits. Its asker may withdraw it; whoever may decide can deny it."""

    ref: Ref
    what: str
    withdraws: bool


def hint_message(bot: str) -> Message:
    said = line(words.REPLY_HINT, bot=User(bot))
    return message([said], rich([said], "reply.hint"))


def queued_message(*, paused: bool) -> Message:
    said = line(words.REPLY_PAUSED if paused else words.REPLY_QUEUED)
    return message([said], rich([said], "reply.queued"))


def stop_message(calls: Sequence[Stoppable]) -> Message:
    """A button for each call that this person can stop."""
    said = line(words.REPLY_STOP)
    row = []
    for call in calls[:_MOST]:
        verb = words.WITHDRAW if call.withdraws else words.DENY_OPENS
        label = verb if len(calls) == 1 else words.REPLY_STOP_ONE.format(verb=verb, what=plain(call.what, 60))
        sure = confirm(words.CONFIRM_WITHDRAW, words.WITHDRAW, "danger") if call.withdraws else None
        action = Action.WITHDRAW if call.withdraws else Action.DENY
        row.append(button(action, fit(label, BUTTON).text, call.ref.encode(), about=call.what, sure=sure))
    # Two buttons of one action can't stand in one block.
    blocks = [block for number, one in enumerate(row) for block in actions([one], f"reply.stop.{number}")]
    return message([said], rich([said], "reply"), *blocks)
