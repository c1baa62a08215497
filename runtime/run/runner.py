"""Runs an app: takes messages, yields events, gives access to sessions, and resumes runs whose process died."""

from __future__ import annotations

import asyncio
import copy
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self

from adk_confirm.runtime.agent import Agent
from adk_confirm.runtime.calls.call import NOBODY_KNOWS, Call, CallEvent, CallState, Finish, Refuse, RunAgain, Word
from adk_confirm.runtime.calls.preview import Preview
from adk_confirm.runtime.errors import Busy, Invalid, NotFound, StoreError
from adk_confirm.runtime.fence import Failed, fenced
from adk_confirm.runtime.jsontypes import Json, JsonObject
from adk_confirm.runtime.models.by_name import Models
from adk_confirm.runtime.requests_and_answers import (
    Answer,
    IncomingMessage,
    RunInput,
    check_state,
    kept_metadata,
    read_message,
)
from adk_confirm.runtime.run.arrival import (
    FREE,
    Arrival,
    CallDecision,
    RunControl,
    decide,
    find_answered_calls,
    invocation_of,
    one_per_call,
)
from adk_confirm.runtime.run.execute import CallEnvironment, preview_of
from adk_confirm.runtime.run.journal import Position, SessionNews
from adk_confirm.runtime.run.sequencer import Run, Sequencer
from adk_confirm.runtime.run.turn_loop import AppContext
from adk_confirm.runtime.store.database import Database, Tx
from adk_confirm.runtime.store.jobs import JobKind, settle
from adk_confirm.runtime.store.lease import TERM, JobKey, Keeper, Lease
from adk_confirm.runtime.store.lease_loop import AGAIN, LeaseLoop
from adk_confirm.runtime.store.seal import Seal
from adk_confirm.runtime.store.sessions import (
    OnChange,
    Writer,
    active,
    create_with,
    delete_session,
    find,
    find_run,
    list_sessions,
    open_desk,
    owe_unfinished,
    read_call,
    read_calls,
    read_events,
    run_kind,
    update_state,
)
from adk_confirm.runtime.store.stored_session import SessionChange, StoredSession, split_temporary
from adk_confirm.runtime.store.tables import SCHEMA, lay_out, open_store
from adk_confirm.runtime.tool import BadArguments, Tool, checked
from adk_confirm.runtime.wire import USER, Dialect, Event, EventActions, SessionId, SessionRecord

log = logging.getLogger(__name__)

STATE_PATIENCE = 60.0


_WORDS: dict[Word, CallEvent] = {
    "it happened": Finish({"status": "It took effect: people looked. Its own result is lost."}),
    "it did not": Finish({"error": "It did not take effect: people looked. Nothing ran."}),
    "run again": RunAgain(),
    "nobody knows": Finish({"error": NOBODY_KNOWS}),
}


class Runner:
    """Runs one app: an agent, with those below it, over a store. It belongs to the event loop that opened it.

    `store` is a URL (`sqlite:///x.db`, `postgresql://…`; in memory without one) or an open `Database`. `desk` makes
    this the runner of a desk (the bot), and is the prefix of its names: only it writes to sessions with such names, and
    to those that it opened. `shares_state` lets any other runner write `app:` state beside a desk. With a `seal`, or a
    `Database` that was opened with one, nobody who can only write to the database can change a call. `on_change` hears
    of each change of a gated call, in the transaction that stores it.
    """

    def __init__(
        self,
        agent: Agent,
        store: str | Database = "sqlite://",
        *,
        app_name: str | None = None,
        dialect: Dialect = "call",
        clock: Callable[[], float] | None = None,
        lease_term: float = TERM,
        model_patience: float = 60.0,
        most_model_calls: int = 500,
        on_change: OnChange | None = None,
        seal: Seal | None = None,
        desk: str | None = None,
        shares_state: bool = False,
        asks_why: Callable[[str], bool] | None = None,
    ) -> None:
        self.agent = agent
        self.app_name = app_name or agent.name
        self._store, self._dialect, self._clock = store, dialect, clock
        self._term, self._model_patience, self._most_model_calls = lease_term, model_patience, most_model_calls
        self._on_change, self._seal, self._prefix, self._asks_why = on_change, seal, desk, asks_why
        self._sender = Writer(desk is not None, shares_state)
        self._models = Models()
        self._opening = asyncio.Lock()
        self._opened: tuple[asyncio.AbstractEventLoop, AppContext] | None = None
        self._sequencer = Sequencer(self._app)

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Database:
        """Opens the store and updates its schema. `run` does this by itself."""
        return (await self._app()).database

    @property
    def is_desk(self) -> bool:
        return self._sender.desk

    async def close(self, *, patience: float = 10.0) -> None:
        """Waits up to `patience` seconds for runs to end. The next process resumes the others."""
        await self._sequencer.close(patience)
        await self.agent.close()
        await self._models.close()
        opened, self._opened = self._opened, None
        if opened is not None and not isinstance(self._store, Database):
            await opened[1].database.close()

    # Sessions

    async def create_session(
        self,
        *,
        user_id: str,
        session_id: str | None = None,
        state: JsonObject | None = None,
        events: Sequence[Event] = (),
    ) -> SessionRecord:
        """Raises `Conflict` if there is a session of that name."""
        name = self._name(user_id, str(uuid.uuid4()) if session_id is None else session_id)
        check_state(state)
        history = SessionChange()
        for number, event in enumerate(events, 1):
            try:
                history.add(event)
            except ValueError as error:
                raise Invalid(f"Event {number} cannot be written as JSON: {error}. No session was made.") from error
        stored = await (await self.open()).run(create_with, name, self.agent.name, state or {}, history, self._sender)
        return _record(stored, list(events))

    async def get_session(self, *, user_id: str, session_id: str) -> SessionRecord | None:
        def read(tx: Tx) -> SessionRecord | None:
            stored = find(tx, self._name(user_id, session_id))
            return None if stored is None else _record(stored, read_events(tx, stored.key))

        return await (await self.open()).read(read)

    async def list_sessions(self, *, user_id: str) -> list[SessionRecord]:
        """The sessions without their events."""
        stored = await (await self.open()).read(list_sessions, self.app_name, user_id)
        return [_record(session, []) for session in stored]

    async def update_state(self, *, user_id: str, session_id: str, delta: JsonObject) -> SessionRecord:
        name = self._name(user_id, session_id)
        check_state(delta)
        kept, _ = split_temporary(delta)
        event = Event(invocation_id=f"p-{uuid.uuid4()}", author=USER, actions=EventActions(state_delta=kept))
        stored = await self._sequencer.when_free(name, STATE_PATIENCE, update_state, name, event, self._sender)
        return _record(stored, await (await self.open()).read(read_events, stored.key))

    async def delete_session(self, *, user_id: str, session_id: str) -> bool:
        return await (await self.open()).run(delete_session, self._name(user_id, session_id), self._sender)

    async def calls(self, *, user_id: str, session_id: str) -> list[Call]:
        """The session's calls and their states, in the order in which they were made."""

        def read(tx: Tx) -> list[Call]:
            stored = find(tx, self._name(user_id, session_id))
            return [] if stored is None else read_calls(tx, stored.key)

        return await (await self.open()).read(read)

    async def news(self, *, user_id: str, session_id: str, since: Position | None = None) -> SessionNews | None:
        """What is new since a position, for callers that look at a session again and again."""

        def read(tx: Tx) -> SessionNews | None:
            stored = find(tx, self._name(user_id, session_id))
            if stored is None:
                return None
            after = since
            if after is not None and (after.key, after.created) != (stored.key, stored.created):
                after = None  # another session of that name
            first, turn = (after.events, after.turn) if after is not None else (0, 0)
            events = tuple(read_events(tx, stored.key, first)) if first < stored.events else ()
            calls = tuple(read_calls(tx, stored.key, turn))
            held = frozenset(call.id for call in calls if call.state is CallState.HELD)
            return SessionNews(after, Position.in_session(stored), events, calls, held)

        database = await self.open()
        return await database.read(read)

    # Messages

    async def run(
        self,
        *,
        user_id: str,
        session_id: str,
        message: RunInput | None = None,
        state_delta: JsonObject | None = None,
        custom_metadata: JsonObject | None = None,
        invocation_id: str | None = None,
        streaming: bool = False,
    ) -> AsyncIterator[Event]:
        """Sends a message to a session, which is created if necessary, and yields the events that follow."""
        run = await self.start(
            user_id=user_id,
            session_id=session_id,
            message=message,
            state_delta=state_delta,
            custom_metadata=custom_metadata,
            invocation_id=invocation_id,
            streaming=streaming,
            create=True,
        )
        async for event in run:
            yield event

    async def start(
        self,
        *,
        user_id: str,
        session_id: str,
        message: RunInput | None = None,
        state_delta: JsonObject | None = None,
        custom_metadata: JsonObject | None = None,
        invocation_id: str | None = None,
        streaming: bool = False,
        create: bool = False,
        mark: str | None = None,
        control: RunControl = FREE,
        previews: Mapping[str, Preview] | None = None,
    ) -> Run:
        """Like `run`, but returns once the message is stored. Raises if the message is not valid.

        Without a message the agent continues with what it knows; with an `invocation_id`, that invocation continues
        where its dead process left it. `custom_metadata` is kept with every event of the run. A repeated message with
        the same `mark` is not stored again, but a run that a crash had stopped continues. Once `control.stop` is set,
        the model is not asked any more and the run ends; but no tool is interrupted, waiting calls keep waiting, and
        approved calls run.

        A sender with a lease (`control.held`) keeps all others from the session, and releases the lease after the run.
        It keeps the message until then, so the message is stored together with the run's results. `previews`: by
        request id, the edited call's preview, as people saw it.
        """
        check_state(state_delta)
        name = self._name(user_id, session_id)
        arrival = replace(self._arrival(name), metadata=kept_metadata(custom_metadata), control=control)
        if message is None and invocation_id is not None:
            arrival = replace(arrival, resumed=invocation_id, state_delta=state_delta)
            return await self._sequencer.enter(arrival, streaming=streaming)
        incoming = read_message(message, state_delta)
        if previews:
            answers = tuple(replace(one, preview=previews.get(one.id)) for one in incoming.answers)
            incoming = replace(incoming, answers=answers)
        if incoming.answers or incoming.foreign or incoming.means_nothing:
            return await self._answer(arrival, incoming, create=create, streaming=streaming)
        arrival = replace(arrival, incoming=incoming, create=create)
        if mark is not None:
            arrival = replace(arrival, invocation_id=invocation_of(arrival.name, mark), marked=True)
        return await self._sequencer.enter(arrival, streaming=streaming)

    async def settle(
        self,
        *,
        user_id: str,
        session_id: str,
        call_id: str,
        word: Word,
        attempt: int | None = None,
        control: RunControl = FREE,
    ) -> Run:
        """Stores what people say about a call whose outcome is unknown. With `attempt`, raises `Conflict` if the call
        is at another attempt."""
        decision = CallDecision(call_id, _WORDS[word], attempt=attempt)
        arrival = self._arrival(self._name(user_id, session_id))
        arrival = replace(arrival, decisions=(decision,), control=control)
        return await self._sequencer.enter(arrival)

    async def preview(self, *, user_id: str, session_id: str, call_id: str, arguments: JsonObject) -> Preview:
        """What a held call would do with these arguments, or why its tool can't say."""
        app, name = await self._app(), self._name(user_id, session_id)

        def read(tx: Tx) -> tuple[Call, JsonObject] | None:
            stored = find(tx, name)
            call = read_call(tx, stored.key, call_id) if stored is not None else None
            return None if stored is None or call is None else (call, {**stored.shared, **stored.state})

        found = await app.database.read(read)
        if found is None:
            return Preview(failed="The call is not there any more.")
        call, state = found
        owner = self.agent.find(call.agent)
        environment = CallEnvironment(name.app, name.user_id, name.id, state, app.dialect)

        async def look() -> Json:
            tools = await fenced(owner.resolve_tools(), app.patience) if owner is not None else {}
            preview = getattr(tools.get(call.tool), "preview", None)
            return await preview(copy.deepcopy(arguments), environment.context(call)) if preview else None

        gone = Preview(failed=f"The tool {call.tool} does not say any more what it would do.")
        return await preview_of(look(), call.tool) or gone

    async def take_up(
        self,
        *,
        user_id: str,
        session_id: str,
        control: RunControl = FREE,
        begins: bool = True,
    ) -> Run:
        """Resumes the session's run, if its process died. With `begins=False` no call begins: the run only finds out
        what became of the calls that were running."""
        name = self._name(user_id, session_id)
        if await (await self.open()).read(active, name):
            return await self._sequencer.enter(replace(self._arrival(name), control=control, begins=begins))
        return _empty_run()

    async def attend(self) -> None:
        """Continues, until cancelled, the runs that dead processes left behind, here or elsewhere. In sessions that no
        desk (the bot) opened, it gives up calls that were unknown for a day."""
        app, opened_by = await self._app(), self._sender.opens
        while True:
            try:
                await app.database.run(owe_unfinished, self.app_name, opened_by)
                break
            except (StoreError, Busy) as error:
                log.warning("could not look for unfinished work, and will try again: %s", error)
            await asyncio.sleep(AGAIN)
        name = run_kind(self.app_name, opened_by)
        kind = JobKind(name, lambda tx, key: find_run(tx, JobKey(name, key)), self._go_on)
        await LeaseLoop(app.database, kind, term=self._term, keeper=app.keeper).run()

    async def _go_on(self, key: str, lease: Lease, found: tuple[SessionId, list[Call]] | None) -> None:
        """Resumes a session's run, and gives up its calls that were unknown for a day. The lease is for its job."""
        if found is None:
            await lease.finish(settle, lease.job.kind, key)
            return
        name, unknown = found
        decisions = tuple(CallDecision(call.id, _WORDS["nobody knows"], attempt=call.attempt) for call in unknown)
        run = await self._sequencer.enter(
            replace(self._arrival(name), decisions=decisions, control=RunControl(held=lease))
        )
        try:
            async for _ in run:
                pass
        finally:
            await run.close()

    # Helpers

    def _name(self, user_id: str, session_id: str) -> SessionId:
        return SessionId(self.app_name, user_id, session_id)

    async def _answer(
        self,
        arrival: Arrival,
        incoming: IncomingMessage,
        *,
        create: bool,
        streaming: bool,
    ) -> Run:
        name = arrival.name
        if _needs_no_tools(incoming) and not self._sequencer.is_busy_with(name):
            return await self._sequencer.enter(replace(arrival, incoming=incoming), streaming=streaming)
        database = await self.open()
        found = await database.read(find_answered_calls, name, incoming, arrival.sender)
        if found is None and (incoming.answers or not create):
            raise NotFound(f"Session not found: {name.id}")
        decided = [await self._decide(incoming, *one) for one in found or ()]
        decisions = one_per_call([decision for decision in decided if decision])
        if decisions:
            arrival = replace(arrival, incoming=incoming, decisions=decisions)
            return await self._sequencer.enter(arrival, streaming=streaming)
        # No answer is new. If the process died that worked on their invocations, its run is resumed.
        asking = [call.invocation_id for _, call in found or ()]
        owed = await database.read(active, name, asking)
        if owed:
            return await self._sequencer.enter(replace(arrival, metadata=None), streaming=streaming)
        return _empty_run()

    async def _decide(self, incoming: IncomingMessage, answer: Answer, call: Call) -> CallDecision | None:
        owner = self.agent.find(call.agent) if answer.payload is not None else None
        tools = await _checking_tools(owner, self._model_patience) if owner else {}
        tool, part = tools.get(call.tool), incoming.content_of(answer)
        decided = partial(decide, answer, call, tool, part, final=self.is_desk)
        try:
            return decided() if tool is None else await checked(decided, call.tool, self._model_patience)
        except BadArguments as error:
            if not self.is_desk:
                raise
            return CallDecision(call.id, Refuse(f"{error} Nothing ran."), answer, part)

    def _arrival(self, name: SessionId) -> Arrival:
        clock = self._clock or time.time
        return Arrival(name, self.agent.name, self._term, sender=self._sender, clock=clock, on_change=self._on_change)

    async def _app(self) -> AppContext:
        loop = asyncio.get_running_loop()
        if self._opened is not None and self._opened[0] is not loop:
            raise StoreError("This Runner works in another event loop: close it there, or make one for each loop.")
        async with self._opening:
            if self._opened is None:
                self._opened = loop, await self._open_app()
        return self._opened[1]

    async def _open_app(self) -> AppContext:
        if isinstance(self._store, Database):
            database = self._store
            await lay_out(database, SCHEMA)
        else:
            database = await open_store(self._store, self._clock, self._seal)
        if self._prefix is not None:
            await database.run(open_desk, self.app_name, self._prefix)
        return AppContext(
            database=database,
            root=self.agent,
            resolve=self._models.resolve,
            clock=self._clock or time.time,
            lease_term=self._term,
            keeper=Keeper(database, self._term),
            dialect=self._dialect,
            patience=self._model_patience,
            most_model_calls=self._most_model_calls,
            asks_why=self._asks_why or (lambda _: False),
        )


def _record(stored: StoredSession, events: list[Event]) -> SessionRecord:
    return SessionRecord(
        id=stored.name.id,
        app_name=stored.name.app,
        user_id=stored.name.user_id,
        state={**stored.shared, **stored.state},
        events=events,
        last_update_time=stored.updated,
    )


def _needs_no_tools(incoming: IncomingMessage) -> bool:
    """Whether all answers are plain approvals or denials, which the transaction that stores them can decide."""
    plain = [answer.payload is None and not answer.question for answer in incoming.answers]
    return bool(plain) and all(plain) and not incoming.foreign


async def _checking_tools(owner: Agent, patience: float) -> Mapping[str, Tool]:
    """The tools against which an edit is checked. Raises `Busy` if they are not available: nothing is stored then."""
    try:
        return await fenced(owner.resolve_tools(), patience)
    except Failed as error:
        raise Busy(
            f"The tools of {owner.name} can't be reached now, so the payload could not be checked "
            f"({error}). Nothing was stored: try again later."
        ) from error


def _empty_run() -> Run:
    run = Run()
    run.end()
    return run
