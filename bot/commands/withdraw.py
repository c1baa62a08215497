"""`adk-confirm withdraw ID`: a waiting confirmation is taken back by whoever runs this app."""

from __future__ import annotations

import argparse
import asyncio

from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import Settings
from bot.operations.operate import operate, rules_of, withdraw_command
from runtime.jsontypes import JsonObject
from runtime.store.database import Database


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", help="the confirmation, or the beginning of its id; see `pending`")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    done = asyncio.run(_withdraw(settings_of(args), args.id))
    said = words.WITHDRAWN if done["counted"] else words.WITHDRAWAL_WAITS
    tell(said.format(id=done["id"]))
    return 0


async def _withdraw(settings: Settings, name: str) -> JsonObject:
    async def here(database: Database) -> JsonObject:
        return await withdraw_command(database, rules_of(settings), name)

    return await operate(settings, "withdraw", {"id": name}, here)
