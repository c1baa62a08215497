"""`adk-confirm reapply`: waiting confirmations come under the policies as the file has them now."""

from __future__ import annotations

import argparse
import asyncio

from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import Settings
from bot.operations.operate import operate, reapply_arguments, reapply_command, rules_of
from bot.operations.reapply import Reapplied
from bot.worker.worker import PeopleLookup
from runtime.jsontypes import JsonObject
from runtime.store.database import Database


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    """1 when some were left as they were."""
    done = asyncio.run(_reapply(settings_of(args), dry_run=args.dry_run))
    told = done.get("rows")
    rows = [Reapplied.from_json(row) for row in told if isinstance(row, dict)] if isinstance(told, list) else []
    tell(*(words.reapplied(row, dry_run=args.dry_run) for row in rows))
    left = sum(row.trouble is not None for row in rows)
    if not rows:
        tell(words.NOTHING_TO_REAPPLY)
    if left:
        tell(words.LEFT.format(count=left))
    if done.get("restart"):
        tell(words.RESTART)
    return 1 if left else 0


async def _reapply(settings: Settings, *, dry_run: bool) -> JsonObject:
    async def here(database: Database) -> JsonObject:
        return await reapply_command(database, _people(settings, database), rules_of(settings), dry_run=dry_run)

    arguments = reapply_arguments(settings.policies, dry_run=dry_run)
    return await operate(settings, "reapply", arguments, here, read_only=dry_run)


def _people(settings: Settings, database: Database) -> PeopleLookup:
    """Whom to ask when no service runs that knows them already. Nothing is asked before it is needed."""
    from bot.slack.directory.directory import Directory
    from bot.slack.outbound.client import Sender
    from bot.slack.workspaces.tokens import client_for

    return Directory(Sender(client_for(settings, database, words.NOT_SIGNED_IN)))
