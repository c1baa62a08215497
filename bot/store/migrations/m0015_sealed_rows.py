"""Adds a fingerprint to each stored confirmation, bound to its last ledger line, and to each letter."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("bot_confirmations", sa.Column("sealed", sa.String(64), nullable=False, server_default=""))
    op.add_column("bot_mail", sa.Column("sealed", sa.String(64), nullable=False, server_default=""))
