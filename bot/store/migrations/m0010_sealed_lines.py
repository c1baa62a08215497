"""Adds a fingerprint to every ledger line. From now on the database refuses lines without one."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0007"

_KEPT = ("chain", "seq", "at", "stamp", "kind", "confirmation", "tool", "digest", "previous", "hash", "sealed")
_APPEND_ONLY = "the ledger is append-only"
_UNSEALED = "a ledger line needs its seal: whatever writes this is of an older version, and has to be stopped"


def upgrade() -> None:
    op.add_column("bot_ledger", sa.Column("sealed", sa.String(64)))
    if op.get_bind().dialect.name == "sqlite":
        _guard_sqlite()
    else:
        _guard_postgresql()


def _guard_sqlite() -> None:
    same = " AND ".join(f"NEW.{name} IS OLD.{name}" for name in _KEPT)
    op.execute("DROP TRIGGER IF EXISTS bot_ledger_no_update")
    op.execute(
        "CREATE TRIGGER bot_ledger_no_update BEFORE UPDATE ON bot_ledger "
        f"WHEN NOT ({same} AND NEW.content IS NULL AND NEW.salt IS NULL) "
        f"BEGIN SELECT RAISE(ABORT, '{_APPEND_ONLY}'); END"
    )
    op.execute(
        "CREATE TRIGGER bot_ledger_sealed BEFORE INSERT ON bot_ledger WHEN NEW.sealed IS NULL "
        f"BEGIN SELECT RAISE(ABORT, '{_UNSEALED}'); END"
    )


def _guard_postgresql() -> None:
    same = " AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in _KEPT)
    op.execute(
        "CREATE OR REPLACE FUNCTION bot_ledger_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF TG_OP = 'UPDATE' AND {same} AND NEW.content IS NULL AND NEW.salt IS NULL THEN RETURN NEW; END IF; "
        f"RAISE EXCEPTION '{_APPEND_ONLY}'; END $$"
    )
    op.execute(
        "CREATE FUNCTION bot_ledger_sealed() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF NEW.sealed IS NOT NULL THEN RETURN NEW; END IF; RAISE EXCEPTION '{_UNSEALED}'; END $$"
    )
    op.execute(
        "CREATE TRIGGER bot_ledger_sealed BEFORE INSERT ON bot_ledger FOR EACH ROW EXECUTE FUNCTION bot_ledger_sealed()"
    )
