"""`adk-confirm pending`: the calls that wait for people, and the work that failed too often."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from bot.ops import command_texts
from bot.ops.command import CommandLine, names_option, options, paint

if TYPE_CHECKING:
    from datetime import datetime

    from bot.ops.names import KnownNames
    from bot.ops.waiting import ParkedRow, Pending
    from bot.store.mailbox import PausedRuns


@click.command()
@names_option
@options(json=True)
def pending(call: CommandLine, names: bool) -> int:
    """List the calls that wait for approval: who may decide, since when, and until when.

    It also lists work that failed so often that it is not retried, and says whether runs are paused.
    """
    from bot.audit.ledger import stamp

    found, known = asyncio.run(_find(call, names=names and not call.json))
    pause = found.pause
    lines = [paint(command_texts.paused(pause), "yellow")] if pause is not None else []
    lines += [line for one in found.waiting for line in command_texts.waits(one, found.at, known)] or [
        command_texts.NOTHING_WAITS
    ]
    lines += [paint(command_texts.parked(one), "red") for one in found.parked]
    call.tell(
        {
            "paused_since": None if pause is None else stamp(pause.since),
            "paused_by": None if pause is None else pause.by,
            "waiting": [one.to_json() for one in found.waiting],
            "parked": [one.to_json() for one in found.parked],
        },
        *lines,
    )
    return 0


class _Found:
    def __init__(self, at: datetime, pause: PausedRuns | None) -> None:
        self.at, self.pause = at, pause
        self.waiting: list[Pending] = []
        self.parked: list[ParkedRow] = []


async def _find(call: CommandLine, *, names: bool) -> tuple[_Found, KnownNames]:
    from bot.ops.names import NO_NAMES, Namer
    from bot.ops.waiting import Pending, read_parked
    from bot.ops.waiting import find_pending as waiting
    from bot.store.mailbox import read_pause
    from bot.store.repository import now

    async with call.reading() as database:
        found = _Found(await database.read(now), await database.read(read_pause))
        async for one in waiting(database):
            found.waiting.append(one) if isinstance(one, Pending) else found.parked.append(one)
        found.parked += await database.read(read_parked)
        ids = (one for waits in found.waiting for one in waits.ids)
        return found, await Namer(call.settings).learn(ids) if names else NO_NAMES
