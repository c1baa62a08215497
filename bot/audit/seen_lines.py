"""Remembers what this process wrote to the ledger, out of reach of anybody who can write to the database.

Somebody could restore older rows and remove the newer ledger lines, so that an approval seems unused. The process that
wrote those lines can notice this. It remembers the confirmations that it wrote about most recently.
"""

from __future__ import annotations

from blocks.ledger_kinds import LineKind
from runtime.recent_dict import RecentDict

MOST = 20_000
"""How many confirmations are remembered."""


class SeenLines:
    """The ledger lines that this process wrote, by confirmation."""

    def __init__(self) -> None:
        self._seen: RecentDict[str, tuple[int, frozenset[LineKind]]] = RecentDict(MOST)

    def add(self, confirmation: str, seq: int, kind: LineKind) -> None:
        """Remembers a line that was committed."""
        _, kinds = self._seen.get(confirmation, (0, frozenset()))
        self._seen[confirmation] = seq, kinds | {kind}

    def lost(self, confirmation: str, last: int) -> frozenset[LineKind]:
        """The kinds of all lines that were written about a confirmation, if its last lines are now missing. Otherwise
        empty."""
        seen, kinds = self._seen.get(confirmation, (0, frozenset()))
        return kinds if last < seen else frozenset()
