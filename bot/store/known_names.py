"""Names of people, user groups and channels as Slack last gave them to the bot, for what commands print.

Nothing is decided by them: whoever votes is known by an id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from adk_confirm.blocks.text import visible
from adk_confirm.runtime.errors import StoreError
from adk_confirm.runtime.recent_dict import RecentDict
from adk_confirm.runtime.store.database import Database, Tx

MOST = 10_000
"""How many are kept: those that were seen last."""


@dataclass(frozen=True)
class KnownNames:
    known: Mapping[str, str] = field(default_factory=dict)

    def of(self, id_: str) -> str:
        """
        >>> names = KnownNames({"U0LEE": "Lee", "S0ON": "@on"})
        >>> names.of("U0LEE"), names.of("U0ANN"), names.of("group:S0ON")
        ('Lee (U0LEE)', 'U0ANN', '@on (group:S0ON)')
        """
        name = self.alone(id_)
        return f"{visible(name)} ({id_})" if name else id_

    def short(self, id_: str) -> str:
        """The name or, if it is not known, the id."""
        return visible(self.alone(id_)) or id_

    def alone(self, id_: str) -> str:
        """The name, or nothing."""
        return self.known.get(id_.rpartition(":")[2], "")


def read_names(tx: Tx) -> KnownNames:
    return KnownNames({row.id: row.name for row in tx.all("SELECT id, name FROM bot_names")})


def keep_names(tx: Tx, names: Mapping[str, str]) -> None:
    for id_, name in sorted(names.items()):  # in one order, since two replicas may do this at once
        tx.run(_KEEP, id=id_, name=name[:_LONGEST], at=tx.now())
    tx.run(_CAP, most=MOST)


_LONGEST = 256
_KEEP = """
    INSERT INTO bot_names (id, name, seen_at) VALUES (:id, :name, :at)
    ON CONFLICT (id) DO UPDATE SET name = excluded.name, seen_at = excluded.seen_at
"""
_CAP = """
    DELETE FROM bot_names WHERE id IN (SELECT id FROM bot_names ORDER BY seen_at DESC, id LIMIT 1000 OFFSET :most)
"""


class SeenNames:
    """Collects the names in what Slack sends, and stores each soon after, unless it collected the same name before."""

    def __init__(self, database: Database) -> None:
        self._database, self._some = database, asyncio.Event()
        self._seen = RecentDict[str, str](MOST)
        self._new: dict[str, str] = {}

    def note(self, id_: str, name: str) -> None:
        if name and self._seen.get(id_) != name:
            self._seen[id_] = self._new[id_] = name
            self._some.set()

    async def run(self) -> None:
        """Stores the collected names until it is cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            new, self._new = self._new, {}
            try:
                await self._database.run(keep_names, new)
            except StoreError:  # they are stored when Slack gives them again
                for id_ in new:
                    self._seen.pop(id_, None)
