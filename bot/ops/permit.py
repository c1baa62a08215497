"""`adk-confirm permit verify`: whether a permit of the door is genuine, in time, and for these arguments."""

from __future__ import annotations

import sys

import click

from adk_confirm.bot.audit.checkpoints import PublicKeys
from adk_confirm.bot.door.permit import read_permit
from adk_confirm.bot.ops.command import CommandLine, json_object, options
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject


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
    keys = PublicKeys(*(public or [_own(call)]))
    try:
        claims = read_permit(text, keys, call.now().timestamp(), arguments)
    except Invalid as error:
        call.tell({"valid": False, "why": str(error)}, str(error))
        return 1
    lines = [f"{name}: {value}" for name, value in claims.items()]
    call.tell({"valid": True, "permit": claims}, "The permit is genuine and in time.", *lines)
    return 0


def _own(call: CommandLine) -> str:
    key = call.settings.environment.signer
    if key is None:
        raise Invalid("Name the key with --public-key, or set ADK_CONFIRM_CHECKPOINT_KEY.")
    return key.public
