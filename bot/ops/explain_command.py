"""`adk-confirm explain`: says which policy covers a call, and who may decide it. It asks nobody for approval."""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING

import click

from bot.ops import command_texts
from bot.ops.command import CommandLine, options, paint

if TYPE_CHECKING:
    from bot.config.settings import Settings
    from bot.ops.agent_tools import Tools
    from bot.ops.names import KnownNames
    from bot.policy.model import CallFacts
    from runtime.jsontypes import JsonObject


@click.command()
@click.option("--tool", default="", metavar="NAME", help="The tool that is called.")
@click.option("--input", "asking", default="", metavar="NAME", help="Or the node or tool that asks people a question.")
@click.option("--args", "given", default="{}", metavar="JSON", help="Its arguments, as a JSON object.")
@click.option("--asker", default="", metavar="ID", help="The Slack user who asks the agent for it.")
@click.option("--channel", default="", metavar="ID", help="The session's channel.")
@click.option("--session", default="", metavar="ID", help="The session, for policies that look at it.")
@click.option("--agent", default="", metavar="NAME", help="The agent, for policies that look at it.")
@click.option("--app", default="", metavar="NAME", help="The app, for policies that look at it.")
@options(json=True)
def explain(
    call: CommandLine,
    tool: str,
    asking: str,
    given: str,
    asker: str,
    channel: str,
    session: str,
    agent: str,
    app: str,
) -> int:
    """Show which policy covers a call or a question, why none before it does, and who may decide.

    The exit code is 1 if the call would be refused without asking anybody.
    """
    if bool(tool) == bool(asking):
        raise click.UsageError("Name either a tool (--tool) or what asks a question (--input).")
    from blocks.text import visible
    from bot.ops.explain import explain as explanation
    from bot.policy.model import CallFacts

    settings = call.settings
    facts = CallFacts(
        tool=tool or asking,
        args=_arguments(given),
        session=session,
        asker=asker,
        channel=channel,
        agent=agent,
        app=app,
        question=bool(asking),
    )
    names, tools = asyncio.run(_look_up(settings, facts))
    found = explanation(settings.policies, facts, names)
    unknown = [command_texts.unknown_tool(tool, tools)] if tool and tools is not None and tool not in tools else []
    lines = [*map(visible, found.lines)]
    done: JsonObject = {"governed": found.governed, "lines": [*unknown, *lines]}
    call.tell(done, *(paint(line, "red") for line in unknown), *lines)
    about = ("policy", *(f"policy[{index}]" for index in found.concerned))
    for warning in settings.warnings:
        if warning.key in about:
            print(f"Warning: {warning}", file=sys.stderr)
    return 0 if found.governed else 1


async def _look_up(settings: Settings, facts: CallFacts) -> tuple[KnownNames, Tools | None]:
    """The names from Slack, and the agent's tools, as far as they can be found out."""
    from bot.ops.agent_tools import tools_of
    from bot.ops.explain import ids_in
    from bot.ops.names import names_of
    from bot.slack.identity import slack_client
    from runtime.errors import ConfirmError

    client = slack_client(settings, patient=True) if settings.environment.bot_token is not None else None
    tools = None
    try:
        if settings.agent is not None:
            tools = await tools_of(settings.agent)
    except ConfirmError as error:
        print(f"The agent's tools can't be listed: {error}", file=sys.stderr)
    return await names_of(client, ids_in(settings.policies, facts)), tools


def _arguments(text: str) -> JsonObject:
    from bot.confirmation.exact_json import check_json
    from runtime.errors import Invalid

    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(command_texts.NO_JSON.format(why=error)) from error
    if not isinstance(arguments, dict):
        raise Invalid(
            command_texts.NO_JSON.format(why=f"it is {'a list' if isinstance(arguments, list) else 'one value'}")
        )
    check_json(arguments, "--args")
    return arguments
