"""Stops a run on a server: stops reading its events as soon as none of its calls runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

from adk_confirm.bot.hosts.events import event_from
from adk_confirm.runtime.errors import Invalid
from adk_confirm.runtime.jsontypes import JsonObject


async def read_until_stopped(
    events: AsyncIterator[JsonObject], stop: asyncio.Event, running: Iterable[str] = ()
) -> AsyncIterator[JsonObject]:
    """The events up to the stop. `running`: the ids of calls that start with this run.

    Servers end a run when its reader disconnects, which would interrupt a running tool. So the tool's result is
    awaited.
    """
    under_way = set(running)
    came: asyncio.Queue[JsonObject | None] = asyncio.Queue()

    async def read() -> None:
        try:
            async for event in events:
                came.put_nowait(event)
        finally:
            came.put_nowait(None)

    reading, stopped = asyncio.create_task(read()), asyncio.create_task(stop.wait())
    try:
        while not (stop.is_set() and not under_way and came.empty()):
            coming = asyncio.create_task(came.get())
            await asyncio.wait({coming} if under_way else {coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                coming.cancel()
                break
            event = coming.result()
            if event is None:
                await reading  # raises the run's error, if any
                break
            under_way = _running_after(under_way, event)
            yield event
    finally:
        stopped.cancel()
        reading.cancel()
        await asyncio.wait({reading})


def _running_after(before: set[str], raw: JsonObject) -> set[str]:
    """The calls that run after this event."""
    try:
        event = event_from(raw)
    except Invalid:
        return before
    if event.partial:
        return before
    parts = (event.content.parts if event.content else None) or []
    begun = {part.function_call.id for part in parts if part.function_call is not None and part.function_call.id}
    ended = {part.function_response.id for part in parts if part.function_response is not None}
    return (before | (begun - set(event.long_running_tool_ids or ()))) - ended
