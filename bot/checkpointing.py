"""Checkpoints, made: from time to time the chains that moved are sealed, stored, and told outside the database.

Of several replicas one does it, under a lock; what is due is read from the store, so a restart loses no turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from sqlalchemy import Row, bindparam, func, insert, select, update

from bot.checkpoints import Checkpoint, checkpoint
from bot.ledger import Head, stamp
from bot.precedence import Precedence
from bot.rows import moment, now
from bot.seal import Seal
from bot.tables import chains, checkpoints
from runtime.database import Database, Tx, for_update
from runtime.errors import ConfirmError, StoreError
from runtime.jsontypes import JsonObject, canonical

AT_ONCE = 1000
"""The most chains that one checkpoint is made over. When a store is sealed for the first time, or much has happened,
more checkpoints follow, and people's clicks come in between."""

_AGAIN = timedelta(minutes=1)
_POSTING = 5.0
_TURNS = int.from_bytes(blake2b(b"adk-confirm checkpoints", digest_size=8).digest(), signed=True)

log = logging.getLogger("adk_confirm.audit")
"""The place outside the database: whoever keeps this log can prove that nothing before its last line was changed."""

Post = Callable[[str], Awaitable[None]]


class Checkpointing:
    """Seals every so often until it is stopped, and once more then. `post` puts a line into the audit's channel."""

    def __init__(
        self,
        database: Database,
        seal: Seal,
        every: timedelta,
        post: Post | None = None,
        clicks: Precedence | None = None,
    ) -> None:
        self._database, self._seal, self._every, self._post = database, seal, every, post
        self._clicks = clicks or Precedence()
        self._stopping = asyncio.Event()

    async def run(self) -> None:
        while not self._stopping.is_set():
            await self._clicks.stand_back()
            await self._pause(await self._seal_moved(at_once=False))
        await self._seal_moved(at_once=True)

    def stop(self) -> None:
        self._stopping.set()

    async def _seal_moved(self, *, at_once: bool) -> timedelta:
        """In how long to look again. Of several checkpoints in a row the last is told: it is sealed over the others."""
        made: Checkpoint | None = None
        try:
            while True:
                sealed = await self._database.run(seal_moved, self._seal, self._every, at_once=at_once)
                made = sealed.made or made
                if not sealed.more:
                    return sealed.again
                at_once = True
                if not self._stopping.is_set():
                    await self._clicks.stand_back()
        except StoreError as error:
            log.warning("no checkpoint could be made, and it will be tried again: %s", error)
            return min(self._every, _AGAIN)
        finally:
            if made is not None:
                await self._tell(made)

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


@dataclass(frozen=True)
class Sealed:
    """The checkpoint that was made, if one was; whether there are more chains to seal; in how long to look again."""

    made: Checkpoint | None
    again: timedelta
    more: bool = False


def seal_moved(tx: Tx, seal: Seal, every: timedelta, *, at_once: bool = False) -> Sealed:
    """A checkpoint over the chains that moved, if it is time and there are any."""
    if tx.dialect == "postgresql":
        tx.execute(select(func.pg_advisory_xact_lock(_TURNS)))
    at, before = now(tx), _last(tx)
    if before is not None and not at_once and before.at <= at < before.at + every:
        return Sealed(None, before.at + every - at)
    heads = {row.chain: Head(row.seq, row.hash) for row in tx.execute(_MOVED)}
    if not heads:
        return Sealed(None, every)
    made = checkpoint(before, heads, at, seal)
    told: JsonObject = {chain: [head.seq, head.hash] for chain, head in heads.items()}
    tx.execute(
        insert(checkpoints).values(
            number=made.number, at=stamp(made.at), heads=canonical(told), previous=made.previous, sealed=made.sealed
        )
    )
    tx.execute(_SEALED, [{"chain_": chain, "hash_": head.hash} for chain, head in heads.items()])
    return Sealed(made, every, more=len(heads) == AT_ONCE)


# A chain that somebody writes to just now is not waited for: its next line is in the next checkpoint.
_MOVED = for_update(
    select(chains.c.chain, chains.c.seq, chains.c.hash).where(chains.c.hash != chains.c.sealed_hash).limit(AT_ONCE),
    skip_locked=True,
)
_SEALED = update(chains).where(chains.c.chain == bindparam("chain_")).values(sealed_hash=bindparam("hash_"))


def stored_checkpoints(tx: Tx) -> Iterator[Checkpoint]:
    found = select(checkpoints).order_by(checkpoints.c.number).execution_options(yield_per=100)
    for row in tx.execute(found):
        yield _checkpoint_of(row)


def _last(tx: Tx) -> Checkpoint | None:
    row = tx.execute(select(checkpoints).order_by(checkpoints.c.number.desc()).limit(1)).one_or_none()
    return None if row is None else _checkpoint_of(row)


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
