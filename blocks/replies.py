"""Messages for one person alone, about something that they wrote in a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from blocks import words
from blocks.ids import Action, Ref
from blocks.kit import Message, actions, button, confirm, message
from blocks.rich import User, line, rich
from blocks.text import BUTTON, fit, plain

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
