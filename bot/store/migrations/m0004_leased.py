"""Rows that are leased, found without reading the table: a process that starts frees those of the dead."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    held = sa.text("lease_token IS NOT NULL")
    for table in ("bot_sessions", "bot_confirmations", "bot_replies", "bot_homes"):
        op.create_index(f"{table}_leased", table, ["lease_token"], sqlite_where=held, postgresql_where=held)
