"""A stop ends the reading of a server's run, and no tool is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from adk_confirm import Agent, FunctionTool, Runner
from adk_confirm.bot.hosts.adk_host import read_until_stopped
from adk_confirm.runtime.jsontypes import JsonObject
from adk_confirm.runtime.models.scripted import ScriptedModel, call
from adk_confirm.runtime.run.arrival import RunControl


def event(part: JsonObject) -> JsonObject:
    return {"id": "e", "author": "a", "invocationId": "i", "content": {"role": "model", "parts": [part]}}


CALL = event({"functionCall": {"id": "c1", "name": "work", "args": {}}})
RESULT = event({"functionResponse": {"id": "c1", "name": "work", "response": {}}})
WORDS = event({"text": "Done."})


async def everybody_has_had_their_turn() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_run_is_read_until_no_call_of_it_runs() -> None:
    stop, hung_up = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncIterator[JsonObject]:
        try:
            yield CALL
            stop.set()
            await everybody_has_had_their_turn()
            yield RESULT
            await asyncio.Event().wait()  # the model is asked with the result
            yield WORDS
        finally:
            hung_up.set()

    assert [one async for one in read_until_stopped(events(), stop)] == [CALL, RESULT]
    assert hung_up.is_set()


async def test_a_call_that_was_answered_is_waited_for() -> None:
    stop = asyncio.Event()
    stop.set()

    async def events() -> AsyncIterator[JsonObject]:
        yield RESULT
        await asyncio.Event().wait()

    assert [one async for one in read_until_stopped(events(), stop, ["c1"])] == [RESULT]
    assert [one async for one in read_until_stopped(events(), stop)] == []


async def test_no_tool_begins_after_a_stop_and_the_model_is_not_asked_further() -> None:
    ran: list[str] = []
    stop = asyncio.Event()

    def stops() -> str:
        """Somebody presses stop while this runs."""
        stop.set()
        ran.append("stops")
        return "ok"

    def later() -> str:
        """Comes after the stop."""
        ran.append("later")
        return "ok"

    model = ScriptedModel(call("stops"), call("later"), "Everything ran.", "Hello again.")
    tools = [FunctionTool(stops), FunctionTool(later)]
    async with Runner(Agent(name="a", model=model, instruction="", tools=tools)) as runner:
        run = await runner.start(user_id="u", session_id="s", message="go", create=True, control=RunControl(stop))
        events = [one async for one in run]
        assert ran == ["stops"]
        assert len(model.requests) == 1
        assert not any(one.text for one in events if one.author == "a")

        stop = asyncio.Event()
        said = [one async for one in runner.run(user_id="u", session_id="s", message="later")]
        assert ran == ["stops", "later"]
        assert said[-1].text == "Everything ran."
