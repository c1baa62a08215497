"""Appends ledger lines to chains, and reads them. Transaction functions."""

from __future__ import annotations

import json
import secrets
from datetime import datetime
from typing import Any

from adk_confirm.blocks.shown_lines import TOLD, TOLD_WITH_REASON
from adk_confirm.bot.audit.ledger import SYSTEM, Head, LedgerLine, LineKind, append, fault, is_sealed, stamp, to_show
from adk_confirm.bot.confirmation.states import Step
from adk_confirm.bot.confirmation.stored_json import step_content
from adk_confirm.bot.store.marks import mark_thread_due
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.store.database import Tx
from adk_confirm.runtime.store.seal import seal_in, seal_of

LINES = "bot:lines"
"""The topic that is notified when a line is written."""


_FIND_HEAD = "SELECT seq, hash FROM bot_chains WHERE chain = :chain"
_LOCK_HEAD = """
    INSERT INTO bot_chains (chain, seq, hash) VALUES (:chain, :seq, :hash)
    ON CONFLICT (chain) DO UPDATE SET chain = excluded.chain RETURNING seq, hash
"""
_MOVE_HEAD = "UPDATE bot_chains SET seq = :seq, hash = :hash WHERE chain = :chain"
_APPEND = """
    INSERT INTO bot_ledger
        (chain, seq, at, stamp, kind, confirmation, tool, content, salt, digest, previous, hash, sealed)
    VALUES (
        :chain, :seq, :at, :stamp, :kind, :confirmation, :tool, :content, :salt, :digest, :previous, :hash, :sealed
    )
"""


def write_steps(
    tx: Tx,
    chain: str,
    *steps: Step,
    confirmation: str | None = None,
    tool: str | None = None,
    wait: float = 0.0,
) -> None:
    """Appends lines to a chain. Locks the chain's head, so that concurrent lines come one after the other. `wait`: the
    thread may show them this many seconds later."""
    if not steps:
        return
    head: Head = tx.known["bot_chains"].get(chain) or _lock_head(tx, chain)
    lines = []
    for step in steps:
        content, salt = step_content(step), secrets.token_hex(16)
        line = append(
            head, chain, step.kind, content, seal_of(tx), at=step.at, salt=salt, confirmation=confirmation, tool=tool
        )
        head = line.head
        lines.append(line)
        tx.report(line)
    tx.run(_MOVE_HEAD, chain=chain, seq=head.seq, hash=head.hash)
    stored = ({**vars(one), "at": one.at.timestamp(), "stamp": stamp(one.at), "kind": str(one.kind)} for one in lines)
    tx.many(_APPEND, [*stored])
    tx.known["bot_chains"][chain] = head
    if confirmation is not None:
        tx.known["bot_ledger"][confirmation] = head.seq
    if chain != SYSTEM and any(map(is_told, lines)):
        mark_thread_due(tx, chain, wait)
    tx.notify(LINES)


def find_head(tx: Tx, chain: str) -> Head:
    known: Head | None = tx.known["bot_chains"].get(chain)
    found = tx.first(_FIND_HEAD, chain=chain) if known is None else None
    return known or (Head() if found is None else Head(found.seq, found.hash))


def _lock_head(tx: Tx, chain: str) -> Head:
    """Locks a chain's head, and returns it. If another replica appends at this moment, that line comes first."""
    begun = Head()
    head = tx.first(_LOCK_HEAD, chain=chain, seq=begun.seq, hash=begun.hash)
    return Head(head.seq, head.hash)


def read_lines(tx: Tx, chain: str, after: int = 0) -> list[LedgerLine]:
    """A chain's lines after number `after`."""
    found = "SELECT * FROM bot_ledger WHERE chain = :chain AND seq > :after ORDER BY seq"
    return [line_of(row) for row in tx.all(found, chain=chain, after=after)]


def unbroken_lines(tx: Tx, chain: str, first: int) -> list[LedgerLine] | None:
    """A chain's lines from number `first` to its end. None if one is missing, or is not as this app wrote it. A command
    that runs without `ADK_CONFIRM_SECRET` only notices gaps and lines that do not fit together: it can't check who
    wrote a line."""
    # The head is read first: on PostgreSQL the lines may already go further.
    head, lines, seal = find_head(tx, chain), read_lines(tx, chain, first - 1), seal_in(tx.context)
    if not lines:
        return [] if head.seq == first - 1 else None
    before = Head(first - 1, lines[0].previous)
    if head not in [before, *(line.head for line in lines)]:
        return None
    for line in lines:
        if fault(line, before) is not None or (seal is not None and not is_sealed(line, seal)):
            return None
        before = line.head
    return lines


def lines_to_tell(tx: Tx, chain: str, after: int) -> list[LedgerLine]:
    """The lines that a thread still has to show. A line that somebody changed or added in the database is replaced by
    an alarm."""
    return [to_show(line, seal_of(tx)) for line in read_lines(tx, chain, after)]


def is_told(line: LedgerLine) -> bool:
    """Whether a thread may show the line. Such a line makes its thread due; others count as posted with it."""
    return line.kind in TOLD or (line.kind in TOLD_WITH_REASON and bool((content_of(line) or {}).get("reason")))


def confirmation_lines(tx: Tx, confirmation: str) -> list[LedgerLine]:
    """All lines about one confirmation, in order."""
    found = "SELECT * FROM bot_ledger WHERE confirmation = :id ORDER BY seq"
    return [to_show(line_of(row), seal_of(tx)) for row in tx.all(found, id=confirmation)]


def line_of(row: Any) -> LedgerLine:
    return LedgerLine(
        chain=row.chain,
        seq=row.seq,
        at=datetime.fromisoformat(row.stamp),
        kind=LineKind(row.kind),
        confirmation=row.confirmation,
        tool=row.tool,
        content=row.content,
        salt=row.salt,
        digest=row.digest,
        previous=row.previous,
        hash=row.hash,
        sealed=row.sealed,
    )


def content_of(line: LedgerLine) -> JsonObject | None:
    """The content of a line; `None` once it is purged."""
    if line.content is None:
        return None
    content: JsonObject = json.loads(line.content)
    return content
