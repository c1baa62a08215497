"""`adk-confirm answer` answers a request of `adk-confirm api` from the command line, as any client may over REST."""

from __future__ import annotations

import os
from http import HTTPStatus

import aiohttp
import click

from adk_confirm.bot.ops.command import CommandLine, account, json_object, open_for_reading, options
from adk_confirm.runtime.errors import Forbidden, Invalid, NotFound, StoreError
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.requests_and_answers import Answer
from adk_confirm.runtime.rest.guard import TOKEN_VARIABLE
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.tables import SCHEMA
from adk_confirm.runtime.wire import Event, SessionId

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
@click.option("--store", default="sqlite:///adk-confirm.db", metavar="URL", show_default=True, help="The API's store.")
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
    given = Answer(request, verdict != "deny", edit, reason)
    events = await _answer(given, name, store, url)
    said = [f"{event.author}: {event.text}" for event in events if event.text]
    nothing = "The answer was taken." if events else "Nothing changed: it was answered before."
    call.tell({"events": [event.to_dict() for event in events]}, *(said or [nothing]))


async def _answer(given: Answer, name: str | None, store: str, url: str) -> list[Event]:
    async with open_for_reading(store, schemas=(SCHEMA,)) as database:
        session = await database.read(_session_of, given.id)
    body: JsonObject = {
        "appName": session.app,
        "userId": session.user_id,
        "sessionId": session.id,
        "newMessage": given.as_content().to_dict(),
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
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise StoreError(
            f"No API answers at {url} ({error}). Start `adk-confirm api`, or name it with --url."
        ) from error
    if response.status != HTTPStatus.OK:
        raise Invalid(found["detail"] if isinstance(found, dict) and "detail" in found else f"{url}: {response.status}")
    return [Event.model_validate(one) for one in found]


def _session_of(tx: Tx, request: str) -> SessionId:
    rows = tx.all(_FIND, id=request)
    if any(row.opened_by == "desk" for row in rows):
        raise Forbidden(f"The request {request} was asked about in Slack: only people there decide on it.")
    if len(rows) != 1:
        raise NotFound(f"{len(rows) or 'No'} sessions of this store have a request {request}: nothing was sent.")
    (row,) = rows
    return SessionId(row.app, row.user_id, row.id)
