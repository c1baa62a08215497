"""The bot's tables. What a row means is in the pure modules; the columns here are what the database searches or
checks."""

from __future__ import annotations

import hashlib

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    event,
    text,
)

from runtime.store.records import is_storable_id
from runtime.store.tables import lease_columns, partial_index

metadata = MetaData()

# SQLite numbers rows by itself only with a column of type INTEGER.
SERIAL = BigInteger().with_variant(Integer, "sqlite")


def storable(text: str) -> str:
    """The text, or a digest of it if it is too long, or has characters that no database takes."""
    return text if is_storable_id(text) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class OutsideId(TypeDecorator[str]):
    """An id that an agent's server chose. The row's body has it as it is; the column is for finding the row."""

    impl = String(256)
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  (SQLAlchemy's)
        return None if value is None else storable(value)


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
    Column("channel", String(32), nullable=False),
    Column("thread_ts", String(32), nullable=False),
    Column("starter", String(32), nullable=False),
    Column("speakers", Text, nullable=False),  # who spoke to the agent here: JSON, [[team, user], …]
    Column("present", Text, nullable=False),  # everybody who wrote in the thread, likewise
    Column("told_seq", Integer, nullable=False),  # ledger lines up to this number are posted in the thread
    Column("created", Double, nullable=False),
    Column("sealed", String(64), nullable=False),  # `repository.session_is_sealed`
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
    Column("turn", String(256)),  # the invocation that it began, once that is known
    Column("line", Integer, nullable=False),  # of a message: the last line of the session's chain when it was stored
    Column("sealed", String(64), nullable=False),  # `rows.letter_seal`
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
    Column("event", OutsideId, primary_key=True),  # the agent's event whose text is posted in the thread
    Column("ts", String(32), nullable=False),
    Column("body", Text),  # until it is posted: the text, after which line, and in which order
    Column("after_seq", Integer),
    Column("number", Integer),
    sqlite_with_rowid=False,
)

confirmations = Table(
    "bot_confirmations",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("session", String(512), ForeignKey("bot_sessions.key"), nullable=False),
    Column("request_id", OutsideId, nullable=False),
    Column("call_id", OutsideId, nullable=False),
    Column("tool", String(256), nullable=False),
    Column("team", String(32), nullable=False),
    Column("asked_by", String(32), nullable=False),
    Column("state", String(16), nullable=False),
    Column("outcome", String(16)),
    Column("decided_at", Double),
    Column("version", Integer, nullable=False),
    Column("body", Text, nullable=False),  # stored_json
    Column("sealed", String(64), nullable=False),  # `rows.sealed_body`
    Column("created", Double, nullable=False),
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
    Column("sealed", String(64), nullable=False),  # keyed
    sqlite_with_rowid=False,
)
Index("bot_ledger_confirmation", ledger.c.confirmation)
Index("bot_ledger_at", ledger.c.at)

# The ledger only grows. The only change that it allows is a purge, which removes a line's content and salt together.
_KEPT = [column.name for column in ledger.c if column.name not in ("content", "salt")]
_ONLY_GROWS = "the ledger is append-only"
_NEVER = f"BEGIN SELECT RAISE(ABORT, '{_ONLY_GROWS}'); END"
_PURGED = "NEW.content IS NULL AND NEW.salt IS NULL"
_GUARDS = {
    "sqlite": (
        "CREATE TRIGGER bot_ledger_no_update BEFORE UPDATE ON bot_ledger "
        f"WHEN NOT ({' AND '.join(f'NEW.{name} IS OLD.{name}' for name in _KEPT)} AND {_PURGED}) {_NEVER}",
        f"CREATE TRIGGER bot_ledger_no_delete BEFORE DELETE ON bot_ledger {_NEVER}",
        # INSERT OR REPLACE deletes the old row without running any other trigger.
        "CREATE TRIGGER bot_ledger_no_replace BEFORE INSERT ON bot_ledger "  # noqa: S608  (our own names)
        f"WHEN EXISTS (SELECT 1 FROM bot_ledger WHERE chain = NEW.chain AND seq = NEW.seq) {_NEVER}",
    ),
    "postgresql": (
        "CREATE FUNCTION bot_ledger_guard() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF TG_OP = 'UPDATE' AND "
        f"{' AND '.join(f'NEW.{name} IS NOT DISTINCT FROM OLD.{name}' for name in _KEPT)} AND {_PURGED} "
        f"THEN RETURN NEW; END IF; RAISE EXCEPTION '{_ONLY_GROWS}'; END $$",
        "CREATE TRIGGER bot_ledger_guard BEFORE UPDATE OR DELETE ON bot_ledger "
        "FOR EACH ROW EXECUTE FUNCTION bot_ledger_guard()",
        "CREATE TRIGGER bot_ledger_no_truncate BEFORE TRUNCATE ON bot_ledger "
        "FOR EACH STATEMENT EXECUTE FUNCTION bot_ledger_guard()",
    ),
}
for _dialect, _statements in _GUARDS.items():
    for _statement in _statements:
        event.listen(ledger, "after_create", DDL(_statement).execute_if(dialect=_dialect))  # type: ignore[no-untyped-call]  # SQLAlchemy's

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
    "bot_grants",  # an index of confirmations with a grant: what was granted is in their rows
    metadata,
    Column("id", String(64), primary_key=True),
    Column("session", String(512), ForeignKey("bot_sessions.key"), nullable=False),
    Column("until", Double, nullable=False),
)
Index("bot_grants_session", grants.c.session)
Index("bot_grants_until", grants.c.until)

replies = Table(
    "bot_replies",
    metadata,
    Column("id", SERIAL, primary_key=True, autoincrement=True),
    Column("vote", String(64), nullable=False, unique=True),
    Column("target", Text, nullable=False),  # where to show the result: a view, or a channel and thread
    Column("body", Text, nullable=False),  # the result of the vote
    Column("told_at", Double, index=True),
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


def _lane_table(name: str, *key: Column[str] | Column[int]) -> Table:
    """Columns of a row that says what must be sent to Slack about another row. It is processed separately."""
    table = Table(
        name,
        metadata,
        *key,
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
    Column("places", Text),  # where the cards are
    Column("sealed", String(64)),  # `rows.sealed_places`
)
threads = _lane_table(
    "bot_threads",
    Column("session", String(512), primary_key=True),
    Column("at_work", Integer, nullable=False, server_default="0"),  # 1: its agent has been at work for a while
    Column("status", String(16)),  # what Slack shows of it as an agent's session; NULL: it is none yet
)

attempts = Table(
    "bot_attempts",  # posts that were begun, and other marks: `attempts.py`
    metadata,
    Column("scope", String(512), primary_key=True),  # a session's key, or a confirmation's id
    Column("mark", String(320), primary_key=True),
    Column("at", Double, nullable=False),
    Column("tries", Integer, nullable=False),
    sqlite_with_rowid=False,
)

switches = Table(
    "bot_switches",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)

for _table in (sessions, confirmations, cards, threads, replies):
    for _name, _column in {
        "leased": _table.c.lease_token,
        "owed": _table.c.owed_since,
        "parked": _table.c.parked_at,
    }.items():
        _set = _column.is_not(None)  # few rows are, and the others are not in these indexes
        partial_index(f"{_table.name}_{_name}", _column, where=_set)
