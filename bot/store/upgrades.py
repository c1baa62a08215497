"""What brings a store of an earlier release up to date: a function for each version, in order, in one transaction.

For the tests, stores of an earlier release are kept in `tests/bot/store/upgrades`.
"""

from __future__ import annotations

import re
from pathlib import Path

from adk_confirm.bot.store.sealed_rows import STORED, letter_is_sealed, letter_seal, load
from adk_confirm.bot.store.waiting_index import due
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Tx

TABLES = Path(__file__).with_name("schema.sql")


def _list_turns(tx: Tx) -> None:
    """A letter names all invocations that it began, as JSON, and no longer the first alone."""
    if tx.dialect == "postgresql":
        tx.run("ALTER TABLE bot_mail ALTER COLUMN turn TYPE TEXT")
    for letter in tx.all("SELECT * FROM bot_mail WHERE turn IS NOT NULL"):
        if letter_is_sealed(tx, letter) and not letter.turn.startswith("["):
            turns = canonical([letter.turn])
            sealed = letter_seal(tx, {**letter._asdict(), "turn": turns})
            tx.run(
                "UPDATE bot_mail SET turn = :t, sealed = :sealed WHERE id = :id", id=letter.id, t=turns, sealed=sealed
            )


def _index_by_deadline(tx: Tx) -> None:
    """Lists waiting confirmations by their deadline, and no longer by when they were asked."""
    for table in ("bot_waiting", *(["bot_waiting_pkey"] if tx.dialect == "postgresql" else [])):
        tx.run(f"ALTER TABLE {table} RENAME COLUMN created TO at")
    for found in tx.all(f"{STORED} WHERE c.state = 'waiting' OR c.outcome = 'unknown'"):
        if (row := load(tx, found)) is not None:
            moved = "UPDATE bot_waiting SET at = :at WHERE confirmation = :id AND whom NOT LIKE 'decider:%'"
            tx.run(moved, id=row.id, at=due(row).timestamp())


def _let_lines_be_sealed_anew(tx: Tx) -> None:
    """Lets the ledger's guard accept a new seal on a line."""
    text = TABLES.read_text(encoding="utf-8")
    if tx.dialect == "postgresql":
        [guard] = re.findall(r"^CREATE (FUNCTION bot_ledger_guard.*?END \$\$);$", text, re.DOTALL | re.MULTILINE)
        tx.run(f"CREATE OR REPLACE {guard}")
        return
    [guard] = re.findall(r"^(CREATE TRIGGER bot_ledger_no_update .*?^END);$", text, re.DOTALL | re.MULTILINE)
    tx.run("DROP TRIGGER bot_ledger_no_update")
    tx.run(guard)


def _threads_own_their_jobs(tx: Tx) -> None:
    """Puts all jobs of a thread under the thread's lease."""
    tx.run("UPDATE jobs SET owner = key WHERE kind = 'thread'")
    tx.run(
        """
        UPDATE jobs SET owner = (SELECT session FROM bot_confirmations WHERE id = jobs.key)
        WHERE kind IN ('confirmation', 'card')
        """
    )
    tx.run(
        """
        UPDATE jobs SET owner = (
            SELECT c.session FROM bot_replies r JOIN bot_confirmations c ON c.id = r.matter WHERE r.vote = jobs.key
        )
        WHERE kind = 'reply'
        """
    )


def _index_what_runs(tx: Tx) -> None:
    tx.run("CREATE INDEX bot_confirmations_running ON bot_confirmations (created) WHERE outcome = 'running'")


def _fewer_tables(tx: Tx) -> None:
    """A pause is a fact about the store, and until when a grant lasts is in the row that it came with."""
    tx.run("INSERT INTO adk_confirm_store (name, value) SELECT name, value FROM bot_switches")
    tx.run("DROP TABLE bot_switches")
    tx.run("ALTER TABLE bot_confirmations ADD COLUMN granted_until DOUBLE PRECISION")
    tx.run(
        "UPDATE bot_confirmations SET granted_until ="
        " (SELECT until FROM bot_grants WHERE bot_grants.id = bot_confirmations.id)"
    )
    tx.run("DROP TABLE bot_grants")
    granted = "ON bot_confirmations (session, granted_until) WHERE granted_until IS NOT NULL"
    tx.run(f"CREATE INDEX bot_confirmations_granted {granted}")
    for table, column in (("bot_attempts", "tries"), ("bot_spoken", "ts"), ("bot_confirmations", "version")):
        tx.run(f"ALTER TABLE {table} DROP COLUMN {column}")


UPGRADES = (
    *(_list_turns, _index_by_deadline, _let_lines_be_sealed_anew, _threads_own_their_jobs, _index_what_runs),
    _fewer_tables,
)
