"""Checks a PostgreSQL store for `adk-confirm check`: whether it keeps what it acknowledged, even after a failover."""

from __future__ import annotations

from collections.abc import Iterator

from bot.operations.findings import Finding, fix, warn
from runtime.store.database import Tx

_RISKS = {
    "fsync": "a crash of the server can lose or damage what was stored",
    "full_page_writes": "a crash of the server can damage what was stored",
    "synchronous_commit": (
        "after a crash of the server the last acknowledged clicks can be lost, and a tool that had started can run "
        "twice"
    ),
}
_SETTINGS = "SELECT name, setting FROM pg_settings WHERE name IN :names ORDER BY name"
_FOLLOWERS = """
    SELECT application_name AS name, sync_state FROM pg_stat_replication
    -- Logical subscribers are not promoted, and base backups do not follow.
    WHERE coalesce(state, '') <> 'backup' AND pid NOT IN
        (SELECT active_pid FROM pg_replication_slots WHERE slot_type = 'logical' AND active_pid IS NOT NULL)
"""


def durability(tx: Tx) -> list[Finding]:
    """The findings about durability. Empty if all is well."""
    return [*_settings(tx), *_standbys(tx)]


def _settings(tx: Tx) -> Iterator[Finding]:
    for name, setting in tx.all(_SETTINGS, names=list(_RISKS)):
        if setting == "off":
            yield warn(name, f"is off: {_RISKS[name]}. Set {name} = on")


def _standbys(tx: Tx) -> Iterator[Finding]:
    if tx.value("SELECT pg_is_in_recovery()"):
        said = "this server is a standby and takes no writes: name the primary in the store's URL, or all hosts"
        yield fix("standby", said)
        return
    for row in tx.all(_FOLLOWERS):
        if row.sync_state is None:
            said = "a standby follows, and this user may not see how: GRANT pg_read_all_stats to it, or look yourself"
            yield warn("standby", said)
        elif row.sync_state in ("async", "potential"):
            said = (
                f"{row.name or 'one'} follows asynchronously: after it is promoted, a decision can be lost, and a tool "
                "that had started can run twice. Set synchronous_standby_names, or never promote it"
            )
            yield warn("standby", said)
