"""Runs over HTTP that fail or are interrupted: callers that leave, tools that raise or ask again, unknown outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from adk_confirm import Agent, FunctionTool, Runner, ScriptedModel, ToolContext
from adk_confirm.runtime.models.scripted import call
from adk_confirm.runtime.store.database import Database
from adk_confirm.runtime.store.tables import SCHEMA, lay_out
from adk_confirm.runtime.tool import ToolOutcomeUnknown
from adk_confirm.runtime.wire import FunctionCall
from tests.support.served import browsing, served
from tests.support.twins.client import Client, responses, texts


@asynccontextmanager
async def asking(database: Database, tool: FunctionTool, *script: FunctionCall | str) -> AsyncIterator[Client]:
    """A client in a session of its own, of an agent with this one tool."""
    await lay_out(database, SCHEMA)
    app = Runner(Agent("clerk", ScriptedModel(*script), tools=[tool]), database)
    async with served(app) as url, browsing(url) as http:
        client = Client(http)
        await client.create()
        yield client


def words(text: str) -> dict[str, object]:
    return {"role": "user", "parts": [{"text": text}]}


async def test_a_caller_that_leaves_leaves_its_run_going(database: Database) -> None:
    began, may_end = asyncio.Event(), asyncio.Event()

    async def pay() -> str:
        """Pays."""
        began.set()
        await may_end.wait()
        return "paid"

    async with asking(database, FunctionTool(pay), call("pay"), "It is paid.", "You are welcome.") as ada:
        leaving = asyncio.create_task(ada.post("/run_sse", words("pay")))
        await began.wait()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        may_end.set()
        thanks = await ada.send(words("thanks"))  # waits for its turn
        assert texts(thanks) == ["You are welcome."]
        events = (await ada.look())["events"]
        assert responses(events) == [{"result": "paid"}]
        assert texts(events) == ["pay", "It is paid.", "thanks", "You are welcome."]


async def test_a_failure_after_the_stream_began_is_reported_in_it(database: Database) -> None:
    async def lose_the_session() -> str:
        """As if another process had taken the session over."""
        await database.run(lambda tx: tx.run("UPDATE jobs SET lease_token = 'another', lease_until = 1000000000000.0"))
        return "done"

    lose = call("lose_the_session")
    async with asking(database, FunctionTool(lose_the_session), lose, lose) as ada:
        status, (called, failed) = await ada.post("/run_sse", words("go"))
        assert (status, called["author"]) == (200, "clerk")
        assert "Another process took over" in failed["error"]
        await database.run(lambda tx: tx.run("UPDATE jobs SET lease_token = NULL, lease_until = NULL"))
        status, refused = await ada.post("/run", words("again"))
        assert (status, "Another process took over" in refused["detail"]) == (503, True)


async def test_people_say_the_outcome_of_an_unknown_call(database: Database) -> None:
    runs: list[str] = []

    def wire(tool_context: ToolContext) -> str:
        """Loses its connection the first times."""
        runs.append(tool_context.idempotency_key)
        if len(runs) < 3:
            raise ToolOutcomeUnknown("the line broke")
        return "wired"

    script = (call("wire"), "It seems so.", call("wire"), "It is wired.")
    async with asking(database, FunctionTool(wire, require_confirmation=True), *script) as ada:
        calls = f"{ada.sessions}/s/calls"
        await ada.send(words("wire"))
        [lost] = await ada.answer((ada.request_id(), {"confirmed": True}))
        assert lost["errorCode"] == "OUTCOME_UNKNOWN"
        [stored] = (await ada.request("GET", calls))[1]
        assert (stored["state"], stored["name"], stored["attempt"]) == ("unknown", "wire", 1)
        assert (await ada.request("POST", f"{calls}/{stored['id']}", json={"word": "perhaps"}))[0] == 422
        assert (await ada.request("POST", f"{calls}/none", json={"word": "it happened"}))[0] == 404
        status, events = await ada.request("POST", f"{calls}/{stored['id']}", json={"word": "it happened"})
        assert (status, texts(events)) == (200, ["It seems so."])
        assert "people looked" in responses(events)[0]["status"]
        status, late = await ada.request("POST", f"{calls}/{stored['id']}", json={"word": "it did not"})
        assert (status, "is done:" in late["detail"]) == (409, True)

        await ada.send(words("wire again"))
        await ada.answer((ada.request_id(), {"confirmed": True}))
        second = (await ada.request("GET", calls))[1][1]["id"]
        status, events = await ada.request("POST", f"{calls}/{second}", json={"word": "run again"})
        assert responses(events) == [{"result": "wired"}]
        assert [call["state"] for call in (await ada.request("GET", calls))[1]] == ["done", "done"]
    assert len(runs) == 3
