"""What this process wrote to the ledger, kept in memory, out of reach of whoever writes to the database.

Somebody could put older rows back and remove the ledger's lines since then, so that an approval seems unused. The
process that wrote the lines knows better. It remembers the confirmations that it wrote about last.
"""

from __future__ import annotations

from blocks.ledger_kinds import LineKind

MOST = 20_000
"""So many confirmations are remembered."""


class SeenLines:
    def __init__(self) -> None:
        self._seen: dict[str, tuple[int, frozenset[LineKind]]] = {}

    def add(self, confirmation: str, seq: int, kind: LineKind) -> None:
        """A line that is committed."""
        _, kinds = self._seen.pop(confirmation, (0, frozenset()))
        self._seen[confirmation] = seq, kinds | {kind}
        while len(self._seen) > MOST:
            del self._seen[next(iter(self._seen))]

    def lost(self, confirmation: str, last: int) -> frozenset[LineKind]:
        """All kinds of line that were written about a confirmation, if its lines end before the last of them."""
        seen, kinds = self._seen.get(confirmation, (0, frozenset()))
        return kinds if last < seen else frozenset()
