"""`adk-confirm explain`: which policy a call would fall under, and what that means. Nothing is asked of anybody."""

from __future__ import annotations

import argparse
import json
import sys

from blocks.text import visible
from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.confirmation.exact_json import check_json
from bot.operations.explain import explain
from bot.policy.model import CallFacts
from runtime.errors import Invalid
from runtime.jsontypes import JsonObject


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tool", required=True, metavar="NAME", help="the tool that would be called")
    parser.add_argument("--args", default="{}", metavar="JSON", help="its arguments; default: none")
    parser.add_argument("--team", default="", metavar="ID", help="the workspace, for policies that name one")
    parser.add_argument("--asker", default="", metavar="ID", help="the Slack user who asks the agent for it")
    parser.add_argument("--channel", default="", metavar="ID", help="the channel that the session is in")
    parser.add_argument("--session", default="", metavar="ID", help="the session, for policies that look at it")
    parser.add_argument("--agent", default="", metavar="NAME", help="the agent, for policies that look at it")
    parser.add_argument("--app", default="", metavar="NAME", help="the app, for policies that look at it")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    call = CallFacts(
        tool=args.tool,
        args=_arguments(args.args),
        session=args.session,
        asker=args.asker,
        team=args.team,
        channel=args.channel,
        agent=args.agent,
        app=args.app,
        enterprise=args.team if args.team.startswith("E") else None,
    )
    tell(*map(visible, explain(settings.policies, call).lines))
    for warning in settings.warnings:
        if warning.key.startswith("policy"):
            print(f"{warning}", file=sys.stderr)
    return 0


def _arguments(text: str) -> JsonObject:
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(words.NO_JSON.format(why=error)) from error
    if not isinstance(arguments, dict):
        raise Invalid(words.NO_JSON.format(why=f"it is {'a list' if isinstance(arguments, list) else 'one value'}"))
    check_json(arguments, "--args")
    return arguments
