"""Adds a fingerprint to each session: its place, who spoke there, and the last message that its agent got."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("bot_sessions", sa.Column("sealed", sa.String(64), nullable=False, server_default=""))
