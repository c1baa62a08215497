"""Adds which apps have a desk, and the prefix of the session names that are reserved for it."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "runtime_desks",
        sa.Column("app", sa.String(256), primary_key=True),
        sa.Column("prefix", sa.String(64), nullable=False),
        sqlite_with_rowid=False,
    )
