"""Opens the store that the bot and its agents share, with the tables of both. From the first start on it belongs to one
workspace, one agent and one secret."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.store.checkpoint_rows import secret_fits
from adk_confirm.bot.store.reseal import note_new_secret
from adk_confirm.bot.store.sealed_rows import STORED, letter_is_sealed, letter_seal, load
from adk_confirm.bot.store.waiting_index import due
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.jsontypes import canonical
from adk_confirm.runtime.store.database import Database, Tx, sqlite_path
from adk_confirm.runtime.store.seal import Seal, seal_of
from adk_confirm.runtime.store.tables import SCHEMA as RUNTIME_SCHEMA
from adk_confirm.runtime.store.tables import StoreSchema, belongings, note, secret_seals, take
from adk_confirm.runtime.store.tables import open_store as open_laid_out


async def open_store(
    url: str, secret: str, clock: Callable[[], float] | None = None, *, accepted: str | None = None
) -> Database:
    """Opens the store. Raises `StoreError`, which says what to do. `accepted`: the old secret."""
    return await open_laid_out(url, clock, Seal(secret, accepted), SCHEMAS)


def take_store(tx: Tx, team: str, agent: str, settings: Settings, renamed_from: str | None = None) -> None:
    """Lets this workspace and this agent have the store, if it belongs to nobody else. Raises `StoreError` otherwise.
    `settings`: those that commands must have too. `renamed_from`: the agent's old name, whose store it takes over."""
    owner = belongings(tx)
    if "agent" not in owner:
        owner = take(tx, owner_in_sessions(tx, team, agent))
    if renamed_from is not None and owner["agent"] == renamed_from:
        note(tx, {"agent": agent})
        owner["agent"] = agent
    if (why := not_for(owner, team=team, agent=agent)) is not None:
        raise StoreError(f"{why} Nothing was done.")
    note(tx, {name: seal_of(tx).of(name, "", said) for name, said in _said(settings).items()})


def may_change(tx: Tx, settings: Settings) -> None:
    """Raises `StoreError` if a command's settings are those of another agent, or of another workspace's app."""
    owner, agent, seal = belongings(tx), settings.agent, seal_of(tx)
    if not secret_seals(tx):
        raise StoreError(
            "The service has not started with this secret yet, and can't read what would be sealed with it: start it "
            "first. Nothing was done."
        )
    why = None if agent is None else not_for(owner, agent=agent.app)
    for name, said in _said(settings).items():
        if (its := owner.get(name)) and not seal.fits(its, name, "", said):
            why = why or f"{_MARKS[name]} is not that of the service: use the settings and the store of one service."
    if why is not None:
        raise StoreError(f"{why} Nothing was done.")


_MARKS = {"token": "SLACK_BOT_TOKEN", "target": "[agent] target"}
"""The names of the sealed marks by which a command knows whether it has the service's settings."""


def _said(settings: Settings) -> dict[str, str]:
    """What the settings say for each mark, if anything. An agent on a server has an empty target."""
    token, agent = settings.environment.bot_token, settings.agent
    said = {} if token is None else {"token": token.get_secret_value()}
    return said if agent is None else {**said, "target": agent.target or ""}


def owner_in_sessions(tx: Tx, team: str, agent: str) -> dict[str, str]:
    """Who owns the stored sessions: this workspace and this agent, unless all of the sessions belong to others."""
    rows = tx.all("SELECT DISTINCT team, app FROM bot_sessions")
    teams, agents = {row.team for row in rows} or {team}, {row.app for row in rows} or {agent}
    return {"team": team if team in teams else min(teams), "agent": agent if agent in agents else min(agents)}


def not_for(owner: Mapping[str, str], *, team: str | None = None, agent: str | None = None) -> str | None:
    """Why this workspace or this agent may not use the store, and what to do. None if it may."""
    if team is not None and owner.get("team", team) != team:
        return (
            f"The store belongs to workspace {owner['team']}, and SLACK_BOT_TOKEN to {team}: name this workspace's own "
            "store in DATABASE_URL or [store] url."
        )
    if agent is not None and (its := owner.get("agent", agent)) != agent:
        return (
            f"The store belongs to agent {its}, and [agent] is {agent}: name this agent's own store in DATABASE_URL or "
            f"[store] url. If the agent was renamed, start once with `adk-confirm serve --renamed-from {its}`."
        )
    return None


def sqlite_file(url: str) -> Path | None:
    """The file of a SQLite store. None for another store."""
    return sqlite_path(url) if url.startswith("sqlite") else None


# Upgrades: what brings a store of an earlier release up to date, a function for each version, in order, in one
# transaction. For the tests, stores of an earlier release are kept in `tests/bot/store/upgrades`.

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


def _one_outbox(tx: Tx) -> None:
    """What the agent says and what voters are told are in one table. Answers to votes whose confirmation is gone are
    dropped, with what was due for them."""
    number = "INTEGER" if tx.dialect == "sqlite" else "BIGINT GENERATED BY DEFAULT AS IDENTITY"
    tx.run(
        f"CREATE TABLE bot_outbox (id {number} PRIMARY KEY,"
        " session VARCHAR(512) NOT NULL REFERENCES bot_sessions (key), kind VARCHAR(16) NOT NULL,"
        " mark VARCHAR(256) NOT NULL, body TEXT, shown_at DOUBLE PRECISION, after_seq INTEGER, seat TEXT,"
        " person VARCHAR(96), matter VARCHAR(64), UNIQUE (session, kind, mark))"
    )
    tx.run("CREATE INDEX bot_outbox_due ON bot_outbox (session, kind, id) WHERE shown_at IS NULL")
    tx.run("CREATE INDEX bot_outbox_answered ON bot_outbox (shown_at) WHERE kind = 'answer'")
    tx.run(
        """
        INSERT INTO bot_outbox (session, kind, mark, body, shown_at, after_seq)
        SELECT session, 'words', event, body, CASE WHEN body IS NULL THEN 0 END, after_seq
        FROM bot_spoken ORDER BY session, number
        """
    )
    tx.run(
        """
        INSERT INTO bot_outbox (session, kind, mark, body, shown_at, seat, person, matter)
        SELECT c.session, 'answer', r.vote, r.body, r.told_at, r.seat, r.person, r.matter
        FROM bot_replies r JOIN bot_confirmations c ON c.id = r.matter ORDER BY r.id
        """
    )
    tx.run("DELETE FROM jobs WHERE kind = 'reply' AND key NOT IN (SELECT mark FROM bot_outbox WHERE kind = 'answer')")
    tx.run("DROP TABLE bot_spoken")
    tx.run("DROP TABLE bot_replies")


UPGRADES = (
    *(_list_turns, _index_by_deadline, _let_lines_be_sealed_anew, _threads_own_their_jobs, _index_what_runs),
    *(_fewer_tables, _one_outbox),
)

SCHEMA = StoreSchema("bot", TABLES, UPGRADES, fits=secret_fits, secret_changed=note_new_secret)
SCHEMAS = (RUNTIME_SCHEMA, SCHEMA)
