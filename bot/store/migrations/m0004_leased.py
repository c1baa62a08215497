"""Adds indexes of leased rows, so that a starting process can free the rows of dead processes without reading all."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    held = sa.text("lease_token IS NOT NULL")
    for table in ("bot_sessions", "bot_confirmations", "bot_replies", "bot_homes"):
        op.create_index(f"{table}_leased", table, ["lease_token"], sqlite_where=held, postgresql_where=held)
