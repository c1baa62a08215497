"""`adk-confirm ask`: asks people at the door, from a script or a pipeline, and runs a command with their approval."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import uuid

import click

from adk_confirm.bot.door.client import DoorClient, NoDesk, Refused, door_client
from adk_confirm.bot.ops.command import json_object, seconds, tell
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, canonical

URL, TOKEN = "ADK_CONFIRM_DOOR", "ADK_CONFIRM_DOOR_TOKEN"
DENIED, EXPIRED, NOBODY, PENDING = 1, 3, 4, 75
_CODES = {"denied": DENIED, "expired": EXPIRED, "cancelled": EXPIRED, "pending": PENDING}
_REACHING = 30.0
"""Seconds for which a door is tried that does not answer. A report is tried ten times as long."""


@click.command()
@click.option("--tool", required=True, metavar="NAME", help="What you want to do, as the policies name it.")
@click.option("--args", "given", default="{}", metavar="JSON", callback=json_object, help="Its arguments.")
@click.option("--reason", default="", metavar="TEXT", help="Why, in one sentence, for the people who decide.")
@click.option("--preview", default="", metavar="TEXT", help="What it would do, in your own words: a plan, a diff.")
@click.option("--wait", default="10m", metavar="TIME", callback=seconds, show_default=True, help="For people.")
@click.option(
    "--key", default="", metavar="TEXT", help="Asks once, however often it runs. Default: a new one each time."
)
@click.option("--door", "url", envvar=URL, required=True, metavar="URL", help=f"The door's address.  [env: {URL}]")
@click.option("--exec", "execute", is_flag=True, help="Run the command after -- once it is approved, and report.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def ask(
    url: str, given: JsonObject, wait: float, key: str, execute: bool, command: tuple[str, ...], **about: str
) -> int:
    """Ask people to approve what a script is about to do.

    The exit code is 0 if it is approved (standard output has the approved arguments, which people may have edited),
    1 if it is denied, 3 if it expired or was withdrawn, 4 if nobody may decide or the door can't be reached, and 75 if
    it is still pending. Standard error says why. After --exec began, it is the command's own.

    The token is read from ADK_CONFIRM_DOOR_TOKEN.
    """
    if execute != bool(command):
        raise click.UsageError("Write the command after --exec --, as in: --exec -- ./deploy.sh")
    body: JsonObject = {"arguments": given, **{name: text for name, text in about.items() if text}}
    return asyncio.run(_asked(url, own_token(), body, key or str(uuid.uuid4()), wait, command))


def own_token() -> str:
    if token := os.environ.get(TOKEN, "").strip():
        return token
    raise Invalid(f"Set {TOKEN} to the token of this caller.")


async def _asked(url: str, token: str, body: JsonObject, key: str, wait: float, command: tuple[str, ...]) -> int:
    async with door_client(url, token, _REACHING) as door:
        try:
            said = await door.ask(body, key, wait)
            task = as_object(said["task"])
            if task["status"] != "approved":
                return _not_approved(task, key)
            claim = {"claim": secrets.token_urlsafe(24)}
            at = as_text(task["status_endpoint"])
            permit = await door.send("POST", f"{at}/claim", {**claim})
        except (NoDesk, Refused) as error:
            return _says(NOBODY, str(error))
        arguments = as_object(permit["arguments"])
        if not command:
            await _report(door, at, {**claim, "status": "done", "result": {"handed to": "a script, which runs it"}})
            tell(canonical(arguments))
            return 0
        code = await _run(command, arguments, as_text(permit["permit"]))
        await _report(door, at, {**claim, "status": "failed" if code else "done", "result": {"exit": code}})
        return code if code >= 0 else 128 - code


def _not_approved(task: JsonObject, key: str) -> int:
    status = as_text(task["status"])
    if status == "pending":
        return _says(PENDING, f"Nobody has decided yet. Go on waiting with --key {key}.")
    return _says(_CODES.get(status, NOBODY), as_text(task.get("reason")) or f"It is {status}.")


async def _run(command: tuple[str, ...], arguments: JsonObject, permit: str) -> int:
    """Runs the command with the approved arguments on its standard input and in its environment."""
    names = {f"ADK_CONFIRM_ARG_{name}": value for name, value in arguments.items() if name.isidentifier()}
    texts = {name: value if isinstance(value, str) else json.dumps(value) for name, value in names.items()}
    own = {"ADK_CONFIRM_ARGUMENTS": canonical(arguments), "ADK_CONFIRM_PERMIT": permit, **texts}
    inherited = {name: value for name, value in os.environ.items() if name != TOKEN}
    usable = {name: value for name, value in own.items() if "\0" not in value}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.PIPE, env={**inherited, **usable}
        )
    except OSError as error:
        return _says(127, f"{command[0]} can't be run: {error.strerror}.")
    await process.communicate(canonical(arguments).encode())
    assert process.returncode is not None
    return process.returncode


async def _report(door: DoorClient, at: str, body: JsonObject) -> None:
    try:
        await DoorClient(door.http, door.url, 10 * door.patience).send("POST", f"{at}/result", body)
    except (NoDesk, Refused) as error:
        _says(0, f"The report did not arrive, so people will be asked what became of it. {error}")


def _says(code: int, sentence: str) -> int:
    print(f"adk-confirm ask: {sentence}", file=sys.stderr)
    return code
