"""`adk-confirm grants`: lists the grants in force."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from bot.ops import command_texts
from bot.ops.command import CommandLine, names_option, options

if TYPE_CHECKING:
    from datetime import datetime

    from bot.ops.grants_text import GrantInForce
    from bot.ops.names import KnownNames


@click.command()
@names_option
@options(json=True)
def grants(call: CommandLine, names: bool) -> int:
    """List the grants in force: which calls run without asking, until when, who allowed it, and how often it was used.

    `adk-confirm revoke ID` ends one.
    """
    found, at, known = asyncio.run(_find(call, names=names and not call.json))
    lines = [line for one in found for line in command_texts.grant(one, at, known)] or [command_texts.NO_GRANTS]
    call.tell({"grants": [one.to_json() for one in found]}, *lines)
    return 0


async def _find(call: CommandLine, *, names: bool) -> tuple[list[GrantInForce], datetime, KnownNames]:
    from bot.ops.grants_text import read_grants
    from bot.ops.names import NO_NAMES, Namer, channel_of
    from bot.store.repository import now

    async with call.reading() as database:
        found, at = await database.read(read_grants), await database.read(now)
        ids = [giver for one in found for giver in one.given_by]
        ids += [channel for one in found if (channel := channel_of(one.session))]
        return found, at, await Namer(call.settings).learn(ids) if names else NO_NAMES
