"""`adk-confirm api` serves agents over ADK's HTTP API."""

from __future__ import annotations

import os
from typing import Literal

import click

from adk_confirm.bot.config.settings import Environment
from adk_confirm.bot.ops.command import PORT
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE, Guard
from adk_confirm.runtime.rest.serve import ServerOptions, serve_until_stopped
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.target import load_agent


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
    dialect: Literal["call", "response"],
    shared_state: bool,
    origins: tuple[str, ...],
) -> int:
    """Serve agents over ADK's HTTP API, such as --agent adk_confirm.examples.oncall:agent."""
    secret = Environment.read(os.environ).sealing_secret
    seal = None if secret is None else Seal(secret.get_secret_value())
    guard = Guard.of(host, os.environ.get(TOKEN_VARIABLE), origins)
    loaded = [load_agent(target) for target in agents]
    return serve_until_stopped(ServerOptions(loaded, guard, port, store, dialect, shared_state, seal))
