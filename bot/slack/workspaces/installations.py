"""Stores installations: slack_sdk's SQLAlchemy stores, in our database and within our transactions.

The SDK's own async stores use connections of their own, which on SQLite would be a second writer. Ours have the same
interface for Bolt's OAuth flow, and run the SDK's statements as part of one transaction, together with the ledger line.

A token belongs to a workspace, or to all workspaces of an organisation. A workspace without an installation of its own
uses that of its organisation.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from logging import Logger
from typing import cast

from slack_sdk.oauth.installation_store import Bot, Installation
from slack_sdk.oauth.installation_store.async_installation_store import AsyncInstallationStore
from slack_sdk.oauth.installation_store.sqlalchemy import SQLAlchemyInstallationStore
from slack_sdk.oauth.state_store.async_state_store import AsyncOAuthStateStore
from slack_sdk.oauth.state_store.sqlalchemy import SQLAlchemyOAuthStateStore
from sqlalchemy import Connection, Dialect, Engine, Table, Text, delete, func, or_, select, update
from sqlalchemy.types import TypeDecorator

from bot.config.token_cipher import TokenCipher
from bot.slack.outbound.calls import Workspace
from bot.slack.workspaces.installed import BOTS, INSTALLATIONS, InstalledApp, find_serving, forget
from bot.store.tables import metadata
from runtime.store.database import Database, Tx, for_update

log = logging.getLogger(__name__)

STATES = "bot_oauth_states"
STATE_LIVES = 600
"""Seconds between "install" and Slack's answer."""

MOST_STATES = 10_000
"""The most open states. Somebody who calls `/slack/install` again and again replaces the oldest, and does not fill the
disk."""

_SECRETS = ("bot_token", "bot_refresh_token", "user_token", "user_refresh_token", "incoming_webhook_url")


class EncryptedText(TypeDecorator[str]):
    """A column whose text is encrypted in the database."""

    impl = Text
    cache_ok = True  # ciphertexts can't be compared

    def __init__(self, cipher: TokenCipher) -> None:
        super().__init__()
        self.cipher = cipher

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  (SQLAlchemy's)
        return None if value is None else self.cipher.seal(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> str | None:  # noqa: ARG002  (likewise)
        return None if value is None else self.cipher.open(value)


def _with_secrets(table: Table, secret: Text | EncryptedText) -> Table:
    for column in table.columns:
        if column.name in _SECRETS:
            column.type = secret
    return table


bots, installations, states = (metadata.tables[name] for name in (BOTS, INSTALLATIONS, STATES))


class _Within:
    """Stands in for the SDK's engine: gives its stores the running transaction instead of a new one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        yield self._connection

    connect = begin


def _engine(tx: Tx) -> Engine:
    return cast("Engine", _Within(tx.connection))


class _Store(SQLAlchemyInstallationStore):
    """The SDK's store, with encrypted columns."""

    def __init__(self, client_id: str, cipher: TokenCipher) -> None:
        super().__init__(client_id, cast("Engine", None), BOTS, INSTALLATIONS, log)
        _with_secrets(self.bots, EncryptedText(cipher))
        _with_secrets(self.installations, EncryptedText(cipher))

    def within(self, tx: Tx) -> _Store:
        joined = copy.copy(self)
        joined.engine = _engine(tx)
        return joined


Saved = Callable[[Tx, InstalledApp, Installation], None]


class Installations(AsyncInstallationStore):
    """The installations. `saved` runs in the transaction that saves one, for what must be written together with it."""

    def __init__(self, database: Database, client_id: str, cipher: TokenCipher, saved: Saved | None = None) -> None:
        self._database, self.client_id, self._saved = database, client_id, saved
        self._store = _Store(client_id, cipher)

    @property
    def logger(self) -> Logger:
        return log

    async def async_save(self, installation: Installation) -> None:
        await self._database.run(self._save, installation)

    async def async_find_bot(
        self, *, enterprise_id: str | None, team_id: str | None, is_enterprise_install: bool | None = False
    ) -> Bot | None:
        """The bot that serves a workspace, with its token. Raises `Unopenable` if the token was encrypted with another
        key."""
        team = "" if is_enterprise_install else team_id or ""
        return await self._database.read(self.bot_for, Workspace(team, enterprise_id))

    def bot_for(self, tx: Tx, at: Workspace) -> Bot | None:
        found = find_serving(tx, at, self.client_id)
        if found is None:
            return None
        return self._store.within(tx).find_bot(
            enterprise_id=found.enterprise, team_id=found.team, is_enterprise_install=found.team is None
        )

    def _save(self, tx: Tx, installation: Installation) -> None:
        """Replaces an earlier installation, whose token is not valid any more."""
        one = _as_installed(installation, tx.now())
        forget(tx, one)
        installation.installed_at = one.at
        self._store.within(tx).save(installation)
        if self._saved is not None:
            self._saved(tx, one, installation)


class States(AsyncOAuthStateStore):
    """OAuth states that Slack must bring back from "install", once and within ten minutes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def logger(self) -> Logger:
        return log

    async def async_issue(self, *args: object, **kwargs: object) -> str:  # noqa: ARG002  (the SDK's signature)
        return await self._database.run(_issue)

    async def async_consume(self, state: str) -> bool:
        return await self._database.run(_consume, state)


def _states(tx: Tx) -> SQLAlchemyOAuthStateStore:
    return SQLAlchemyOAuthStateStore(STATE_LIVES, _engine(tx), log, STATES)


def _issue(tx: Tx) -> str:
    """Stores a state, and deletes the oldest: anybody can ask for states."""
    now = datetime.now(UTC).replace(tzinfo=None)
    last = select(func.max(states.c.id)).scalar_subquery()
    tx.execute(delete(states).where(or_(states.c.expire_at < now, states.c.id <= last - (MOST_STATES - 1))))
    return _states(tx).issue()


def _consume(tx: Tx, state: str) -> bool:
    """Locks the row first, so that a state that is brought to two replicas at once counts only once."""
    tx.execute(for_update(select(states.c.id).where(states.c.state == state)))
    return _states(tx).consume(state)


# Transactions


def seal_anew(tx: Tx, cipher: TokenCipher) -> int:
    """Encrypts with the newest key everything that an older one encrypted, and counts it. Raises `Unopenable` if no key
    fits."""
    count = 0
    for table in (bots, installations):
        secrets = [column for column in table.columns if column.name in _SECRETS]
        for row in tx.execute(for_update(select(table.c.id, *secrets))).mappings():
            fresh = {
                column.name: anew
                for column in secrets
                if (sealed := row[column.name]) is not None and (anew := cipher.seal_anew(sealed)) is not None
            }
            if fresh:
                tx.execute(update(table).where(table.c.id == row["id"]).values(fresh))
                count += 1
    return count


def _as_installed(installation: Installation, at: float) -> InstalledApp:
    everywhere = bool(installation.is_enterprise_install)
    return InstalledApp(
        team=None if everywhere else installation.team_id,
        enterprise=installation.enterprise_id,
        name=(installation.enterprise_name if everywhere else installation.team_name) or "",
        at=at,
    )
