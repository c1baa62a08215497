"""`adk-confirm api` serves agents over ADK's HTTP API."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import click

from adk_confirm.bot.config.settings import Environment
from adk_confirm.bot.ops.command import PORT
from adk_confirm.bot.ops.stopping import run_until_stopped
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.rest.endpoints import make_app
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE, Guard
from adk_confirm.runtime.rest.listening import listen, server_for
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import open_store
from adk_confirm.runtime.target import load_agent
from adk_confirm.runtime.telemetry.logs import configure
from adk_confirm.runtime.wire import Dialect

_LAST_ANSWERS = 1.0  # for responses that are still being sent when everything else has stopped

_NOT_SEALED = (
    "ADK_CONFIRM_SECRET is not set, so stored calls are not sealed: whoever can write to the database can change what "
    "runs."
)


@click.command()
@click.option("--agent", "agents", multiple=True, required=True, metavar="MODULE:NAME", help="An agent; repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Other machines need ADK_CONFIRM_API_TOKEN set.")
@click.option("--port", type=PORT, default=8000, show_default=True, help="0 takes a free one.")
@click.option(
    "--store", default="sqlite:///adk-confirm.db", metavar="URL", show_default=True, help="Where sessions are kept."
)
@click.option(
    "--dialect",
    type=click.Choice(["call", "response"]),
    default="call",
    show_default=True,
    help="How requests for confirmation look: as a call, or as a response.",
)
@click.option(
    "--shared-state", is_flag=True, help="Clients may write app: state that a bot on this store uses in Slack."
)
@click.option(
    "--allow-origin",
    "origins",
    multiple=True,
    metavar="ORIGIN",
    help="A page that may use the API from a browser, such as http://localhost:4200; repeatable.",
)
def api(
    agents: tuple[str, ...],
    host: str,
    port: int,
    store: str,
    dialect: Dialect,
    shared_state: bool,
    origins: tuple[str, ...],
) -> int:
    """Serve agents over ADK's HTTP API, such as --agent adk_confirm.examples.oncall:agent."""
    seal = Environment.read(os.environ).seal
    guard = Guard.of(host, os.environ.get(TOKEN_VARIABLE), origins)
    loaded = [load_agent(target) for target in agents]
    configure()
    serving = serving_at(loaded, guard, port, store, dialect=dialect, shares_state=shared_state, seal=seal)
    names = ", ".join(agent.name for agent in loaded)
    unsealed = f"\n{_NOT_SEALED}" if seal is None else ""
    return run_until_stopped(serving, lambda at: f"Serving {names} at {at[0]}, with the store {at[1]}.{unsealed}")


@asynccontextmanager
async def serving_at(
    agents: Iterable[Agent],
    guard: Guard,
    port: int,
    store: str,
    *,
    dialect: Dialect = "call",
    shares_state: bool = False,
    seal: Seal | None = None,
) -> AsyncIterator[tuple[str, str]]:
    """The addresses of the server and of its store, while it listens. `shares_state`: HTTP clients may write
    `app:` state even if a bot uses the same app. `seal`: for stored calls. Raises `CannotServe` and `StoreError`."""
    database = await open_store(store, seal=seal)
    try:
        runners = [Runner(agent, database, dialect=dialect, shares_state=shares_state) for agent in agents]
        served = server_for(make_app(runners, guard), shutdown_timeout=_LAST_ANSWERS)
        try:
            await served.setup()
            yield await listen(served, guard.host, port), database.url
        finally:
            await served.cleanup()
    finally:
        await database.close()
