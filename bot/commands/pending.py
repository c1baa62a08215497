"""`adk-confirm pending`: what waits, since when, for whom, until when; and what stopped being tried."""

from __future__ import annotations

import argparse
import asyncio
import json
from datetime import datetime

from bot.audit.ledger import stamp
from bot.commands import words
from bot.commands.common import add_config, settings_of, tell
from bot.config.settings import Settings
from bot.operations.operate import reading
from bot.operations.pending import Parked, Pending, pending, read_parked, read_paused
from bot.store.repository import now
from runtime.jsontypes import JsonObject


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    add_config(parser)


def run(args: argparse.Namespace) -> int:
    found = asyncio.run(_look(settings_of(args)))
    tell(*(_as_json(found) if args.json else _as_text(found)))
    return 0


class _Found:
    def __init__(self, at: datetime, paused: datetime | None) -> None:
        self.at, self.paused = at, paused
        self.waiting: list[Pending] = []
        self.parked: list[Parked] = []


async def _look(settings: Settings) -> _Found:
    async with reading(settings.store_url) as database:
        found = _Found(await database.read(now), await database.read(read_paused))
        async for one in pending(database):
            if isinstance(one, Pending):
                found.waiting.append(one)
            else:
                found.parked.append(one)
        found.parked += await database.read(read_parked)
    return found


def _as_json(found: _Found) -> list[str]:
    told: JsonObject = {
        "paused_since": None if found.paused is None else stamp(found.paused),
        "waiting": [one.to_json() for one in found.waiting],
        "parked": [one.to_json() for one in found.parked],
    }
    return [json.dumps(told, indent=2)]


def _as_text(found: _Found) -> list[str]:
    lines = [words.paused(found.paused)] if found.paused is not None else []
    lines += [line for one in found.waiting for line in words.waits(one, found.at)]
    lines += [] if found.waiting else [words.NOTHING_WAITS]
    return lines + [words.parked(one) for one in found.parked]
