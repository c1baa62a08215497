"""The runtime's tables. JSON is text in them: a database's own JSON types rewrite numbers and refuse `\\u0000`."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData()

# SQLite generates keys only for columns of type INTEGER.
_KEY = BigInteger().with_variant(Integer, "sqlite")


def partial_index(name: str, *columns: Column[Any], where: ColumnElement[bool]) -> None:
    """An index over those rows only. PostgreSQL's condition is set when the tables are created, since SQLAlchemy would
    load its dialect for it: 40 ms of CPU at each start, on SQLite too."""
    Index(name, *columns, sqlite_where=where, info={"where": where})


def lease_columns() -> tuple[Column[str], Column[float]]:
    """The columns for a table whose rows are leased."""
    return Column("lease_token", String(32)), Column("lease_until", Double)


def _session_key() -> Column[int]:
    return Column("session", _KEY, ForeignKey("runtime_sessions.key", ondelete="CASCADE"), primary_key=True)


sessions = Table(
    "runtime_sessions",
    metadata,
    Column("key", _KEY, primary_key=True, autoincrement=True),
    Column("app", String(256), nullable=False),
    Column("user_id", String(256), nullable=False),
    Column("id", String(256), nullable=False),
    Column("opened_by", String(16), nullable=False),  # who may write to it: "anyone", or only the "desk"
    Column("state", Text, nullable=False),
    Column("agent", String(256), nullable=False),  # the agent that has the conversation now
    Column("events", Integer, nullable=False),  # the number of events
    Column("turn", Integer, nullable=False),  # the number of the last turn
    Column("version", Integer, nullable=False),  # grows with every write
    Column("created", Double, nullable=False),
    Column("updated", Double, nullable=False),
    *lease_columns(),
    UniqueConstraint("app", "user_id", "id"),
)

events = Table(
    "runtime_events",
    metadata,
    _session_key(),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("body", Text, nullable=False),
    sqlite_with_rowid=False,
)

invocations = Table(
    "runtime_invocations",
    metadata,
    _session_key(),
    Column("id", String(256), primary_key=True),
    Column("agent", String(256), nullable=False),  # whose model is asked next
    Column("turn", Integer, nullable=False),  # its latest turn; 0 before the first
    Column("status", String(16), nullable=False),
    sqlite_with_rowid=False,
)
partial_index(
    "runtime_invocations_active",
    invocations.c.session,
    where=invocations.c.status == "active",
)

calls = Table(
    "runtime_calls",
    metadata,
    _session_key(),
    Column("id", String(256), primary_key=True),
    Column("turn", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("since", Double, nullable=False),
    Column("body", Text, nullable=False),
    Column("sealed", String(64), nullable=False),  # `seal.py`; empty without a secret
    sqlite_with_rowid=False,
)
Index("runtime_calls_turn", calls.c.session, calls.c.turn)
partial_index(
    "runtime_calls_unknown",
    calls.c.since,
    where=calls.c.state == "unknown",
)

requests = Table(
    "runtime_requests",
    metadata,
    _session_key(),
    Column("id", String(256), primary_key=True),
    Column("call", String(256), nullable=False),
    sqlite_with_rowid=False,
)

shared_state = Table(
    "runtime_shared_state",
    metadata,
    Column("app", String(256), primary_key=True),
    Column("user_id", String(256), primary_key=True),  # empty: the whole app's
    Column("state", Text, nullable=False),
    sqlite_with_rowid=False,
)

desks = Table(
    "runtime_desks",
    metadata,
    Column("app", String(256), primary_key=True),
    Column("prefix", String(64), nullable=False),  # names that begin with it are the desk's
    sqlite_with_rowid=False,
)
