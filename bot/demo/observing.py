"""What the sandbox's panel shows of the agent's side: the runtime's requests and answers, and the ledger's lines."""

from __future__ import annotations

from collections.abc import AsyncIterator

from sqlalchemy import select

from bot.sandbox.page.panel import Item, answer_message, ledger_line, request_event
from bot.store.repository import line_of
from bot.store.slack_lanes import THREADS
from bot.store.tables import ledger
from runtime import REQUEST_CONFIRMATION, Event
from runtime.store.database import Database, Tx
from runtime.store.tables import events

_NEWS = 1.0


class Observing:
    """Follows both stores' tables: what stands there is the truth, whoever wrote it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def follow(self) -> AsyncIterator[Item]:
        seen_events: dict[int, int] = {}
        seen_lines: dict[str, int] = {}
        with self._database.waiter(THREADS) as waiter:
            while True:
                for item in await self._database.read(news, seen_events, seen_lines):
                    yield item
                await waiter.wait(_NEWS)


def news(tx: Tx, seen_events: dict[int, int], seen_lines: dict[str, int]) -> list[Item]:
    """What came since, in the order of its time. A demo has few sessions: it may look at all of them."""
    items: list[Item] = []
    for row in tx.execute(
        select(events.c.session, events.c.seq, events.c.body).order_by(events.c.session, events.c.seq)
    ):
        if row.seq < seen_events.get(row.session, 0):
            continue
        seen_events[row.session] = row.seq + 1
        items += _told(Event.model_validate_json(row.body))
    for row in tx.execute(select(ledger).order_by(ledger.c.chain, ledger.c.seq)):
        if row.seq > seen_lines.get(row.chain, 0):
            seen_lines[row.chain] = row.seq
            items.append(ledger_line(line_of(row)))
    return sorted(items, key=lambda item: item.at)


def _told(event: Event) -> list[Item]:
    if any(call.name == REQUEST_CONFIRMATION for call in event.calls()):
        return [request_event(event.to_dict(), event.timestamp)]
    if event.author == "user" and event.content and any(r.name == REQUEST_CONFIRMATION for r in event.responses()):
        return [answer_message(event.content.to_dict(), event.timestamp)]
    return []
