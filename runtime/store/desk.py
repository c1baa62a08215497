"""Protects what belongs to a desk (the bot that asks people): the sessions that it opened, and names and state reserved
for it.

Other services, such as `adk-confirm api`, may share the store with a desk. Each transaction that writes to a session
calls `check_sender` or `check_against` first, so no caller can forget it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adk_confirm.runtime.errors import Forbidden
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.records import SessionId, StoredSession


@dataclass(frozen=True)
class Writer:
    """Who wants to write. `shares_state`: others may write an app's `app:` state even if the app has a desk."""

    desk: bool = False
    shares_state: bool = False


ANYBODY = Writer()


def open_desk(tx: Tx, app: str, prefix: str) -> None:
    """Reserves names that begin with `prefix` for the desk."""
    if _prefix(tx, app) != prefix:
        tx.run(
            "INSERT INTO runtime_desks (app, prefix) VALUES (:app, :prefix)"
            " ON CONFLICT (app) DO UPDATE SET prefix = excluded.prefix",
            app=app,
            prefix=prefix,
        )


def check_sender(
    tx: Tx, sender: Writer, name: SessionId, session: StoredSession | None = None, keys: Iterable[str] = ()
) -> None:
    """Raises `Forbidden` for what only the desk may write. `session` is the existing session of that name, `keys` are
    those of the state that would be written."""
    if not sender.desk:
        check_against(_prefix(tx, name.app), sender, name, session, keys)


def check_against(
    prefix: str | None, sender: Writer, name: SessionId, session: StoredSession | None, keys: Iterable[str] = ()
) -> None:
    """The same for a caller that has read the prefix of the desk's names."""
    if sender.desk:
        return
    if session is not None and session.opened_by == "desk":
        raise Forbidden(
            f"Session {name.id} belongs to the bot that opened it and takes nothing from others. Nothing was changed."
        )
    if prefix is None:
        return
    for what, text in (("user", name.user_id), ("session", name.id)):
        if text.startswith(prefix):
            raise Forbidden(
                f"The {what} {text} belongs to a bot: names with {prefix} in front are taken. Nothing was changed."
            )
    shared = next((key for key in keys if key.startswith("app:")), None)
    if shared is not None and not sender.shares_state:
        raise Forbidden(
            f"{shared} is state that a bot's sessions see too, and approvals may depend on it. Nothing was changed. "
            "Whoever runs this API can allow it: adk-confirm api --shared-state."
        )


def _prefix(tx: Tx, app: str) -> str | None:
    prefix: str | None = tx.value("SELECT prefix FROM runtime_desks WHERE app = :app", app=app)
    return prefix
