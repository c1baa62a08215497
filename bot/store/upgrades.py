"""What brings a store of an earlier release up to date: a function for each version, in order, in one transaction.

A store that a release left is kept for the tests: `tests/bot/store/upgrades`.
"""

from __future__ import annotations

from adk_confirm.bot.store.rows import letter_is_sealed, letter_seal
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Tx


def _list_turns(tx: Tx) -> None:
    """A letter names all invocations that it began, as JSON, and no longer the first alone."""
    if tx.dialect == "postgresql":
        tx.run("ALTER TABLE bot_mail ALTER COLUMN turn TYPE TEXT")
    for letter in tx.all("SELECT * FROM bot_mail WHERE turn IS NOT NULL"):
        if letter_is_sealed(tx, letter) and not letter.turn.startswith("["):
            turns = canonical([letter.turn])
            sealed = letter_seal(tx, {**letter._asdict(), "turn": turns})
            tx.run(
                "UPDATE bot_mail SET turn = :t, sealed = :sealed WHERE id = :id", id=letter.id, t=turns, sealed=sealed
            )


UPGRADES = (_list_turns,)
