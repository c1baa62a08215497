"""The ledger as `audit export` writes it: a JSON object or a CSV row per line, safe to open in a spreadsheet. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

from adk_confirm.bot.audit.ledger import LedgerLine, stamp
from adk_confirm.bot.ops.times import channel_of
from adk_confirm.bot.store.known_names import KnownNames
from adk_confirm.bot.store.ledger_lines import content_of
from adk_confirm.runtime.jsontypes import Json, JsonObject, as_object

COLUMNS = (
    *("at", "session", "seq", "kind", "confirmation", "tool", "who", "revision", "reason", "text", "content", "hash"),
    *("who_name", "channel_name"),
)
UNNAMED = KnownNames()
_FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")


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


def export_object(line: LedgerLine, names: KnownNames = UNNAMED) -> JsonObject:
    """The whole line: `content` as JSON, `null` once it is purged; `names` by id, as far as Slack gives them now."""
    content, channel = content_of(line), channel_of(line.chain)
    known = {id_: names.alone(id_) for id_ in ([channel] if channel else []) + [*_ids_in(content)]}
    return {
        "at": stamp(line.at),
        "session": line.chain,
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


def jsonl_row(line: LedgerLine, names: KnownNames = UNNAMED) -> str:
    return json.dumps(export_object(line, names), allow_nan=False)


def csv_header() -> str:
    return _row(COLUMNS)


def csv_row(line: LedgerLine, names: KnownNames = UNNAMED) -> str:
    """The same object in cells; only `content` stays as it is stored."""
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
        "channel_name": known.get(channel_of(line.chain) or ""),
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
