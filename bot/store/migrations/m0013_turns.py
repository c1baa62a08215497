"""Adds to each reply its person and its subject: people take turns, and get the newest reply about a confirmation."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("bot_replies", sa.Column("person", sa.String(96)))
    op.add_column("bot_replies", sa.Column("matter", sa.String(64)))
    due = sa.text("due_at IS NOT NULL")
    op.create_index("bot_replies_person", "bot_replies", ["person", "matter"], sqlite_where=due, postgresql_where=due)
