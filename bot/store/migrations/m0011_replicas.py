"""Adds the replicas that are alive, because they share Slack's rate limits."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "bot_replicas",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("alive_until", sa.Double, nullable=False),
    )
