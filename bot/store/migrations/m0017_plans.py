"""Adds plans: messages that show an agent's tool calls, and are drawn again when one of the calls changes."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("bot_spoken", sa.Column("plan", sa.Text))
