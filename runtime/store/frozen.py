"""Ends the transactions of frozen processes, so that they do not keep their locks from others."""

from __future__ import annotations

import logging

from sqlalchemy import text

from runtime.store.transaction import Tx

END_FROZEN = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = current_user
  AND application_name = current_setting('application_name') AND state = 'active' AND wait_event = 'ClientRead'
  AND clock_timestamp() - state_change > current_setting('idle_in_transaction_session_timeout')::interval
"""
"""asyncpg prepares a statement in two steps. If its client freezes between them, PostgreSQL does not count the
transaction as idle, and no other time-out ends it (`transaction_timeout` would, from version 17 on). So a process that
waits for its rows ends it."""

_log = logging.getLogger(__name__)


def end_frozen(tx: Tx) -> None:
    """Ends such transactions. For callers that skip locked rows; for those that wait for a lock, the store does it.
    PostgreSQL releases the locks soon after, so the caller should look at the rows again."""
    if tx.dialect == "postgresql":
        log_ended(tx.execute(text(END_FROZEN)).scalar_one())


def log_ended(number: object) -> None:
    if number:
        _log.warning("Ended %s transactions of frozen processes that held up others.", number)
