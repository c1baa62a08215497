"""Adds the sealed head of each chain, so that chains that need a checkpoint are found without reading the others."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("bot_chains", sa.Column("sealed_hash", sa.String(64), nullable=False, server_default=sa.text("''")))
    moved = sa.text("hash != sealed_hash")
    op.create_index("bot_chains_moved", "bot_chains", ["chain"], sqlite_where=moved, postgresql_where=moved)
