"""Adds indexes for `/metrics`: rows that are put off, rows that are parked, calls whose outcome is unknown."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    for table in ("bot_sessions", "bot_confirmations", "bot_replies", "bot_homes"):
        op.add_column(table, sa.Column("owed_since", sa.Double))
        _index(f"{table}_owed", table, "owed_since", "owed_since IS NOT NULL")
        _index(f"{table}_parked", table, "parked_at", "parked_at IS NOT NULL")
    _index("bot_confirmations_unknown", "bot_confirmations", "created", "outcome = 'unknown'")


def _index(name: str, table: str, column: str, where: str) -> None:
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))
