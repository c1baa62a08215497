"""What a person sees after a click or a submit, in a window or as an ephemeral message."""

from __future__ import annotations

from blocks import words
from blocks.ids import Action, Callback, checked_id
from blocks.kit import JsonObject, Message, actions, button, message, modal
from blocks.ledger_kinds import Reason
from blocks.rich import Line, Prose, Quote, Say, TextSpan, call_name, code, join_list, line, name, rich, say
from blocks.step_views import Counted, VerdictView
from blocks.text import fit_visible


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
    state = words.STATES[view.face] if view.face else words.DECIDED
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
