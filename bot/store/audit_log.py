"""Reads the ledger: page by page for an export, or all lines about one confirmation or session."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from adk_confirm.bot.audit.ledger import SYSTEM, LedgerLine
from adk_confirm.bot.confirmation.model import Confirmation
from adk_confirm.bot.store.ledger_lines import line_of
from adk_confirm.bot.store.repository import read_confirmation, seconds
from adk_confirm.runtime.errors import Conflict, Invalid, NotFound
from adk_confirm.runtime.store.database import Database, Tx

PAGE = 1000

Progress = Callable[[int], None]
"""Hears how much more is done."""


def unheard(count: int) -> None:
    pass


SHORTEST_ID = 6
"""The fewest characters of a confirmation's id that may be given instead of the whole id."""


# Exporting


@dataclass(frozen=True, kw_only=True)
class LineFilter:
    """Which lines: at or after `since`, before `until`, of a tool (or a shell pattern), of a chain."""

    since: datetime | None = None
    until: datetime | None = None
    tool: str | None = None
    chain: str | None = None


async def pages(
    database: Database, wanted: LineFilter, *, size: int = PAGE, progress: Progress = unheard
) -> AsyncIterator[list[LedgerLine]]:
    """The lines in order of time, page by page, so that a long export neither blocks the store nor fills the memory."""
    after: LedgerLine | None = None
    while True:
        page = await database.read(read_page, wanted, after, size)
        yield [line for line in page if _matches_tool(line, wanted.tool)]
        progress(len(page))
        if len(page) < size:
            return
        after = page[-1]


def read_page(tx: Tx, wanted: LineFilter, after: LedgerLine | None, size: int) -> list[LedgerLine]:
    conditions, values = _where(wanted)
    if after is not None:
        conditions.append("(at, chain, seq) > (:at, :chain, :seq)")
        values |= {"at": seconds(after.at), "chain": after.chain, "seq": after.seq}
    return [read_line(row) for row in tx.all(_PAGE.format(" AND ".join(conditions)), **values, size=size)]


def count_lines(tx: Tx, wanted: LineFilter) -> int:
    """How many lines `pages` reads."""
    conditions, values = _where(wanted)
    return int(tx.value(_COUNT.format(" AND ".join(conditions)), **values))


def _where(wanted: LineFilter) -> tuple[list[str], dict[str, Any]]:
    exact = wanted.tool if wanted.tool is not None and not _is_pattern(wanted.tool) else None
    asked = {
        "at >= :since": ("since", seconds(wanted.since)),
        "at < :until": ("until", seconds(wanted.until)),
        "chain = :of_chain": ("of_chain", wanted.chain),
        "tool = :tool": ("tool", exact),
    }
    where = {condition: given for condition, given in asked.items() if given[1] is not None}
    return ["1 = 1", *where], dict(where.values())


_COUNT = "SELECT count(*) FROM bot_ledger WHERE {}"
_PAGE = "SELECT * FROM bot_ledger WHERE {} ORDER BY at, chain, seq LIMIT :size"


def read_line(row: Any) -> LedgerLine:
    try:
        return line_of(row)
    except ValueError as error:
        raise Invalid(
            f"Line {row.seq} of {row.chain} can't be read ({error}): somebody changed it. "
            "`adk-confirm audit verify` tells more."
        ) from error


def _is_pattern(tool: str) -> bool:
    return any(mark in tool for mark in "*?[")


def _matches_tool(line: LedgerLine, tool: str | None) -> bool:
    return tool is None or (line.tool is not None and fnmatchcase(line.tool, tool))


# Finding a confirmation or session by name


def find_chain(tx: Tx, name: str) -> str:
    """The chain of a session, named by its id or its whole key, or `system`."""
    if name == SYSTEM or tx.first("SELECT 1 FROM bot_chains WHERE chain = :name", name=name) is not None:
        return name
    keys = tx.column("SELECT key FROM bot_sessions WHERE id = :name ORDER BY key", name=name)
    if not keys:
        raise NotFound(
            f"There is no session {name} in this store. A session's id looks like "
            "slack-T0ACME-C0DEPLOYS-1795224227.59; `adk-confirm audit list` shows them."
        )
    if len(keys) > 1:
        raise Conflict(f"{name} is a session of several apps: name one of {', '.join(keys)}.")
    return str(keys[0])


def find_confirmation(tx: Tx, name: str) -> str:
    """The id of the confirmation whose id is `name` or begins with it."""
    found = _confirmation_ids(tx, name)
    if len(found) == 1:
        return found[0]
    if found:
        raise Conflict(f"Several confirmations begin with {name}: {', '.join(found)}. Write more of the id.")
    raise NotFound(
        f"There is no confirmation {name} in this store.{too_short(name)} `adk-confirm pending` lists what waits."
    )


def too_short(name: str) -> str:
    """A sentence for a beginning of an id that is too short to look for."""
    return f" Write {SHORTEST_ID} characters of the id or more." if len(name) < SHORTEST_ID else ""


def _confirmation_ids(tx: Tx, name: str) -> list[str]:
    """Ids of confirmations, also of purged ones, of which only ledger lines are left."""
    begins = re.sub(r"[/%_]", r"/\g<0>", name) + ("%" if len(name) >= SHORTEST_ID else "")
    ids = {
        *tx.column("SELECT id FROM bot_confirmations WHERE id LIKE :begins ESCAPE '/' LIMIT 5", begins=begins),
        *tx.column(
            "SELECT DISTINCT confirmation FROM bot_ledger WHERE confirmation LIKE :begins ESCAPE '/' LIMIT 5",
            begins=begins,
        ),
    }
    return [name] if name in ids else sorted(ids)


_RECENT = "SELECT id FROM bot_confirmations ORDER BY created DESC, id LIMIT :most"
_RECENT_OF_TOOL = "SELECT id FROM bot_confirmations WHERE tool = :tool ORDER BY created DESC, id LIMIT :most"


def read_recent(tx: Tx, tool: str | None, limit: int) -> list[Confirmation]:
    """The latest confirmations, newest first, without those that this version can't read."""
    found = _RECENT if tool is None else _RECENT_OF_TOOL
    rows = (read_confirmation(tx, one) for one in tx.column(found, **({"tool": tool} if tool else {}), most=limit))
    return [row for row in rows if row is not None]


# One record


@dataclass(frozen=True)
class AuditRecord:
    """All ledger lines about one confirmation or session. `rows` are the confirmations that are still stored."""

    title: str
    lines: tuple[LedgerLine, ...]
    rows: dict[str, Confirmation]


def read_record(tx: Tx, name: str) -> AuditRecord:
    ids = _confirmation_ids(tx, name)
    if not ids:
        chain = _chain_or_nothing(tx, name)
        lines = _lines(tx.all("SELECT * FROM bot_ledger WHERE chain = :chain ORDER BY seq", chain=chain))
        return AuditRecord(f"Session {chain}" if chain != SYSTEM else "This installation", lines, _rows(tx, lines))
    confirmation = find_confirmation(tx, name)
    lines = _lines(tx.all("SELECT * FROM bot_ledger WHERE confirmation = :id ORDER BY chain, seq", id=confirmation))
    return AuditRecord(f"Confirmation {confirmation}", lines, _rows(tx, lines))


def _chain_or_nothing(tx: Tx, name: str) -> str:
    try:
        return find_chain(tx, name)
    except NotFound as error:
        raise NotFound(
            f"There is no confirmation and no session {name} in this store.{too_short(name)} `adk-confirm pending` "
            "and `adk-confirm audit list` show their ids."
        ) from error


def _lines(rows: Iterable[Any]) -> tuple[LedgerLine, ...]:
    return tuple(read_line(row) for row in rows)


def _rows(tx: Tx, lines: tuple[LedgerLine, ...]) -> dict[str, Confirmation]:
    ids = dict.fromkeys(line.confirmation for line in lines if line.confirmation is not None)
    found = ((one, read_confirmation(tx, one)) for one in ids)
    return {one: row for one, row in found if row is not None}
