"""Follows the bot's database: requests, answers and ledger lines for the panel, confirmations for the hints.

The bot is another process, so the database is looked at several times a second; it has few rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from adk_confirm import REQUEST_CONFIRMATION, Event
from adk_confirm.bot.confirmation.confirmation import Confirmation
from adk_confirm.bot.store.ledger_rows import line_of
from adk_confirm.bot.store.repository import read_confirmation
from adk_confirm.demo.explanations import answer_item, ledger_item, request_item
from adk_confirm.demo.tour import Guide
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.sandbox.page.explanations import Names
from adk_confirm.sandbox.page.panel import Item
from adk_confirm.sandbox.workspace.changes import Changes

_LOOK_AGAIN = 0.2


@dataclass
class DatabaseObserver:
    database: Database
    guide: Guide
    changes: Changes
    names: Names
    _events: dict[int, int] = field(default_factory=dict)
    _lines: dict[str, int] = field(default_factory=dict)

    async def follow(self) -> AsyncIterator[Item]:
        while True:
            try:
                items, rows = await self.database.read(self._look)
            except StoreError:  # the bot is being killed or started, and answers again in a moment
                items, rows = [], [*self.guide.rows]
            if items or rows != self.guide.rows:
                self.guide.rows = rows
                self.changes.tell("stage")
            for item in items:
                yield item
            await asyncio.sleep(_LOOK_AGAIN)

    def _look(self, tx: Tx) -> tuple[list[Item], list[Confirmation]]:
        ids = tx.column("SELECT id FROM bot_confirmations ORDER BY created")
        return new_items(tx, self.names, self._events, self._lines), [
            row for each in ids if (row := read_confirmation(tx, each))
        ]


def new_items(tx: Tx, names: Names, seen_events: dict[int, int], seen_lines: dict[str, int]) -> list[Item]:
    """What is new, in the order of its time."""
    items: list[Item] = []
    for row in tx.all("SELECT session, seq, body FROM runtime_events ORDER BY session, seq"):
        if row.seq < seen_events.get(row.session, 0):
            continue
        seen_events[row.session] = row.seq + 1
        items += _items(Event.model_validate_json(row.body))
    for row in tx.all("SELECT * FROM bot_ledger ORDER BY chain, seq"):
        if row.seq > seen_lines.get(row.chain, 0):
            seen_lines[row.chain] = row.seq
            about = read_confirmation(tx, row.confirmation) if row.confirmation else None
            items.append(ledger_item(line_of(row), names, about))
    return sorted(items, key=lambda item: item.at)


def _items(event: Event) -> list[Item]:
    if any(call.name == REQUEST_CONFIRMATION for call in event.calls()):
        return [request_item(event.to_dict(), event.timestamp)]
    if event.author == "user" and event.content and any(r.name == REQUEST_CONFIRMATION for r in event.responses()):
        return [answer_item(event.content.to_dict(), event.timestamp)]
    return []
