"""`adk-confirm grants`: the grants in force."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from bot.commands import words
from bot.commands.common import Call, options

if TYPE_CHECKING:
    from datetime import datetime

    from bot.operations.grants import GrantInForce


@click.command()
@options(json=True)
def grants(call: Call) -> int:
    """List the grants in force: which calls run without asking, until when, who allowed it, and how often it was used.

    `adk-confirm revoke ID` ends one.
    """
    found, at = asyncio.run(_find(call))
    lines = [line for one in found for line in words.grant(one, at)] or [words.NO_GRANTS]
    call.tell({"grants": [one.to_json() for one in found]}, *lines)
    return 0


async def _find(call: Call) -> tuple[list[GrantInForce], datetime]:
    from bot.audit.fingerprint import Seal
    from bot.operations.grants import read_grants
    from bot.store.repository import now

    secret = call.settings.secret
    seal = None if secret is None else Seal(secret.get_secret_value(), "call")
    async with call.reading() as database:
        return await database.read(read_grants, seal), await database.read(now)
