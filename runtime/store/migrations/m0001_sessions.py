"""The first tables: sessions, their events, invocations, calls and requests, and the state that sessions share."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "runtime_sessions",
        sa.Column("key", KEY, primary_key=True, autoincrement=True),
        sa.Column("app", sa.String(256), nullable=False),
        sa.Column("user_id", sa.String(256), nullable=False),
        sa.Column("id", sa.String(256), nullable=False),
        sa.Column("opened_by", sa.String(16), nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("agent", sa.String(256), nullable=False),
        sa.Column("events", sa.Integer, nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        sa.Column("updated", sa.Double, nullable=False),
        sa.Column("lease_token", sa.String(32)),
        sa.Column("lease_until", sa.Double),
        sa.UniqueConstraint("app", "user_id", "id"),
    )
    op.create_table(
        "runtime_events",
        _session(),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runtime_invocations",
        _session(),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("agent", sa.String(256), nullable=False),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("status", sa.String(16), nullable=False),
        sqlite_with_rowid=False,
    )
    _partial_index("runtime_invocations_active", "runtime_invocations", ["session"], "status = 'active'")
    op.create_table(
        "runtime_calls",
        _session(),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("turn", sa.Integer, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", sa.Double, nullable=False),
        sa.Column("format", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("runtime_calls_turn", "runtime_calls", ["session", "turn"])
    _partial_index("runtime_calls_unknown", "runtime_calls", ["since"], "state = 'unknown'")
    op.create_table(
        "runtime_requests",
        _session(),
        sa.Column("id", sa.String(256), primary_key=True),
        sa.Column("call", sa.String(256), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "runtime_shared_state",
        sa.Column("app", sa.String(256), primary_key=True),
        sa.Column("user_id", sa.String(256), primary_key=True),
        sa.Column("state", sa.Text, nullable=False),
        sqlite_with_rowid=False,
    )


def _session() -> sa.Column[int]:
    return sa.Column("session", KEY, sa.ForeignKey("runtime_sessions.key", ondelete="CASCADE"), primary_key=True)


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
