"""The first tables: sessions, mail, confirmations, the ledger with its guards, grants, replies, switches."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

SERIAL = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    _sessions()
    _confirmations()
    _ledger()
    _others()
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def _sessions() -> None:
    op.create_table(
        "bot_sessions",
        sa.Column("key", sa.String(512), primary_key=True),
        sa.Column("app", sa.String(256), nullable=False),
        sa.Column("user_id", sa.String(256), nullable=False),
        sa.Column("id", sa.String(256), nullable=False),
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("enterprise", sa.String(32)),
        sa.Column("channel", sa.String(32), nullable=False),
        sa.Column("thread_ts", sa.String(32), nullable=False),
        sa.Column("starter", sa.String(32), nullable=False),
        sa.Column("speakers", sa.Text, nullable=False),
        sa.Column("present", sa.Text, nullable=False),
        sa.Column("told_seq", sa.Integer, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        *_attended(),
        sa.UniqueConstraint("app", "id"),
    )
    _partial_index("bot_sessions_due", "bot_sessions", ["due_at"], "due_at IS NOT NULL")
    op.create_table(
        "bot_mail",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=True),
        _session(),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("mark", sa.String(256), nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("person", sa.String(32)),
        sa.Column("confirmation", sa.String(64)),
        sa.Column("stored_at", sa.Double, nullable=False),
        sa.Column("done_at", sa.Double),
        sa.UniqueConstraint("session", "mark"),
    )
    _partial_index("bot_mail_waiting", "bot_mail", ["session", "id"], "done_at IS NULL")
    op.create_table(
        "bot_spoken",
        _session(primary_key=True),
        sa.Column("event", sa.String(256), primary_key=True),
        sa.Column("ts", sa.String(32), nullable=False),
        sqlite_with_rowid=False,
    )


def _confirmations() -> None:
    op.create_table(
        "bot_confirmations",
        sa.Column("id", sa.String(64), primary_key=True),
        _session(),
        sa.Column("request_id", sa.String(256), nullable=False),
        sa.Column("call_id", sa.String(256), nullable=False),
        sa.Column("tool", sa.String(256), nullable=False),
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("asked_by", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("outcome", sa.String(16)),
        sa.Column("decided_at", sa.Double),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("created", sa.Double, nullable=False),
        *_attended(),
        sa.UniqueConstraint("session", "request_id"),
    )
    _partial_index("bot_confirmations_due", "bot_confirmations", ["due_at"], "due_at IS NOT NULL")
    _partial_index("bot_confirmations_open", "bot_confirmations", ["created"], "state = 'waiting'")


def _ledger() -> None:
    op.create_table(
        "bot_ledger",
        sa.Column("chain", sa.String(512), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("stamp", sa.String(40), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("confirmation", sa.String(64)),
        sa.Column("tool", sa.String(256)),
        sa.Column("content", sa.Text),
        sa.Column("salt", sa.String(64)),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("bot_ledger_confirmation", "bot_ledger", ["confirmation"])
    op.create_index("bot_ledger_at", "bot_ledger", ["at"])
    op.create_table(
        "bot_chains",
        sa.Column("chain", sa.String(512), primary_key=True),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "bot_checkpoints",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.String(40), nullable=False),
        sa.Column("heads", sa.Text, nullable=False),
        sa.Column("previous", sa.String(64), nullable=False),
        sa.Column("sealed", sa.String(64), nullable=False),
    )


def _others() -> None:
    op.create_table(
        "bot_grants",
        sa.Column("id", sa.String(64), primary_key=True),
        _session(),
        sa.Column("until", sa.Double, nullable=False),
        sa.Column("revoked_at", sa.Double),
        sa.Column("body", sa.Text, nullable=False),
    )
    op.create_index("bot_grants_session", "bot_grants", ["session"])
    op.create_table(
        "bot_replies",
        sa.Column("id", SERIAL, primary_key=True, autoincrement=True),
        sa.Column("vote", sa.String(64), nullable=False, unique=True),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("told_at", sa.Double),
        *_attended(),
    )
    op.create_index("ix_bot_replies_told_at", "bot_replies", ["told_at"])
    _partial_index("bot_replies_due", "bot_replies", ["due_at"], "due_at IS NOT NULL")
    op.create_table(
        "bot_switches",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )


def _session(*, primary_key: bool = False, nullable: bool = False) -> sa.Column[str]:
    key = sa.ForeignKey("bot_sessions.key")
    return sa.Column("session", sa.String(512), key, primary_key=primary_key, nullable=nullable)


def _attended() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("due_at", sa.Double),
        sa.Column("parked_at", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("trouble", sa.Text),
        sa.Column("lease_token", sa.String(32)),
        sa.Column("lease_until", sa.Double),
    )


def _partial_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


# The ledger only grows. The only change that it allows is a purge, which removes a line's content and salt together.

_KEPT = ("chain", "seq", "at", "stamp", "kind", "confirmation", "tool", "digest", "previous", "hash")
_SENTENCE = "the ledger is append-only"


def _guard_sqlite() -> None:
    same = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in _KEPT)
    op.execute(
        "CREATE TRIGGER bot_ledger_no_update BEFORE UPDATE ON bot_ledger "
        f"WHEN NOT ({same} AND NEW.content IS NULL AND NEW.salt IS NULL) "
        f"BEGIN SELECT RAISE(ABORT, '{_SENTENCE}'); END"
    )
    op.execute(
        f"CREATE TRIGGER bot_ledger_no_delete BEFORE DELETE ON bot_ledger BEGIN SELECT RAISE(ABORT, '{_SENTENCE}'); END"
    )
    # INSERT OR REPLACE deletes the old row without running any other trigger.
    op.execute(
        "CREATE TRIGGER bot_ledger_no_replace BEFORE INSERT ON bot_ledger "
        "WHEN EXISTS (SELECT 1 FROM bot_ledger WHERE chain = NEW.chain AND seq = NEW.seq) "
        f"BEGIN SELECT RAISE(ABORT, '{_SENTENCE}'); END"
    )


def _guard_postgresql() -> None:
    same = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in _KEPT)
    op.execute(
        "CREATE FUNCTION bot_ledger_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF TG_OP = 'UPDATE' AND {same} AND NEW.content IS NULL AND NEW.salt IS NULL THEN RETURN NEW; END IF; "
        f"RAISE EXCEPTION '{_SENTENCE}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER bot_ledger_guard BEFORE UPDATE OR DELETE ON bot_ledger "
        "FOR EACH ROW EXECUTE FUNCTION bot_ledger_guard()"
    )
    op.execute(
        "CREATE TRIGGER bot_ledger_no_truncate BEFORE TRUNCATE ON bot_ledger "
        "FOR EACH STATEMENT EXECUTE FUNCTION bot_ledger_guard()"
    )
