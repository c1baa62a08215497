"""Adds an index of what waits, for whom and where; Home tabs that were opened; and an index of grants in force."""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

AT_ONCE = 500


def upgrade() -> None:
    _waiting()
    _homes()
    op.create_index("bot_confirmations_asked", "bot_confirmations", ["team", "asked_by", "created"])
    unrevoked = sa.text("revoked_at IS NULL")
    op.create_index("bot_grants_open", "bot_grants", ["until"], sqlite_where=unrevoked, postgresql_where=unrevoked)


def _waiting() -> None:
    waiting = op.create_table(
        "bot_waiting",
        sa.Column("team", sa.String(32), primary_key=True),
        sa.Column("whom", sa.String(320), primary_key=True),
        sa.Column("created", sa.Double, primary_key=True),
        sa.Column("confirmation", sa.String(64), primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_index("bot_waiting_confirmation", "bot_waiting", ["confirmation"])
    found = sa.text(
        "SELECT id, team, asked_by, created, body FROM bot_confirmations "
        "WHERE (state = 'waiting' OR outcome = 'unknown') AND id > :after ORDER BY id LIMIT :most"
    )
    after: str | None = ""
    while after is not None:
        rows = op.get_bind().execute(found, {"after": after, "most": AT_ONCE}).all()
        entries = [
            {"team": row.team, "whom": whom, "created": row.created, "confirmation": row.id}
            for row in rows
            for whom in _whom(row.asked_by, json.loads(row.body))
        ]
        if entries:
            op.bulk_insert(waiting, entries)
        after = rows[-1].id if len(rows) == AT_ONCE else None


def _whom(asked_by: str, row: dict[str, Any]) -> set[str]:
    """The entries in the index of what waits, for a row as it was stored when this migration was written."""
    policy = row["policy"]
    named = policy["approvers"] + (policy["escalate_to"] if row.get("escalated") else [])
    cards = [
        p["channel"] for p in row.get("places", []) if p["channel"] and not p.get("person") and not p.get("pointer")
    ]
    return {*named, *(f"channel:{channel}" for channel in cards), f"asker:{asked_by}"}


def _homes() -> None:
    op.create_table(
        "bot_homes",
        sa.Column("key", sa.String(96), primary_key=True),
        sa.Column("team", sa.String(32), nullable=False),
        sa.Column("enterprise", sa.String(32)),
        sa.Column("user_id", sa.String(32), nullable=False),
        sa.Column("opened_at", sa.Double, nullable=False),
        sa.Column("looked_at", sa.Double, nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("digest", sa.String(64)),
        sa.Column("hash", sa.String(128)),
        sa.Column("due_at", sa.Double),
        sa.Column("parked_at", sa.Double),
        sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
        sa.Column("trouble", sa.Text),
        sa.Column("lease_token", sa.String(32)),
        sa.Column("lease_until", sa.Double),
    )
    due = sa.text("due_at IS NOT NULL")
    op.create_index("bot_homes_due", "bot_homes", ["due_at"], sqlite_where=due, postgresql_where=due)
    op.create_index("bot_homes_opened", "bot_homes", ["opened_at"])
