"""Corrects `bot_chains.sealed_hash`, the index of chains that need a checkpoint, by comparing it with the checkpoints.

Somebody who can write to the database could mark a chain as sealed, and no checkpoint would ever cover it. So the index
is checked from time to time. Both sides are read a little at a time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bot.audit.checkpoints import checkpoint_is_sealed
from bot.store.checkpoints import checkpoint_of, save_sealed_heads, take_turn
from runtime.store.database import Database, Tx
from runtime.store.seal import Seal

_CHECKPOINTS, _CHAINS = 10, 1000


async def correct_index(database: Database, seal: Seal, between: Callable[[], Awaitable[object]]) -> list[str]:
    """Corrects the index, and returns the chains for which it was wrong."""
    truth, wrong = _Truth(seal), list[str]()
    more = True
    while more:
        more = await database.read(truth.read_some)
        await between()
    after: str | None = ""
    while after is not None:
        page = await database.read(_read_chains, after)
        suspects = [row.chain for row in page if row.sealed_hash != truth.of(row.chain)]
        if suspects:
            wrong += await database.run(_correct, truth, suspects)
        after = page[-1].chain if len(page) == _CHAINS else None
        await between()
    return wrong


@dataclass
class _Truth:
    """The last hash of each chain that the checkpoints cover, as far as they have been read."""

    seal: Seal
    number: int = 0
    hashes: dict[str, str] = field(default_factory=dict)

    def of(self, chain: str) -> str:
        return self.hashes.get(chain, "")

    def read_some(self, tx: Tx) -> bool:
        """Reads more checkpoints. Returns whether there are more. Those whose fingerprint does not fit are ignored."""
        more = "SELECT * FROM bot_checkpoints WHERE number > :number ORDER BY number LIMIT :most"
        rows = tx.all(more, number=self.number, most=_CHECKPOINTS)
        for point in (checkpoint_of(row) for row in rows):
            self.number = point.number
            if checkpoint_is_sealed(point, self.seal):
                self.hashes.update({chain: head.hash for chain, head in point.heads.items()})
        return len(rows) == _CHECKPOINTS


def _read_chains(tx: Tx, after: str) -> Sequence[Any]:
    found = "SELECT chain, sealed_hash FROM bot_chains WHERE chain > :after ORDER BY chain LIMIT :most"
    return tx.all(found, after=after, most=_CHAINS)


def _correct(tx: Tx, truth: _Truth, suspects: Sequence[str]) -> list[str]:
    """Corrects some chains. The lock keeps others from making a checkpoint meanwhile, and one made since the check has
    set its chains right."""
    take_turn(tx)
    while truth.read_some(tx):
        pass
    found = tx.all("SELECT chain, sealed_hash FROM bot_chains WHERE chain IN :suspects", suspects=list(suspects))
    wrong = [row.chain for row in found if row.sealed_hash != truth.of(row.chain)]
    if wrong:
        save_sealed_heads(tx, {chain: truth.of(chain) for chain in wrong})
    return wrong
