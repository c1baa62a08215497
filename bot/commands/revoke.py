"""`adk-confirm revoke ID`: a grant lets nothing through any more."""

from __future__ import annotations

import argparse
import asyncio

from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import Settings
from bot.operations.operate import operate, revoke_command, rules_of
from runtime.jsontypes import JsonObject
from runtime.store.database import Database


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "id", metavar="ID", help="the grant, as its thread and card name it, or the beginning of its id"
    )
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    done = asyncio.run(_revoke(settings_of(args), args.id))
    said = words.REVOKED if done["counted"] else words.REVOCATION_WAITS
    tell(said.format(id=done["id"]))
    return 0


async def _revoke(settings: Settings, name: str) -> JsonObject:
    async def here(database: Database) -> JsonObject:
        return await revoke_command(database, rules_of(settings), name)

    return await operate(settings, "revoke", {"id": name}, here)
