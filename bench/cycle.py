"""Cycles a second: message, request, approval, tool, final text. Ours against google-adk, each with its Gemini class.

A session without a history, or with a short one, does one cycle; one with a long history does a few.
"""

from __future__ import annotations

import asyncio
import gc
import math
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from adk_confirm import Agent, Answer, Content, Event, FunctionTool, Runner, requests_in
from bench.charts import draw
from bench.figures import Goal, Rounds, goals, table, times
from bench.scripted_gemini import DONE, MODEL, WORDS, scripted_gemini

USER = "bench"
HISTORIES = (0, 100, 1_000)
AT_ONCE = (16,)
LONG = 1_000
"""From this number of events on, all rounds of a google-adk service share one history, and no cycle is left out: each
takes a second or more, and the first no longer than the others."""
_numbers = count(1)

Cycle = Callable[[], Awaitable[None]]
Write = Callable[[Any, list[Any]], None]


@dataclass(frozen=True)
class Size:
    rounds: int = 3
    cycles: int = 60
    seconds: float = 2.0
    histories: tuple[int, ...] = HISTORIES
    at_once: tuple[int, ...] = AT_ONCE


QUICK = Size(rounds=1, cycles=12, seconds=1.0, histories=(0, 1_000), at_once=(16,))


class Subject(Protocol):
    name: str

    async def session(self, events: int) -> Cycle:
        """Makes a session with this many events. The function that it returns does one cycle in it."""
        ...


def reimburse(purpose: str, amount: float) -> dict[str, object]:
    """Transfers an amount."""
    return {"status": "ok", "purpose": purpose, "amount": amount}


class Ours:
    def __init__(self, name: str, runner: Runner) -> None:
        self.name, self._runner = name, runner

    async def session(self, events: int) -> Cycle:
        name = f"s{next(_numbers)}"
        history = [
            Event(
                invocation_id=f"e-{n // 2}",
                author="clerk" if n % 2 else "user",
                content=Content.of_text(f"message {n}", "model" if n % 2 else "user"),
            )
            for n in range(events)
        ]
        await self._runner.create_session(user_id=USER, session_id=name, events=history)

        async def say(message: str | Answer) -> list[Event]:
            return [event async for event in self._runner.run(user_id=USER, session_id=name, message=message)]

        async def cycle() -> None:
            (asked,) = [request for event in await say(WORDS) for request in requests_in(event)]
            said = await say(Answer(asked.id, True))
            assert said[-1].text == DONE, said

        return cycle


class Adk:
    def __init__(self, name: str, sessions: Any, write: Write | None = None) -> None:
        """`write` writes the events of a history into a session."""
        from google.adk.agents import LlmAgent
        from google.adk.models.google_llm import Gemini
        from google.adk.runners import Runner as AdkRunner
        from google.adk.tools.function_tool import FunctionTool as AdkTool

        self.name, self._sessions, self._write = name, sessions, write
        agent = LlmAgent(name="clerk", model=Gemini(model=MODEL), tools=[AdkTool(reimburse, require_confirmation=True)])
        self._runner = AdkRunner(agent=agent, app_name="clerk", session_service=sessions)
        self._long: dict[int, Cycle] = {}

    async def session(self, events: int) -> Cycle:
        if events < LONG:
            return self._cycle(await self._with_history(events))
        if events not in self._long:
            self._long[events] = self._cycle(await self._with_history(events))
        return self._long[events]

    def _cycle(self, session: Any) -> Cycle:
        from google.genai import types

        async def say(part: types.Part) -> list[Any]:
            said = types.Content(role="user", parts=[part])
            running = self._runner.run_async(user_id=USER, session_id=session.id, new_message=said)
            return [event async for event in running]

        async def cycle() -> None:
            events = await say(types.Part(text=WORDS))
            calls = [call for event in events for call in event.get_function_calls()]
            (asked,) = [call.id for call in calls if call.name == "adk_request_confirmation"]
            response = types.FunctionResponse(id=asked, name="adk_request_confirmation", response={"confirmed": True})
            said = await say(types.Part(function_response=response))
            assert said[-1].content.parts[0].text == DONE, said

        return cycle

    async def _with_history(self, events: int) -> Any:
        from google.adk.events import Event as AdkEvent
        from google.genai import types

        session = await self._sessions.create_session(app_name="clerk", user_id=USER)
        history = []
        for n in range(events):
            content = types.Content(role="model" if n % 2 else "user", parts=[types.Part(text=f"message {n}")])
            author = "clerk" if n % 2 else "user"
            history.append(AdkEvent(invocation_id=f"e-{n // 2}", author=author, content=content))
        if self._write is not None:
            self._write(session, history)
        else:
            for event in history:
                await self._sessions.append_event(session, event)
        return session


# Appended one by one, 1,000 events take `DatabaseSessionService` several seconds. These write the same rows at once.


def write_as_database_service(file: Path, session: Any, history: list[Any]) -> None:
    from google.adk.sessions.schemas.v1 import StorageEvent
    from sqlalchemy import create_engine
    from sqlalchemy.orm import Session

    engine = create_engine(f"sqlite:///{file}")
    with Session(engine) as store:
        store.add_all([StorageEvent.from_event(session, event) for event in history])
        store.commit()
    engine.dispose()


def _write_as_sqlite_service(file: Path, session: Any, history: list[Any]) -> None:
    rows = [
        (
            "clerk",
            USER,
            session.id,
            event.id,
            event.invocation_id,
            event.timestamp,
            event.model_dump_json(exclude_none=True),
        )
        for event in history
    ]
    columns = "app_name, user_id, session_id, id, invocation_id, timestamp, event_data"
    with closing(sqlite3.connect(file)) as store:
        store.executemany(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        store.commit()


async def measured(folder: Path, postgres: str, *, quick: bool = False) -> str:
    size = QUICK if quick else Size()
    with scripted_gemini():
        async with AsyncExitStack() as stack:
            subjects = [*await _ours(stack, folder, postgres), *_adks(folder)]
            found = Rounds()
            for _ in range(size.rounds):
                for events in size.histories:
                    for subject in subjects:
                        rate = await _one_cycle_each(subject, events, size.cycles)
                        found.add(subject.name, f"{events}", value=rate)
                for sessions in size.at_once:
                    for subject in subjects:
                        rate = await _many_sessions(subject, sessions, size.seconds)
                        found.add(subject.name, f"at once {sessions}", value=rate)
    return _text(found, [subject.name for subject in subjects], size, folder)


async def _ours(stack: AsyncExitStack, folder: Path, postgres: str) -> list[Subject]:
    made: list[Subject] = []
    for name, url in (("ours, SQLite", f"sqlite:///{folder / 'ours.db'}"), ("ours, PostgreSQL", postgres)):
        agent = Agent("clerk", MODEL, tools=[FunctionTool(reimburse, require_confirmation=True)])
        made.append(Ours(name, await stack.enter_async_context(Runner(agent, url, app_name=f"cycle-{folder.name}"))))
    return made


def _adks(folder: Path) -> list[Subject]:
    from google.adk.sessions import DatabaseSessionService, InMemorySessionService
    from google.adk.sessions.sqlite_session_service import SqliteSessionService

    database, sqlite = folder / "adk.db", folder / "adk-sqlite.db"
    return [
        Adk("google-adk, memory", InMemorySessionService()),
        Adk(
            "google-adk, `DatabaseSessionService` on SQLite",
            DatabaseSessionService(f"sqlite+aiosqlite:///{database}"),
            partial(write_as_database_service, database),
        ),
        Adk(
            "google-adk, `SqliteSessionService`",
            SqliteSessionService(str(sqlite)),
            partial(_write_as_sqlite_service, sqlite),
        ),
    ]


async def _one_cycle_each(subject: Subject, events: int, cycles: int) -> float:
    """One session after the other. Each does one cycle, so that its history is as long as the column says; in a long
    one a few cycles change little, and making many would take minutes. So that all are measured for about a second,
    both sides do fewer with a longer history, and google-adk a sixth of our cycles."""
    ours = isinstance(subject, Ours)
    wanted = max(1, cycles // (1 if ours else 6) // (1 + events // 100))
    if events < LONG:
        await (await subject.session(events))()  # not counted: the first one warms up
        sessions = [await subject.session(events) for _ in range(wanted)]
    else:
        sessions = [await subject.session(events)] * wanted
        if ours:
            await sessions[0]()
    _collect_garbage()
    began = time.perf_counter()
    for cycle in sessions:
        await cycle()
    return wanted / (time.perf_counter() - began)


async def _many_sessions(subject: Subject, sessions: int, seconds: float) -> float:
    """Several sessions at once, for a while. Failures of google-adk ("database is locked") are not counted."""
    cycles = [await subject.session(0) for _ in range(sessions)]
    _collect_garbage()
    began = time.perf_counter()

    async def several(cycle: Cycle) -> int:
        done = 0
        while time.perf_counter() - began < seconds:
            try:
                await cycle()
            except Exception:
                if isinstance(subject, Ours):
                    raise
            else:
                done += 1
        return done

    done = await asyncio.gather(*(several(cycle) for cycle in cycles))
    return sum(done) / (time.perf_counter() - began)


def _collect_garbage() -> None:
    """Collects garbage. All sides run in one process, and none should pay for what another left."""
    gc.collect()
    gc.freeze()


def _text(found: Rounds, names: list[str], size: Size, folder: Path) -> str:
    ours = [name for name in names if name.startswith("ours")]
    stored = [name for name in names if name.startswith("google-adk") and "memory" not in name]
    columns = [(f"{events}", f"{events:,} events") for events in size.histories]
    columns += [(f"at once {sessions}", f"{sessions} sessions at once") for sessions in size.at_once]
    rows = [[name, *(found.shown(name, column) for column, _ in columns)] for name in names]
    for name in ours:
        ratios = [_ratio(found, name, stored, column) for column, _ in columns]
        rows.append([f"**{name} / google-adk's faster store**", *(f"**{times(ratio)}**" for ratio in ratios)])
    first, last = (times(_ratio(found, ours[0], stored, f"{of}")) for of in (size.histories[0], size.histories[-1]))
    title = f"{first} google-adk's faster store, {last} at {size.histories[-1]:,} events"
    flat: list[str] = []
    for name in ours:
        parts = [(events, found.median(name, str(events)) / found.median(name, "0")) for events in size.histories[1:]]
        flat.append(f"{name} {', '.join(f'{part:.2f} at {events:,} events' for events, part in parts)}")
    return "\n\n".join(
        [
            "A cycle is: message, request, approval, tool, final text. The numbers are cycles a second, through each "
            "side's public `Runner` and its own Gemini class. google-genai's HTTP is replaced by the same script for "
            "both, so no network is measured. Ours writes with `synchronous=FULL`, PostgreSQL with `fsync=on`; "
            "google-adk's services have their defaults. The columns with events are a session with a history of "
            "that length, a fresh one for each cycle below 1,000; the others are sessions without one. With many "
            "sessions at once, google-adk's stores are often locked; cycles that fail because of that are not counted.",
            draw(
                folder,
                "cycles",
                f"{title}. Cycles a second against the events in the session, higher is better.",
                title,
                {
                    name.replace("`", "").removesuffix(" on SQLite"): [
                        *enumerate(found.median(name, f"{n}") for n in size.histories)
                    ]
                    for name in names
                },
                columns=" ".join(f"{events:,}" for events in size.histories),
                xlabel="events in the session",
                ylabel="cycles a second, higher is better",
            ),
            table(["", *(head for _, head in columns)], rows),
            f"Our rate with a history, as a part of the rate without one: {'; '.join(flat)}.",
            _goals(found, stored),
        ]
    )


def _ratio(found: Rounds, ours: str, stored: list[str], column: str) -> float:
    theirs = max(found.median(name, column) for name in stored)
    return found.median(ours, column) / theirs if theirs else math.inf


_WAITS = (
    "one session does everything in turn. On a quiet machine most of its time is CPU, about 4 ms: 2.1 on the event "
    "loop, and 1.8 in the store's thread, where the bare statements would take 1.0, more than half of it for their "
    "six fsyncs. The rest is spread over events, calls, their JSON and asyncio, a few percent each. Then it waits "
    "for the fsyncs, and a dozen times for a thread to wake up. Going on would cost a runtime that keeps a session in "
    "memory and checks its version only as it writes: three of the reads, and no fsync"
)
_BUSY = (
    "one process does all of it, on one core. A cycle takes 2.2 to 2.9 ms of CPU: 0.8 to 1.0 in the store's thread, "
    "0.3 with the model, and the rest spread over events, calls, their JSON and asyncio, a few percent each. 16 "
    "sessions at once also wait for the disk now and then. Going on would cost several processes: they share the "
    "store already, and each adds a core"
)
_APART = (
    "google-genai takes the whole history apart for each request, and both sides ask it twice in a cycle. Going on "
    "would cost a way around google-genai: its JSON of each event, made once and kept"
)
_SIX = (
    "each of the six keeps a promise ([what is written when](runtime.md#what-is-written-when)). 16 sessions at once "
    "share commits, and need about 1.4 fsyncs for each cycle. On a disk that takes tens of milliseconds for an fsync a "
    "call starts so much later. Going on would cost one of the promises"
)


def _goals(found: Rounds, stored: list[str]) -> str:
    ours = "ours, SQLite"

    def ratio(wanted: float, column: str, what: str, reason: str) -> Goal:
        reached = _ratio(found, ours, stored, column)
        return Goal(f"{what}: {wanted:g} times google-adk's faster store", times(reached), reached >= wanted, reason)

    checked = [ratio(5, "0", "one session, no history", _WAITS), ratio(5, "at once 16", "16 sessions", _BUSY)]
    if found.has(ours, "1000"):
        checked.append(ratio(5, "1000", "1,000 events", _APART))
    return goals(*checked, Goal("5 transactions and 4 fsyncs a cycle", "6 and 6", False, _SIX))
