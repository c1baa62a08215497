"""Checkpoints, made: from time to time the chains that moved are sealed, stored, and told outside the database.

Of several replicas one does it, under a lock; what is due is read from the store, so a restart loses no turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from sqlalchemy import Row, func, insert, select

from bot.checkpoints import Checkpoint, checkpoint
from bot.ledger import Head, stamp
from bot.rows import moment, now, seconds
from bot.seal import Seal
from bot.tables import chains, checkpoints, ledger
from runtime.database import Database, Tx
from runtime.errors import ConfirmError, StoreError
from runtime.jsontypes import JsonObject, canonical

OVERLAP = timedelta(hours=1)
"""Lines of so long before a checkpoint are looked at again: they may have been committed after it, or another clock
may have told their time."""

_AGAIN = timedelta(minutes=1)
_POSTING = 5.0
_TURNS = int.from_bytes(blake2b(b"adk-confirm checkpoints", digest_size=8).digest(), signed=True)

log = logging.getLogger("adk_confirm.audit")
"""The place outside the database: whoever keeps this log can prove that nothing before its last line was changed."""

Post = Callable[[str], Awaitable[None]]


class Checkpointing:
    """Seals every so often until it is stopped, and once more then. `post` puts a line into the audit's channel."""

    def __init__(self, database: Database, seal: Seal, every: timedelta, post: Post | None = None) -> None:
        self._database, self._seal, self._every, self._post = database, seal, every, post
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not self._stopping.is_set():
            await self._pause(await self._seal_moved(at_once=False))
        await self._seal_moved(at_once=True)

    def stop(self) -> None:
        self._stopping.set()

    async def _seal_moved(self, *, at_once: bool) -> timedelta:
        """In how long to look again."""
        try:
            made, again = await self._database.run(seal_moved, self._seal, self._every, at_once=at_once)
        except StoreError as error:
            log.warning("no checkpoint could be made, and it will be tried again: %s", error)
            return min(self._every, _AGAIN)
        if made is not None:
            await self._tell(made)
        return again

    async def _tell(self, made: Checkpoint) -> None:
        log.info("%s", made)
        if self._post is None:
            return
        try:
            async with asyncio.timeout(_POSTING):
                await self._post(str(made))
        except (ConfirmError, TimeoutError) as error:
            # The log has it, and the next one that the channel gets is sealed over it.
            why = str(error) or f"no answer within {_POSTING:g} seconds"
            log.warning("checkpoint %d is not in the audit channel: %s", made.number, why)

    async def _pause(self, length: timedelta) -> None:
        try:
            async with asyncio.timeout(length.total_seconds()):
                await self._stopping.wait()
        except TimeoutError:
            return


def seal_moved(tx: Tx, seal: Seal, every: timedelta, *, at_once: bool = False) -> tuple[Checkpoint | None, timedelta]:
    """A checkpoint over the chains that moved, if it is time and there are any; and in how long to look again."""
    if tx.dialect == "postgresql":
        tx.execute(select(func.pg_advisory_xact_lock(_TURNS)))
    at, before = now(tx), _last(tx)
    if before is not None and not at_once and before.at <= at < before.at + every:
        return None, before.at + every - at
    heads = _moved(tx, before)
    if not heads:
        return None, every
    made = checkpoint(before, heads, at, seal)
    told: JsonObject = {chain: [head.seq, head.hash] for chain, head in heads.items()}
    tx.execute(
        insert(checkpoints).values(
            number=made.number, at=stamp(made.at), heads=canonical(told), previous=made.previous, sealed=made.sealed
        )
    )
    return made, every


def stored_checkpoints(tx: Tx, since: datetime | None = None) -> Iterator[Checkpoint]:
    found = select(checkpoints).order_by(checkpoints.c.number).execution_options(yield_per=100)
    if since is not None:
        found = found.where(checkpoints.c.at >= stamp(since))
    for row in tx.execute(found):
        yield _checkpoint_of(row)


def _last(tx: Tx) -> Checkpoint | None:
    row = tx.execute(select(checkpoints).order_by(checkpoints.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _checkpoint_of(row)


def _moved(tx: Tx, before: Checkpoint | None) -> dict[str, Head]:
    found = select(chains)
    sealed: dict[str, Head] = {}
    if before is not None:
        since = before.at - OVERLAP
        lately = select(ledger.c.chain).where(ledger.c.at >= seconds(since))
        found = found.where(chains.c.chain.in_(lately))
        for point in (*stored_checkpoints(tx, since), before):
            sealed |= point.heads
    heads = {row.chain: Head(row.seq, row.hash) for row in tx.execute(found)}
    return {chain: head for chain, head in heads.items() if sealed.get(chain) != head}


def _checkpoint_of(row: Row[*tuple[Any, ...]]) -> Checkpoint:
    """As it is stored. What somebody wrote over it is no error here: then its seal does not fit, and that is told."""
    return Checkpoint(
        number=row.number, at=_time(row.at), heads=_heads(row.heads), previous=row.previous, sealed=row.sealed
    )


def _time(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:
        return moment(0)


def _heads(text: str) -> dict[str, Head]:
    try:
        told = json.loads(text)
        return {chain: Head(int(seq), str(hash_)) for chain, (seq, hash_) in told.items()}
    except (ValueError, TypeError, AttributeError):
        return {}
