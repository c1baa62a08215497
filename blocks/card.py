"""The card: what will run, who may decide, and the buttons that can be used now. Always drawn as a whole from its
row. Where the card is elsewhere, a line leads to it; the asker may not see that card, so they can withdraw there."""

from __future__ import annotations

from collections.abc import Sequence

from blocks import words
from blocks.card_text import approval_status, by, confirm_withdraw, heading, notices, outcome, small_facts, title
from blocks.content import CARD, DrawnCall, asked_by_line, content, headline
from blocks.ids import Action, CardMark, Ref, block_id, checked_id, more_value
from blocks.kit import JsonObject, Message, actions, button, confirm, header, menu, message, small_print
from blocks.rich import (
    Channel,
    Line,
    Link,
    Prose,
    Say,
    User,
    When,
    beside_each_other,
    call_name,
    line,
    name,
    rich,
    say,
    text,
)
from blocks.text import MESSAGE_TEXT, prose
from bot.confirmation.model import OutcomeKind, State
from bot.confirmation.shown import Shown


def card(view: Shown) -> Message:
    """The message that shows a confirmation in one place."""
    what = content(view, CARD)
    became, cut = outcome(view, CARD)
    cut = cut or what.cut
    votes, wrong = approval_status(view), notices(view)
    small = small_facts(view) + [Line(say(note)) for note in _cut_note(view, what, cut)]
    ref = Ref(view.id, view.revision)

    def named(part: str) -> str:
        return block_id(part, ref, view.version)

    blocks = [header(heading(view), named("title"))]
    if became:
        blocks += [rich(became, named("outcome")), *small_print([asked_by_line(view)], named("asked"))]
    if what.intro:
        blocks.append(rich(what.intro, named("ask")))
    if what.arguments:
        beside = view.stage is not State.WAITING
        arguments = beside_each_other(what.arguments, words.DOT) if beside else what.arguments
        blocks.append(rich(arguments, named("what")))
    for part, pieces in (("votes", votes), ("notices", wrong)):
        if pieces:
            blocks.append(rich(pieces, named(part)))
    blocks += small_print(small, named("facts"))
    blocks += actions(buttons(view, blind=what.blind), named("buttons"))
    over = [asked_by_line(view)] if became else []
    head = [Line(title(view)), *became, *over, *what.intro]
    return Message(
        text=text(head, what.arguments, [*votes, *wrong, *small], MESSAGE_TEXT),
        blocks=tuple(blocks),
        metadata=CardMark(view.id, view.revision, view.version).metadata(),
    )


def _cut_note(view: Shown, what: DrawnCall, cut: bool) -> list[str]:
    if what.blind and view.stage is State.WAITING:
        return ["Shortened here. Approve… shows all of it first."]
    return ["Shortened here."] if cut else []


def buttons(view: Shown, *, blind: bool) -> list[JsonObject]:
    """The buttons that can be used now. Slack shows them to everybody; rights are checked when somebody presses one."""
    row: list[JsonObject] = [*decision_buttons(view, blind=blind)]
    if view.grant:
        row.append(revoke_button(view.grant.id, view.grant.tool))
    return [*row, more_menu(view, withdraw=view.stage is State.WAITING and view.withdrawable)]


def more_menu(view: Shown, *, withdraw: bool = False) -> JsonObject:
    """The entries of the "⋯" menu."""
    ref = Ref(view.id, view.revision)
    options = [("See everything", more_value(Action.SEE, ref))]
    options += [("Withdraw…", more_value(Action.WITHDRAW_OPEN, ref))] if withdraw else []
    return menu([*options, ("History", more_value(Action.HISTORY, ref))])


def decision_buttons(view: Shown, *, blind: bool) -> list[JsonObject]:
    """The buttons for approvers. Those that open a form end with "…"."""
    value = Ref(view.id, view.revision).encode()
    row: list[JsonObject] = []
    if view.stage is State.WAITING and view.question:
        row += [button(Action.APPROVE_OPEN, "Answer…", value, about=view.agent, style="primary")]
    elif view.stage is State.WAITING:
        row += [_approve(view, value, blind=blind)]
        row += [button(Action.DENY, words.DENY_OPENS, value, about=view.tool, style="danger")]
        if view.editable and not view.wants_payload:  # there, Approve opens the form
            row.append(button(Action.EDIT, "Edit…", value, about=view.tool))
    elif view.stage is OutcomeKind.UNKNOWN:
        row += _outcome_buttons(view, value, blind=blind)
    return row


def _approve(view: Shown, value: str, *, blind: bool) -> JsonObject:
    # It opens a view to show the whole call, to let people fill in a payload, or to offer a grant.
    if blind or view.wants_payload or view.grant_offer is not None:
        return button(Action.APPROVE_OPEN, "Approve…", value, about=view.tool, style="primary")
    sure = confirm(words.CONFIRM_APPROVE, words.APPROVE) if view.confirm_dialog else None
    return button(Action.APPROVE, words.APPROVE, value, about=view.tool, style="primary", sure=sure)


def withdraw_button(view: Shown) -> JsonObject:
    sure = confirm(confirm_withdraw(view), words.WITHDRAW, "danger")
    value = Ref(view.id, view.revision).encode()
    return button(Action.WITHDRAW, words.WITHDRAW, value, about=view.tool, sure=sure)


def revoke_button(grant: str, tool: str) -> JsonObject:
    sure = confirm(words.CONFIRM_REVOKE, words.REVOKE, "danger")
    return button(Action.REVOKE, words.REVOKE, checked_id(grant), about=tool, sure=sure)


def _outcome_buttons(view: Shown, value: str, *, blind: bool) -> list[JsonObject]:
    about = view.tool
    yes, no = confirm(words.CONFIRM_HAPPENED, words.HAPPENED), confirm(words.CONFIRM_NOT_HAPPENED, words.NOT_HAPPENED)
    again = confirm(words.CONFIRM_RUN_AGAIN, words.RUN_AGAIN, "danger")
    return [
        button(Action.HAPPENED, words.HAPPENED, value, about=about, sure=yes),
        button(Action.NOT_HAPPENED, words.NOT_HAPPENED, value, about=about, sure=no),
        button(Action.RUN_AGAIN_OPEN, "Run again…", value, about=about)
        if blind
        else button(Action.RUN_AGAIN, words.RUN_AGAIN, value, about=about, sure=again),
    ]


def pointer(view: Shown, *, channel: str | None, people: Sequence[str] = (), trouble: str | None = None) -> Message:
    """`channel`: where the card is. Without it, `people` got the card as a direct message. `trouble`: why it can't be
    posted."""
    tool = name(view.tool)
    call = tool if view.question else call_name(headline(view), view.tool)
    if trouble is not None:
        where = Channel(channel) if channel else words.DIRECT_MESSAGES
        sentence = line(
            "The card for {call} can't be posted in {where}: {why}", call=call, where=where, why=prose(trouble, 300)
        )
    elif channel is not None:
        link = (Say(words.DOT), Link(view.card_link, words.CARD)) if view.card_link else ()
        sentence = Line((*say("The card for {call} is in {channel}", call=call, channel=Channel(channel)), *link))
    else:
        sentence = line("The card for {call} went to {people} as a direct message.", call=call, people=by(people))
    blocks = [rich([sentence], f"pointer.{view.id}.{view.version}")]
    if view.stage is State.WAITING and view.withdrawable and trouble is None:
        blocks += actions([withdraw_button(view)], f"withdraw.{view.id}.{view.version}")
    return message([sentence], *blocks)


def note(view: Shown) -> Message:
    """A direct message to an approver that links to the card."""
    asker = User(view.asked_by) if view.asked_by else words.SOMEBODY
    what = call_name(headline(view), view.tool)
    said = say(
        "💬 {agent} has a question for you" if view.question else "⏳ {what}? {asker} needs your approval",
        what=what,
        asker=asker,
        agent=Prose(view.agent),
    )
    until = (Say(words.DOT), *say(words.UNTIL, when=When(view.expires_at))) if view.expires_at else ()
    link = (Say(words.DOT), Link(view.card_link, "Open the card")) if view.card_link else ()
    sentence = Line((*said, *until, *link))
    return message([sentence], rich([sentence], f"note.{view.id}"))
