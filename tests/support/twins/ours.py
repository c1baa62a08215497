"""The agents on our own API, in the tests' process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache

from adk_confirm import Agent, Content, FunctionTool, ModelRequest, ModelResponse, Part, Runner
from adk_confirm.runtime.store.tables import open_store
from adk_confirm.runtime.wire import Dialect
from tests.support.served import served
from tests.support.stores import temporary_store
from tests.support.twins.scenes import CAST, Gate, Prompter, Role


@asynccontextmanager
async def our_server(store: str | None = None, dialect: Dialect = "call") -> AsyncIterator[str]:
    """The base URL of a new server, on this store or on one of its own."""
    async with AsyncExitStack() as stack:
        database = await open_store(store or stack.enter_context(temporary_store()))
        stack.push_async_callback(database.close)
        runners = (Runner(agent(role), database, dialect=dialect) for role in CAST.values())
        yield await stack.enter_async_context(served(*runners))


def agent(role: Role) -> Agent:
    return Agent(
        role.name,
        Scripted(),
        description=role.description,
        tools=[tool(described) for described in role.tools],
        sub_agents=[agent(below) for below in role.below],
    )


@cache  # so that the functions' signatures are read only once
def tool(described: Callable[..., object] | Gate) -> FunctionTool:
    if isinstance(described, Gate):
        return FunctionTool(described.function, require_confirmation=described.when)
    return FunctionTool(described)


_PROMPTER = Prompter()


class Scripted:
    """The same model as on ADK's side."""

    async def generate(self, request: ModelRequest) -> AsyncIterator[ModelResponse]:
        line = _PROMPTER.line([content.to_dict() for content in request.contents])
        if line and "blocked" in line[0]:
            yield ModelResponse(**line[0]["blocked"])
            return
        parts = [Part.model_validate(part) for part in line]
        if request.streaming:
            for part in parts:
                for word in (part.text or "").split():
                    yield ModelResponse(Content.of_text(word, "model"), partial=True)
        yield ModelResponse(Content(role="model", parts=parts), finish_reason="STOP")
