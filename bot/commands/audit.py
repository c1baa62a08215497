"""`adk-confirm audit`: the ledger exported, one story shown, all of it verified, what is old purged."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TextIO

from blocks.text import visible
from bot.audit.checkpoints import Anchor
from bot.audit.ledger import LedgerKeys, stamp
from bot.audit.verification import Report
from bot.commands import words
from bot.commands.common import add_config, now, settings_of, standard_output, tell, tell_all
from bot.config.settings import Settings
from bot.confirmation.words import verified
from bot.operations.audit_export import csv_header, csv_row, jsonl_row
from bot.operations.operate import operate, purge_command, reading, secret_of
from bot.operations.operator_times import EXAMPLES, begins, ends
from bot.store.audit_log import Story, Wanted, find_chain, pages, read_story
from bot.store.audit_verify import verify_ledger
from bot.store.purge import Purged, plan
from runtime.errors import Invalid, StoreError
from runtime.jsontypes import JsonObject
from runtime.store.database import Database


def configure(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    what = parser.add_subparsers(dest="what", required=True, metavar="export | show | verify | purge")
    _configure_export(what.add_parser("export", help="the ledger's lines, for other programs"))
    show = what.add_parser("show", help="the whole story of one confirmation or session")
    show.add_argument("id", metavar="ID", help="a confirmation (the beginning of its id will do) or a session")
    verify = what.add_parser("verify", help="whether anything was changed; exit code 1 when it was")
    verify.add_argument(
        "--anchor", metavar="FILE", help="the checkpoint lines kept outside the store, - for standard input"
    )
    purge = what.add_parser("purge", help="forget contents; the chains still verify")
    purge.add_argument("--before", required=True, metavar="DATE", help=f"what ended before it goes: {EXAMPLES}")
    purge.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    for subparser, command in ((what.choices["export"], _export), (show, _show), (verify, _verify), (purge, _purge)):
        add_config(subparser, again=True)
        subparser.set_defaults(command=command)


def _configure_export(export: argparse.ArgumentParser) -> None:
    export.add_argument("--since", metavar="DATE", help=f"lines from then on: {EXAMPLES}")
    export.add_argument("--until", metavar="DATE", help="lines up to then; a day is meant to its end")
    export.add_argument("--tool", metavar="NAME", help="lines about one tool; shell patterns such as 'deploy*' will do")
    export.add_argument("--session", metavar="ID", help="lines of one session, or of the system")
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="default: %(default)s")
    export.add_argument("--output", type=Path, metavar="FILE", help="default: standard output")


def run(args: argparse.Namespace) -> int:
    command: Callable[[argparse.Namespace, Settings], int] = args.command
    return command(args, settings_of(args))


# Export


def _export(args: argparse.Namespace, settings: Settings) -> int:
    at = now()
    wanted = Wanted(
        since=begins(args.since, "--since", at) if args.since else None,
        until=ends(args.until, "--until", at) if args.until else None,
        tool=args.tool,
    )
    with _writing(args.output) as out:
        count = asyncio.run(_write(settings, wanted, args.session, args.format, out))
    if args.output is not None:
        tell(words.EXPORTED.format(count=count, path=args.output))
    return 0


async def _write(settings: Settings, wanted: Wanted, session: str | None, form: str, out: TextIO) -> int:
    """Page by page: however long the ledger is, one page of it is in memory."""
    count = 0
    async with reading(settings.store_url) as database:
        if session is not None:
            wanted = replace(wanted, chain=await database.read(find_chain, session))
        async for rows in _rows(database, wanted, form):
            if not tell_all(rows, out):
                break
            count += len(rows)
    return count - (form == "csv")


async def _rows(database: Database, wanted: Wanted, form: str) -> AsyncIterator[list[str]]:
    if form == "csv":
        yield [csv_header()]
    async for page in pages(database, wanted):
        yield [csv_row(line) if form == "csv" else f"{jsonl_row(line)}\n" for line in page]


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """A file is there when all of it is written, readable by its owner alone; half an export is never taken for one."""
    if path is None:
        yield standard_output()
        return
    part = path.with_name(f"{path.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                yield out
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(words.OUTPUT_UNWRITABLE.format(path=path, why=error.strerror or error)) from error


# Show


def _show(args: argparse.Namespace, settings: Settings) -> int:
    from bot.operations.audit_text import story_text  # what draws messages takes a while to load

    tell(*story_text(asyncio.run(_read(settings, args.id))))
    return 0


async def _read(settings: Settings, name: str) -> Story:
    async with reading(settings.store_url) as database:
        return await database.read(read_story, name)


# Verify


def _verify(args: argparse.Namespace, settings: Settings) -> int:
    """1: something is not as it was written."""
    keys = LedgerKeys(secret_of(settings))
    anchor = _anchor(args.anchor) if args.anchor else None
    report = asyncio.run(_look(settings, keys, anchor))
    tell(visible(verified(report)))
    return 0 if report.broken is None else 1


async def _look(settings: Settings, keys: LedgerKeys, anchor: Anchor | None) -> Report:
    async with reading(settings.store_url) as database:
        return await database.read(verify_ledger, keys, anchor)


def _anchor(name: str) -> Anchor:
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        why = error.strerror or error
        raise Invalid(words.ANCHOR_UNREADABLE.format(path=name, why=why)) from error
    return Anchor.parse(text)


# Purge


def _purge(args: argparse.Namespace, settings: Settings) -> int:
    before, at = begins(args.before, "--before", now()), now()
    if before > at:
        raise Invalid(words.FUTURE.format(text=args.before))
    gone = asyncio.run(_plan(settings, before) if args.dry_run else _forget(settings, before))
    tell(*words.purged(gone, before, dry_run=args.dry_run))
    return 0


async def _plan(settings: Settings, before: datetime) -> Purged:
    async with reading(settings.store_url) as database:
        return await plan(database, before)


async def _forget(settings: Settings, before: datetime) -> Purged:
    async def here(database: Database) -> JsonObject:
        return await purge_command(database, before)

    return Purged.from_json(await operate(settings, "purge", {"before": stamp(before)}, here))
