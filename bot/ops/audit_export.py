"""`adk-confirm audit export`: a JSON object or a CSV row per line of the ledger, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

import click

from adk_confirm.bot.audit.ledger import LedgerLine, stamp
from adk_confirm.bot.ops.command import (
    DATES,
    TOOLS,
    CommandLine,
    options,
    parse_time,
    progress,
    standard_output,
    tell,
    tell_all,
)
from adk_confirm.bot.store.audit_log import LineFilter, count_lines, find_chain, pages, unheard
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.ledger_rows import content_of
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object

COLUMNS = (
    *("at", "session", "seq", "kind", "confirmation", "tool", "who", "revision", "reason", "text", "content", "hash"),
    *("who_name", "channel_name", "caller"),
)
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


@click.command()
@click.option("--since", metavar="DATE", help=f"Lines from then on: {DATES}.")
@click.option("--until", metavar="DATE", help="Lines before then; of a day, to its end.")
@click.option(
    "--tool",
    metavar="NAME",
    help="Lines about one tool, or about those that match a pattern such as 'deploy*'.",
    shell_complete=TOOLS,
)
@click.option("--session", metavar="ID", help="Lines of one session, or of the system.")
@click.option("--format", "form", type=click.Choice(["jsonl", "csv"]), default="jsonl", show_default=True)
@click.option("--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: standard output.")
@options(names=True)
async def export(
    call: CommandLine,
    since: str | None,
    until: str | None,
    tool: str | None,
    session: str | None,
    form: Literal["jsonl", "csv"],
    output: Path | None,
) -> None:
    """Export the ledger's lines for other programs."""
    at, count = call.now(), 0
    start = parse_time(since, "--since", at) if since else None
    end = parse_time(until, "--until", at, end=True) if until else None
    with writing(output) as out:
        async with call.reading() as database:
            chain = None if session is None else await database.read(find_chain, session)
            wanted, names = LineFilter(since=start, until=end, tool=tool, chain=chain), await call.known_names(database)
            length = 0 if output is None else await database.read(count_lines, wanted)
            tell_all([csv_header()] if form == "csv" else [], out)
            with progress("Exporting", length) as more:
                async for page in pages(database, wanted, progress=more if output is not None else unheard):
                    count += len(page)
                    rows = (csv_row(one, names) if form == "csv" else f"{jsonl_row(one, names)}\n" for one in page)
                    if not tell_all(rows, out):
                        break
    if count == 0:
        given = filters_given({"--since": since, "--until": until, "--tool": tool, "--session": session})
        click.echo(f"No line of the audit matches{given}.", err=True)
    elif output is not None:
        tell(f"{count} lines are in {output}.")


@contextmanager
def writing(path: Path | None) -> Iterator[TextIO]:
    """Opens the file to write, readable by its owner alone, or standard output. The file appears only when all of it
    is written, so that nobody takes half an export for a whole one."""
    if path is None:
        yield standard_output()
        return
    whole = path.resolve()
    if whole.exists() and not whole.is_file():  # such as /dev/null, which a file would replace
        raise StoreError(f"{path} is not a file. Name another one.")
    part = whole.with_name(f"{whole.name}.part")
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace", newline="") as out:
                yield out
            part.replace(whole)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
    except OSError as error:
        why = error.strerror or error
        raise StoreError(f"{path} can't be written: {why}. Name another file.") from error


def _ids_in(content: Json) -> Iterator[str]:
    """The people and groups that a ledger line names."""
    match content:
        case {"team": str(), "user": str() as user}:
            yield user
        case dict():
            for part in content.values():
                yield from _ids_in(part)
        case list():
            for part in content:
                yield from _ids_in(part)
        case str() if content.startswith(("group:", "user:")):
            yield content.rpartition(":")[2]


_CHANNEL = re.compile(r"slack-T[A-Z0-9_]+-([CGD][A-Z0-9_]+)-[\d.]+$")
_CALLER = re.compile(r"^door/slack-T[A-Z0-9_]+-caller-([a-z0-9_-]+)/")


def _in_chain(part: re.Pattern[str], chain: str) -> str | None:
    """The channel of a session that Slack opened, or the program at the door that asked.

    >>> _in_chain(_CHANNEL, "oncall/slack-T0ACME-U0ANN/slack-T0ACME-C0DEPLOYS-1700000000.000100")
    'C0DEPLOYS'
    >>> _in_chain(_CALLER, "door/slack-T0ACME-caller-ci/slack-ask-1234")
    'ci'
    """
    found = part.search(chain)
    return found[1] if found else None


def filters_given(filters: Mapping[str, str | None]) -> str:
    return "".join(f" {name} {value}" for name, value in filters.items() if value)


def export_object(line: LedgerLine, names: KnownNames) -> JsonObject:
    """The whole line: `content` as JSON, `null` once it is purged; `names` by id, as far as Slack gives them now."""
    content, channel = content_of(line), _in_chain(_CHANNEL, line.chain)
    known = {id_: names.alone(id_) for id_ in ([channel] if channel else []) + [*_ids_in(content)]}
    return {
        "at": stamp(line.at),
        "session": line.chain,
        "caller": _in_chain(_CALLER, line.chain),
        "seq": line.seq,
        "kind": str(line.kind),
        "confirmation": line.confirmation,
        "tool": line.tool,
        "content": content,
        "digest": line.digest,
        "previous": line.previous,
        "hash": line.hash,
        "sealed": line.sealed,
        "names": {id_: name for id_, name in known.items() if name},
    }


def jsonl_row(line: LedgerLine, names: KnownNames) -> str:
    return json.dumps(export_object(line, names), allow_nan=False)


def csv_header() -> str:
    return _row(COLUMNS)


def csv_row(line: LedgerLine, names: KnownNames) -> str:
    """A ledger line as the cells of a CSV row: what `export_object` has, with `content` as it is stored."""
    one = export_object(line, names)
    said, known = as_object(one["content"]), as_object(one["names"])
    who = as_object(said.get("who"))
    cells: JsonObject = {
        **one,
        "who": f"{who.get('team')}/{who.get('user')}" if who else None,
        "revision": said.get("revision", 1) if said else None,
        "reason": said.get("reason"),
        "text": said.get("text"),
        "content": line.content,
        "who_name": known.get(str(who.get("user"))),
        "channel_name": known.get(_in_chain(_CHANNEL, line.chain) or ""),
    }
    return _row(tuple(_cell(cells[column]) for column in COLUMNS))


def defuse(cell: str) -> str:
    """A cell that a spreadsheet would run as a formula becomes text.

    >>> defuse("=HYPERLINK(1)"), defuse(" @x"), defuse("2.4.1")
    ("'=HYPERLINK(1)", "' @x", '2.4.1')
    """
    begins = cell.lstrip()
    risky = begins.startswith(_FORMULA) or cell[:1] in ("\t", "\r", "\n", "\0")
    return f"'{cell}" if risky else cell


def _cell(value: Json) -> str:
    match value:
        case None:
            return ""
        case str():  # half a character can't be written to a file
            return defuse(value.encode("utf-8", "backslashreplace").decode())
        case _:
            return defuse(json.dumps(value))


def _row(cells: tuple[str, ...]) -> str:
    out = io.StringIO()
    csv.writer(out).writerow(cells)
    return out.getvalue()
