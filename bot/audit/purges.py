"""Which lines a purge emptied, according to the ledger's own purge lines. Pure.

A line may be empty only if a purge line names it. A purge line names every line that it emptied, chain by chain, and is
never emptied itself. It counts only if its fingerprint fits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from bot.audit.ledger import SYSTEM, LedgerLine, LineKind, digest, is_sealed, line_hash
from runtime.store.seal import Seal

SeqRange = tuple[int, int]
"""A range of line numbers, both ends included."""

Emptied = tuple[tuple[str, tuple[SeqRange, ...]], ...]
"""Lines by chain."""


def group_emptied(lines: Iterable[tuple[str, int]]) -> Emptied:
    """
    >>> group_emptied([("b", 7), ("a", 2), ("a", 1), ("a", 4)])
    (('a', ((1, 2), (4, 4))), ('b', ((7, 7),)))
    """
    spans: dict[str, list[SeqRange]] = {}
    for chain, seq in sorted(lines):
        known = spans.setdefault(chain, [])
        if known and known[-1][1] == seq - 1:
            known[-1] = (known[-1][0], seq)
        else:
            known.append((seq, seq))
    return tuple((chain, tuple(found)) for chain, found in spans.items())


@dataclass(frozen=True)
class Purges:
    """All lines that were purged."""

    spans: Mapping[str, Sequence[SeqRange]] = field(default_factory=dict)

    @classmethod
    def read(cls, lines: Iterable[LedgerLine], seal: Seal) -> Purges:
        """The purge lines among these whose fingerprints fit."""
        spans: dict[str, list[SeqRange]] = {}
        for line in lines:
            for chain, found in _spans_emptied_by(line, seal):
                spans.setdefault(chain, []).extend(found)
        return cls(spans)

    def cover(self, chain: str, seq: int) -> bool:
        return any(first <= seq <= last for first, last in self.spans.get(chain, ()))


def _spans_emptied_by(line: LedgerLine, seal: Seal) -> Emptied:
    if line.chain != SYSTEM or line.kind is not LineKind.PURGED or line.content is None or line.salt is None:
        return ()
    if line.hash != line_hash(line) or line.digest != digest(line.content, line.salt) or not is_sealed(line, seal):
        return ()
    emptied = json.loads(line.content).get("emptied", [])
    return tuple((chain, tuple((first, last) for first, last in spans)) for chain, spans in emptied)
