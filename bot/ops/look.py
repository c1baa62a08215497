"""The commands that only look: check, explain, pending, grants and ids. What they find is in the modules that they
import when they run."""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import click

from adk_confirm.bot.ops.command import CommandLine, options, tell

if TYPE_CHECKING:
    from adk_confirm.runtime.jsontypes import JsonObject


@click.command()
@options(json=True, names=True)
def pending(call: CommandLine) -> int:
    """List the calls that wait for approval: who may decide, since when, and until when.

    It also lists work that failed so often that it is not retried, and says whether runs are paused.
    """
    from adk_confirm.bot.ops.waiting import pending

    return call.show(pending)


@click.command()
@options(json=True, names=True)
def grants(call: CommandLine) -> int:
    """List the grants in force: which calls run without asking, until when, who allowed it, and how often it was used.

    `adk-confirm revoke ID` ends one.
    """
    from adk_confirm.bot.ops.waiting import grants

    return call.show(grants)


@click.command()
@options(json=True)
def check(call: CommandLine) -> int:
    """Check settings, Slack, store and agent before starting.

    It changes nothing, and may run beside the service. The exit code is 1 if something must be fixed.
    """
    from adk_confirm.bot.ops.check import check

    return asyncio.run(check(call))


@click.command()
@click.option("--tool", default="", metavar="NAME", help="The tool that is called.")
@click.option("--input", "asking", default="", metavar="NAME", help="Or the node or tool that asks people a question.")
@click.option("--args", "given", metavar="JSON", help="Its arguments, as a JSON object.")
@click.option("--asker", default="", metavar="ID", help="The Slack user who asks the agent for it.")
@click.option("--channel", default="", metavar="ID", help="The session's channel.")
@click.option("--session", default="", metavar="ID", help="The session, for policies that look at it.")
@click.option("--agent", default="", metavar="NAME", help="The agent, for policies that look at it.")
@click.option("--app", default="", metavar="NAME", help="The app, for policies that look at it.")
@options(json=True)
def explain(call: CommandLine, tool: str, asking: str, given: str | None, **facts: str) -> int:
    """Show which policy covers a call or a question, why none before it does, and who may decide.

    The exit code is 1 if the call would be refused without asking anybody.
    """
    if bool(tool) == bool(asking):
        raise click.UsageError("Name either a tool (--tool) or what asks a question (--input).")
    from adk_confirm.bot.ops.explain import explain
    from adk_confirm.bot.policy.model import CallFacts

    args = {} if given is None else _arguments(given)
    asked = CallFacts(tool=tool or asking, args=args, question=bool(asking), **facts)
    return asyncio.run(explain(call, asked, without_args=given is None))


def _arguments(text: str) -> JsonObject:
    from adk_confirm.bot.confirmation.stored_json import check_json
    from adk_confirm.runtime.errors import Invalid

    try:
        arguments = json.loads(text)
        if not isinstance(arguments, dict):
            raise ValueError(f"it is {'a list' if isinstance(arguments, list) else 'one value'}")
    except (ValueError, RecursionError) as error:
        said = f'--args is not a JSON object: {error}. Write for example --args \'{{"env": "prod"}}\'.'
        raise Invalid(said) from error
    check_json(arguments, "--args")
    return arguments


@click.command()
@click.argument("text", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
def ids(text: str, as_json: bool) -> int:
    """Find the ids of people, groups and channels for the settings, by a part of their name or address.

    It needs SLACK_BOT_TOKEN, and no settings file yet.
    """
    from adk_confirm.blocks.text import visible
    from adk_confirm.bot.ops.ids import find

    found = asyncio.run(find(os.environ, text))
    if as_json:
        tell(json.dumps({"found": found}, indent=2))
        return 0
    width = max((len(one["entry"]) for one in found), default=0)
    notes = [f"  ({one['note']})" if one["note"] else "" for one in found]
    lines = [f"{one['entry']:<{width}}  {one['name']}{note}" for one, note in zip(found, notes, strict=True)]
    nobody = f"Nobody, no group and no channel that the app sees has “{text}” in its name."
    tell(*(map(visible, lines) if lines else [nobody]))
    return 0
