"""`adk-confirm api` serves agents over ADK's HTTP API. `adk-confirm answer` answers a request there from the command
line, as any client may over REST."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus

import aiohttp
import click
from pydantic import TypeAdapter

from adk_confirm.bot.config.settings import Environment
from adk_confirm.bot.ops.command import PORT, CommandLine, account, json_object, open_for_reading, options
from adk_confirm.bot.ops.stopping import run_until_stopped
from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.errors import Forbidden, Invalid, NotFound, StoreError, why_unreached
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.rest.endpoints import make_app
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE, Guard
from adk_confirm.runtime.rest.listening import Served, listen
from adk_confirm.runtime.run.runner import Runner
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.tables import SCHEMA, open_store
from adk_confirm.runtime.target import load_agent
from adk_confirm.runtime.telemetry.logs import configure
from adk_confirm.runtime.wire import Dialect, Event, SessionId

_LAST_ANSWERS = 1.0  # for responses that are still being sent when everything else has stopped

_NOT_SEALED = (
    "ADK_CONFIRM_SECRET is not set, so stored calls are not sealed: whoever can write to the database can change what "
    "runs."
)
_store = partial(click.option, "--store", default="sqlite:///adk-confirm.db", metavar="URL", show_default=True)


@click.command()
@click.option("--agent", "agents", multiple=True, required=True, metavar="MODULE:NAME", help="An agent; repeatable.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Other machines need ADK_CONFIRM_API_TOKEN set.")
@click.option("--port", type=PORT, default=8000, show_default=True, help="0 takes a free one.")
@_store(help="Where sessions are kept.")
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
        served = Served(make_app(runners, guard), shutdown_timeout=_LAST_ANSWERS)
        try:
            await served.setup()
            yield await listen(served, guard.host, port), database.url
        finally:
            await served.cleanup()
    finally:
        await database.close()


# Answering

_FIND = """
    SELECT s.app, s.user_id, s.id, s.opened_by FROM runtime_requests r JOIN runtime_sessions s ON s.key = r.session
    WHERE r.id = :id
"""


@click.command()
@click.argument("request", metavar="ID")
@click.option("--approve", "verdict", flag_value="approve", help="Run the call.")
@click.option("--deny", "verdict", flag_value="deny", help="Refuse the call.")
@click.option(
    "--edit",
    metavar="JSON",
    callback=json_object,
    help="Run the call with these arguments; those that it leaves out stay.",
)
@click.option("--reason", metavar="TEXT", help="Why: the agent reads it.")
@click.option("--as", "name", metavar="NAME", default=account, help="Your name, kept with the answer's events.")
@_store(help="The API's store.")
@click.option("--url", default="http://127.0.0.1:8000", metavar="URL", show_default=True, help="Where the API listens.")
@options(json=True, config=False)
async def answer(
    call: CommandLine,
    request: str,
    verdict: str | None,
    edit: JsonObject | None,
    reason: str | None,
    name: str | None,
    store: str,
    url: str,
) -> None:
    """Approve or deny a call of `adk-confirm api`, by the id of its request.

    Not for calls that were asked about in Slack: only people there decide on them.
    """
    if (verdict is None) == (edit is None):
        raise click.UsageError("Say one of --approve, --deny and --edit JSON.")
    async with open_for_reading(store, schemas=(SCHEMA,)) as database:
        session = await database.read(_session_of, request)
    body: JsonObject = {
        "appName": session.app,
        "userId": session.user_id,
        "sessionId": session.id,
        "newMessage": Answer(request, verdict != "deny", edit, reason).as_content().to_dict(),
        "customMetadata": {"answeredBy": name},
    }
    token = os.environ.get(TOKEN_VARIABLE)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        async with (
            aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=None)) as http,
            http.post(f"{url.rstrip('/')}/run", json=body) as response,
        ):
            found = await response.json(content_type=None)
            events = TypeAdapter(list[Event]).validate_python(found if response.status == HTTPStatus.OK else [])
    except (aiohttp.ClientError, OSError, ValueError) as error:
        why = "it is no address of one" if isinstance(error, ValueError) else why_unreached(error)
        raise StoreError(f"No API answers at {url}: {why}. Start `adk-confirm api`, or name it with --url.") from error
    if response.status != HTTPStatus.OK:
        raise Invalid(found["detail"] if isinstance(found, dict) and "detail" in found else f"{url}: {response.status}")
    said = [f"{event.author}: {event.text}" for event in events if event.text]
    nothing = "The answer was taken." if events else "Nothing changed: it was answered before."
    call.tell({"events": [event.to_dict() for event in events]}, *(said or [nothing]))


def _session_of(tx: Tx, request: str) -> SessionId:
    rows = tx.all(_FIND, id=request)
    if any(row.opened_by == "desk" for row in rows):
        raise Forbidden(f"The request {request} was asked about in Slack: only people there decide on it.")
    if len(rows) != 1:
        raise NotFound(f"{len(rows) or 'No'} sessions of this store have a request {request}: nothing was sent.")
    (row,) = rows
    return SessionId(row.app, row.user_id, row.id)
