"""Allows one run at a time for each session: with a lock in this process, and with the session's lease across
processes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext
from typing import Concatenate, Literal, ParamSpec, TypeVar
from weakref import WeakValueDictionary

from adk_confirm.runtime.calls.call import ALTERED, CallState
from adk_confirm.runtime.errors import Busy, ConfirmError, read_error
from adk_confirm.runtime.run.arrival import AcceptedMessage, Arrival, enter, look_in, look_in_or_enter
from adk_confirm.runtime.run.journal import Journal, SessionCache, SessionNews
from adk_confirm.runtime.run.turn_loop import AppContext, TurnLoop
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.lease import Lease
from adk_confirm.runtime.store.sessions import give_back, run_of, topic
from adk_confirm.runtime.tool import tool_threads
from adk_confirm.runtime.wire import Event, SessionId


class Run:
    """Iterate over it for its events. The run goes on, and is stored, even if nobody listens."""

    def __init__(self, task: asyncio.Task[None] | None = None) -> None:
        self._task = task
        self._queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self.ended = False
        self.failure: Exception | None = None
        self.news: SessionNews | None = None  # all that the run did, once it has ended

    def emit(self, event: Event) -> None:
        self._queue.put_nowait(event)

    def end(self, failure: Exception | None = None) -> None:
        self.ended, self.failure = True, failure
        self._queue.put_nowait(None)

    async def close(self) -> None:
        """Cancels the run if it has not ended. The next process resumes it."""
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task})

    async def __aiter__(self) -> AsyncIterator[Event]:
        while (event := await self._queue.get()) is not None:
            yield event
        self._queue.put_nowait(None)  # for callers that ask again
        if self.failure is not None:
            raise self.failure


log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_CHANGED = "Somebody changed it in the database after it began: its outcome is unknown."
LOOK_AGAIN = 1.0  # in case a wake-up from another process is lost


class Sequencer:
    """Accepts messages, and works on their sessions in tasks of its own, which do not depend on callers."""

    def __init__(self, open_app: Callable[[], Awaitable[AppContext]]) -> None:
        self._open_app = open_app
        self._cache = SessionCache()
        self._turns: WeakValueDictionary[SessionId, asyncio.Lock] = WeakValueDictionary()
        self._runs: set[asyncio.Task[None]] = set()
        self._closing = False

    def is_busy_with(self, name: SessionId) -> bool:
        return name in self._turns

    async def enter(self, arrival: Arrival, *, streaming: bool = False) -> Run:
        """Returns when the message is stored, or raises if it is not valid. The caller may be cancelled at any
        moment."""
        if self._closing:
            raise Busy("The runner is closing; nothing was stored. Try again with the next one.")
        accepted: asyncio.Future[Run] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._perform(arrival, accepted, streaming))
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        try:
            return await asyncio.shield(accepted)
        except asyncio.CancelledError:
            if arrival.control.held is not None:  # the lease's holder releases the session now
                task.cancel()
                await asyncio.wait({task})
            raise

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
        database = (await self._open_app()).database
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

    async def _perform(self, arrival: Arrival, accepted: asyncio.Future[Run], streaming: bool) -> None:
        """A whole run. Nobody awaits this task, so errors go to the sender, or to the run's listeners."""
        run = Run(asyncio.current_task())
        turn = self._turns.setdefault(arrival.name, asyncio.Lock()) if arrival.control.held is None else nullcontext()
        try:
            async with turn:
                app = await self._open_app()
                message = await _begin(app.database, arrival, known=arrival.name in self._cache)
                for call in message.altered if message is not None else ():
                    log.error(
                        "call %s (%s) of session %s: %s",
                        call.id,
                        call.tool,
                        arrival.name.id,
                        ALTERED if call.state is CallState.REFUSED else _CHANGED,
                    )
                accepted.set_result(run)
                if message is not None:
                    await self._work(app, arrival, message, run, streaming)
        except BaseException as error:
            failure = _log_failure(error, arrival.name, stored=accepted.done())
            if accepted.done():
                run.end(failure)
            else:
                accepted.set_exception(failure)
                read_error(accepted)
            if not isinstance(error, Exception):
                raise
        else:
            run.end()

    async def _work(
        self, app: AppContext, arrival: Arrival, message: AcceptedMessage, run: Run, streaming: bool
    ) -> None:
        job, term = run_of(message.stored), app.lease_term
        lease = arrival.control.held or Lease(
            app.database, job, message.token, topic=topic(arrival.name), term=term, keeper=app.keeper
        )
        live = self._cache.take(message.before)
        live.stored = message.stored
        for event in message.change.events:
            live.add(event)
        if live.views or not message.is_written or not message.before.events:  # else `view` reads and counts them
            live.size += message.change.size
        async with nullcontext() if lease is arrival.control.held else lease:
            journal = Journal(app.database, live, lease, run.emit, arrival.on_change, message)
            work = TurnLoop(
                app, journal, lease, streaming=streaming, metadata=arrival.metadata, stop=arrival.control.stop
            )
            try:
                for invocation, calls in message.work:
                    if arrival.begins:
                        await work.drive(invocation, calls, ask=message.speaking in (None, invocation.id))
                    else:
                        await work.find_lost(calls)
            except asyncio.CancelledError:
                if tool_threads():
                    lease.leave(tool_threads)
                raise
            ends = lease.job == job  # otherwise the lease is for a job of the sender, which goes on
            if ends or not journal.hand_over(lambda: self._cache.put(live)):
                await journal.flush(release=ends)
                self._cache.put(live)
            if ends:
                lease.stop()
            run.news = journal.news


async def _begin(database: Database, arrival: Arrival, *, known: bool) -> AcceptedMessage | None:
    """The message, with its session leased. None: nothing is to be done. `known`: the session is known to exist."""
    message: AcceptedMessage | Literal["nothing to do"] | None
    if arrival.control.held is not None:
        await arrival.control.held.write_carried()
        found = await database.read(look_in, arrival) if known or not arrival.create else None
        message = found or await database.run(look_in_or_enter, arrival)
    elif (message := await _enter(database, arrival)) is None:
        with database.waiter(topic(arrival.name)) as waiter:
            while (message := await _enter(database, arrival)) is None:
                await waiter.wait(LOOK_AGAIN)
    return message if isinstance(message, AcceptedMessage) else None


async def _enter(database: Database, arrival: Arrival) -> AcceptedMessage | Literal["nothing to do"] | None:
    entering = asyncio.ensure_future(database.run(enter, arrival))
    try:
        return await asyncio.shield(entering)
    except asyncio.CancelledError:
        # The transaction is not cancelled, and nobody else would know its lease.
        message = await entering
        if isinstance(message, AcceptedMessage):
            await database.run(give_back, message.stored, message.token)
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
        return Busy("The runner was closed before the run ended; the next one continues it.")
    return Busy(
        "The runner was closed before the message was seen to be stored: look at the session before sending again."
    )
