"""Notes get colours: nullable, since replicas that know of none still write."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("notes", sa.Column("colour", sa.Text))
    op.create_index("notes_by_colour", "notes", ["colour"])
