"""Makes confirmations due if they have votes or grants without fingerprints, so that these are removed and reported."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"

_confirmations = sa.table(
    "bot_confirmations",
    sa.column("id"),
    sa.column("state"),
    sa.column("outcome"),
    sa.column("body"),
    sa.column("due_at"),
    sa.column("parked_at"),
)
_grants = sa.table("bot_grants", sa.column("id"), sa.column("revoked_at"))


def upgrade() -> None:
    here = _confirmations.c
    open_ = sa.or_(here.state == "waiting", here.outcome == "unknown")
    with_votes = sa.and_(open_, here.body.like('%"votes":[{%'))
    with_grant = here.id.in_(sa.select(_grants.c.id).where(_grants.c.revoked_at.is_(None)))
    op.execute(
        sa.update(_confirmations).where(here.parked_at.is_(None), sa.or_(with_votes, with_grant)).values(due_at=0.0)
    )
