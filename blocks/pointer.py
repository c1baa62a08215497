"""The line in a session's thread that links to a card elsewhere. The asker may not see that card, so they can withdraw
here."""

from __future__ import annotations

from collections.abc import Sequence

from blocks import words
from blocks.card import withdraw_button
from blocks.card_text import by
from blocks.content import headline
from blocks.kit import Message, actions, message
from blocks.rich import Channel, Line, Link, Prose, Say, User, When, call_name, line, name, rich, say
from blocks.text import prose
from blocks.view import CardView, Face


def pointer(view: CardView, *, channel: str | None, people: Sequence[str] = (), trouble: str | None = None) -> Message:
    """`channel`: where the card is. Without it, `people` got the card as a direct message. `trouble`: why it can't be
    posted."""
    tool = name(view.tool)
    call = tool if view.question else call_name(headline(view), view.tool)
    if trouble is not None:
        where = Channel(channel) if channel else words.DIRECT_MESSAGES
        sentence = line(words.POINTER_TROUBLE, call=call, where=where, why=prose(trouble, 300))
    elif channel is not None:
        link = (Say(words.DOT), Link(view.card_link, words.CARD)) if view.card_link else ()
        sentence = Line((*say(words.POINTER_CHANNEL, call=call, channel=Channel(channel)), *link))
    else:
        sentence = line(words.POINTER_PEOPLE, call=call, people=by(people))
    blocks = [rich([sentence], f"pointer.{view.id}.{view.version}")]
    if view.face is Face.WAITING and view.withdrawable and trouble is None:
        blocks += actions([withdraw_button(view)], f"withdraw.{view.id}.{view.version}")
    return message([sentence], *blocks)


def note(view: CardView) -> Message:
    """A direct message to an approver that links to the card."""
    asker = User(view.asked_by) if view.asked_by else words.SOMEBODY
    what = call_name(headline(view), view.tool)
    said = say(words.NOTE_QUESTION if view.question else words.NOTE, what=what, asker=asker, agent=Prose(view.agent))
    until = (Say(words.DOT), *say(words.UNTIL, when=When(view.expires_at))) if view.expires_at else ()
    link = (Say(words.DOT), Link(view.card_link, words.NOTE_LINK)) if view.card_link else ()
    sentence = Line((*said, *until, *link))
    return message([sentence], rich([sentence], f"note.{view.id}"))
