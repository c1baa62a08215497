"""Stores and reads checkpoints. Only one process at a time can make one."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from adk_confirm.bot.audit.checkpoints import Checkpoint, checkpoint_is_sealed
from adk_confirm.bot.audit.ledger import Head, stamp
from adk_confirm.bot.store.repository import moment
from adk_confirm.runtime.jsontypes import JsonObject, canonical
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal, seal_of

_TURNS = int.from_bytes(blake2b(b"adk-confirm checkpoints", digest_size=8).digest(), signed=True)


def take_turn(tx: Tx) -> None:
    """Takes the lock that lets one process at a time make a checkpoint."""
    tx.lock("SELECT pg_advisory_xact_lock(:turns)", turns=_TURNS)


def store_checkpoint(tx: Tx, made: Checkpoint) -> Checkpoint:
    row = {"number": made.number, "at": stamp(made.at), "heads": _heads_text(made.heads)}
    tx.insert("bot_checkpoints", {**row, "previous": made.previous, "sealed": made.sealed, "signature": made.signature})
    if made.heads:
        save_sealed_heads(tx, {chain: head.hash for chain, head in made.heads.items()})
    return made


def save_sealed_heads(tx: Tx, hashes: Mapping[str, str]) -> None:
    """Notes in each chain's row the last line that the checkpoint covers."""
    tx.many(
        "UPDATE bot_chains SET sealed_hash = column2 FROM (VALUES (:chain, :hash)) AS head WHERE chain = column1",
        [{"chain": chain, "hash": hash_} for chain, hash_ in hashes.items()],
    )


def stored_checkpoints(tx: Tx) -> Iterator[Checkpoint]:
    """The stored checkpoints by number. One whose text is not exactly as this program writes it is returned without a
    fingerprint, so that verification reports it."""
    for row in tx.each("SELECT * FROM bot_checkpoints ORDER BY number"):
        point = checkpoint_of(row)
        exact = row.at == stamp(point.at) and row.heads == _heads_text(point.heads) and isinstance(row.previous, str)
        yield point if exact and isinstance(row.sealed, str) else replace(point, sealed="")


def last_checkpoint(tx: Tx) -> Checkpoint | None:
    row = tx.first("SELECT * FROM bot_checkpoints ORDER BY number DESC LIMIT 1")
    return None if row is None else checkpoint_of(row)


_LATEST = 20


def secret_fits(tx: Tx) -> bool:
    """Whether the last checkpoint, or any of the latest lines, was sealed with the given secret.

    One match is enough, since somebody may have changed the others. An empty ledger fits any secret.
    """
    seal, point = seal_of(tx), last_checkpoint(tx)
    if point is not None and checkpoint_is_sealed(point, seal):
        return True
    rows = tx.all("SELECT chain, seq, hash, sealed FROM bot_ledger ORDER BY at DESC LIMIT :most", most=_LATEST)
    if point is None and not rows:
        return True
    return any(seal.fits(row.sealed, "line", row.chain, row.hash, row.seq) for row in rows)


def is_there(tx: Tx, point: Checkpoint) -> bool:
    sealed: str | None = tx.value("SELECT sealed FROM bot_checkpoints WHERE number = :number", number=point.number)
    return sealed == point.sealed


def checkpoint_of(row: Any) -> Checkpoint:
    """Reads a stored checkpoint. If somebody changed it, this does not fail: its fingerprint will not fit, and that is
    reported."""
    return Checkpoint(
        number=row.number,
        at=_time(row.at),
        heads=_heads(row.heads),
        previous=str(row.previous),
        sealed=str(row.sealed),
        signature=str(row.signature),
    )


def _heads_text(heads: Mapping[str, Head]) -> str:
    stored: JsonObject = {chain: [head.seq, head.hash] for chain, head in heads.items()}
    return canonical(stored)


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        return moment(0)


def _heads(text: str) -> dict[str, Head]:
    try:
        stored = json.loads(text)
        return {chain: Head(int(seq), str(hash_)) for chain, (seq, hash_) in stored.items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return {}


# The index of chains that need a checkpoint. Somebody who can write to the database could mark a chain as sealed, and
# no checkpoint would ever cover it. So from time to time the index is compared with the checkpoints, a little at once.

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
    """Corrects the suspects that are still wrong, and returns them: a checkpoint since the check may have corrected
    others. Under the lock nobody makes a checkpoint meanwhile."""
    take_turn(tx)
    while truth.read_some(tx):
        pass
    found = tx.all("SELECT chain, sealed_hash FROM bot_chains WHERE chain IN :suspects", suspects=list(suspects))
    wrong = [row.chain for row in found if row.sealed_hash != truth.of(row.chain)]
    if wrong:
        save_sealed_heads(tx, {chain: truth.of(chain) for chain in wrong})
    return wrong
