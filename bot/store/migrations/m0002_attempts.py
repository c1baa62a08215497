"""Adds posts that were begun. After a crash the bot looks for such a post before it posts again."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "bot_attempts",
        sa.Column("scope", sa.String(512), primary_key=True),
        sa.Column("mark", sa.String(320), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("tries", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
