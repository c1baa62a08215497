"""Reads the ledger: page by page for an export, or all lines about one confirmation or session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import Row, Select, select, tuple_

from bot.audit.ledger import SYSTEM, LedgerLine
from bot.confirmation.model import Confirmation
from bot.store.ledger_lines import line_of
from bot.store.repository import read_confirmation, seconds
from bot.store.tables import chains, confirmations, ledger, sessions
from runtime.errors import Conflict, Invalid, NotFound
from runtime.store.database import Database, Tx

PAGE = 1000
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


async def pages(database: Database, wanted: LineFilter, *, size: int = PAGE) -> AsyncIterator[list[LedgerLine]]:
    """The lines in order of time, page by page, so that a long export neither blocks the store nor fills the memory."""
    after: LedgerLine | None = None
    while True:
        page = await database.read(read_page, wanted, after, size)
        yield [line for line in page if _matches_tool(line, wanted.tool)]
        if len(page) < size:
            return
        after = page[-1]


def read_page(tx: Tx, wanted: LineFilter, after: LedgerLine | None, size: int) -> list[LedgerLine]:
    found = select(ledger).order_by(ledger.c.at, ledger.c.chain, ledger.c.seq).limit(size)
    if wanted.since is not None:
        found = found.where(ledger.c.at >= seconds(wanted.since))
    if wanted.until is not None:
        found = found.where(ledger.c.at < seconds(wanted.until))
    if wanted.chain is not None:
        found = found.where(ledger.c.chain == wanted.chain)
    if wanted.tool is not None and not _is_pattern(wanted.tool):
        found = found.where(ledger.c.tool == wanted.tool)
    if after is not None:
        place = tuple_(ledger.c.at, ledger.c.chain, ledger.c.seq)
        found = found.where(place > (seconds(after.at), after.chain, after.seq))
    return [read_line(row) for row in tx.execute(found)]


def read_line(row: Row[*tuple[Any, ...]]) -> LedgerLine:
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
    known = tx.execute(select(chains.c.chain).where(chains.c.chain == name)).scalar_one_or_none()
    if known is not None or name == SYSTEM:
        return name
    keys = tx.execute(select(sessions.c.key).where(sessions.c.id == name).order_by(sessions.c.key)).scalars().all()
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
    begins = name if len(name) >= SHORTEST_ID else None
    ids: set[str] = set()
    for column in (confirmations.c.id, ledger.c.confirmation):
        match = column == name if begins is None else column.startswith(begins, autoescape=True)
        ids |= {str(value) for value in tx.execute(select(column).where(match).distinct().limit(5)).scalars()}
    return [name] if name in ids else sorted(ids)


def read_recent(tx: Tx, tool: str | None, limit: int) -> list[Confirmation]:
    """The latest confirmations, newest first, without those that this version can't read."""
    found = select(confirmations.c.id).order_by(confirmations.c.created.desc(), confirmations.c.id)
    if tool is not None:
        found = found.where(confirmations.c.tool == tool)
    rows = (read_confirmation(tx, str(one)) for one in tx.execute(found.limit(limit)).scalars())
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
        lines = _lines(tx, select(ledger).where(ledger.c.chain == chain))
        return AuditRecord(f"Session {chain}" if chain != SYSTEM else "This installation", lines, _rows(tx, lines))
    confirmation = find_confirmation(tx, name)
    lines = _lines(tx, select(ledger).where(ledger.c.confirmation == confirmation))
    return AuditRecord(f"Confirmation {confirmation}", lines, _rows(tx, lines))


def _chain_or_nothing(tx: Tx, name: str) -> str:
    try:
        return find_chain(tx, name)
    except NotFound as error:
        raise NotFound(
            f"There is no confirmation and no session {name} in this store.{too_short(name)} `adk-confirm pending` "
            "and `adk-confirm audit list` show their ids."
        ) from error


def _lines(tx: Tx, found: Select[*tuple[Any, ...]]) -> tuple[LedgerLine, ...]:
    return tuple(read_line(row) for row in tx.execute(found.order_by(ledger.c.chain, ledger.c.seq)))


def _rows(tx: Tx, lines: tuple[LedgerLine, ...]) -> dict[str, Confirmation]:
    ids = dict.fromkeys(line.confirmation for line in lines if line.confirmation is not None)
    found = ((one, read_confirmation(tx, one)) for one in ids)
    return {one: row for one, row in found if row is not None}
