"""`adk-confirm audit`: export the ledger, show one confirmation or session, verify all of it, purge what is old."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO

import click

from adk_confirm.bot.ops.command import (
    DATES,
    CommandLine,
    Told,
    options,
    paint,
    progress,
    standard_output,
    tell,
    tell_all,
)
from adk_confirm.runtime.errors import Invalid

if TYPE_CHECKING:
    from adk_confirm.bot.audit.checkpoints import Anchor, Proof
    from adk_confirm.bot.audit.verification import Report
    from adk_confirm.bot.store.known_names import KnownNames
    from adk_confirm.bot.store.purge import PurgeResult
    from adk_confirm.runtime.store.database import Database


@click.group(no_args_is_help=True)
def audit() -> None:
    """Read, export, verify or purge the audit: the append-only ledger of everything that happened."""


@audit.command()
@click.option("--since", metavar="DATE", help=f"Lines from then on: {DATES}.")
@click.option("--until", metavar="DATE", help="Lines before then; of a day, to its end.")
@click.option(
    "--tool", metavar="NAME", help="Lines about one tool, or about those that match a pattern such as 'deploy*'."
)
@click.option("--session", metavar="ID", help="Lines of one session, or of the system.")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@options(names=True)
def export(
    call: CommandLine,
    since: str | None,
    until: str | None,
    tool: str | None,
    session: str | None,
    form: Literal["jsonl", "csv"],
    output: Path | None,
) -> int:
    """Export the ledger's lines for other programs."""
    from dataclasses import replace

    from adk_confirm.bot.ops.audit_export import csv_header, csv_row, jsonl_row
    from adk_confirm.bot.ops.times import parse_time
    from adk_confirm.bot.store.audit_log import LineFilter, count_lines, find_chain, pages

    at = call.now()
    start = parse_time(since, "--since", at) if since else None
    wanted = LineFilter(since=start, until=parse_time(until, "--until", at, end=True) if until else None, tool=tool)

    async def write(out: TextIO) -> int:
        """Page by page, so that a long ledger needs little memory. Returns how many lines were written."""
        count = 0
        async with call.reading() as database:
            chain = None if session is None else await database.read(find_chain, session)
            lines, names = replace(wanted, chain=chain), await call.known_names(database)
            length = 0 if output is None else await database.read(count_lines, lines)
            tell_all([csv_header()] if form == "csv" else [], out)
            with progress("Exporting", length) as more:
                async for page in pages(database, lines, progress=more if output is not None else lambda _: None):
                    count += len(page)
                    rows = (csv_row(one, names) if form == "csv" else f"{jsonl_row(one, names)}\n" for one in page)
                    if not tell_all(rows, out):
                        break
        return count

    with _writing(output) as out:
        count = asyncio.run(write(out))
    if count == 0:
        given = _given({"--since": since, "--until": until, "--tool": tool, "--session": session})
        click.echo(f"No line of the audit matches{given}.", err=True)
    elif output is not None:
        tell(f"{count} lines are in {output}.")
    return 0


def _given(filters: dict[str, str | None]) -> str:
    return "".join(f" {name} {value}" for name, value in filters.items() if value)


@contextmanager
def _writing(path: Path | None) -> Iterator[TextIO]:
    """The file appears when all of it is written, readable by its owner alone, so that nobody takes half an export
    for a whole one."""
    from adk_confirm.runtime.errors import StoreError

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
        why = error.strerror or error
        raise StoreError(f"{path} can't be written: {why}. Name another file with --output.") from error


@audit.command("list")
@click.option("--tool", metavar="NAME", help="Calls of one tool.")
@click.option(
    "--state", metavar="STATE", help="Calls that are or were so: waiting, approved, denied, failed, unknown …"
)
@click.option("--since", metavar="DATE", help=f"Calls that were asked about from then on: {DATES}.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=20, show_default=True, help="How many, at most.")
@options(json=True, names=True)
def list_(call: CommandLine, tool: str | None, state: str | None, since: str | None, limit: int) -> int:
    """List the calls that people were asked about, the newest first."""
    from adk_confirm.bot.ops.audit_text import list_lines, list_object, stages_called
    from adk_confirm.bot.ops.times import parse_time
    from adk_confirm.bot.store.audit_log import read_recent

    stages = stages_called(state) if state else []
    start = parse_time(since, "--since", call.now()) if since else None

    async def look(database: Database, names: KnownNames) -> Told:
        calls = [list_object(row) for row in await database.read(read_recent, tool, stages, start, limit)]
        given = _given({"--tool": tool, "--state": state, "--since": since})
        nobody = f"No call matches{given}." if given else "Nobody was asked about a call yet."
        return {"calls": [*calls]}, [*list_lines(calls, names)] if calls else [nobody]

    return call.show(look)


@audit.command()
@click.argument("id")
@click.option("--full", is_flag=True, help="With everything that each line holds.")
@options(names=True)
def show(call: CommandLine, id: str, full: bool) -> int:  # noqa: A002  (the argument's name)
    """Show what happened to a call or in a session, step by step.

    ID is a confirmation's, or the beginning of it, or a session's. `adk-confirm audit list` lists them.
    """
    from adk_confirm.bot.ops.audit_text import record_text
    from adk_confirm.bot.store.audit_log import read_record

    async def look(database: Database, names: KnownNames) -> Told:
        return {}, list(record_text(await database.read(read_record, id), names, full=full))

    return call.show(look)


PUBLIC_KEY = click.option(
    "--public-key",
    metavar="KEY",
    multiple=True,
    help="Verify with the public key of the checkpoints, without the secret. Again for an older key.",
)


@audit.command()
@click.option("--anchor", metavar="FILE", help="The checkpoint lines that you keep elsewhere; - for standard input.")
@PUBLIC_KEY
@options()
def verify(call: CommandLine, anchor: str | None, public_key: tuple[str, ...]) -> int:
    """Check that nobody changed the ledger. The exit code is 1 if somebody did.

    This takes the secret, or the public key alone: then only what signed checkpoints cover is proven.
    """
    from adk_confirm.blocks.text import visible
    from adk_confirm.bot.confirmation.decision_texts import verification_result

    report = _verified(call, anchor, public_key)
    tell(paint(visible(verification_result(report)), "green" if report.broken is None else "red"))
    return 0 if report.broken is None else 1


@audit.command()
@click.option("--from", "since", required=True, metavar="DATE", help=f"Of what happened from then on: {DATES}.")
@click.option("--to", "until", metavar="DATE", help="Before then; of a day, to its end.  [default: now]")
@click.option("--anchor", metavar="FILE", help="The checkpoint lines that you keep elsewhere; - for standard input.")
@PUBLIC_KEY
@options(json=True, names=True)
def report(call: CommandLine, since: str, until: str | None, anchor: str | None, public_key: tuple[str, ...]) -> int:
    """Report on a period as evidence for auditors, in Markdown: who decided what, how fast, and what came of it.

    Like `verify` it takes the secret, or the public key. The exit code is 1 if somebody changed the ledger.
    """
    from adk_confirm.bot.ops.audit_report import Tally, report_text
    from adk_confirm.bot.ops.times import parse_time
    from adk_confirm.bot.store.audit_log import LineFilter, count_lines, pages

    at = call.now()
    start, end = parse_time(since, "--from", at), parse_time(until, "--to", at, end=True) if until else at
    if start >= end:
        raise Invalid(f"--from {since} is not before --to {until or 'now'}. Name an earlier time.")
    found = _verified(call, anchor, public_key)

    async def look(database: Database, names: KnownNames) -> Told:
        tally, lines = Tally(), LineFilter(since=start, until=end)
        with progress("Reading", await database.read(count_lines, lines)) as more:
            async for page in pages(database, lines, progress=more):
                tally.add(page)
        done = tally.result(start, end, found)
        return done, list(report_text(done, names))

    call.show(look)
    return 0 if found.broken is None else 1


def _verified(call: CommandLine, anchor: str | None, public_keys: tuple[str, ...]) -> Report:
    from adk_confirm.bot.audit.checkpoints import PublicKeys
    from adk_confirm.bot.ops.operate import secret_of
    from adk_confirm.bot.store.audit_log import LineFilter, count_lines, verify_ledger
    from adk_confirm.runtime.store.seal import Seal

    proof = PublicKeys(*public_keys) if public_keys else Seal(secret_of(call.settings))
    known = _anchor(anchor, proof) if anchor else None

    async def look() -> Report:
        async with call.reading() as database:
            with progress("Verifying", await database.read(count_lines, LineFilter())) as more:
                return await database.read(verify_ledger, proof, known, more)

    return asyncio.run(look())


def _anchor(name: str, proof: Proof) -> Anchor:
    from adk_confirm.bot.audit.checkpoints import read_anchor

    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        said = f"{name} can't be read as an anchor: {error.strerror or error}. "
        raise Invalid(f"{said}Name the file that keeps the checkpoint lines.") from error
    return read_anchor(text, proof)


@audit.command()
@click.option("--before", required=True, metavar="DATE", help=f"Purge sessions that ended before then: {DATES}.")
@options()
def purge(call: CommandLine, before: str) -> int:
    """Delete the contents of sessions that ended long ago. The ledger still verifies."""
    from adk_confirm.bot.ops.times import format_time, parse_time
    from adk_confirm.bot.store.purge import count_sessions, purge

    at = call.now()
    until = parse_time(before, "--before", at)
    if until > at:
        said = "Only what has ended can be purged: name an earlier time."
        raise Invalid(f"--before {before} is in the future. {said}")

    async def work(database: Database) -> PurgeResult:
        with progress("Purging", await database.read(count_sessions, until)) as more:
            return await purge(database, until, more)

    gone, then = call.change(work), f"from before {format_time(until)}"
    tell(f"F{then[1:]} is purged: {gone}." if gone.any else f"Nothing is left to purge {then}.")
    if gone.kept:
        tell(f"{gone.kept} {'session is' if gone.kept == 1 else 'sessions are'} still in use, and kept whole.")
    if gone.any:
        tell("Messages in Slack, backups of the store and an agent's own server keep what they have: purge those too.")
    return 0
