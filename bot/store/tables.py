"""The bot's tables. What a row means is in the pure modules; the columns here are what the database searches or
checks."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from runtime.store.lease import lease_columns
from runtime.store.tables import partial_index

metadata = MetaData()

# SQLite numbers rows by itself only with a column of type INTEGER.
SERIAL = BigInteger().with_variant(Integer, "sqlite")


def _attention_columns() -> tuple[Column[float], Column[float], Column[float], Column[int], Column[str]]:
    """Columns of rows that a worker processes: when they are due, since when they were put off, and failures."""
    return (
        Column("due_at", Double),
        Column("owed_since", Double),
        Column("parked_at", Double),
        Column("failures", Integer, nullable=False, server_default="0"),
        Column("trouble", Text),
    )


sessions = Table(
    "bot_sessions",
    metadata,
    Column("key", String(512), primary_key=True),  # also the name of the session's chain in the ledger
    Column("app", String(256), nullable=False),
    Column("user_id", String(256), nullable=False),
    Column("id", String(256), nullable=False),
    Column("team", String(32), nullable=False),
    Column("enterprise", String(32)),
    Column("channel", String(32), nullable=False),
    Column("thread_ts", String(32), nullable=False),
    Column("starter", String(32), nullable=False),
    Column("speakers", Text, nullable=False),  # who spoke to the agent here: JSON, [[team, user], …]
    Column("present", Text, nullable=False),  # everybody who wrote in the thread, likewise
    Column("told_seq", Integer, nullable=False),  # ledger lines up to this number are posted in the thread
    Column("created", Double, nullable=False),
    Column("sealed", String(64), nullable=False, server_default=text("''")),  # keyed: `repository.session_is_sealed`
    *_attention_columns(),
    *lease_columns(),
    UniqueConstraint("app", "id"),
)
partial_index(
    "bot_sessions_due",
    sessions.c.due_at,
    where=sessions.c.due_at.is_not(None),
)

mail = Table(
    "bot_mail",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("session", String(512), ForeignKey("bot_sessions.key"), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("mark", String(256), nullable=False),  # the same for a repeated message or answer
    Column("body", Text, nullable=False),
    Column("person", String(32)),  # who said it
    Column("confirmation", String(64)),
    Column("stored_at", Double, nullable=False),
    Column("done_at", Double),
    Column("sealed", String(64), nullable=False, server_default=text("''")),  # keyed: `sealed_rows.letter_fingerprint`
    UniqueConstraint("session", "mark"),
)
partial_index(
    "bot_mail_waiting",
    mail.c.session,
    mail.c.id,
    where=mail.c.done_at.is_(None),
)

spoken = Table(
    "bot_spoken",
    metadata,
    Column("session", String(512), ForeignKey("bot_sessions.key"), primary_key=True),
    Column("event", String(256), primary_key=True),  # the agent's event whose text is posted in the thread
    Column("ts", String(32), nullable=False),
    Column("body", Text),  # until it is posted: the text, after which line, and in which order
    Column("after_seq", Integer),
    Column("number", Integer),
    Column("plan", Text),  # while tool calls that it shows can change: the calls and the text
    sqlite_with_rowid=False,
)

confirmations = Table(
    "bot_confirmations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("session", String(512), ForeignKey("bot_sessions.key"), nullable=False),
    Column("request_id", String(256), nullable=False),
    Column("call_id", String(256), nullable=False),
    Column("tool", String(256), nullable=False),
    Column("team", String(32), nullable=False),
    Column("asked_by", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("outcome", String(16)),
    Column("decided_at", Double),
    Column("version", Integer, nullable=False),
    Column("body", Text, nullable=False),  # stored_json
    Column("sealed", String(64), nullable=False, server_default=text("''")),  # keyed: `sealed_rows.row_fingerprint`
    Column("created", Double, nullable=False),
    Column("enterprise", String(32)),
    *_attention_columns(),
    *lease_columns(),
    UniqueConstraint("session", "request_id"),
)
partial_index(
    "bot_confirmations_due",
    confirmations.c.due_at,
    where=confirmations.c.due_at.is_not(None),
)
partial_index(
    "bot_confirmations_open",
    confirmations.c.created,
    where=confirmations.c.state == "waiting",
)
partial_index(
    "bot_confirmations_unknown",
    confirmations.c.created,
    where=confirmations.c.outcome == "unknown",
)

Index("bot_confirmations_asked", confirmations.c.team, confirmations.c.asked_by, confirmations.c.created)

waiting = Table(
    "bot_waiting",  # what waits, for whom and where: an index that `waiting_index` maintains
    metadata,
    Column("team", String(32), primary_key=True),
    Column("whom", String(320), primary_key=True),  # an entry of the policy, "asker:U…", or "channel:C…"
    Column("created", Double, primary_key=True),
    Column("confirmation", String(64), primary_key=True),
    sqlite_with_rowid=False,
)
Index("bot_waiting_confirmation", waiting.c.confirmation)

ledger = Table(
    "bot_ledger",
    metadata,
    Column("chain", String(512), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("stamp", String(40), nullable=False),  # the time as it was hashed
    Column("kind", String(32), nullable=False),
    Column("confirmation", String(64)),
    Column("tool", String(256)),
    Column("content", Text),
    Column("salt", String(64)),
    Column("digest", String(64), nullable=False),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("sealed", String(64)),  # keyed; NULL only in lines of older versions: the database refuses new ones
    sqlite_with_rowid=False,
)
Index("bot_ledger_confirmation", ledger.c.confirmation)
Index("bot_ledger_at", ledger.c.at)

chains = Table(
    "bot_chains",
    metadata,
    Column("chain", String(512), primary_key=True),
    Column("seq", Integer, nullable=False),
    Column("hash", String(64), nullable=False),
    # The head that the last checkpoint covers: an index, to find the chains that grew. A database writer can put
    # anything here, so from time to time `sealed_index` corrects it from the checkpoints.
    Column("sealed_hash", String(64), nullable=False, server_default=text("''")),
    sqlite_with_rowid=False,
)
partial_index(
    "bot_chains_moved",
    chains.c.chain,
    where=chains.c.hash != chains.c.sealed_hash,
)

checkpoints = Table(
    "bot_checkpoints",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("at", String(40), nullable=False),
    Column("heads", Text, nullable=False),
    Column("previous", String(64), nullable=False),
    Column("sealed", String(64), nullable=False),
)

grants = Table(
    "bot_grants",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("session", String(512), ForeignKey("bot_sessions.key"), nullable=False),
    Column("until", Double, nullable=False),
    Column("revoked_at", Double),
    Column("body", Text, nullable=False),
)
Index("bot_grants_session", grants.c.session)
partial_index(
    "bot_grants_open",
    grants.c.until,
    where=grants.c.revoked_at.is_(None),
)

replies = Table(
    "bot_replies",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("vote", String(64), nullable=False, unique=True),
    Column("target", Text, nullable=False),  # where to show the result: a view, or a channel and thread
    Column("body", Text, nullable=False),  # the result of the vote
    Column("told_at", Double, index=True),
    Column("team", String(32)),
    Column("enterprise", String(32)),
    Column("person", String(96)),  # for whom
    Column("matter", String(64)),  # about which confirmation, if a newer reply replaces an older one
    *_attention_columns(),
    *lease_columns(),
)
partial_index(
    "bot_replies_person",
    replies.c.person,
    replies.c.matter,
    where=replies.c.due_at.is_not(None),
)
partial_index(
    "bot_replies_due",
    replies.c.due_at,
    where=replies.c.due_at.is_not(None),
)

homes = Table(
    "bot_homes",
    metadata,
    Column("key", String(96), primary_key=True),
    Column("team", String(32), nullable=False),
    Column("enterprise", String(32)),
    Column("user_id", String(32), nullable=False),
    Column("opened_at", Double, nullable=False),
    Column("looked_at", Double, nullable=False),  # changes up to this time are published, or changed nothing
    Column("version", Integer, nullable=False),
    Column("digest", String(64)),  # digest of what was published last
    Column("hash", String(128)),  # Slack's id of the view
    *_attention_columns(),
    *lease_columns(),
)
partial_index(
    "bot_homes_due",
    homes.c.due_at,
    where=homes.c.due_at.is_not(None),
)
Index("bot_homes_opened", homes.c.opened_at)


def _lane_table(name: str, *key: Column[str]) -> Table:
    """Columns of a row that says what must be sent to Slack about another row. It is processed separately."""
    table = Table(
        name,
        metadata,
        *key,
        Column("team", String(32), nullable=False),
        Column("enterprise", String(32)),
        *_attention_columns(),
        *lease_columns(),
    )
    due = table.c.due_at.is_not(None)
    partial_index(f"{name}_due", table.c.due_at, where=due)
    return table


cards = _lane_table(
    "bot_cards",
    Column("confirmation", String(64), primary_key=True),
    Column("session", String(512), nullable=False),
)
threads = _lane_table("bot_threads", Column("session", String(512), primary_key=True))

switches = Table(
    "bot_switches",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

replicas = Table(
    "bot_replicas",
    metadata,
    Column("name", String(32), primary_key=True),
    Column("alive_until", Double, nullable=False),
)

ATTENDED = {
    "session": sessions,
    "confirmation": confirmations,
    "card": cards,
    "thread": threads,
    "reply": replies,
    "home": homes,
}
"""The tables whose rows get attention, by the name of one row."""

for _table in ATTENDED.values():
    for _name, _column in {
        "leased": _table.c.lease_token,
        "owed": _table.c.owed_since,
        "parked": _table.c.parked_at,
    }.items():
        _set = _column.is_not(None)  # few rows are, and the others are not in these indexes
        partial_index(f"{_table.name}_{_name}", _column, where=_set)
