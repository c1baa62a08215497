"""Opens the store that the bot and its agents share, with the tables of both. From the first start on it belongs to one
workspace, one agent and one secret."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from adk_confirm.bot.config.settings import Settings
from adk_confirm.bot.store.checkpoint_rows import secret_fits
from adk_confirm.bot.store.reseal import note_new_secret
from adk_confirm.bot.store.upgrades import TABLES, UPGRADES
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx, sqlite_path
from adk_confirm.runtime.store.seal import Seal, seal_of
from adk_confirm.runtime.store.tables import SCHEMA as RUNTIME_SCHEMA
from adk_confirm.runtime.store.tables import StoreSchema, belongings, note, secret_seals, take
from adk_confirm.runtime.store.tables import open_store as open_laid_out

SCHEMA = StoreSchema("bot", TABLES, UPGRADES, fits=secret_fits, secret_changed=note_new_secret)
SCHEMAS = (RUNTIME_SCHEMA, SCHEMA)


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
