"""`adk-confirm audit`: export the ledger, show one confirmation or session, verify all of it, purge what is old."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import click

from bot.ops import command_texts
from bot.ops.command import CommandLine, names_option, options, paint, standard_output, tell, tell_all

if TYPE_CHECKING:
    from bot.audit.checkpoints import Anchor
    from bot.audit.verification import Report
    from bot.ops.names import Namer
    from bot.store.audit_log import LineFilter
    from runtime.jsontypes import JsonObject
    from runtime.store.database import Database
    from runtime.store.seal import Seal

_EXAMPLES = "2030-01-31, 2030-01-31T18:00, 2030-01-31T18:00+01:00, or 90d for 90 days ago"


@click.group(no_args_is_help=True)
def audit() -> None:
    """Read, export, verify or purge the audit: the append-only ledger of everything that happened."""


# Export


@audit.command()
@click.option("--since", metavar="DATE", help=f"Lines from then on: {_EXAMPLES}.")
@click.option("--until", metavar="DATE", help="Lines before then; of a day, to its end.")
@click.option(
    "--tool", metavar="NAME", help="Lines about one tool, or about those that match a pattern such as 'deploy*'."
)
@click.option("--session", metavar="ID", help="Lines of one session, or of the system.")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@names_option
@options()
def export(
    call: CommandLine,
    since: str | None,
    until: str | None,
    tool: str | None,
    session: str | None,
    form: Literal["jsonl", "csv"],
    output: Path | None,
    names: bool,
) -> int:
    """Export the ledger's lines for other programs."""
    from bot.ops.operator_times import parse_end, parse_start
    from bot.store.audit_log import LineFilter

    at = call.now()
    wanted = LineFilter(
        since=parse_start(since, "--since", at) if since else None,
        until=parse_end(until, "--until", at) if until else None,
        tool=tool,
    )
    with _writing(output) as out:
        count = asyncio.run(_write(call, wanted, session, form, out, names=names))
    given = {"--since": since, "--until": until, "--tool": tool, "--session": session}
    if count == 0:
        filters = " ".join(f"{name} {value}" for name, value in given.items() if value)
        click.echo(command_texts.NO_LINES.format(filters=f" {filters}" if filters else ""), err=True)
    elif output is not None:
        tell(command_texts.EXPORTED.format(count=count, path=output))
    return 0


async def _write(
    call: CommandLine, wanted: LineFilter, session: str | None, form: str, out: TextIO, *, names: bool
) -> int:
    """Page by page, so that a long ledger needs little memory. Returns how many lines were written."""
    from dataclasses import replace

    from bot.ops.names import Namer
    from bot.store.audit_log import find_chain

    count = 0
    async with call.reading() as database:
        if session is not None:
            wanted = replace(wanted, chain=await database.read(find_chain, session))
        namer = Namer(call.settings) if names else None
        async for rows in _rows(database, wanted, form, namer):
            count += len(rows)
            if not tell_all(rows, out):
                break
    return count - (form == "csv")


async def _rows(database: Database, wanted: LineFilter, form: str, namer: Namer | None) -> AsyncIterator[list[str]]:
    from bot.ops.audit_export import csv_header, csv_row, ids_of, jsonl_row
    from bot.ops.names import NO_NAMES
    from bot.store.audit_log import pages

    if form == "csv":
        yield [csv_header()]
    async for page in pages(database, wanted):
        names = await namer.learn(one for line in page for one in ids_of(line)) if namer else NO_NAMES
        yield [csv_row(line, names) if form == "csv" else f"{jsonl_row(line, names)}\n" for line in page]


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """The file appears when all of it is written, readable by its owner alone, so that nobody takes half an export
    for a whole one."""
    from runtime.errors import StoreError

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
        raise StoreError(command_texts.OUTPUT_UNWRITABLE.format(path=path, why=error.strerror or error)) from error


# List and show


@audit.command("list")
@click.option("--tool", metavar="NAME", help="Calls of one tool.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many, at most.")
@names_option
@options(json=True)
def list_(call: CommandLine, tool: str | None, limit: int, names: bool) -> int:
    """List the calls that people were asked about, the newest first."""
    from bot.ops.audit_text import list_line, list_object
    from bot.ops.names import NO_NAMES, Namer
    from bot.store.audit_log import read_recent

    async def read() -> tuple[JsonObject, list[str]]:
        async with call.reading() as database:
            rows = await database.read(read_recent, tool, limit)
            calls = [row.asked for row in rows]
            ids = [id_ for asked in calls for id_ in (asked.asked_by.user, asked.channel or "")]
            known = await Namer(call.settings).learn(ids) if names and not call.json else NO_NAMES
            return {"calls": [list_object(row) for row in rows]}, [list_line(row, known) for row in rows]

    done, lines = asyncio.run(read())
    call.tell(done, *(lines or [command_texts.NO_CALLS.format(tool=tool or "any tool")]))
    return 0


@audit.command()
@click.argument("id")
@click.option("--full", is_flag=True, help="With everything that each line holds.")
@names_option
@options()
def show(call: CommandLine, id: str, full: bool, names: bool) -> int:  # noqa: A002  (the argument's name)
    """Show what happened to a call or in a session, step by step.

    ID is a confirmation's, or the beginning of it, or a session's. `adk-confirm audit list` lists them.
    """
    from bot.ops.audit_export import ids_of
    from bot.ops.audit_text import record_text
    from bot.ops.names import NO_NAMES, Namer
    from bot.policy.model import may_decide
    from bot.store.audit_log import read_record

    async def read() -> list[str]:
        async with call.reading() as database:
            record = await database.read(read_record, id)
            named = [one for line in record.lines for one in ids_of(line)]
            named += [row.asked.channel for row in record.rows.values() if row.asked.channel]
            named += [one.value for row in record.rows.values() for one in may_decide(row.policy, True)]
            known = await Namer(call.settings).learn(named) if names else NO_NAMES
            return list(record_text(record, known, full=full))

    tell(*asyncio.run(read()))
    return 0


# Verify


@audit.command()
@click.option("--anchor", metavar="FILE", help="The checkpoint lines that you keep elsewhere; - for standard input.")
@options()
def verify(call: CommandLine, anchor: str | None) -> int:
    """Check that nobody changed the ledger. The exit code is 1 if somebody did."""
    from blocks.text import visible
    from bot.confirmation.decision_texts import verification_result
    from bot.ops.operate import secret_of
    from bot.store.audit_verify import verify_ledger
    from runtime.store.seal import Seal

    seal = Seal(secret_of(call.settings))
    known = _anchor(anchor, seal) if anchor else None

    async def look() -> Report:
        async with call.reading() as database:
            return await database.read(verify_ledger, seal, known)

    report = asyncio.run(look())
    tell(paint(visible(verification_result(report)), "green" if report.broken is None else "red"))
    return 0 if report.broken is None else 1


def _anchor(name: str, seal: Seal) -> Anchor:
    from bot.audit.checkpoints import Anchor
    from runtime.errors import Invalid

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        why = error.strerror or error
        raise Invalid(command_texts.ANCHOR_UNREADABLE.format(path=name, why=why)) from error
    return Anchor.parse(text, seal)


# Purge


@audit.command()
@click.option("--before", required=True, metavar="DATE", help=f"Purge sessions that ended before then: {_EXAMPLES}.")
@options()
def purge(call: CommandLine, before: str) -> int:
    """Delete the contents of sessions that ended long ago. The ledger still verifies."""
    from bot.ops.operator_times import parse_start
    from bot.store.purge import purge
    from runtime.errors import Invalid

    at = call.now()
    until = parse_start(before, "--before", at)
    if until > at:
        raise Invalid(command_texts.FUTURE.format(text=before))
    purged = call.change(lambda database: purge(database, until))
    tell(*command_texts.purged(purged, until))
    return 0
