"""A message that shows an agent's tool calls is drawn again when one of them changes."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"


def upgrade() -> None:
    op.add_column("bot_spoken", sa.Column("plan", sa.Text))
