"""`adk-confirm ids`: the ids that the settings ask for, by name."""

from __future__ import annotations

import asyncio
import json as json_module
import os

import click

from bot.ops import command_texts
from bot.ops.command import tell


@click.command()
@click.argument("text", default="")
@click.option("--json", is_flag=True, help="Print one JSON object, for programs.")
def ids(text: str, json: bool) -> int:
    """Find the ids of people, groups and channels for the settings, by a part of their name or address.

    It needs SLACK_BOT_TOKEN, and no settings file yet.
    """
    from blocks.text import visible
    from bot.config.environment import Environment
    from bot.ops.ids import ids as find
    from runtime.errors import Invalid

    environment = Environment.read(os.environ)
    if environment.bot_token is None:
        raise Invalid(command_texts.UNASKED)
    found = asyncio.run(find(environment.bot_token.get_secret_value(), environment.api_url, text))
    if json:
        tell(json_module.dumps({"found": [one.to_json() for one in found]}, indent=2))
        return 0
    width = max((len(one.entry) for one in found), default=0)
    lines = [visible(f"{one.entry:<{width}}  {one.name}{f'  ({one.note})' if one.note else ''}") for one in found]
    tell(*(lines or [command_texts.NO_IDS.format(text=text)]))
    return 0
