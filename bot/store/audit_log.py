"""Reads the ledger: page by page for an export, or all lines about one confirmation or session; and verifies it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from adk_confirm.bot.audit.checkpoints import Anchor, Proof, PublicKeys
from adk_confirm.bot.audit.ledger import SYSTEM, LedgerLine, LineKind, is_whole, stamp
from adk_confirm.bot.audit.verification import Broken, Integrity, Report, SealedCheckpoints, read_purges, verify
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.store.checkpoint_rows import stored_checkpoints
from adk_confirm.bot.store.ledger_rows import line_of
from adk_confirm.bot.store.repository import read_confirmation, seconds
from adk_confirm.bot.store.reseal import first_of_secret
from adk_confirm.runtime.errors import Conflict, Invalid, NotFound
from adk_confirm.runtime.store.database import Database, Tx

PAGE = 1000

Progress = Callable[[int], None]
"""Hears how much more is done."""


def unheard(count: int) -> None:
    pass


Listener = Callable[[LedgerLine, bool], None]
"""Hears each line, and whether it is proven."""


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
    exact = wanted.tool if wanted.tool is not None and not any(mark in wanted.tool for mark in "*?[") else None
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
            "slack-T0ACME-C0DEPLOYS-1795224227.59; `adk-confirm audit show ID` shows that of a call."
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
    begins = re.sub(r"[/%_]", r"/\g<0>", name[:99]) + ("%" if len(name) >= SHORTEST_ID else "")
    ids = {
        *tx.column("SELECT id FROM bot_confirmations WHERE id LIKE :begins ESCAPE '/' LIMIT 5", begins=begins),
        *tx.column(
            "SELECT DISTINCT confirmation FROM bot_ledger WHERE confirmation LIKE :begins ESCAPE '/' LIMIT 5",
            begins=begins,
        ),
    }
    return [name] if name in ids else sorted(ids)


_RECENT = "SELECT id FROM bot_confirmations WHERE {} ORDER BY created DESC, id LIMIT :most"


def read_recent(
    tx: Tx, tool: str | None, stages: Sequence[str], since: datetime | None, limit: int
) -> list[Confirmation]:
    """The latest confirmations, newest first, without those that this version can't read. `stages`: states and
    outcomes."""
    named = {f"stage{index}": stage for index, stage in enumerate(stages)}
    places = ", ".join(f":{name}" for name in named)
    given: dict[str, dict[str, object]] = {
        "tool = :tool": {"tool": tool} if tool else {},
        "created >= :since": {"since": seconds(since)} if since else {},
        f"(state IN ({places}) OR outcome IN ({places}))": {**named},
    }
    asked = {condition: values for condition, values in given.items() if values}
    found = _RECENT.format(" AND ".join(["1 = 1", *asked]))
    values = {name: value for one in asked.values() for name, value in one.items()}
    rows = (read_confirmation(tx, one) for one in tx.column(found, **values, most=limit))
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


def latest_beginning_with(tx: Tx, beginning: str) -> tuple[int, Confirmation | None]:
    """How many confirmations have an id that begins like this, and the latest of them."""
    found = "FROM bot_confirmations WHERE substr(id, 1, :length) = :beginning"
    about = {"beginning": beginning, "length": len(beginning)}
    count = tx.value(f"SELECT count(*) {found}", **about) if beginning else 0
    latest = tx.value(f"SELECT id {found} ORDER BY created DESC, id LIMIT 1", **about) if count else None
    return count, None if latest is None else read_confirmation(tx, latest)


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


class _Odd(Exception):
    """A value in the database that no version of this program would write."""

    def __init__(self, broken: Broken) -> None:
        self.broken = broken


def verify_ledger(
    tx: Tx,
    proof: Proof,
    anchor: Anchor | None = None,
    progress: Progress = unheard,
    heard: Listener | None = None,
) -> Report:
    """Verifies the whole ledger, from one snapshot of the store. A faulty line is reported before anything else.
    `progress` hears how many more lines were read. `heard` gets the lines by chain, the oldest first."""

    def told() -> Iterator[LedgerLine]:
        for line in _all_lines(tx, progress):
            if heard is not None:
                heard(line, is_whole(line) and sealed.prove(line))
            yield line

    try:
        first = 1 if isinstance(proof, PublicKeys) else first_of_secret(tx, proof)
        sealed = SealedCheckpoints.read(stored_checkpoints(tx), proof, first)
        purges, lines = read_purges(_purge_lines(tx), sealed), told()
        report = verify(lines, sealed, purges=purges, anchor=anchor)
        for _ in lines:
            pass  # `heard` gets the lines after the first changed one too
        line_named = report.broken is not None and report.broken.seq is not None
        broken = None if line_named else _wrong_head(tx)
        if broken is None and report.broken is None and not isinstance(proof, PublicKeys):
            broken = _wrong_index(tx, sealed)
    except _Odd as odd:
        return Report(finding=Integrity.BROKEN, broken=odd.broken)
    except sqlite3.OperationalError as error:
        if "decode" not in str(error):  # SQLite can store bytes as text that can't be decoded
            raise
        return Report(
            finding=Integrity.BROKEN,
            broken=Broken("the store", None, f"it holds something that is not text ({error})"),
        )
    return report if broken is None else replace(report, finding=Integrity.BROKEN, broken=broken)


def _all_lines(tx: Tx, progress: Progress) -> Iterator[LedgerLine]:
    number = 0
    for number, row in enumerate(tx.each("SELECT * FROM bot_ledger ORDER BY chain, seq"), start=1):
        yield _exact_line(row)
        if number % PAGE == 0:
            progress(PAGE)
    progress(number % PAGE)


def _purge_lines(tx: Tx) -> Iterator[LedgerLine]:
    found = "SELECT * FROM bot_ledger WHERE chain = :chain AND kind = :kind ORDER BY seq"
    for row in tx.each(found, chain=SYSTEM, kind=str(LineKind.PURGED)):
        yield _exact_line(row)


_TEXTS = ("chain", "stamp", "kind", "digest", "previous", "hash", "sealed")
_PERHAPS = ("confirmation", "tool", "content", "salt")


def _exact_line(row: Any) -> LedgerLine:
    """Checks that each cell has the exact form that this program writes. SQLite accepts anything in any column, and a
    time can be written in many ways."""
    of_a_kind = all(isinstance(getattr(row, name), str) for name in _TEXTS) and isinstance(row.seq, int)
    if not of_a_kind or not all(isinstance(getattr(row, name), str | None) for name in _PERHAPS):
        raise _Odd(Broken(str(row.chain), row.seq if isinstance(row.seq, int) else None, "a part of it is not text"))
    try:
        line = line_of(row)
        exact = stamp(line.at) == row.stamp
    except (ValueError, OverflowError):
        exact = False
    if not exact:
        raise _Odd(Broken(row.chain, row.seq, "this version does not know its kind or its time"))
    if seconds(line.at) != row.at:
        raise _Odd(Broken(line.chain, line.seq, "the time that it is found by is not the time that it tells"))
    return line


def _wrong_head(tx: Tx) -> Broken | None:
    """Compares each chain's last line with the stored head, to find lines missing or added at the end."""
    row = tx.first(_WRONG_HEAD)
    if row is not None:
        return _fault_at_end(row.chain, row.seq, row.last or 0)
    chain = tx.value(_NEVER_BEGUN)
    return None if chain is None else Broken(chain, 1, "its chain was never begun")


_WRONG_HEAD = """
    SELECT head.chain, head.seq, lines.last FROM bot_chains head
    LEFT JOIN (SELECT chain, max(seq) AS last FROM bot_ledger GROUP BY chain) lines ON lines.chain = head.chain
    LEFT JOIN bot_ledger line ON line.chain = head.chain AND line.seq = head.seq
    WHERE lines.last IS NULL OR lines.last <> head.seq OR line.hash <> head.hash
    ORDER BY head.chain LIMIT 1
"""
_NEVER_BEGUN = """
    SELECT DISTINCT chain FROM bot_ledger WHERE chain NOT IN (SELECT chain FROM bot_chains) ORDER BY chain LIMIT 1
"""


def _fault_at_end(chain: str, sealed_end: int, last: int) -> Broken:
    if last < sealed_end:
        return Broken(chain, last + 1, f"it is missing; the chain went up to line {sealed_end}")
    if last > sealed_end:
        return Broken(chain, sealed_end + 1, f"it was put there: the chain goes up to line {sealed_end}")
    return Broken(chain, sealed_end, "it is not the line that the chain ended with")


def _wrong_index(tx: Tx, sealed: SealedCheckpoints) -> Broken | None:
    """Checks the column that says how far each chain is sealed. If somebody changed
    it, the next checkpoint would leave a chain out."""
    for row in tx.each("SELECT chain, sealed_hash FROM bot_chains ORDER BY chain"):
        if row.sealed_hash != sealed.last_hash(row.chain):
            return Broken(row.chain, None, "how far the database says it is sealed is not what the checkpoints say")
    return None
