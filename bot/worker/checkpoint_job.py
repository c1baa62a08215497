"""Makes checkpoints: seals the chains that grew, stores the checkpoint and writes it outside the database.

One replica at a time does this, under a lock. What is due follows from the store, so a restart misses nothing.

The database is not trusted to say which chains are sealed. At the start and every hour, its index is compared with the
checkpoints and corrected. Each process also remembers the last checkpoint that it made or saw. If that checkpoint is
missing from the store, the next one is still made on top of it, so that the gap is visible.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from adk_confirm.bot.audit.checkpoints import Checkpoint, CheckpointKey, checkpoint
from adk_confirm.bot.audit.ledger import Head
from adk_confirm.bot.store.checkpoint_rows import correct_index, is_there, last_checkpoint, store_checkpoint, take_turn
from adk_confirm.bot.store.repository import now
from adk_confirm.runtime.errors import ConfirmError, StoreError
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.wakeups import until_stopped

AT_ONCE = 1000
"""The most chains in one checkpoint. If there are more, at the first checkpoint of a store for example, further
checkpoints follow, and clicks get their turn in between."""

LOOK_AGAIN = timedelta(hours=1)
"""How often the index in the database is compared with the checkpoints."""

_AGAIN = timedelta(minutes=1)
_POSTING = 5.0

log = logging.getLogger("adk_confirm.audit")
"""The place outside the database: whoever keeps this log can prove that nothing before its last line was changed."""

Post = Callable[[str], Awaitable[None]]


class CheckpointJob:
    """Makes checkpoints until it is stopped, and a last one then. `post` writes a line to the audit channel."""

    def __init__(
        self,
        database: Database,
        seal: Seal,
        every: timedelta,
        post: Post | None = None,
        key: CheckpointKey | None = None,
    ) -> None:
        self._database, self._keys, self._every, self._post, self._key = database, seal, every, post, key
        self._stopping = asyncio.Event()
        self._known: Checkpoint | None = None
        self._doubted: float | None = None  # when the index was last checked

    async def run(self) -> None:
        while not self._stopping.is_set():
            pause = await self._seal_moved(at_once=False)
            await until_stopped(self._stopping, asyncio.sleep(pause.total_seconds()))
        await self._seal_moved(at_once=True)

    def stop(self) -> None:
        self._stopping.set()

    async def _seal_moved(self, *, at_once: bool) -> timedelta:
        """Makes and publishes checkpoints. Returns the seconds until the next look. Of several in a row only the last
        is published."""
        made: Checkpoint | None = None
        try:
            while True:
                await self._check_index()
                sealed = await self._database.run(
                    seal_moved, self._keys, self._every, self._key, at_once=at_once, known=self._known
                )
                made, self._known = sealed.made or made, sealed.last
                if sealed.gone is not None:
                    log.error(
                        "checkpoint %d is gone from the store, or was changed: somebody wrote to the database, or put "
                        "an older copy of it back",
                        sealed.gone,
                    )
                if not sealed.more:
                    return sealed.again
                at_once = True
        except StoreError as error:
            log.warning("no checkpoint could be made, and it will be tried again: %s", error)
            return min(self._every, _AGAIN)
        finally:
            if made is not None:
                await self._tell(made)

    async def _check_index(self) -> None:
        """Checks the index of sealed chains once an hour. The stop skips this; the next start does it."""
        at = asyncio.get_running_loop().time()
        due = self._doubted is None or at >= self._doubted + LOOK_AGAIN.total_seconds()
        if self._stopping.is_set() or not due:
            return
        wrong = await correct_index(self._database, self._keys, partial(asyncio.sleep, 0))
        self._doubted = at
        if wrong:
            log.error(
                "what the database said of %d chains (%s first) was not what the checkpoints say: somebody wrote to "
                "it, or the secret is another one. They are sealed with the next checkpoint",
                len(wrong),
                wrong[0],
            )

    async def _tell(self, made: Checkpoint) -> None:
        line = made.publish(self._keys, self._key)
        log.info("%s", line)
        if self._post is None:
            return
        try:
            async with asyncio.timeout(_POSTING):
                await self._post(line)
        except (ConfirmError, TimeoutError) as error:
            # The log has this checkpoint, and the next one in the channel covers it.
            why = str(error) or f"no answer within {_POSTING:g} seconds"
            log.warning("checkpoint %d is not in the audit channel: %s", made.number, why)


@dataclass(frozen=True)
class SealingResult:
    """The checkpoint, if one was made; the seconds until the next look; and whether more chains need sealing.

    `last` is the last checkpoint in the store. `gone` is the number of a checkpoint that has disappeared.
    """

    made: Checkpoint | None
    again: timedelta
    more: bool = False
    last: Checkpoint | None = None
    gone: int | None = None


def seal_moved(
    tx: Tx,
    seal: Seal,
    every: timedelta,
    key: CheckpointKey | None = None,
    *,
    at_once: bool = False,
    known: Checkpoint | None = None,
) -> SealingResult:
    """Makes a checkpoint over the chains that grew, if one is due."""
    take_turn(tx)
    at, before = now(tx), last_checkpoint(tx)
    gone = None
    if known is not None and not is_there(tx, known):
        gone = known.number
        if before is None or before.number <= known.number:
            before = known
    if before is not None and not at_once and before.at <= at < before.at + every:
        return SealingResult(None, before.at + every - at, last=before, gone=gone)
    heads = {row.chain: Head(row.seq, row.hash) for row in tx.all(_LOCK_MOVED, most=AT_ONCE)}
    if not heads:
        return SealingResult(None, every, last=before, gone=gone)
    made = store_checkpoint(tx, checkpoint(before, heads, at, seal, key))
    return SealingResult(made, every, more=len(heads) == AT_ONCE, last=made, gone=gone)


MOVED = "SELECT chain, seq, hash FROM bot_chains WHERE hash <> sealed_hash LIMIT :most"
# A chain that somebody is writing to is left out. Its next line is in the next checkpoint.
_LOCK_MOVED = f"{MOVED} FOR UPDATE SKIP LOCKED"
