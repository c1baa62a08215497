"""Remembers, by mark, what is done once: a post that was begun, a note that was given, a message that was read.

After a crash a post that was begun may be in Slack although no answer came.

A mark is written before each post. If the mark exists already, an earlier attempt may have reached Slack, so its
message is looked for first. Marks stay after the post. When the next one of a scope is written, those older than a
month are deleted.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import bindparam, delete, insert, select, update

from bot.store.tables import attempts
from runtime.store.database import Tx
from runtime.store.lease import Lease
from runtime.store.prepared import Prepared

_HERE = (attempts.c.scope == bindparam("scope_"), attempts.c.mark == bindparam("mark_"))
_EARLIER = Prepared(select(attempts.c.at, attempts.c.tries).where(*_HERE))
_ONE_MORE = Prepared(update(attempts).where(*_HERE).values(tries=attempts.c.tries + 1))
_FIRST = Prepared(insert(attempts))
_OLD = Prepared(delete(attempts).where(attempts.c.scope == bindparam("scope_"), attempts.c.at < bindparam("before_")))
KEPT = 30 * 86_400.0


@dataclass(frozen=True)
class EarlierAttempts:
    """When the first attempt began, and how many there were."""

    at: float
    tries: int


def begin(tx: Tx, scope: str, mark: str) -> EarlierAttempts | None:
    """Notes an attempt, and returns the earlier ones, or None if this is the first. The caller holds the scope's
    lease."""
    before, now = earlier_attempts(tx, scope, mark), tx.now()
    if before is not None:
        _ONE_MORE(tx, scope_=scope, mark_=mark)
        return before
    _OLD(tx, scope_=scope, before_=now - KEPT)
    _FIRST(tx, scope=scope, mark=mark, at=now, tries=1)
    return None


def earlier_attempts(tx: Tx, scope: str, mark: str) -> EarlierAttempts | None:
    row = _EARLIER.first(tx, scope_=scope, mark_=mark)
    return None if row is None else EarlierAttempts(row.at, row.tries)


def forget_attempt(tx: Tx, scope: str, mark: str) -> None:
    """Deletes the marks of an attempt that is settled: nothing of it is in Slack, or its result is stored."""
    tx.execute(delete(attempts).where(attempts.c.scope == scope, attempts.c.mark == mark))


class Attempts:
    """The attempts of a lease holder. Once the lease is lost, it begins no more posts."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease

    async def begin(self, scope: str, mark: str) -> EarlierAttempts | None:
        return await self._lease.run(begin, scope, mark)

    async def earlier(self, scope: str, mark: str) -> EarlierAttempts | None:
        return await self._lease.read(earlier_attempts, scope, mark)

    async def forget(self, scope: str, mark: str) -> None:
        await self._lease.run(forget_attempt, scope, mark)
