"""An agent that does what a message says: each line is a tool's name and its arguments as JSON.

    @adk-confirm pay {"to": "Ada", "amount": 20}

Every effect leaves a line in the log. If LAB_GATE names a file, `work`, `redo`, `sleeps`, `tends` and `freezes` begin,
and end once that file exists. The same goes for the preview of the table `slow`, for the model at `think`, and at
`speak`, when it says word after word until then. Other words that are no call: `fail` breaks the model, `repeat 9000 x`
says x that often. A message that ends with `at length` gets a reply so long that it shares a message with nothing else.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from adk_confirm import (
    Agent,
    Content,
    FunctionCall,
    FunctionTool,
    ModelFailure,
    ModelRequest,
    ModelResponse,
    ScriptedModel,
    ToolContext,
)
from adk_confirm.runtime.jsontypes import Json, JsonObject, canonical
from adk_confirm.runtime.models.scripted import ScriptLine
from adk_confirm.runtime.tool import ToolOutcomeUnknown

LOOK_AGAIN = 0.01
PACE = 0.05


def pay(to: str, amount: int, tool_context: ToolContext, token: str = "") -> JsonObject:
    """Pays somebody.

    Args:
        to: who gets it.
        amount: how much.
        token: what opens the safe.
    """
    return _log("pay", tool_context, to=to, amount=amount, token=token)


def delete_project(project: str, tool_context: ToolContext, recursive: bool = True, force: bool = False) -> JsonObject:
    """Deletes a project."""
    return _log("delete_project", tool_context, project=project, recursive=recursive, force=force)


def migrate(table: str, tool_context: ToolContext, token: str = "") -> JsonObject:
    """Changes a table."""
    made = _log("migrate", tool_context, table=table)
    if plan.get("breaks"):
        raise ToolOutcomeUnknown("The connection broke.")
    return made


plan: dict[str, Json | Exception] = {}
"""What `migrate` would do, as the test says. Under "breaks": whether it can't say what it did."""


def reindex(table: str, tool_context: ToolContext) -> JsonObject:
    """Does the same, and its preview has little time."""
    return _log("reindex", tool_context, table=table)


async def plan_of(table: str) -> Json:
    if table == "slow":
        Path(os.environ["ADK_CONFIRM_DEMO_LOG"]).with_name("plans").touch()
        await _gate_opens()
    shows = plan.get("shows", f"drops {table}.old")
    if isinstance(shows, Exception):
        raise shows
    return shows


async def work(on: str, tool_context: ToolContext) -> JsonObject:
    """Takes as long as the test lets it take."""
    _log("begins", tool_context, on=on)
    await _gate_opens()
    return _log("work", tool_context, on=on)


async def redo(on: str, tool_context: ToolContext) -> JsonObject:
    """The same, and may be run again."""
    _log("begins", tool_context, on=on)
    await _gate_opens()
    return _log("redo", tool_context, on=on)


def sleeps(on: str, tool_context: ToolContext) -> JsonObject:
    """The same in a thread."""
    _log("begins", tool_context, on=on)
    while _gate_is_shut():
        time.sleep(LOOK_AGAIN)
    return _log("sleeps", tool_context, on=on)


def tends(on: str, tool_context: ToolContext) -> JsonObject:
    """The same, and may be run again. Its first line says whether no other runs beside it, in whatever process."""
    with Path(os.environ["ADK_CONFIRM_DEMO_LOG"]).with_name("tends").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return _log("tends beside another", tool_context, on=on)
        sleeps(on, tool_context)
        return _log("tends", tool_context, on=on)


async def freezes(on: str, tool_context: ToolContext) -> JsonObject:
    """Holds up the whole event loop."""
    return sleeps(on, tool_context)


def breaks(why: str) -> JsonObject:
    """Raises."""
    raise RuntimeError(why)


def order(
    item: Literal["pen", "ink"],
    count: Annotated[int, Field(ge=1, le=100)],
    price: float,
    express: bool,
    on: date,
    tags: list[str],
    tool_context: ToolContext,
    note: str = "",
) -> JsonObject:
    """Takes every kind of argument."""
    return _log(
        "order", tool_context, item=item, count=count, price=price, express=express, on=str(on), tags=tags, note=note
    )


class Owner(BaseModel):
    name: str
    mail: str
    pager: int = 0


def launch(
    day: Annotated[str, Field(json_schema_extra={"format": "date"})],
    starts_at: Annotated[str, Field(json_schema_extra={"format": "date-time"})],
    regions: list[Literal["eu", "us", "asia"]],
    tell: list[str],
    owner: Owner,
    tool_context: ToolContext,
) -> JsonObject:
    """Takes what people pick."""
    picked = {"day": day, "starts_at": starts_at, "regions": regions, "tell": tell, "owner": owner.model_dump()}
    return _log("launch", tool_context, **picked)


def loses(what: str) -> JsonObject:
    """Can't say whether it happened."""
    raise ToolOutcomeUnknown(f"The connection broke: {what}.")


def note(text: str, tool_context: ToolContext) -> JsonObject:
    """Needs nobody's word."""
    return _log("note", tool_context, text=text)


class Wish(BaseModel):
    colour: Literal["red", "blue"]
    size: int
    why: str = ""


def survey(topic: str, tool_context: ToolContext) -> JsonObject:
    """Asks people, then notes what they said."""
    if tool_context.answer is None:
        tool_context.request_input(f"What about {topic}?", schema=Wish)
        return {"status": "waits for an answer"}
    return _log("survey", tool_context, topic=topic, answer=tool_context.answer)


def name_it(tool_context: ToolContext) -> JsonObject:
    """Asks for a text."""
    if tool_context.answer is None:
        tool_context.request_input("What shall it be called?")
        return {"status": "waits for a name"}
    return _log("name_it", tool_context, name=tool_context.answer)


def agree(terms: str, tool_context: ToolContext) -> JsonObject:
    """Asks twice: for the price, then for the date."""
    confirmation = tool_context.tool_confirmation
    if confirmation is None:
        tool_context.request_confirmation(hint=f"A price for {terms}?", payload={"price": 10})
        return {"status": "waits for the price"}
    payload = confirmation.payload if isinstance(confirmation.payload, dict) else {}
    if "price" in payload:
        tool_context.state["price"] = payload["price"]
        tool_context.request_confirmation(hint=f"A date for {terms}?", payload={"date": "monday"})
        return {"status": "waits for the date"}
    return _log("agree", tool_context, terms=terms, price=tool_context.state.get("price"), date=payload.get("date"))


def reply(request: ModelRequest) -> ScriptLine:
    last = request.contents[-1] if request.contents else Content()
    results = [f"{result.name}: {canonical(result.response)}" for result in last.responses()]
    if results:
        at_length = any(content.text.endswith("at length") for content in request.contents)
        return "\n".join([*results, "And so on. " * 400] if at_length else results)
    offered = {tool.name for tool in request.tools}
    calls = [asked for line in last.text.splitlines() if (asked := _call(line, offered)) is not None]
    return calls or _words(last.text)


class Thoughtful(ScriptedModel):
    """A model that waits at `think` or `speak` as long as the test wants."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        asked = request.contents[-1].text if request.contents else ""
        if asked.startswith("think"):
            Path(os.environ["ADK_CONFIRM_DEMO_LOG"]).with_name("thinks").touch()
            await _gate_opens()
        if asked.startswith("speak"):
            async for response in _speak():
                yield response
            return
        async for response in super().generate(request):
            yield response


async def _gate_opens() -> None:
    while _gate_is_shut():
        await asyncio.sleep(LOOK_AGAIN)


async def _speak() -> AsyncIterator[ModelResponse]:
    words = ["It "]
    while _gate_is_shut():
        yield ModelResponse(Content.of_text(words[-1], "model"), partial=True)
        await asyncio.sleep(PACE)
        words.append("goes on, ")
    yield ModelResponse(Content.of_text("".join(words) + "and ends.", "model"), finish_reason="STOP")


def _gate_is_shut() -> bool:
    gate = os.environ.get("LAB_GATE")
    return bool(gate) and not Path(gate or "").exists()


def _call(line: str, offered: set[str]) -> FunctionCall | None:
    name, _, arguments = line.strip().partition(" ")
    return FunctionCall(name=name, args=json.loads(arguments)) if name in offered else None


def _words(text: str) -> ScriptLine:
    match text.split():
        case ["fail", *why]:
            return ModelFailure("OUT_OF_ORDER", " ".join(why) or "The model is out of order.")
        case ["repeat", times, what]:
            return " ".join(f"{what}{number}" for number in range(int(times)))
        case ["nothing"]:
            return ""
    return f"You said: {text}"


def _log(tool: str, context: ToolContext, **what: object) -> JsonObject:
    line = json.dumps({"tool": tool, **what, "call": context.function_call_id})
    with Path(os.environ["ADK_CONFIRM_DEMO_LOG"]).open("a", encoding="utf-8") as file:
        file.write(f"{line}\n")
    return {"did": tool}


agent = Agent(
    name="lab",
    model=Thoughtful(reply=reply),
    tools=[
        FunctionTool(pay, require_confirmation=True),
        FunctionTool(delete_project, require_confirmation=True, title="Delete {project}, recursive {recursive}"),
        FunctionTool(work, require_confirmation=True),
        FunctionTool(redo, require_confirmation=True, idempotent=True),
        FunctionTool(sleeps, require_confirmation=True),
        FunctionTool(tends, require_confirmation=True, idempotent=True),
        FunctionTool(freezes, require_confirmation=True),
        FunctionTool(migrate, require_confirmation=True, preview=plan_of),
        FunctionTool(reindex, require_confirmation=True, preview=plan_of, preview_timeout=0.2),
        FunctionTool(breaks, require_confirmation=True),
        FunctionTool(loses, require_confirmation=True),
        FunctionTool(order, require_confirmation=True),
        FunctionTool(launch, require_confirmation=True),
        note,
        agree,
        survey,
        name_it,
    ],
)
