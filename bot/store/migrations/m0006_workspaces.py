"""Adds workspaces: where the app is installed, and the workspace of each row that is shown in Slack.

The first three tables are those of slack_sdk's SQLAlchemy stores, with room for encrypted tokens.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"

AT_ONCE = 500


def upgrade() -> None:
    _installations()
    op.add_column("bot_confirmations", sa.Column("enterprise", sa.String(32)))
    op.add_column("bot_replies", sa.Column("team", sa.String(32)))
    op.add_column("bot_replies", sa.Column("enterprise", sa.String(32)))
    op.execute(
        "UPDATE bot_confirmations SET enterprise = "
        "(SELECT enterprise FROM bot_sessions WHERE bot_sessions.key = bot_confirmations.session)"
    )
    _replies()


def _installations() -> None:
    op.create_table(
        "bot_installed",
        *_where(),
        *_bot(),
        sa.Column("is_enterprise_install", sa.Boolean, nullable=False),
        sa.Column("installed_at", sa.DateTime, nullable=False),
    )
    op.create_index("bot_installed_idx", "bot_installed", ["client_id", "enterprise_id", "team_id", "installed_at"])
    op.create_table(
        "bot_installations",
        *_where(),
        sa.Column("enterprise_url", sa.String(200)),
        *_bot(),
        sa.Column("user_id", sa.String(32), nullable=False),
        sa.Column("user_token", sa.Text),
        sa.Column("user_scopes", sa.String(1000)),
        sa.Column("user_refresh_token", sa.Text),
        sa.Column("user_token_expires_at", sa.DateTime),
        sa.Column("incoming_webhook_url", sa.Text),
        sa.Column("incoming_webhook_channel", sa.String(200)),
        sa.Column("incoming_webhook_channel_id", sa.String(200)),
        sa.Column("incoming_webhook_configuration_url", sa.String(200)),
        sa.Column("is_enterprise_install", sa.Boolean, nullable=False),
        sa.Column("token_type", sa.String(32)),
        sa.Column("installed_at", sa.DateTime, nullable=False),
    )
    op.create_index(
        "bot_installations_idx",
        "bot_installations",
        ["client_id", "enterprise_id", "team_id", "user_id", "installed_at"],
    )
    op.create_table(
        "bot_oauth_states",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("state", sa.String(200), nullable=False),
        sa.Column("expire_at", sa.DateTime, nullable=False),
    )


def _where() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=True),
        sa.Column("client_id", sa.String(32), nullable=False),
        sa.Column("app_id", sa.String(32), nullable=False),
        sa.Column("enterprise_id", sa.String(32)),
        sa.Column("enterprise_name", sa.String(200)),
        sa.Column("team_id", sa.String(32)),
        sa.Column("team_name", sa.String(200)),
    )


def _bot() -> tuple[sa.Column[Any], ...]:
    return (
        sa.Column("bot_token", sa.Text),
        sa.Column("bot_id", sa.String(32)),
        sa.Column("bot_user_id", sa.String(32)),
        sa.Column("bot_scopes", sa.String(1000)),
        sa.Column("bot_refresh_token", sa.Text),
        sa.Column("bot_token_expires_at", sa.DateTime),
    )


def _replies() -> None:
    """Copies the workspace of each reply from its target, so that replies can be found by workspace."""
    found = sa.text("SELECT id, target FROM bot_replies WHERE id > :after AND told_at IS NULL ORDER BY id LIMIT :most")
    placed = sa.text("UPDATE bot_replies SET team = :team WHERE id = :id")
    after: int | None = 0
    while after is not None:
        rows = op.get_bind().execute(found, {"after": after, "most": AT_ONCE}).all()
        for row in rows:
            op.get_bind().execute(placed, {"id": row.id, "team": json.loads(row.target).get("team")})
        after = rows[-1].id if len(rows) == AT_ONCE else None
