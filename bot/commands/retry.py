"""`adk-confirm retry [NAME]`: what failed so often that it was put aside is tried again."""

from __future__ import annotations

import argparse
import asyncio

from blocks.text import visible
from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import Settings
from bot.operations.operate import operate, retry_command
from runtime.jsontypes import JsonObject
from runtime.store.database import Database


def configure(parser: argparse.ArgumentParser) -> None:
    what = "as `pending` shows it, or how it begins; without one, all that stopped"
    parser.add_argument("name", metavar="NAME", nargs="?", help=what)
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    done = asyncio.run(_retry(settings_of(args), args.name))
    again = done.get("again")
    rows = [row for row in again if isinstance(row, dict)] if isinstance(again, list) else []
    tell(*(visible(words.TRIED_AGAIN.format_map(row)) for row in rows))
    if not rows:
        tell(words.NOTHING_TO_RETRY)
    return 0


async def _retry(settings: Settings, name: str | None) -> JsonObject:
    async def here(database: Database) -> JsonObject:
        return await retry_command(database, name)

    return await operate(settings, "retry", {} if name is None else {"name": name}, here)
