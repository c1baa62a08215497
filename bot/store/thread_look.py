"""Reads what a thread's worker needs: what to post next, and what in the thread is not final. Transaction functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Concatenate, ParamSpec

from adk_confirm.bot.confirmation.model import Confirmation
from adk_confirm.bot.store.mailbox import read_session
from adk_confirm.bot.store.outbox import NextPost, copies_until, next_post
from adk_confirm.bot.store.repository import Session, now, session_confirmations
from adk_confirm.bot.store.slack_lanes import cards_under_way
from adk_confirm.runtime.store.database import Tx

P = ParamSpec("P")


@dataclass(frozen=True)
class ThreadLook:
    """A thread at one moment. `card_under_way`: a card of the session is about to be posted. `copies_until`: when
    something may have been posted that should not be there, or None."""

    at: datetime
    session: Session
    rows: tuple[Confirmation, ...]
    next_post: NextPost | None
    card_under_way: bool
    copies_until: float | None


def look_at_thread(tx: Tx, key: str) -> ThreadLook:
    return ThreadLook(
        at=now(tx),
        session=read_session(tx, key),
        rows=tuple(session_confirmations(tx, key)),
        next_post=next_post(tx, key),
        card_under_way=cards_under_way(tx, key),
        copies_until=copies_until(tx, key),
    )


def with_thread_look(change: Callable[Concatenate[Tx, str, P], None]) -> Callable[Concatenate[Tx, str, P], ThreadLook]:
    """Wraps a transaction function so that it also returns the thread as it is afterwards."""

    @wraps(change)
    def looked(tx: Tx, key: str, /, *args: P.args, **kwargs: P.kwargs) -> ThreadLook:
        change(tx, key, *args, **kwargs)
        return look_at_thread(tx, key)

    return looked
