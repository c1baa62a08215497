"""A piece of work on a session or a confirmation, followed from outside: its log lines name both, and it is a span of
the trace that began with the mention."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from blocks.ledger_lines import LINES
from bot.audit.ledger import SYSTEM, LedgerLine
from bot.config.rules import Rules
from bot.confirmation.model import Confirmation, SessionKey
from bot.store.batch_votes import cast_all
from bot.store.casting import Ballot, Cast, Known, cast, nothing_known
from bot.store.repository import session_in
from runtime.store.database import Database
from runtime.telemetry import tracing
from runtime.telemetry.logs import about

log = logging.getLogger("adk_confirm.ledger")


@contextmanager
def following(
    what: str,
    *,
    session: SessionKey | None = None,
    row: Confirmation | None = None,
    parent: str | None = None,
    **more: str | None,
) -> Iterator[tracing.Span]:
    """With a row it is a part of what that one was asked in."""
    parent = row.asked.trace if row else parent
    name = session or (row.asked.session if row else None)
    ids = {"session": name.id if name else None, "confirmation": row.id if row else None}
    traced = {f"adk_confirm__{key}": value for key, value in {**ids, **more}.items()}
    with about(**ids), tracing.span(f"adk_confirm.{what}", parent=parent, **traced) as span:
        yield span


async def followed_cast(database: Database, ballot: Ballot, rules: Rules, known: Known = nothing_known) -> Cast:
    """A vote, stored. The trace is told after: only then it is known which one it is, and nobody waits for it."""
    began = time.time_ns()
    done = await database.run(cast, ballot, rules, known)
    _tell(began, ballot, done)
    return done


async def followed_casts(database: Database, ballots: Sequence[Ballot], rules: Rules) -> None:
    """The same for several that were given together."""
    began = time.time_ns()
    for ballot, done in await database.run(cast_all, ballots, rules):
        _tell(began, ballot, done)


def log_line(fact: object) -> None:
    """Listens to the store: each line of the ledger, once it is committed, is a line of the log. What it holds stays
    in the store."""
    if isinstance(fact, LedgerLine):
        session = None if fact.chain == SYSTEM else session_in(fact.chain)
        with about(session=session, confirmation=fact.confirmation):
            alarm = LINES[fact.kind].alarm
            if alarm is None:
                log.info("%s (line %d of its chain)", fact.kind, fact.seq)
            else:
                log.error("%s (line %d of its chain): %s", fact.kind, fact.seq, alarm)


def _tell(began: int, ballot: Ballot, done: Cast) -> None:
    asked = done.row.asked
    tracing.past(
        "adk_confirm.click",
        began,
        parent=asked.trace,
        adk_confirm__session=asked.session.id,
        adk_confirm__confirmation=done.row.id,
        adk_confirm__vote=ballot.kind.value,
        adk_confirm__counted=done.settled and done.refusal is None,
    )
