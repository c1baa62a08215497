"""Sends a person's message to the agent once more, after the agent failed on it."""

from __future__ import annotations

from enum import Enum

from adk_confirm.bot.policy.approvers import Person
from adk_confirm.bot.store.repository import lock_session, put_words
from adk_confirm.bot.store.rows import letter_is_sealed
from adk_confirm.runtime.store.database import Tx


class RetryResult(Enum):
    """What happened when a person asked the agent to try the same message again."""

    AGAIN = "again"
    NOT_YOURS = "not yours"
    GONE = "gone"


def say_again(tx: Tx, letter_id: int, person: Person) -> RetryResult:
    """Puts a person's message into the mailbox again. Its mark depends on the message, so that a second click adds
    nothing."""
    row = tx.first("SELECT * FROM bot_mail WHERE id = :id AND kind = 'words'", id=letter_id)
    if row is None or not letter_is_sealed(tx, row):
        return RetryResult.GONE
    session = lock_session(tx, row.session)
    if row.person != person.user or person not in session.speakers:
        return RetryResult.NOT_YOURS
    put_words(tx, session, mark=f"retry:{letter_id}", body=row.body, person=person)
    return RetryResult.AGAIN
