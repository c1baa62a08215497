"""Adds separate queues for cards and threads, so that no decision and no run waits for Slack. An agent's message is
kept until it is posted."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    _lane(
        "bot_cards",
        sa.Column("confirmation", sa.String(64), primary_key=True),
        sa.Column("session", sa.String(512), nullable=False),
    )
    _lane("bot_threads", sa.Column("session", sa.String(512), primary_key=True))
    op.add_column("bot_spoken", sa.Column("body", sa.Text))
    op.add_column("bot_spoken", sa.Column("after_seq", sa.Integer))
    op.add_column("bot_spoken", sa.Column("number", sa.Integer))
    op.execute(
        "INSERT INTO bot_cards (confirmation, session, team, enterprise, due_at) "
        "SELECT id, session, team, enterprise, due_at FROM bot_confirmations WHERE due_at IS NOT NULL"
    )
    op.execute(
        "INSERT INTO bot_threads (session, team, enterprise, due_at) "
        "SELECT s.key, s.team, s.enterprise, s.created FROM bot_sessions s "
        "JOIN bot_chains c ON c.chain = s.key WHERE s.told_seq < c.seq"
    )


def _lane(name: str, *key: sa.Column[str]) -> None:
    op.create_table(
        name,
        *key,
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("enterprise", sa.String(32)),
        sa.Column("due_at", sa.Double),
        sa.Column("owed_since", sa.Double),
        sa.Column("parked_at", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("trouble", sa.Text),
        sa.Column("lease_token", sa.String(32)),
        sa.Column("lease_until", sa.Double),
    )
    for index, column in {
        "due": "due_at",
        "leased": "lease_token",
        "owed": "owed_since",
        "parked": "parked_at",
    }.items():
        held = sa.text(f"{column} IS NOT NULL")
        op.create_index(f"{name}_{index}", name, [column], sqlite_where=held, postgresql_where=held)
