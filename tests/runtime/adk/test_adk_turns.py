"""Runs of one session take turns, and each sees what the runs before it did."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from adk_confirm import ConfirmationPlugin
from adk_confirm.runtime.adk.signing import Turns
from tests.support.foreign.alone import Alone, ran

pytestmark = pytest.mark.filterwarnings("ignore")  # google-adk warns about itself


class Late:
    """Sessions of google-adk's; once, what was read of one arrives only when the door opens."""

    next_is_late = False

    def opens_later(self) -> None:
        self.next_is_late, self.was_read, self.door = True, asyncio.Event(), asyncio.Event()

    async def get_session(self, **whose: Any) -> Session | None:
        late, self.next_is_late = self.next_is_late, False
        found: Session | None = await super().get_session(**whose)  # type: ignore[misc]  # the service's
        if late:
            self.was_read.set()
            await self.door.wait()
        return found


class InMemory(Late, InMemorySessionService): ...


class OnDisk(Late, SqliteSessionService): ...


async def test_an_answer_whose_run_has_read_the_session_before_does_not_run_the_tool_again() -> None:
    sessions = InMemory()
    at = Alone(ConfirmationPlugin(unsigned=True), sessions=sessions)
    asked = await at.asks("please deploy search")
    sessions.opens_later()
    second = asyncio.create_task(at.answer(asked, {"confirmed": True}))
    await sessions.was_read.wait()

    await at.answer(asked, {"confirmed": True})  # begins, runs and ends, and nobody waits for it
    sessions.door.set()
    await second
    assert ran() == [{"tool": "deploy", "service": "search"}]


async def test_words_whose_run_has_read_the_session_before_are_said_all_the_same(tmp_path: Path) -> None:
    """On a database google-adk refuses whoever has not seen the latest."""
    sessions = OnDisk(str(tmp_path / "sessions.db"))
    at = Alone(ConfirmationPlugin(unsigned=True), sessions=sessions)
    asked = await at.asks("please deploy search")
    sessions.opens_later()
    words = asyncio.create_task(at.tell(types.Part(text="and now?")))
    await sessions.was_read.wait()

    await at.answer(asked, {"confirmed": True})
    sessions.door.set()
    assert [text for event in await words if (text := texts_of(event))] == ["I see: and now?"]
    assert ran() == [{"tool": "deploy", "service": "search"}]


def texts_of(event: Event) -> str:
    return "".join(part.text or "" for part in (event.content.parts if event.content else None) or ())


class TestTurns:
    async def test_runs_of_one_session_wait_for_each_other(self) -> None:
        turns, first, second = Turns(), object(), object()
        assert await turns.take("s", first)
        assert not await turns.take("s", first)  # it asks at every step
        waiting = asyncio.create_task(turns.take("s", second))
        assert await asyncio.create_task(turns.take("another", object()))
        assert not waiting.done()
        turns.leave("s", second)  # it is not its turn to leave
        assert not waiting.done()
        turns.leave("s", first)
        assert await waiting

    async def test_a_run_that_broke_off_holds_nobody_up(self) -> None:
        turns = Turns()
        await asyncio.create_task(turns.take("s", object()))
        assert await turns.take("s", object())
        assert await turns.take("s", object())  # the same task, whose run before broke off
