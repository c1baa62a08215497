"""Allows one run at a time for each session: with a lock in this process, and with the session's lease across
processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Concatenate, Literal, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from runtime.errors import Busy, ConfirmError
from runtime.replacing import replace
from runtime.run.arrival import Arrival, Begun, enter
from runtime.run.journal import Journal
from runtime.run.live_run import Run
from runtime.run.warm import Warm
from runtime.run.work import Setting, Work
from runtime.store.database import Database, Tx
from runtime.store.lease import Lease
from runtime.store.records import SessionId
from runtime.store.sessions import give_back, row_of, topic
from runtime.store.tables import sessions

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

LOOK_AGAIN = 1.0  # in case a wake-up from another process is lost


class Sequencer:
    """Accepts messages, and works on their sessions in tasks of its own, which do not depend on callers."""

    def __init__(self, open_setting: Callable[[], Awaitable[Setting]]) -> None:
        self._open_setting = open_setting
        self._warm = Warm()
        self._turns: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()
        self._runs: set[asyncio.Task[None]] = set()
        self._closing = False

    def is_busy_with(self, name: SessionId) -> bool:
        return name in self._turns

    async def enter(self, entry: Arrival, *, streaming: bool = False) -> Run:
        """Returns when the message is stored, or raises if it is not valid. The caller may be cancelled at any
        moment."""
        if self._closing:
            raise Busy("The runner is closing; nothing was stored. Try again with the next one.")
        accepted: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._perform(entry, accepted, streaming))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        return await asyncio.shield(accepted)

    async def when_free(
        self,
        name: SessionId,
        patience: float,
        fn: Callable[Concatenate[Tx, P], R | None],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """Runs the transaction as soon as nobody works on the session. Raises `Busy` if that takes longer than
        `patience`."""
        database = (await self._open_setting()).database
        until = asyncio.get_running_loop().time() + patience
        with database.waiter(topic(name)) as waiter:
            while (result := await database.run(fn, *args, **kwargs)) is None:
                if asyncio.get_running_loop().time() > until:
                    raise Busy(
                        f"Session {name.id} is at work, and was for {patience:g} s. Nothing was changed: try again."
                    )
                await waiter.wait(LOOK_AGAIN)
        return result

    async def close(self, patience: float) -> None:
        """Waits for runs for at most `patience`. The next process resumes the others."""
        self._closing = True
        try:
            if self._runs:
                await asyncio.wait(self._runs, timeout=patience)
            runs = list(self._runs)
            for task in runs:
                task.cancel()
            await asyncio.gather(*runs, return_exceptions=True)
        finally:
            self._closing = False

    async def _perform(self, entry: Arrival, accepted: asyncio.Future[Run], streaming: bool) -> None:
        """A whole run. Nobody awaits this task, so errors go to the message's sender and to listeners."""
        run = Run()
        try:
            async with self._turns.setdefault(entry.name, asyncio.Lock()):
                setting = await self._open_setting()
                begun = await _begin(setting.database, replace(entry, sealer=setting.guard.sealer))
                for call in begun.altered if begun is not None else ():
                    log.error(
                        "call %s (%s) of session %s: %s",
                        call.id,
                        call.tool,
                        entry.name.id,
                        call.reason or "Somebody changed it in the database while it ran: its outcome is unknown.",
                    )
                accepted.set_result(run)
                if begun is not None:
                    await self._work(setting, entry, begun, run, streaming)
        except BaseException as error:
            failure = _log_failure(error, entry.name, stored=accepted.done())
            if accepted.done():
                run.end(failure)
            else:
                accepted.set_exception(failure)
            if not isinstance(error, Exception):
                raise
        else:
            run.end()

    async def _work(self, setting: Setting, entry: Arrival, begun: Begun, run: Run, streaming: bool) -> None:
        name = begun.stored.name
        row = row_of(begun.stored.key)
        lease = Lease(setting.database, sessions, row, begun.token, topic=topic(name), term=setting.lease_term)
        async with lease:
            live = self._warm.take(begun.before)
            live.stored = begun.stored
            for event in begun.events:
                live.add(event)
            journal = Journal(setting.database, live, lease, run.emit, dict(begun.temporary), setting.guard)
            work = Work(setting, journal, lease, streaming=streaming, metadata=entry.metadata, stop=entry.stop)
            for invocation, calls in begun.work:
                await work.drive(invocation, calls, ask=begun.speaking in (None, invocation.id))
            await journal.flush(release=True)
            lease.stop()
        self._warm.put(live)


async def _begin(database: Database, entry: Arrival) -> Begun | None:
    """The stored message, with its session leased. None: there is nothing to do, or the entry does not want to wait."""
    begun = await _enter(database, entry)
    if begun is None and entry.patient:
        with database.waiter(topic(entry.name)) as waiter:
            while (begun := await _enter(database, entry)) is None:
                await waiter.wait(LOOK_AGAIN)
    return begun if isinstance(begun, Begun) else None


async def _enter(database: Database, entry: Arrival) -> Begun | Literal["nothing to do"] | None:
    entering = asyncio.ensure_future(database.run(enter, entry))
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The transaction is not cancelled, and nobody else would know its lease.
        begun = await entering
        if isinstance(begun, Begun):
            await database.run(give_back, begun.stored, begun.token)
        raise


def _log_failure(error: BaseException, name: SessionId, *, stored: bool) -> Exception:
    """Logs the error, and returns it as the sender or the listeners get it."""
    if isinstance(error, ConfirmError):
        if stored:
            log.warning("the run of session %s stopped: %s", name.id, error)
        return error
    if isinstance(error, Exception):
        log.error("the run of session %s failed", name.id, exc_info=error)
        return error
    # The task was cancelled, not the listener.
    if stored:
        return Busy("The runner was closed before the run ended; the next one goes on with what is left.")
    return Busy(
        "The runner was closed before the message was seen to be stored: look at the session before sending again."
    )
