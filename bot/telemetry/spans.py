"""Traces and log lines of work on a session or a confirmation. The log lines name both; the spans belong to the trace
that began with the mention."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from adk_confirm.blocks.shown_lines import LINES
from adk_confirm.bot.audit.ledger import SYSTEM, LedgerLine
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.store.cast_vote import CastResult, SubmittedVote
from adk_confirm.bot.store.repository import session_in
from adk_confirm.runtime.telemetry import tracing
from adk_confirm.runtime.telemetry.logs import log_context
from adk_confirm.runtime.wire import SessionId

log = logging.getLogger("adk_confirm.ledger")


@contextmanager
def work_span(
    what: str,
    *,
    session: SessionId | None = None,
    row: Confirmation | None = None,
    parent: str | None = None,
    **more: str | None,
) -> Iterator[tracing.Span]:
    """A span with log lines. With a row, the span belongs to the trace in which the row was asked for."""
    parent = row.asked.trace if row else parent
    name = session or (row.asked.session if row else None)
    ids = {"session": name.id if name else None, "confirmation": row.id if row else None}
    traced = {f"adk_confirm__{key}": value for key, value in {**ids, **more}.items()}
    with log_context(**ids), tracing.span(f"adk_confirm.{what}", parent=parent, **traced) as span:
        yield span


def log_line(fact: object) -> None:
    """Listens to the store and logs each line of the ledger once it is committed, without its content."""
    if isinstance(fact, LedgerLine):
        session = None if fact.chain == SYSTEM else session_in(fact.chain)
        with log_context(session=session, confirmation=fact.confirmation):
            alarm, fields = LINES[fact.kind].alarm, {"step": str(fact.kind), "line": fact.seq}
            if alarm is None:
                log.info("%s (line %d of its chain)", fact.kind, fact.seq, extra=fields)
            else:
                log.error("%s (line %d of its chain): %s", fact.kind, fact.seq, alarm, extra=fields)


def trace_vote(began: int, ballot: SubmittedVote, done: CastResult) -> None:
    """A span for a stored vote, from `began` (`time.time_ns`) until now: its trace is known only now."""
    asked = done.row.asked
    tracing.record_span(
        "adk_confirm.click",
        began,
        parent=asked.trace,
        adk_confirm__session=asked.session.id,
        adk_confirm__confirmation=done.row.id,
        adk_confirm__vote=ballot.kind.value,
        adk_confirm__counted=done.counted and done.refusal is None,
    )
