"""The commands at the door: `ask` asks people for a script or a pipeline, and runs a command with their approval,
`mcp-proxy` gives an MCP client tools behind the policies, and `permit verify` checks what a caller got."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sys
import uuid

import click

from adk_confirm.bot.audit.checkpoints import PublicKeys
from adk_confirm.bot.door.client import DoorClient, NoDesk, Refused, door_client
from adk_confirm.bot.door.permit import read_permit
from adk_confirm.bot.ops.command import CommandLine, json_object, options, seconds, tell
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject, as_object, as_text, canonical

URL, TOKEN = "ADK_CONFIRM_DOOR", "ADK_CONFIRM_DOOR_TOKEN"
DENIED, EXPIRED, NOBODY, PENDING = 1, 3, 4, 75
_CODES = {"denied": DENIED, "expired": EXPIRED, "cancelled": EXPIRED}
_REACHING = 30.0
"""Seconds for which a door is tried that does not answer. A report is tried ten times as long."""
_DOOR = click.option(
    "--door", "url", envvar=URL, required=True, metavar="URL", help=f"The door's address.  [env: {URL}]"
)


@click.command()
@click.option("--tool", required=True, metavar="NAME", help="What you want to do, as the policies name it.")
@click.option("--args", "given", default="{}", metavar="JSON", callback=json_object, help="Its arguments.")
@click.option("--reason", default="", metavar="TEXT", help="Why, in one sentence, for the people who decide.")
@click.option("--preview", default="", metavar="TEXT", help="What it would do, in your own words: a plan, a diff.")
@click.option("--wait", default="10m", metavar="TIME", callback=seconds, show_default=True, help="How long to wait.")
@click.option("--key", default="", metavar="TEXT", help="People are asked once for each key. Default: a new one.")
@_DOOR
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
    return asyncio.run(_asked(url, _own_token(), body, key or str(uuid.uuid4()), wait, command))


def _own_token() -> str:
    if token := os.environ.get(TOKEN, "").strip():
        return token
    raise Invalid(f"Set {TOKEN} to the token of this caller.")


async def _asked(url: str, token: str, body: JsonObject, key: str, wait: float, command: tuple[str, ...]) -> int:
    async with door_client(url, token, _REACHING) as door:
        try:
            task = as_object((await door.ask(body, key, wait))["task"])
            if (status := as_text(task["status"])) == "pending":
                return _says(PENDING, f"Nobody has decided yet. Go on waiting with --key {key}.")
            if status != "approved":
                return _says(_CODES.get(status, NOBODY), as_text(task.get("reason")) or f"It is {status}.")
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


# An MCP client


@click.command("mcp-proxy")
@_DOOR
@click.option(
    "--hold", default="50s", metavar="TIME", callback=seconds, show_default=True, help="How long a call waits."
)
@click.option("--listen", default="", metavar="HOST:PORT", help="Speak streamable HTTP there, at /mcp, and not stdio.")
def mcp_proxy(url: str, hold: float, listen: str) -> None:
    """Give an MCP client the tools that the door's servers have. Each call waits for people, and runs in the bot.

    Over stdio the token is read from ADK_CONFIRM_DOOR_TOKEN. Over HTTP each client sends its own, as a bearer token.
    """
    token = "" if listen else _own_token()
    try:
        from adk_confirm.bot.door.proxy import Proxy, over_http, over_stdio
    except ImportError as error:
        raise Invalid("This needs version 2 of the mcp package: install 'adk-confirm[mcp]'.") from error
    if listen:
        over_http(Proxy(url, token, hold), listen)
    else:
        asyncio.run(over_stdio(Proxy(url, token, hold)))


# Permits


@click.group()
def permit() -> None:
    """Check the permits that callers get at the door."""


@permit.command()
@click.argument("given", metavar="[PERMIT]", default="-")
@click.option("--public-key", "public", multiple=True, metavar="HEX", help="The key of the door, as `check` prints it.")
@click.option("--args", "arguments", metavar="JSON", callback=json_object, help="The arguments that are about to run.")
@options(json=True)
def verify(call: CommandLine, given: str, public: tuple[str, ...], arguments: JsonObject | None) -> int:
    """Check a permit, from the command line or standard input. The exit code is 1 if it does not count."""
    text = sys.stdin.read() if given == "-" else given
    own = None if public else call.settings.environment.signer
    if not public and own is None:
        raise Invalid("Name the key with --public-key, or set ADK_CONFIRM_CHECKPOINT_KEY.")
    keys = PublicKeys(*public, *([own.public] if own else []))
    try:
        claims = read_permit(text, keys, call.now().timestamp(), arguments)
    except Invalid as error:
        call.tell({"valid": False, "why": str(error)}, str(error))
        return 1
    lines = [f"{name}: {value}" for name, value in claims.items()]
    call.tell({"valid": True, "permit": claims}, "The permit is genuine and in time.", *lines)
    return 0
